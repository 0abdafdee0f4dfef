//! The rules engine measured: the HMAC cookie rule in Headgate and the same logic in other proxies' languages, with the rule and
//! without; small scripts beside tclsh; and processor cycles an event. README.md says how to read the report.

mod client;
mod clock;
mod engine;
mod events;
mod peer;
mod plot;
mod proxies;
mod report;
mod script;
mod scripts;
mod sessions;
mod world;

use anyhow::{Context, Result};
use clap::Parser;
use headgate_benches::machine::{Machine, Place};
use headgate_benches::part::Part;
use peer::Peer;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// As the proxy has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure the rules engine
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Command {
    #[command(subcommand)]
    part: Option<Own>,
    #[command(flatten)]
    options: Options,
}

/// What the program starts of itself.
#[derive(clap::Subcommand)]
enum Own {
    #[command(flatten)]
    Traffic(Part),
    /// Time one script in the engine
    Script {
        file: PathBuf,
        /// How long it is run at least
        milliseconds: u64,
    },
    /// Count the cycles of one set of rules
    Events {
        set: String,
        /// Folder with the rules
        folder: PathBuf,
    },
}

/// What to measure, and how long.
#[derive(Clone, Debug, clap::Args)]
struct Options {
    /// Two short rounds, for a first look
    #[arg(long)]
    quick: bool,
    /// Only this part; may be given several times
    #[arg(long, value_enum, value_name = "PART")]
    only: Vec<Measure>,
    /// Only these proxies; may be given several times
    #[arg(short, long, value_enum, value_name = "PEER")]
    peer: Vec<Peer>,
    /// Only scripts whose name contains this; may be given several times
    #[arg(short, long, value_name = "NAME")]
    script: Vec<String>,
    /// Rounds of everything [default: 15]
    #[arg(short, long)]
    rounds: Option<usize>,
    /// Measured seconds of each run of a proxy [default: 0.6]
    #[arg(short, long)]
    duration: Option<f64>,
    /// Folder with the HMAC cookie rules [default: $HEADGATE_RULES, or shared/fixtures/irules beside the checkout]
    #[arg(long, value_name = "FOLDER")]
    rules: Option<PathBuf>,
    /// Folder to write rules.md, rules.json and rules.svg to; `-` only prints
    #[arg(short, long, value_name = "FOLDER", default_value = "benches")]
    output: String,
}

/// The parts of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Measure {
    /// Cycles of events in the engine alone
    Events,
    /// The HMAC cookie rule in proxies
    Proxies,
    /// Small scripts beside tclsh
    Scripts,
}

impl Options {
    fn rounds(&self) -> usize {
        self.rounds
            .unwrap_or(if self.quick { 2 } else { 15 })
            .max(1)
    }

    fn duration(&self) -> f64 {
        self.duration.unwrap_or(0.6)
    }

    fn rules_folder(&self, place: &Place) -> PathBuf {
        let named = self.rules.clone();
        named
            .or_else(|| std::env::var_os("HEADGATE_RULES").map(PathBuf::from))
            .unwrap_or_else(|| place.root.join("../shared/fixtures/irules"))
    }

    fn wants(&self, part: Measure) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

fn main() -> ExitCode {
    let command = Command::parse();
    let result = match command.part {
        Some(Own::Traffic(part)) => part.run(),
        Some(Own::Script { file, milliseconds }) => script::time(&file, milliseconds),
        Some(Own::Events { set, folder }) => events::round(&set, &folder),
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
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .context("cannot catch signals")?;
    }
    let mut report = report::Report {
        machine: Machine::this(),
        megahertz: clock::megahertz(),
        rounds: options.rounds(),
        seconds: options.duration(),
        notes: Vec::new(),
        events: report::Events::default(),
        proxies: Vec::new(),
        tclsh: String::new(),
        scripts: Vec::new(),
    };
    let place = Place::find()?;
    if options.wants(Measure::Events) {
        report.events = events::run(options, &place, &interrupted, &mut report.notes)?;
    }
    if options.wants(Measure::Proxies) {
        let mut runner = proxies::Runner::new(options, &place, Arc::clone(&interrupted))?;
        report.proxies = runner.run()?;
        report.notes.extend(runner.notes);
    }
    if options.wants(Measure::Scripts) {
        report.tclsh = scripts::tclsh_version();
        report.scripts = scripts::run(options, &place, &interrupted, &mut report.notes)?;
    }
    let text = report::markdown(&report);
    println!("{text}");
    if options.output != "-" {
        report::write(&report, &text, options.output.as_ref())?;
    }
    Ok(())
}
