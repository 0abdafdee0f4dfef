//! Reading a request's head, and the part of its body that came with it.

use super::exchange::Refusal;
use crate::client::Client;
use crate::worker::Worker;
use reactor::Buf;
use wire::h1::{
    ChunkError, ChunkLimits, ChunkedDecoder, Framing, HeadError, Progress, RequestHead,
};

/// How much is read at once while the head is not complete: a body that follows is better moved
/// without being read.
const READ: usize = 16 * 1024;

/// What came of waiting for a head.
pub(super) enum Read {
    /// It is complete, within that many bytes of the buffer.
    Head(Buf, usize),
    /// The client ended the connection between requests.
    Ended,
    /// The client broke off in the midst of the head.
    Broken,
    /// It can't be served.
    Refused(Refusal),
}

/// Reads a head into a buffer, what was read before first.
pub(super) async fn read_head(
    worker: &Worker,
    client: &mut Client,
    head: &mut RequestHead,
) -> Read {
    let mut buf = Buf::take();
    let limits = client.service.head_limits;
    let room = limits.head_bytes.max(READ);
    let mut filled = client.pending.len();
    buf[..filled].copy_from_slice(&client.pending);
    if filled > 0 {
        let pending = std::mem::take(&mut client.pending);
        worker.give_vec(pending);
    }
    head.clear();
    let mut waited = false;
    loop {
        if filled > 0 {
            match head.parse(&buf[..filled], &limits) {
                Ok(Progress::Complete) => return Read::Head(buf, filled),
                // A head as large as the buffer is too large, whatever the limit.
                Ok(Progress::Partial) if filled == buf.len() => {
                    return Read::Refused(HeadError::HeadTooLong.into());
                }
                Ok(Progress::Partial) => {}
                Err(error) => return Read::Refused(error.into()),
            }
        }
        let end = buf.len().min(filled + room);
        match client.channel.try_read(&mut buf[filled..end]) {
            Ok(Some(0)) if filled == 0 => return Read::Ended,
            Ok(Some(0)) => return Read::Broken,
            Ok(Some(n)) => filled += n,
            Ok(None) => {
                // The whole head has this long, from its first byte.
                if !waited {
                    client.deadline.set(client.service.config.timeouts.head);
                    waited = true;
                }
                // Meanwhile a part of a head takes no more room than it has bytes: there may be many
                // who send theirs slowly.
                let part = buf[..filled].to_vec();
                drop(buf);
                match client.deadline.guard(client.channel.readable()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => return Read::Broken,
                    Err(_) if filled == 0 => return Read::Ended,
                    Err(_) => return Read::Refused(Refusal::new(408, "head-timeout")),
                }
                buf = Buf::take();
                buf[..filled].copy_from_slice(&part);
            }
            Err(_) if filled == 0 => return Read::Ended,
            Err(_) => return Read::Broken,
        }
        // The parser has refused what is over the limit on heads, unless that is beyond the buffer.
    }
}

/// What is still to come of a message's body.
pub(super) enum Left {
    /// Nothing.
    Done,
    /// So many bytes.
    Length(u64),
    /// Chunks.
    Chunked(Box<ChunkedDecoder>),
    /// All until the connection ends.
    UntilClose,
}

impl Left {
    pub(super) fn new(framing: Framing) -> Self {
        match framing {
            Framing::None | Framing::Length(0) => Left::Done,
            Framing::Length(n) => Left::Length(n),
            Framing::Chunked => {
                Left::Chunked(Box::new(ChunkedDecoder::new(ChunkLimits::default())))
            }
            Framing::UntilClose => Left::UntilClose,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        match self {
            Left::Done => true,
            Left::Chunked(decoder) => decoder.is_done(),
            Left::Length(_) | Left::UntilClose => false,
        }
    }

    /// Whether there is more of it than `most` bytes, so far as is known; a `most` of 0 is no limit.
    pub(super) fn exceeds(&self, most: u64) -> bool {
        let known = match self {
            Left::Length(left) => *left,
            Left::Chunked(decoder) => decoder.content(),
            Left::Done | Left::UntilClose => 0,
        };
        most > 0 && known > most
    }

    /// Takes what belongs to the body off the front of `bytes`: how many they are.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<usize, ChunkError> {
        match self {
            Left::Done => Ok(0),
            Left::UntilClose => Ok(bytes.len()),
            Left::Length(left) => {
                let n = usize::try_from(*left)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len());
                self.skip(n as u64);
                Ok(n)
            }
            Left::Chunked(decoder) => {
                let advance = decoder.advance(bytes)?;
                Ok(advance.consumed)
            }
        }
    }

    /// Takes `n` bytes off that were moved without being looked at.
    pub(super) fn skip(&mut self, n: u64) {
        if let Left::Length(left) = self {
            *left -= n;
            if *left == 0 {
                *self = Left::Done;
            }
        }
    }

    /// How much a read may take without reaching beyond the body; chunks are found only by reading.
    pub(super) fn at_most(&self, room: usize) -> usize {
        match self {
            Left::Length(left) => usize::try_from(*left).unwrap_or(usize::MAX).min(room),
            Left::Done | Left::Chunked(_) | Left::UntilClose => room,
        }
    }

    /// Bytes that may be moved without being looked at.
    pub(super) fn opaque(&self) -> u64 {
        match self {
            Left::Length(left) => *left,
            _ => 0,
        }
    }
}
