//! Latencies that can be read while a run goes on.
//!
//! One [`LiveLatency`] per thread: the thread adds, the monitor reads, and the difference between two reads is an
//! interval. No lock: each counter has one writer, and a reader that is one operation behind does no harm.
//! Buckets are 32 to the power of two, so percentiles are exact to 3 %. Must not know the text block of
//! [`super::histogram`].

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Linear buckets per power of two.
const PER_OCTAVE_BITS: u32 = 5;
const PER_OCTAVE: usize = 1 << PER_OCTAVE_BITS;
/// Values up to 2^40 us are told apart.
const BUCKETS: usize = (40 - PER_OCTAVE_BITS as usize + 1) * PER_OCTAVE;

/// One thread's counters.
#[derive(Debug)]
pub struct LiveLatency {
    counts: [AtomicU64; BUCKETS],
}

impl Default for LiveLatency {
    fn default() -> Self {
        Self { counts: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

fn bucket_of(micros: u64) -> usize {
    if micros < PER_OCTAVE as u64 {
        return micros as usize;
    }
    let shift = 63 - micros.leading_zeros() - PER_OCTAVE_BITS;
    let at = (shift as usize) * PER_OCTAVE + (micros >> shift) as usize;
    at.min(BUCKETS - 1)
}

/// The greatest value of a bucket.
fn greatest_of(bucket: usize) -> u64 {
    if bucket < 2 * PER_OCTAVE {
        return bucket as u64;
    }
    let shift = bucket / PER_OCTAVE - 1;
    let head = (bucket % PER_OCTAVE + PER_OCTAVE) as u64;
    ((head + 1) << shift) - 1
}

impl LiveLatency {
    /// Adds one value. Only the owning thread may.
    #[inline]
    pub fn add(&self, micros: u64) {
        let count = &self.counts[bucket_of(micros)];
        // Relaxed: statistics; no other thread writes.
        count.store(count.load(Relaxed) + 1, Relaxed);
    }
}

/// What several threads' counters stood at.
#[derive(Debug, Clone)]
pub struct Reading {
    counts: Vec<u64>,
}

impl Default for Reading {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS] }
    }
}

impl Reading {
    /// The sum over threads, now.
    pub fn take<'a>(threads: impl Iterator<Item = &'a LiveLatency>) -> Self {
        let mut reading = Self::default();
        for thread in threads {
            for (sum, count) in reading.counts.iter_mut().zip(&thread.counts) {
                *sum += count.load(Relaxed);
            }
        }
        reading
    }

    /// What was added since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self { counts: self.counts.iter().zip(&earlier.counts).map(|(now, then)| now - then).collect() }
    }

    /// The value that a share `p` (0 to 1) of all values does not exceed; `None` without values.
    pub fn percentile(&self, p: f64) -> Option<u64> {
        let total: u64 = self.counts.iter().sum();
        let rank = ((total as f64 * p).ceil() as u64).max(1);
        let mut running = 0;
        let bucket = self.counts.iter().position(|count| {
            running += count;
            running >= rank
        })?;
        Some(greatest_of(bucket))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every value lies in its bucket, and no bucket is wider than a thirty-second of its values.
    #[test]
    fn buckets_are_narrow() {
        for value in (0..2000).chain((0..35).map(|shift| 12_345 << shift)).filter(|value| *value < 1 << 40) {
            let bucket = bucket_of(value);
            let greatest = greatest_of(bucket);
            assert!(
                greatest >= value && greatest - value <= value / 32,
                "{value} in {bucket} up to {greatest}"
            );
            assert!(bucket == 0 || greatest_of(bucket - 1) < value, "{value}");
        }
    }

    /// The difference of two readings holds exactly what came between.
    #[test]
    fn an_interval_is_a_difference() {
        let thread = LiveLatency::default();
        (0..100).for_each(|_| thread.add(5));
        let before = Reading::take([&thread].into_iter());
        (0..10).for_each(|_| thread.add(1000));
        let interval = Reading::take([&thread].into_iter()).since(&before);
        assert_eq!(interval.percentile(0.5), Some(greatest_of(bucket_of(1000))));
        assert_eq!(before.percentile(0.99), Some(5));
        assert_eq!(before.since(&before).percentile(0.5), None);
    }
}
