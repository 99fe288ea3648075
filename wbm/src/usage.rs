//! [`Usage`]: the counters of one manager; [`UsageReport`]: the same as numbers, also for one database.
//!
//! They always count, whatever the quota is. A counter moves with one atomic addition; only [`Usage::used`] and
//! [`Usage::queued`] decide anything, the rest is for people. The quota is not known here.

use crate::sync::atomic::{AtomicU64, Ordering};

/// Bytes by state. `used` is what a flush can free: mutable + sealed + flushing; `immutable` is sealed + flushing.
///
/// Alone on its cache lines: writers of all threads add to it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Usage {
    pub(crate) used: AtomicU64,
    pub(crate) queued: AtomicU64,
    pub(crate) flush_written: AtomicU64,
    pub(crate) immutable: AtomicU64,
    pub(crate) flushing: AtomicU64,
    pub(crate) pinned: AtomicU64,
    pub(crate) overhead: AtomicU64,
}

/// Bytes of a manager, or of one database, by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageReport {
    /// What a flush can free: mutable + sealed + flushing. The number that pressure is made of.
    pub used: u64,
    /// In memtables that take writes.
    pub mutable: u64,
    /// In memtables switched out of service whose flush has not begun.
    pub sealed: u64,
    /// In memtables that a flush job has picked.
    pub flushing: u64,
    /// In memtables that no flush can free any more but that something still holds. No part of the pressure.
    pub pinned: u64,
    /// Fixed cost of memtables, empty ones too. No part of the pressure.
    pub overhead: u64,
    /// In batches that wait for commit. Part of the step, never of the stop.
    pub queued: u64,
}

impl UsageReport {
    /// Sealed + flushing.
    pub const fn immutable(&self) -> u64 {
        self.sealed + self.flushing
    }

    /// All memory held: used + pinned + overhead.
    pub const fn resident(&self) -> u64 {
        self.used + self.pinned + self.overhead
    }
}

/// Moves a counter from `before` to `after`, either way.
pub(crate) fn shift(counter: &AtomicU64, before: u64, after: u64) {
    if before != after {
        counter.fetch_add(after.wrapping_sub(before), Ordering::SeqCst);
    }
}

impl Usage {
    /// Bytes that the step follows, given the bytes used: with what waits for commit, less what flushes have written.
    #[inline]
    pub(crate) fn load_of(&self, used: u64) -> u64 {
        // SeqCst: paired with the publisher, see `Signal`.
        let queued = self.queued.load(Ordering::SeqCst);
        let written = self.flush_written.load(Ordering::SeqCst);
        used.saturating_sub(written).saturating_add(queued)
    }

    /// A snapshot. The counters are read one by one: while writers run, the parts may be some bytes apart.
    pub(crate) fn report(&self) -> UsageReport {
        let get = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        let used = get(&self.used);
        let immutable = get(&self.immutable).min(used);
        let flushing = get(&self.flushing).min(immutable);
        UsageReport {
            used,
            mutable: used - immutable,
            sealed: immutable - flushing,
            flushing,
            pinned: get(&self.pinned),
            overhead: get(&self.overhead),
            queued: get(&self.queued),
        }
    }
}
