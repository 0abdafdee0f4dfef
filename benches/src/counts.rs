//! What can be counted rather than timed, and so holds on a busy machine too: system calls and instructions for each request,
//! memory for each idle connection.

use crate::measure::{Cores, Runner};
use crate::peer::Peer;
use anyhow::{Context, Result, bail};
use headgate_benches::process::{self, Process};
use serde::Serialize;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use traffic::http::watch::Tree;

/// One count.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Counts {
    pub(crate) peer: Peer,
    pub(crate) what: What,
    pub(crate) traffic: &'static str,
    pub(crate) per_request: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum What {
    SystemCalls,
    /// In user space alone.
    Instructions,
}

/// Traffic whose requests are counted: its name, path, mode, and how many requests.
const SYSTEM_CALLS: [(&str, &str, &str, &str); 4] = [
    ("1 KB", "/bytes/1024", "keep-alive", "20000"),
    ("10 KB", "/bytes/10240", "keep-alive", "20000"),
    ("512 KB", "/bytes/524288", "keep-alive", "2000"),
    ("1 KB, a connection each", "/bytes/1024", "close", "10000"),
];
const INSTRUCTIONS: [(&str, &str, &str, u64); 2] = [
    ("1 KB", "/bytes/1024", "keep-alive", 4000),
    ("1 KB, a connection each", "/bytes/1024", "close", 2000),
];

/// Counted by perf at the kernel's own entry, so that nothing is slowed down.
pub(crate) fn system_calls(
    runner: &Runner,
    peer: Peer,
    process: &Process,
    cores: &Cores,
) -> Result<Vec<Counts>> {
    let processes: Vec<String> = Tree::of(process.id())
        .processes()
        .iter()
        .map(u32::to_string)
        .collect();
    let out = runner.place.scratch.join("perf.csv");
    let out_name = out.display().to_string();
    let mut counted = Vec::new();
    for (traffic, path, mode, requests) in SYSTEM_CALLS {
        let url = format!("http://127.0.0.1:{}{path}", peer.port());
        let args = ["-m", mode, "-n", requests, "-w", "0", "-d", "30"];
        let mut command: Vec<String> = [
            "perf",
            "stat",
            "-x,",
            "-o",
            &out_name,
            "-e",
            "raw_syscalls:sys_enter",
            "-p",
        ]
        .iter()
        .map(|&arg| arg.to_owned())
        .collect();
        command.push(processes.join(","));
        command.push("--".to_owned());
        command.extend(runner.load(cores, &url, &args));
        let report = runner.run_load(&command)?;
        let text = fs::read_to_string(&out).context("perf has written nothing")?;
        let calls = text.lines().find(|line| line.contains("raw_syscalls"));
        let calls: f64 = calls
            .and_then(|line| line.split(',').next()?.parse().ok())
            .with_context(|| format!("perf counts no system calls: {text}"))?;
        counted.push(Counts {
            peer,
            what: What::SystemCalls,
            traffic,
            per_request: calls / report.requests.max(1) as f64,
        });
    }
    Ok(counted)
}

/// Counted by callgrind, which needs no counters of the processor's.
pub(crate) fn instructions(runner: &Runner, peer: Peer) -> Result<Vec<Counts>> {
    let cores = runner.cores(1);
    let _origin = runner.origin(&cores)?;
    let folder = runner.place.scratch.join("callgrind");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let file = folder.join("out");
    let under = format!(
        "valgrind -q --tool=callgrind --callgrind-out-file={}",
        file.display()
    );
    let process = peer.start(&runner.place, 1, &cores.proxy, &under)?;
    let mut counted = Vec::new();
    let mut dumps = 0;
    let mut dump = || -> Result<f64> {
        let mut control = Command::new("callgrind_control");
        control.args(["-d", &process.id().to_string()]);
        process::output(control, Duration::from_secs(30), &AtomicBool::new(false))?;
        dumps += 1;
        total(
            &fs::read_to_string(folder.join(format!("out.{dumps}")))
                .context("callgrind has written nothing")?,
        )
    };
    for (traffic, path, mode, requests) in INSTRUCTIONS {
        let url = format!("http://127.0.0.1:{}{path}", peer.port());
        let ask = |requests: u64| {
            let requests = requests.to_string();
            runner.run_load(&runner.load(
                &cores,
                &url,
                &["-m", mode, "-n", &requests, "-w", "0", "-d", "60"],
            ))
        };
        ask(500)?;
        dump()?;
        let report = ask(requests)?;
        counted.push(Counts {
            peer,
            what: What::Instructions,
            traffic,
            per_request: dump()? / report.requests.max(1) as f64,
        });
    }
    Ok(counted)
}

/// What a fresh peer grows by for each of so many connections that have asked once and stay, in bytes.
pub(crate) fn idle_memory(
    runner: &Runner,
    peer: Peer,
    cores: &Cores,
    connections: usize,
) -> Result<f64> {
    let _origin = runner.origin(cores)?;
    let process = peer.start(&runner.place, 1, &cores.proxy, "")?;
    let url = format!("http://127.0.0.1:{}/bytes/1024", peer.port());
    // Buffers and pools that are there anyway are made first.
    runner.run_load(&runner.load(
        cores,
        &url,
        &["-c", "64", "-n", "2000", "-w", "0", "-d", "20"],
    ))?;
    thread::sleep(Duration::from_millis(300));
    let before = Tree::of(process.id()).memory();
    let count = connections.to_string();
    let command = runner.load(
        cores,
        &url,
        &["-m", "idle", "-c", &count, "-w", "0", "-d", "60"],
    );
    let mut load = Held::start(&command)?;
    load.wait_until_ready(Duration::from_secs(30))?;
    thread::sleep(Duration::from_millis(700));
    let after = Tree::of(process.id()).memory();
    Ok((after as f64 - before as f64) / connections as f64)
}

/// A load that holds connections until it is dropped.
struct Held(Child);

impl Held {
    fn start(command: &[String]) -> Result<Self> {
        let child = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the load")?;
        Ok(Self(child))
    }

    fn wait_until_ready(&mut self, longest: Duration) -> Result<()> {
        let output = self.0.stdout.take().context("the load's output is gone")?;
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            let _ = BufReader::new(output).read_line(&mut line);
            let _ = tell.send(line);
        });
        match told.recv_timeout(longest) {
            Ok(line) if line.trim() == "ready" => Ok(()),
            Ok(line) => bail!("the load said {:?}", line.trim()),
            Err(_) => bail!("not all connections could be opened"),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The sum that a callgrind file ends with.
fn total(file: &str) -> Result<f64> {
    let line = file.lines().rev().find_map(|line| {
        line.strip_prefix("totals:")
            .or_else(|| line.strip_prefix("summary:"))
    });
    let first = line.and_then(|line| line.split_ascii_whitespace().next());
    first
        .and_then(|number| number.parse().ok())
        .context("callgrind's file has no total")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callgrinds_total_is_found() {
        assert_eq!(
            total("events: Ir\nsummary: 5\nfn=x\n1 2\ntotals: 7\n").unwrap(),
            7.0
        );
        assert!(total("events: Ir\n").is_err());
    }
}
