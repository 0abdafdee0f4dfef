//! A time from a text as people write it: dates, times of day, days of the week, and spans from now.

use self::Token::{Number, Sign, Word};
use super::civil::{DAY, Date, days_in, weekday};
use super::words::{day_name, meridian, month, unit, zone};

/// Reads a text; what it leaves open is that of `base`. `None` where it can't be understood.
pub(super) fn parse(text: &[u8], base: i64) -> Option<i64> {
    // Dates are far shorter, and years have no more digits.
    const FAR: i64 = 1 << 50;
    if text.len() > 1000 || base.abs() > FAR {
        return None;
    }
    let tokens = tokens(text)?;
    let mut found = Found {
        tokens: &tokens,
        ..Found::default()
    };
    while !found.tokens.is_empty() {
        found.item()?;
    }
    let time = found.time(base)?;
    (time.abs() <= FAR * 8).then_some(time)
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// A number, and how many digits it had.
    Number(i64, usize),
    /// A word in lower case, without dots.
    Word(String),
    Sign(u8),
}

fn tokens(text: &[u8]) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(&first) = rest.first() {
        let run = |is: fn(&u8) -> bool| rest.iter().take_while(|b| is(b)).count();
        if first.is_ascii_digit() {
            let len = run(u8::is_ascii_digit);
            if len > 12 {
                return None;
            }
            let number = rest[..len]
                .iter()
                .fold(0, |n, d| n * 10 + i64::from(d - b'0'));
            tokens.push(Number(number, len));
            rest = &rest[len..];
        } else if first.is_ascii_alphabetic() {
            let len = run(|b| b.is_ascii_alphabetic() || *b == b'.');
            let word = rest[..len].iter().filter(|b| **b != b'.');
            tokens.push(Word(
                word.map(|b| char::from(b.to_ascii_lowercase())).collect(),
            ));
            rest = &rest[len..];
        } else if first == b'(' {
            // A comment.
            rest = &rest[memchr::memchr(b')', rest)? + 1..];
        } else {
            if !first.is_ascii_whitespace() {
                tokens.push(Sign(first));
            }
            rest = &rest[1..];
        }
    }
    Some(tokens)
}

/// What a text has said so far.
#[derive(Default)]
struct Found<'a> {
    tokens: &'a [Token],
    /// Year, if said, month and day.
    date: Option<(Option<i64>, i64, i64)>,
    /// Seconds of the day.
    clock: Option<i64>,
    /// Minutes west of Greenwich.
    zone: Option<i64>,
    /// The day of the week, and which one of them.
    day: Option<(i64, i64)>,
    /// Seconds, and months, from there.
    span: Option<(i64, i64)>,
    epoch: bool,
}

impl Found<'_> {
    fn skip(&mut self, count: usize) {
        self.tokens = &self.tokens[count.min(self.tokens.len())..];
    }

    /// Takes what comes next.
    fn item(&mut self) -> Option<()> {
        match self.tokens {
            [Number(hour, _), Sign(b':'), ..] => self.time_of_day(*hour),
            [Number(hour, _), Word(half), ..] if meridian(half).is_some() => {
                let clock = self.hours(*hour, 0, 0, meridian(half))?;
                self.skip(2);
                self.clock(clock)
            }
            [
                Number(month, _),
                Sign(b'/'),
                Number(day, _),
                Sign(b'/'),
                Number(year, _),
                ..,
            ] => {
                let date = (Some(*year), *month, *day);
                self.skip(5);
                self.date(date)
            }
            [Number(month, _), Sign(b'/'), Number(day, _), ..] => {
                let date = (None, *month, *day);
                self.skip(3);
                self.date(date)
            }
            // A log's date.
            [
                Number(day, _),
                Sign(b'/'),
                Word(name),
                Sign(b'/'),
                Number(year, _),
                ..,
            ] => {
                let date = (Some(*year), month(name)?, *day);
                self.skip(5);
                if let [Sign(b':'), ..] = self.tokens {
                    self.skip(1);
                }
                self.date(date)
            }
            [
                Number(year, _),
                Sign(b'-'),
                Number(month, _),
                Sign(b'-'),
                Number(day, _),
                ..,
            ] => {
                let date = (Some(*year), *month, *day);
                self.skip(5);
                if let [Word(t), ..] = self.tokens
                    && t == "t"
                {
                    self.skip(1);
                }
                self.date(date)
            }
            [
                Number(day, _),
                Sign(b'-'),
                Word(name),
                Sign(b'-'),
                Number(year, _),
                ..,
            ] => {
                let date = (Some(*year), month(name)?, *day);
                self.skip(5);
                self.date(date)
            }
            [Number(day, _), Word(name), rest @ ..] if month(name).is_some() => {
                let day = *day;
                let month = month(name)?;
                let year = match rest {
                    // What goes on with a colon is a time.
                    [Number(_, _), Sign(b':'), ..] => None,
                    [Number(year, _), ..] => Some(*year),
                    _ => None,
                };
                self.skip(if year.is_some() { 3 } else { 2 });
                self.date((year, month, day))
            }
            [Number(count, _), Word(name), ..] if day_name(name).is_some() => {
                let count = *count;
                self.skip(1);
                self.weekday(count)
            }
            [Number(count, _), Word(name), ..] if unit(name).is_some() => {
                let count = *count;
                self.skip(1);
                self.span(count)
            }
            [Number(number, digits), ..] => {
                let (number, digits) = (*number, *digits);
                self.skip(1);
                self.number(number, digits)
            }
            [Sign(sign @ (b'+' | b'-')), Number(count, _), Word(name), ..] => {
                let count = if *sign == b'-' { -count } else { *count };
                let is_day = day_name(name).is_some();
                self.skip(2);
                if is_day {
                    self.weekday(count)
                } else {
                    self.span(count)
                }
            }
            [Sign(sign @ (b'+' | b'-')), Number(offset, 4), ..] if self.clock.is_some() => {
                let minutes = offset / 100 * 60 + offset % 100;
                let west = if *sign == b'+' { -minutes } else { minutes };
                self.skip(2);
                self.zone(west)
            }
            [Sign(b','), ..] if self.day.is_some() => {
                self.skip(1);
                Some(())
            }
            [Word(word), ..] => self.word(word.clone()),
            _ => None,
        }
    }

    fn word(&mut self, word: String) -> Option<()> {
        if let Some(month) = month(&word) {
            let (date, used) = match &self.tokens[1..] {
                [Number(day, _), Sign(b','), Number(year, _), ..] => {
                    ((Some(*year), month, *day), 4)
                }
                [Number(day, _), ..] => ((None, month, *day), 2),
                _ => return None,
            };
            self.skip(used);
            return self.date(date);
        }
        if day_name(&word).is_some() {
            return self.weekday(1);
        }
        if unit(&word).is_some() {
            return self.span(1);
        }
        match word.as_str() {
            "next" => {
                self.skip(1);
                match self.tokens {
                    [Word(name), ..] if day_name(name).is_some() => self.weekday(2),
                    [Number(count, _), Word(_), ..] => {
                        let count = *count;
                        self.skip(1);
                        self.span(count)
                    }
                    _ => self.span(1),
                }
            }
            "last" => {
                self.skip(1);
                match self.tokens {
                    [Word(name), ..] if day_name(name).is_some() => self.weekday(-1),
                    _ => self.span(-1),
                }
            }
            "ago" => {
                self.skip(1);
                let (seconds, months) = self.span?;
                self.span = Some((-seconds, -months));
                Some(())
            }
            "epoch" => {
                self.skip(1);
                self.epoch = true;
                self.date((Some(1970), 1, 1))
            }
            "dst" if self.zone.is_some() => {
                self.skip(1);
                self.zone = self.zone.map(|west| west - 60);
                Some(())
            }
            // Between a date and a time of ISO 8601.
            "t" if self.date.is_some() && matches!(self.tokens, [_, Number(..), ..]) => {
                self.skip(1);
                Some(())
            }
            _ => {
                let west = zone(&word)?;
                self.skip(1);
                self.zone(west)
            }
        }
    }

    /// A number by itself: a year behind date and time, a date or a time.
    fn number(&mut self, number: i64, digits: usize) -> Option<()> {
        if digits >= 6 {
            if self.date.is_some() && self.clock.is_none() && digits == 6 {
                let clock = self.hours(number / 10_000, number / 100 % 100, number % 100, None)?;
                return self.clock(clock);
            }
            return self.date((Some(number / 10_000), number / 100 % 100, number % 100));
        }
        if let Some((year, ..)) = &mut self.date
            && self.clock.is_some()
            && self.span.is_none()
        {
            *year = Some(number);
            return Some(());
        }
        let (hour, minute) = if digits <= 2 {
            (number, 0)
        } else {
            (number / 100, number % 100)
        };
        let clock = self.hours(hour, minute, 0, None)?;
        self.clock(clock)
    }

    fn time_of_day(&mut self, hour: i64) -> Option<()> {
        let [_, _, Number(minute, _), ..] = self.tokens else {
            return None;
        };
        let minute = *minute;
        self.skip(3);
        let mut second = 0;
        if let [Sign(b':'), Number(number, _), ..] = self.tokens {
            second = *number;
            self.skip(2);
            // Parts of seconds are of no use here.
            if let [Sign(b'.'), Number(..), ..] = self.tokens {
                self.skip(2);
            }
        }
        let mut half = None;
        if let [Word(word), ..] = self.tokens {
            half = meridian(word);
            if half.is_some() {
                self.skip(1);
            }
        }
        let clock = self.hours(hour, minute, second, half)?;
        self.clock(clock)?;
        // An offset of ISO 8601: +01:00.
        if let [
            Sign(sign @ (b'+' | b'-')),
            Number(hours, 2),
            Sign(b':'),
            Number(minutes, 2),
            ..,
        ] = self.tokens
        {
            let minutes = hours * 60 + minutes;
            let west = if *sign == b'+' { -minutes } else { minutes };
            self.skip(4);
            self.zone(west)?;
        }
        Some(())
    }

    fn hours(&self, hour: i64, minute: i64, second: i64, afternoon: Option<bool>) -> Option<i64> {
        let hour = match afternoon {
            None => hour,
            Some(_) if !(1..=12).contains(&hour) => return None,
            Some(afternoon) => hour % 12 + if afternoon { 12 } else { 0 },
        };
        let sound =
            (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
        sound.then_some(hour * 3600 + minute * 60 + second)
    }

    fn clock(&mut self, clock: i64) -> Option<()> {
        self.clock.replace(clock).is_none().then_some(())
    }

    fn date(&mut self, date: (Option<i64>, i64, i64)) -> Option<()> {
        self.date.replace(date).is_none().then_some(())
    }

    fn zone(&mut self, west: i64) -> Option<()> {
        self.zone.replace(west).is_none().then_some(())
    }

    /// The name of a day comes next.
    fn weekday(&mut self, which: i64) -> Option<()> {
        let [Word(name), ..] = self.tokens else {
            return None;
        };
        let day = day_name(name)?;
        self.skip(1);
        self.day.replace((day, which)).is_none().then_some(())
    }

    /// A unit comes next.
    fn span(&mut self, count: i64) -> Option<()> {
        let [Word(name), ..] = self.tokens else {
            return None;
        };
        let (seconds, months) = unit(name)?;
        self.skip(1);
        let span = self.span.get_or_insert((0, 0));
        span.0 = span.0.checked_add(seconds.checked_mul(count)?)?;
        span.1 = span.1.checked_add(months.checked_mul(count)?)?;
        Some(())
    }

    fn time(&self, base: i64) -> Option<i64> {
        let mut time = base;
        if self.date.is_some() || self.clock.is_some() || self.day.is_some() {
            let today = Date::of((base - self.zone.unwrap_or(0) * 60).div_euclid(DAY));
            let date = match self.date {
                Some((year, month, day)) => Date {
                    year: match year {
                        Some(year @ 0..69) => year + 2000,
                        Some(year @ 69..100) => year + 1900,
                        Some(year) => year,
                        None => today.year,
                    },
                    month,
                    day,
                },
                None => today,
            };
            if !(1..=12).contains(&date.month)
                || !(1..=days_in(date.year, date.month)).contains(&date.day)
            {
                return None;
            }
            time = date.days().checked_mul(DAY)? + self.clock.unwrap_or(0);
            time += self.zone.unwrap_or(0) * 60;
        } else if self.span.is_none() {
            time -= time.rem_euclid(DAY);
        }
        let (seconds, months) = self.span.unwrap_or_default();
        time = time.checked_add(seconds)?;
        if months != 0 {
            time = add_months(time, months)?;
        }
        if let (Some((day, which)), None) = (self.day, self.date) {
            let ahead = (day - weekday(time.div_euclid(DAY))).rem_euclid(7);
            let weeks = if which > 0 { which - 1 } else { which };
            time = time
                .checked_add(ahead * DAY)?
                .checked_add(weeks.checked_mul(7 * DAY)?)?;
        }
        Some(time)
    }
}

fn add_months(time: i64, months: i64) -> Option<i64> {
    let date = Date::of(time.div_euclid(DAY));
    let months = (date.year * 12 + date.month - 1).checked_add(months)?;
    if months.abs() > 1 << 40 {
        return None;
    }
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
    let day = date.day.min(days_in(year, month));
    Some(Date { year, month, day }.days() * DAY + time.rem_euclid(DAY))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Friday, 13 February 2009, 23:31:30.
    const NOW: i64 = 1_234_567_890;
    const TODAY: i64 = 1_234_483_200;

    fn check(cases: &[(&str, i64)]) {
        for (text, wanted) in cases {
            assert_eq!(parse(text.as_bytes(), NOW), Some(*wanted), "{text}");
        }
    }

    #[test]
    fn dates_and_times_are_understood() {
        check(&[
            ("2009-02-13 23:31:30", NOW),
            ("2009-02-13T23:31:30Z", NOW),
            ("2009-02-14T00:31:30+01:00", NOW),
            ("2009-02-13T23:31:30.123Z", NOW),
            ("20090213T233130", NOW),
            ("20090213 233130", NOW),
            ("20090213", TODAY),
            ("2009-02-13", TODAY),
            ("02/13/2009", TODAY),
            ("02/13/09", TODAY),
            ("2/13", TODAY),
            ("02/13/2009 11:31:30 pm", NOW),
            ("Fri Feb 13 23:31:30 2009", NOW),
            ("Fri Feb 13 23:31:30 UTC 2009", NOW),
            ("Fri, 13 Feb 2009 23:31:30 GMT", NOW),
            ("Friday, 13-Feb-09 23:31:30 GMT", NOW),
            ("13 February 2009", TODAY),
            ("February 13, 2009 11:31:30 p.m.", NOW),
            ("Feb 13 23:31:30 2009 GMT", NOW),
            ("13/Feb/2009:23:31:30 +0000", NOW),
            ("14/Feb/2009:00:31:30 +0100", NOW),
            ("Feb 13 18:31:30 EST 2009", NOW),
            ("23:31:30", NOW),
            ("23:31", NOW - 30),
            ("11 pm", NOW - 1890),
            ("2331", NOW - 30),
            ("", TODAY),
            ("epoch", 0),
            ("1 jan 1970", 0),
        ]);
    }

    #[test]
    fn spans_count_from_the_base() {
        check(&[
            ("now", NOW),
            ("today", NOW),
            ("tomorrow", NOW + DAY),
            ("yesterday", NOW - DAY),
            ("+ 1 day", NOW + DAY),
            ("+1 day", NOW + DAY),
            ("1 day", NOW + DAY),
            ("-2 hours", NOW - 7200),
            ("2 hours ago", NOW - 7200),
            ("next week", NOW + 7 * DAY),
            ("last week", NOW - 7 * DAY),
            ("week", NOW + 7 * DAY),
            ("1 week 2 days", NOW + 9 * DAY),
            ("1 month", NOW + 28 * DAY),
            ("1 year", NOW + 365 * DAY),
            ("1 year ago", NOW - 366 * DAY),
            ("00:00 tomorrow", TODAY + DAY),
            ("2009-01-31 1 month", 1_235_779_200),
            ("12:00 + 90 min", TODAY + 43_200 + 5400),
            ("monday", TODAY + 3 * DAY),
            ("friday", TODAY),
            ("next friday", TODAY + 7 * DAY),
            ("now + 5 minutes", NOW + 300),
        ]);
    }

    #[test]
    fn what_is_no_date_is_not_taken_for_one() {
        for text in [
            "nonsense",
            "2009-13-01",
            "2009-02-30",
            "25:00",
            "12:60",
            "13 pm",
            "1/2/3/4",
            "feb",
            "1 2 3",
            "99999999999999999999 days",
            "(open",
            "12:00 13:00",
            "ago",
            "999999999999 years",
        ] {
            assert_eq!(parse(text.as_bytes(), NOW), None, "{text}");
        }
    }
}
