//! Where things are in this checkout, and what this machine is.

use anyhow::{Context, Result};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders and programs that are used.
#[derive(Clone, Debug)]
pub struct Place {
    /// The checkout.
    pub root: PathBuf,
    /// benches/peers
    pub peers: PathBuf,
    /// What was fetched or built for measuring.
    pub cache: PathBuf,
    /// For logs and profiles of this run.
    pub scratch: PathBuf,
    /// The program under test.
    pub headgate: PathBuf,
}

/// What the numbers hold for.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Its model, as the kernel calls it.
    pub processor: String,
    /// How many the kernel sees.
    pub cores: usize,
    /// With its unit.
    pub memory: String,
    /// Its release.
    pub kernel: String,
    /// Of this checkout.
    pub commit: String,
    /// With time and zone.
    pub date: String,
}

impl Place {
    /// In this checkout, unless `$HEADGATE_CACHE` and `$HEADGATE` name other places.
    ///
    /// # Errors
    /// If the folder for logs cannot be made.
    pub fn find() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .context("this crate has no workspace")?;
        let cache =
            std::env::var_os("HEADGATE_CACHE").map_or_else(|| root.join(".cache"), PathBuf::from);
        let headgate = std::env::var_os("HEADGATE")
            .map_or_else(|| root.join("target/release/headgate"), PathBuf::from);
        let scratch = cache.join("run");
        fs::create_dir_all(&scratch)
            .with_context(|| format!("cannot make {}", scratch.display()))?;
        Ok(Self {
            root: root.to_owned(),
            peers: root.join("benches/peers"),
            cache,
            scratch,
            headgate,
        })
    }
}

impl Machine {
    /// This one, now.
    pub fn this() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let processor = value(&cpuinfo, "model name")
            .unwrap_or("unknown")
            .to_owned();
        let kibibytes = value(&meminfo, "MemTotal")
            .and_then(|value| value.trim_end_matches(" kB").parse::<u64>().ok());
        Self {
            processor,
            cores: cpuinfo
                .lines()
                .filter(|line| line.starts_with("processor"))
                .count(),
            memory: format!("{} GiB", kibibytes.unwrap_or(0) / (1024 * 1024)),
            kernel: said("uname", &["-r"]),
            commit: said("git", &["describe", "--always", "--dirty"]),
            date: said("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
        }
    }
}

fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}
