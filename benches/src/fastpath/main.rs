//! The fast path measured: nanoseconds a packet in test runs, and side by side with the kernel's forwarding, nftables and bare XDP
//! programs in network namespaces. README.md says how to read the report.

mod acted;
mod bare;
mod concurrent;
mod cost;
mod device;
mod forward;
mod instance;
mod meter;
mod object;
mod plot;
mod report;
mod routes;
mod row;
mod setup;
mod world;

use anyhow::{Context, Result, bail};
use clap::Parser;
use headgate_benches::machine::Machine;
use headgate_benches::program;
use report::Report;
use row::{Book, Part};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Measure the fast path
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Command {
    #[command(subcommand)]
    part: Option<headgate_benches::part::Part>,
    #[command(flatten)]
    options: Options,
}

/// What to measure, and how long.
#[derive(Clone, Debug, clap::Args)]
struct Options {
    /// Short rounds and small tables, for a first look
    #[arg(long)]
    quick: bool,
    /// Only this part; may be given several times
    #[arg(long, value_enum, value_name = "PART")]
    only: Vec<Part>,
    /// Only rows whose name contains this; may be given several times
    #[arg(short, long, value_name = "NAME")]
    scenario: Vec<String>,
    /// Rounds of everything [default: 5]
    #[arg(short, long)]
    rounds: Option<usize>,
    /// Folder to write fastpath.md, fastpath.json and fastpath.svg to; `-` only prints
    #[arg(short, long, value_name = "FOLDER", default_value = "benches")]
    output: String,
    /// List the rows and end
    #[arg(long)]
    list: bool,
}

impl Options {
    fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 2 } else { 5 }).max(1)
    }

    /// The core of what is measured.
    fn core(&self) -> usize {
        1
    }

    /// The core of generator and sink.
    fn other_core(&self) -> usize {
        0
    }

    fn wants_part(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    fn wants(&self, name: &str) -> bool {
        self.scenario.is_empty()
            || self
                .scenario
                .iter()
                .any(|part| name.contains(part.as_str()))
    }
}

/// Measures one part.
type Measure = fn(&Options, &Stop, &mut Book) -> Result<()>;

/// Whether somebody wishes everything to end.
#[derive(Clone, Debug, Default)]
struct Stop(Arc<AtomicBool>);

impl Stop {
    fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(())
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
        let names = [
            cost::names(),
            forward::names(),
            routes::names(),
            concurrent::names(),
            setup::names(),
            object::names(),
        ];
        for name in names.concat() {
            println!("{name}");
        }
        return Ok(());
    }
    let stop = Stop::default();
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop.0)).context("cannot catch signals")?;
    }
    xdp::require::check()?;
    let measured: [(Part, Measure); 6] = [
        (Part::Cost, cost::run),
        (Part::Forward, forward::run),
        (Part::Routes, routes::run),
        (Part::Concurrent, concurrent::run),
        (Part::Setup, setup::run),
        (Part::Object, object::run),
    ];
    let mut book = Book::default();
    for (part, measure) in measured {
        if options.wants_part(part) {
            measure(options, &stop, &mut book)?;
        }
    }
    let report = Report {
        machine: Machine::this(),
        nftables: program::version(&["nft", "--version"]),
        rounds: options.rounds(),
        quick: options.quick,
        book,
    };
    let text = report::markdown(&report);
    println!("\n{text}");
    if options.output != "-" {
        report::write(&report, &text, options.output.as_ref())?;
    }
    if !report.book.failed.is_empty() {
        bail!("not everything could be measured");
    }
    Ok(())
}
