//! Being replaced by a newer program without a connection lost: the new process is started by the old one and given its
//! listening sockets. When it says that it serves, the old one takes nothing new and finishes what it has; if it does not, the
//! old one goes on as if nothing had been.

use proxy::Inherited;
use serde_json::{Value, json};
use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, parent_id};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// The environment variable by which the new process learns what it was given.
const VARIABLE: &str = "HEADGATE_HANDOFF";

/// How long the new process may take until it serves.
const LIMIT: Duration = Duration::from_secs(10);

/// What the new process says when it serves.
const READY: &[u8] = b"ready";

/// Why the process was not replaced.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpgradeError {
    /// The program could not be started.
    #[error("cannot start {program}: {source}")]
    Start { program: PathBuf, source: io::Error },
    /// What it needs could not be made.
    #[error("cannot hand over the listening sockets: {0}")]
    Sockets(io::Error),
    /// It said why it cannot serve.
    #[error("the new process cannot serve: {0}")]
    Refused(String),
    /// It took too long.
    #[error("the new process did not serve within {} s and was ended", LIMIT.as_secs())]
    TooLate,
}

/// How this program was started, noted before anything can change.
pub(crate) struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
}

impl Program {
    /// The program of this process, by the path that it was called by: what stands there later is what takes over, also
    /// where the path is a link that was turned to a newer version.
    pub(crate) fn of_this_process() -> io::Result<Self> {
        let mut arguments = env::args_os();
        let called = arguments.next().map(PathBuf::from);
        let own = env::current_exe()?;
        let called = called
            .filter(|path| path.components().count() > 1)
            .and_then(|path| std::path::absolute(path).ok())
            .filter(|path| path.canonicalize().is_ok_and(|real| real == own));
        Ok(Program {
            path: called.unwrap_or(own),
            arguments: arguments.collect(),
        })
    }

    /// Starts the program that now stands in the file and waits until it serves. Blocks for as long. Returns its number.
    ///
    /// # Errors
    ///
    /// Why it does not serve; it has ended then.
    pub(crate) fn replace(
        &self,
        listeners: Vec<(SocketAddr, OwnedFd)>,
        admin: Option<OwnedFd>,
    ) -> Result<u32, UpgradeError> {
        let (said, says) = io::pipe().map_err(UpgradeError::Sockets)?;
        let mut passed: Vec<RawFd> = listeners.iter().map(|(_, fd)| fd.as_raw_fd()).collect();
        passed.extend(admin.iter().map(AsRawFd::as_raw_fd));
        passed.push(says.as_raw_fd());
        let by_number = listeners
            .iter()
            .map(|(at, fd)| (fd.as_raw_fd().to_string(), json!(at.to_string())));
        let handoff = json!({
            "from": std::process::id(),
            "listeners": by_number.collect::<serde_json::Map<_, _>>(),
            "admin": admin.as_ref().map(AsRawFd::as_raw_fd),
            "ready": says.as_raw_fd(),
        });
        let mut command = Command::new(&self.path);
        command
            .args(&self.arguments)
            .env(VARIABLE, handoff.to_string());
        for name in ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"] {
            command.env_remove(name);
        }
        pass(&mut command, passed);
        let child = command.spawn().map_err(|source| UpgradeError::Start {
            program: self.path.clone(),
            source,
        })?;
        // What the child has is the child's: its end of the pipe must be the only one.
        drop((says, listeners, admin));
        wait_until_it_serves(child, said)
    }
}

/// What the process before this one has handed over.
#[derive(Default)]
pub(crate) struct Handoff {
    listeners: Option<Vec<OwnedFd>>,
    admin: Option<TcpListener>,
    says: Option<PipeWriter>,
}

impl Handoff {
    /// What was handed over to this process, if anything was. To be called once, before descriptors are opened.
    pub(crate) fn receive() -> Self {
        let Ok(text) = env::var(VARIABLE) else {
            return Handoff::default();
        };
        let Ok(handoff) = serde_json::from_str::<Value>(&text) else {
            return Handoff::default();
        };
        if handoff["from"].as_u64() != Some(parent_id().into()) {
            // It was for the process that started this one.
            return Handoff::default();
        }
        let listeners = handoff["listeners"].as_object();
        let numbers = listeners.into_iter().flat_map(|map| map.keys());
        Handoff {
            listeners: Some(numbers.filter_map(|n| adopt(n.parse().ok()?)).collect()),
            admin: number(&handoff["admin"])
                .and_then(adopt)
                .map(TcpListener::from),
            says: number(&handoff["ready"])
                .and_then(adopt)
                .map(PipeWriter::from),
        }
    }

    /// The listening sockets: those handed over, or those of the service manager.
    pub(crate) fn listeners(&mut self) -> Inherited {
        match self.listeners.take() {
            Some(listeners) => Inherited::new(listeners),
            None => Inherited::from_service_manager(),
        }
    }

    /// The admin API's TCP listener.
    pub(crate) fn admin(&mut self) -> Option<TcpListener> {
        self.admin.take()
    }

    /// Tells the process before this one that this one serves.
    pub(crate) fn ready(&mut self) {
        self.say(READY);
    }

    /// Tells it that this one cannot, and why.
    pub(crate) fn refuse(&mut self, why: &str) {
        self.say(why.as_bytes());
    }

    fn say(&mut self, text: &[u8]) {
        if let Some(mut says) = self.says.take() {
            // If nobody listens any more, nobody needs to know.
            let _ = says.write_all(text);
        }
    }
}

fn number(value: &Value) -> Option<RawFd> {
    value.as_i64().and_then(|number| number.try_into().ok())
}

/// Takes a descriptor that was passed, and keeps it from being passed on.
#[expect(unsafe_code, reason = "descriptors come as numbers in the environment")]
fn adopt(number: RawFd) -> Option<OwnedFd> {
    if number <= libc::STDERR_FILENO {
        return None;
    }
    // SAFETY: a system call on plain numbers; where there is no such descriptor it fails.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
        return None;
    }
    // SAFETY: it is open, and was opened for this process, which hears its number here and nowhere else.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Has the child keep these descriptors.
#[expect(
    unsafe_code,
    reason = "what a child does before it is another program is up to its parent"
)]
fn pass(command: &mut Command, descriptors: Vec<RawFd>) {
    let keep = move || {
        for &descriptor in &descriptors {
            // SAFETY: a system call on plain numbers, allowed between fork and exec.
            if unsafe { libc::fcntl(descriptor, libc::F_SETFD, 0) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: `keep` makes system calls and allocates nothing. The parent holds the descriptors open until the child has
    // become the other program.
    unsafe { command.pre_exec(keep) };
}

fn wait_until_it_serves(mut child: Child, said: PipeReader) -> Result<u32, UpgradeError> {
    let result = match hear(said, Instant::now() + LIMIT) {
        Ok(text) if text == READY => return Ok(child.id()),
        Ok(text) if text.is_empty() => Err(UpgradeError::Refused(
            "it ended; its messages stand in the log".to_owned(),
        )),
        Ok(text) => Err(UpgradeError::Refused(
            String::from_utf8_lossy(&text).into_owned(),
        )),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(UpgradeError::TooLate),
        Err(error) => Err(UpgradeError::Sockets(error)),
    };
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
    result
}

/// Everything that is said until the other end is closed.
fn hear(said: PipeReader, until: Instant) -> io::Result<Vec<u8>> {
    let mut file = File::from(OwnedFd::from(said));
    let mut text = Vec::new();
    let mut part = [0; 4096];
    loop {
        wait_readable(&file, until.saturating_duration_since(Instant::now()))?;
        match file.read(&mut part)? {
            0 => return Ok(text),
            length => text.extend_from_slice(&part[..length]),
        }
    }
}

#[expect(unsafe_code, reason = "pipes have no timeout of their own")]
fn wait_readable(file: &File, limit: Duration) -> io::Result<()> {
    let mut poll = libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let milliseconds = limit.as_millis().try_into().unwrap_or(libc::c_int::MAX);
    // SAFETY: the call reads and writes one `pollfd`, and is given one.
    match unsafe { libc::poll(&raw mut poll, 1, milliseconds) } {
        0 => Err(io::ErrorKind::TimedOut.into()),
        n if n < 0 => match io::Error::last_os_error() {
            // The caller's loop looks at the time again.
            error if error.kind() == io::ErrorKind::Interrupted => wait_readable(file, limit),
            error => Err(error),
        },
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard_whole_and_silence_is_not_waited_for() {
        let (said, mut says) = io::pipe().unwrap();
        says.write_all(b"no: ").unwrap();
        says.write_all(b"because").unwrap();
        drop(says);
        assert_eq!(hear(said, Instant::now() + LIMIT).unwrap(), b"no: because");
        let (said, _says) = io::pipe().unwrap();
        let error = hear(said, Instant::now()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_program_that_ends_without_a_word_has_not_taken_over() {
        let program = Program {
            path: "/bin/true".into(),
            arguments: Vec::new(),
        };
        let error = program.replace(Vec::new(), None).unwrap_err();
        assert!(matches!(error, UpgradeError::Refused(_)), "{error}");
        let program = Program {
            path: "/nowhere/headgate".into(),
            arguments: Vec::new(),
        };
        let error = program.replace(Vec::new(), None).unwrap_err();
        assert!(error.to_string().contains("/nowhere/headgate"), "{error}");
    }

    #[test]
    fn a_program_that_says_it_serves_has_taken_over() {
        let script =
            format!("fd=${{{VARIABLE}##*ready\\\":}}; fd=${{fd%\\}}}}; printf ready >&$fd");
        let program = Program {
            path: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
        };
        assert!(program.replace(Vec::new(), None).unwrap() > 0);
    }
}
