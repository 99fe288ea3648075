//! No lock across I/O, a sleep or a wait: `write-path L9`, with the check that a lock that is kept would be noticed.
//!
//! The counter is one for the process, so this is the only test of its binary.

use std::sync::Arc;

use sluicedb::bench_arms::{LockScope, set_lock_scope};
use sluicedb::{ColumnFamilyOptions, Db, DbOptions, DelayedWriteRate, Durability, Result, WriteOptions};
use sluicedb_tests::cases::with_watchdog;
use sluicedb_tests::sim_fs::SimFs;

/// Four column families, four writers, flushes, compactions, the manager's delays, and the close.
fn workload() -> Result<()> {
    let mut family = ColumnFamilyOptions::default();
    family.write_buffer_size = 64 << 10;
    family.level0_file_num_compaction_trigger = 2;
    family.max_bytes_for_level_base = 128 << 10;
    family.target_file_size_base = 64 << 10;
    let mut options = DbOptions::default();
    options.file_system = Arc::new(SimFs::new(1));
    options.column_family = family.clone();
    options.db_write_buffer_size = 256 << 10;
    options.delayed_write_rate = DelayedWriteRate::BytesPerSecond(64 << 20);
    options.wal_segment_bytes = 64 << 10;
    options.wal_sync_bytes = 20_000;
    options.max_background_flushes = 2;
    let db = Db::open_cf("/db", options, ["a", "b", "c"].map(|name| (name, family.clone())))?;
    std::thread::scope(|scope| {
        let writers: Vec<_> = db
            .column_families()
            .into_iter()
            .map(|family| {
                let db = &db;
                scope.spawn(move || {
                    for number in 0..1_500_u32 {
                        let mut options = WriteOptions::default();
                        options.durability = if number % 16 == 0 { Durability::Sync } else { Durability::Os };
                        let key = (number * 7 % 1_000).to_be_bytes();
                        db.put_cf_opt(&family, key, vec![1; 500], &options)?;
                        if number % 8 == 0 {
                            db.get_cf(&family, key)?;
                        }
                    }
                    db.flush_cf(&family)
                })
            })
            .collect();
        writers.into_iter().try_for_each(|writer| writer.join().expect("a writer does not panic"))
    })?;
    db.compact_range(None, None)?;
    let statistics = db.statistics();
    assert!(statistics.flushes > 8 && statistics.compactions > 0, "{statistics:?}");
    for lock in ["commit_queue", "wal", "manifest", "state", "asking", "pin", "leaf"] {
        let held = db.property(&format!("sluicedb.locks.{lock}.hold")).expect("hold times");
        assert!(held.starts_with("count ") && !held.starts_with("count 0,"), "{lock}: {held}");
        println!("{lock}: {held} ns");
    }
    let jobs = db.property("sluicedb.jobs.all").expect("figures of the pools");
    print!("{jobs}");
    db.close()
}

/// I/O calls that began with a lock held, in this process.
fn io_under_lock() -> u64 {
    let mut options = DbOptions::default();
    options.file_system = Arc::new(SimFs::new(2));
    let db = Db::open("/db", options).expect("the database opens");
    db.property_int("sluicedb.locks.io_under_lock").expect("a property that is a number")
}

/// write-path L9: the full workload does no I/O under a lock; with one kept across the log's I/O, that is noticed.
#[test]
fn l9_no_lock_across_io() {
    with_watchdog(120, "l9_no_lock_across_io", || {
        workload().expect("the workload ends well");
        assert_eq!(io_under_lock(), 0);

        // The mutation. Debug builds panic at the first such call, release builds count it.
        set_lock_scope(LockScope::Held);
        let outcome = std::panic::catch_unwind(workload);
        set_lock_scope(LockScope::Scoped);
        assert_eq!(outcome.is_ok_and(|ended| ended.is_ok()), !cfg!(debug_assertions));
        assert!(io_under_lock() > 0, "a lock that is kept must be noticed");
    });
}
