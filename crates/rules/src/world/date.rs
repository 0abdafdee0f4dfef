//! Dates as HTTP and certificates write them, without a clock or zones.

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// A date as HTTP writes it (RFC 9110 section 5.6.7), of seconds since the Unix epoch. Those that
/// four digits of a year have no room for become the nearest that they have.
pub(super) fn http_date(seconds: i64) -> String {
    let seconds = seconds.clamp(0, 253_402_300_799);
    let (year, month, day) = civil(seconds / 86_400);
    format!(
        "{}, {day:02} {month} {year:04} {} GMT",
        DAYS[(seconds / 86_400 % 7) as usize],
        clock(seconds)
    )
}

/// A date as OpenSSL prints those of certificates: `Nov  1 07:28:00 2026 GMT`.
pub(super) fn certificate_date(seconds: i64) -> String {
    let seconds = seconds.clamp(-62_167_219_200, 253_402_300_799);
    let (year, month, day) = civil(seconds.div_euclid(86_400));
    format!("{month} {day:2} {} {year:04} GMT", clock(seconds))
}

fn clock(seconds: i64) -> String {
    let second = seconds.rem_euclid(86_400);
    format!(
        "{:02}:{:02}:{:02}",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// Year, month and day of a number of days since the Unix epoch; from year 0 on.
fn civil(days: i64) -> (i64, &'static str, i64) {
    // Counted from the first of March of year 0, so that leap days end a year.
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let next = i64::from(from_march >= 10);
    (
        era * 400 + year + next,
        MONTHS[((from_march + 2) % 12) as usize],
        day,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days_and_ends_of_years() {
        for (seconds, date) in [
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_709_251_199, "Thu, 29 Feb 2024 23:59:59 GMT"),
            (1_709_251_200, "Fri, 01 Mar 2024 00:00:00 GMT"),
            (1_798_761_599, "Thu, 31 Dec 2026 23:59:59 GMT"),
            (1_798_761_600, "Fri, 01 Jan 2027 00:00:00 GMT"),
            (-5, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (i64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(http_date(seconds), date);
        }
        assert_eq!(certificate_date(-1), "Dec 31 23:59:59 1969 GMT");
        assert_eq!(certificate_date(i64::MIN), "Jan  1 00:00:00 0000 GMT");
    }
}
