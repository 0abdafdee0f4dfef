//! Packets from a file in the classic pcap format (draft-ietf-opsawg-pcap): Ethernet frames, in the order of the file.

use super::abi;
use super::sizes::LONGEST;
use super::stream::room;
use std::path::{Path, PathBuf};
use std::{fs, io};
use thiserror::Error;

/// Bytes of the file's header.
const FILE_HEADER: usize = 24;

/// Bytes of a packet's header.
const RECORD_HEADER: usize = 16;

/// The link type of Ethernet frames.
const ETHERNET: u32 = 1;

/// How many frames of a file are taken.
const MOST: usize = 65_536;

/// The frames of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    frames: Vec<Vec<u8>>,
}

impl Capture {
    /// Reads a file, up to its 65,536th frame.
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        let read = |source| CaptureError::Read {
            path: path.to_owned(),
            source,
        };
        let bytes = fs::read(path).map_err(read)?;
        Self::parse(&bytes).map_err(|source| CaptureError::Parse {
            path: path.to_owned(),
            source,
        })
    }

    /// Reads a file's content. Frames that were cut when they were captured are filled up with zeros, and short ones to
    /// the shortest of Ethernet.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let header = bytes.get(..FILE_HEADER).ok_or(ParseError::Header)?;
        let big = match header[..4] {
            [0xa1, 0xb2, 0xc3, 0xd4] | [0xa1, 0xb2, 0x3c, 0x4d] => true,
            [0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1] => false,
            [0x0a, 0x0d, 0x0d, 0x0a] => return Err(ParseError::NextGeneration),
            _ => return Err(ParseError::Magic),
        };
        let number = |at: &[u8]| {
            let word = [at[0], at[1], at[2], at[3]];
            if big {
                u32::from_be_bytes(word)
            } else {
                u32::from_le_bytes(word)
            }
        };
        // The high bits say how long the checksum at the end of frames is, if they say anything.
        let link = number(&header[20..]) & 0xffff;
        if link != ETHERNET {
            return Err(ParseError::Link(link));
        }
        let mut frames = Vec::new();
        let mut at = FILE_HEADER;
        while at < bytes.len() && frames.len() < MOST {
            let cut = ParseError::Cut { byte: at };
            let record = bytes.get(at..at + RECORD_HEADER).ok_or(cut.clone())?;
            let (kept, length) = (
                number(&record[8..]) as usize,
                number(&record[12..]) as usize,
            );
            let start = at + RECORD_HEADER;
            let data = start
                .checked_add(kept)
                .and_then(|end| bytes.get(start..end))
                .ok_or(cut)?;
            let length = length.max(kept);
            if length < 14 || length > LONGEST.into() {
                return Err(ParseError::Length { byte: at, length });
            }
            let mut frame = data.to_vec();
            frame.resize(length.max(60), 0);
            frames.push(frame);
            at = start + kept;
        }
        if frames.is_empty() {
            return Err(ParseError::Empty);
        }
        Ok(Self { frames })
    }

    /// Replaces the frames' Ethernet addresses.
    pub fn readdress(&mut self, source: Option<[u8; 6]>, destination: Option<[u8; 6]>) {
        for frame in &mut self.frames {
            if let Some(destination) = destination {
                frame[..6].copy_from_slice(&destination);
            }
            if let Some(source) = source {
                frame[6..12].copy_from_slice(&source);
            }
        }
    }

    /// The frames, at least one.
    pub fn frames(&self) -> &[Vec<u8>] {
        &self.frames
    }

    /// Bytes of the longest.
    pub fn longest(&self) -> usize {
        self.frames.iter().map(Vec::len).max().unwrap_or_default()
    }

    /// What the program that sends them is told.
    pub(super) fn program(&self, paced: bool) -> abi::Stream {
        let one = abi::Range { first: 0, count: 1 };
        abi::Stream {
            template: [0; abi::TEMPLATE],
            ip_sum: 0,
            transport_sum: 0,
            family: 0,
            protocol: 0,
            act: 0,
            random: 0,
            signed: 0,
            stamped: 0,
            paced: paced.into(),
            words: 0,
            header: 0,
            room: room(self.longest() as u16),
            pattern_len: 0,
            pad: 0,
            pattern: [0; abi::PATTERN],
            source: one,
            destination: one,
            sport: one,
            dport: one,
            flow_first: 0,
            flow_count: self.frames.len() as u64,
            seed: 0,
        }
    }
}

/// Why a file cannot be used.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is not what it should be.
    #[error("{}: {source}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: ParseError,
    },
}

/// What is wrong with a file.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ParseError {
    /// Too short.
    #[error("shorter than the header of a pcap file")]
    Header,
    /// Something else.
    #[error("not a pcap file; `tcpdump -w FILE` writes one")]
    Magic,
    /// The newer format.
    #[error("a pcapng file; `editcap -F pcap OLD NEW` makes a pcap file of it")]
    NextGeneration,
    /// Not Ethernet.
    #[error("its packets are of link type {0}, not Ethernet (1); capture on an Ethernet interface")]
    Link(u32),
    /// Ends within a packet.
    #[error("the packet at byte {byte} is cut off")]
    Cut {
        /// Where the packet starts.
        byte: usize,
    },
    /// Too short or long.
    #[error("the packet at byte {byte} has {length} bytes; 14 to {LONGEST} can be sent")]
    Length {
        /// Where the packet starts.
        byte: usize,
        /// Its length.
        length: usize,
    },
    /// Nothing to send.
    #[error("no packets in it")]
    Empty,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(big: bool, frames: &[Vec<u8>]) -> Vec<u8> {
        let word = |number: u32| {
            if big {
                number.to_be_bytes()
            } else {
                number.to_le_bytes()
            }
        };
        let mut file = Vec::new();
        for number in [0xa1b2_c3d4, 0x0002_0004, 0, 0, 65_535, 1] {
            file.extend(word(number));
        }
        for frame in frames {
            for number in [1, 2, frame.len() as u32, frame.len() as u32] {
                file.extend(word(number));
            }
            file.extend(frame);
        }
        file
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            big: bool,
            frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 60..300), 1..20),
        ) {
            let capture = Capture::parse(&file(big, &frames)).expect("a good file");
            prop_assert_eq!(capture.frames(), frames);
        }

        #[test]
        fn no_bytes_make_the_reader_fall_over(
            mut bytes in prop::collection::vec(any::<u8>(), 0..300),
            frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 60..80), 1..4),
            places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let _ = Capture::parse(&bytes);
            bytes = file(false, &frames);
            for (at, byte) in places {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.truncate(cut.index(bytes.len()));
            if let Ok(capture) = Capture::parse(&bytes) {
                prop_assert!(capture.longest() <= LONGEST.into());
                prop_assert!(capture.frames().iter().all(|frame| frame.len() >= 60));
            }
        }
    }

    #[test]
    fn files_that_cannot_be_sent_say_why() {
        let good = file(false, &[vec![7; 60]]);
        assert_eq!(Capture::parse(&good[..20]), Err(ParseError::Header));
        assert_eq!(Capture::parse(&[7; 24]), Err(ParseError::Magic));
        assert_eq!(Capture::parse(&good[..24]), Err(ParseError::Empty));
        assert_eq!(
            Capture::parse(&good[..60]),
            Err(ParseError::Cut { byte: 24 })
        );
        let mut other = good.clone();
        other[20] = 101;
        assert_eq!(Capture::parse(&other), Err(ParseError::Link(101)));
        let long = file(true, &[vec![0; 9015]]);
        assert_eq!(
            Capture::parse(&long),
            Err(ParseError::Length {
                byte: 24,
                length: 9015
            })
        );
    }

    #[test]
    fn frames_cut_at_capture_have_their_length_again() {
        let mut bytes = file(false, &[vec![7; 64]]);
        bytes[24 + 12..24 + 16].copy_from_slice(&100u32.to_le_bytes());
        let capture = Capture::parse(&bytes).expect("a good file");
        assert_eq!(capture.longest(), 100);
        assert_eq!(capture.frames()[0][63..65], [7, 0]);
    }
}
