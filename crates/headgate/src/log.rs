//! The process's own messages: to standard error, as text or JSON, through a thread, so that nobody who has something to
//! say waits for whoever reads it.

use model::{LogFormat, LogLevel};
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

/// Messages that may wait to be written. Beyond them they are dropped and counted.
const WAITING: usize = 4096;

/// The log, once it is begun.
pub(crate) struct Log {
    level: reload::Handle<LevelFilter, Registry>,
    lines: SyncSender<Line>,
}

impl Log {
    /// Begins the log. To be called once, and only when the process is who it is to be: it starts a thread.
    pub(crate) fn start(config: &model::Log) -> io::Result<Self> {
        let (lines, receiver) = sync_channel(WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let writer = Lines {
            lines: lines.clone(),
            dropped: Arc::clone(&dropped),
        };
        thread::Builder::new()
            .name("hg-log".to_owned())
            .spawn(move || write(&receiver, &dropped))?;
        let (filter, level) = reload::Layer::new(level(config.level));
        let form: Box<dyn Layer<_> + Send + Sync> = match config.format {
            LogFormat::Text => {
                let form = fmt::layer().with_ansi(io::stderr().is_terminal());
                form.with_target(false).with_writer(writer).boxed()
            }
            LogFormat::Json => {
                let form = fmt::layer().json().flatten_event(true);
                form.with_writer(writer).boxed()
            }
        };
        tracing_subscriber::registry()
            .with(filter)
            .with(form)
            .init();
        Ok(Log { level, lines })
    }

    /// Writes what is at least as important as that from now on.
    pub(crate) fn set_level(&self, to: LogLevel) {
        // Fails only when the subscriber is gone, and with it whoever would read.
        let _ = self.level.reload(level(to));
    }

    /// Waits until everything is written, but not long.
    pub(crate) fn flush(&self) {
        let (done, wait) = sync_channel(1);
        let until = Instant::now() + Duration::from_secs(1);
        let mut line = Line::Flush(done);
        while let Err(TrySendError::Full(back)) = self.lines.try_send(line) {
            if Instant::now() > until {
                return;
            }
            line = back;
            thread::sleep(Duration::from_millis(5));
        }
        let _ = wait.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}

enum Line {
    Text(Vec<u8>),
    Flush(SyncSender<()>),
}

fn write(lines: &Receiver<Line>, dropped: &AtomicU64) {
    let mut stderr = io::stderr();
    let mut told = 0;
    loop {
        match lines.recv_timeout(Duration::from_secs(1)) {
            // Where standard error cannot be written to, there is nobody to tell.
            Ok(Line::Text(text)) => drop(stderr.write_all(&text)),
            Ok(Line::Flush(done)) => drop(done.send(())),
            Err(RecvTimeoutError::Timeout) => {
                let now = dropped.load(Relaxed);
                if now > told {
                    let _ = writeln!(
                        stderr,
                        "{} log messages dropped: they came too fast",
                        now - told
                    );
                    told = now;
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Sends each message, once it is whole.
struct Lines {
    lines: SyncSender<Line>,
    dropped: Arc<AtomicU64>,
}

struct Message<'a> {
    to: &'a Lines,
    text: Vec<u8>,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Message<'a>;

    fn make_writer(&'a self) -> Message<'a> {
        Message {
            to: self,
            text: Vec::new(),
        }
    }
}

impl Write for Message<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Message<'_> {
    fn drop(&mut self) {
        let text = Line::Text(std::mem::take(&mut self.text));
        if let Err(TrySendError::Full(_)) = self.to.lines.try_send(text) {
            self.to.dropped.fetch_add(1, Relaxed);
        }
    }
}

fn level(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_logs_never_waits_and_what_is_dropped_is_counted() {
        let (lines, receiver) = sync_channel(2);
        let writer = Lines {
            lines,
            dropped: Arc::default(),
        };
        for _ in 0..5 {
            writer.make_writer().write_all(b"a message\n").unwrap();
        }
        assert_eq!(writer.dropped.load(Relaxed), 3);
        assert!(matches!(receiver.recv().unwrap(), Line::Text(text) if text == b"a message\n"));
    }
}
