//! `deleteseq` and `deleterandom`: deletes in the default column family, one by one or in batches.
//!
//! Owns their loop. Deleted bytes are not counted, so the summary shows no MB/s.

use sluicedb::WriteBatch;

use super::catalogue::Order;
use super::fill::write;
use super::stats::Op;
use super::worker::{Failure, Worker, retry};

/// Deletes `deletes` keys per thread.
pub fn delete(worker: &mut Worker<'_>, order: Order) -> Result<(), Failure> {
    let run = worker.run;
    let (num, batch) = (run.plan.num, run.plan.batch);
    let mut budget = if order == Order::Random {
        worker.timed(run.plan.deletes)
    } else {
        worker.counted(run.plan.deletes)
    };
    let mut next = 0;
    while budget.take(batch) {
        let index = (worker.random.next_u64() % run.target.dbs.len() as u64) as usize;
        let open = &run.target.dbs[index];
        let mut key_of = |worker: &mut Worker<'_>| {
            let key = if order == Order::Random { worker.random.next_u64() % num } else { next };
            next += 1;
            worker.key.encode(key);
        };
        if batch == 1 {
            key_of(worker);
            let key = worker.key.bytes();
            let once = || open.db.delete_cf_opt(&open.families[0], key, &run.plan.write_options);
            if let Err(error) = once() {
                retry(&error, "del", once)?;
            }
        } else {
            let mut deletes = WriteBatch::with_capacity((run.plan.key_size + 16) * batch as usize);
            for _ in 0..batch {
                key_of(worker);
                deletes.delete_cf(&open.families[0], worker.key.bytes());
            }
            write(worker, index, deletes)?;
        }
        worker.finished(Op::Delete, batch);
    }
    Ok(())
}
