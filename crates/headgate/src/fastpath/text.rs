//! Numbers, times and tables as people like to read them, and times as they write them.

pub(crate) use control::count;
use std::time::Duration;

/// Rows under a head with their columns in line, two spaces apart. The columns named in `right` stand right.
pub(crate) fn table(head: &[&str], right: &[&str], rows: &[Vec<String>]) -> String {
    let heads: Vec<String> = head.iter().map(ToString::to_string).collect();
    let lines = || std::iter::once(&heads).chain(rows);
    let widths: Vec<usize> = (0..head.len())
        .map(|column| {
            let cells = lines().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let mut out = String::new();
    for row in lines() {
        let mut line = String::new();
        for ((cell, name), width) in row.iter().zip(head).zip(&widths) {
            let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
            let parts = match right.contains(name) {
                true => [padding.as_str(), cell],
                false => [cell, padding.as_str()],
            };
            line.extend(parts);
            line.push_str("  ");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// `1536` as `1.5 KiB`.
pub(crate) fn bytes(value: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = value as f64;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{value:.0} B"),
        _ => format!("{value:.1} {}", units[unit]),
    }
}

/// A time by its two largest units: `250ms`, `12s`, `1m 5s`, `2h 3m`, `4d 1h`.
pub(crate) fn time(of: Duration) -> String {
    let whole = of.as_secs();
    match whole {
        0 => format!("{}ms", of.as_millis()),
        1..60 => format!("{whole}s"),
        60..3600 => format!("{}m {}s", whole / 60, whole % 60),
        3600..86400 => format!("{}h {}m", whole / 3600, whole / 60 % 60),
        _ => format!("{}d {}h", whole / 86400, whole / 3600 % 24),
    }
}

/// A time as people write it: `30s`, `1h30m`, `2d`; a bare number is seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "no time; write 30s, 5m, 1h30m or 2d".to_owned();
    let mut total = Duration::ZERO;
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        let (unit, after) = match &rest[digits..] {
            "" => (Duration::from_secs(1), ""),
            after if after.starts_with("ms") => (Duration::from_millis(1), &after[2..]),
            after if after.starts_with('s') => (Duration::from_secs(1), &after[1..]),
            after if after.starts_with('m') => (Duration::from_secs(60), &after[1..]),
            after if after.starts_with('h') => (Duration::from_secs(3600), &after[1..]),
            after if after.starts_with('d') => (Duration::from_secs(86400), &after[1..]),
            _ => return Err(wrong()),
        };
        let number = u32::try_from(number).map_err(|_| wrong())?;
        let part = unit.checked_mul(number).ok_or_else(wrong)?;
        total = total.checked_add(part).ok_or_else(wrong)?;
        rest = after;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_in_line() {
        let rows = [vec!["ä".to_owned(), "1".to_owned(), String::new()]];
        let text = table(&["NAME", "N", "WHY"], &["N"], &rows);
        assert_eq!(text, "NAME  N  WHY\nä     1\n");
        let wide = [vec!["a".to_owned(), "1 234".to_owned(), "b".to_owned()]];
        let text = table(&["NAME", "N", "WHY"], &["N"], &wide);
        assert_eq!(text, "NAME      N  WHY\na     1 234  b\n");
    }

    #[test]
    fn times_are_understood_as_people_write_them() {
        let seconds = |text| duration(text).map(|time| time.as_secs());
        assert_eq!(seconds("30"), Ok(30));
        assert_eq!(seconds("1h30m"), Ok(5400));
        assert_eq!(seconds("2d"), Ok(172_800));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["", "m", "5x", "-1s", "99999999999s"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_read_well_at_the_edges_of_their_units() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(count),
            ["0", "999", "1 000", "1 234 567"]
        );
        assert_eq!(
            [0, 1023, 1024, 2_469_606_195].map(bytes),
            ["0 B", "1023 B", "1.0 KiB", "2.3 GiB"]
        );
        let times = [250, 59_900, 65_000, 7_380_000, 93_784_000];
        let times = times.map(|ms| time(Duration::from_millis(ms)));
        assert_eq!(times, ["250ms", "59s", "1m 5s", "2h 3m", "1d 2h"]);
    }
}
