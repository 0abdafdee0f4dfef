//! Whom Headgate is measured against, how each is started, and which version it is.

use anyhow::{Context, Result};
use headgate_benches::machine::Place;
use headgate_benches::process::Process;
use headgate_benches::program;
use serde::Serialize;

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
        program::wait_until_it_answers(&mut process, self.port(), &log).context(self.name())?;
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
        program::version(&command)
    }
}

fn locked_version(place: &Place) -> Option<String> {
    let lock = std::fs::read_to_string(place.peers.join("pingora/Cargo.lock")).ok()?;
    let (_, rest) = lock.split_once("name = \"pingora-proxy\"\nversion = \"")?;
    Some(rest.split('"').next()?.to_owned())
}

#[cfg(test)]
mod tests {

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
