//! [`Histogram`]: how often a number lay in which range, counted without a lock.
//!
//! Each power of two is cut into four ranges, so a percentile is right to a quarter of its value. Values below 4 are exact.
//! Recording is two relaxed additions and at most one `fetch_max`. What is counted is not known here.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Ranges per power of two, as a power of two.
const SUB_BITS: u32 = 2;
const SUBS: usize = 1 << SUB_BITS;
/// Ranges in all: values of 64 bits.
const RANGES: usize = (64 - SUB_BITS as usize + 1) * SUBS;

/// Counts of values by range.
pub(crate) struct Histogram {
    counts: [AtomicU64; RANGES],
    sum: AtomicU64,
    max: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// One that has seen nothing.
    pub(crate) const fn new() -> Self {
        Self { counts: [const { AtomicU64::new(0) }; RANGES], sum: AtomicU64::new(0), max: AtomicU64::new(0) }
    }

    /// Counts one value.
    #[inline]
    pub(crate) fn record(&self, value: u64) {
        // Statistics throughout: nobody decides anything by them.
        self.counts[range_of(value)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
        if value > self.max.load(Ordering::Relaxed) {
            self.max.fetch_max(value, Ordering::Relaxed);
        }
    }

    /// A copy that stands still.
    pub(crate) fn summary(&self) -> Summary {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts: Vec<u64> = self.counts.iter().map(read).collect();
        let count: u64 = counts.iter().sum();
        let max = read(&self.max);
        let quantile = |percent: u64| {
            let rank = (count * percent).div_ceil(100).max(1);
            let mut below = 0;
            let range = counts.iter().position(|n| {
                below += n;
                below >= rank
            });
            range.map_or(0, |range| upper_end(range).min(max))
        };
        Summary { count, sum: read(&self.sum), max, p50: quantile(50), p99: quantile(99) }
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary().fmt(f)
    }
}

/// What a [`Histogram`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Summary {
    pub(crate) count: u64,
    pub(crate) sum: u64,
    pub(crate) max: u64,
    /// Median and 99th percentile, each the upper end of its range.
    pub(crate) p50: u64,
    pub(crate) p99: u64,
}

impl Summary {
    /// The mean, rounded down; 0 of nothing.
    pub(crate) fn mean(&self) -> u64 {
        self.sum.checked_div(self.count).unwrap_or(0)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, max, p50, p99, .. } = self;
        write!(f, "count {count}, mean {}, p50 {p50}, p99 {p99}, max {max}", self.mean())
    }
}

#[inline]
fn range_of(value: u64) -> usize {
    if value < SUBS as u64 {
        return value as usize;
    }
    let shift = 63 - value.leading_zeros() - SUB_BITS;
    (shift as usize + 1) * SUBS + (value >> shift) as usize - SUBS
}

/// The largest value of a range.
fn upper_end(range: usize) -> u64 {
    if range < SUBS {
        return range as u64;
    }
    let shift = range / SUBS - 1;
    let first = ((range % SUBS + SUBS) as u64) << shift;
    first + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every value lies in a range whose end is at most a quarter above it, and ranges do not overlap.
    #[test]
    fn ranges_hold_their_values() {
        let around = |power: u32| [1_u64 << power, (1 << power) + 1, (1_u64 << power).wrapping_sub(1)];
        for value in (0..64).flat_map(around).chain([0, 3, 5, 1000, u64::MAX]) {
            let range = range_of(value);
            assert!(range < RANGES);
            assert!(upper_end(range) >= value && upper_end(range) - value <= value / 4, "{value}");
            assert!(range == 0 || upper_end(range - 1) < value, "{value}");
        }
    }

    /// Percentiles, mean and largest value.
    #[test]
    fn a_summary_of_a_hundred() {
        let histogram = Histogram::new();
        (1..=100).for_each(|value| histogram.record(value));
        let summary = histogram.summary();
        assert_eq!((summary.count, summary.sum, summary.max, summary.mean()), (100, 5050, 100, 50));
        assert!((50..=62).contains(&summary.p50) && (99..=100).contains(&summary.p99), "{summary}");
        assert_eq!(Histogram::new().summary(), Summary::default());
    }
}
