//! Chunked bodies (RFC 9112 section 7.1): their framing is checked byte by byte so that the bytes can go on as they are,
//! or the data alone can be taken out. Nothing is kept of them but a few counters.

use super::name::Known;
use super::scan::TOKEN;
use thiserror::Error;

/// What the framing of a body may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkLimits {
    /// Bytes of chunk extensions, in the whole body.
    pub extension_bytes: usize,
    /// Bytes of trailer lines.
    pub trailer_bytes: usize,
    /// Trailer lines.
    pub trailer_fields: usize,
}

impl Default for ChunkLimits {
    /// 4 KiB of extensions, 8 KiB of trailers in 32 fields.
    fn default() -> Self {
        ChunkLimits {
            extension_bytes: 4 << 10,
            trailer_bytes: 8 << 10,
            trailer_fields: 32,
        }
    }
}

/// Why a chunked body was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum ChunkError {
    /// A chunk size without a digit, or with anything but hexadecimal digits.
    #[error("a chunk size is not a hexadecimal number")]
    BadSize,
    /// A chunk size of more than 16 digits.
    #[error("a chunk size is too large")]
    SizeTooLong,
    /// A CR without LF, or something else where CRLF must be.
    #[error("CRLF is missing in the framing of chunks")]
    MissingCrlf,
    /// A LF without CR.
    #[error("a line of the framing of chunks ends in LF without CR")]
    BareLf,
    /// An extension that breaks its grammar.
    #[error("a chunk extension is malformed")]
    BadExtension,
    /// Extensions over their limit.
    #[error("chunk extensions are too long")]
    ExtensionsTooLong,
    /// A trailer line that breaks the grammar of fields.
    #[error("a trailer field is malformed")]
    BadTrailer,
    /// A trailer field that must not come late: framing, routing, authentication and the like.
    #[error("a field that may not stand in trailers")]
    ForbiddenTrailer,
    /// Trailers over their limits.
    #[error("trailers are too long or too many")]
    TrailersTooLong,
}

impl ChunkError {
    /// The status to answer a client with; from a server it means 502.
    pub const fn status(self) -> u16 {
        match self {
            ChunkError::TrailersTooLong => 431,
            _ => 400,
        }
    }

    /// A short name that never changes, for counters and logs.
    pub const fn reason(self) -> &'static str {
        match self {
            ChunkError::BadSize => "bad-chunk-size",
            ChunkError::SizeTooLong => "chunk-size-too-long",
            ChunkError::MissingCrlf => "chunk-without-crlf",
            ChunkError::BareLf => "bare-lf-in-chunk",
            ChunkError::BadExtension => "bad-chunk-extension",
            ChunkError::ExtensionsTooLong => "chunk-extensions-too-long",
            ChunkError::BadTrailer => "bad-trailer",
            ChunkError::ForbiddenTrailer => "forbidden-trailer",
            ChunkError::TrailersTooLong => "trailers-too-long",
        }
    }
}

/// How far [`ChunkedDecoder::advance`] got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advance {
    /// Bytes of the buffer that belong to the body: all of them, unless it is done.
    pub consumed: usize,
    /// The body's last byte is among them.
    pub done: bool,
}

/// What the bytes that [`ChunkedDecoder::next`] passed over are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Sizes, extensions, line ends, trailers. Of no bytes: the buffer is used up.
    Framing,
    /// Bytes of the content.
    Data,
    /// Framing again, and the end of the body.
    End,
}

/// Follows one chunked body. Bytes may come in pieces of any size.
#[derive(Clone, Debug)]
pub struct ChunkedDecoder {
    state: State,
    /// Bytes left of the current chunk, or the size as far as it was read.
    left: u64,
    /// Bytes of content so far.
    content: u64,
    digits: u8,
    limits: ChunkLimits,
    extension_bytes: usize,
    trailer_bytes: usize,
    trailer_fields: usize,
    /// The front of the trailer's name.
    name: [u8; NAME_BYTES],
    name_len: u8,
}

/// No forbidden name is longer.
const NAME_BYTES: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size,
    ExtensionName,
    ExtensionNameMore,
    ExtensionValue,
    ExtensionToken,
    ExtensionQuoted,
    ExtensionEscape,
    ExtensionEnd,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    EndLf,
    Done,
}

impl ChunkedDecoder {
    /// At the front of a body.
    pub fn new(limits: ChunkLimits) -> Self {
        ChunkedDecoder {
            state: State::Size,
            left: 0,
            content: 0,
            digits: 0,
            limits,
            extension_bytes: 0,
            trailer_bytes: 0,
            trailer_fields: 0,
            name: [0; NAME_BYTES],
            name_len: 0,
        }
    }

    /// Checks as much of the body as there is. On an error nothing of `buf` may be forwarded, or at most what stood before
    /// it together with the end of the connection.
    #[inline]
    pub fn advance(&mut self, buf: &[u8]) -> Result<Advance, ChunkError> {
        let mut consumed = 0;
        loop {
            let (bytes, piece) = self.next(&buf[consumed..])?;
            consumed += bytes;
            if piece == Piece::End {
                return Ok(Advance {
                    consumed,
                    done: true,
                });
            }
            if consumed == buf.len() {
                return Ok(Advance {
                    consumed,
                    done: false,
                });
            }
        }
    }

    /// Passes over the next piece at the front of `buf` and says how long it is and what.
    #[inline]
    pub fn next(&mut self, buf: &[u8]) -> Result<(usize, Piece), ChunkError> {
        if self.state == State::Data {
            let bytes = usize::try_from(self.left)
                .unwrap_or(usize::MAX)
                .min(buf.len());
            self.skip(bytes as u64);
            return Ok((
                bytes,
                if bytes == 0 {
                    Piece::Framing
                } else {
                    Piece::Data
                },
            ));
        }
        if self.state == State::Done {
            return Ok((0, Piece::End));
        }
        for (i, &b) in buf.iter().enumerate() {
            self.byte(b)?;
            match self.state {
                State::Data => return Ok((i + 1, Piece::Framing)),
                State::Done => return Ok((i + 1, Piece::End)),
                _ => {}
            }
        }
        Ok((buf.len(), Piece::Framing))
    }

    /// Bytes of content still to come of the chunk whose size was read; 0 between chunks.
    pub fn data_left(&self) -> u64 {
        if self.state == State::Data {
            self.left
        } else {
            0
        }
    }

    /// Takes note of content that went another way (spliced). `bytes` must be at most [`ChunkedDecoder::data_left`].
    pub fn skip(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.data_left());
        self.left = self.left.saturating_sub(bytes);
        self.content += bytes;
        if self.left == 0 && self.state == State::Data {
            self.state = State::DataCr;
        }
    }

    /// Bytes of content seen so far, framing not counted.
    pub fn content(&self) -> u64 {
        self.content
    }

    /// Whether the body's last byte was seen.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    fn byte(&mut self, b: u8) -> Result<(), ChunkError> {
        self.state = match (self.state, b) {
            (State::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                if self.digits == 16 {
                    return Err(ChunkError::SizeTooLong);
                }
                self.digits += 1;
                let digit = if b <= b'9' {
                    b - b'0'
                } else {
                    (b | 0x20) - b'a' + 10
                };
                self.left = self.left << 4 | u64::from(digit);
                State::Size
            }
            (State::Size, b'\r') if self.digits > 0 => State::SizeLf,
            (State::Size, b';') if self.digits > 0 => self.extension(State::ExtensionName)?,
            (State::Size, b'\n') => return Err(ChunkError::BareLf),
            (State::Size, _) => return Err(ChunkError::BadSize),

            (State::ExtensionName | State::ExtensionNameMore, _) if TOKEN[b as usize] => {
                self.extension(State::ExtensionNameMore)?
            }
            (State::ExtensionNameMore, b'=') => self.extension(State::ExtensionValue)?,
            (State::ExtensionValue, b'"') => self.extension(State::ExtensionQuoted)?,
            (State::ExtensionValue | State::ExtensionToken, _) if TOKEN[b as usize] => {
                self.extension(State::ExtensionToken)?
            }
            (State::ExtensionQuoted, b'"') => self.extension(State::ExtensionEnd)?,
            (State::ExtensionQuoted, b'\\') => self.extension(State::ExtensionEscape)?,
            (State::ExtensionQuoted | State::ExtensionEscape, b'\t' | 0x20..=0x7e | 0x80..) => {
                self.extension(State::ExtensionQuoted)?
            }
            (State::ExtensionNameMore | State::ExtensionToken | State::ExtensionEnd, b';') => {
                self.extension(State::ExtensionName)?
            }
            (State::ExtensionNameMore | State::ExtensionToken | State::ExtensionEnd, b'\r') => {
                State::SizeLf
            }
            (
                State::ExtensionName
                | State::ExtensionNameMore
                | State::ExtensionValue
                | State::ExtensionToken
                | State::ExtensionQuoted
                | State::ExtensionEscape
                | State::ExtensionEnd,
                _,
            ) => {
                return Err(if b == b'\n' {
                    ChunkError::BareLf
                } else {
                    ChunkError::BadExtension
                });
            }

            (State::SizeLf, b'\n') => {
                self.digits = 0;
                if self.left == 0 {
                    State::TrailerStart
                } else {
                    State::Data
                }
            }
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataCr, b'\n') => return Err(ChunkError::BareLf),
            (State::DataLf, b'\n') => State::Size,

            (State::TrailerStart, b'\r') => State::EndLf,
            (State::TrailerStart | State::TrailerName, _) if TOKEN[b as usize] => {
                if self.state == State::TrailerStart {
                    self.trailer_fields += 1;
                    self.name_len = 0;
                    if self.trailer_fields > self.limits.trailer_fields {
                        return Err(ChunkError::TrailersTooLong);
                    }
                }
                if let Some(place) = self.name.get_mut(usize::from(self.name_len)) {
                    *place = b;
                    self.name_len += 1;
                } else {
                    // Longer than any forbidden name, and no prefix of it may count as one.
                    self.name[0] = b'*';
                }
                self.trailer(State::TrailerName)?
            }
            (State::TrailerName, b':') => {
                if is_forbidden(&self.name[..usize::from(self.name_len)]) {
                    return Err(ChunkError::ForbiddenTrailer);
                }
                self.trailer(State::TrailerValue)?
            }
            (State::TrailerStart | State::TrailerName, b'\n') => return Err(ChunkError::BareLf),
            (State::TrailerStart | State::TrailerName, _) => return Err(ChunkError::BadTrailer),
            (State::TrailerValue, b'\t' | 0x20..=0x7e | 0x80..) => {
                self.trailer(State::TrailerValue)?
            }
            (State::TrailerValue, b'\r') => self.trailer(State::TrailerLf)?,
            (State::TrailerValue, b'\n') => return Err(ChunkError::BareLf),
            (State::TrailerValue, _) => return Err(ChunkError::BadTrailer),
            (State::TrailerLf, b'\n') => self.trailer(State::TrailerStart)?,
            (State::EndLf, b'\n') => State::Done,
            (
                State::SizeLf | State::DataCr | State::DataLf | State::TrailerLf | State::EndLf,
                _,
            ) => {
                return Err(ChunkError::MissingCrlf);
            }
            (state @ (State::Data | State::Done), _) => state,
        };
        Ok(())
    }

    fn extension(&mut self, next: State) -> Result<State, ChunkError> {
        self.extension_bytes += 1;
        if self.extension_bytes > self.limits.extension_bytes {
            return Err(ChunkError::ExtensionsTooLong);
        }
        Ok(next)
    }

    fn trailer(&mut self, next: State) -> Result<State, ChunkError> {
        self.trailer_bytes += 1;
        if self.trailer_bytes > self.limits.trailer_bytes {
            return Err(ChunkError::TrailersTooLong);
        }
        Ok(next)
    }
}

/// Fields that a recipient may already have acted upon, or that would change the message (RFC 9110 section 6.5.1).
fn is_forbidden(name: &[u8]) -> bool {
    matches!(
        Known::of(name),
        Known::Host
            | Known::Connection
            | Known::KeepAlive
            | Known::ProxyConnection
            | Known::TransferEncoding
            | Known::ContentLength
            | Known::Te
            | Known::Trailer
            | Known::Upgrade
            | Known::Expect
            | Known::Cookie
            | Known::SetCookie
            | Known::Forwarded
            | Known::XForwardedFor
            | Known::XForwardedProto
            | Known::XForwardedHost
            | Known::XForwardedPort
            | Known::XRequestId
            | Known::XRealIp
            | Known::Range
            | Known::ContentType
            | Known::ContentEncoding
            | Known::Location
            | Known::Authorization
            | Known::ProxyAuthorization
            | Known::ProxyAuthenticate
            | Known::Vary
            | Known::Age
            | Known::CacheControl
            | Known::RetryAfter
            | Known::MaxForwards
    ) || name.eq_ignore_ascii_case(b"content-range")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_may_go_another_way() {
        let mut decoder = ChunkedDecoder::new(ChunkLimits::default());
        assert_eq!(decoder.data_left(), 0);
        assert_eq!(
            decoder.next(b"ffffffffffffffff\r\nabc"),
            Ok((18, Piece::Framing))
        );
        assert_eq!(decoder.data_left(), u64::MAX);
        assert_eq!(decoder.next(b"abc"), Ok((3, Piece::Data)));
        decoder.skip(u64::MAX - 4);
        assert_eq!(decoder.data_left(), 1);
        assert_eq!(decoder.next(b"d\r\n0\r\n\r\nGET"), Ok((1, Piece::Data)));
        assert_eq!(decoder.next(b"\r\n0\r\n\r\nGET"), Ok((7, Piece::End)));
        assert!(decoder.is_done());
        assert_eq!(decoder.next(b"GET"), Ok((0, Piece::End)));
    }

    #[test]
    fn an_empty_buffer_changes_nothing() {
        let mut decoder = ChunkedDecoder::new(ChunkLimits::default());
        assert_eq!(decoder.next(b""), Ok((0, Piece::Framing)));
        assert_eq!(
            decoder.advance(b""),
            Ok(Advance {
                consumed: 0,
                done: false
            })
        );
        assert_eq!(
            decoder.advance(b"2\r\n"),
            Ok(Advance {
                consumed: 3,
                done: false
            })
        );
        assert_eq!(decoder.next(b""), Ok((0, Piece::Framing)));
        assert_eq!(decoder.data_left(), 2);
    }

    #[test]
    fn what_follows_the_body_is_not_touched() {
        let mut decoder = ChunkedDecoder::new(ChunkLimits::default());
        assert_eq!(
            decoder.advance(b"0\r\n\r\nGET /"),
            Ok(Advance {
                consumed: 5,
                done: true
            })
        );
        assert_eq!(
            decoder.advance(b"GET /"),
            Ok(Advance {
                consumed: 0,
                done: true
            })
        );
    }

    #[test]
    fn names_that_only_begin_like_forbidden_ones_pass() {
        for (name, forbidden) in [
            ("Content-Length", true),
            ("Content-Lengths", false),
            ("proxy-authorization", true),
            ("proxy-authorization-but-longer", false),
            ("HOST", true),
            ("Hosts", false),
            ("content-range", true),
        ] {
            let body = format!("0\r\n{name}: x\r\n\r\n");
            let outcome = ChunkedDecoder::new(ChunkLimits::default()).advance(body.as_bytes());
            assert_eq!(
                outcome.err(),
                forbidden.then_some(ChunkError::ForbiddenTrailer),
                "{name}"
            );
        }
    }
}
