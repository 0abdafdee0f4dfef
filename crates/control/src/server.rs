//! Where the admin API is reached: a Unix socket and, if configured, a TCP address; both can change while it runs. What it
//! answers is left to `api`.

use crate::api::{self, Context, Entry};
use crate::process::Process;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use proxy::Engine;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tracing::{debug, warn};

/// Connections at a time, over all listeners.
const CONNECTIONS: usize = 128;

/// How long a request's head may take, and a connection be unused.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Sizes of a request's head, in bytes and in fields.
const HEAD_BYTES: usize = 32 * 1024;
const HEAD_FIELDS: usize = 64;

/// How long accepting rests when it fails.
const PAUSE: Duration = Duration::from_millis(200);

/// The admin interface could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The Unix socket could not be made.
    #[error(
        "admin.socket: cannot make {path}: {source}; the folder must be one in which the user that Headgate runs as may write"
    )]
    Socket {
        /// Its path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Something else has its place.
    #[error(
        "admin.socket: {0} is there already and is no socket; remove it or choose another path"
    )]
    NotASocket(PathBuf),
    /// The TCP address could not be listened on.
    #[error("admin.listen: cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
}

/// The admin API at its addresses. It is served by tasks of the tokio runtime that it was made in.
pub struct Server {
    context: Arc<Context>,
    connections: Arc<Semaphore>,
    socket: Option<Socket>,
    tcp: Option<Tcp>,
}

/// Another set of addresses, bound and not yet served.
pub struct Prepared {
    settings: model::Admin,
    socket: Change<(UnixListener, PathBuf, Hidden)>,
    tcp: Change<TcpListener>,
}

enum Change<T> {
    Stays,
    Goes,
    Comes(T),
}

struct Socket {
    path: PathBuf,
    /// Device and inode: what stands at the path may be another's by now.
    identity: (u64, u64),
    accepting: JoinHandle<()>,
}

struct Tcp {
    configured: SocketAddr,
    local: SocketAddr,
    descriptor: Arc<tokio::net::TcpListener>,
    accepting: JoinHandle<()>,
}

impl Server {
    /// Serves the API. `inherited` is the TCP listener of the process that this one takes over from.
    ///
    /// # Errors
    ///
    /// When a socket cannot be had.
    pub fn start(
        engine: Arc<Engine>,
        process: Arc<Process>,
        settings: &model::Admin,
        inherited: Option<TcpListener>,
    ) -> Result<Self, ServerError> {
        let mut server = Server {
            context: Arc::new(Context::new(engine, process)),
            connections: Arc::new(Semaphore::new(CONNECTIONS)),
            socket: None,
            tcp: None,
        };
        let prepared = server.prepare_with(settings, inherited)?;
        server.replace(prepared);
        Ok(server)
    }

    /// Binds what `settings` asks for and is not there yet; what is there stays in use.
    ///
    /// # Errors
    ///
    /// When a socket cannot be had. Nothing has changed then.
    pub fn prepare(&self, settings: &model::Admin) -> Result<Prepared, ServerError> {
        self.prepare_with(settings, None)
    }

    /// Serves what was prepared, and nothing else. Requests under way are finished.
    pub fn replace(&mut self, prepared: Prepared) {
        self.context.set_settings(prepared.settings);
        match prepared.socket {
            Change::Stays => {}
            Change::Goes => self.close_socket(),
            Change::Comes((listener, path, hidden)) => {
                // At its own path it takes the old one's place without a gap.
                if self.socket.as_ref().is_some_and(|old| old.path != path) {
                    self.close_socket();
                }
                self.open_socket(listener, path, &hidden);
            }
        }
        match prepared.tcp {
            Change::Stays => {}
            Change::Goes => self.close_tcp(),
            Change::Comes(listener) => {
                self.close_tcp();
                self.open_tcp(listener);
            }
        }
    }

    /// Makes the Unix socket anew where another process has taken its path.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub fn reclaim_socket(&mut self) -> Result<(), ServerError> {
        let Some(path) = self.socket.as_ref().map(|socket| socket.path.clone()) else {
            return Ok(());
        };
        if self.socket.as_ref().is_some_and(Socket::is_in_place) {
            return Ok(());
        }
        let (listener, hidden) = bind_hidden(&path)?;
        self.open_socket(listener, path, &hidden);
        Ok(())
    }

    /// The TCP address, port 0 replaced by the port it got.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().map(|tcp| tcp.local)
    }

    /// The TCP listener, for the process that takes over.
    pub fn tcp_listener(&self) -> Option<OwnedFd> {
        use std::os::fd::AsFd;
        let tcp = self.tcp.as_ref()?;
        tcp.descriptor.as_fd().try_clone_to_owned().ok()
    }

    /// Takes no further connections, and removes the Unix socket unless another process has its path by now.
    pub fn close(&mut self) {
        self.close_socket();
        self.close_tcp();
    }

    fn prepare_with(
        &self,
        settings: &model::Admin,
        inherited: Option<TcpListener>,
    ) -> Result<Prepared, ServerError> {
        let socket = match (&settings.socket, &self.socket) {
            (None, None) => Change::Stays,
            (None, Some(_)) => Change::Goes,
            (Some(path), Some(old)) if *path == old.path && old.is_in_place() => Change::Stays,
            (Some(path), _) => {
                let (listener, hidden) = bind_hidden(path)?;
                Change::Comes((listener, path.clone(), hidden))
            }
        };
        let tcp = match (settings.listen, &self.tcp) {
            (None, None) => Change::Stays,
            (None, Some(_)) => Change::Goes,
            (Some(address), Some(old)) if address == old.configured => Change::Stays,
            (Some(address), _) => {
                let same = |l: &TcpListener| l.local_addr().is_ok_and(|local| local == address);
                let listener = match inherited.filter(same) {
                    Some(listener) => Ok(listener),
                    None => TcpListener::bind(address),
                };
                let listener = listener.and_then(|l| l.set_nonblocking(true).map(|()| l));
                Change::Comes(listener.map_err(|source| ServerError::Listen { address, source })?)
            }
        };
        Ok(Prepared {
            settings: settings.clone(),
            socket,
            tcp,
        })
    }

    fn open_socket(&mut self, listener: UnixListener, path: PathBuf, hidden: &Hidden) {
        let put = fs::rename(&hidden.socket, &path)
            .and_then(|()| fs::metadata(&path))
            .and_then(|m| Ok((m, tokio::net::UnixListener::from_std(listener)?)));
        let (metadata, listener) = match put {
            Ok(put) => put,
            Err(error) => {
                warn!(path = %path.display(), %error, "cannot serve the admin API on its Unix socket");
                return;
            }
        };
        if let Some(old) = self.socket.take() {
            old.accepting.abort();
        }
        let router = self.router(Entry::Socket);
        let connections = Arc::clone(&self.connections);
        let accepting = tokio::spawn(async move {
            loop {
                let accepted = listener.accept().await.map(|(stream, _)| stream);
                take(accepted, &router, &connections).await;
            }
        });
        self.socket = Some(Socket {
            path,
            identity: (metadata.dev(), metadata.ino()),
            accepting,
        });
    }

    fn open_tcp(&mut self, listener: TcpListener) {
        let put = listener
            .local_addr()
            .and_then(|local| Ok((local, tokio::net::TcpListener::from_std(listener)?)));
        let (local, listener) = match put {
            Ok(put) => put,
            Err(error) => {
                warn!(%error, "cannot serve the admin API on its TCP address");
                return;
            }
        };
        let listener = Arc::new(listener);
        let router = self.router(Entry::Tcp);
        let connections = Arc::clone(&self.connections);
        let accepter = Arc::clone(&listener);
        let accepting = tokio::spawn(async move {
            loop {
                let accepted = accepter.accept().await.map(|(stream, _)| stream);
                take(accepted, &router, &connections).await;
            }
        });
        self.tcp = Some(Tcp {
            configured: self.context.settings().listen.unwrap_or(local),
            local,
            descriptor: listener,
            accepting,
        });
    }

    fn router(&self, entry: Entry) -> Router {
        api::router(&self.context).layer(Extension(entry))
    }

    fn close_socket(&mut self) {
        if let Some(socket) = self.socket.take() {
            socket.accepting.abort();
            if socket.is_in_place() {
                // Nothing is lost if it stays: the next process takes its place.
                let _ = fs::remove_file(&socket.path);
            }
        }
    }

    fn close_tcp(&mut self) {
        if let Some(tcp) = self.tcp.take() {
            tcp.accepting.abort();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.close();
    }
}

impl Socket {
    fn is_in_place(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|m| (m.dev(), m.ino()) == self.identity)
    }
}

/// Serves a connection in a task of its own, or rests for a moment if there is none to be had.
async fn take<S>(accepted: io::Result<S>, router: &Router, connections: &Arc<Semaphore>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = match accepted {
        Ok(stream) => stream,
        Err(error) => {
            debug!(%error, "cannot accept a connection to the admin API");
            tokio::time::sleep(PAUSE).await;
            return;
        }
    };
    let Ok(permit) = Arc::clone(connections).acquire_owned().await else {
        return;
    };
    let service = TowerToHyperService::new(router.clone());
    tokio::spawn(async move {
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(HEAD_BYTES)
            .max_headers(HEAD_FIELDS)
            .serve_connection(TokioIo::new(stream), service)
            .await;
        if let Err(error) = served {
            debug!(%error, "a connection to the admin API broke");
        }
        drop(permit);
    });
}

/// A folder of nobody else's in which a socket waits to be put in its place. Made so, the socket can be reached by its
/// owner alone from the first moment.
struct Hidden {
    folder: PathBuf,
    socket: PathBuf,
}

impl Drop for Hidden {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
        let _ = fs::remove_dir(&self.folder);
    }
}

fn bind_hidden(path: &Path) -> Result<(UnixListener, Hidden), ServerError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    if fs::symlink_metadata(path).is_ok_and(|m| !m.file_type().is_socket()) {
        return Err(ServerError::NotASocket(path.to_owned()));
    }
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let bind = || -> io::Result<_> {
        let parent = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(parent)?;
        let folder = parent.join(format!(".hg-{}-{number}", std::process::id()));
        fs::DirBuilder::new().mode(0o700).create(&folder)?;
        let hidden = Hidden {
            socket: folder.join("s"),
            folder,
        };
        let listener = UnixListener::bind(&hidden.socket)?;
        fs::set_permissions(&hidden.socket, fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok((listener, hidden))
    };
    bind().map_err(|source| ServerError::Socket {
        path: path.to_owned(),
        source,
    })
}
