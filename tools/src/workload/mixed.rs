//! Reads and writes in one thread: `readrandomwriterandom` and `updaterandom`.
//!
//! Owns their loops. Plain gets and puts are those of [`super::read`] and [`Worker::put`].

use super::read::get;
use super::stats::Op;
use super::worker::{Failure, Worker};

/// Blocks of 100 operations: `readwritepercent` gets, then puts.
pub fn read_write(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let run = worker.run;
    let dbs = run.target.dbs.len() as u64;
    let percent = run.bench.readwritepercent;
    let mut budget = worker.timed(run.plan.reads.max(run.plan.writes));
    let mut place = 0;
    while budget.take(1) {
        let drawn = worker.random.next_u64();
        let index = if dbs == 1 { 0 } else { (drawn % dbs) as usize };
        let key = worker.random.next_u64() % run.plan.num;
        worker.key.encode(key);
        if place < percent {
            get(worker, index, key)?;
            worker.finished(Op::Read, 1);
        } else {
            worker.put(&run.target.dbs[index].db, run.target.family(index, key))?;
            worker.stats.tally.writes += 1;
            worker.finished(Op::Write, 1);
        }
        place = (place + 1) % 100;
    }
    Ok(())
}

/// Get, then Put of the same key, in the default column family.
pub fn update(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let run = worker.run;
    let mut budget = worker.timed(run.plan.reads.max(run.plan.writes));
    while budget.take(1) {
        let index = (worker.random.next_u64() % run.target.dbs.len() as u64) as usize;
        let key = worker.random.next_u64() % run.plan.num;
        let open = &run.target.dbs[index];
        worker.key.encode(key);
        match open.db.get_cf_opt(&open.families[0], worker.key.bytes(), run.read_options) {
            Ok(Some(value)) => {
                worker.stats.tally.found += 1;
                worker.stats.add_bytes((run.plan.key_size + value.len()) as u64);
            }
            Ok(None) => {}
            Err(error) => return Err(Failure::of("Get", &error)),
        }
        let bytes = worker.put(&open.db, &open.families[0])?;
        worker.stats.add_bytes(bytes);
        worker.stats.tally.writes += 1;
        worker.finished(Op::Update, 1);
    }
    Ok(())
}
