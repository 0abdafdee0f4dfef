//! `headgate gen receive`: the receiving end alone, for frames that a generator on another machine sends.

use super::frames::{place, receiver};
use super::numbers::{parse_count, parse_time, percent, short};
use super::progress::{Growth, watch};
use crate::http::Stop;
use crate::packet::{PacketError, Receiving};
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// What to receive.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "receive")]
pub struct ReceiveArgs {
    /// Interface to receive at
    #[arg(short, long, value_name = "NAME")]
    pub interface: String,
    /// Network namespace that it is in, as `ip netns` names it, or its file
    #[arg(long, value_name = "NAME")]
    pub netns: Option<PathBuf>,
    /// Count (and drop) all frames but ARP, not only those with a generator's signature
    #[arg(long)]
    pub all: bool,
    /// Hand frames on to the kernel after they were counted
    #[arg(long)]
    pub pass: bool,
    /// End after so long [default: when interrupted]
    #[arg(short, long, value_parser = parse_time)]
    pub time: Option<Duration>,
    /// End after so many frames
    #[arg(short = 'n', long, value_parser = parse_count)]
    pub count: Option<u64>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Counts what arrives until it is told to stop.
pub fn receive(args: &ReceiveArgs, stop: &Stop) -> Result<ReceiveReport, PacketError> {
    let receiver = receiver(
        &place(args.netns.as_ref(), &args.interface),
        Receiving {
            all: args.all,
            pass: args.pass,
            ..Receiving::default()
        },
    )?;
    let mut last = Growth::default();
    let took = watch(
        stop,
        args.time,
        || match args.count {
            None => Ok::<_, PacketError>(false),
            Some(count) => Ok(receiver.packets()? >= count),
        },
        |second| {
            let packets = receiver.packets()?;
            Ok(format!(
                "received {packets} frames, {}pps",
                short(last.rate(packets, second))
            ))
        },
    )?;
    let received = receiver.received()?;
    let missing = received.missing();
    Ok(ReceiveReport {
        seconds: took.as_secs_f64(),
        received: received.packets,
        received_bytes: received.bytes,
        other: received.other,
        streams: received.streams.len(),
        missing,
        loss: missing as f64 / (received.packets + missing).max(1) as f64,
        late: received.late(),
    })
}

/// What arrived.
#[derive(Clone, Debug, Serialize)]
pub struct ReceiveReport {
    /// How long it was counted.
    pub seconds: f64,
    /// Frames.
    pub received: u64,
    /// Their bytes, without checksums.
    pub received_bytes: u64,
    /// Frames that were not counted, and left to the kernel.
    pub other: u64,
    /// Streams among them.
    pub streams: usize,
    /// Frames missing between the first and the last of each stream.
    pub missing: u64,
    /// Their share.
    pub loss: f64,
    /// Frames that came after one that was sent after them.
    pub late: u64,
}

impl fmt::Display for ReceiveReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "received  {} frames, {} bytes in {:.2} s; {} others",
            self.received, self.received_bytes, self.seconds, self.other
        )?;
        write!(
            f,
            "missing   {} ({}) of {} streams, late {}",
            self.missing,
            percent(self.loss),
            self.streams,
            self.late
        )
    }
}
