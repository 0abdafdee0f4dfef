//! What is measured: rows of figures, each with its rounds, its peers and its goal.

use headgate_benches::median;
use serde::Serialize;

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
}

impl Series {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            rounds: Vec::new(),
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
    /// The first peer takes so many times our time.
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
    pub(crate) note: String,
}

impl Row {
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

    /// The first peer's time over ours.
    pub(crate) fn times(&self) -> Option<f64> {
        let peer = self.peers.first()?.median();
        let ours = self.ours.median();
        (ours > 0.0 && peer > 0.0).then(|| peer / ours)
    }
}
