//! The program from outside: its exit codes, its upgrade, its end.
#![allow(missing_docs, clippy::unwrap_used)]

use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_headgate");

struct Running {
    folder: TempDir,
    child: Child,
}

impl Running {
    /// Started by a link, so that what stands there can be changed.
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        symlink(PROGRAM, folder.path().join("headgate")).unwrap();
        fs::write(
            folder.path().join("a.yaml"),
            "workers: 1\nadmin: {socket: admin.sock, listen: '127.0.0.1:0', insecure_no_token: true}\n\
             limits: {connections: 100}\n",
        )
        .unwrap();
        let child = Command::new(folder.path().join("headgate"))
            .args(["run", "-c", "a.yaml", "--pid-file", "pid"])
            .current_dir(folder.path())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let running = Running { folder, child };
        running.wait_for("it serves", || running.status().is_some());
        running
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Output {
        let socket = self.path("admin.sock");
        Command::new(PROGRAM)
            .args(words)
            .arg("--socket")
            .arg(socket)
            .output()
            .unwrap()
    }

    fn status(&self) -> Option<Value> {
        let output = self.command(&["status", "--json"]);
        serde_json::from_slice::<Value>(&output.stdout)
            .ok()
            .map(|mut all| all["status"].take())
    }

    fn pid(&self) -> Option<u64> {
        self.status()?["pid"].as_u64()
    }

    fn wait_for(&self, what: &str, mut until: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        while !until() {
            assert!(Instant::now() < end, "waited in vain until {what}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(pid) = self.pid() {
            let _ = signal("KILL", pid);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal(name: &str, pid: u64) -> bool {
    let sent = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status();
    sent.is_ok_and(|status| status.success())
}

#[test]
fn a_program_that_cannot_serve_leaves_the_old_one_as_it_was_and_a_good_one_takes_over() {
    let mut running = Running::start();
    let old = running.pid().unwrap();
    fs::remove_file(running.path("headgate")).unwrap();
    symlink("/bin/false", running.path("headgate")).unwrap();
    let refused = running.command(&["upgrade"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("new process"),
        "{refused:?}"
    );
    assert_eq!(running.pid(), Some(old));

    fs::remove_file(running.path("headgate")).unwrap();
    symlink(PROGRAM, running.path("headgate")).unwrap();
    let taken_over = running.command(&["upgrade"]);
    assert!(taken_over.status.success(), "{taken_over:?}");
    let new = running.pid().unwrap();
    assert_ne!(new, old);
    assert!(running.child.wait().unwrap().success());
    assert_eq!(
        fs::read_to_string(running.path("pid")).unwrap().trim(),
        new.to_string()
    );
    assert_eq!(running.pid(), Some(new));
}

#[test]
fn told_to_end_it_ends_well_and_leaves_nothing() {
    let mut running = Running::start();
    assert!(signal("TERM", running.child.id().into()));
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
    assert!(!running.path("admin.sock").exists());
    assert!(!running.path("pid").exists());
    assert_eq!(running.command(&["status"]).status.code(), Some(3));
}

#[test]
fn a_changed_file_and_a_signal_are_both_taken_over() {
    let running = Running::start();
    let generation = || {
        running
            .status()
            .and_then(|status| status["generation"].as_u64())
    };
    assert_eq!(generation(), Some(1));
    let path = running.path("a.yaml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{text}monitors: {{port: {{type: tcp}}}}\n")).unwrap();
    running.wait_for("the change is taken over", || generation() == Some(2));
    assert_eq!(running.status().unwrap()["last_reload"]["cause"], "file");
    assert!(signal("HUP", running.child.id().into()));
    running.wait_for("the signal is followed", || generation() == Some(3));
}

#[test]
fn no_right_is_kept_that_is_not_needed() {
    let running = Running::start();
    let status = fs::read_to_string(format!("/proc/{}/status", running.child.id())).unwrap();
    for set in ["CapPrm", "CapEff", "CapInh", "CapAmb"] {
        assert!(
            status.contains(&format!("{set}:\t0000000000000000")),
            "{status}"
        );
    }
    assert!(status.contains("NoNewPrivs:\t1"), "{status}");
}

#[test]
fn check_tells_every_error_and_its_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let check = |text: &str| {
        let path = folder.path().join("a.yaml");
        fs::write(&path, text).unwrap();
        Command::new(PROGRAM)
            .arg("check")
            .arg("-c")
            .arg(&path)
            .output()
            .unwrap()
    };
    let good = check("pools: {a: {members: ['10.0.0.1:80', '10.0.0.2:80']}}");
    assert!(good.status.success());
    assert!(String::from_utf8_lossy(&good.stdout).contains("ok: 0 virtuals, 1 pool, 2 members"));
    let bad = check("worker: 1\nlogs: {}\n");
    assert_eq!(bad.status.code(), Some(1));
    let told = String::from_utf8_lossy(&bad.stderr);
    assert!(
        told.contains("a.yaml:1:1") && told.contains("a.yaml:2:1") && told.contains("2 errors"),
        "{told}"
    );
    assert_eq!(
        Command::new(PROGRAM)
            .arg("chekc")
            .output()
            .unwrap()
            .status
            .code(),
        Some(2)
    );
}

#[test]
fn an_address_that_is_taken_is_told_and_nothing_is_left_running() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path: &Path = &folder.path().join("a.yaml");
    fs::write(
        path,
        format!("virtuals: {{a: {{listen: '{address}', routes: [{{respond: {{body: x}}}}]}}}}"),
    )
    .unwrap();
    let output = Command::new(PROGRAM).arg("run").arg(path).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        told.contains("virtuals.a.listen") && told.contains(&address.to_string()),
        "{told}"
    );
}

#[test]
fn an_origin_tells_where_it_can_be_reached() {
    let mut child = Command::new(PROGRAM)
        .args(["origin", "--listen", "127.0.0.1:0", "--name", "one"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A line may come in several writes.
    let mut line = String::new();
    let mut told = BufReader::new(child.stderr.as_mut().unwrap());
    told.read_line(&mut line).unwrap();
    let address = line.trim().rsplit(' ').next().unwrap();
    let reached = TcpStream::connect(address);
    let _ = child.kill();
    let _ = child.wait();
    assert!(reached.is_ok(), "{line}");
}
