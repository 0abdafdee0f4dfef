//! `headgate gen packets`: streams of frames, and what of them arrives.

use super::frames::{Amount, Ends, Frames, Tuples, receiver};
use super::numbers::{parse_time, percent, short};
use super::progress::{Growth, settle, watch};
use crate::http::Stop;
use crate::packet::{
    Done, Generator, PacketError, Place, Plan, Received, Receiver, Receiving, Stream, What,
};
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// What a frame takes on the wire besides itself: preamble, checksum and the gap after it, bytes.
const ON_THE_WIRE: u64 = 24;

/// Streams that go the other way have numbers from here on.
const BACK: u8 = 128;

/// Frames to send.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "packets")]
pub struct PacketsArgs {
    /// Where they leave and arrive.
    #[command(flatten)]
    pub ends: Ends,
    /// From whom to whom.
    #[command(flatten)]
    pub tuples: Tuples,
    /// What they look like.
    #[command(flatten)]
    pub frames: Frames,
    /// How many.
    #[command(flatten)]
    pub amount: Amount,
    /// End after so long: 10, 10s, 2m [default: 10s, or when --count are sent]
    #[arg(short, long, value_parser = parse_time)]
    pub time: Option<Duration>,
    /// Send the other way as well, from the peer, with addresses and ports exchanged
    #[arg(long, requires = "peer_interface")]
    pub both: bool,
    /// Hand frames that arrived on to the kernel after they were counted
    #[arg(long, requires = "peer_interface")]
    pub pass: bool,
    /// How long to wait for the last frames to arrive
    #[arg(long, default_value = "500ms", value_parser = parse_time, value_name = "TIME")]
    pub grace: Duration,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Sends frames, counts them where they arrive, and tells of both each second and at the end.
pub fn packets(args: &PacketsArgs, stop: &Stop) -> Result<PacketsReport, PacketError> {
    let mut time = args.time;
    if time.is_none() && args.amount.count.is_none() {
        time = Some(Duration::from_secs(10));
    }
    let mut flows = flows(args)?;
    for flow in &mut flows {
        flow.start(args, time)?;
    }
    let mut last: Vec<[Growth; 3]> = flows.iter().map(|_| Default::default()).collect();
    watch(
        stop,
        None,
        || Ok(flows.iter().all(Flow::is_finished)),
        |second| {
            let lines = flows.iter().zip(&mut last);
            let lines: Result<Vec<_>, _> =
                lines.map(|(flow, last)| flow.line(second, last)).collect();
            Ok::<_, PacketError>(lines?.join(" | "))
        },
    )?;
    let directions = flows
        .into_iter()
        .map(|flow| flow.end(args.grace))
        .collect::<Result<_, _>>()?;
    Ok(PacketsReport { directions })
}

/// What was sent and what arrived.
#[derive(Clone, Debug, Serialize)]
pub struct PacketsReport {
    /// One, or the two ways.
    pub directions: Vec<Direction>,
}

/// One way.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Direction {
    /// From which interface to which.
    pub name: String,
    /// How long sending took.
    pub seconds: f64,
    /// Frames sent.
    pub sent: u64,
    /// Their bytes, without checksums.
    pub sent_bytes: u64,
    /// Frames sent a second.
    pub packets_per_second: f64,
    /// Bits sent a second, with what frames take on the wire besides themselves.
    pub wire_bits_per_second: f64,
    /// Of those sent, frames the interface had no room for.
    pub refused: u64,
    /// What arrived, if somebody counted.
    pub arrived: Option<Arrived>,
}

/// What arrived of what was sent.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Arrived {
    /// Frames.
    pub received: u64,
    /// Their bytes, without checksums.
    pub received_bytes: u64,
    /// Frames a second, over the time of sending.
    pub packets_per_second: f64,
    /// Frames sent that did not arrive, refused ones among them.
    pub lost: u64,
    /// The share of frames sent that did not arrive.
    pub loss: f64,
    /// Frames that came after one that was sent after them.
    pub late: u64,
    /// By how many frames at most.
    pub farthest: u64,
    /// Other frames that arrived, left to the kernel.
    pub other: u64,
    /// Nanoseconds, rounded up to a power of two, that half of the frames took at most, if frames say when they were sent.
    pub delay_p50: Option<u64>,
    /// The same for 99 of 100.
    pub delay_p99: Option<u64>,
    /// The same for 999 of 1000.
    pub delay_p999: Option<u64>,
}

impl Arrived {
    fn of(received: &Received, done: &Done) -> Self {
        let lost = done.sent.frames.saturating_sub(received.packets);
        Self {
            received: received.packets,
            received_bytes: received.bytes,
            packets_per_second: received.packets as f64 / done.took.as_secs_f64().max(1e-9),
            lost,
            loss: lost as f64 / done.sent.frames.max(1) as f64,
            late: received.late(),
            farthest: received
                .streams
                .iter()
                .map(|stream| stream.farthest)
                .max()
                .unwrap_or_default(),
            other: received.other,
            delay_p50: received.delay(0.5),
            delay_p99: received.delay(0.99),
            delay_p999: received.delay(0.999),
        }
    }
}

impl fmt::Display for PacketsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, direction) in self.directions.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            write!(f, "{direction}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} for {:.2} s", self.name, self.seconds)?;
        writeln!(
            f,
            "  sent      {} frames, {}pps, {}bit/s on the wire",
            self.sent,
            short(self.packets_per_second),
            short(self.wire_bits_per_second)
        )?;
        write!(f, "  refused   {} by the interface, full", self.refused)?;
        let Some(arrived) = &self.arrived else {
            return Ok(());
        };
        writeln!(f)?;
        writeln!(
            f,
            "  received  {} frames, {}pps; {} others",
            arrived.received,
            short(arrived.packets_per_second),
            arrived.other
        )?;
        writeln!(
            f,
            "  lost      {} ({})",
            arrived.lost,
            percent(arrived.loss)
        )?;
        write!(
            f,
            "  late      {} by {} frames at most",
            arrived.late, arrived.farthest
        )?;
        if let (Some(p50), Some(p99), Some(p999)) =
            (arrived.delay_p50, arrived.delay_p99, arrived.delay_p999)
        {
            let micros = |nanos: u64| nanos as f64 / 1000.0;
            write!(
                f,
                "\n  delay     p50 ≤ {:.1} µs, p99 ≤ {:.1}, p99.9 ≤ {:.1}",
                micros(p50),
                micros(p99),
                micros(p999)
            )?;
        }
        Ok(())
    }
}

/// One way while it runs.
pub(super) struct Flow {
    name: String,
    from: Place,
    what: What,
    receiver: Option<Receiver>,
    generator: Option<Generator>,
}

impl Flow {
    pub(super) fn start(
        &mut self,
        args: &PacketsArgs,
        time: Option<Duration>,
    ) -> Result<(), PacketError> {
        self.generator = Some(Generator::start(&Plan {
            cores: args.ends.cores(),
            rate: args.amount.rate,
            count: args.amount.count,
            time,
            batch: args.ends.batch,
            way: args.frames.way(),
            ..Plan::new(self.from.clone(), self.what.clone())
        })?);
        Ok(())
    }

    fn is_finished(&self) -> bool {
        self.generator.as_ref().is_none_or(Generator::is_finished)
    }

    fn line(&self, second: Duration, last: &mut [Growth; 3]) -> Result<String, PacketError> {
        let sent = self
            .generator
            .as_ref()
            .map(Generator::sent)
            .unwrap_or_default();
        let [frames, refused, arrived] = last;
        let mut line = format!(
            "{}  sent {}pps",
            self.name,
            short(frames.rate(sent.frames, second))
        );
        let refused = refused.rate(sent.refused, second);
        if refused > 0.0 {
            line += &format!(", refused {}pps", short(refused));
        }
        if let Some(receiver) = &self.receiver {
            let received = receiver.packets()?;
            line += &format!(", received {}pps", short(arrived.rate(received, second)));
        }
        Ok(line)
    }

    /// Ends it now.
    fn end(self, grace: Duration) -> Result<Direction, PacketError> {
        if let Some(generator) = &self.generator {
            generator.stop();
        }
        self.finish(grace)
    }

    /// Waits until it has done what it should.
    pub(super) fn finish(mut self, grace: Duration) -> Result<Direction, PacketError> {
        let Some(generator) = self.generator.take() else {
            return Ok(Direction::default());
        };
        let done = generator.join()?;
        let arrived = match &self.receiver {
            None => None,
            Some(receiver) => {
                settle(grace, done.sent.frames - done.sent.refused, || {
                    receiver.packets()
                })?;
                Some(Arrived::of(&receiver.received()?, &done))
            }
        };
        let seconds = done.took.as_secs_f64();
        let bytes = done.sent.bytes + done.sent.frames * ON_THE_WIRE;
        Ok(Direction {
            name: self.name,
            seconds,
            sent: done.sent.frames,
            sent_bytes: done.sent.bytes,
            packets_per_second: done.sent.frames as f64 / seconds.max(1e-9),
            wire_bits_per_second: bytes as f64 * 8.0 / seconds.max(1e-9),
            refused: done.sent.refused,
            arrived,
        })
    }
}

/// The ways that frames go, with receivers at their ends.
pub(super) fn flows(args: &PacketsArgs) -> Result<Vec<Flow>, PacketError> {
    let from = args.ends.place();
    let what = args.frames.what(&args.tuples, &from)?;
    let Some(peer) = args.ends.peer() else {
        return Ok(vec![Flow {
            name: from.interface().to_owned(),
            from,
            what,
            receiver: None,
            generator: None,
        }]);
    };
    let receiving = Receiving {
        all: !args.frames.is_signed(),
        pass: args.pass,
        ..Receiving::default()
    };
    let name = |from: &Place, to: &Place| format!("{} → {}", from.interface(), to.interface());
    let back = match (&what, args.both) {
        (_, false) => None,
        (What::Stream(stream), true) => Some(Flow {
            name: name(&peer, &from),
            from: peer.clone(),
            what: What::Stream(turned(stream, &peer)?),
            receiver: Some(receiver(&from, receiving)?),
            generator: None,
        }),
        (What::Capture(_), true) => {
            return Err(PacketError::Usage(
                "--both turns streams round, not the frames of a file; start a generator at each end".to_owned(),
            ));
        }
    };
    let there = Flow {
        name: name(&from, &peer),
        receiver: Some(receiver(&peer, receiving)?),
        from,
        what,
        generator: None,
    };
    Ok([Some(there), back].into_iter().flatten().collect())
}

/// The stream that goes the other way.
fn turned(stream: &Stream, from: &Place) -> Result<Stream, PacketError> {
    Ok(Stream {
        source_mac: from.mac()?,
        destination_mac: from.neighbour(stream.source.first())?,
        source: stream.destination,
        destination: stream.source,
        source_ports: stream.destination_ports,
        destination_ports: stream.source_ports,
        number: stream.number + BACK,
        ..stream.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Sent, StreamReceived};

    #[test]
    fn what_did_not_arrive_is_lost() {
        let done = Done {
            sent: Sent {
                frames: 1000,
                bytes: 60_000,
                refused: 10,
            },
            took: Duration::from_millis(500),
        };
        let stream = |number, late, farthest| StreamReceived {
            number,
            packets: 490,
            bytes: 29_400,
            lowest: 0,
            highest: 499,
            late,
            farthest,
        };
        let received = Received {
            packets: 980,
            bytes: 58_800,
            other: 3,
            streams: vec![stream(0, 4, 9), stream(1, 1, 2)],
            delays: Vec::new(),
        };
        let arrived = Arrived::of(&received, &done);
        assert_eq!((arrived.lost, arrived.loss), (20, 0.02));
        assert_eq!((arrived.late, arrived.farthest), (5, 9));
        assert!((arrived.packets_per_second - 1960.0).abs() < 1e-6);
    }
}
