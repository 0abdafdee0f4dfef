//! From a listening socket to a connection that is served: limits, the choice of the worker, and
//! counting. What is said over the connection is left to `prelude`, `http` and `tcp`.

use crate::client::{Channel, Client};
use crate::counters::add;
use crate::engine::{Gauge, Message, Shared};
use crate::http;
use crate::listen::Socket;
use crate::prelude;
use crate::rules::Ruled;
use crate::snapshot::{Virtual, VirtualState};
use crate::tcp;
use crate::worker::Worker;
use reactor::{Deadline, Listener, Tcp};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Poll, Waker};
use std::time::Duration;
use tls::Stream;
use tracing::warn;

/// Connections accepted before others have their turn.
const BATCH: usize = 16;

/// How long accepting rests when descriptors or memory have run out.
const PAUSE: Duration = Duration::from_millis(100);

/// Milliseconds between two complaints about that.
const COMPLAIN_EVERY: u64 = 1000;

/// A connection that was accepted and may be served.
pub(crate) struct Arrival {
    fd: OwnedFd,
    peer: SocketAddr,
    local: SocketAddr,
    service: Arc<Virtual>,
    counted: Counted,
}

/// Counts a connection for as long as it lives: in the process, on its worker, in its virtual and,
/// where that is limited, for its client's address.
pub(crate) struct Counted {
    shared: Arc<Shared>,
    load: Arc<Gauge>,
    state: Arc<VirtualState>,
    /// Boxed, because few have one.
    address: Option<Box<IpAddr>>,
}

/// Why a connection is turned away, as it is counted.
type Reason = &'static str;

/// Ends the accepting of one socket.
#[derive(Default)]
pub(crate) struct Stop {
    stopped: Cell<bool>,
    waiting: RefCell<Option<Waker>>,
}

impl Stop {
    pub(crate) fn stop(&self) {
        self.stopped.set(true);
        if let Some(waker) = self.waiting.take() {
            waker.wake();
        }
    }
}

/// Accepts the connections of one socket until it is told to stop. A socket that is closing is
/// emptied first.
pub(crate) async fn accept(worker: Rc<Worker>, socket: Arc<Socket>, stop: Rc<Stop>) {
    let listener = match Listener::new(&socket.listener) {
        Ok(listener) => listener,
        Err(error) => {
            warn!(address = %socket.local, %error, "cannot accept connections");
            return;
        }
    };
    let mut service = None;
    loop {
        if let Some(found) = worker.snapshot().by_address.get(&socket.local) {
            service = Some(Arc::clone(found));
        }
        let stopped = stop.stopped.get();
        if stopped && !socket.closing.load(Relaxed) {
            return;
        }
        match batch(&worker, &listener, socket.local, service.as_ref()) {
            Ok(true) => reactor::yield_now().await,
            Ok(false) if stopped => return,
            Ok(false) => {
                if let Err(error) = readable_or_stopped(&listener, &stop).await {
                    pause(&worker.shared, &error).await;
                }
            }
            Err(_) if stopped => return,
            Err(error) => pause(&worker.shared, &error).await,
        }
    }
}

/// Serves a connection that this worker or another one accepted.
pub(crate) fn serve(worker: &Rc<Worker>, arrival: Arrival) {
    let Arrival {
        fd,
        peer,
        local,
        service,
        counted,
    } = arrival;
    add(&service.state.counters.of(worker.index).connections, 1);
    let tcp = Tcp::from_accepted(fd);
    let worker = Rc::clone(worker);
    if service.tls.is_some() || is_relayed(&service, peer) {
        reactor::spawn(meet(worker, tcp, peer, local, service, counted));
        return;
    }
    let rules = Ruled::new(&worker, &service, peer, local, tcp.control());
    if rules.is_none() && service.rules.is_some() {
        return refuse(&worker, &service, "rules-not-loaded");
    }
    let client = Client {
        rules,
        channel: Channel::new(Stream::Plain(tcp)),
        peer,
        local,
        service,
        deadline: Deadline::new(),
        pending: Vec::new(),
        _counted: counted,
    };
    // Each its own task, so that none is larger than it need be.
    match client.service.config.protocol {
        model::Protocol::Http => reactor::spawn(http::serve(worker, client)),
        model::Protocol::Tcp => reactor::spawn(tcp::serve(worker, client)),
        model::Protocol::TlsPassthrough => reactor::spawn(tcp::serve_passthrough(worker, client)),
        model::Protocol::Fast => {} // has no listener
    }
}

/// Serves a connection before whose own protocol something else comes: TLS or a PROXY header.
async fn meet(
    worker: Rc<Worker>,
    tcp: Tcp,
    peer: SocketAddr,
    local: SocketAddr,
    service: Arc<Virtual>,
    counted: Counted,
) {
    let met = prelude::meet(&worker, tcp, peer, local, service, counted).await;
    let Some(mut client) = met else { return };
    if is_relayed(&client.service, peer) {
        // Only now is it known who the client is.
        let service = Arc::clone(&client.service);
        let admitted = admit(&service, client.peer.ip())
            .and_then(|()| client._counted.claim(&service, client.peer.ip()));
        if let Err(reason) = admitted {
            refuse(&worker, &service, reason);
            return;
        }
    }
    match client.service.config.protocol {
        model::Protocol::Http => Box::pin(http::serve(worker, client)).await,
        model::Protocol::Tcp => Box::pin(tcp::serve(worker, client)).await,
        model::Protocol::TlsPassthrough => Box::pin(tcp::serve_passthrough(worker, client)).await,
        model::Protocol::Fast => {} // has no listener
    }
}

/// Accepts some connections. Returns whether there may be more.
fn batch(
    worker: &Rc<Worker>,
    listener: &Listener,
    bound: SocketAddr,
    service: Option<&Arc<Virtual>>,
) -> io::Result<bool> {
    for _ in 0..BATCH {
        let Some((fd, peer)) = listener.try_accept()? else {
            return Ok(false);
        };
        // Without a virtual there is nobody to serve it: it is closed.
        if let Some(service) = service {
            receive(worker, fd, peer, bound, service);
        }
    }
    Ok(true)
}

/// Lets a connection in or turns it away, and finds the worker for it.
fn receive(
    worker: &Rc<Worker>,
    fd: OwnedFd,
    peer: SocketAddr,
    bound: SocketAddr,
    service: &Arc<Virtual>,
) {
    let to = worker.shared.relief_for(worker.index);
    let load = to.as_ref().map_or(&worker.load, |peer| &peer.load);
    let counted = match enter(&worker.shared, load, service, peer) {
        Ok(counted) => counted,
        // Closed with what the client has sent unread, it gets a reset.
        Err(reason) => return refuse(worker, service, reason),
    };
    let mut arrival = Arrival {
        local: local_address(&fd, bound),
        fd,
        peer,
        service: Arc::clone(service),
        counted,
    };
    if let Some(to) = to {
        match to.mail.send(Message::Serve(arrival)) {
            Ok(()) => return,
            // That worker has just ended.
            Err(Message::Serve(back)) => arrival = back,
            Err(_) => return,
        }
        arrival.counted.move_to(&worker.load);
    }
    serve(worker, arrival);
}

fn refuse(worker: &Worker, service: &Virtual, reason: Reason) {
    let counters = &service.state.counters;
    add(&counters.of(worker.index).connections_refused, 1);
    counters.refuse(reason);
}

fn enter(
    shared: &Arc<Shared>,
    load: &Arc<Gauge>,
    service: &Virtual,
    peer: SocketAddr,
) -> Result<Counted, Reason> {
    let relayed = is_relayed(service, peer);
    if !relayed {
        admit(service, peer.ip())?;
    }
    let mut counted = Counted::new(shared, load, &service.state);
    // Counted first and compared after, so that no two pass at once where one may.
    if shared.shunned.has(peer.ip(), shared) {
        return Err("shunned");
    }
    if shared.connections.load(Relaxed) > shared.connection_limit.load(Relaxed) {
        return Err("process-connections");
    }
    if service.state.active.load(Relaxed) > service.config.limits.connections {
        return Err("connections");
    }
    if !relayed {
        counted.claim(service, peer.ip())?;
    }
    Ok(counted)
}

/// Whether a PROXY header may tell another client's address than the socket.
fn is_relayed(service: &Virtual, peer: SocketAddr) -> bool {
    service.config.proxy_protocol.is_some() && service.proxy_from.contains(peer.ip())
}

fn admit(service: &Virtual, client: IpAddr) -> Result<(), Reason> {
    if service.deny.contains(client) {
        return Err("denied");
    }
    if !service.config.allow.is_empty() && !service.allow.contains(client) {
        return Err("not-allowed");
    }
    Ok(())
}

/// Where the client connected to. Asked of the kernel only where it is not told by the socket that
/// listened.
fn local_address(fd: &OwnedFd, bound: SocketAddr) -> SocketAddr {
    if !bound.ip().is_unspecified() {
        return bound;
    }
    let asked = socket2::SockRef::from(fd).local_addr().ok();
    asked
        .and_then(|address| address.as_socket())
        .unwrap_or(bound)
}

impl Counted {
    fn new(shared: &Arc<Shared>, load: &Arc<Gauge>, state: &Arc<VirtualState>) -> Self {
        shared.connections.fetch_add(1, Relaxed);
        load.fetch_add(1, Relaxed);
        state.active.fetch_add(1, Relaxed);
        Counted {
            shared: Arc::clone(shared),
            load: Arc::clone(load),
            state: Arc::clone(state),
            address: None,
        }
    }

    /// Counts the connection for its client, if the virtual limits that.
    fn claim(&mut self, service: &Virtual, client: IpAddr) -> Result<(), Reason> {
        let limit = service.config.limits.connections_per_address;
        if limit == 0 {
            return Ok(());
        }
        if !self.state.per_address.enter(client, limit) {
            return Err("connections-per-address");
        }
        self.address = Some(Box::new(client));
        Ok(())
    }

    fn move_to(&mut self, load: &Arc<Gauge>) {
        load.fetch_add(1, Relaxed);
        let before = std::mem::replace(&mut self.load, Arc::clone(load));
        before.fetch_sub(1, Relaxed);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(address) = &self.address {
            self.state.per_address.leave(**address);
        }
        self.state.active.fetch_sub(1, Relaxed);
        self.load.fetch_sub(1, Relaxed);
        self.shared.connections.fetch_sub(1, Relaxed);
    }
}

async fn readable_or_stopped(listener: &Listener, stop: &Stop) -> io::Result<()> {
    let mut readable = pin!(listener.readable());
    poll_fn(|cx| {
        if stop.stopped.get() {
            return Poll::Ready(Ok(()));
        }
        stop.waiting.replace(Some(cx.waker().clone()));
        readable.as_mut().poll(cx)
    })
    .await
}

/// Lets time pass in which others may give back what has run out.
async fn pause(shared: &Shared, error: &io::Error) {
    let pauses = shared.accept_pauses.fetch_add(1, Relaxed) + 1;
    let now = shared.now().max(1);
    let last = shared.complained.load(Relaxed);
    let due = last == 0 || now.saturating_sub(last) >= COMPLAIN_EVERY;
    let mine = due
        && shared
            .complained
            .compare_exchange(last, now, Relaxed, Relaxed)
            .is_ok();
    if mine {
        warn!(%error, pauses, "accepting connections pauses; those that come wait in the kernel");
    }
    reactor::sleep(PAUSE).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<A, B, R: Future>(_: impl Fn(A, B) -> R) -> usize {
        size_of::<R>()
    }

    #[test]
    fn a_plain_connection_that_waits_for_a_request_is_small() {
        let size = size_of_future(http::serve);
        assert!(size <= 512, "{size} bytes");
    }
}
