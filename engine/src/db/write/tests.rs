//! A panic in the middle of a group, which only a defect of ours can cause: here, a batch whose bytes were damaged.

use std::sync::Arc;

use super::*;
use crate::env::mem::MemFileSystem;
use crate::options::DbOptions;
use crate::{Db, WriteBatch};

fn open(parallel_insert_bytes: u64) -> Db {
    let file_system = Arc::new(MemFileSystem::new());
    let options = DbOptions { file_system, parallel_insert_bytes, ..DbOptions::default() };
    Db::open("/db", options).unwrap()
}

/// `write-path Q14`: whoever panics during the inserts, the leader or a follower that inserts its own batch, the group
/// fails, the database is read-only with that cause, eight other callers and a ticket get an error, none hangs, nothing
/// stays charged.
#[test]
fn a_panic_during_the_inserts_fails_the_group() {
    for parallel_insert_bytes in [u64::MAX, 0] {
        let db = open(parallel_insert_bytes);
        let shared = db.shared();
        let lead = shared.commit.lead();
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..9_u8)
                .map(|n| {
                    let shared = &**shared;
                    scope.spawn(move || {
                        let mut batch = WriteBatch::new();
                        batch.put([n], vec![n; 100]);
                        if n == 4 {
                            batch.cut_short();
                        }
                        shared.write(batch, &WriteOptions::default())
                    })
                })
                .collect();
            let ticket = db.write_async({
                let mut batch = WriteBatch::new();
                batch.put("ticket", "v");
                batch
            });
            while shared.commit.len() < 10 {
                std::thread::yield_now();
            }
            lead.end();
            let outcomes: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
            let panicked = outcomes.iter().filter(|outcome| outcome.is_err()).count();
            assert_eq!(panicked, 1, "the defect is one thread's, and it is not hidden");
            for error in
                outcomes.into_iter().flatten().map(Result::unwrap_err).chain([ticket.wait().unwrap_err()])
            {
                let ended = matches!(error.error(), Error::ReadOnly { .. } | Error::Corruption { .. });
                assert!(ended, "{error}");
            }
        });
        assert!(matches!(db.put("k", "v"), Err(Error::ReadOnly { .. })));
        assert_eq!(db.property_int("sluicedb.commit_queue.used"), Some(0));
        assert_eq!(db.latest_sequence().get(), 0, "nothing of the group is visible");
    }
}
