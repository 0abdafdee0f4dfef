//! What is measured: rows of figures, each with its rounds, its peers and its goal.

use crate::Stop;
use anyhow::Result;
use headgate_benches::median;
use serde::Serialize;

/// What has been measured, written down as it comes.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Book {
    pub(crate) rows: Vec<Row>,
    /// What could not be measured, and why.
    pub(crate) failed: Vec<String>,
}

impl Book {
    pub(crate) fn row(&mut self, row: Row) {
        println!("{}", row.line());
        self.rows.push(row);
    }

    /// Goes on after a row that could not be measured, unless somebody wishes everything to end.
    pub(crate) fn tried(&mut self, stop: &Stop, result: Result<()>) -> Result<()> {
        if let Err(error) = result {
            stop.check()?;
            eprintln!("{error:#}");
            self.failed.push(format!("{error:#}"));
        }
        Ok(())
    }
}

/// The parts of the measurement, in the report's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Part {
    /// Nanoseconds a packet in test runs
    Cost,
    /// Forwarding beside the kernel and nftables
    Forward,
    /// A full routing table
    Routes,
    /// Concurrent connections
    Concurrent,
    /// New connections a second
    Setup,
    /// One large object a connection
    Object,
}

/// Somebody's figures, a round each.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) rounds: Vec<f64>,
    /// Millions of packets a second beside them, where there were any on their way.
    pub(crate) rates: Vec<f64>,
}

impl Series {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            rounds: Vec::new(),
            rates: Vec::new(),
        }
    }

    /// A figure that was not measured here.
    pub(crate) fn fixed(name: impl Into<String>, figure: f64) -> Self {
        Self {
            rounds: vec![figure],
            ..Self::new(name)
        }
    }

    pub(crate) fn median(&self) -> f64 {
        median(self.rounds.clone())
    }
}

/// What a figure must reach.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Goal {
    /// At most this.
    Most(f64),
    /// At least this.
    Least(f64),
    /// The first peer takes so many times our time, both without [`Row::floor`].
    Times(f64),
}

/// One line of the report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) part: Part,
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) unit: &'static str,
    pub(crate) ours: Series,
    pub(crate) peers: Vec<Series>,
    pub(crate) goal: Option<Goal>,
    /// What everybody's figures contain that is nobody's merit.
    pub(crate) floor: f64,
    pub(crate) note: String,
}

impl Row {
    /// One line, for whoever waits.
    pub(crate) fn line(&self) -> String {
        let figure = |series: &Series| {
            let rate = median(series.rates.clone());
            let rate = if rate > 0.0 {
                format!(" ({rate:.2} M/s)")
            } else {
                String::new()
            };
            format!("{:.1} {}{rate}", series.median(), self.unit)
        };
        let mut line = format!("{:28} {}", self.name, figure(&self.ours));
        for peer in &self.peers {
            line.push_str(&format!("  {} {}", peer.name, figure(peer)));
        }
        if let Some(met) = self.met() {
            line.push_str(if met { "  met" } else { "  NOT MET" });
        }
        if !self.note.is_empty() {
            line.push_str(&format!("  [{}]", self.note));
        }
        line
    }

    /// Whether the goal is reached; nothing without one, or without figures.
    pub(crate) fn met(&self) -> Option<bool> {
        let ours = self.ours.median();
        if self.ours.rounds.is_empty() {
            return None;
        }
        match self.goal? {
            Goal::Most(most) => Some(ours <= most),
            Goal::Least(least) => Some(ours >= least),
            Goal::Times(times) => Some(self.times()? >= times),
        }
    }

    /// The first peer's time over ours, both without the floor.
    pub(crate) fn times(&self) -> Option<f64> {
        let peer = self.peers.first()?.median() - self.floor;
        let ours = self.ours.median() - self.floor;
        (ours > 0.0 && peer > 0.0).then(|| peer / ours)
    }
}
