//! Names looked up for rules: in the machine's own list of hosts, and by one question of DNS, to the system's servers or one
//! that the rule names, over UDP and, where the answer is too long for that, over TCP.

use super::datagram::Datagram;
use super::hosts;
use reactor::{ConnectOptions, Tcp};
use rules::value::Value;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

/// How long a server may take, and how often one is asked.
const WAIT: Duration = Duration::from_secs(2);
const TRIES: usize = 2;

/// The flag of an answer that did not fit.
const TRUNCATED: u8 = 2;

/// What a record's data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Record {
    A = 1,
    Ptr = 12,
    Mx = 15,
    Txt = 16,
    Aaaa = 28,
    Srv = 33,
}

/// Looks a name up: a list of what was found, empty for nothing.
pub(super) async fn resolve(
    name: &Value,
    record: &str,
    server: Option<SocketAddr>,
    id: u16,
) -> Result<Value, String> {
    let record = match record {
        "aaaa" => Record::Aaaa,
        "ptr" => Record::Ptr,
        "mx" => Record::Mx,
        "txt" => Record::Txt,
        "srv" => Record::Srv,
        _ => Record::A,
    };
    let text = name.lossy();
    if server.is_none()
        && let Some(found) = listed(&text, record)
    {
        return Ok(Value::list_of(found));
    }
    let name = match (record, text.parse::<IpAddr>()) {
        (Record::Ptr, Ok(address)) => reverse(address),
        _ => text.trim_end_matches('.').to_owned(),
    };
    let Some(query) = query(id, &name, record) else {
        return Ok(Value::Empty);
    };
    let own = [server.unwrap_or(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 53))];
    let servers = match server {
        Some(_) => &own,
        None => system(),
    };
    for server in servers.iter().cycle().take(servers.len() * TRIES) {
        let Ok(socket) = Datagram::connect(*server) else {
            continue;
        };
        if socket.send(&query).is_err() {
            continue;
        }
        let answer = reactor::timeout(WAIT, async {
            loop {
                let bytes = socket.receive().await.ok()?;
                // What answers another question is left aside.
                if let Some(found) = parse(&bytes, id, &query, record) {
                    return Some((found, bytes[2] & TRUNCATED != 0));
                }
            }
        });
        let Ok(Some((mut found, truncated))) = answer.await else {
            continue;
        };
        if truncated {
            // What came is better than nothing, should the whole not be had.
            let whole = reactor::timeout(WAIT, over_tcp(*server, &query));
            if let Ok(Some(bytes)) = whole.await
                && let Some(all) = parse(&bytes, id, &query, record)
            {
                found = all;
            }
        }
        return Ok(Value::list_of(found));
    }
    Ok(Value::Empty)
}

/// What the machine's own list of hosts says.
fn listed(name: &str, record: Record) -> Option<Vec<Value>> {
    let text = |found: &IpAddr| Value::from(found.to_string());
    let found: Vec<Value> = hosts::ask(|hosts| match record {
        Record::A | Record::Aaaa => {
            let name = name.trim_end_matches('.');
            let found = hosts.addresses(name, record == Record::Aaaa);
            found.iter().map(text).collect()
        }
        Record::Ptr => {
            let address = name.parse().ok();
            let name = address.and_then(|address| hosts.name(address));
            name.map(Value::from).into_iter().collect()
        }
        _ => Vec::new(),
    });
    (!found.is_empty()).then_some(found)
}

/// Asks over TCP, where an answer has all the room it needs (RFC 1035 section 4.2.2).
async fn over_tcp(server: SocketAddr, query: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(query.len()).ok()?;
    let asked = [&length.to_be_bytes(), query].concat();
    let tcp = Tcp::connect(server, &ConnectOptions::default())
        .await
        .ok()?;
    tcp.write_all(&asked).await.ok()?;
    let mut length = [0; 2];
    fill(&tcp, &mut length).await?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    fill(&tcp, &mut answer).await?;
    Some(answer)
}

async fn fill(tcp: &Tcp, mut room: &mut [u8]) -> Option<()> {
    while !room.is_empty() {
        let n = tcp.read(room).await.ok().filter(|n| *n > 0)?;
        room = &mut room[n..];
    }
    Some(())
}

/// The system's servers, read once.
fn system() -> &'static [SocketAddr] {
    static SERVERS: OnceLock<Vec<SocketAddr>> = OnceLock::new();
    SERVERS.get_or_init(|| {
        let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        let servers: Vec<_> = text.lines().filter_map(server_of).take(3).collect();
        match servers.is_empty() {
            true => vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 53)],
            false => servers,
        }
    })
}

fn server_of(line: &str) -> Option<SocketAddr> {
    let mut words = line.split_ascii_whitespace();
    let address = (words.next() == Some("nameserver")).then(|| words.next())??;
    Some(SocketAddr::new(address.parse().ok()?, 53))
}

/// The name under which an address's own name is (RFC 1035 section 3.5, RFC 3596 section 2.5).
fn reverse(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(v6) => {
            let mut name = String::with_capacity(72);
            for octet in v6.octets().iter().rev() {
                name.push_str(&format!("{:x}.{:x}.", octet & 15, octet >> 4));
            }
            name + "ip6.arpa"
        }
    }
}

/// A question (RFC 1035 section 4); none where the name can't be one.
fn query(id: u16, name: &str, record: Record) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(name.len() + 18);
    out.extend_from_slice(&id.to_be_bytes());
    // Recursion is desired, one question.
    out.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        let len = u8::try_from(label.len())
            .ok()
            .filter(|n| (1..64).contains(n))?;
        out.push(len);
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    out.extend_from_slice(&(record as u16).to_be_bytes());
    out.extend_from_slice(&[0, 1]);
    (out.len() <= 12 + 255 + 4).then_some(out)
}

/// What an answer to that question says; none if it answers another.
fn parse(bytes: &[u8], id: u16, query: &[u8], record: Record) -> Option<Vec<Value>> {
    let answers = bytes.get(..2)? == id.to_be_bytes() && bytes.get(2)? & 0x80 != 0;
    let question = bytes.get(12..query.len())?;
    if !answers || !question.eq_ignore_ascii_case(&query[12..]) {
        return None;
    }
    let count = u16::from_be_bytes([*bytes.get(6)?, *bytes.get(7)?]);
    let mut at = query.len();
    let mut found = Vec::new();
    for _ in 0..count {
        let Some((value, next)) = answer(bytes, at, record) else {
            break;
        };
        found.extend(value);
        at = next;
    }
    Some(found)
}

/// One record, and where the next begins.
fn answer(bytes: &[u8], at: usize, record: Record) -> Option<(Option<Value>, usize)> {
    let at = name(bytes, at)?.1;
    let head = bytes.get(at..at + 10)?;
    let is_asked = u16::from_be_bytes([head[0], head[1]]) == record as u16;
    let len = usize::from(u16::from_be_bytes([head[8], head[9]]));
    let (start, end) = (at + 10, at + 10 + len);
    let data = bytes.get(start..end)?;
    if !is_asked {
        return Some((None, end));
    }
    let number = |n: usize| Some(u16::from_be_bytes([*data.get(n)?, *data.get(n + 1)?]));
    let text = match record {
        Record::A => Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?).to_string(),
        Record::Aaaa => Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?).to_string(),
        Record::Ptr => name(bytes, start)?.0,
        Record::Mx => format!("{} {}", number(0)?, name(bytes, start + 2)?.0),
        Record::Srv => {
            let target = name(bytes, start + 6)?.0;
            format!("{} {} {} {target}", number(0)?, number(2)?, number(4)?)
        }
        Record::Txt => {
            let mut text = Vec::new();
            let mut rest = data;
            while let Some((&len, more)) = rest.split_first() {
                text.extend_from_slice(more.get(..usize::from(len))?);
                rest = &more[usize::from(len)..];
            }
            return Some((Some(Value::from(text)), end));
        }
    };
    Some((Some(Value::from(text)), end))
}

/// A name, its parts told by where they stand before followed (RFC 1035 section 4.1.4), and what is behind it.
fn name(bytes: &[u8], mut at: usize) -> Option<(String, usize)> {
    let mut text = String::new();
    let mut behind = None;
    // Each jump leads back, so there are fewer than this.
    for _ in 0..128 {
        let len = *bytes.get(at)?;
        match len {
            0 => return Some((text, behind.unwrap_or(at + 1))),
            1..64 => {
                let label = bytes.get(at + 1..at + 1 + usize::from(len))?;
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(&String::from_utf8_lossy(label));
                at += 1 + usize::from(len);
            }
            192.. => {
                let to = usize::from(len & 63) << 8 | usize::from(*bytes.get(at + 1)?);
                behind = behind.or(Some(at + 2));
                at = (to < at).then_some(to)?;
            }
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reply(query: &[u8], records: &[(u16, &[u8])]) -> Vec<u8> {
        let mut bytes = query.to_vec();
        bytes[2] |= 0x80;
        bytes[7] = records.len() as u8;
        for (kind, data) in records {
            bytes.extend_from_slice(&[0xC0, 12]);
            bytes.extend_from_slice(&kind.to_be_bytes());
            bytes.extend_from_slice(&[0, 1, 0, 0, 0, 9]);
            bytes.extend_from_slice(&(data.len() as u16).to_be_bytes());
            bytes.extend_from_slice(data);
        }
        bytes
    }

    fn found(record: Record, records: &[(u16, &[u8])]) -> Vec<String> {
        let query = query(7, "a.example", record).unwrap();
        let values = parse(&reply(&query, records), 7, &query, record).unwrap();
        values.iter().map(Value::lossy).collect()
    }

    #[test]
    fn records_of_the_kind_asked_for_are_read() {
        assert_eq!(
            found(Record::A, &[(5, &[0xC0, 12]), (1, &[192, 0, 2, 1])]),
            ["192.0.2.1"]
        );
        assert_eq!(found(Record::Txt, &[(16, b"\x02ab\x01c")]), ["abc"]);
        let mx = [&[0, 10, 4][..], b"mail", &[0xC0, 12]].concat();
        assert_eq!(found(Record::Mx, &[(15, &mx)]), ["10 mail.a.example"]);
    }

    #[test]
    fn answers_to_other_questions_are_left_aside() {
        let query = query(7, "a.example", Record::A).unwrap();
        let other = super::query(7, "b.example", Record::A).unwrap();
        assert!(parse(&reply(&other, &[]), 7, &query, Record::A).is_none());
        assert!(parse(&reply(&query, &[]), 8, &query, Record::A).is_none());
        assert!(parse(&query, 7, &query, Record::A).is_none(), "a question");
    }

    #[test]
    fn addresses_are_asked_about_backwards() {
        let of = |text: &str| reverse(text.parse().unwrap());
        assert_eq!(of("192.0.2.1"), "1.2.0.192.in-addr.arpa");
        assert!(of("2001:db8::1").starts_with("1.0.0.0."));
        assert!(of("2001:db8::1").ends_with("8.b.d.0.1.0.0.2.ip6.arpa"));
    }

    #[test]
    fn names_that_cannot_be_are_not_asked_about() {
        assert!(query(1, "a..b", Record::A).is_none());
        assert!(query(1, &"a".repeat(64), Record::A).is_none());
        assert!(query(1, &"a.".repeat(130), Record::A).is_none());
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_to_an_end(tail in proptest::collection::vec(any::<u8>(), 0..200)) {
            let query = query(7, "a.example", Record::Mx).unwrap();
            let mut bytes = reply(&query, &[]);
            bytes[7] = 9;
            bytes.extend_from_slice(&tail);
            let _ = parse(&bytes, 7, &query, Record::Mx);
        }
    }
}
