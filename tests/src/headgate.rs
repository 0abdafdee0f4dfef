//! A Headgate of a test's own: its configuration, its process, its admin API.

use crate::{Dir, Message, PATIENCE, address, within};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// A running Headgate. Dropping it ends it, and all it has started.
pub struct Headgate {
    child: Mutex<Child>,
    dir: Dir,
    ip: Ipv4Addr,
}

/// What is known of a Headgate before it starts.
pub struct Builder {
    dir: Dir,
    ip: Ipv4Addr,
    wrapper: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Builder {
    /// An empty folder and an address.
    pub fn new() -> Self {
        Self {
            dir: Dir::new(),
            ip: address(),
            wrapper: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// The folder of its files, `$DIR` in configurations.
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Its address, `$IP` in configurations.
    pub fn ip(&self) -> Ipv4Addr {
        self.ip
    }

    /// A program that starts it, with arguments.
    #[must_use]
    pub fn wrapped(mut self, program: &[&str]) -> Self {
        self.wrapper = program.iter().map(ToString::to_string).collect();
        self
    }

    /// A variable of its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts it and waits until it serves.
    ///
    /// # Panics
    /// If it does not.
    pub fn start(self, config: &str) -> Headgate {
        let gate = self.spawn(config);
        within(PATIENCE * 2, "headgate serves", || {
            assert!(gate.is_running(), "headgate ended");
            gate.try_api("GET", "/readyz", "")
                .is_some_and(|(status, _)| status == 200)
                .then_some(())
        });
        gate
    }

    /// Starts it, come what may.
    pub fn spawn(self, config: &str) -> Headgate {
        let config_path = write_config(&self.dir, self.ip, config);
        let log = fs::File::create(self.dir.path().join("headgate.log")).unwrap();
        let mut words = self.wrapper.clone();
        words.push(binary().display().to_string());
        let child = Command::new(&words[0])
            .args(&words[1..])
            .args(["run", "-c"])
            .arg(config_path)
            .envs(self.environment)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {words:?}: {error}"));
        Headgate {
            child: Mutex::new(child),
            dir: self.dir,
            ip: self.ip,
        }
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Headgate {
    /// Starts one and waits until it serves. In the configuration `$IP` is its address and `$DIR` its folder; two workers,
    /// an admin socket and an access log in JSON are added where nothing is said of them.
    ///
    /// # Panics
    /// If it does not.
    pub fn start(config: &str) -> Self {
        Builder::new().start(config)
    }

    /// The address of a port of it.
    pub fn at(&self, port: u16) -> SocketAddr {
        (self.ip, port).into()
    }

    /// The folder of its files.
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Writes its configuration anew, without telling it.
    pub fn configure(&self, config: &str) {
        write_config(&self.dir, self.ip, config);
    }

    /// Writes its configuration anew and has it taken over.
    ///
    /// # Panics
    /// If that is refused.
    pub fn reconfigure(&self, config: &str) {
        self.configure(config);
        let (status, answer) = self.api("POST", "/v1/reload", "");
        assert_eq!(status, 200, "{answer}");
    }

    /// Asks the admin API: the status and what was answered.
    ///
    /// # Panics
    /// If there is no answer.
    pub fn api(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        self.try_api(method, path, body)
            .unwrap_or_else(|| panic!("no answer to {method} {path}\n{}", self.log()))
    }

    /// Reads something from the admin API.
    ///
    /// # Panics
    /// If it is refused.
    pub fn read(&self, path: &str) -> Value {
        let (status, answer) = self.api("GET", path, "");
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    /// Its metrics: name with labels, and value.
    pub fn metrics(&self) -> Vec<(String, f64)> {
        let text = self.read("/metrics");
        let text = text.as_str().expect("metrics are text").to_owned();
        text.lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty())
            .map(|line| {
                let (name, value) = line.rsplit_once(' ').unwrap();
                let value = value.parse().unwrap_or_else(|_| panic!("metric: {line}"));
                (name.to_owned(), value)
            })
            .collect()
    }

    /// A counter of a virtual.
    pub fn counter(&self, virtual_name: &str, counter: &str) -> u64 {
        let all = self.read(&format!("/v1/virtuals/{virtual_name}"));
        all["counters"][counter]
            .as_u64()
            .unwrap_or_else(|| panic!("no counter {counter} in {all}"))
    }

    /// How often a virtual has refused something for a reason.
    pub fn refusals(&self, virtual_name: &str, reason: &str) -> u64 {
        let all = self.read(&format!("/v1/virtuals/{virtual_name}"));
        all["refusals"][reason].as_u64().unwrap_or_default()
    }

    /// A member as the API tells of it.
    ///
    /// # Panics
    /// If there is none of that name.
    pub fn member(&self, pool: &str, member: &str) -> Value {
        let all = self.read(&format!("/v1/pools/{pool}"));
        let members = all["members"].as_array().expect("a list of members");
        members
            .iter()
            .find(|m| m["name"] == member)
            .unwrap_or_else(|| panic!("no {member} in {all}"))
            .clone()
    }

    /// Changes a member.
    ///
    /// # Panics
    /// If that is refused.
    pub fn set_member(&self, pool: &str, member: &str, change: &str) {
        let path = format!("/v1/pools/{pool}/members/{member}");
        let (status, answer) = self.api("PATCH", &path, change);
        assert!(status < 300, "{status} {answer}");
    }

    /// What it has written: messages, and what went to its standard output.
    pub fn log(&self) -> String {
        self.dir.read("headgate.log")
    }

    /// The lines of its access log.
    pub fn access_log(&self) -> Vec<Value> {
        self.dir
            .read("access.log")
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// The line of its access log that fits; waits for it.
    pub fn access_line(&self, fits: impl Fn(&Value) -> bool) -> Value {
        within(PATIENCE, "a line of the access log", || {
            self.access_log().into_iter().find(&fits)
        })
    }

    /// The process that serves now.
    pub fn pid(&self) -> u32 {
        let status = self.read("/v1/status");
        u32::try_from(status["pid"].as_u64().expect("a pid")).unwrap()
    }

    /// Sends a signal, `TERM` or `HUP`, to the process that was started.
    pub fn signal(&self, signal: &str) {
        let pid = self.child.lock().unwrap().id().to_string();
        let done = Command::new("kill").args(["-s", signal, &pid]).status();
        assert!(done.unwrap().success(), "kill -s {signal} {pid}");
    }

    /// Waits for the process that was started to end.
    ///
    /// # Panics
    /// If it does not in that time.
    pub fn wait(&self, time: Duration) -> ExitStatus {
        within(time, "headgate ends", || {
            self.child.lock().unwrap().try_wait().unwrap()
        })
    }

    /// Whether the process that was started still runs.
    pub fn is_running(&self) -> bool {
        self.child.lock().unwrap().try_wait().unwrap().is_none()
    }

    /// Processor time that the process which was started has spent, in hundredths of a second.
    pub fn cpu(&self) -> u64 {
        let pid = self.child.lock().unwrap().id();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let (_, after) = stat.rsplit_once(") ").unwrap();
        let times = after.split(' ').skip(11).take(2);
        times.map(|time| time.parse::<u64>().unwrap()).sum()
    }

    /// Memory that the process which was started holds, in bytes.
    pub fn memory(&self) -> u64 {
        self.proc_status("VmRSS").parse::<u64>().unwrap() * 1024
    }

    /// The descriptors that the process which was started has open: how many of each kind.
    pub fn descriptors(&self) -> BTreeMap<String, usize> {
        let pid = self.child.lock().unwrap().id();
        let mut kinds = BTreeMap::new();
        for entry in fs::read_dir(format!("/proc/{pid}/fd")).unwrap() {
            // One may be closed meanwhile.
            let Ok(target) = fs::read_link(entry.unwrap().path()) else {
                continue;
            };
            let target = target.display().to_string();
            let kind = target.split(":[").next().unwrap_or_default();
            *kinds.entry(kind.to_owned()).or_default() += 1;
        }
        kinds
    }

    /// A number from the process's /proc/PID/status.
    pub fn proc_status(&self, name: &str) -> String {
        let pid = self.child.lock().unwrap().id();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with(&format!("{name}:")));
        let words = line.unwrap_or_else(|| panic!("no {name} in {status}"));
        words.split_whitespace().nth(1).unwrap().to_owned()
    }

    /// Runs a command of headgate against this one.
    pub fn command(&self, args: &[&str]) -> (bool, String) {
        let socket = self.dir.path().join("admin.sock").display().to_string();
        let mut all = args.to_vec();
        all.extend(["--socket", &socket]);
        crate::run(&binary().display().to_string(), &all, "")
    }

    fn try_api(&self, method: &str, path: &str, body: &str) -> Option<(u16, Value)> {
        let mut stream = UnixStream::connect(self.dir.path().join("admin.sock")).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let end = answer.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
        let head = Message::parse(&answer[..end]);
        let body = String::from_utf8_lossy(&answer[end..]).into_owned();
        let value = serde_json::from_str(&body).unwrap_or(Value::String(body));
        Some((head.status(), value))
    }
}

impl Drop for Headgate {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- headgate's log:\n{}---", self.log());
        }
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Its group: an upgrade's new process is in it too.
        let group = format!("-{}", child.id());
        let _ = Command::new("kill")
            .args(["-s", "KILL", "--", &group])
            .stderr(Stdio::null())
            .status();
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Where the program is. `HEADGATE_BIN` says so, or it is built from the sources as they are.
///
/// # Panics
/// If it cannot be built.
pub fn binary() -> PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        if let Some(path) = std::env::var_os("HEADGATE_BIN") {
            return path.into();
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo)
            .args(["build", "--quiet", "--package", "headgate"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(built.unwrap().success(), "headgate can be built");
        // .../debug/deps/e2e-… stands beside .../debug/headgate
        let me = std::env::current_exe().unwrap();
        me.ancestors().nth(2).unwrap().join("headgate")
    })
    .clone()
}

fn write_config(dir: &Dir, ip: Ipv4Addr, config: &str) -> PathBuf {
    let mut all = String::new();
    for (key, default) in [
        ("workers", "workers: 2\n"),
        ("admin", "admin: {socket: $DIR/admin.sock}\n"),
        (
            "log",
            "log: {access: {format: json, output: {file: $DIR/access.log}}}\n",
        ),
    ] {
        let mut lines = config.lines();
        if !lines.any(|line| line.starts_with(&format!("{key}:"))) {
            all.push_str(default);
        }
    }
    all.push_str(config);
    let all = all
        .replace("$DIR", &dir.path().display().to_string())
        .replace("$IP", &ip.to_string());
    dir.write("headgate.yaml", all)
}
