//! Bytes relayed both ways between a client and a member, until both have ended: for TCP virtuals and upgraded HTTP.
//!
//! What is said there is nobody's business here. Idle tunnels hold neither buffer nor pipe; small talk is copied, bulk is
//! spliced where both sides are in the clear.

pub(crate) use crate::prelude::proxy_header;

use crate::access::{By, Ending, Phase as LogPhase};
use crate::client::Channel;
use crate::counters::{VirtualCounters, add};
use crate::engine::Phase;
use crate::outq;
use crate::worker::Worker;
use reactor::{Buf, Deadline, Pipe, Tcp};
use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::net::Shutdown;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use tls::Stream;

/// What became of a tunnel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relayed {
    /// Bytes from the client to the member.
    pub(crate) bytes_up: u64,
    /// Bytes from the member to the client.
    pub(crate) bytes_down: u64,
    /// How it ended.
    pub(crate) end: End,
    /// The same, for the log.
    pub(crate) ending: Ending,
}

/// How a tunnel ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Both sides ended in order.
    Done,
    /// A side broke its connection.
    Broken(Side),
    /// Silence in both directions; the side did not answer the other's last words.
    Idle(Side),
    /// The process is about to end.
    Stopped,
}

/// A side of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Member,
}

impl End {
    pub(crate) const fn ending(self) -> Ending {
        match self {
            End::Done => Ending::DONE,
            End::Broken(Side::Client) => Ending::new(By::Client, LogPhase::Data),
            End::Broken(Side::Member) => Ending::new(By::Member, LogPhase::Data),
            End::Idle(Side::Client) => Ending::new(By::ClientTimeout, LogPhase::Data),
            End::Idle(Side::Member) => Ending::new(By::MemberTimeout, LogPhase::Data),
            End::Stopped => Ending::new(By::Killed, LogPhase::Data),
        }
    }
}

/// Relays until both sides have ended, one has broken, or nothing has come from either for `idle`. The bytes are added
/// to the virtual's counters as they go. Both channels are then only good for being dropped.
pub(crate) async fn relay(
    worker: &Worker,
    client: &Channel,
    member: &Channel,
    deadline: &Deadline,
    idle: Duration,
    counters: &VirtualCounters,
) -> Relayed {
    let cells = counters.of(worker.index);
    let count = |up, down| {
        add(&cells.bytes_in, up);
        add(&cells.bytes_out, down);
    };
    let stopped = || worker.phase() == Phase::Stopping;
    relay_counting(client, member, deadline, idle, stopped, count).await
}

/// As [`relay`]; `count` is told every second and at the end how many bytes went up and down since it was last told.
pub(crate) async fn relay_counting(
    client: &Channel,
    member: &Channel,
    deadline: &Deadline,
    idle: Duration,
    stopped: impl Fn() -> bool,
    count: impl Fn(u64, u64),
) -> Relayed {
    let tunnel = Tunnel {
        deadline,
        idle,
        splices: Cell::new(client.is_plain() && member.is_plain()),
        lingers: Cell::new(false),
        last: Cell::new(Side::Member),
        up: Cell::new(0),
        down: Cell::new(0),
        told: Cell::new((0, 0)),
        told_at: Cell::new(reactor::millis()),
        count,
    };
    deadline.set(idle);
    let end = tunnel.run(client, member, stopped).await;
    tunnel.tell();
    match end {
        End::Broken(Side::Client) => reset(member).await,
        End::Broken(Side::Member) => reset(client).await,
        End::Done | End::Idle(_) | End::Stopped => {}
    }
    Relayed {
        bytes_up: tunnel.up.get(),
        bytes_down: tunnel.down.get(),
        end,
        ending: end.ending(),
    }
}

/// A read that fills this much is taken for the beginning of bulk.
const BULK: usize = 16 * 1024;

/// Bytes moved without a wait before others have their turn, and the most that is spliced at once.
const TURN: usize = 1024 * 1024;

/// Between two counts of a tunnel's bytes, in milliseconds.
const TELL_EVERY: u64 = 1000;

/// How long what a client still sends is read and thrown away when the member has ended and takes no more: closed at
/// once, the connection would be reset, and with it what the client has not read yet.
const LINGER: Duration = Duration::from_secs(2);

/// Between two looks at whether data has arrived.
const OUTQ_EVERY: Duration = Duration::from_millis(20);

struct Tunnel<'a, C> {
    deadline: &'a Deadline,
    idle: Duration,
    splices: Cell<bool>,
    lingers: Cell<bool>,
    /// Who spoke last.
    last: Cell<Side>,
    up: Cell<u64>,
    down: Cell<u64>,
    told: Cell<(u64, u64)>,
    told_at: Cell<u64>,
    count: C,
}

/// What became of one direction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It goes on.
    Open,
    /// The side read from ended in order, and the other was told.
    Ended,
    /// The side read from broke.
    NotRead,
    /// The side written to takes no more: it closed in order before, or (`reset`) not.
    NotWritten { reset: bool },
}

/// What one step of a direction did.
enum Step {
    Moved(usize),
    End,
}

impl<C: Fn(u64, u64)> Tunnel<'_, C> {
    async fn run(&self, client: &Channel, member: &Channel, stopped: impl Fn() -> bool) -> End {
        // A direction that cannot be written notes so here and then reads on, for the sake of the other.
        let (up_way, down_way) = (Cell::new(Way::Open), Cell::new(Way::Open));
        let mut up = pin!(self.pump(Side::Client, client, member, &up_way, &down_way));
        let mut down = pin!(self.pump(Side::Member, member, client, &down_way, &up_way));
        let (mut up_runs, mut down_runs) = (true, true);
        poll_fn(|cx| {
            if stopped() {
                return Poll::Ready(End::Stopped);
            }
            if up_runs && up.as_mut().poll(cx).is_ready() {
                up_runs = false;
            }
            if down_runs && down.as_mut().poll(cx).is_ready() {
                down_runs = false;
            }
            if let Some(end) = verdict(up_way.get(), down_way.get()) {
                let lingers = end == End::Done && (up_runs || down_runs);
                if !lingers {
                    return Poll::Ready(end);
                }
                if !self.lingers.replace(true) {
                    self.deadline.set(LINGER.min(self.idle));
                }
            }
            let passed = self.deadline.poll_past();
            passed.map(|()| match (self.lingers.get(), self.last.get()) {
                (true, _) => End::Done,
                (false, Side::Client) => End::Idle(Side::Member),
                (false, Side::Member) => End::Idle(Side::Client),
            })
        })
        .await
    }

    /// Moves what comes from one side to the other, until there is no more.
    async fn pump(
        &self,
        side: Side,
        from: &Channel,
        to: &Channel,
        way: &Cell<Way>,
        back: &Cell<Way>,
    ) {
        let ended = match self.flow(side, from, to).await {
            // With both directions over, the close that follows says all: a call saved.
            Ok(()) if back.get() == Way::Ended && to.is_plain() => Ok(()),
            Ok(()) => finish(to).await.map_err(Failed::Write),
            Err(failed) => Err(failed),
        };
        match ended {
            Ok(()) => way.set(Way::Ended),
            Err(Failed::Read) => way.set(Way::NotRead),
            Err(Failed::Write(error)) => {
                // A peer that had sent its FIN and then resets has closed in order, as far as its own words go.
                let reset = error.kind() != io::ErrorKind::BrokenPipe;
                way.set(Way::NotWritten { reset });
                discard(from).await;
            }
        }
    }

    async fn flow(&self, side: Side, from: &Channel, to: &Channel) -> Result<(), Failed> {
        // The first bytes are spliced, however many: a few of them cost little more than copied, while of many a first
        // part that is copied costs a wake-up of the receiver, and makes the sender send the next part early and small.
        let mut bulk = self.splices.get();
        let mut turn = 0;
        loop {
            if from.poll_readable().is_pending() {
                turn = 0;
                from.readable().await.map_err(|_| Failed::Read)?;
            }
            let spliced = bulk && self.splices.get();
            let step = if spliced {
                self.splice(side, from, to).await?
            } else {
                let limit = if bulk { Buf::CAPACITY } else { BULK };
                self.copy(side, from, to, limit).await?
            };
            match step {
                Step::End => return Ok(()),
                Step::Moved(n) => {
                    bulk = n >= BULK;
                    turn += n;
                }
            }
            // What is read of bulk makes room for more, which comes in larger parts when it is not asked for at once.
            let grows = spliced && bulk && !hung_up(from);
            if turn >= TURN || grows {
                turn = 0;
                reactor::yield_now().await;
            }
        }
    }

    /// Moves what one read finds.
    async fn copy(
        &self,
        side: Side,
        from: &Channel,
        to: &Channel,
        limit: usize,
    ) -> Result<Step, Failed> {
        let mut buf = Buf::take();
        let n = match from.try_read(&mut buf[..limit]) {
            Ok(None) => return Ok(Step::Moved(0)),
            Ok(Some(0)) => return Ok(Step::End),
            Ok(Some(n)) => n,
            Err(_) => return Err(Failed::Read),
        };
        let more = hung_up(from);
        let sent = self
            .write(side, to, &buf[..n], more)
            .map_err(Failed::Write)?;
        if sent < n {
            // The buffer is large and the wait may be long: only the rest is kept.
            let rest = buf[sent..n].to_vec();
            drop(buf);
            let mut at = 0;
            while at < rest.len() {
                to.writable().await.map_err(Failed::Write)?;
                let wrote = self.write(side, to, &rest[at..], more);
                at += wrote.map_err(Failed::Write)?;
            }
        }
        to.flush().await.map_err(Failed::Write)?;
        Ok(Step::Moved(n))
    }

    /// Writes what is taken without a wait.
    fn write(&self, side: Side, to: &Channel, buf: &[u8], more: bool) -> io::Result<usize> {
        let mut sent = 0;
        while sent < buf.len() {
            let part = &buf[sent..];
            let wrote = match more {
                true => to.with_plain(|tcp| tcp.try_write_more(part)),
                false => None,
            };
            let n = wrote.unwrap_or_else(|| to.try_write(part))?;
            if n == 0 {
                break;
            }
            sent += n;
            self.moved(side, n);
        }
        Ok(sent)
    }

    /// Moves what is there through a pipe.
    async fn splice(&self, side: Side, from: &Channel, to: &Channel) -> Result<Step, Failed> {
        let Ok(mut pipe) = Pipe::take_one() else {
            // No descriptors left: slower, but it goes on.
            return self.copy(side, from, to, Buf::CAPACITY).await;
        };
        let read = from.with_plain(|tcp| tcp.try_splice_in(&mut pipe, TURN));
        let n = match read.unwrap_or(Ok(None)) {
            Ok(None) => return Ok(Step::Moved(0)),
            Ok(Some(0)) => return Ok(Step::End),
            Ok(Some(n)) => n,
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                // Not every kind of socket can be spliced.
                self.splices.set(false);
                return Ok(Step::Moved(0));
            }
            Err(_) => return Err(Failed::Read),
        };
        let more = hung_up(from);
        while !pipe.is_empty() {
            let wrote = to.with_plain(|tcp| tcp.try_splice_out(&mut pipe, more));
            match wrote.unwrap_or(Ok(0)).map_err(Failed::Write)? {
                0 => to.writable().await.map_err(Failed::Write)?,
                n => self.moved(side, n),
            }
        }
        Ok(Step::Moved(n))
    }

    fn moved(&self, side: Side, n: usize) {
        let cell = match side {
            Side::Client => &self.up,
            Side::Member => &self.down,
        };
        cell.set(cell.get() + n as u64);
        self.last.set(side);
        if !self.lingers.get() {
            self.deadline.set(self.idle);
        }
        if reactor::millis() - self.told_at.get() >= TELL_EVERY {
            self.tell();
        }
    }

    fn tell(&self) {
        let now = (self.up.get(), self.down.get());
        let told = self.told.replace(now);
        self.told_at.set(reactor::millis());
        (self.count)(now.0 - told.0, now.1 - told.1);
    }
}

/// Why a direction ended before its end.
enum Failed {
    Read,
    Write(io::Error),
}

/// What both directions together mean for the tunnel, if they mean its end.
fn verdict(up: Way, down: Way) -> Option<End> {
    match (up, down) {
        (Way::NotRead, _) => Some(End::Broken(Side::Client)),
        (_, Way::NotRead) => Some(End::Broken(Side::Member)),
        // What is written to a side is read from it by the other direction, which may still find data, and the end.
        (Way::Open, _) | (_, Way::Open) => None,
        (_, Way::NotWritten { .. }) => Some(End::Broken(Side::Client)),
        (Way::NotWritten { reset: true }, _) => Some(End::Broken(Side::Member)),
        // The member had said all before it closed.
        (Way::NotWritten { reset: false } | Way::Ended, Way::Ended) => Some(End::Done),
    }
}

/// Whether the end of what comes from there is known to have come: it is read without a wait, behind what is there. Data
/// written on says that more follows, so that the end goes in one packet with the last of it.
fn hung_up(from: &Channel) -> bool {
    from.with_plain(Tcp::is_hung_up).unwrap_or(false)
}

/// Passes an end of data on, behind all data.
async fn finish(to: &Channel) -> io::Result<()> {
    to.flush().await?;
    to.with(Stream::close_notify);
    to.flush().await?;
    to.with(|stream| stream.tcp().shutdown(Shutdown::Write))
}

/// Has the close that follows be a reset, so that what the other side lost is not taken for all there was; but lets the
/// data that came before arrive.
async fn reset(channel: &Channel) {
    // Nothing follows any more what was said to be followed.
    channel.with(|stream| stream.tcp().push());
    let waits = LINGER.as_millis() / OUTQ_EVERY.as_millis();
    for _ in 0..waits {
        let unsent = channel.with(|stream| outq::unacknowledged(stream.tcp()));
        if unsent.is_none_or(|bytes| bytes == 0) {
            break;
        }
        reactor::sleep(OUTQ_EVERY).await;
    }
    // Of a socket that is gone as well nothing more is wanted.
    let _ = channel.with(|stream| stream.tcp().reset_on_close());
}

/// Reads to the end what nobody wants.
async fn discard(from: &Channel) {
    loop {
        if from.readable().await.is_err() {
            return;
        }
        let read = from.try_read(&mut Buf::take()[..BULK]);
        match read {
            Ok(Some(0)) | Err(_) => return,
            Ok(_) => reactor::yield_now().await,
        }
    }
}

#[cfg(test)]
mod tests;
