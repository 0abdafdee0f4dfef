//! Numbers as people write and read them: rates with k, M and G, times with s, m and h.

use std::time::Duration;

/// `1500`, `1.5k`, `2M`: for counts and rates.
pub(super) fn parse_number(text: &str) -> Result<f64, String> {
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1e3),
        Some((at, 'M')) => (&text[..at], 1e6),
        Some((at, 'G')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    match digits.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number * factor),
        _ => Err("write a number above 0, as 1500, 1.5k or 2M".to_owned()),
    }
}

/// The same for what is counted in whole.
pub(super) fn parse_count(text: &str) -> Result<u64, String> {
    match parse_number(text)? {
        count if count < 1.0 || count > u64::MAX as f64 => {
            Err("write a count of 1 or more".to_owned())
        }
        count => Ok(count.round() as u64),
    }
}

/// `10`, `10s`, `500ms`, `2m`, `1h`.
pub(super) fn parse_time(text: &str) -> Result<Duration, String> {
    let units = [
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
        ("", 1.0),
    ];
    units
        .iter()
        .find_map(|(unit, seconds)| {
            let number = text.strip_suffix(unit)?.parse::<f64>().ok()?;
            Duration::try_from_secs_f64(number * seconds).ok()
        })
        .ok_or_else(|| "write a time in seconds, or as 500ms, 10s, 2m or 1h".to_owned())
}

/// `0-3,6`: cores.
pub(super) fn parse_cores(text: &str) -> Result<Cores, String> {
    let wrong = || "write cores as 0,2 or 0-3".to_owned();
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (
            first.parse().map_err(|_| wrong())?,
            last.parse().map_err(|_| wrong())?,
        );
        if last < first || last >= 4096 {
            return Err(wrong());
        }
        cores.extend(first..=last);
    }
    Ok(Cores(cores))
}

/// Cores, each with a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cores(pub(super) Vec<usize>);

/// A number with three digits and its thousands: `1.23 M`.
pub(super) fn short(number: f64) -> String {
    for (factor, name) in [(1e9, " G"), (1e6, " M"), (1e3, " k")] {
        if number >= factor * 0.9995 {
            let number = number / factor;
            let digits = if number < 10.0 {
                2
            } else if number < 100.0 {
                1
            } else {
                0
            };
            return format!("{number:.digits$}{name}");
        }
    }
    format!("{number:.0} ")
}

/// A share in percent, with as many digits as it takes to see that it is not nothing.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent == 0.0 || percent >= 0.1 {
        format!("{percent:.2} %")
    } else {
        format!("{percent:.2e} %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_with_their_units() {
        assert_eq!(parse_number("1500"), Ok(1500.0));
        assert_eq!(parse_number("1.5k"), Ok(1500.0));
        assert_eq!(parse_count("2M"), Ok(2_000_000));
        for wrong in ["", "k", "-1", "0", "1x", "inf", "nan"] {
            assert!(parse_number(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_time("10"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_time("1.5m"), Ok(Duration::from_secs(90)));
        assert!(parse_time("-1").is_err());
        assert!(parse_time("soon").is_err());
        assert_eq!(parse_cores("0-2,7"), Ok(Cores(vec![0, 1, 2, 7])));
        assert!(parse_cores("2-0").is_err());
        assert!(parse_cores("").is_err());
    }

    #[test]
    fn numbers_are_written_short() {
        assert_eq!(short(999.0), "999 ");
        assert_eq!(short(1234.0), "1.23 k");
        assert_eq!(short(999_900.0), "1.00 M");
        assert_eq!(short(14_200_000.0), "14.2 M");
        assert_eq!(percent(0.0), "0.00 %");
        assert_eq!(percent(0.5), "50.00 %");
        assert_eq!(percent(1e-6), "1.00e-4 %");
    }
}
