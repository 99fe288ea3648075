//! Iterators: `readseq`, `readreverse`, `readtocache`, `seekrandom`, `newiterator`.
//!
//! Owns their loops. Whole-database scans read the default column family of each database in turn and never wrap.

use sluicedb::{DbIterator, Error};

use super::keys::KeyBuffer;
use super::stats::Op;
use super::worker::{Failure, Worker};

/// Reads up to `reads` entries per thread, forwards or backwards.
pub fn whole(worker: &mut Worker<'_>, backwards: bool) -> Result<(), Failure> {
    let run = worker.run;
    let failed = |error| Failure::of("iterator", &error);
    let mut budget = worker.counted(run.plan.reads);
    for open in &run.target.dbs {
        let mut iter = open.db.iter_cf_opt(&open.families[0], run.read_options).map_err(failed)?;
        if backwards { iter.seek_to_last() } else { iter.seek_to_first() }.map_err(failed)?;
        while iter.valid() && budget.take(1) {
            worker.limit_reads(1);
            worker.stats.add_bytes((iter.key().len() + iter.value().len()) as u64);
            worker.finished(Op::Read, 1);
            step(&mut iter, backwards).map_err(failed)?;
        }
    }
    Ok(())
}

/// Seeks to random keys, each on a new iterator, then `seek_nexts` steps.
pub fn seek_random(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let run = worker.run;
    let bench = run.bench;
    let failed = |error| Failure::of("iterator", &error);
    let dbs = run.target.dbs.len() as u64;
    let mut bound = KeyBuffer::new(run.plan.key_size);
    let mut options = run.read_options.clone();
    let mut budget = worker.timed(run.plan.reads);
    while budget.take(1) {
        worker.limit_reads(1);
        let key = worker.draw_for_read();
        let index = (key % dbs) as usize;
        if bench.max_scan_distance > 0 && bench.reverse_iterator {
            let first = key.saturating_sub(bench.max_scan_distance);
            options.iterate_lower_bound = Some(bound.encode(first).to_vec());
        } else if bench.max_scan_distance > 0 {
            let end = key.saturating_add(bench.max_scan_distance).min(run.plan.num);
            options.iterate_upper_bound = Some(bound.encode(end).to_vec());
        }
        let db = &run.target.dbs[index].db;
        let mut iter = db.iter_cf_opt(run.target.family(index, key), &options).map_err(failed)?;
        worker.key.encode(key);
        iter.seek(worker.key.bytes()).map_err(failed)?;
        worker.stats.tally.reads += 1;
        if iter.valid() && iter.key() == worker.key.bytes() {
            worker.stats.tally.found += 1;
        }
        for _ in 0..bench.seek_nexts {
            if !iter.valid() {
                break;
            }
            worker.stats.add_bytes((iter.key().len() + iter.value().len()) as u64);
            step(&mut iter, bench.reverse_iterator).map_err(failed)?;
        }
        worker.finished(Op::Seek, 1);
    }
    Ok(())
}

/// Opens and drops iterators of the default column family.
pub fn new_iterator(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let run = worker.run;
    let mut budget = worker.timed(run.plan.reads);
    while budget.take(1) {
        let index = (worker.random.next_u64() % run.target.dbs.len() as u64) as usize;
        let open = &run.target.dbs[index];
        let iter = open.db.iter_cf_opt(&open.families[0], run.read_options);
        drop(iter.map_err(|error| Failure::of("iterator", &error))?);
        worker.finished(Op::Other, 1);
    }
    Ok(())
}

fn step(iter: &mut DbIterator, backwards: bool) -> Result<(), Error> {
    if backwards { iter.prev() } else { iter.next() }
}
