//! Times and certificates as test files have them.

use std::time::Duration;

/// A time such as `500ms`, `5s`, `2m`, `1h` or `1d`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|char: char| char.is_ascii_alphabetic());
    let count: u64 = digits.parse().ok()?;
    Some(match &text[digits.len()..] {
        "ms" => Duration::from_millis(count),
        "s" => Duration::from_secs(count),
        "m" => Duration::from_secs(count.checked_mul(60)?),
        "h" => Duration::from_secs(count.checked_mul(3600)?),
        "d" => Duration::from_secs(count.checked_mul(86_400)?),
        _ => return None,
    })
}

/// A time as seconds since 1970, or as `2026-01-31T12:00:00Z`.
pub(super) fn time(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let (date, clock) = text.strip_suffix('Z')?.split_once('T')?;
    let three = |text: &str, by: char| -> Option<[i64; 3]> {
        let mut parts = text.split(by).map(|part| part.parse().ok());
        let all = [parts.next()??, parts.next()??, parts.next()??];
        parts.next().is_none().then_some(all)
    };
    let [year, month, day] = three(date, '-')?;
    let [hours, minutes, seconds] = three(clock, ':')?;
    // Days since 1970 of the proleptic Gregorian calendar, with years that begin in March.
    let (year, month) = match month > 2 {
        true => (year, month - 3),
        false => (year - 1, month + 9),
    };
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (153 * month + 2) / 5
        + day
        - 1
        - 719_468;
    let seconds = ((days * 24 + hours) * 60 + minutes) * 60 + seconds;
    Some(Duration::from_secs(u64::try_from(seconds).ok()?))
}

/// The certificates of a PEM file, in DER.
pub(super) fn certificates(text: &[u8]) -> Vec<Vec<u8>> {
    let text = String::from_utf8_lossy(text);
    let parts = text.split("-----BEGIN CERTIFICATE-----").skip(1);
    let bodies = parts.filter_map(|part| part.split_once("-----END").map(|(body, _)| body));
    bodies.map(|body| base64(body.as_bytes())).collect()
}

fn base64(text: &[u8]) -> Vec<u8> {
    let (mut out, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for &byte in text {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => continue,
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_calendar_are_seconds_since_1970() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:01Z", 951_825_601),
            ("2026-01-01T00:00:00Z", 1_767_225_600),
            ("17", 17),
        ] {
            assert_eq!(time(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(time("2026-01-01"), None);
    }
}
