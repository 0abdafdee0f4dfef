//! How long frames are: all alike, or a mix in which sizes follow one another evenly.

use std::str::FromStr;
use thiserror::Error;

/// How many frames a mix repeats after, at most.
const PATTERN: usize = super::abi::PATTERN;

/// The shortest frame of Ethernet, without its checksum: bytes.
pub const SHORTEST: u16 = 60;

/// The longest frame that is made: bytes of a jumbo frame, without its checksum.
pub const LONGEST: u16 = 9014;

/// The order in which frames of different sizes follow one another. Sizes are in bytes, from the Ethernet header on and
/// without the checksum at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(Vec<u16>);

impl Sizes {
    /// All frames alike.
    pub fn fixed(size: u16) -> Self {
        Self(vec![size])
    }

    /// The mix seen in the Internet: of 100 frames 58 of 60 bytes, 33 of 590 and 9 of 1514.
    pub fn imix() -> Self {
        Self(spread(&[(60, 58), (590, 33), (1514, 9)]))
    }

    /// The sizes in their order, which then starts again.
    pub fn pattern(&self) -> &[u16] {
        &self.0
    }

    /// The longest.
    pub fn longest(&self) -> u16 {
        self.0.iter().copied().max().unwrap_or(SHORTEST)
    }

    /// The same with sizes less than `size` raised to it.
    pub(super) fn at_least(&self, size: u16) -> Self {
        Self(self.0.iter().map(|&own| own.max(size)).collect())
    }
}

impl FromStr for Sizes {
    type Err = SizeError;

    /// A size (`60`), `imix`, or sizes with their shares (`60:58,590:33,1514:9`).
    fn from_str(text: &str) -> Result<Self, SizeError> {
        if text == "imix" {
            return Ok(Self::imix());
        }
        let size = |text: &str| match text.parse() {
            Ok(size) if (SHORTEST..=LONGEST).contains(&size) => Ok(size),
            _ => Err(SizeError::Size(text.to_owned())),
        };
        if !text.contains([':', ',']) {
            return Ok(Self::fixed(size(text)?));
        }
        let mut shares = Vec::new();
        for part in text.split(',') {
            let (bytes, share) = part
                .split_once(':')
                .ok_or_else(|| SizeError::Share(part.to_owned()))?;
            let Ok(share @ 1..) = share.parse() else {
                return Err(SizeError::Share(part.to_owned()));
            };
            shares.push((size(bytes)?, share));
        }
        let total = shares
            .iter()
            .try_fold(0usize, |sum, &(_, share)| sum.checked_add(share))
            .unwrap_or(usize::MAX);
        if total > PATTERN {
            return Err(SizeError::Shares(total));
        }
        Ok(Self(spread(&shares)))
    }
}

/// What is wrong with sizes.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SizeError {
    /// Not a size.
    #[error(
        "{0:?} is not a frame size; write {SHORTEST} to {LONGEST}, without the frame's checksum"
    )]
    Size(String),
    /// Not a size with a share.
    #[error("{0:?} is not a size and its share; write 60:58")]
    Share(String),
    /// A longer pattern than is kept.
    #[error("the shares sum up to {0}; they may to {PATTERN}")]
    Shares(usize),
}

/// Each size as often as its share says, spread as evenly as can be: always the one that is most behind.
fn spread(shares: &[(u16, usize)]) -> Vec<u16> {
    let total: usize = shares.iter().map(|&(_, share)| share).sum();
    let mut behind = vec![0isize; shares.len()];
    (0..total)
        .filter_map(|_| {
            for (own, &(_, share)) in behind.iter_mut().zip(shares) {
                *own += share as isize;
            }
            let most = (0..shares.len()).max_by_key(|&at| behind[at])?;
            behind[most] -= total as isize;
            Some(shares[most].0)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_internet_mix_has_its_shares_in_any_stretch() {
        let imix = Sizes::imix();
        let count = |size, of: &[u16]| of.iter().filter(|&&own| own == size).count();
        assert_eq!(imix.pattern().len(), 100);
        assert_eq!(count(60, imix.pattern()), 58);
        assert_eq!(count(590, imix.pattern()), 33);
        assert_eq!(count(1514, imix.pattern()), 9);
        for stretch in imix.pattern().chunks(20) {
            assert!((1..=3).contains(&count(1514, stretch)), "{stretch:?}");
        }
    }

    #[test]
    fn sizes_are_read_in_every_spelling() {
        assert_eq!("60".parse(), Ok(Sizes::fixed(60)));
        assert_eq!("imix".parse(), Ok(Sizes::imix()));
        assert_eq!("60:58,590:33,1514:9".parse(), Ok(Sizes::imix()));
        assert_eq!("59".parse::<Sizes>(), Err(SizeError::Size("59".into())));
        assert_eq!("9015".parse::<Sizes>(), Err(SizeError::Size("9015".into())));
        assert_eq!(
            "60:0".parse::<Sizes>(),
            Err(SizeError::Share("60:0".into()))
        );
        assert_eq!("60,70".parse::<Sizes>(), Err(SizeError::Share("60".into())));
        assert_eq!("60:100,70:29".parse::<Sizes>(), Err(SizeError::Shares(129)));
    }
}
