//! A time as a text, by the fields of C's `strftime`.

use super::civil::{DAY, DAYS, Date, MONTHS, weekday};
use std::io::Write;

/// Formats a time in seconds since 1970.
pub(super) fn format(time: i64, format: &[u8], zone: &str) -> Vec<u8> {
    // Beyond these years no calendar makes sense.
    const FAR: i64 = 1 << 55;
    let moment = Moment::of(time.clamp(-FAR, FAR));
    let mut out = Vec::with_capacity(format.len() * 4);
    moment.write(&mut out, format, zone);
    out
}

struct Moment {
    time: i64,
    days: i64,
    date: Date,
    second: i64,
}

impl Moment {
    fn of(time: i64) -> Self {
        let days = time.div_euclid(DAY);
        Moment {
            time,
            days,
            date: Date::of(days),
            second: time.rem_euclid(DAY),
        }
    }

    fn write(&self, out: &mut Vec<u8>, format: &[u8], zone: &str) {
        let mut rest = format;
        while let Some(at) = memchr::memchr(b'%', rest) {
            out.extend_from_slice(&rest[..at]);
            rest = &rest[at + 1..];
            // These ask for another form of the locale's, and there is none.
            if let [b'E' | b'O', _, ..] = rest {
                rest = &rest[1..];
            }
            let Some((&letter, after)) = rest.split_first() else {
                out.push(b'%');
                return;
            };
            rest = after;
            self.field(out, letter, zone);
        }
        out.extend_from_slice(rest);
    }

    fn field(&self, out: &mut Vec<u8>, letter: u8, zone: &str) {
        let Date { year, month, day } = self.date;
        let (hour, minute, second) = (self.second / 3600, self.second / 60 % 60, self.second % 60);
        let hour12 = (hour + 11) % 12 + 1;
        let weekday = weekday(self.days);
        let day_name = DAYS[weekday as usize];
        let month_name = MONTHS[(month - 1) as usize];
        let of_year = self.date.day_of_year();
        let mut text = |text: &str| out.extend_from_slice(text.as_bytes());
        match letter {
            b'a' => text(&day_name[..3]),
            b'A' => text(day_name),
            b'b' | b'h' => text(&month_name[..3]),
            b'B' => text(month_name),
            b'p' => text(if hour < 12 { "AM" } else { "PM" }),
            b'P' => text(if hour < 12 { "am" } else { "pm" }),
            b'n' => text("\n"),
            b't' => text("\t"),
            b'Z' => text(zone),
            b'z' => text("+0000"),
            b'%' => text("%"),
            b'c' => self.write(out, b"%a %b %e %H:%M:%S %Y", zone),
            b'D' | b'x' => self.write(out, b"%m/%d/%y", zone),
            b'F' => self.write(out, b"%Y-%m-%d", zone),
            b'r' => self.write(out, b"%I:%M:%S %p", zone),
            b'R' => self.write(out, b"%H:%M", zone),
            b'T' | b'X' => self.write(out, b"%H:%M:%S", zone),
            b'C' => two(out, year.div_euclid(100)),
            b'd' => two(out, day),
            b'e' => spaced(out, day),
            b'H' => two(out, hour),
            b'I' => two(out, hour12),
            b'k' => spaced(out, hour),
            b'l' => spaced(out, hour12),
            b'm' => two(out, month),
            b'M' => two(out, minute),
            b'S' => two(out, second),
            b'y' => two(out, year.rem_euclid(100)),
            b'g' => two(out, self.iso_week().0.rem_euclid(100)),
            b'V' => two(out, self.iso_week().1),
            b'U' => two(out, (of_year + 7 - weekday) / 7),
            b'W' => two(out, (of_year + 7 - (weekday + 6) % 7) / 7),
            b'G' => plain(out, self.iso_week().0),
            b'u' => plain(out, if weekday == 0 { 7 } else { weekday }),
            b'w' => plain(out, weekday),
            b'Y' => plain(out, year),
            b's' => plain(out, self.time),
            b'j' => put(out, format_args!("{:03}", of_year + 1)),
            other => out.push(other),
        }
    }

    /// The year and week by ISO 8601: a week belongs to the year in which its Thursday is.
    fn iso_week(&self) -> (i64, i64) {
        let thursday = Date::of(self.days - (weekday(self.days) + 6) % 7 + 3);
        (thursday.year, thursday.day_of_year() / 7 + 1)
    }
}

fn two(out: &mut Vec<u8>, number: i64) {
    put(out, format_args!("{number:02}"));
}

fn spaced(out: &mut Vec<u8>, number: i64) {
    put(out, format_args!("{number:2}"));
}

fn plain(out: &mut Vec<u8>, number: i64) {
    put(out, format_args!("{number}"));
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a vector never fails.
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_by_fields() {
        // Friday, 13 February 2009, 23:31:30.
        let cases = [
            ("%a %A %b %B %h", "Fri Friday Feb February Feb"),
            ("%c", "Fri Feb 13 23:31:30 2009"),
            ("%C %d %D %e", "20 13 02/13/09 13"),
            ("%g %G %V", "09 2009 07"),
            ("%H %I %k %l %M %S %p", "23 11 23 11 31 30 PM"),
            ("%j %m %u %w %U %W", "044 02 5 5 06 06"),
            (
                "%r|%R|%T|%X|%x",
                "11:31:30 PM|23:31|23:31:30|23:31:30|02/13/09",
            ),
            ("%s %y %Y %Z", "1234567890 09 2009 GMT"),
            ("100%% %n%t|", "100% \n\t|"),
            ("%Ey %Od %", "09 13 %"),
            ("%Y-%m-%dT%H:%M:%SZ", "2009-02-13T23:31:30Z"),
        ];
        for (given, wanted) in cases {
            let text = format(1_234_567_890, given.as_bytes(), "GMT");
            assert_eq!(String::from_utf8_lossy(&text), wanted, "{given}");
        }
    }

    #[test]
    fn weeks_belong_to_the_year_of_their_thursday() {
        let week = |time| String::from_utf8(format(time, b"%G-%V-%u", "GMT")).unwrap();
        assert_eq!(week(1_230_768_000), "2009-01-4"); // 2009-01-01
        assert_eq!(week(1_262_304_000), "2009-53-5"); // 2010-01-01
        assert_eq!(week(1_230_508_800), "2009-01-1"); // 2008-12-29
    }

    #[test]
    fn any_time_can_be_written() {
        for time in [i64::MIN, -1, 0, i64::MAX] {
            assert!(!format(time, b"%c %G %V %j %U %C", "GMT").is_empty());
        }
        assert_eq!(format(-1, b"%c", "GMT"), b"Wed Dec 31 23:59:59 1969");
    }
}
