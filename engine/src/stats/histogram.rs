//! [`Histogram`]: how long things took, in buckets of powers of two. What is timed is not known here.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bucket `n` holds samples below 2^n that no earlier bucket holds.
const BUCKETS: usize = 65;

/// Counts samples, in whatever unit; relaxed, like all statistics.
#[derive(Debug)]
pub(crate) struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
    max: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
            sum: AtomicU64::new(0),
            max: AtomicU64::new(0),
        }
    }
}

/// What a histogram has counted. Count, sum and maximum are exact, percentiles within a factor of two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistogramSummary {
    /// Samples.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// The largest.
    pub max: u64,
    /// No more than half of the samples are larger than this.
    pub p50: u64,
    /// No more than one in twenty is.
    pub p95: u64,
    /// No more than one in a hundred is.
    pub p99: u64,
}

impl Histogram {
    pub(crate) fn record(&self, sample: u64) {
        let bucket = (u64::BITS - sample.leading_zeros()) as usize;
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(sample, Ordering::Relaxed);
        self.max.fetch_max(sample, Ordering::Relaxed);
    }

    pub(crate) fn summary(&self) -> HistogramSummary {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        let count: u64 = counts.iter().sum();
        let max = self.max.load(Ordering::Relaxed);
        let at = |percent: u64| {
            let wanted = (count * percent).div_ceil(100);
            let mut seen = 0;
            let bucket = counts.iter().position(|in_bucket| {
                seen += in_bucket;
                seen >= wanted
            });
            bucket
                .map_or(0, |bucket| 1_u64.checked_shl(bucket as u32).map_or(u64::MAX, |bound| bound - 1))
                .min(max)
        };
        let sum = self.sum.load(Ordering::Relaxed);
        HistogramSummary { count, sum, max, p50: at(50), p95: at(95), p99: at(99) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Count, sum and maximum are exact; percentiles are bounds within a factor of two.
    #[test]
    fn samples_are_counted() {
        let histogram = Histogram::default();
        assert_eq!(histogram.summary(), HistogramSummary::default());
        (1..=100).for_each(|sample| histogram.record(sample));
        let summary = histogram.summary();
        assert_eq!((summary.count, summary.sum, summary.max), (100, 5_050, 100));
        assert_eq!((summary.p50, summary.p95, summary.p99), (63, 100, 100));
        histogram.record(0);
        histogram.record(u64::MAX);
        assert_eq!((histogram.summary().count, histogram.summary().max), (102, u64::MAX));
    }
}
