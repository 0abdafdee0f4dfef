//! Persistence as rules ask for it: the member that a client comes back to, by a record in the shared table, a cookie, or
//! a hash.

use super::Ruled;
use crate::snapshot::Backend;
use crate::worker::Worker;
use ::rules::flow::Persist;
use ::rules::host::{Key, Put, Table, Times};
use ::rules::message::Message;
use ::rules::value::Value;
use ::rules::world::persist::{SUBTABLE, read_record, record, record_key};
use balance::{Admin, Health, Member, MemberId};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// What is to be remembered of the member that is chosen.
pub(crate) enum Remember {
    Nothing,
    /// A record in the table.
    Record {
        key: Vec<u8>,
        timeout: u64,
    },
    /// A cookie of that name, seconds.
    Cookie {
        name: Vec<u8>,
        timeout: u64,
        /// The member that the client's own cookie names.
        known: Option<MemberId>,
        /// Whether the member sets it, and only its value is ours.
        rewrites: bool,
    },
}

/// A cookie by which a client comes back to its member.
pub(crate) struct Cookie {
    name: Vec<u8>,
    value: String,
    /// Seconds; 0 for a session's.
    timeout: u64,
    /// Whether the member sets it, and only its value is ours.
    pub(crate) rewrites: bool,
}

impl Cookie {
    /// The value of a Set-Cookie field of its own.
    pub(crate) fn field(&self) -> Vec<u8> {
        let mut field = self.name.clone();
        field.push(b'=');
        field.extend_from_slice(self.value.as_bytes());
        field.extend_from_slice(b"; path=/; HttpOnly");
        self.push_age(&mut field);
        field
    }

    /// Gives the member's own cookie of that name our value, where the response sets it.
    pub(crate) fn rewrite(&self, response: &mut Message) {
        let places: Vec<usize> = response.places(b"Set-Cookie").collect();
        for place in places {
            let Some((_, value)) = response.field(place) else {
                continue;
            };
            let Some(rest) = value
                .trim_ascii()
                .strip_prefix(&self.name[..])
                .and_then(|rest| rest.strip_prefix(b"="))
            else {
                continue;
            };
            let mut field = self.name.clone();
            field.push(b'=');
            field.extend_from_slice(self.value.as_bytes());
            let end = memchr::memchr(b';', rest).unwrap_or(rest.len());
            field.extend_from_slice(&rest[end..]);
            self.push_age(&mut field);
            response.replace(place, Value::from(field));
        }
    }

    fn push_age(&self, field: &mut Vec<u8>) {
        if self.timeout > 0 {
            field.extend_from_slice(format!("; max-age={}", self.timeout).as_bytes());
        }
    }
}

/// The member that the client comes back to, if it has one, and what is to be remembered.
pub(crate) fn recall(
    worker: &Worker,
    backend: &Backend,
    client: IpAddr,
    rules: &Ruled,
) -> (Option<MemberId>, Remember) {
    let persist = rules.flow().steering.persist.clone();
    match persist {
        None | Some(Persist::None) => (None, Remember::Nothing),
        Some(Persist::Universal { key, timeout }) => {
            recorded(worker, backend, record_key("uie", &key.bytes()), timeout)
        }
        Some(Persist::Source { prefix, timeout }) => {
            let ip = masked(client.to_canonical(), prefix).to_string();
            recorded(
                worker,
                backend,
                record_key("source_addr", ip.as_bytes()),
                timeout,
            )
        }
        Some(Persist::Hash(text)) => (hashed(worker, backend, &text.bytes()), Remember::Nothing),
        Some(Persist::Cookie {
            mode,
            name,
            timeout,
        }) => {
            let name = match name.is_empty() {
                true => format!("HeadgateServer{}", backend.name).into_bytes(),
                false => name.bytes().to_vec(),
            };
            let flow = rules.flow();
            let request = flow.http.as_ref().map(|http| &http.request);
            let cookie = request.and_then(|request| cookie(request, &name));
            if mode == "hash" {
                return (
                    cookie.and_then(|c| hashed(worker, backend, c)),
                    Remember::Nothing,
                );
            }
            let address = cookie.and_then(read_cookie);
            let known = address.and_then(|address| at(backend, address));
            let known = known.map(|member| member.id());
            let remember = match mode {
                // The member itself sets it.
                "passive" => Remember::Nothing,
                _ => Remember::Cookie {
                    name,
                    timeout,
                    known,
                    rewrites: mode == "rewrite",
                },
            };
            (known, remember)
        }
    }
}

/// Remembers the member that was chosen. Returns the cookie by which the client does.
pub(crate) fn remember(
    worker: &Worker,
    backend: &Backend,
    what: Remember,
    member: &Member,
) -> Option<Cookie> {
    match what {
        Remember::Nothing => None,
        Remember::Record { key, timeout } => {
            let key = Key {
                subtable: SUBTABLE,
                key: &key,
            };
            let times = Times {
                timeout: Some(Some(Duration::from_secs(timeout))),
                lifetime: None,
            };
            let value = record(&backend.name, member.address());
            let table = &worker.shared.rules.table;
            table.put(key, &value, Put::Always, times, now(), true);
            None
        }
        Remember::Cookie {
            known, rewrites, ..
        } if known == Some(member.id()) && !rewrites => None,
        Remember::Cookie {
            name,
            timeout,
            rewrites,
            ..
        } => Some(Cookie {
            name,
            value: cookie_value(member.address()),
            timeout,
            rewrites,
        }),
    }
}

fn recorded(
    worker: &Worker,
    backend: &Backend,
    key: Vec<u8>,
    timeout: u64,
) -> (Option<MemberId>, Remember) {
    let table = &worker.shared.rules.table;
    let under = Key {
        subtable: SUBTABLE,
        key: &key,
    };
    let found: Option<Value> = table.get(under, now(), true);
    let place = found.as_ref().and_then(read_record);
    let known = place
        .filter(|(pool, _)| *pool == *backend.name)
        .and_then(|(_, address)| at(backend, address));
    let known = known.map(|member| member.id());
    (known, Remember::Record { key, timeout })
}

fn at(backend: &Backend, address: SocketAddr) -> Option<Arc<Member>> {
    let mut members = backend.pool.members().into_iter();
    members.find(|member| member.address() == address)
}

/// The member for a text, of those that can be used: the same as long as those are the same.
fn hashed(worker: &Worker, backend: &Backend, text: &[u8]) -> Option<MemberId> {
    let mut members = backend.pool.members();
    let now = worker.now();
    members.retain(|member| {
        member.health() == Health::Up
            && member.admin() == Admin::Enabled
            && member.ejected_until(now).is_none()
    });
    members.sort_by_key(|member| member.address());
    let place = balance::hash_bytes(text) % members.len().max(1) as u64;
    members.get(place as usize).map(|member| member.id())
}

fn masked(ip: IpAddr, prefix: u8) -> IpAddr {
    match ip {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32)));
            Ipv4Addr::from(u32::from(v4) & mask.unwrap_or(0)).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128)));
            Ipv6Addr::from(u128::from(v6) & mask.unwrap_or(0)).into()
        }
    }
}

/// The value of a request's cookie (RFC 6265 section 4.2).
fn cookie<'m>(request: &'m Message, name: &[u8]) -> Option<&'m [u8]> {
    let mut pairs = request
        .values(b"Cookie")
        .flat_map(|field| field.split(|&b| b == b';'));
    pairs.find_map(|pair| {
        let pair = pair.trim_ascii();
        let value = pair.strip_prefix(name)?.strip_prefix(b"=")?;
        Some(value)
    })
}

/// A member's address as a cookie: hexadecimal, port last.
fn cookie_value(address: SocketAddr) -> String {
    let ip: Vec<u8> = match address.ip() {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let ip: String = ip.iter().map(|octet| format!("{octet:02x}")).collect();
    format!("{ip}{:04x}", address.port())
}

fn read_cookie(text: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(text).ok().filter(|t| t.is_ascii())?;
    let (ip, port) = text.split_at_checked(text.len().checked_sub(4)?)?;
    let ip: IpAddr = match ip.len() {
        8 => Ipv4Addr::from(u32::from_str_radix(ip, 16).ok()?).into(),
        32 => Ipv6Addr::from(u128::from_str_radix(ip, 16).ok()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

fn now() -> Duration {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_names_the_member_it_was_made_of() {
        for text in ["192.0.2.1:80", "[2001:db8::1]:8080"] {
            let address: SocketAddr = text.parse().unwrap();
            let cookie = cookie_value(address);
            assert_eq!(read_cookie(cookie.as_bytes()), Some(address));
        }
        for text in ["", "80", "zz0002010050", "\u{e9}\u{e9}\u{e9}\u{e9}0050"] {
            assert_eq!(read_cookie(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn clients_of_one_network_share_a_mask() {
        let of = |ip: &str, prefix| masked(ip.parse().unwrap(), prefix).to_string();
        assert_eq!(of("192.0.2.77", 24), "192.0.2.0");
        assert_eq!(of("192.0.2.77", 128), "192.0.2.77");
        assert_eq!(of("192.0.2.77", 0), "0.0.0.0");
        assert_eq!(of("2001:db8::77", 64), "2001:db8::");
    }
}
