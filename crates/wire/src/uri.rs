//! Pieces of URIs as bytes (RFC 3986): authorities, paths, queries. Nothing is decoded and nothing is copied.

use crate::h1::scan::{HOST, IPV6};

/// The schemes of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `http`
    Http,
    /// `https`
    Https,
}

impl Scheme {
    /// The port that is meant when none is written.
    pub const fn port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }

    /// Bytes of `http://` or `https://`.
    pub(crate) const fn prefix_len(self) -> usize {
        match self {
            Scheme::Http => 7,
            Scheme::Https => 8,
        }
    }
}

/// The scheme of an absolute URI, in any case.
pub fn scheme(uri: &[u8]) -> Option<Scheme> {
    let starts = |prefix: &[u8]| {
        uri.get(..prefix.len())
            .is_some_and(|s| s.eq_ignore_ascii_case(prefix))
    };
    if starts(b"http://") {
        Some(Scheme::Http)
    } else if starts(b"https://") {
        Some(Scheme::Https)
    } else {
        None
    }
}

/// Whether `text` is `host` or `host:port`, with a host that a name server or an address could have: letters, digits and
/// `-._~`, or an address in brackets; the port up to 65535 or empty.
pub fn is_authority(text: &[u8]) -> bool {
    let (host, port) = split(text);
    let host_ok = match host {
        [b'[', inner @ .., b']'] => inner.len() > 1 && inner.iter().all(|&b| IPV6[b as usize]),
        [] => false,
        _ => host.iter().all(|&b| HOST[b as usize]),
    };
    host_ok && port.is_none_or(|digits| digits.is_empty() || number(digits).is_some())
}

/// The port of an authority, if one is written.
pub fn port(authority: &[u8]) -> Option<u16> {
    split(authority).1.and_then(number)
}

/// The host of an authority: without port, without a final dot, brackets kept, case kept. Compare with [`same_host`].
pub fn host(authority: &[u8]) -> &[u8] {
    let host = split(authority).0;
    match host {
        [name @ .., b'.'] if !name.is_empty() => name,
        _ => host,
    }
}

/// Whether two authorities name the same host, whatever their case and ports.
pub fn same_host(a: &[u8], b: &[u8]) -> bool {
    host(a).eq_ignore_ascii_case(host(b))
}

/// Whether two authorities name the same host and port; a port that is not written is `default`.
pub fn same_authority(a: &[u8], b: &[u8], default: Option<u16>) -> bool {
    a == b || (same_host(a, b) && port(a).or(default) == port(b).or(default))
}

/// Path and query, without the `?` between them.
pub fn split_query(path_and_query: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'?', path_and_query) {
        Some(at) => (&path_and_query[..at], Some(&path_and_query[at + 1..])),
        None => (path_and_query, None),
    }
}

/// The value of the first parameter of that name, as it stands; empty if it has no `=`.
pub fn query_param<'q>(query: &'q [u8], name: &[u8]) -> Option<&'q [u8]> {
    query
        .split(|&b| b == b'&')
        .find_map(|pair| match memchr::memchr(b'=', pair) {
            Some(at) => (&pair[..at] == name).then(|| &pair[at + 1..]),
            None => (pair == name).then_some(&[][..]),
        })
}

/// Host and the text after its colon.
fn split(authority: &[u8]) -> (&[u8], Option<&[u8]>) {
    let after = match authority {
        [b'[', ..] => memchr::memchr(b']', authority).map_or(authority.len(), |at| at + 1),
        _ => 0,
    };
    match memchr::memchr(b':', &authority[after..]) {
        // What stands between a bracket and the colon stays with the host, where it is refused.
        Some(at) => (&authority[..after + at], Some(&authority[after + at + 1..])),
        None => (authority, None),
    }
}

fn number(digits: &[u8]) -> Option<u16> {
    if digits.is_empty() || digits.len() > 5 {
        return None;
    }
    digits.iter().try_fold(0u16, |n, &b| {
        let digit = b.is_ascii_digit().then(|| u16::from(b - b'0'))?;
        n.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_that_could_mislead_are_refused() {
        for good in [
            "a",
            "a.b",
            "a.b:80",
            "127.0.0.1:65535",
            "[::1]",
            "[::ffff:1.2.3.4]:443",
            "a:",
            "x_y.~z",
        ] {
            assert!(is_authority(good.as_bytes()), "{good}");
        }
        for bad in [
            "",
            ":80",
            "a:b",
            "a:65536",
            "a:000080",
            "a:80:80",
            "a b",
            "a,b",
            "a/b",
            "u@a",
            "[]",
            "[::1",
            "[::1]x",
            "[::1]x:80",
            "::1",
            "a%2eb",
            "a\x7f",
            "[g::]",
            "a:-1",
            "a:+1",
            "a: 80",
            "[:]]",
            "é",
        ] {
            assert!(!is_authority(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn hosts_compare_without_case_port_and_final_dot() {
        assert!(same_host(b"Example.COM:8080", b"example.com."));
        assert!(!same_host(b"example.com", b"example.org"));
        assert!(same_host(b"[::1]:80", b"[::1]"));
        assert!(same_authority(b"a:80", b"A", Some(80)));
        assert!(!same_authority(b"a:81", b"a", Some(80)));
        assert!(!same_authority(b"a:80", b"a", None));
        assert_eq!(host(b"."), b".");
    }

    #[test]
    fn parameters_are_found_by_their_whole_name() {
        let query = b"a=1&bb=2&b=3&b=4&c&d=";
        assert_eq!(query_param(query, b"b"), Some(&b"3"[..]));
        assert_eq!(query_param(query, b"c"), Some(&b""[..]));
        assert_eq!(query_param(query, b"d"), Some(&b""[..]));
        assert_eq!(query_param(query, b"e"), None);
        assert_eq!(split_query(b"/p?q?r"), (&b"/p"[..], Some(&b"q?r"[..])));
        assert_eq!(split_query(b"/p"), (&b"/p"[..], None));
    }
}
