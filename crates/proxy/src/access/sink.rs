//! Where lines go: a bounded buffer and a thread that writes it out. All logs with one output share both.
//!
//! Whoever appends takes a lock for the time of a copy. The thread looks a few times a second while lines come, and
//! sleeps while none do; a disk that is full or a pipe that nobody reads stops the thread and nobody else.

use super::OpenError;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::mem;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// An output of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Stdout,
    Stderr,
    File(PathBuf),
}

/// A log's hold on an output. When the last is dropped, what was taken is still written, without anybody waiting.
#[derive(Debug)]
pub(super) struct Sink(Arc<Shared>);

impl Sink {
    /// Joins the output, or opens it.
    pub(super) fn open(target: Target, capacity: usize) -> Result<Self, OpenError> {
        let mut outputs = lock(&OUTPUTS);
        outputs.retain(|output| output.strong_count() > 0);
        for shared in outputs.iter().filter_map(Weak::upgrade) {
            if shared.target != target {
                continue;
            }
            let mut state = lock(&shared.state);
            if state.ended {
                continue;
            }
            state.holders += 1;
            state.capacity = state.capacity.max(capacity);
            drop(state);
            return Ok(Sink(shared));
        }
        let failed = |source| OpenError {
            path: target.name(),
            source,
        };
        let file = target.open().map_err(failed)?;
        let sink = Sink::start(target.clone(), file, capacity).map_err(failed)?;
        outputs.push(Arc::downgrade(&sink.0));
        Ok(sink)
    }

    fn start(target: Target, output: Box<dyn Write + Send>, capacity: usize) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            target,
            state: Mutex::new(State {
                capacity,
                holders: 1,
                ..State::default()
            }),
            more: Condvar::new(),
            written: Condvar::new(),
        });
        let writer = Writer {
            shared: Arc::clone(&shared),
            output,
            complained: None,
        };
        thread::Builder::new()
            .name("hg-access-log".into())
            .spawn(move || writer.run())?;
        Ok(Sink(shared))
    }

    pub(super) fn append(&self, line: &[u8]) {
        let mut state = lock(&self.0.state);
        let waiting = state.buffer.len() + state.in_hand;
        if waiting + line.len() > state.capacity {
            state.dropped += 1;
            return;
        }
        state.lines += 1;
        state.buffer.extend_from_slice(line);
        // The writer looks by itself soon, if it is awake; half full is when soon may be too late.
        let half = state.capacity / 2;
        if state.asleep || (waiting < half && waiting + line.len() >= half) {
            state.asleep = false;
            state.hurry = waiting + line.len() >= half;
            drop(state);
            self.0.more.notify_one();
        }
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn lines(&self) -> u64 {
        lock(&self.0.state).lines
    }

    pub(super) fn dropped(&self) -> u64 {
        lock(&self.0.state).dropped
    }

    pub(super) fn failures(&self) -> u64 {
        lock(&self.0.state).failures
    }

    pub(super) fn reopen(&self) {
        lock(&self.0.state).reopen = true;
        self.0.hurry();
    }

    pub(super) fn flush(&self, limit: Duration) -> bool {
        self.0.flush(Instant::now() + limit)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        lock(&self.0.state).holders -= 1;
        self.0.hurry();
    }
}

pub(super) fn flush_all(limit: Duration) -> bool {
    let until = Instant::now() + limit;
    let outputs: Vec<_> = lock(&OUTPUTS).iter().filter_map(Weak::upgrade).collect();
    let mut all = true;
    for output in outputs {
        all &= output.flush(until);
    }
    all
}

/// The outputs that are open.
static OUTPUTS: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// How long lines are gathered before they are written together.
const GATHER: Duration = Duration::from_millis(50);

/// How long after a write that failed it is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// How often it is tried when nobody holds the log any more.
const LAST_TRIES: u32 = 3;

/// How often a failure is reported at most.
const COMPLAIN: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Shared {
    target: Target,
    state: Mutex<State>,
    /// There is something for the writer to do.
    more: Condvar,
    /// Something was written, or the writer has ended.
    written: Condvar,
}

#[derive(Debug, Default)]
struct State {
    buffer: Vec<u8>,
    capacity: usize,
    /// Bytes that the writer took out and has not written yet.
    in_hand: usize,
    holders: usize,
    lines: u64,
    dropped: u64,
    failures: u64,
    /// The writer waits for the first line; whoever brings it wakes it.
    asleep: bool,
    /// What is there is not to wait for more.
    hurry: bool,
    reopen: bool,
    ended: bool,
}

impl Shared {
    fn hurry(&self) {
        let mut state = lock(&self.state);
        state.asleep = false;
        state.hurry = true;
        drop(state);
        self.more.notify_one();
    }

    fn flush(&self, until: Instant) -> bool {
        self.hurry();
        let mut state = lock(&self.state);
        loop {
            if state.buffer.is_empty() && state.in_hand == 0 {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || state.ended {
                return false;
            }
            state.hurry = true;
            state = self
                .written
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

impl Target {
    fn name(&self) -> String {
        match self {
            Target::Stdout => "stdout".into(),
            Target::Stderr => "stderr".into(),
            Target::File(path) => path.display().to_string(),
        }
    }

    fn open(&self) -> io::Result<Box<dyn Write + Send>> {
        Ok(match self {
            // A descriptor of our own: the locked handles of `std` flush by lines, and block others.
            Target::Stdout => Box::new(duplicate(&io::stdout())?),
            Target::Stderr => Box::new(duplicate(&io::stderr())?),
            Target::File(path) => Box::new(
                OpenOptions::new()
                    .append(true)
                    .create(true)
                    .mode(0o640)
                    .open(path)?,
            ),
        })
    }
}

fn duplicate(stream: &impl std::os::fd::AsFd) -> io::Result<File> {
    Ok(File::from(stream.as_fd().try_clone_to_owned()?))
}

/// The thread that writes.
struct Writer {
    shared: Arc<Shared>,
    output: Box<dyn Write + Send>,
    /// When a failure was last reported.
    complained: Option<Instant>,
}

impl Writer {
    fn run(mut self) {
        let mut batch = Vec::new();
        while let Some(reopen) = self.next_batch(&mut batch) {
            self.write(&batch);
            if batch.capacity() > KEEP {
                batch = Vec::new();
            }
            batch.clear();
            if reopen {
                self.reopen();
            }
        }
    }

    /// Waits for lines and takes them. `None` when there are none left and nobody to bring more.
    fn next_batch(&self, batch: &mut Vec<u8>) -> Option<bool> {
        let shared = &*self.shared;
        let mut state = lock(&shared.state);
        state.in_hand = 0;
        shared.written.notify_all();
        if !state.hurry && !state.buffer.is_empty() {
            state = self.wait(state, GATHER);
        }
        while state.buffer.is_empty() && !state.reopen {
            if state.holders == 0 {
                state.ended = true;
                shared.written.notify_all();
                return None;
            }
            state.asleep = true;
            state.hurry = false;
            state = shared
                .more
                .wait_while(state, |state| state.asleep)
                .unwrap_or_else(PoisonError::into_inner);
            if !state.hurry {
                state = self.wait(state, GATHER);
            }
        }
        mem::swap(&mut state.buffer, batch);
        state.in_hand = batch.len();
        state.hurry = false;
        Some(mem::take(&mut state.reopen))
    }

    /// Waits for a time, or until somebody is in a hurry.
    fn wait<'a>(&self, state: MutexGuard<'a, State>, time: Duration) -> MutexGuard<'a, State> {
        self.shared
            .more
            .wait_timeout_while(state, time, |state| !state.hurry)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }

    /// Writes all of `batch`, however often it takes: a line that was begun is finished.
    fn write(&mut self, mut batch: &[u8]) {
        let mut tries = 0;
        while !batch.is_empty() {
            match self.output.write(batch) {
                Ok(n) if n > 0 => {
                    batch = &batch[n..];
                    lock(&self.shared.state).in_hand = batch.len();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                failed => {
                    let error = failed
                        .err()
                        .unwrap_or_else(|| io::ErrorKind::WriteZero.into());
                    self.complain(&error);
                    let mut state = lock(&self.shared.state);
                    state.failures += 1;
                    tries += 1;
                    if state.holders == 0 && tries >= LAST_TRIES {
                        state.dropped += lines(batch);
                        return;
                    }
                    state.hurry = false;
                    let mut state = self.wait(state, AGAIN);
                    let reopen = mem::take(&mut state.reopen);
                    drop(state);
                    // A rotation may be just what cures it.
                    if reopen {
                        self.reopen();
                    }
                }
            }
        }
    }

    fn reopen(&mut self) {
        if !matches!(self.shared.target, Target::File(_)) {
            return;
        }
        match self.shared.target.open() {
            Ok(output) => self.output = output,
            Err(error) => self.complain(&error),
        }
    }

    fn complain(&mut self, error: &io::Error) {
        if self
            .complained
            .is_some_and(|last| last.elapsed() < COMPLAIN)
        {
            return;
        }
        self.complained = Some(Instant::now());
        let output = self.shared.target.name();
        tracing::warn!(%output, %error, "the access log cannot be written; it will be tried again");
    }
}

/// The largest buffer that is kept for the next batch.
const KEEP: usize = 1 << 20;

fn lines(batch: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', batch).count() as u64
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every critical section here leaves the state consistent, also where it panics.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::sync::mpsc;

    const LONG: Duration = Duration::from_secs(20);

    /// A folder of the test's own, gone with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("hg-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn file(&self, name: &str) -> Target {
            Target::File(self.0.join(name))
        }

        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.0.join(name)).unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn lines_of_several_logs_reach_one_file_whole() {
        let folder = Folder::new("shared");
        let sinks: Vec<_> = (0..3)
            .map(|_| Sink::open(folder.file("a.log"), 1 << 20).unwrap())
            .collect();
        assert!(Arc::ptr_eq(&sinks[0].0, &sinks[2].0));
        thread::scope(|scope| {
            for (n, sink) in sinks.iter().enumerate() {
                scope.spawn(move || {
                    for _ in 0..200 {
                        sink.append(format!("line of {n}\n").as_bytes());
                    }
                });
            }
        });
        assert!(sinks[0].flush(LONG));
        let text = folder.read("a.log");
        for n in 0..3 {
            let line = format!("line of {n}");
            assert_eq!(text.lines().filter(|l| *l == line).count(), 200);
        }
        assert_eq!((sinks[0].lines(), sinks[0].dropped()), (600, 0));
    }

    #[test]
    fn what_was_taken_is_written_when_the_log_is_dropped() {
        let folder = Folder::new("drop");
        let sink = Sink::open(folder.file("a.log"), 4096).unwrap();
        let shared = Arc::clone(&sink.0);
        sink.append(b"last words\n");
        drop(sink);
        assert!(shared.flush(Instant::now() + LONG));
        assert_eq!(folder.read("a.log"), "last words\n");
    }

    #[test]
    fn after_a_rotation_lines_go_to_a_new_file() {
        let folder = Folder::new("rotate");
        let sink = Sink::open(folder.file("a.log"), 4096).unwrap();
        sink.append(b"old\n");
        assert!(sink.flush(LONG));
        fs::rename(folder.0.join("a.log"), folder.0.join("a.log.1")).unwrap();
        sink.append(b"still old\n");
        sink.reopen();
        assert!(sink.flush(LONG));
        let until = Instant::now() + LONG;
        while !folder.0.join("a.log").exists() {
            assert!(Instant::now() < until);
            thread::yield_now();
        }
        sink.append(b"new\n");
        assert!(sink.flush(LONG));
        assert_eq!(folder.read("a.log.1"), "old\nstill old\n");
        assert_eq!(folder.read("a.log"), "new\n");
    }

    /// An output that nobody reads: a write does not come back before it is told to.
    struct Stuck(mpsc::Receiver<()>, Arc<Mutex<Vec<u8>>>);

    impl Write for Stuck {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            lock(&self.1).extend_from_slice(buf);
            Ok(buf.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_output_that_nobody_reads_costs_lines_and_blocks_nobody() {
        let (go, stuck) = mpsc::channel();
        let output = Arc::new(Mutex::new(Vec::new()));
        let stuck = Stuck(stuck, Arc::clone(&output));
        let sink = Sink::start(Target::Stdout, Box::new(stuck), 100).unwrap();
        for _ in 0..50 {
            sink.append(b"123456789\n");
        }
        assert_eq!((sink.lines(), sink.dropped()), (10, 40));
        assert!(!sink.flush(Duration::ZERO));
        drop(go);
        assert!(sink.flush(LONG));
        assert_eq!(lock(&output).len(), 100);
        sink.append(b"123456789\n");
        assert_eq!(sink.lines(), 11);
    }

    /// A disk that is full for a while, in the middle of a line.
    struct Full(u32, Arc<Mutex<Vec<u8>>>);

    impl Write for Full {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.0 += 1;
            match self.0 {
                1 => {
                    lock(&self.1).extend_from_slice(&buf[..3]);
                    Ok(3)
                }
                2 => Err(io::ErrorKind::StorageFull.into()),
                _ => {
                    lock(&self.1).extend_from_slice(buf);
                    Ok(buf.len())
                }
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_tried_again_and_the_line_is_finished() {
        let output = Arc::new(Mutex::new(Vec::new()));
        let full = Full(0, Arc::clone(&output));
        let sink = Sink::start(Target::Stdout, Box::new(full), 100).unwrap();
        sink.append(b"a whole line\n");
        assert!(sink.flush(LONG));
        assert_eq!(lock(&output).as_slice(), b"a whole line\n");
        assert_eq!((sink.failures(), sink.dropped()), (1, 0));
    }
}
