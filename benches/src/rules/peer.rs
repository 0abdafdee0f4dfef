//! Who applies the HMAC cookie logic, in what language, how each is started and which version it is.

use anyhow::{Context, Result, bail};
use headgate_benches::machine::Place;
use headgate_benches::process::{self, Process};
use headgate_benches::program;
use serde::Serialize;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A proxy and a way to tell it the logic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Peer {
    Headgate,
    Haproxy,
    NginxLua,
    NginxJs,
    Envoy,
    /// HAProxy's own converters, without a cache: no peer of a rule, but what one would do there
    HaproxyNative,
}

impl Peer {
    pub(crate) const ALL: [Self; 6] = [
        Self::Headgate,
        Self::Haproxy,
        Self::NginxLua,
        Self::NginxJs,
        Self::Envoy,
        Self::HaproxyNative,
    ];

    /// As peers/start.sh calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Headgate => "headgate",
            Self::Haproxy => "haproxy",
            Self::NginxLua => "nginx-lua",
            Self::NginxJs => "nginx-js",
            Self::Envoy => "envoy",
            Self::HaproxyNative => "haproxy-native",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Headgate => "Headgate",
            Self::Haproxy => "HAProxy, Lua",
            Self::NginxLua => "nginx, LuaJIT",
            Self::NginxJs => "nginx, njs",
            Self::Envoy => "Envoy, LuaJIT",
            Self::HaproxyNative => "HAProxy, converters",
        }
    }

    /// Whether the goal is set against it: it runs a program, as a rule is one.
    pub(crate) fn is_rival(self) -> bool {
        !matches!(self, Self::Headgate | Self::HaproxyNative)
    }

    /// Its port past the rule; through the rule it is the next one.
    pub(crate) fn port(self) -> u16 {
        match self {
            Self::Headgate => 8700,
            Self::Haproxy => 8710,
            Self::NginxLua => 8720,
            Self::NginxJs => 8730,
            Self::Envoy => 8740,
            Self::HaproxyNative => 8750,
        }
    }

    /// Fetch what it needs.
    pub(crate) fn fetch(self, place: &Place, interrupted: &AtomicBool) -> Result<()> {
        let what = match self {
            Self::Headgate if place.headgate.exists() => return Ok(()),
            Self::Headgate => bail!("{} is not built", place.headgate.display()),
            Self::Haproxy | Self::HaproxyNative => "haproxy",
            Self::NginxLua | Self::NginxJs => "nginx",
            Self::Envoy => "envoy",
        };
        let mut command = Command::new(place.peers.join("fetch.sh"));
        command.arg(what);
        process::output(command, Duration::from_secs(1800), interrupted).map(drop)
    }

    /// Start it on the given cores, with the rules of this folder, and wait until it answers both ways.
    pub(crate) fn start(self, place: &Place, cores: &str, rules: &Path) -> Result<Process> {
        let script = place.root.join("benches/rules/peers/start.sh");
        let port = self.port();
        let command = [
            script.display().to_string(),
            self.name().to_owned(),
            port.to_string(),
        ];
        let log = place.scratch.join(format!("rules-{}.log", self.name()));
        let environment = [
            ("RULES", rules.display().to_string()),
            ("HEADGATE", place.headgate.display().to_string()),
        ];
        let mut process = Process::start(self.name(), cores, &command, &environment, &log)?;
        for port in [port, port + 1] {
            program::wait_until_it_answers(&mut process, port, &log).context(self.name())?;
        }
        Ok(process)
    }

    /// Its version, as it says itself.
    pub(crate) fn version(self, place: &Place) -> String {
        let sid = place.cache.join("sid").display().to_string();
        let envoy = place.cache.join("envoy/envoy").display().to_string();
        let headgate = place.headgate.display().to_string();
        program::version(&match self {
            Self::Headgate => vec![&headgate, "--version"],
            Self::Haproxy | Self::HaproxyNative => {
                vec!["chroot", &sid, "/usr/sbin/haproxy", "-v"]
            }
            Self::NginxLua | Self::NginxJs => vec!["chroot", &sid, "/usr/sbin/nginx", "-v"],
            Self::Envoy => vec![&envoy, "--version"],
        })
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn headgates_configuration_is_understood() {
        let text = include_str!("../../rules/peers/headgate.yaml")
            .replace("@THREADS@", "1")
            .replace("@ORIGIN@", "7001")
            .replace("@OFF@", "8700")
            .replace("@ON@", "8701")
            .replace("@RULES@", "/rules");
        let source = ["hmac_bind_client_ip.tcl", "hmac_cookie.tcl"]
            .iter()
            .fold(model::MemorySource::default(), |source, file| {
                source.file(&format!("/rules/{file}"), "")
            });
        let config = model::parse_text("/headgate.yaml".as_ref(), &text, &source);
        assert!(config.is_ok(), "{}", config.unwrap_err());
    }
}
