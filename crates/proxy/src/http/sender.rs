//! Who sent a request, where proxies that are trusted stand before its client; the request's id, and the key by which
//! it is balanced.

use crate::client::Client;
use crate::worker::Worker;
use model::HashKey;
use std::net::{IpAddr, SocketAddr};
use wire::h1::{self, Known, RequestHead};

/// The client as trusted proxies report it: of their list, from its end, the first who is not one of
/// them. What is no address ends the list.
pub(super) fn forwarded_client(client: &Client, head: &RequestHead, buf: &[u8]) -> IpAddr {
    let mut seen = client.peer.ip();
    let fields: Vec<_> = h1::known(&head.fields, Known::XForwardedFor).collect();
    for field in fields.into_iter().rev() {
        for entry in field.value.of(buf).rsplit(|&b| b == b',') {
            let Some(address) = parse_address(entry.trim_ascii()) else {
                return seen;
            };
            seen = address;
            if !client.service.trusted_proxies.contains(address) {
                return seen;
            }
        }
    }
    seen
}

/// The id of a request: the client's own, if that is wanted and it is short and plain, or a new one.
pub(super) fn identify(
    worker: &Worker,
    client: &Client,
    head: &RequestHead,
    buf: &[u8],
    config: &model::RequestId,
    out: &mut Vec<u8>,
) {
    if config.keep
        && let Some(id) = head.get(buf, config.header.as_str())
        && (1..=128).contains(&id.len())
        && id
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(b))
    {
        out.extend_from_slice(id);
        return;
    }
    let high = worker.random();
    let low = worker.random() ^ u64::from(client.peer.port());
    out.extend_from_slice(format!("{high:016x}{low:016x}").as_bytes());
}

/// The hash by which a member is chosen, where the pool balances by one.
pub(super) fn hash_of(
    balance: &model::Balance,
    client: IpAddr,
    head: &RequestHead,
    buf: &[u8],
) -> Option<u64> {
    let model::Balance::Hash(hash) = balance else {
        return None;
    };
    match &hash.on {
        HashKey::Source => Some(balance::hash_addr(client)),
        HashKey::Uri => Some(balance::hash_bytes(head.path_and_query(buf))),
        HashKey::Path => Some(balance::hash_bytes(head.path_only(buf))),
        HashKey::Header(name) => head.get(buf, name.as_str()).map(balance::hash_bytes),
        HashKey::Parameter(name) => head
            .query(buf)
            .and_then(|query| wire::uri::query_param(query, name.as_bytes()))
            .map(balance::hash_bytes),
    }
}

/// An address as it stands in X-Forwarded-For: bare, or with a port that is left aside.
fn parse_address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    bare.parse()
        .ok()
        .or_else(|| text.parse().ok().map(|socket: SocketAddr| socket.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_and_without_ports() {
        let ip = |text: &str| parse_address(text.as_bytes()).map(|ip| ip.to_string());
        assert_eq!(ip("192.0.2.1").as_deref(), Some("192.0.2.1"));
        assert_eq!(ip("192.0.2.1:80").as_deref(), Some("192.0.2.1"));
        assert_eq!(ip("2001:db8::1").as_deref(), Some("2001:db8::1"));
        assert_eq!(ip("[2001:db8::1]").as_deref(), Some("2001:db8::1"));
        assert_eq!(ip("[2001:db8::1]:80").as_deref(), Some("2001:db8::1"));
        for text in ["", "unknown", "192.0.2", "_hidden", "192.0.2.1, 192.0.2.2"] {
            assert_eq!(ip(text), None, "{text}");
        }
    }
}
