//! Quantities with a unit: sizes, durations and shares, with the text people write for them.

use std::fmt;
use std::time::Duration;

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

const DURATIONS: [(&str, u64); 6] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

const SIZES: [(&str, u64); 9] = [
    ("", 1),
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// `250ms`, `1.5s`, `1m30s`: numbers with units, the larger unit first. A bare `0` needs no unit.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut micros: u64 = 0;
    let mut last = u64::MAX;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (count, after) = rest.split_at(number);
        let (unit, after) = after.split_at(
            after
                .find(|c: char| !c.is_ascii_alphabetic())
                .unwrap_or(after.len()),
        );
        let scale = DURATIONS.iter().find(|(name, _)| *name == unit)?.1;
        if scale >= last {
            return None;
        }
        (last, rest) = (scale, after);
        micros = micros.checked_add(scaled(count, scale)?)?;
    }
    (last != u64::MAX).then(|| Duration::from_micros(micros))
}

/// The text that [`parse_duration`] reads as `duration`, to the microsecond.
pub(crate) fn format_duration(duration: Duration) -> String {
    let mut micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    if micros == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, scale) in DURATIONS {
        if micros >= scale {
            text += &format!("{}{unit}", micros / scale);
            micros %= scale;
        }
    }
    text
}

/// `4096`, `16KiB`, `1MB`.
pub(crate) fn parse_bytes(text: &str) -> Option<Bytes> {
    let number = text
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')
        .unwrap_or(text.len());
    let (count, unit) = text.split_at(number);
    let scale = SIZES
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit.trim_start()))?
        .1;
    scaled(&count.replace('_', ""), scale).map(Bytes)
}

/// `10%`, `0.5%`.
pub(crate) fn parse_percent(text: &str) -> Option<Percent> {
    let number = text.strip_suffix('%')?.trim_end();
    let digits = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let share: f64 = number.parse().ok().filter(|_| digits)?;
    (0.0..=100.0).contains(&share).then_some(Percent(share))
}

/// `count` times `scale`, if that is a whole number. `count` is digits with at most one point within.
fn scaled(count: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = count.split_once('.').unwrap_or((count, "0"));
    let digits =
        |text: &str| (1..=18).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let denominator = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = fraction.parse::<u128>().ok()? * u128::from(scale);
    if part % denominator != 0 {
        return None;
    }
    let total = u128::from(whole.parse::<u64>().ok()?) * u128::from(scale) + part / denominator;
    u64::try_from(total).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_read_as_written() {
        let millis = |text| parse_duration(text).map(|d| d.as_millis());
        assert_eq!(millis("250ms"), Some(250));
        assert_eq!(millis("1m30s"), Some(90_000));
        assert_eq!(millis("1h"), Some(3_600_000));
        assert_eq!(millis("0.5s"), Some(500));
        assert_eq!(millis("0"), Some(0));
    }

    #[test]
    fn a_duration_needs_units_in_order() {
        for text in [
            "",
            "5",
            "s",
            "5 s",
            "-1s",
            "5x",
            "30s1m",
            "1s1s",
            "1.s",
            ".5s",
            "1..5s",
            "99999999999999d",
        ] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_tell_binary_from_decimal_units() {
        assert_eq!(parse_bytes("4096"), Some(Bytes(4096)));
        assert_eq!(parse_bytes("16KiB"), Some(Bytes(16384)));
        assert_eq!(parse_bytes("1MB"), Some(Bytes(1_000_000)));
        assert_eq!(parse_bytes("1.5 KiB"), Some(Bytes(1536)));
        for text in ["", "KiB", "-1", "1XB", "1.0001KiB", "99999999999TiB"] {
            assert_eq!(parse_bytes(text), None, "{text}");
        }
    }

    #[test]
    fn a_share_is_within_the_whole() {
        assert_eq!(parse_percent("12.5%"), Some(Percent(12.5)));
        for text in ["10", "101%", "-1%", "%", "inf%", "1e1%"] {
            assert_eq!(parse_percent(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn durations_and_sizes_come_back(micros in 0u64..1 << 50, bytes: u64) {
            let duration = Duration::from_micros(micros);
            prop_assert_eq!(parse_duration(&format_duration(duration)), Some(duration));
            let bytes = Bytes(bytes >> 8);
            prop_assert_eq!(parse_bytes(&bytes.to_string()), Some(bytes));
        }
    }
}
