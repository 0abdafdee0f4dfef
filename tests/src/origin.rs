//! Origins that follow a script: a thread for each connection, blocking, exact.

use crate::{Message, Wire};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// An origin. Dropping it closes its socket and cuts its connections.
pub struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    accepted: AtomicUsize,
    open: Mutex<Vec<TcpStream>>,
    requests: Mutex<Vec<Message>>,
}

impl Origin {
    /// Hands each connection, and its number from 0, to a script. When the script returns the connection is closed.
    pub fn scripted(script: impl Fn(Wire, usize) + Send + Sync + 'static) -> Self {
        Self::bind((crate::address(), 0).into(), move |wire, nth, _| {
            script(wire, nth);
        })
    }

    /// Answers each request with the bytes that a function makes of it. Connections are kept; empty bytes close them.
    pub fn answering(answer: impl Fn(&Message) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::answering_at((crate::address(), 0).into(), answer)
    }

    /// The same at a given address.
    pub fn answering_at(
        address: SocketAddr,
        answer: impl Fn(&Message) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        Self::bind(address, move |mut wire, _, shared| {
            while let Some(request) = wire.request() {
                let bytes = answer(&request);
                lock(&shared.requests).push(request);
                if bytes.is_empty() || wire.try_send(bytes).is_err() {
                    break;
                }
            }
        })
    }

    /// Answers every request with a name.
    pub fn named(name: &'static str) -> Self {
        Self::named_at((crate::address(), 0).into(), name)
    }

    /// The same at a given address.
    pub fn named_at(address: SocketAddr, name: &'static str) -> Self {
        Self::answering_at(address, move |request| {
            match request.method() {
                "HEAD" => ok("").replace("Length: 0", &format!("Length: {}", name.len())),
                _ => ok(name),
            }
            .into()
        })
    }

    /// An address that refuses connections.
    pub fn refusing() -> SocketAddr {
        let listener = TcpListener::bind((crate::address(), 0)).unwrap();
        listener.local_addr().unwrap()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests that came whole, in the order they came.
    pub fn requests(&self) -> Vec<Message> {
        lock(&self.shared.requests).clone()
    }

    /// The last request that came whole.
    pub fn last(&self) -> Message {
        self.requests().pop().expect("a request reached the origin")
    }

    /// Forgets the requests.
    pub fn forget(&self) {
        lock(&self.shared.requests).clear();
    }

    /// How many requests came whole.
    pub fn count(&self) -> usize {
        lock(&self.shared.requests).len()
    }

    /// How many connections were accepted.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(SeqCst)
    }

    /// Cuts its connections; it goes on listening.
    pub fn cut(&self) {
        for stream in lock(&self.shared.open).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn bind(
        address: SocketAddr,
        serve: impl Fn(Wire, usize, &Shared) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address)
            .unwrap_or_else(|error| panic!("cannot listen on {address}: {error}"));
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let (mine, serve) = (shared.clone(), Arc::new(serve));
        let acceptor = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if mine.stop.load(SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let nth = mine.accepted.fetch_add(1, SeqCst);
                lock(&mine.open).push(stream.try_clone().unwrap());
                let (mine, serve) = (mine.clone(), serve.clone());
                std::thread::spawn(move || {
                    let peer = stream.peer_addr();
                    serve(Wire::of(stream), nth, &mine);
                    let mut open = lock(&mine.open);
                    if let Ok(peer) = peer {
                        open.retain(|other| other.peer_addr().is_ok_and(|other| other != peer));
                    }
                });
            }
        });
        Self {
            address,
            shared,
            acceptor: Some(acceptor),
        }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        self.cut();
    }
}

/// A test that fails elsewhere is to end as usual.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A response of status 200 with a body.
pub(crate) fn ok(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}
