//! [`AutoRate`]: a maximum rate from what flushes really drain, for `delayed_write_rate = Auto`.
//!
//! M = 2 * drain, where the drain is bytes that left memory per second of flush-busy time, times the flushers; so a
//! delay step is 2 % of what the machine can take, whatever the machine. Until a flush has ended, arrivals stand in.
//! Pure: whoever measures hands the numbers in, and the result to [`set_max_rate`](crate::WriteController::set_max_rate).

use std::time::Duration;

/// How long a flush counts, in busy time.
const DRAIN_WINDOW: f64 = 20.0;
/// How long an arrival counts.
const ARRIVAL_WINDOW: f64 = 1.0;

/// Two averages, and the maximum rate that they mean.
#[derive(Debug, Clone, Copy, Default)]
pub struct AutoRate {
    drain: Average,
    arrivals: Average,
}

/// Bytes per second, the past fading exponentially.
#[derive(Debug, Clone, Copy, Default)]
struct Average {
    bytes: f64,
    seconds: f64,
}

impl Average {
    fn add(&mut self, bytes: u64, time: Duration, window: f64) {
        let seconds = time.as_secs_f64();
        let fade = (-seconds / window).exp();
        self.bytes = self.bytes * fade + bytes as f64;
        self.seconds = self.seconds * fade + seconds;
    }

    fn rate(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.bytes / self.seconds)
    }
}

impl AutoRate {
    /// Nothing measured yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A flush ended that was busy for `busy` and freed `bytes`. One that took no time tells nothing.
    pub fn flushed(&mut self, bytes: u64, busy: Duration) {
        if !busy.is_zero() {
            self.drain.add(bytes, busy, DRAIN_WINDOW);
        }
    }

    /// Writers brought `bytes` within the last `time`.
    pub fn arrived(&mut self, bytes: u64, time: Duration) {
        self.arrivals.add(bytes, time, ARRIVAL_WINDOW);
    }

    /// Bytes per second with `flushers` flushes at once; `None` before anything was measured.
    pub fn max_rate(&self, flushers: u32) -> Option<u64> {
        let drain = self.drain.rate().map(|rate| rate * f64::from(flushers));
        Some((2.0 * drain.or(self.arrivals.rate())?).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DelayStep, derived_rate};

    /// `pressure X3`: arrivals until a flush has ended, then the drain; fractions keep their meaning.
    #[test]
    fn twice_the_drain() {
        const MB: u64 = 1_000_000;
        let second = Duration::from_secs(1);
        let mut auto = AutoRate::new();
        assert_eq!(auto.max_rate(1), None);
        auto.arrived(50 * MB, second);
        assert_eq!(auto.max_rate(1), Some(100 * MB));
        auto.flushed(7 * MB, Duration::ZERO);
        assert_eq!(auto.max_rate(1), Some(100 * MB));
        auto.flushed(60 * MB, second);
        assert_eq!(auto.max_rate(1), Some(120 * MB));
        let half = DelayStep::new(50).unwrap().into();
        assert_eq!(derived_rate(half, 120 * MB), 60 * MB);
        // The old drain fades with busy time, not with time.
        (0..1_000).for_each(|_| auto.flushed(30 * MB, second));
        assert_eq!(derived_rate(half, auto.max_rate(1).unwrap()), 30 * MB);
        assert_eq!(auto.max_rate(2), Some(120 * MB));
    }
}
