//! Tables of routes like those of the Internet, the same each time, and a cache of RPKI that says who may announce them.

use crate::noise;
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// A network: its first address and its length.
pub type Prefix = (IpAddr, u8);

/// Lengths of prefixes and how many of ten thousand have them, as route collectors see IPv4.
const LENGTHS4: [(u8, u64); 16] = [
    (24, 6100),
    (23, 1010),
    (22, 1150),
    (21, 540),
    (20, 460),
    (19, 270),
    (18, 150),
    (17, 90),
    (16, 170),
    (15, 30),
    (14, 15),
    (13, 8),
    (12, 4),
    (11, 1),
    (10, 1),
    (9, 1),
];

/// The same of IPv6.
const LENGTHS6: [(u8, u64); 9] = [
    (48, 4700),
    (47, 300),
    (46, 600),
    (44, 1300),
    (42, 300),
    (40, 1100),
    (36, 500),
    (33, 200),
    (32, 1000),
];

/// So many different prefixes of IPv4, none of them private or otherwise kept back.
pub fn table4(seed: u64, count: usize) -> Vec<Prefix> {
    distinct(seed, count, &LENGTHS4, |random, len| {
        let address = (random >> 32) as u32;
        let kept_back = matches!(
            address >> 24,
            0 | 10 | 100 | 127 | 169 | 172 | 192 | 198 | 203 | 224..
        );
        let network = Ipv4Addr::from(address & (u32::MAX << (32 - len)));
        (!kept_back).then(|| network.into())
    })
}

/// So many different prefixes of IPv6, of what registries give out.
pub fn table6(seed: u64, count: usize) -> Vec<Prefix> {
    const FIRST: [u128; 5] = [0x240, 0x260, 0x280, 0x2a0, 0x2c0];
    distinct(seed, count, &LENGTHS6, |random, len| {
        let first = FIRST[(random >> 59) as usize % FIRST.len()] << 116;
        let address = first | u128::from(random & ((1 << 36) - 1)) << 80;
        Some(Ipv6Addr::from(address & (u128::MAX << (128 - u32::from(len)))).into())
    })
}

fn distinct(
    seed: u64,
    count: usize,
    lengths: &[(u8, u64)],
    make: impl Fn(u64, u8) -> Option<IpAddr>,
) -> Vec<Prefix> {
    let mut seen = HashSet::new();
    let mut out = Vec::with_capacity(count);
    let mut random = noise(seed, 64 * count + 4096)
        .chunks_exact(8)
        .map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
        .collect::<Vec<_>>()
        .into_iter();
    let mut next = move || random.next().expect("seldom is a prefix there already");
    while out.len() < count {
        let mut place = (next() >> 32) % 10_000;
        let (mut len, _) = lengths[0];
        for &(this, share) in lengths {
            if place < share {
                len = this;
                break;
            }
            place -= share;
        }
        if let Some(address) = make(next(), len)
            && seen.insert((address, len))
        {
            out.push((address, len));
        }
    }
    out
}

/// Who may announce a prefix and the longer ones in it, up to a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roa {
    /// What.
    pub prefix: Prefix,
    /// The greatest length that may be announced.
    pub max: u8,
    /// Whose it is.
    pub asn: u32,
}

/// A cache of RPKI: it tells routers over RTR (RFC 8210, version 1) what it was given. It ends when it is dropped.
pub struct Rtr {
    listener: socket2::Socket,
    shared: Arc<Mutex<Cache>>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Cache {
    serial: u32,
    roas: Vec<Roa>,
    /// Of the serial number before.
    before: Vec<Roa>,
    routers: Vec<TcpStream>,
}

const VERSION: u8 = 1;
const SERIAL_NOTIFY: u8 = 0;
const SERIAL_QUERY: u8 = 1;
const RESET_QUERY: u8 = 2;
const CACHE_RESPONSE: u8 = 3;
const IPV4_PREFIX: u8 = 4;
const IPV6_PREFIX: u8 = 6;
const END_OF_DATA: u8 = 7;
const CACHE_RESET: u8 = 8;
const WITHDRAWN: u8 = 0;
const ANNOUNCED: u8 = 1;
const SESSION: u16 = 0x4847;

impl Rtr {
    /// Serves at an address of the thread's namespace.
    pub fn start(address: (IpAddr, u16), roas: Vec<Roa>) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let shared = Arc::new(Mutex::new(Cache {
            roas,
            ..Cache::default()
        }));
        let (mine, accepting) = (shared.clone(), listener.try_clone().unwrap());
        let acceptor = std::thread::spawn(move || {
            while let Ok((stream, _)) = accepting.accept() {
                let told = stream.try_clone().unwrap();
                lock(&mine).routers.push(told);
                let mine = mine.clone();
                std::thread::spawn(move || serve(stream, &mine));
            }
        });
        Self {
            listener: listener.into(),
            shared,
            acceptor: Some(acceptor),
        }
    }

    /// Changes what it says, and has the routers ask anew.
    pub fn replace(&self, roas: Vec<Roa>) {
        let mut cache = lock(&self.shared);
        cache.before = std::mem::replace(&mut cache.roas, roas);
        cache.serial += 1;
        let notice = pdu(SERIAL_NOTIFY, SESSION, &cache.serial.to_be_bytes());
        for mut router in &cache.routers {
            let _ = router.write_all(&notice);
        }
    }
}

impl Drop for Rtr {
    fn drop(&mut self) {
        // That wakes the thread, which a connection from another namespace could not.
        let _ = self.listener.shutdown(Shutdown::Both);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        for router in lock(&self.shared).routers.drain(..) {
            let _ = router.shutdown(Shutdown::Both);
        }
    }
}

fn serve(mut stream: TcpStream, shared: &Mutex<Cache>) {
    let mut head = [0; 8];
    while stream.read_exact(&mut head).is_ok() {
        let length = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
        let mut rest = vec![0; (length as usize).saturating_sub(8)];
        if stream.read_exact(&mut rest).is_err() {
            return;
        }
        let answer = match head[1] {
            RESET_QUERY => everything(&lock(shared)),
            SERIAL_QUERY => differences(&lock(shared), &rest),
            _ => return,
        };
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}

fn everything(cache: &Cache) -> Vec<u8> {
    let roas = cache.roas.iter().map(|roa| prefix(ANNOUNCED, roa));
    response(cache, roas.collect())
}

/// What has changed since a serial number, or that it is too old.
fn differences(cache: &Cache, since: &[u8]) -> Vec<u8> {
    let since = since.try_into().map_or(0, u32::from_be_bytes);
    match cache.serial.wrapping_sub(since) {
        0 => response(cache, Vec::new()),
        1 => {
            let (old, new) = (&cache.before, &cache.roas);
            let gone = old.iter().filter(|roa| !new.contains(roa));
            let come = new.iter().filter(|roa| !old.contains(roa));
            let gone = gone.map(|roa| prefix(WITHDRAWN, roa));
            response(
                cache,
                gone.chain(come.map(|roa| prefix(ANNOUNCED, roa))).collect(),
            )
        }
        _ => pdu(CACHE_RESET, 0, &[]),
    }
}

fn response(cache: &Cache, prefixes: Vec<Vec<u8>>) -> Vec<u8> {
    // The serial number, and when to ask again, after a failure, and when it is all too old: seconds.
    let end: Vec<u8> = [cache.serial, 3600, 600, 7200]
        .into_iter()
        .flat_map(u32::to_be_bytes)
        .collect();
    let begin = pdu(CACHE_RESPONSE, SESSION, &[]);
    let end = pdu(END_OF_DATA, SESSION, &end);
    [begin, prefixes.concat(), end].concat()
}

fn prefix(flags: u8, roa: &Roa) -> Vec<u8> {
    let (address, len) = roa.prefix;
    let (kind, address) = match address {
        IpAddr::V4(address) => (IPV4_PREFIX, address.octets().to_vec()),
        IpAddr::V6(address) => (IPV6_PREFIX, address.octets().to_vec()),
    };
    let head = [flags, len, roa.max, 0];
    pdu(
        kind,
        0,
        &[&head, &address[..], &roa.asn.to_be_bytes()].concat(),
    )
}

fn pdu(kind: u8, session: u16, body: &[u8]) -> Vec<u8> {
    let mut out = vec![VERSION, kind];
    out.extend(session.to_be_bytes());
    out.extend((8 + body.len() as u32).to_be_bytes());
    out.extend(body);
    out
}

fn lock(cache: &Mutex<Cache>) -> std::sync::MutexGuard<'_, Cache> {
    cache.lock().unwrap_or_else(PoisonError::into_inner)
}
