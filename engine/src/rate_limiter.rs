//! [`RateLimiter`]: background output within a number of bytes per second, the more urgent first.
//!
//! A bucket that fills with time and may be overdrawn by one request: whoever finds it at or above 0 takes what it needs,
//! and the next waits until the debt is paid. Of those who wait the most urgent goes first, within a priority in order of
//! arrival. What is written, and by whom, is not known here.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sluicedb_controller::Event;

use crate::env::Clock;
use crate::sync::{Mutex, forbid_held_locks};

/// How urgent background output is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IoPriority {
    /// Compactions.
    Low,
    /// Flushes.
    High,
    /// Either of them while writers are delayed or stopped: it goes before everything else.
    User,
}

const PRIORITIES: usize = 3;
const NANOS: i128 = 1_000_000_000;
/// What an idle limiter may save up, as a part of a second: a tenth.
const BURST: i128 = 10;

/// Bounds the bytes per second that flushes and compactions write. May be shared by several databases that use one clock.
///
/// [`DbOptions::rate_limiter`](crate::DbOptions::rate_limiter) takes it. The write-ahead log and reads are not limited.
pub struct RateLimiter {
    bytes_per_second: u64,
    bucket: Mutex<Bucket>,
    /// Rings when somebody has taken: the next may go.
    taken: Event,
    through: [AtomicU64; PRIORITIES],
}

#[derive(Debug, Default)]
struct Bucket {
    /// Nanobytes; below 0 it is overdrawn.
    balance: i128,
    /// Up to when it has been filled, on the clock of who asks.
    at: u64,
    /// Who waits, by priority, in order of arrival.
    waiting: [VecDeque<u64>; PRIORITIES],
    last: u64,
}

impl RateLimiter {
    /// A limiter of so many bytes per second; 0 is taken as 1.
    pub fn new(bytes_per_second: u64) -> Arc<Self> {
        Arc::new(Self {
            bytes_per_second: bytes_per_second.max(1),
            bucket: Mutex::default(),
            taken: Event::new(),
            through: Default::default(),
        })
    }

    /// Bytes per second.
    pub fn bytes_per_second(&self) -> u64 {
        self.bytes_per_second
    }

    /// Bytes that were let through at this priority.
    pub fn total_bytes_through(&self, priority: IoPriority) -> u64 {
        self.through[priority as usize].load(Ordering::Relaxed) // statistics
    }

    /// Returns when `bytes` may be written.
    pub(crate) fn request(&self, clock: &dyn Clock, bytes: u64, priority: IoPriority) {
        let id = self.bucket.lock().join(priority);
        loop {
            let seen = self.taken.rings();
            let wait_until = {
                let mut bucket = self.bucket.lock();
                bucket.fill(self.bytes_per_second, clock.now_nanos());
                if bucket.is_next(id) && bucket.balance >= 0 {
                    bucket.balance -= i128::from(bytes) * NANOS;
                    bucket.waiting[priority as usize].pop_front();
                    break;
                }
                bucket.positive_at(self.bytes_per_second)
            };
            forbid_held_locks("wait for the rate limiter");
            self.taken.wait_past(clock, seen, Some(wait_until).filter(|at| *at > clock.now_nanos()));
        }
        self.through[priority as usize].fetch_add(bytes, Ordering::Relaxed); // statistics
        self.taken.ring();
    }
}

impl Bucket {
    fn join(&mut self, priority: IoPriority) -> u64 {
        self.last += 1;
        self.waiting[priority as usize].push_back(self.last);
        self.last
    }

    /// Whether nobody more urgent waits, and nobody of the same urgency since longer.
    fn is_next(&self, id: u64) -> bool {
        self.waiting.iter().rev().find_map(VecDeque::front) == Some(&id)
    }

    fn fill(&mut self, rate: u64, now: u64) {
        let gain = i128::from(now.saturating_sub(self.at)) * i128::from(rate);
        self.at = self.at.max(now);
        self.balance = self.balance.saturating_add(gain).min(i128::from(rate) * NANOS / BURST);
    }

    /// When the balance will be 0 again, as a time of the clock; now, if it is.
    fn positive_at(&self, rate: u64) -> u64 {
        let missing = u128::try_from(-self.balance).unwrap_or(0).div_ceil(u128::from(rate));
        self.at.saturating_add(u64::try_from(missing).unwrap_or(u64::MAX))
    }
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiter")
            .field("bytes_per_second", &self.bytes_per_second)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluicedb_controller::ManualClock;

    use super::*;

    /// A burst of a tenth of a second, then one request ahead of the rate; each waits for the debt before it.
    #[test]
    fn the_rate_holds() {
        let clock = ManualClock::new_virtual(1);
        let _here = clock.enter_thread();
        let limiter = RateLimiter::new(1_000);
        clock.advance(Duration::from_secs(5));
        let began = clock.now_nanos();
        for bytes in [100, 500, 1_000] {
            limiter.request(&clock, bytes, IoPriority::Low); // the first takes the burst, the second overdraws
        }
        assert_eq!(clock.now_nanos() - began, 500_000_000);
        limiter.request(&clock, 1, IoPriority::High);
        assert_eq!(clock.now_nanos() - began, 1_500_000_000);
        assert_eq!(limiter.total_bytes_through(IoPriority::Low), 1_600);
        assert_eq!(limiter.total_bytes_through(IoPriority::High), 1);
        assert_eq!(limiter.total_bytes_through(IoPriority::User), 0);
    }

    /// Of those who wait the most urgent goes first, whoever came first.
    #[test]
    fn the_urgent_go_first() {
        let clock = ManualClock::new(1);
        let limiter = RateLimiter::new(1_000);
        let order = Mutex::new(Vec::new());
        limiter.request(&clock, 1_000, IoPriority::Low);
        std::thread::scope(|scope| {
            for (already, priority) in
                [(0, IoPriority::Low), (1, IoPriority::High), (2, IoPriority::Low), (3, IoPriority::User)]
            {
                let (clock, limiter, order) = (&clock, &limiter, &order);
                clock.wait_until_waiting(already);
                scope.spawn(move || {
                    limiter.request(clock, 1_000, priority);
                    order.lock().push(priority);
                });
            }
            clock.wait_until_waiting(4);
            for left in (0..4).rev() {
                clock.advance(Duration::from_secs(1));
                while order.lock().len() < 4 - left {
                    std::thread::yield_now();
                }
                clock.wait_until_waiting(left);
            }
        });
        let expected = [IoPriority::User, IoPriority::High, IoPriority::Low, IoPriority::Low];
        assert_eq!(*order.lock(), expected);
    }
}
