//! The fills: puts in order, at random, or each key once; one by one or in batches.
//!
//! Owns the loop of `fillseq`, `fillrandom`, `overwrite` and their kin. A fill runs its count once per database. Must
//! not know how the results are shown.

use sluicedb::WriteBatch;

use super::catalogue::Order;
use super::keys;
use super::stats::Op;
use super::worker::{Failure, Worker};

/// Runs a fill in the given order.
pub fn fill(worker: &mut Worker<'_>, order: Order) -> Result<(), Failure> {
    match order {
        Order::Random => random(worker),
        Order::Sequential => {
            let per_db = worker.run.plan.writes;
            in_turn(worker, per_db, |at| at)
        }
        Order::UniqueRandom => {
            let num = worker.run.plan.num;
            if num > keys::MAX_UNIQUE {
                return Err(Failure(format!("filluniquerandom shuffles at most {} keys", keys::MAX_UNIQUE)));
            }
            let shuffled = keys::shuffled(num, &mut worker.random);
            worker.stats.restart_operation();
            in_turn(worker, num.min(worker.run.plan.writes), |at| u64::from(shuffled[at as usize]))
        }
    }
}

/// `fillrandom`: database and key are drawn apart.
fn random(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let run = worker.run;
    let (num, batch, dbs) = (run.plan.num, run.plan.batch, run.target.dbs.len());
    let mut budget = worker.timed(run.plan.writes.saturating_mul(dbs as u64));
    while budget.take(batch) {
        // The draw is made with one database, too: the key stream must not depend on their number.
        let drawn = worker.random.next_u64();
        let index = if dbs == 1 { 0 } else { (drawn % dbs as u64) as usize };
        if batch == 1 {
            let key = worker.random.next_u64() % num;
            put_one(worker, index, key)?;
        } else {
            put_batch(worker, index, batch, |worker| worker.random.next_u64() % num)?;
        }
    }
    Ok(())
}

/// Database after database, key number `key_at(0)`, `key_at(1)`, ... in each.
fn in_turn(worker: &mut Worker<'_>, per_db: u64, key_at: impl Fn(u64) -> u64) -> Result<(), Failure> {
    let run = worker.run;
    let batch = run.plan.batch;
    let mut budget = worker.counted(u64::MAX);
    for index in 0..run.target.dbs.len() {
        let mut next = 0;
        while next + batch <= per_db && budget.take(batch) {
            if batch == 1 {
                put_one(worker, index, key_at(next))?;
            } else {
                let begin = next;
                let mut offset = 0;
                put_batch(worker, index, batch, |_| {
                    offset += 1;
                    key_at(begin + offset - 1)
                })?;
            }
            next += batch;
        }
    }
    Ok(())
}

#[inline]
fn put_one(worker: &mut Worker<'_>, index: usize, key: u64) -> Result<(), Failure> {
    let target = worker.run.target;
    worker.key.encode(key);
    if worker.run.write_limiter.is_some() {
        let bytes = worker.run.plan.key_size + worker.run.plan.sizes.average();
        worker.limit_writes(bytes as u64);
    }
    let bytes = worker.put(&target.dbs[index].db, target.family(index, key))?;
    worker.stats.add_bytes(bytes);
    worker.finished(Op::Write, 1);
    Ok(())
}

fn put_batch<'a>(
    worker: &mut Worker<'a>,
    index: usize,
    count: u64,
    mut key_of: impl FnMut(&mut Worker<'a>) -> u64,
) -> Result<(), Failure> {
    let run = worker.run;
    let capacity = (run.plan.key_size + run.plan.sizes.average() + 16).saturating_mul(count as usize);
    let mut batch = WriteBatch::with_capacity(capacity);
    let mut bytes = 0;
    for _ in 0..count {
        let key = key_of(worker);
        worker.key.encode(key);
        let value = worker.values.next_value();
        batch.put_cf(run.target.family(index, key), worker.key.bytes(), value);
        bytes += (worker.key.bytes().len() + value.len()) as u64;
    }
    worker.limit_writes(bytes);
    write(worker, index, batch)?;
    worker.stats.add_bytes(bytes);
    worker.finished(Op::Write, count);
    Ok(())
}

/// Writes a batch. The engine takes it by value, so that it cannot be tried again: any error ends the run.
pub(super) fn write(worker: &Worker<'_>, index: usize, batch: WriteBatch) -> Result<(), Failure> {
    let db = &worker.run.target.dbs[index].db;
    db.write_opt(batch, &worker.run.plan.write_options).map_err(|error| Failure::of("put", &error))
}

/// The background writer of `readwhilewriting`: random puts until the readers have ended.
pub fn write_in_background(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let run = worker.run;
    let dbs = run.target.dbs.len() as u64;
    let size = (run.plan.key_size + run.plan.sizes.average()) as u64;
    let mut written = 0;
    loop {
        let may_end =
            if run.bench.finish_after_writes { written >= run.plan.writes } else { worker.is_alone() };
        if may_end || run.stop.load(std::sync::atomic::Ordering::Relaxed) {
            return Ok(());
        }
        if let Some(limiter) = &run.background_limiter {
            limiter.take(size);
        }
        let index = (worker.random.next_u64() % dbs) as usize;
        let key = worker.random.next_u64() % run.plan.num;
        worker.key.encode(key);
        let bytes = worker.put(&run.target.dbs[index].db, run.target.family(index, key))?;
        worker.stats.add_bytes(bytes);
        worker.finished(Op::Write, 1);
        written += 1;
    }
}
