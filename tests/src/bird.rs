//! BIRD in a namespace.

use crate::{Dir, within};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;
use xdp::netns::Namespace;

/// A BIRD, which ends when it is dropped.
pub struct Bird {
    child: Child,
    socket: PathBuf,
}

impl Bird {
    /// Starts one with a configuration, its socket in that folder, and waits until it answers. A large configuration takes
    /// its time.
    pub fn start(inside: &Namespace, dir: &Dir, config: &Path) -> Self {
        let socket = dir.path().join("bird.ctl");
        let child = inside
            .command(binary("bird"))
            .args(["-f", "-c"])
            .arg(config)
            .arg("-s")
            .arg(&socket)
            .args(["-P".as_ref(), dir.path().join("bird.pid").as_os_str()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run bird: {error}: `make test` unpacks it"));
        let mut bird = Self { child, socket };
        within(Duration::from_secs(60), "bird answers", || {
            let ended = bird.child.try_wait().unwrap();
            assert!(
                ended.is_none(),
                "bird ended: is {config:?} as it should be?"
            );
            bird.ask("show status")
                .contains("up and running")
                .then_some(())
        });
        bird
    }

    /// Asks it as its users do.
    pub fn ask(&self, what: &str) -> String {
        let socket = self.socket.display().to_string();
        let mut args = vec!["-r", "-s", &socket];
        if matches!(
            what.split(' ').next(),
            Some("configure" | "disable" | "enable" | "reload")
        ) {
            args.remove(0);
        }
        args.extend(what.split(' '));
        crate::run(&binary("birdc").display().to_string(), &args, "").1
    }

    /// How many routes a protocol has brought in: those that filters let through.
    pub fn imported(&self, protocol: &str) -> usize {
        let all = self.ask(&format!("show protocols all {protocol}"));
        let line = all.lines().find_map(|l| l.trim().strip_prefix("Routes:"));
        let count = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        count.unwrap_or_default()
    }

    /// Memory that it holds, in bytes.
    pub fn memory(&self) -> u64 {
        let status = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(status).unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
        let kib: u64 = line
            .unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap();
        kib * 1024
    }
}

impl Drop for Bird {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn binary(name: &str) -> PathBuf {
    let unpacked = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../.cache/test-tools/bird/usr/sbin")
        .join(name);
    if unpacked.exists() {
        return unpacked;
    }
    name.into()
}
