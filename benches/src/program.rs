//! Programs under test: waited for until they answer, and asked for their version.

use crate::process::Process;
use anyhow::{Result, bail};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Wait until a process answers requests on a port.
///
/// # Errors
/// If it ends before, or does not answer for 20 seconds; with what it has written to `log`.
pub fn wait_until_it_answers(process: &mut Process, port: u16, log: &Path) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !answers(port) {
        let said = || {
            let text = fs::read_to_string(log).unwrap_or_default();
            text.chars().take(2000).collect::<String>()
        };
        if let Err(error) = process.check() {
            bail!("{error}: {}", said());
        }
        if Instant::now() > deadline {
            bail!("it does not answer: {}", said());
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// The version that a command prints; empty if it does not run.
pub fn version(command: &[&str]) -> String {
    let Ok(output) = Command::new(command[0]).args(&command[1..]).output() else {
        return String::new();
    };
    let text = [output.stdout, output.stderr].concat();
    find_version(&String::from_utf8_lossy(&text))
}

/// The first thing that looks like 1.2 or 1.2.3 in what a program says of itself.
fn find_version(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || matches!(c, '/' | '-' | ','));
    let version = |word: &&str| {
        let parts: Vec<&str> = word.split('.').collect();
        let is_number =
            |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        parts.len() > 1 && parts.iter().all(is_number)
    };
    words
        .into_iter()
        .map(|word| word.strip_prefix('v').unwrap_or(word))
        .find(version)
        .unwrap_or("unknown")
        .to_owned()
}

fn answers(port: u16) -> bool {
    let ask = || -> io::Result<bool> {
        let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        socket
            .write_all(b"GET /health HTTP/1.1\r\nHost: bench.test\r\nConnection: close\r\n\r\n")?;
        let mut status = [0; 12];
        socket.read_exact(&mut status)?;
        Ok(&status[9..] == b"200")
    };
    ask().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        for (said, version) in [
            (
                "HAProxy version 3.2.26-1 2026/10/14 - https://haproxy.org/",
                "3.2.26",
            ),
            ("nginx version: nginx/1.30.6\n", "1.30.6"),
            (
                "envoy  version: 9e558/1.40.0/Clean/RELEASE/BoringSSL",
                "1.40.0",
            ),
            ("nftables v1.0.6 (Lester Gooch #5)", "1.0.6"),
            ("nothing", "unknown"),
        ] {
            assert_eq!(find_version(said), version);
        }
    }
}
