//! A rate that several threads share: so many tokens per second, handed out in order.
//!
//! Owns the arithmetic of a virtual clock that each request moves on. Must not know what a token is (bytes written,
//! operations read). Whoever waited here takes the wait out of its latency.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Tokens that an idle spell may save up, as time.
const BURST: Duration = Duration::from_millis(1);

/// A shared rate limit.
#[derive(Debug)]
pub struct RateLimiter {
    nanos_per_token: f64,
    /// When the next request may begin; behind the clock after an idle spell.
    next: Mutex<Instant>,
}

impl RateLimiter {
    /// A limiter of `rate` tokens per second, or none for 0.
    pub fn new(rate: u64) -> Option<Self> {
        (rate > 0).then(|| Self { nanos_per_token: 1e9 / rate as f64, next: Mutex::new(Instant::now()) })
    }

    /// Waits until `tokens` more are due. Says whether it slept.
    pub fn take(&self, tokens: u64) -> bool {
        let now = Instant::now();
        let start = self.reserve(tokens, now);
        let Some(wait) = start.checked_duration_since(now).filter(|wait| !wait.is_zero()) else {
            return false;
        };
        std::thread::sleep(wait);
        true
    }

    /// Books `tokens` and says when their turn begins.
    fn reserve(&self, tokens: u64, now: Instant) -> Instant {
        let cost = Duration::from_nanos((tokens as f64 * self.nanos_per_token) as u64);
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let start = now.checked_sub(BURST).map_or(*next, |earliest| earliest.max(*next));
        *next = start + cost;
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1000 tokens at 1000 a second take a second, however they are asked for; idle time is not hoarded.
    #[test]
    fn turns_are_spaced_by_the_rate() {
        let limiter = RateLimiter::new(1000).unwrap();
        let begin = Instant::now();
        for turn in 0..10 {
            let start = limiter.reserve(100, begin);
            let due = begin + Duration::from_millis(100 * turn);
            assert!(start <= due && start + 2 * BURST >= due, "turn {turn}");
        }
        let later = begin + Duration::from_secs(60);
        assert!(limiter.reserve(1, later) + BURST >= later);
        assert!(RateLimiter::new(0).is_none());
    }
}
