//! [`FlushPolicy`]: whether another flush is wanted, and which target comes first. Pure arithmetic.
//!
//! Ahead of time (`initiate_flushes`): N thresholds between 0 and 80 % of the quota, one per flush on its way. Else:
//! the rule [`Quota::flush_wanted`]. Largest first, oldest among equals. How flushing works, and threads, is not known
//! here.

use std::cmp::Reverse;

use crate::{Quota, Reclaimable};

/// Flushes asked for, queued and running, and what they will free.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct InFlight {
    /// How many.
    pub(crate) flushes: u64,
    /// Their bytes.
    pub(crate) planned: u64,
    /// The part of [`planned`](Self::planned) that is still in mutable memtables.
    pub(crate) planned_mutable: u64,
}

/// When to ask for a flush.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlushPolicy {
    pub(crate) quota: Quota,
    pub(crate) initiate: bool,
    /// N.
    pub(crate) parallel: u64,
}

impl FlushPolicy {
    /// One N-th of 80 % of the quota.
    pub(crate) const fn step(&self) -> u64 {
        (self.quota.bytes() as u128 * 80 / 100 / self.parallel as u128) as u64
    }

    /// Usage from which on one more flush is wanted beside `pending` of them, which is less than N.
    pub(crate) const fn threshold(&self, pending: u64) -> u64 {
        if pending > 0 {
            return self.step().saturating_mul(1 + pending);
        }
        // The first flush starts before the delay does, whatever N and the delay start are.
        let start = self.quota.delay_start();
        let before_delay = start - start / 8;
        if before_delay < self.step() { before_delay } else { self.step() }
    }

    /// Below this a target is nearly empty.
    #[cfg(all(test, not(loom)))]
    pub(crate) const fn min_size(&self) -> u64 {
        let part = self.quota.bytes() / (2 * self.parallel);
        if part < 64 << 20 { part } else { 64 << 20 }
    }

    /// Whether one more flush is wanted.
    pub(crate) fn wants(&self, flight: InFlight, mutable: u64, used: u64) -> bool {
        if self.quota.bytes() == 0 || flight.flushes >= self.parallel {
            return false;
        }
        let unplanned = used.saturating_sub(flight.planned);
        if self.initiate {
            used >= self.threshold(flight.flushes) && used > 0 && unplanned >= self.step() / 2
        } else {
            self.quota.flush_wanted(mutable.saturating_sub(flight.planned_mutable), unplanned)
        }
    }

    /// The usage below which charges alone cannot make [`wants`](Self::wants) true.
    pub(crate) fn next_edge(&self, flight: InFlight, mutable: u64, used: u64) -> u64 {
        if self.quota.bytes() == 0 || flight.flushes >= self.parallel {
            return u64::MAX;
        }
        if self.initiate {
            return self.threshold(flight.flushes).max(flight.planned + self.step() / 2).max(1);
        }
        let mutable = mutable.saturating_sub(flight.planned_mutable);
        let unplanned = used.saturating_sub(flight.planned);
        let quota = self.quota.bytes();
        let to_limit = (self.quota.mutable_limit() + 1).saturating_sub(mutable);
        let to_quota = quota.saturating_sub(unplanned).max((quota / 2).saturating_sub(mutable));
        used.saturating_add(to_limit.min(to_quota).max(1))
    }

    /// The usage at which to try again after every target refused.
    pub(crate) fn edge_when_unserved(&self, used: u64) -> u64 {
        used.saturating_add((self.step() / 2).max(1))
    }
}

/// Sort key: most bytes first, oldest among equals, the unknown age last.
pub(crate) fn rank(reclaimable: &Reclaimable) -> (Reverse<u64>, u64) {
    (Reverse(reclaimable.bytes), reclaimable.oldest.unwrap_or(u64::MAX))
}

#[cfg(all(test, not(loom)))]
mod tests;
