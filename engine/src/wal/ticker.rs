//! [`SyncTicker`]: when the log is synced in the background, for writers that do not ask for it.
//!
//! | cause | due |
//! |---|---|
//! | interval | that long after the first byte that is not synced; a late tick, or a segment's end, shifts the next one |
//! | bytes | when so many bytes are not synced |
//! | idle | when the commit queue is empty and bytes are not synced |
//!
//! The leader only notes that there is something; a background job syncs, without the lead. Reads the clock when a first
//! byte comes, not for each append.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::durability::Durability;
use crate::env::Clock;

/// Says when a background sync is due.
#[derive(Debug)]
pub(crate) struct SyncTicker {
    clock: Arc<dyn Clock>,
    /// In nanoseconds; 0 = off. Changeable live.
    interval: AtomicU64,
    /// Unsynced bytes that make a sync due; 0 = off.
    bytes: u64,
    on_idle: bool,
    /// When the first byte came that is not synced, as far as is known; 0 while there is none.
    since: AtomicU64,
    /// A sync is due now, whatever the time.
    is_wanted: AtomicBool,
    is_running: AtomicBool,
}

impl SyncTicker {
    pub(crate) fn new(clock: &Arc<dyn Clock>, interval: Duration, bytes: u64, on_idle: bool) -> Self {
        let ticker = Self {
            clock: Arc::clone(clock),
            interval: AtomicU64::new(0),
            bytes,
            on_idle,
            since: AtomicU64::new(0),
            is_wanted: AtomicBool::new(false),
            is_running: AtomicBool::new(false),
        };
        ticker.set_interval(interval);
        ticker
    }

    /// Takes effect with the next look of the background thread.
    pub(crate) fn set_interval(&self, interval: Duration) {
        let nanos = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        self.interval.store(nanos, Ordering::Relaxed); // whoever reads the old one looks again soon
    }

    /// Called by the leader after an append that it did not sync. Whether the background thread should look now. Where a
    /// segment's end was synced on the way (`synced_some`), only this append's bytes can be unsynced: the interval begins anew.
    #[inline]
    pub(crate) fn note_append(&self, log: &Durability, synced_some: bool) -> bool {
        if synced_some {
            self.since.store(self.clock.now_nanos().max(1), Ordering::Release);
        }
        // The append moved its mark under the log's lock before this load: see `end`.
        let is_first = self.since.load(Ordering::Relaxed) == 0 && self.begin_interval();
        is_first | (self.bytes > 0 && unsynced(log) >= self.bytes && self.want())
    }

    /// Whether an empty queue is of interest.
    #[inline]
    pub(crate) fn watches_idle(&self) -> bool {
        self.on_idle
    }

    /// Called by the leader when it leaves an empty queue. Whether the background thread should look now.
    pub(crate) fn note_idle(&self, log: &Durability) -> bool {
        self.on_idle && unsynced(log) > 0 && self.want()
    }

    #[cold]
    fn begin_interval(&self) -> bool {
        let now = self.clock.now_nanos().max(1);
        self.since.compare_exchange(0, now, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn want(&self) -> bool {
        !self.is_wanted.swap(true, Ordering::AcqRel)
    }

    /// When a sync is due, on the clock; `None` while there is nothing to sync, or a sync runs.
    pub(crate) fn due_at(&self) -> Option<u64> {
        if self.is_running.load(Ordering::Acquire) {
            return None;
        }
        if self.is_wanted.load(Ordering::Acquire) {
            return Some(0);
        }
        let (since, interval) = (self.since.load(Ordering::Acquire), self.interval.load(Ordering::Relaxed));
        (since > 0 && interval > 0).then(|| since.saturating_add(interval))
    }

    /// The sync that is due begins; false if one runs.
    pub(crate) fn begin(&self) -> bool {
        let begun = !self.is_running.swap(true, Ordering::AcqRel);
        if begun {
            // Before the sync looks how far the log goes: what wants one later is not covered by this one.
            self.is_wanted.store(false, Ordering::Release);
        }
        begun
    }

    /// The sync has ended: the interval begins anew if bytes came meanwhile.
    pub(crate) fn end(&self, log: &Durability) {
        if unsynced(log) > 0 {
            self.since.store(self.clock.now_nanos().max(1), Ordering::Release);
        } else {
            self.since.store(0, Ordering::Release);
            // An append noted its mark under the log's lock, which `unsynced` takes: either it is seen here, or its
            // leader came to that lock later and sees the zero.
            if unsynced(log) > 0 {
                self.begin_interval();
            }
        }
        self.is_running.store(false, Ordering::Release);
    }
}

fn unsynced(log: &Durability) -> u64 {
    let marks = log.watermarks();
    marks.appended.bytes.saturating_sub(marks.synced.bytes)
}

#[cfg(test)]
mod tests {
    use sluicedb_controller::ManualClock;

    use super::*;
    use crate::durability::Position;
    use crate::key::SequenceNumber;

    fn at(bytes: u64) -> Position {
        Position { bytes, seq: SequenceNumber::new(bytes) }
    }

    /// The interval begins with the first unsynced byte, anew after a sync that left some, and not for nothing.
    #[test]
    fn the_interval_begins_with_the_first_byte() {
        let clock = ManualClock::new(1_000);
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        let ticker = SyncTicker::new(&shared, Duration::from_nanos(100), 0, false);
        let log = Durability::new(at(0));
        assert_eq!(ticker.due_at(), None);
        log.note(at(10), Some(at(10)));
        assert!(ticker.note_append(&log, false));
        clock.advance(Duration::from_nanos(60));
        log.note(at(20), Some(at(20)));
        assert!(!ticker.note_append(&log, false) && !ticker.note_idle(&log));
        assert_eq!(ticker.due_at(), Some(1_100));
        clock.advance(Duration::from_nanos(90));
        assert!(ticker.begin() && !ticker.begin());
        log.advance(at(20));
        log.note(at(30), Some(at(30)));
        assert_eq!((ticker.note_append(&log, false), ticker.due_at()), (false, None));
        ticker.end(&log);
        assert_eq!(ticker.due_at(), Some(1_250), "late ticks shift");
        assert!(ticker.begin());
        log.advance(at(30));
        ticker.end(&log);
        assert_eq!(ticker.due_at(), None);
        log.note(at(40), Some(at(40)));
        assert!(ticker.note_append(&log, false));
        clock.advance(Duration::from_nanos(50));
        log.advance(at(35));
        log.note(at(45), Some(at(40)));
        ticker.note_append(&log, true);
        assert_eq!(ticker.due_at(), Some(1_300), "a segment's end");
        ticker.set_interval(Duration::ZERO);
        log.note(at(50), None);
        ticker.note_append(&log, false);
        assert_eq!(ticker.due_at(), None, "off");
        ticker.set_interval(Duration::from_nanos(5));
        assert_eq!(ticker.due_at(), Some(1_205));
    }

    /// Bytes and idleness make a sync due at once, and ask once.
    #[test]
    fn bytes_and_idleness() {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(1_000));
        let ticker = SyncTicker::new(&clock, Duration::ZERO, 25, true);
        let log = Durability::new(at(0));
        assert!(!ticker.note_idle(&log), "nothing to sync");
        log.note(at(10), None);
        ticker.note_append(&log, false);
        assert_eq!(ticker.due_at(), None);
        log.note(at(30), None);
        assert!(ticker.note_append(&log, false) && !ticker.note_append(&log, false));
        assert_eq!(ticker.due_at(), Some(0));
        assert!(ticker.begin());
        log.note(at(30), Some(at(30)));
        log.advance(at(30));
        ticker.end(&log);
        assert_eq!(ticker.due_at(), None);
        log.note(at(31), Some(at(31)));
        assert!(ticker.note_idle(&log) && !ticker.note_idle(&log));
        assert_eq!(ticker.due_at(), Some(0));
    }
}
