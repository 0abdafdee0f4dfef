//! Whom Headgate is measured against, how each is started, and which version it is.

use crate::machine::Place;
use crate::process::Process;
use anyhow::{Result, bail};
use serde::Serialize;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// A proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Peer {
    Headgate,
    Haproxy,
    Nginx,
    Envoy,
    Pingora,
    /// The reactor's bare relay: the floor, not a peer
    Relay,
}

impl Peer {
    /// Who takes part unless somebody is named.
    pub(crate) const USUAL: [Self; 5] = [
        Self::Headgate,
        Self::Haproxy,
        Self::Nginx,
        Self::Envoy,
        Self::Pingora,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Headgate => "headgate",
            Self::Haproxy => "haproxy",
            Self::Nginx => "nginx",
            Self::Envoy => "envoy",
            Self::Pingora => "pingora",
            Self::Relay => "relay",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Headgate => "Headgate",
            Self::Haproxy => "HAProxy",
            Self::Nginx => "nginx",
            Self::Envoy => "Envoy",
            Self::Pingora => "Pingora",
            Self::Relay => "relay",
        }
    }

    /// The first of its ports; peers/start.sh knows the same.
    pub(crate) fn port(self) -> u16 {
        match self {
            Self::Headgate => 8100,
            Self::Haproxy => 8200,
            Self::Nginx => 8300,
            Self::Envoy => 8400,
            Self::Pingora => 8500,
            Self::Relay => 8600,
        }
    }

    /// Whether it competes.
    pub(crate) fn is_rival(self) -> bool {
        !matches!(self, Self::Headgate | Self::Relay)
    }

    /// Start it on the given cores and wait until it answers. `under` is a command to run it under, if any.
    pub(crate) fn start(
        self,
        place: &Place,
        workers: usize,
        cores: &str,
        under: &str,
    ) -> Result<Process> {
        let script = place.peers.join("start.sh").display().to_string();
        let command = [script, self.name().to_owned(), workers.to_string()];
        let log = place.scratch.join(format!("{}.log", self.name()));
        let environment = [("RUN", under.to_owned())];
        let mut process = Process::start(self.name(), cores, &command, &environment, &log)?;
        let deadline = Instant::now() + Duration::from_secs(20);
        while !answers(self.port()) {
            let said = || {
                let text = std::fs::read_to_string(&log).unwrap_or_default();
                text.chars().take(2000).collect::<String>()
            };
            if let Err(error) = process.check() {
                bail!("{error}: {}", said());
            }
            if Instant::now() > deadline {
                bail!("{} does not answer: {}", self.name(), said());
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(process)
    }

    /// Its version, as it says itself.
    pub(crate) fn version(self, place: &Place) -> String {
        let sid = place.cache.join("sid").display().to_string();
        let envoy = place.cache.join("envoy/envoy").display().to_string();
        let headgate = place.headgate.display().to_string();
        let command: Vec<&str> = match self {
            Self::Headgate => vec![&headgate, "--version"],
            Self::Haproxy => vec!["chroot", &sid, "/usr/sbin/haproxy", "-v"],
            Self::Nginx => vec!["chroot", &sid, "/usr/sbin/nginx", "-v"],
            Self::Envoy => vec![&envoy, "--version"],
            Self::Pingora => return locked_version(place).unwrap_or_default(),
            Self::Relay => return "this commit".to_owned(),
        };
        let Ok(output) = Command::new(command[0]).args(&command[1..]).output() else {
            return String::new();
        };
        let text = [output.stdout, output.stderr].concat();
        find_version(&String::from_utf8_lossy(&text))
    }
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
        .find(version)
        .unwrap_or("unknown")
        .to_owned()
}

fn locked_version(place: &Place) -> Option<String> {
    let lock = std::fs::read_to_string(place.peers.join("pingora/Cargo.lock")).ok()?;
    let (_, rest) = lock.split_once("name = \"pingora-proxy\"\nversion = \"")?;
    Some(rest.split('"').next()?.to_owned())
}

fn answers(port: u16) -> bool {
    let ask = || -> std::io::Result<bool> {
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
            ("nothing", "unknown"),
        ] {
            assert_eq!(find_version(said), version);
        }
    }

    #[test]
    fn headgates_configuration_is_understood() {
        let mut text = include_str!("../peers/headgate.yaml").to_owned();
        let names = [
            "HTTP",
            "HTTP_LARGE",
            "TLS_P256",
            "TLS_RSA",
            "REENCRYPT",
            "TCP",
            "ORIGIN",
            "ORIGIN_TLS",
        ];
        for (port, name) in (8000..).zip(names) {
            text = text.replace(&format!("@{name}@"), &u16::to_string(&port));
        }
        let text = text.replace("@THREADS@", "1").replace("@DIR@", "/certs");
        let files = [
            "ca.pem",
            "p256.pem",
            "p256-key.pem",
            "rsa.pem",
            "rsa-key.pem",
        ];
        let source = files
            .iter()
            .fold(model::MemorySource::default(), |source, file| {
                source.file(&format!("/certs/{file}"), "")
            });
        let config = model::parse_text("/headgate.yaml".as_ref(), &text, &source);
        assert!(config.is_ok(), "{}", config.unwrap_err());
    }
}
