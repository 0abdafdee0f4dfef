//! The words of dates: months, days, units and zones. All are in lower case and without dots.

use super::civil::{DAY, DAYS, MONTHS};

/// Whether a half of the day is the second.
pub(super) fn meridian(word: &str) -> Option<bool> {
    match word {
        "am" => Some(false),
        "pm" => Some(true),
        _ => None,
    }
}

/// Which month is named, from 1.
pub(super) fn month(word: &str) -> Option<i64> {
    named(&MONTHS, word)
        .or((word == "sept").then_some(8))
        .map(|at| at + 1)
}

/// Which day of the week is named, 0 for Sunday.
pub(super) fn day_name(word: &str) -> Option<i64> {
    match word {
        "tues" => Some(2),
        "wednes" => Some(3),
        "thur" | "thurs" => Some(4),
        _ => named(&DAYS, word),
    }
}

/// Which name a word is, in full or by its first three letters.
fn named(names: &[&str], word: &str) -> Option<i64> {
    let is = |name: &&str| name.eq_ignore_ascii_case(word) || name[..3].eq_ignore_ascii_case(word);
    names.iter().position(is).map(|at| at as i64)
}

/// A unit's seconds, or months.
pub(super) fn unit(word: &str) -> Option<(i64, i64)> {
    Some(match word.strip_suffix('s').unwrap_or(word) {
        "second" | "sec" => (1, 0),
        "minute" | "min" => (60, 0),
        "hour" => (3600, 0),
        "day" | "tomorrow" => (DAY, 0),
        "yesterday" => (-DAY, 0),
        "week" => (7 * DAY, 0),
        "fortnight" => (14 * DAY, 0),
        "month" => (0, 1),
        "year" => (0, 12),
        "now" | "today" | "thi" => (0, 0),
        _ => return None,
    })
}

/// A zone's minutes west of Greenwich.
pub(super) fn zone(word: &str) -> Option<i64> {
    let hours = match word {
        "gmt" | "ut" | "utc" | "uct" | "wet" | "z" => 0,
        "bst" | "cet" | "met" | "mewt" | "west" => -1,
        "cest" | "mest" | "eet" => -2,
        "eest" | "msk" => -3,
        "jst" => -9,
        "adt" => 3,
        "ast" | "edt" => 4,
        "est" | "cdt" => 5,
        "cst" | "mdt" => 6,
        "mst" | "pdt" => 7,
        "pst" => 8,
        "hst" => 10,
        _ => return None,
    };
    Some(hours * 60)
}
