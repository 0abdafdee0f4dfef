//! `headgate run`: the life of the process from its start through reloads and upgrades to its end.

use crate::args::{self, Run};
use crate::fast::{Carer, Fast};
use crate::fastpath::metrics;
use crate::log::Log;
use crate::privileges;
use crate::upgrade::{Handoff, Program};
use crate::{notify, privileges::PrivilegeError};
use control::{Beside, Process, Request, Server, ServerError, Watch, Wish};
use fastpath::stats::Stats;
use proxy::{ApplyError, Engine, Options};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tracing::{error, info, warn};

/// How often files are looked at.
const LOOK_AT_FILES: Duration = Duration::from_secs(1);

/// How often a process that ends looks whether its connections are over, and how long it does not believe that there are
/// none: some may have been waiting to be accepted.
const LOOK_AT_CONNECTIONS: Duration = Duration::from_millis(20);
const SETTLE: Duration = Duration::from_millis(200);

/// How long access logs may take to be written at the end.
const LAST_LINES: Duration = Duration::from_secs(3);

/// Why the process did not start.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("{0}")]
    Config(#[from] model::Errors),
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    #[error(transparent)]
    FastPath(#[from] fastpath::StartError),
    #[error(transparent)]
    Engine(#[from] ApplyError),
    #[error(transparent)]
    Admin(#[from] ServerError),
    #[error("cannot write the process's number to {path}: {source}")]
    PidFile { path: PathBuf, source: io::Error },
    #[error("cannot {what}: {source}")]
    System {
        what: &'static str,
        source: io::Error,
    },
}

/// Serves until it is told to end.
pub(crate) fn run(args: &Run) -> ExitCode {
    // Before anything is opened or started.
    let mut handoff = Handoff::receive();
    match serve(args, &mut handoff) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("headgate: cannot start\n{error}");
            handoff.refuse(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn serve(args: &Run, handoff: &mut Handoff) -> Result<(), StartError> {
    let path = args.config.path();
    let program = Program::of_this_process().map_err(system("find this program's file"))?;
    let (config, watch) = control::read(&path);
    let config = config?;
    // From here on there are threads.
    let warnings = privileges::settle(&config, args.pid_file.as_deref())?;
    let log = Log::start(&config.log).map_err(system("start the thread of the log"))?;
    for warning in warnings {
        warn!("{warning}");
    }
    let fast = Fast::start(&config)?;
    let options = Options {
        pin: true,
        shun: fast.shun_list(),
        ..Options::default()
    };
    let engine =
        Engine::start(config.clone(), handoff.listeners(), options).inspect_err(|_| fast.undo())?;
    let engine = Arc::new(engine);
    let carer = fast
        .look_after(&engine)
        .map_err(system("start the thread of the fast path"))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_name("hg-control")
        .build()
        .map_err(system("start the runtime of the admin API"))?;
    let result = runtime.block_on(async {
        let (process, requests) = Process::new(args::VERSION, path);
        if let Some(path) = fast.path().cloned() {
            process.expose(move |out| {
                // What can't be read now may be the next time.
                if let Ok(stats) = path.with_tables(|tables, _| Stats::read(tables)) {
                    metrics::write(out, &stats);
                }
            });
        }
        let process = Arc::new(process);
        let server = Server::start(
            Arc::clone(&engine),
            Arc::clone(&process),
            &config.admin,
            handoff.admin(),
        )?;
        let signals = Signals::new().map_err(system("listen to signals"))?;
        let pid_file = PidFile::write(args.pid_file.as_deref())?;
        handoff.ready();
        notify::ready();
        info!(
            version = args::VERSION,
            pid = std::process::id(),
            config = %process.config.display(),
            virtuals = config.virtuals.len(),
            workers = engine.workers(),
            "serving"
        );
        let life = Life {
            engine: Arc::clone(&engine),
            fast: Arc::new(fast),
            carer,
            process,
            server,
            watch,
            program: Arc::new(program),
            log: &log,
        };
        life.live(signals, requests).await;
        drop(pid_file);
        Ok(())
    });
    // What still runs there ends with the process.
    runtime.shutdown_background();
    engine.stop();
    if !proxy::access::flush_all(LAST_LINES) {
        warn!("the last lines of an access log could not be written in time");
    }
    log.flush();
    result
}

struct Signals {
    reload: Signal,
    upgrade: Signal,
    end: EndSignals,
}

struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Signals {
            reload: signal(SignalKind::hangup())?,
            upgrade: signal(SignalKind::user_defined2())?,
            end: EndSignals {
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
            },
        })
    }
}

impl EndSignals {
    async fn recv(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Why the process takes nothing new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It was told to end.
    Told,
    /// Another process has taken over.
    Replaced,
}

struct Life<'a> {
    engine: Arc<Engine>,
    fast: Arc<Fast>,
    carer: Option<Carer>,
    process: Arc<Process>,
    server: Server,
    watch: Watch,
    program: Arc<Program>,
    log: &'a Log,
}

impl Life<'_> {
    async fn live(mut self, mut signals: Signals, mut requests: mpsc::Receiver<Request>) {
        let end = self.serve(&mut signals, &mut requests).await;
        self.finish(end, &mut signals, &mut requests).await;
    }

    async fn serve(
        &mut self,
        signals: &mut Signals,
        requests: &mut mpsc::Receiver<Request>,
    ) -> End {
        let mut look = interval(LOOK_AT_FILES);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = signals.end.recv() => return End::Told,
                _ = signals.reload.recv() => { let _ = self.reload("signal").await; }
                _ = signals.upgrade.recv() => {
                    if self.upgrade().await.is_ok() {
                        return End::Replaced;
                    }
                }
                Some(Request { wish, answer }) = requests.recv() => {
                    let (result, end) = match wish {
                        Wish::Reload => (self.reload("api").await, None),
                        Wish::Upgrade => {
                            let result = self.upgrade().await;
                            let end = result.is_ok().then_some(End::Replaced);
                            (result, end)
                        }
                        Wish::Drain => (Ok("draining; the process ends with its last connection".to_owned()), Some(End::Told)),
                    };
                    // Whoever asked may be gone.
                    let _ = answer.send(result);
                    if let Some(end) = end {
                        return end;
                    }
                }
                _ = look.tick() => {
                    if self.watch.settled_change() {
                        let _ = self.reload("file").await;
                    }
                }
            }
        }
    }

    async fn reload(&mut self, cause: &str) -> Result<String, String> {
        notify::reloading();
        let beside: Arc<dyn Beside> = self.fast.clone();
        let (watch, result) = control::reload(
            &self.engine,
            &beside,
            &self.process,
            &mut self.server,
            cause,
        )
        .await;
        if let Some(watch) = watch {
            self.watch = watch;
        }
        notify::ready();
        let config = result?;
        self.log.set_level(config.log.level);
        let last = self.process.last_reload();
        let changes = last.map(|reload| reload.changes).unwrap_or_default();
        let generation = self.engine.snapshot().generation;
        Ok(match changes.is_empty() {
            true => format!("reloaded, nothing changed (generation {generation})"),
            false => format!(
                "reloaded (generation {generation}):\n  {}",
                changes.join("\n  ")
            ),
        })
    }

    async fn upgrade(&mut self) -> Result<String, String> {
        info!("starting the program that takes over");
        let program = Arc::clone(&self.program);
        let engine = Arc::clone(&self.engine);
        let admin = self.server.tcp_listener();
        let replaced = tokio::task::spawn_blocking(move || {
            let listeners = engine
                .listeners()
                .map_err(crate::upgrade::UpgradeError::Sockets)?;
            program.replace(listeners, admin)
        });
        let result = match replaced.await {
            Ok(result) => result.map_err(|error| error.to_string()),
            Err(_) => Err("starting the new process ended in a panic; the log has it".to_owned()),
        };
        match result {
            Ok(pid) => {
                info!(pid, "another process has taken over");
                notify::replaced_by(pid);
                Ok(format!(
                    "process {pid} has taken over; this one finishes what it has"
                ))
            }
            Err(why) => {
                error!("not upgraded; this process goes on: {why}");
                let config = Arc::clone(&self.engine.snapshot().config);
                if let Err(error) = self.fast.apply(&config) {
                    error!("{error}");
                }
                if let Err(error) = self.server.reclaim_socket() {
                    error!("{error}");
                }
                Err(why)
            }
        }
    }

    /// Takes nothing new, and waits for what there is.
    async fn finish(
        mut self,
        end: End,
        signals: &mut Signals,
        requests: &mut mpsc::Receiver<Request>,
    ) {
        let limits = self.engine.snapshot().config.limits.clone();
        if end == End::Replaced {
            // The fast path is the other process's.
            self.carer = None;
        }
        let limit = match end {
            End::Told => {
                notify::stopping("draining");
                limits.drain
            }
            End::Replaced => {
                // Only now: the answer to whoever asked for it must still go out.
                sleep(SETTLE).await;
                self.server.close();
                limits.upgrade_drain
            }
        };
        self.engine.drain();
        info!(connections = self.engine.connections(), limit = ?limit, "draining");
        let began = Instant::now();
        let over = async {
            sleep(SETTLE).await;
            while self.engine.connections() > 0 && began.elapsed() < limit {
                sleep(LOOK_AT_CONNECTIONS).await;
            }
        };
        let refuse = async {
            while let Some(request) = requests.recv().await {
                let _ = request
                    .answer
                    .send(Err("this process is ending".to_owned()));
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = over => match self.engine.connections() {
                0 => info!("all connections are over"),
                left => warn!(left, "time is up; the connections that are left are closed"),
            },
            () = signals.end.recv() => {
                warn!(left = self.engine.connections(), "told to end again; the connections that are left are closed");
            }
            () = refuse => {}
        }
        self.server.close();
        if end == End::Told {
            self.carer = None;
            self.fast.end(&self.engine.snapshot().config);
        }
    }
}

/// The file with the process's number; removed at the end, unless another process has written its own by then.
struct PidFile(Option<PathBuf>);

impl PidFile {
    fn write(path: Option<&Path>) -> Result<Self, StartError> {
        if let Some(path) = path {
            fs::write(path, format!("{}\n", std::process::id())).map_err(|source| {
                StartError::PidFile {
                    path: path.to_owned(),
                    source,
                }
            })?;
        }
        Ok(PidFile(path.map(Path::to_owned)))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let Some(path) = &self.0 else { return };
        let own = std::process::id().to_string();
        if fs::read_to_string(path).is_ok_and(|text| text.trim() == own) {
            let _ = fs::remove_file(path);
        }
    }
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> StartError {
    move |source| StartError::System { what, source }
}
