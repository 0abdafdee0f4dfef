//! `headgate fastpath`, `flows` and `shun`: what is done with the fast path through its pins, whether a process looks after
//! it or not.

pub(crate) mod args;
mod check;
mod decap;
mod flows;
pub(crate) mod metrics;
mod show;
mod shun;
mod stats;
mod text;

use args::{Fastpath, FastpathCommand, Flows, Kind, Shun, Where};
use fastpath::decap::DecapError;
use fastpath::see::SeeError;
use fastpath::shun::ShunError;
use fastpath::{Pins, Sight};
use std::io::{self, Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use xdp::require::Missing;

/// Where it is pinned if nobody says otherwise, as the configuration has it.
const PIN: &str = "/sys/fs/bpf/headgate";

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{0}")]
    Config(#[from] model::Errors),
    #[error("{0} has no `fast_path`")]
    NoFastPath(PathBuf),
    #[error(transparent)]
    See(#[from] SeeError),
    #[error(transparent)]
    Shun(#[from] ShunError),
    #[error(transparent)]
    Decap(#[from] DecapError),
    #[error(transparent)]
    Missing(#[from] Missing),
    #[error("cannot detach: {0}")]
    Detach(#[from] fastpath::StartError),
    #[error("there is no {kind} {asked:?}; there are: {}", .known.join(", "))]
    Unknown {
        kind: &'static str,
        asked: String,
        known: Vec<String>,
    },
    #[error("this would end every flow; say which, or --all")]
    EveryFlow,
    #[error("{path}, line {line}: {source}")]
    Source {
        path: PathBuf,
        line: usize,
        source: addr::PrefixError,
    },
    #[error("cannot read {path}: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("the connection table is not sound: please report what is found above")]
    Unsound,
    #[error("cannot read the fast path's tables: {0}")]
    Table(io::Error),
    #[error("cannot write: {0}")]
    Write(io::Error),
}

/// `headgate fastpath …`.
pub(crate) fn fastpath(args: &Fastpath) -> ExitCode {
    report(match &args.what {
        FastpathCommand::Show { json } => show::show(&args.place, *json),
        FastpathCommand::Stats(stats) => stats::stats(&args.place, stats),
        FastpathCommand::Check => check::check(&args.place),
        FastpathCommand::Detach => detach(&args.place),
        FastpathCommand::Decap(args) => decap::decap(args),
    })
}

/// `headgate flows …`.
pub(crate) fn flows(args: &Flows) -> ExitCode {
    report(flows::flows(&args.place, &args.what))
}

/// `headgate shun …`.
pub(crate) fn shun(args: &Shun) -> ExitCode {
    report(shun::shun(&args.place, &args.what))
}

fn report(done: Result<(), Error>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the output has had enough of it.
        Err(Error::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn detach(place: &Where) -> Result<(), Error> {
    let pins = pins(place)?;
    // It says what is missing, and that there is nothing.
    drop(Sight::open(&pins)?);
    let interfaces = fastpath::detach(&pins)?;
    print(&match interfaces.is_empty() {
        true => "removed; no interface in this network namespace had it\n".to_owned(),
        false => format!("detached from {}\n", interfaces.join(", ")),
    })
}

fn sight(place: &Where) -> Result<Sight, Error> {
    Ok(Sight::open(&pins(place)?)?)
}

fn pins(place: &Where) -> Result<Pins, Error> {
    if let Some(path) = &place.pin {
        return Ok(Pins::at(path));
    }
    let Some(path) = &place.config else {
        return Ok(Pins::at(PIN));
    };
    let config = control::read(path).0?;
    let fast = config
        .fast_path
        .ok_or_else(|| Error::NoFastPath(path.clone()))?;
    Ok(Pins::at(fast.pin))
}

/// The numbers of a name, or the number that `asked` is with a # before it.
fn numbers(sight: &Sight, kind: Kind, asked: &str) -> Result<Vec<u16>, Error> {
    let names = sight.names(kind).map_err(Error::Table)?;
    let mut found: Vec<u16> = names
        .iter()
        .filter(|(_, name)| *name == asked)
        .filter_map(|(number, _)| u16::try_from(*number).ok())
        .collect();
    found.extend(
        asked
            .strip_prefix('#')
            .and_then(|number| number.parse::<u16>().ok()),
    );
    if found.is_empty() {
        let mut known: Vec<String> = names.into_values().collect();
        known.dedup();
        return Err(Error::Unknown {
            kind: match kind {
                Kind::Member => "member",
                Kind::Rule => "rule of source NAT",
                _ => "fast virtual",
            },
            asked: asked.to_owned(),
            known,
        });
    }
    Ok(found)
}

fn print_json(value: &impl serde::Serialize) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Error::Write(error.into()))?;
    print(&format!("{text}\n"))
}

fn print(text: &str) -> Result<(), Error> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(Error::Write)
}
