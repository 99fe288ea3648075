//! B3: trivial jobs through one worker, by the slot and by the ring, from the first hand-over to the last result.

use std::time::Instant;

use sluicedb::bench_arms::RingWorker;

use super::allocations;
use super::figure::{Better, Figure};
use super::sample::median;
use super::slot::Slot;

/// One way of handing jobs over.
trait Arm {
    /// Runs `count` jobs that return their index and checks what they return.
    fn round(&self, count: usize) -> bool;
}

impl Arm for Slot {
    fn round(&self, count: usize) -> bool {
        (0..count).all(|n| self.submit(move || n) == n)
    }
}

struct Single(RingWorker);

impl Arm for Single {
    fn round(&self, count: usize) -> bool {
        let jobs: Vec<_> = (0..count).map(|n| self.0.submit(move || n)).collect();
        jobs.into_iter().enumerate().all(|(n, job)| job.wait() == Some(n))
    }
}

struct Bulk(RingWorker);

impl Arm for Bulk {
    fn round(&self, count: usize) -> bool {
        let results = self.0.submit_bulk((0..count).map(|n| move || n)).wait();
        results.len() == count && results.into_iter().enumerate().all(|(n, result)| result == Some(n))
    }
}

/// What the rounds of one arm took, in microseconds, and allocated.
#[derive(Default)]
struct Rounds {
    micros: Vec<f64>,
    allocations: Vec<f64>,
}

impl Rounds {
    fn add(&mut self, arm: &dyn Arm, count: usize) -> bool {
        let (before, start) = (allocations::count(), Instant::now());
        let right = arm.round(count);
        self.micros.push(start.elapsed().as_secs_f64() * 1e6);
        self.allocations.push((allocations::count() - before) as f64);
        right
    }
}

const CASES: [(usize, &str, f64, Option<&str>); 4] = [
    (1, "B3.n1", 0.99, None),
    (10, "B3.n10", 0.99, None),
    (100, "B3.n100", 1.93, Some("B3.bulk100")),
    (1000, "B3.n1000", 1.91, Some("B3.bulk1000")),
];

/// Measures the figures B3 and hands each to `out` as soon as it is known.
///
/// # Errors
///
/// If a worker cannot be started.
pub fn measure(quick: bool, out: &mut dyn FnMut(Figure)) -> std::io::Result<()> {
    let (slot, single, bulk) = (Slot::start()?, Single(RingWorker::start()?), Bulk(RingWorker::start()?));
    let mut worst: Option<Figure> = None;
    for (count, id, reach, bulk_id) in CASES {
        let (mut old, mut new, mut all) = (Rounds::default(), Rounds::default(), Rounds::default());
        // The first rounds warm up.
        let mut right = slot.round(count) && single.round(count) && bulk.round(count);
        for _ in 0..if quick { 40 } else { 400 } {
            right &= old.add(&slot, count) && new.add(&single, count) && all.add(&bulk, count);
        }
        if !right {
            out(Figure::failed(id, "us", "a job returned a wrong value"));
            continue;
        }
        let per_round = |rounds: &Rounds| median(&rounds.allocations);
        out(Figure::pair(id, "us", Better::Less, &old.micros, &new.micros)
            .reach(reach)
            .with("allocations.slot", per_round(&old))
            .with("allocations.submit", per_round(&new))
            .with("allocations.submit_bulk", per_round(&all)));
        if let Some(bulk_id) = bulk_id {
            out(Figure::pair(bulk_id, "us", Better::Less, &new.micros, &all.micros).reach(1.0));
        }
        let allocated =
            Figure::pair("B3.allocs", "allocations", Better::Less, &old.allocations, &new.allocations)
                .reach(1.75)
                .with("jobs", count);
        if count > 1 && worst.as_ref().is_none_or(|worst| allocated.ratio < worst.ratio) {
            worst = Some(allocated);
        }
    }
    if let Some(worst) = worst {
        out(worst);
    }
    Ok(())
}
