//! The pacer: a GCRA token bucket in bytes, outside every queue and lock.
//!
//! Two running sums decide everything: bytes *earned* (time times rate) and bytes *claimed*. Their difference is the
//! balance: credit above 0, debt below. A claim's [`Position`] is the sum claimed up to and including it; it may pass
//! when so much is earned. So a change of rate re-prices every sleeper by itself, and one that leaves moves those
//! behind it up by its bytes. Sources, threads and who waits are not known here.

/// Nanobytes (10^-9 B) per byte.
const NANO: i128 = 1_000_000_000;

/// The sum claimed up to and including one claim, in nanobytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position(i128);

impl Position {
    /// The position after a claim of `bytes` ahead of it was taken out.
    pub(crate) fn moved_up(self, bytes: u64) -> Self {
        Self(self.0 - i128::from(bytes) * NANO)
    }
}

/// Whether a claim passes at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claimed {
    /// Within credit, or owing at most one quantum.
    Passed,
    /// It must wait until its position is earned.
    At(Position),
}

/// The bucket. All times are nanoseconds of one clock, all rates bytes per second.
#[derive(Debug)]
pub(crate) struct Pacer {
    earned: i128,
    claimed: i128,
    rate: u64,
    /// Up to when `earned` is true.
    at: u64,
    /// While stopped, and while nothing delays, nothing accrues.
    frozen: bool,
    quantum: u64,
    credit: u64,
    lost: i128,
}

impl Pacer {
    /// An empty pacer: neither debt nor credit. It accrues.
    pub(crate) fn new(rate: u64, quantum: u64, credit: u64, now: u64) -> Self {
        Self { earned: 0, claimed: 0, rate: rate.max(1), at: now, frozen: false, quantum, credit, lost: 0 }
    }

    /// The same, accruing nothing until [`set`](Self::set).
    pub(crate) fn frozen(self) -> Self {
        Self { frozen: true, ..self }
    }

    /// Books what was earned until `now`, and returns the time that it now stands at: later than `now` for a caller that
    /// read the clock, and was then overtaken by another.
    pub(crate) fn accrue(&mut self, now: u64) -> u64 {
        if !self.frozen {
            // The bound on credit makes the exact gain of ages irrelevant: saturating is enough.
            let gain = u128::from(now.saturating_sub(self.at)) * u128::from(self.rate);
            self.earned = self.earned.saturating_add(i128::try_from(gain).unwrap_or(i128::MAX));
            self.cap();
        }
        self.at = self.at.max(now);
        self.at
    }

    /// Claims `bytes` for somebody who is ready to wait.
    pub(crate) fn claim(&mut self, bytes: u64, now: u64) -> Claimed {
        self.accrue(now);
        self.claimed += i128::from(bytes) * NANO;
        if self.wait_for(self.claimed) <= u128::from(self.quantum) {
            Claimed::Passed
        } else {
            Claimed::At(Position(self.claimed))
        }
    }

    /// Claims `bytes` if that passes at once; else claims nothing.
    pub(crate) fn try_claim(&mut self, bytes: u64, now: u64) -> bool {
        self.accrue(now);
        let claimed = self.claimed + i128::from(bytes) * NANO;
        let passes = self.wait_for(claimed) <= u128::from(self.quantum);
        if passes {
            self.claimed = claimed;
        }
        passes
    }

    /// Whether everything up to `position` is earned; [`accrue`](Self::accrue) first.
    pub(crate) fn is_earned(&self, position: Position) -> bool {
        self.earned >= position.0
    }

    /// When `position` will be earned at the present rate; `None` while nothing accrues.
    pub(crate) fn earned_at(&self, position: Position) -> Option<u64> {
        if self.frozen {
            return None;
        }
        let wait = u64::try_from(self.wait_for(position.0)).unwrap_or(u64::MAX);
        Some(self.at.saturating_add(wait))
    }

    /// Takes a claim out again that was not used; those behind move up with [`Position::moved_up`].
    pub(crate) fn withdraw(&mut self, bytes: u64, now: u64) {
        self.accrue(now);
        self.claimed -= i128::from(bytes) * NANO;
        self.cap();
    }

    /// From `now` on bytes accrue at `rate`, or, if `frozen`, not at all.
    pub(crate) fn set(&mut self, rate: u64, frozen: bool, now: u64) {
        self.accrue(now);
        self.rate = rate.max(1);
        self.frozen = frozen;
        self.cap();
    }

    /// A delay ends: neither debt nor credit outlives it.
    pub(crate) fn reset(&mut self, now: u64) {
        self.earned = 0;
        self.claimed = 0;
        self.at = self.at.max(now);
    }

    /// Bytes of credit (above 0) or debt (below) as of the last accrual, rounded towards 0.
    pub(crate) fn balance(&self) -> i128 {
        (self.earned - self.claimed) / NANO
    }

    /// Bytes that the bound on credit has cut off.
    pub(crate) fn lost_bytes(&self) -> u64 {
        u64::try_from(self.lost / NANO).unwrap_or(u64::MAX)
    }

    fn cap(&mut self) {
        let most = self.claimed + i128::from(self.rate) * i128::from(self.credit);
        if self.earned > most {
            self.lost = self.lost.saturating_add(self.earned.saturating_sub(most));
            self.earned = most;
        }
    }

    /// Nanoseconds until the sum `until` is earned, rounded up.
    fn wait_for(&self, until: i128) -> u128 {
        let missing = u128::try_from(until - self.earned).unwrap_or(0);
        missing.div_ceil(u128::from(self.rate))
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
