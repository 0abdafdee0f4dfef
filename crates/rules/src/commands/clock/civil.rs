//! Days of the calendar, counted from 1970-01-01, and their names.

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

pub(super) const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

pub(super) const DAY: i64 = 86_400;

/// A day of the Gregorian calendar: months and days count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Date {
    pub(super) year: i64,
    pub(super) month: i64,
    pub(super) day: i64,
}

impl Date {
    /// The date so many days after 1970-01-01.
    pub(super) fn of(days: i64) -> Self {
        // Eras of 400 years that begin with March, so that leap days come last.
        let days = days + 719_468;
        let era = days.div_euclid(146_097);
        let of_era = days.rem_euclid(146_097);
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        Date {
            year: year + era * 400 + i64::from(month <= 2),
            month,
            day,
        }
    }

    /// How many days after 1970-01-01 it is.
    pub(super) fn days(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let of_era = year.rem_euclid(400);
        let month = (self.month + 9) % 12;
        let of_year = (153 * month + 2) / 5 + self.day - 1;
        era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
    }

    /// How many days after January 1 it is.
    pub(super) fn day_of_year(self) -> i64 {
        let first = Date {
            month: 1,
            day: 1,
            ..self
        };
        self.days() - first.days()
    }
}

/// How many days a month has.
pub(super) fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The day of the week, 0 for Sunday.
pub(super) fn weekday(days: i64) -> i64 {
    (days + 4).rem_euclid(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_lead_to_each_other() {
        assert_eq!(
            Date::of(0),
            Date {
                year: 1970,
                month: 1,
                day: 1
            }
        );
        for days in (-1_000_000..1_000_000).step_by(97) {
            let date = Date::of(days);
            assert_eq!(date.days(), days, "{date:?}");
            assert!(date.day >= 1 && date.day <= days_in(date.year, date.month));
        }
        assert_eq!(weekday(0), 4);
    }
}
