//! How long a thread goes on: so many operations, or until a time.
//!
//! Owns the stop rule of a benchmark loop: exactly `max_ops` (a batch that does not fit is left out), or the clock
//! alone, looked at every so many operations. A failure on another thread ends every budget.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// One thread's stop rule.
#[derive(Debug)]
pub struct Budget<'a> {
    ops: u64,
    max_ops: u64,
    deadline: Option<Instant>,
    check_every: u64,
    next_check: u64,
    stop: &'a AtomicBool,
}

impl<'a> Budget<'a> {
    /// `seconds` > 0: only the clock counts. `stop` ends it early.
    pub fn new(max_ops: u64, seconds: u64, check_every: u64, stop: &'a AtomicBool) -> Self {
        let deadline = (seconds > 0).then(|| Instant::now() + Duration::from_secs(seconds));
        Self { ops: 0, max_ops, deadline, check_every, next_check: check_every, stop }
    }

    /// Whether `count` more operations may run; counts them if so.
    #[inline]
    pub fn take(&mut self, count: u64) -> bool {
        // Relaxed: a late look only means a few operations more.
        if self.stop.load(Relaxed) {
            return false;
        }
        let ops = self.ops + count;
        if self.deadline.is_none() {
            if ops > self.max_ops {
                return false;
            }
        } else if ops >= self.next_check {
            self.next_check = ops + self.check_every;
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return false;
            }
        }
        self.ops = ops;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Batches that do not fit are left out; a set stop flag ends at once.
    #[test]
    fn counts_are_exact() {
        let stop = AtomicBool::new(false);
        let count = |max, batch| {
            let mut budget = Budget::new(max, 0, 1000, &stop);
            std::iter::repeat_n((), 1_000_000).take_while(|()| budget.take(batch)).count()
        };
        assert_eq!(count(10, 1), 10);
        assert_eq!(count(10, 3), 3);
        assert_eq!(count(0, 1), 0);
        stop.store(true, Relaxed);
        assert_eq!(count(10, 1), 0);
    }
}
