//! Connections of rules' own: `connect`, `send`, `recv`, `close`. They live on one worker, and close when they are not
//! used for as long as the rule said.

use super::datagram::Datagram;
use super::host::plain;
use super::machine;
use crate::worker::Worker;
use reactor::{ConnectOptions, Tcp};
use rules::host::Wait;
use rules::value::Value;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// The connections of one worker's rules.
#[derive(Default)]
pub(crate) struct Sidebands {
    open: RefCell<HashMap<u64, Rc<Side>>>,
    given: Cell<u64>,
}

/// The most at a time.
const MOST: usize = 10_000;

struct Side {
    way: Way,
    /// What came and nobody has taken.
    inbox: RefCell<Vec<u8>>,
    ended: Cell<bool>,
    used: Cell<Duration>,
    idle: Duration,
}

enum Way {
    Tcp(Tcp),
    Udp(Datagram),
}

impl Sidebands {
    pub(super) fn close(&self, handle: u64) {
        self.open.borrow_mut().remove(&handle);
    }

    pub(super) fn state(&self, handle: u64) -> &'static str {
        match self.open.borrow().get(&handle) {
            Some(side) if !side.ended.get() => "connected",
            _ => "closed",
        }
    }

    fn find(&self, handle: u64) -> Option<Rc<Side>> {
        let side = self.open.borrow().get(&handle).cloned()?;
        side.used.set(machine::now());
        Some(side)
    }

    /// Closes what was not used for too long.
    fn sweep(&self, now: Duration) {
        let mut open = self.open.borrow_mut();
        open.retain(|_, side| now.saturating_sub(side.used.get()) < side.idle);
    }
}

/// Opens one: its handle, or nothing where it fails.
pub(super) async fn connect(
    worker: &Worker,
    udp: bool,
    to: &Value,
    timeout: Duration,
    idle: Duration,
) -> Result<Value, String> {
    let sidebands = &worker.rules.sidebands;
    let now = machine::now();
    sidebands.sweep(now);
    let Some(address) = address(worker, to) else {
        return Ok(Value::Empty);
    };
    if sidebands.open.borrow().len() >= MOST {
        return Ok(Value::Empty);
    }
    let way = if udp {
        Datagram::connect(address).map(Way::Udp)
    } else {
        let options = ConnectOptions::default();
        let opened = reactor::timeout(at_least(timeout), Tcp::connect(address, &options));
        match opened.await {
            Ok(opened) => opened.map(Way::Tcp),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    };
    let Ok(way) = way else {
        return Ok(Value::Empty);
    };
    let handle = sidebands.given.get() + 1;
    sidebands.given.set(handle);
    let side = Side {
        way,
        inbox: RefCell::default(),
        ended: Cell::new(false),
        used: Cell::new(now),
        idle: at_least(idle),
    };
    sidebands.open.borrow_mut().insert(handle, Rc::new(side));
    Ok(Value::Int(handle as i64))
}

/// Sends on one: how many bytes were taken.
pub(super) async fn send(
    worker: &Worker,
    handle: u64,
    data: &Value,
    timeout: Duration,
) -> Result<Value, String> {
    let Some(side) = worker.rules.sidebands.find(handle) else {
        return Err(format!("no such connection: {handle}"));
    };
    let bytes = data.bytes();
    let mut sent = 0;
    match &side.way {
        Way::Udp(socket) => sent = socket.send(&bytes).unwrap_or(0),
        Way::Tcp(tcp) => {
            let sending = async {
                while sent < bytes.len() {
                    match tcp.try_write(&bytes[sent..])? {
                        0 => tcp.writable().await?,
                        n => sent += n,
                    }
                }
                io::Result::Ok(())
            };
            // What was taken by then is the answer.
            let _ = reactor::timeout(at_least(timeout), sending).await;
        }
    }
    Ok(Value::from(sent))
}

/// Receives on one: what has come by the time that it is enough, or the time is over.
pub(super) async fn receive(worker: &Worker, wait: &Wait) -> Result<Value, String> {
    let Wait::Receive {
        handle,
        peek,
        least,
        most,
        until,
        timeout,
    } = wait
    else {
        return Ok(Value::Empty);
    };
    let Some(side) = worker.rules.sidebands.find(*handle) else {
        return Err(format!("no such connection: {handle}"));
    };
    let until = until.as_ref().map(|text| text.bytes().to_vec());
    let enough = |inbox: &[u8]| match &until {
        Some(text) => memchr::memmem::find(inbox, text).map(|at| at + text.len()),
        None if inbox.len() >= (*least).max(1) => Some(match *most {
            0 => inbox.len(),
            most => most.min(inbox.len()),
        }),
        None => None,
    };
    let limit = worker.in_force().world.limits.collect;
    let receiving = async {
        loop {
            let has = side.inbox.borrow().len();
            if enough(&side.inbox.borrow()).is_some() || side.ended.get() || has >= limit {
                return;
            }
            match more(&side.way).await {
                Ok(bytes) if !bytes.is_empty() => side.inbox.borrow_mut().extend_from_slice(&bytes),
                _ => side.ended.set(true),
            }
        }
    };
    // What has come by then is the answer.
    let _ = reactor::timeout(at_least(*timeout), receiving).await;
    let mut inbox = side.inbox.borrow_mut();
    let whole = if *most == 0 {
        inbox.len()
    } else {
        (*most).min(inbox.len())
    };
    let n = enough(&inbox).unwrap_or(whole);
    let value = Value::new(&inbox[..n]);
    if !peek {
        inbox.drain(..n);
    }
    Ok(value)
}

async fn more(way: &Way) -> io::Result<Vec<u8>> {
    match way {
        Way::Udp(socket) => socket.receive().await,
        Way::Tcp(tcp) => {
            let mut bytes = vec![0; 16 * 1024];
            let n = tcp.read(&mut bytes).await?;
            bytes.truncate(n);
            Ok(bytes)
        }
    }
}

/// "At once" still takes the moment in which what is there can be seen.
fn at_least(time: Duration) -> Duration {
    time.max(Duration::from_millis(1))
}

/// Where it leads: a virtual's own address, or an address with its port.
fn address(worker: &Worker, to: &Value) -> Option<SocketAddr> {
    let bytes = to.bytes();
    let name = plain(&bytes);
    if worker.in_force().virtuals.contains_key(name) {
        let mut address = worker.in_force().addresses(name).first().copied()?;
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        return Some(address);
    }
    if let Ok(address) = name.parse() {
        return Some(address);
    }
    // F5 writes the port of an IPv6 address behind a dot.
    let (ip, port) = name.rsplit_once('.')?;
    Some(SocketAddr::new(ip.parse().ok()?, port.parse().ok()?))
}
