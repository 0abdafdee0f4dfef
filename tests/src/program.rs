//! Real programs: run to their end, or kept running while a test needs them.

use crate::{Dir, eventually};
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Runs a program with something to read, for at most half a minute.
///
/// Returns what it wrote, standard output first, and whether it succeeded.
///
/// # Panics
/// If it cannot be run.
pub fn run<S: AsRef<OsStr>>(program: &str, args: &[S], input: &str) -> (bool, String) {
    let mut child = Command::new("timeout")
        .arg("30")
        .arg(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
    // Some programs end before they have read all.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    assert_ne!(
        output.status.code(),
        Some(127),
        "{program} is not installed: `make test` does that"
    );
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

/// A program that runs until it is dropped.
pub struct Program(Child);

impl Program {
    /// Starts it.
    ///
    /// # Panics
    /// If it cannot be run.
    pub fn start<S: AsRef<OsStr>>(program: impl AsRef<OsStr>, args: &[S]) -> Self {
        let child = Command::new(&program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap_or_else(|error| panic!("cannot run {:?}: {error}", program.as_ref())))
    }

    /// Writes to its standard input.
    pub fn write(&mut self, text: &str) {
        let input = self.0.stdin.as_mut().unwrap();
        input.write_all(text.as_bytes()).unwrap();
        input.flush().unwrap();
    }

    /// Reads its standard output until a text occurs in it.
    ///
    /// # Panics
    /// If it ends before.
    pub fn read_until(&mut self, text: &str) -> String {
        let output = self.0.stdout.as_mut().unwrap();
        let mut read = Vec::new();
        let mut byte = [0];
        loop {
            let so_far = String::from_utf8_lossy(&read);
            if so_far.contains(text) {
                return so_far.into_owned();
            }
            match output.read(&mut byte) {
                Ok(1) => read.push(byte[0]),
                _ => panic!("it ended without {text:?}: {so_far}"),
            }
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts an nginx that serves the files of a folder at an address; `http` is added to its configuration.
///
/// # Panics
/// If there is none: `make test` unpacks one.
pub fn nginx(dir: &Dir, address: SocketAddr, http: &str) -> Program {
    let home = dir.path().display();
    let config = format!(
        "daemon off; master_process off; pid {home}/nginx.pid; error_log {home}/nginx.log;
         events {{ worker_connections 512; }}
         http {{
           access_log off; client_max_body_size 0;
           client_body_temp_path {home}; proxy_temp_path {home}; fastcgi_temp_path {home};
           uwsgi_temp_path {home}; scgi_temp_path {home};
           server {{ listen {address}; root {home}; {http} }}
         }}"
    );
    let path = dir.write("nginx.conf", config);
    let log = dir.path().join("nginx.log");
    let args = [
        "-c".as_ref(),
        path.as_os_str(),
        "-e".as_ref(),
        log.as_os_str(),
    ];
    let nginx = Program::start(nginx_binary(), &args);
    eventually("nginx listens", || {
        TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()
    });
    nginx
}

fn nginx_binary() -> PathBuf {
    let unpacked =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.cache/test-tools/nginx/usr/sbin/nginx");
    if unpacked.exists() {
        return unpacked;
    }
    "nginx".into()
}
