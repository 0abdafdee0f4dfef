//! Small scripts, each timed in tclsh and in the engine, in processes of their own that take turns.

use crate::Options;
use anyhow::{Context, Result, bail};
use headgate_benches::machine::Place;
use headgate_benches::median;
use headgate_benches::process;
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A script's times.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Timed {
    pub(crate) name: String,
    /// Its first line: what it does.
    pub(crate) title: String,
    /// Nanoseconds each time, round by round.
    pub(crate) tclsh: Vec<f64>,
    pub(crate) engine: Vec<f64>,
}

/// What a runner prints.
#[derive(Clone, Debug, PartialEq)]
struct Said {
    nanoseconds: f64,
    result: String,
}

const TCLSH: &str = "tclsh8.6";
/// How long each run of a script takes at least.
const MILLISECONDS: &str = "60";
const CORE: &str = "0";

impl Timed {
    /// How many times faster the engine is.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let (theirs, own) = (median(self.tclsh.clone()), median(self.engine.clone()));
        (theirs > 0.0 && own > 0.0).then(|| theirs / own)
    }
}

/// The patch level of the tclsh that is here.
pub(crate) fn tclsh_version() -> String {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        &format!("echo 'puts [info patchlevel]' | {TCLSH} | head -n 1"),
    ]);
    let said = process::output(command, Duration::from_secs(5), &AtomicBool::new(false));
    said.unwrap_or_default().trim().to_owned()
}

/// Time all scripts that are wanted.
pub(crate) fn run(
    options: &Options,
    place: &Place,
    interrupted: &AtomicBool,
    notes: &mut Vec<String>,
) -> Result<Vec<Timed>> {
    let folder = place.root.join("benches/rules");
    let mut files: Vec<PathBuf> = fs::read_dir(folder.join("tcl"))
        .context("cannot list the scripts")?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.sort_unstable();
    let mut all = Vec::new();
    let rounds = options.rounds().min(7);
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        if !options.script.is_empty() && !options.script.iter().any(|part| name.contains(part)) {
            continue;
        }
        let text = fs::read_to_string(&file)?;
        let title = text.lines().next().unwrap_or_default();
        let mut timed = Timed {
            name: name.clone().into_owned(),
            title: title.trim_start_matches("# ").to_owned(),
            tclsh: Vec::new(),
            engine: Vec::new(),
        };
        for round in 0..rounds {
            let theirs = tclsh(&folder.join("run.tcl"), &file, interrupted)?;
            timed.tclsh.push(theirs.nanoseconds);
            match engine(&file, interrupted) {
                Ok(own) if own.result == theirs.result => timed.engine.push(own.nanoseconds),
                Ok(own) => {
                    let (own, theirs) = (own.result, theirs.result);
                    notes.push(format!("{name}: the engine says {own:?}, tclsh {theirs:?}"));
                    break;
                }
                Err(error) => {
                    notes.push(format!("{name}: {error:#}"));
                    if round == 0 {
                        break;
                    }
                }
            }
        }
        eprintln!(
            "{name}: {:.0} ns, tclsh {:.0} ns",
            median(timed.engine.clone()),
            median(timed.tclsh.clone())
        );
        all.push(timed);
    }
    Ok(all)
}

fn tclsh(runner: &Path, file: &Path, interrupted: &AtomicBool) -> Result<Said> {
    let mut command = Command::new("taskset");
    command.args(["-c", CORE, TCLSH]).arg(runner).arg(file);
    timed(command, interrupted)
}

/// This program, which knows the engine.
fn engine(file: &Path, interrupted: &AtomicBool) -> Result<Said> {
    let this = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new("taskset");
    command.args(["-c", CORE]).arg(this).arg("script").arg(file);
    timed(command, interrupted)
}

fn timed(mut command: Command, interrupted: &AtomicBool) -> Result<Said> {
    command.arg(MILLISECONDS);
    Said::parse(&process::output(
        command,
        Duration::from_secs(30),
        interrupted,
    )?)
}

impl Said {
    fn parse(text: &str) -> Result<Self> {
        let mut words = text.trim_end_matches('\n').splitn(3, ' ');
        let (Some(nanoseconds), Some(_times)) = (words.next(), words.next()) else {
            bail!("a script's runner said {text:?}");
        };
        Ok(Self {
            nanoseconds: nanoseconds
                .parse()
                .with_context(|| format!("a script's runner said {text:?}"))?,
            result: words.next().unwrap_or_default().to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_runner_prints_is_taken_apart() {
        let said = Said::parse("12.5 1000 two words \n").unwrap();
        assert_eq!(said.nanoseconds, 12.5);
        assert_eq!(said.result, "two words ");
        assert_eq!(Said::parse("1 2\n").unwrap().result, "");
        assert!(Said::parse("error\n").is_err());
    }
}
