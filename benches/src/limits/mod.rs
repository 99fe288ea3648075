//! What this machine allows: its constants, measured, and the limit that they set to each workload.
//!
//! The constants: [`memory`], [`storage`], [`primitives`]. What limits a workload, by arithmetic on them: [`model`].
//! What the database reaches in the same run: [`ours`]. A share above 100 % says that the model is too strict there,
//! one far below says where work is left.

pub mod memory;
pub mod model;
pub mod ours;
pub mod primitives;
pub mod skiplist;
pub mod storage;

use std::time::Instant;

/// Runs `work` and returns its seconds.
pub fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// Runs `work`, which does `operations`, three times and returns the nanoseconds per operation of the fastest run.
pub fn nanos_each(operations: usize, mut work: impl FnMut()) -> f64 {
    let fastest = (0..3).map(|_| seconds(&mut work)).fold(f64::INFINITY, f64::min);
    fastest * 1e9 / operations as f64
}

/// The middle of these samples; 0 if there are none.
pub fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}
