//! Field names that mean something to a proxy, recognised without regard to case and without a general hash.

use super::scan::same_name;

macro_rules! known {
    ($($variant:ident = $text:literal,)*) => {
        /// A field name that is known by heart; every other name is [`Known::Other`].
        #[repr(u8)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
        #[allow(missing_docs, reason = "each variant is the field of that name")]
        pub enum Known {
            #[default]
            Other,
            $($variant,)*
        }

        const NAMES: &[(&str, Known)] = &[$(($text, Known::$variant),)*];

        impl Known {
            /// The name in lower case; empty for [`Known::Other`].
            pub const fn as_str(self) -> &'static str {
                match self {
                    Known::Other => "",
                    $(Known::$variant => $text,)*
                }
            }
        }
    };
}

known! {
    Host = "host",
    Connection = "connection",
    KeepAlive = "keep-alive",
    ProxyConnection = "proxy-connection",
    TransferEncoding = "transfer-encoding",
    ContentLength = "content-length",
    Te = "te",
    Trailer = "trailer",
    Upgrade = "upgrade",
    Expect = "expect",
    Cookie = "cookie",
    SetCookie = "set-cookie",
    Forwarded = "forwarded",
    XForwardedFor = "x-forwarded-for",
    XForwardedProto = "x-forwarded-proto",
    XForwardedHost = "x-forwarded-host",
    XForwardedPort = "x-forwarded-port",
    XRequestId = "x-request-id",
    XRealIp = "x-real-ip",
    UserAgent = "user-agent",
    Referer = "referer",
    Origin = "origin",
    Range = "range",
    Server = "server",
    Date = "date",
    ContentType = "content-type",
    ContentEncoding = "content-encoding",
    Location = "location",
    Authorization = "authorization",
    ProxyAuthorization = "proxy-authorization",
    ProxyAuthenticate = "proxy-authenticate",
    Via = "via",
    Accept = "accept",
    AcceptEncoding = "accept-encoding",
    AcceptLanguage = "accept-language",
    CacheControl = "cache-control",
    Pragma = "pragma",
    Vary = "vary",
    Etag = "etag",
    Age = "age",
    LastModified = "last-modified",
    IfNoneMatch = "if-none-match",
    IfModifiedSince = "if-modified-since",
    RetryAfter = "retry-after",
    MaxForwards = "max-forwards",
    Http2Settings = "http2-settings",
    SecWebsocketKey = "sec-websocket-key",
    StrictTransportSecurity = "strict-transport-security",
}

impl Known {
    /// Recognises a field name. `name` must be a token (RFC 9110 section 5.6.2), in any case.
    #[inline]
    pub fn of(name: &[u8]) -> Known {
        if name.is_empty() {
            return Known::Other;
        }
        let (text, known) = SLOTS[slot(name)];
        if same_name(name, text) {
            known
        } else {
            Known::Other
        }
    }

    /// This name's bit in a set of names.
    #[inline]
    pub(super) const fn bit(self) -> u64 {
        1 << self as u8
    }
}

/// Where a name would stand: unique among the known ones, which is checked when this is compiled.
#[inline]
const fn slot(name: &[u8]) -> usize {
    let len = name.len();
    let first = (name[0] | 0x20) as usize;
    let last = (name[len - 1] | 0x20) as usize;
    let late = (name[len * 3 / 4] | 0x20) as usize;
    (len + first * 4 + last * 11 + late) & 0xff
}

static SLOTS: [(&[u8], Known); 256] = {
    let mut slots: [(&[u8], Known); 256] = [(b"", Known::Other); 256];
    let mut i = 0;
    while i < NAMES.len() {
        let name = NAMES[i].0.as_bytes();
        let at = slot(name);
        assert!(
            slots[at].0.is_empty(),
            "two known names share a slot: choose other factors"
        );
        slots[at] = (name, NAMES[i].1);
        i += 1;
    }
    slots
};

const _: () = assert!(NAMES.len() < 64, "a set of names is a u64");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_name_is_recognised_in_any_case() {
        for (name, known) in NAMES {
            assert_eq!(Known::of(name.as_bytes()), *known);
            assert_eq!(Known::of(name.to_ascii_uppercase().as_bytes()), *known);
            assert_eq!(known.as_str(), *name);
        }
    }

    #[test]
    fn near_misses_stay_unknown() {
        for (name, _) in NAMES {
            for i in 0..name.len() {
                for other in [b'_', b'~', b'0', b'^', b'!'] {
                    let mut near = name.as_bytes().to_vec();
                    near[i] = other;
                    assert_eq!(
                        Known::of(&near),
                        Known::Other,
                        "{}",
                        String::from_utf8_lossy(&near)
                    );
                }
                assert_eq!(
                    Known::of(name.as_bytes().split_at(i).0),
                    NAMES
                        .iter()
                        .find(|(n, _)| *n == &name[..i])
                        .map_or(Known::Other, |(_, k)| *k)
                );
            }
        }
    }
}
