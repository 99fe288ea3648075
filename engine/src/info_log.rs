//! [`InfoLog`]: the LOG file, in which a database says what it does.
//!
//! One line an event: wall time, level, text. The last run's file is kept as `LOG.old`. Lines also go to the `log`
//! facade. A line that cannot be written is dropped: telling is never a reason to fail. Never called with an engine
//! lock held.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use log::Level;

use crate::env::{Clock, FileSystem, WritableFile};
use crate::filename::{LOG, LOG_OLD};

/// The LOG file of one database.
#[derive(Debug)]
pub(crate) struct InfoLog {
    file: Option<Box<dyn WritableFile>>,
    /// Where the next line goes.
    end: AtomicU64,
    clock: Arc<dyn Clock>,
}

impl InfoLog {
    /// Begins a new LOG in `dir`.
    pub(crate) fn create(fs: &dyn FileSystem, dir: &Path, clock: Arc<dyn Clock>) -> Self {
        let path = dir.join(LOG);
        if fs.exists(&path).unwrap_or(false) {
            let _ = fs.rename(&path, &dir.join(LOG_OLD));
        }
        Self { file: fs.create(&path).ok(), end: AtomicU64::new(0), clock }
    }

    /// Writes nothing: lines go to the `log` facade only. For a database that is open for reading only.
    pub(crate) fn silent(clock: Arc<dyn Clock>) -> Self {
        Self { file: None, end: AtomicU64::new(0), clock }
    }

    /// Writes one line.
    pub(crate) fn line(&self, level: Level, text: &str) {
        log::log!(target: "sluicedb", level, "{text}");
        let Some(file) = &self.file else { return };
        let line = format!("{} {level} {text}\n", timestamp(self.clock.unix_micros()));
        // Each line takes its own range of the file, so lines of several threads do not mix.
        let at = self.end.fetch_add(line.len() as u64, Ordering::Relaxed);
        let _ = file.write_at(line.as_bytes(), at);
    }

    pub(crate) fn info(&self, text: &str) {
        self.line(Level::Info, text);
    }

    pub(crate) fn error(&self, text: &str) {
        self.line(Level::Error, text);
    }
}

/// `2026-01-31T23:59:59.123456Z` from microseconds since 1970.
fn timestamp(unix_micros: u64) -> String {
    let (seconds, micros) = (unix_micros / 1_000_000, unix_micros % 1_000_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // The civil date of a day count: years of 400-year eras that begin on 1 March, so that leap days come last.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

#[cfg(test)]
mod tests {
    use super::timestamp;

    /// Dates at the edges: the epoch, a leap day, the last second of a year.
    #[test]
    fn timestamps_are_civil_dates() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(timestamp(951_827_696_000_001), "2000-02-29T12:34:56.000001Z");
        assert_eq!(timestamp(1_767_225_599_999_999), "2025-12-31T23:59:59.999999Z");
    }
}
