//! What a load has measured, for programs (serde) and people (Display).

use super::super::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A load's result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// What was asked for.
    pub url: String,
    /// Connections open at any time.
    pub connections: usize,
    /// How long was measured.
    pub seconds: f64,
    /// Answers that arrived whole (or handshakes that were finished) in that time.
    pub requests: u64,
    /// Bytes of those answers, heads included.
    pub bytes: u64,
    /// Connections that failed in that time.
    pub errors: u64,
    /// Answers with another status than 200.
    pub other_status: u64,
    /// Answers a second.
    pub requests_per_second: f64,
    /// From the request (or the connection, if it was opened for it) to the last byte of the answer.
    pub latency: Latency,
    /// Processor time that the load itself used.
    pub load_cpu_seconds: f64,
    /// Processor time that the watched processes used.
    pub watched_cpu_seconds: Option<f64>,
    /// Answers per second of the watched processes' time.
    pub requests_per_cpu_second: Option<f64>,
    /// The share of time (0 to 1) that each of the machine's cores was busy.
    pub cores_busy: Vec<f64>,
    /// Why connections failed, from the start on, and how often.
    pub reasons: BTreeMap<String, u64>,
}

/// Latencies in microseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Latency {
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

impl Latency {
    /// The usual quantiles.
    pub fn of(histogram: &Histogram) -> Self {
        let micro = |nanoseconds: u64| nanoseconds as f64 / 1e3;
        Self {
            mean: micro(histogram.mean()),
            p50: micro(histogram.quantile(0.5)),
            p90: micro(histogram.quantile(0.9)),
            p99: micro(histogram.quantile(0.99)),
            p999: micro(histogram.quantile(0.999)),
            max: micro(histogram.max()),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let latency = &self.latency;
        writeln!(
            f,
            "{} with {} connections for {:.2} s",
            self.url, self.connections, self.seconds
        )?;
        writeln!(
            f,
            "  requests  {} ({:.0}/s), {:.1} MB/s",
            self.requests,
            self.requests_per_second,
            self.bytes as f64 / self.seconds.max(1e-9) / 1e6
        )?;
        writeln!(
            f,
            "  failed    {}, other status than 200: {}",
            self.errors, self.other_status
        )?;
        for (why, count) in &self.reasons {
            writeln!(f, "            {count} × {why}")?;
        }
        writeln!(
            f,
            "  latency   mean {:.0} µs, p50 {:.0}, p90 {:.0}, p99 {:.0}, p99.9 {:.0}, max {:.0}",
            latency.mean, latency.p50, latency.p90, latency.p99, latency.p999, latency.max
        )?;
        let busy: Vec<String> = self
            .cores_busy
            .iter()
            .map(|share| format!("{:.0} %", share * 100.0))
            .collect();
        write!(
            f,
            "  cores     busy {}; the load used {:.2} s",
            busy.join(", "),
            self.load_cpu_seconds
        )?;
        if let (Some(seconds), Some(rate)) =
            (self.watched_cpu_seconds, self.requests_per_cpu_second)
        {
            write!(
                f,
                "\n  watched   {seconds:.2} s, {rate:.0} requests per CPU-second"
            )?;
        }
        Ok(())
    }
}
