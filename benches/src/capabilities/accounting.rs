//! B0d: an uncontended push and pop of 256 bytes through a queue that is bounded by bytes, by count, or not at all.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use sluicedb::{Clock, SystemClock};
use sluicedb_wbm::MemoryPool;

use super::figure::{Better, Figure};

const ITEM_BYTES: u64 = 256;
const ITEMS: usize = 10_000;

/// Passes all items through a queue, each with the lease that `admit` gives it. Microseconds.
fn pass<L>(admit: impl Fn() -> Option<L>) -> Option<f64> {
    let queue = Mutex::new(VecDeque::with_capacity(1));
    let start = Instant::now();
    for _ in 0..ITEMS {
        let item = ([0u8; ITEM_BYTES as usize], admit()?);
        queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(item);
        std::hint::black_box(queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front())?;
    }
    Some(start.elapsed().as_secs_f64() * 1e6)
}

/// Measures B0d.
pub fn measure(quick: bool, out: &mut dyn FnMut(Figure)) {
    let clock = || Arc::new(SystemClock) as Arc<dyn Clock>;
    let by_bytes = MemoryPool::new(64 << 20, clock());
    // A bound by count is a pool whose items weigh one.
    let by_count = MemoryPool::new(50, clock());
    let (mut bytes, mut count, mut unbounded) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..if quick { 50 } else { 500 } {
        bytes.extend(pass(|| by_bytes.try_admit(ITEM_BYTES)));
        count.extend(pass(|| by_count.try_admit(1)));
        unbounded.extend(pass(|| Some(())));
    }
    let free = Figure::pair("B0d", "us per 10000", Better::Less, &unbounded, &bytes).reach(0.83);
    let counted = Figure::pair("B0d", "us per 10000", Better::Less, &count, &bytes);
    out(free.with("against_count", counted.ratio).with("count", counted.baseline));
}
