//! All capabilities of the write path at once: the cross checks of `write-path.md` section 8, and `write-path L5`, `L8`.

use std::sync::Arc;
use std::time::Duration;

use sluicedb::{
    ColumnFamilyOptions, Db, DbOptions, DelayedWriteRate, Durability, Error, ManualClock, WriteBatch,
    WriteOptions,
};
use sluicedb_tests::cases::{eventually, run_cases, with_watchdog};
use sluicedb_tests::rng::Rng;
use sluicedb_tests::sim_fs::{CrashMode, Effect, Fault, FileKind, Op, Pattern, SimFs};

fn key(number: u64) -> String {
    format!("key{number:08}")
}

fn with(durability: Durability) -> WriteOptions {
    let mut options = WriteOptions::default();
    options.durability = durability;
    options
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    eventually(|| if is_so() { Ok(()) } else { Err(what.to_owned()) }).expect("it comes about");
}

/// write-path X1, X2, scaled to a device in memory: four families and writers on a small quota, queue and segment. The brake
/// is felt, the queue overdraws by no more than a unit, only the manifest's thread syncs the manifest, jobs come in bulk, no
/// I/O is done under a lock, and memory stays under its ceiling at every look.
#[test]
fn x1_x2_all_at_once() {
    const QUOTA: u64 = 2 << 20;
    const QUEUE: u64 = 64 << 10;
    const UNIT: u64 = 16 << 10;
    const CHUNK: u64 = 64 << 10;
    with_watchdog(120, "x1_x2_all_at_once", || {
        let fs = SimFs::new(1);
        let mut family = ColumnFamilyOptions::default();
        family.write_buffer_size = 512 << 10;
        family.level0_file_num_compaction_trigger = 2;
        let mut options = DbOptions::default();
        options.file_system = Arc::new(fs.clone());
        options.column_family = family.clone();
        options.db_write_buffer_size = QUOTA;
        options.delayed_write_rate = DelayedWriteRate::BytesPerSecond(256 << 20);
        options.commit_queue_bytes = QUEUE;
        options.wal_segment_bytes = 64 << 10;
        options.max_batch_bytes = UNIT;
        options.manifest_min_gap = Duration::from_millis(1);
        let db = Db::open_cf("/db", options, ["a", "b", "c"].map(|name| (name, family.clone()))).unwrap();
        let at_open = fs.syncs_by_thread(FileKind::Manifest);
        std::thread::scope(|scope| {
            for (thread, family) in (1_u64..).zip(db.column_families()) {
                let db = &db;
                scope.spawn(move || {
                    let mut rng = Rng::new(thread);
                    for number in 0..1_500 {
                        let mut batch = WriteBatch::new();
                        batch.put_cf(&family, key(number % 700), vec![1; rng.range(10, 12_000) as usize]);
                        let level = if number % 50 == 0 { Durability::Sync } else { Durability::Os };
                        db.write_opt(batch, &with(level)).unwrap();
                        let used = sluicedb_tests::pressure::used(db);
                        let ceiling = QUOTA + QUEUE + UNIT - 1 + 4 * CHUNK;
                        assert!(used <= ceiling, "{used} bytes, {ceiling} allowed");
                    }
                });
            }
        });
        db.wait_for_background_work().unwrap();
        let statistics = db.statistics();
        assert!(statistics.stall_micros > 0, "the brake was felt: {statistics:?}");
        assert!(db.durable_sequence().get() > 0);
        until("the position was saved", || db.property_int("sluicedb.manifest.position_saves") > Some(0));
        let mut syncs = fs.syncs_by_thread(FileKind::Manifest);
        assert!(syncs.remove("sluice-mani-0").is_some_and(|syncs| syncs > 0));
        assert_eq!(syncs, at_open, "nobody but the manifest's thread syncs it");
        assert_eq!(db.property_int("sluicedb.locks.io_under_lock"), Some(0));
        println!("{}", db.property("sluicedb.jobs.all").unwrap());
        db.close().unwrap();
    });
}

/// write-path X3: crashes at random calls. What is back is a prefix of the writes, and holds at least what had been reported
/// durable.
#[test]
fn x3_crashes_keep_what_was_reported() {
    run_cases("x3_crashes_keep_what_was_reported", 700_000, 200, |seed| {
        let mut rng = Rng::new(seed);
        let (fs, clock) = (SimFs::new(rng.next_u64()), ManualClock::new(1));
        let options = |fs: &SimFs| {
            let mut options = DbOptions::default();
            options.file_system = Arc::new(fs.clone());
            options.clock = Arc::new(clock.clone());
            options.delayed_write_rate = DelayedWriteRate::BytesPerSecond(1 << 50);
            options.wal_segment_bytes = 64 << 10;
            options.wal_sync_interval = Duration::from_millis(20);
            options.manifest_min_gap = Duration::from_millis(5);
            options.column_family.write_buffer_size = 256 << 10;
            options
        };
        let db = Db::open("/db", options(&fs)).map_err(|error| error.to_string())?;
        let mode = *rng.pick(&[CrashMode::DropUnsynced, CrashMode::Keep { percent: 50 }, CrashMode::Kill]);
        fs.crash_at(rng.range(1, 900), mode, rng.next_u64());
        let (mut written, mut reported) = (0, 0);
        while written < 1_000 {
            let level = *rng.pick(&[Durability::Buffered, Durability::Os, Durability::Os, Durability::Sync]);
            let value = vec![1; rng.range(1, 6_000) as usize];
            db.put_opt(key(written + 1), value, &with(level)).map_err(|error| error.to_string())?;
            written += 1;
            clock.advance(Duration::from_millis(1));
            let durable = db.durable_sequence().get();
            if fs.crashed() {
                break;
            }
            reported = durable;
        }
        let image = fs.take_image().unwrap_or_else(|| fs.crash(mode, 1));
        let db = Db::open("/db", options(&image)).map_err(|error| format!("open: {error}"))?;
        let there = |number: u64| db.get(key(number)).expect("a read").is_some();
        let found = (1..=written).take_while(|number| there(*number)).count() as u64;
        if found < reported {
            return Err(format!("{reported} writes were durable, {found} are back"));
        }
        match (found + 1..=written).find(|number| there(*number)) {
            Some(number) => Err(format!("write {number} is back, write {} is not", found + 1)),
            None => Ok(()),
        }
    });
}

/// write-path X4: closing with writers queued, two flushes pending and a manifest that lags: it ends in order, no job fails at
/// the stop, and everything is there afterwards.
#[test]
fn x4_close_in_order() {
    with_watchdog(60, "x4_close_in_order", || {
        let fs = SimFs::new(1);
        let clock = ManualClock::new(1);
        let options = |fs: &SimFs| {
            let mut options = DbOptions::default();
            options.file_system = Arc::new(fs.clone());
            options.clock = Arc::new(clock.clone());
            options.delayed_write_rate = DelayedWriteRate::BytesPerSecond(1 << 50);
            options.wal_segment_bytes = 64 << 10;
            options.column_family.write_buffer_size = 64 << 10;
            options.column_family.max_write_buffer_number = 10;
            options
        };
        let db = Db::open("/db", options(&fs)).unwrap();
        let flushes = fs.gate(Pattern::op(Op::Sync).on(FileKind::Sst));
        let mut written = 0;
        while db.property_int("rocksdb.num-immutable-mem-table") < Some(3) {
            written += 1;
            db.put(key(written), vec![1; 10_000]).unwrap();
        }
        flushes.wait_until_reached();
        assert!(db.property_int("sluicedb.manifest.lag_segments") >= Some(3));
        let acknowledged = std::thread::scope(|scope| {
            let appends = fs.gate(Pattern::op(Op::Write).on(FileKind::Wal));
            let writers: Vec<_> = (1..=4)
                .map(|n| {
                    let db = &db;
                    scope.spawn(move || (written + n, db.put(key(written + n), "queued").is_ok()))
                })
                .collect();
            appends.wait_until_reached();
            let closer = scope.spawn(|| db.close());
            // On a healthy database this only asks whether it takes writes.
            until("closing has begun", || matches!(db.resume(), Err(Error::ShutdownInProgress)));
            appends.open();
            flushes.open();
            closer.join().unwrap().unwrap();
            let ended = writers.into_iter().map(|writer| writer.join().unwrap());
            ended.filter(|(_, is_ok)| *is_ok).map(|(number, _)| number).collect::<Vec<_>>()
        });
        let jobs = db.property("sluicedb.jobs.all").unwrap();
        assert!(jobs.lines().all(|line| line.contains("failed at stop 0,")), "{jobs}");
        let db = Db::open("/db", options(&fs.crash(CrashMode::DropUnsynced, 1))).unwrap();
        for number in (1..=written).chain(acknowledged) {
            assert!(db.get(key(number)).unwrap().is_some(), "write {number}");
        }
    });
}

/// write-path L5: a failed append fails its group alone, nothing is written behind it, later writes fail fast, and
/// `resume` lets them in again.
#[test]
fn l5_a_failed_append() {
    with_watchdog(60, "l5_a_failed_append", || {
        let fs = SimFs::new(1);
        let mut options = DbOptions::default();
        options.file_system = Arc::new(fs.clone());
        options.wal_sync_interval = Duration::ZERO;
        let db = Db::open("/db", options).unwrap();
        db.put("first", "1").unwrap();
        fs.inject(Fault::next(
            Pattern::op(Op::Write).on(FileKind::Wal),
            Effect::Fail(std::io::ErrorKind::Other),
        ));
        assert!(matches!(db.put("second", "2"), Err(Error::Io { doing: "write", .. })));
        let writes = fs.calls().get(Op::Write, FileKind::Wal);
        for _ in 0..8 {
            assert!(matches!(db.put("third", "3"), Err(Error::ReadOnly { .. })));
        }
        assert_eq!(fs.calls().get(Op::Write, FileKind::Wal), writes, "nothing is written behind it");
        assert!(db.get("first").unwrap().is_some() && db.get("second").unwrap().is_none());
        db.resume().unwrap();
        db.put("third", "3").unwrap();
        assert!(db.get("first").unwrap().is_some() && db.get("third").unwrap().is_some());
    });
}

/// write-path L8: while a flush hangs, what it flushes is read, writes go on, and further memtables are sealed.
#[test]
fn l8_a_hanging_flush() {
    with_watchdog(60, "l8_a_hanging_flush", || {
        let fs = SimFs::new(1);
        let mut options = DbOptions::default();
        options.file_system = Arc::new(fs.clone());
        options.column_family.write_buffer_size = 64 << 10;
        options.column_family.max_write_buffer_number = 10;
        options.delayed_write_rate = DelayedWriteRate::BytesPerSecond(1 << 50);
        let db = Db::open("/db", options).unwrap();
        let gate = fs.gate(Pattern::op(Op::Sync).on(FileKind::Sst));
        let mut written = 0;
        while db.property_int("rocksdb.num-immutable-mem-table") < Some(3) {
            written += 1;
            db.put(key(written), vec![1; 5_000]).unwrap();
        }
        gate.wait_until_reached();
        for number in 1..=written {
            assert_eq!(db.get(key(number)).unwrap().unwrap().len(), 5_000);
        }
        assert_eq!(db.statistics().flushes, 0);
        gate.open();
        db.wait_for_background_work().unwrap();
        assert!(db.statistics().flushes >= 1);
    });
}
