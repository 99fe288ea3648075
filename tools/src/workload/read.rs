//! Point reads: `readrandom`, `readmissing`, `multireadrandom`.
//!
//! Owns their loops. The key number picks the database (`k mod N`) and the column family, as the fills did. Must not
//! know iterators.

use super::keys::KeyBuffer;
use super::stats::Op;
use super::worker::{Failure, Worker};

/// Gets of random keys.
pub fn random(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let run = worker.run;
    let dbs = run.target.dbs.len() as u64;
    let mut budget = worker.timed(run.plan.reads);
    while budget.take(1) {
        worker.limit_reads(1);
        let key = worker.draw_for_read();
        let index = if dbs == 1 { 0 } else { (key % dbs) as usize };
        worker.key.encode(key);
        let bytes = get(worker, index, key)?;
        worker.stats.add_bytes(bytes.unwrap_or(0));
        worker.finished(Op::Read, 1);
    }
    Ok(())
}

/// Gets the key at hand, whose number is `key`. Bytes of key and value if it is there.
#[inline]
pub(super) fn get(worker: &mut Worker<'_>, index: usize, key: u64) -> Result<Option<u64>, Failure> {
    let run = worker.run;
    let family = run.target.family(index, key);
    let bytes = worker.key.bytes();
    worker.stats.tally.reads += 1;
    match run.target.dbs[index].db.get_cf_opt(family, bytes, run.read_options) {
        Ok(Some(value)) => {
            worker.stats.tally.found += 1;
            Ok(Some((bytes.len() + value.len()) as u64))
        }
        Ok(None) => Ok(None),
        Err(error) => Err(Failure::of("Get", &error)),
    }
}

/// MultiGets of `batch` random keys of the default column family.
pub fn multi_random(worker: &mut Worker<'_>) -> Result<(), Failure> {
    let run = worker.run;
    let batch = run.plan.batch;
    let mut keys: Vec<KeyBuffer> = (0..batch).map(|_| KeyBuffer::new(run.plan.key_size)).collect();
    let mut budget = worker.timed(run.plan.reads);
    while budget.take(batch) {
        worker.limit_reads(batch);
        let index = (worker.random.next_u64() % run.target.dbs.len() as u64) as usize;
        for key in &mut keys {
            let number = worker.draw_for_read();
            key.encode(number);
        }
        worker.stats.tally.reads += batch;
        for value in run.target.dbs[index].db.multi_get(keys.iter().map(KeyBuffer::bytes)) {
            match value {
                Ok(Some(value)) => {
                    worker.stats.tally.found += 1;
                    worker.stats.add_bytes((run.plan.key_size + value.len()) as u64);
                }
                Ok(None) => {}
                Err(error) => return Err(Failure::of("MultiGet", &error)),
            }
        }
        worker.finished(Op::Read, batch);
    }
    Ok(())
}
