//! Headgate and its peers, measured side by side on this machine. Each peer has a core for itself, load and origin have another;
//! runs are interleaved and the medians of processor time per request are what counts. README.md says how to read the report.

mod counts;
mod measure;
mod peer;
mod plot;
mod report;
mod scenario;

use anyhow::{Context, Result};
use clap::Parser;
use headgate_benches::part::Part;
use measure::Runner;
use peer::Peer;
use scenario::Scenario;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Measure Headgate against its peers
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Command {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    options: Options,
}

/// What to measure, and how long.
#[derive(Clone, Debug, clap::Args)]
struct Options {
    /// One short round, for a first look
    #[arg(long)]
    quick: bool,
    /// Only scenarios whose name contains this; may be given several times
    #[arg(short, long, value_name = "NAME")]
    scenario: Vec<String>,
    /// Only these peers; may be given several times
    #[arg(short, long, value_enum, value_name = "PEER")]
    peer: Vec<Peer>,
    /// Rounds of each scenario [default: 5]
    #[arg(short, long)]
    rounds: Option<usize>,
    /// Measured seconds of each run [default: 2]
    #[arg(short, long)]
    duration: Option<f64>,
    /// Folder to write report.md, report.json and report.svg to; `-` only prints
    #[arg(short, long, value_name = "FOLDER", default_value = "benches")]
    output: String,
    /// List the scenarios and end
    #[arg(long)]
    list: bool,
}

impl Options {
    fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 1 } else { 5 }).max(1)
    }

    fn duration(&self) -> f64 {
        self.duration.unwrap_or(2.0)
    }

    fn wants(&self, name: &str) -> bool {
        self.scenario.is_empty()
            || self
                .scenario
                .iter()
                .any(|part| name.contains(part.as_str()))
    }
}

fn main() -> ExitCode {
    let command = Command::parse();
    let result = match command.part {
        Some(part) => part.run(),
        None => measure(&command.options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: &Options) -> Result<()> {
    if options.list {
        for scenario in Scenario::all() {
            println!("{:24} {}", scenario.name, scenario.title);
        }
        return Ok(());
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .context("cannot catch signals")?;
    }
    let mut runner = Runner::new(options, interrupted)?;
    let report = runner.run()?;
    drop(runner);
    let text = report::markdown(&report);
    println!("{text}");
    if options.output != "-" {
        report::write(&report, &text, options.output.as_ref())?;
    }
    Ok(())
}
