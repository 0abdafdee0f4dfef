//! `headgate gen search`: the highest rate at which nothing is lost, in the manner of RFC 2544, section 26.1: trials at rates
//! halfway between one that was good and one that was not. With `--tcp` the rate is that of connections, and a trial is
//! good when none of them fails.

use super::numbers::{parse_number, parse_time, percent, short};
use super::packets::{PacketsArgs, flows};
use super::tcp::{TcpArgs, Trial};
use crate::http::Stop;
use crate::packet::PacketError;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// How near to the rate asked for a generator must come for the trial to count as one at that rate.
const NEAR: f64 = 0.97;

/// What to search.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "search")]
pub struct SearchArgs {
    /// The lowest rate that is tried
    #[arg(long, default_value = "10k", value_parser = parse_number, value_name = "RATE")]
    pub from: f64,
    /// The highest
    #[arg(long, default_value = "20M", value_parser = parse_number, value_name = "RATE")]
    pub to: f64,
    /// How far the result may be from the true one: a share
    #[arg(long, default_value_t = 0.01, value_name = "SHARE")]
    pub resolution: f64,
    /// The share that may be lost
    #[arg(long, default_value_t = 0.0, value_name = "SHARE")]
    pub tolerate: f64,
    /// How long a trial takes
    #[arg(long, default_value = "5s", value_parser = parse_time, value_name = "TIME")]
    pub trial: Duration,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
    /// The rate of what
    #[command(subcommand)]
    pub what: Searched,
}

/// The rate of what is searched.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Searched {
    /// Frames a second, in each direction
    Packets(PacketsArgs),
    /// New connections a second
    Tcp(TcpArgs),
}

/// Searches, and tells of every trial.
pub fn search(args: &SearchArgs, stop: &Stop) -> Result<SearchReport, PacketError> {
    let in_order =
        args.from < args.to && args.resolution > 0.0 && (0.0..1.0).contains(&args.tolerate);
    if !in_order {
        return Err(PacketError::Usage(
            "--from must be less than --to, --resolution above 0, and --tolerate from 0 to less than 1".to_owned(),
        ));
    }
    let amount = match &args.what {
        Searched::Packets(args) => (&args.amount, args.time),
        Searched::Tcp(args) => (&args.amount, args.time),
    };
    if amount.0.rate.is_some() || amount.0.count.is_some() || amount.1.is_some() {
        return Err(PacketError::Usage(
            "a search sets --rate, --count and --time itself; say --from, --to and --trial"
                .to_owned(),
        ));
    }
    let mut trial: Box<dyn FnMut(f64) -> Result<Trialed, PacketError> + '_> = match &args.what {
        Searched::Packets(packets) => {
            if packets.ends.peer_interface.is_none() {
                return Err(PacketError::Usage(
                    "a search must see what arrives; say --peer-interface".to_owned(),
                ));
            }
            Box::new(|rate| try_packets(packets, args.trial, rate))
        }
        Searched::Tcp(tcp) => {
            let mut trial = Trial::new(tcp)?;
            Box::new(move |rate| {
                let report = trial.connect(Some(rate), None, Some(args.trial), stop, false)?;
                Ok(Trialed::of(
                    rate,
                    report.started_per_second,
                    report.started,
                    report.failed,
                ))
            })
        }
    };
    let mut trials = Vec::new();
    let (rate, limit) = highest(args.from, args.to, args.resolution, |rate| {
        if stop.is_stopped() {
            return Err(PacketError::Usage(
                "stopped before the search was over".to_owned(),
            ));
        }
        let mut done = trial(rate)?;
        done.good = done.loss <= args.tolerate;
        eprintln!("{done}");
        trials.push(done.clone());
        Ok(done)
    })?;
    Ok(SearchReport {
        unit: match args.what {
            Searched::Packets(_) => "frames",
            Searched::Tcp(_) => "connections",
        },
        rate,
        limit,
        trial_seconds: args.trial.as_secs_f64(),
        trials,
    })
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub struct SearchReport {
    /// What the rate is of.
    pub unit: &'static str,
    /// The highest rate that was good, a second.
    pub rate: Option<f64>,
    /// What keeps it from being higher.
    pub limit: Limit,
    /// How long a trial took.
    pub trial_seconds: f64,
    /// All trials.
    pub trials: Vec<Trialed>,
}

/// What keeps a rate from being higher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// More is lost.
    Loss,
    /// The generator makes no more.
    Generator,
    /// No more was tried.
    Bound,
}

/// One trial.
#[derive(Clone, Debug, Serialize)]
pub struct Trialed {
    /// The rate asked for, a second.
    pub rate: f64,
    /// The rate that it was.
    pub offered: f64,
    /// How many were sent or started.
    pub sent: u64,
    /// How many were lost or failed.
    pub lost: u64,
    /// Their share.
    pub loss: f64,
    /// Whether that is little enough.
    pub good: bool,
}

impl Trialed {
    fn of(rate: f64, offered: f64, sent: u64, lost: u64) -> Self {
        Self {
            rate,
            offered,
            sent,
            lost,
            loss: lost as f64 / sent.max(1) as f64,
            good: false,
        }
    }
}

impl fmt::Display for Trialed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<5} {}/s asked for, {}/s offered, {} lost ({})",
            if self.good { "good" } else { "bad" },
            short(self.rate),
            short(self.offered),
            self.lost,
            percent(self.loss)
        )
    }
}

impl fmt::Display for SearchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(rate) = self.rate else {
            return write!(f, "none: even the lowest rate loses some");
        };
        write!(
            f,
            "{rate:.0} {} a second ({}) over {} s, {}",
            self.unit,
            short(rate),
            self.trial_seconds,
            match self.limit {
                Limit::Loss => "above which some are lost",
                Limit::Generator => "which is as much as the generator makes here",
                Limit::Bound => "the highest rate tried",
            }
        )
    }
}

/// One trial of frames, in which a direction that loses makes it bad.
fn try_packets(args: &PacketsArgs, time: Duration, rate: f64) -> Result<Trialed, PacketError> {
    let mut args = args.clone();
    args.amount.rate = Some(rate);
    let mut flows = flows(&args)?;
    for flow in &mut flows {
        flow.start(&args, Some(time))?;
    }
    let mut all: Option<Trialed> = None;
    for flow in flows {
        let direction = flow.finish(args.grace)?;
        let lost = direction.arrived.map_or(0, |arrived| arrived.lost);
        let own = Trialed::of(rate, direction.packets_per_second, direction.sent, lost);
        all = Some(match all {
            None => own,
            Some(all) => Trialed::of(
                rate,
                all.offered.min(own.offered),
                all.sent + own.sent,
                all.lost + own.lost,
            ),
        });
    }
    Ok(all.unwrap_or_else(|| Trialed::of(rate, 0.0, 0, 0)))
}

/// The highest rate between two whose trial is good, and why no higher one is.
fn highest<E>(
    from: f64,
    to: f64,
    resolution: f64,
    mut trial: impl FnMut(f64) -> Result<Trialed, E>,
) -> Result<(Option<f64>, Limit), E> {
    let short_of = |done: &Trialed| done.offered < done.rate * NEAR;
    let first = trial(to)?;
    if first.good {
        let limit = if short_of(&first) {
            Limit::Generator
        } else {
            Limit::Bound
        };
        return Ok((Some(first.offered), limit));
    }
    // What the generator does not make needs no trial.
    let mut bad = to.min(first.offered.max(from * (1.0 + resolution)));
    let lowest = trial(from)?;
    if !lowest.good {
        return Ok((None, Limit::Loss));
    }
    let (mut good, mut best) = (from, lowest.offered);
    while bad - good > bad * resolution {
        let middle = f64::midpoint(good, bad);
        let done = trial(middle)?;
        if done.good && short_of(&done) {
            return Ok((Some(done.offered.max(best)), Limit::Generator));
        }
        if done.good {
            (good, best) = (middle, done.offered);
        } else {
            bad = middle;
        }
    }
    Ok((Some(best), Limit::Loss))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches something that carries `carried` and a generator that makes `made`.
    fn found(carried: f64, made: f64) -> (Option<f64>, Limit, u32) {
        let mut trials = 0;
        let (rate, limit) = highest(1e4, 2e7, 0.01, |rate| {
            trials += 1;
            let offered = rate.min(made);
            let mut done = Trialed::of(rate, offered, 1000, u64::from(offered > carried));
            done.good = done.lost == 0;
            Ok::<_, ()>(done)
        })
        .expect("no trial fails");
        (rate, limit, trials)
    }

    #[test]
    fn the_border_is_found_between_good_and_bad() {
        for carried in [15_000.0, 123_456.0, 1e6, 9.9e6] {
            let (rate, limit, trials) = found(carried, 1e7);
            let rate = rate.expect("a good rate");
            assert!(
                rate <= carried && rate >= carried * 0.98,
                "{rate} of {carried}"
            );
            assert_eq!(limit, Limit::Loss);
            assert!(trials < 20, "{trials}");
        }
    }

    #[test]
    fn a_search_ends_where_nothing_more_can_be_known() {
        assert_eq!(found(1e9, 1e9), (Some(2e7), Limit::Bound, 1));
        assert_eq!(found(1e9, 1e6), (Some(1e6), Limit::Generator, 1));
        assert_eq!(found(1.0, 1e7), (None, Limit::Loss, 2));
    }
}
