//! The time of day as text, in UTC: `ctime` form for the header, a stamp for interval lines.
//!
//! Owns the calendar arithmetic. Must not know who prints it.

use std::time::{SystemTime, UNIX_EPOCH};

/// A moment, split up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    year: i64,
    month: usize,
    day: i64,
    weekday: usize,
    second_of_day: i64,
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

impl Moment {
    /// Now.
    pub fn now() -> Self {
        Self::from_unix(Self::unix_seconds() as i64)
    }

    /// Seconds since 1970, now.
    pub fn unix_seconds() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }

    /// Seconds since 1970, split up by the proleptic Gregorian calendar.
    fn from_unix(seconds: i64) -> Self {
        let days = seconds.div_euclid(86_400);
        // Years are counted from March, so that the leap day comes last; 719,468 days lie before 1970.
        let since_march_0000 = days + 719_468;
        let era = since_march_0000.div_euclid(146_097);
        let day_of_era = since_march_0000.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = (month_from_march + 2) % 12;
        let year = era * 400 + year_of_era + i64::from(month < 2);
        Self {
            year,
            month: month as usize,
            day,
            weekday: (days + 4).rem_euclid(7) as usize,
            second_of_day: seconds.rem_euclid(86_400),
        }
    }

    fn clock(&self) -> String {
        let second = self.second_of_day;
        format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
    }

    /// `Tue May 30 10:12:31 2023`.
    pub fn ctime(&self) -> String {
        let (weekday, month) = (WEEKDAYS[self.weekday], MONTHS[self.month]);
        format!("{weekday} {month} {:2} {} {}", self.day, self.clock(), self.year)
    }

    /// `2023/05/30-10:12:41`.
    pub fn stamp(&self) -> String {
        format!("{}/{:02}/{:02}-{}", self.year, self.month + 1, self.day, self.clock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known moments: the epoch, a leap day, the documented example.
    #[test]
    fn known_moments_are_split_up() {
        assert_eq!(Moment::from_unix(0).ctime(), "Thu Jan  1 00:00:00 1970");
        assert_eq!(Moment::from_unix(1_709_210_096).ctime(), "Thu Feb 29 12:34:56 2024");
        assert_eq!(Moment::from_unix(1_685_441_551).ctime(), "Tue May 30 10:12:31 2023");
        assert_eq!(Moment::from_unix(1_685_441_561).stamp(), "2023/05/30-10:12:41");
    }
}
