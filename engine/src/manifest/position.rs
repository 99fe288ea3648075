//! [`PositionPlan`]: when the manifest is told how far the log is synced.
//!
//! A recorded position bounds what recovery has to doubt: synced bytes that are missing are then noticed. It is due when the
//! log is a segment ahead of it, or when it is old and anything came since; never twice within a least gap. It goes along
//! with any other edit for nothing. This file reads no clock and writes no file.

use std::time::Duration;

/// How often positions are recorded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PositionOptions {
    /// Bytes of the log by which a position may lag: a segment.
    pub(crate) segment_bytes: u64,
    /// Oldest that a position may be while the log has moved; `manifest_save_interval`. The longest time: any age.
    pub(crate) interval: Duration,
    /// Least time between two saves; `manifest_min_gap`.
    pub(crate) min_gap: Duration,
}

impl PositionOptions {
    /// No save ever: for a manifest that takes no edits.
    pub(crate) const NEVER: Self =
        Self { segment_bytes: u64::MAX, interval: Duration::MAX, min_gap: Duration::MAX };
}

/// What was recorded, and what follows from it. Times in nanoseconds.
#[derive(Debug)]
pub(crate) struct PositionPlan {
    options: PositionOptions,
    saved_bytes: u64,
    saved_at: u64,
    /// A save failed: when it is made anew.
    retry_at: Option<u64>,
    pub(crate) saves: u64,
    pub(crate) failures: u64,
}

impl PositionPlan {
    /// The manifest was written from full state at `now` and says that `saved_bytes` are synced.
    pub(crate) fn new(options: PositionOptions, saved_bytes: u64, now: u64) -> Self {
        Self { options, saved_bytes, saved_at: now, retry_at: None, saves: 0, failures: 0 }
    }

    /// When a save is due, with the log synced up to `synced_bytes`; `None` while there is nothing to save.
    pub(crate) fn due_at(&self, synced_bytes: u64) -> Option<u64> {
        if self.retry_at.is_some() {
            return self.retry_at;
        }
        let wait = match synced_bytes.saturating_sub(self.saved_bytes) {
            0 => return None,
            lag if lag >= self.options.segment_bytes => self.options.min_gap,
            _ if self.options.interval == Duration::MAX => return None,
            _ => self.options.interval,
        };
        Some(self.saved_at.saturating_add(nanos(wait)))
    }

    /// Whether the manifest does not say yet that so much is synced.
    pub(crate) fn is_news(&self, synced_bytes: u64) -> bool {
        synced_bytes > self.saved_bytes
    }

    /// Segments by which the position lags.
    pub(crate) fn lag_segments(&self, synced_bytes: u64) -> u64 {
        synced_bytes.saturating_sub(self.saved_bytes) / self.options.segment_bytes.max(1)
    }

    /// Whether the live manifest ends in a record that failed and held no more than a position: it goes on in a new file.
    pub(crate) fn has_failed(&self) -> bool {
        self.retry_at.is_some()
    }

    /// The manifest says at `now` that so much is synced.
    pub(crate) fn saved(&mut self, synced_bytes: u64, now: u64) {
        (self.saved_bytes, self.saved_at, self.retry_at) = (synced_bytes, now, None);
        self.saves += 1;
    }

    /// A save that held nothing else failed at `now`; it does not count as one.
    pub(crate) fn failed(&mut self, now: u64) {
        self.retry_at = Some(now.saturating_add(nanos(self.options.min_gap)));
        self.failures += 1;
    }

    /// The manifest was written anew without a new position.
    pub(crate) fn healed(&mut self) {
        self.retry_at = None;
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const MILLI: u64 = 1_000_000;

    fn plan() -> PositionPlan {
        let options = PositionOptions {
            segment_bytes: 1000,
            interval: Duration::from_secs(10),
            min_gap: Duration::from_millis(300),
        };
        PositionPlan::new(options, 0, 0)
    }

    /// write-path D13, the plan's part: the interval begins anew with each save, not with the open.
    #[test]
    fn d13_the_interval_begins_with_each_save() {
        let mut plan = plan();
        let mut saves = Vec::new();
        for second in 1..=40 {
            let synced = second * 10;
            if plan.due_at(synced).is_some_and(|due| due <= second * SECOND) {
                plan.saved(synced, second * SECOND);
                saves.push(second);
            }
        }
        assert_eq!(saves, [10, 20, 30, 40]);
    }

    /// A lag of a segment is recorded at once, but never twice within the gap; a failure is made up for after it.
    #[test]
    fn a_segment_of_lag_is_due() {
        let mut plan = plan();
        assert_eq!(plan.due_at(0), None);
        assert_eq!(plan.due_at(999), Some(10 * SECOND));
        assert_eq!((plan.due_at(1000), plan.lag_segments(2500)), (Some(300 * MILLI), 2));
        plan.saved(1000, SECOND);
        assert_eq!(plan.due_at(1000), None);
        assert_eq!(plan.due_at(2000), Some(SECOND + 300 * MILLI));
        plan.failed(2 * SECOND);
        assert_eq!((plan.due_at(2000), plan.has_failed()), (Some(2 * SECOND + 300 * MILLI), true));
        plan.saved(2000, 3 * SECOND);
        assert!(!plan.has_failed() && !plan.is_news(2000));
        assert_eq!((plan.saves, plan.failures), (2, 1));
    }
}
