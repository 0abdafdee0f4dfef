//! Whom the load asks, and for what.

use super::Error;
use std::net::{SocketAddr, ToSocketAddrs};

/// A URL, taken apart and resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Over TLS.
    pub tls: bool,
    /// Where to connect.
    pub address: SocketAddr,
    /// Name and port as written, for the Host field.
    pub authority: String,
    /// Path and query.
    pub path: String,
}

impl Target {
    /// Read `http://host:port/path` or `https://…` and resolve its host.
    ///
    /// # Errors
    /// If the scheme is another one, the authority is empty or has no usable port, or the name does not resolve.
    pub fn parse(url: &str) -> Result<Self, Error> {
        let bad = |why| Error::Target {
            url: url.to_owned(),
            why,
        };
        let (scheme, rest) = url
            .split_once("://")
            .ok_or_else(|| bad("it has no scheme"))?;
        let tls = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(bad("the scheme is neither http nor https")),
        };
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, "/"),
        };
        if authority.is_empty() {
            return Err(bad("it has no host"));
        }
        let has_port = authority
            .rfind(':')
            .is_some_and(|colon| !authority[colon..].contains(']'));
        let name = match (has_port, tls) {
            (true, _) => authority.to_owned(),
            (false, false) => format!("{authority}:80"),
            (false, true) => format!("{authority}:443"),
        };
        let address = name
            .to_socket_addrs()
            .map_err(|source| Error::Resolve {
                name: name.clone(),
                source,
            })?
            .next()
            .ok_or_else(|| bad("its host has no address"))?;
        Ok(Self {
            tls,
            address,
            authority: authority.to_owned(),
            path: path.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (url, tls, address, path) in [
            ("http://127.0.0.1:81/a?b=c", false, "127.0.0.1:81", "/a?b=c"),
            ("http://127.0.0.1", false, "127.0.0.1:80", "/"),
            ("https://127.0.0.1/", true, "127.0.0.1:443", "/"),
            ("https://[::1]:8443/x", true, "[::1]:8443", "/x"),
            ("http://[::1]", false, "[::1]:80", "/"),
        ] {
            let target = Target::parse(url).unwrap();
            assert_eq!(
                (
                    target.tls,
                    target.address.to_string().as_str(),
                    target.path.as_str()
                ),
                (tls, address, path)
            );
        }
    }

    #[test]
    fn other_addresses_are_refused() {
        for url in [
            "127.0.0.1:80",
            "ftp://127.0.0.1/",
            "http:///x",
            "http://127.0.0.1:99999/",
        ] {
            assert!(Target::parse(url).is_err(), "{url}");
        }
    }
}
