//! Child processes that end with their owner, with all their descendants, whatever happens.

use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use traffic::http::watch::Tree;

/// A running process.
pub struct Process {
    child: Child,
    name: String,
}

impl Process {
    /// Start a program on the given cores, what it says on its output and errors going to `log`.
    ///
    /// # Errors
    /// If the log cannot be written or the program cannot be started.
    pub fn start(
        name: &str,
        cores: &str,
        command: &[String],
        environment: &[(&str, String)],
        log: &PathBuf,
    ) -> Result<Self> {
        let file = std::fs::File::create(log)
            .with_context(|| format!("cannot write {}", log.display()))?;
        let child = Command::new("taskset")
            .args(["-c", cores])
            .args(command)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {name} with taskset"))?;
        Ok(Self {
            child,
            name: name.to_owned(),
        })
    }

    /// Its number: taskset and the scripts become the program itself.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended, against expectation.
    ///
    /// # Errors
    /// If it has.
    pub fn check(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} ended with {status}", self.name);
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        let tree = Tree::of(self.child.id());
        signal("-TERM", &tree.processes()[..1]);
        let deadline = Instant::now() + Duration::from_millis(800);
        while Instant::now() < deadline && !matches!(self.child.try_wait(), Ok(Some(_))) {
            thread::sleep(Duration::from_millis(20));
        }
        // Descendants may outlive it; itself may not want to go.
        let left: Vec<u32> = tree
            .processes()
            .iter()
            .copied()
            .filter(|process| *process != self.child.id())
            .collect();
        signal("-KILL", &left);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Run a program to its end and give back what it said, unless that takes too long or everything is interrupted.
///
/// # Errors
/// If it cannot be started, ends with an error, takes too long or is interrupted; with what it said of its errors.
pub fn output(mut command: Command, longest: Duration, interrupted: &AtomicBool) -> Result<String> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {command:?}"))?;
    let deadline = Instant::now() + longest;
    while child.try_wait()?.is_none() {
        let why = if interrupted.load(Ordering::Relaxed) {
            "interrupted"
        } else if Instant::now() > deadline {
            "it takes too long"
        } else {
            thread::sleep(Duration::from_millis(20));
            continue;
        };
        let _ = child.kill();
        let _ = child.wait();
        bail!("{why}: {command:?}");
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!(
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn signal(which: &str, processes: &[u32]) {
    if processes.is_empty() {
        return;
    }
    let _ = Command::new("kill")
        .arg(which)
        .args(processes.iter().map(u32::to_string))
        .stderr(Stdio::null())
        .status();
}
