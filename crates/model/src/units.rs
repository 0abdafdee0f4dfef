//! Quantities with a unit: sizes, durations and shares, with the text people write for them.

use std::fmt;

/// A size in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl Bytes {
    /// The number of bytes.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number of bytes, as much of it as can be addressed.
    #[must_use]
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// `count` KiB.
    #[must_use]
    pub const fn kib(count: u64) -> Self {
        Self(count * 1024)
    }
}

/// A share of a whole, in hundredths: 0 to 100.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Percent(pub f64);

impl Percent {
    /// The share as a number from 0 to 1.
    #[must_use]
    pub fn fraction(self) -> f64 {
        self.0 / 100.0
    }
}

impl fmt::Display for Bytes {
    /// The largest binary unit that leaves no remainder: `16KiB`, `1MiB`, `4097`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
            if self.0 > 0 && self.0.trailing_zeros() >= shift {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}
