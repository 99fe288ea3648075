//! Writes slow down before they stop, a stop always ends or returns an error, and memory stays within its quota.
//!
//! `reliability R14` and `pressure` section 6 through the public API: real threads under a watchdog; flushes are held
//! by a gate in the simulated file system, so that a stop begins and ends exactly when a test says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sluicedb::{
    ColumnFamily, ColumnFamilyOptions, Db, DbOptions, DelayedWriteRate, Error, Pressure, WriteBatch,
    WriteOptions,
};
use sluicedb_tests::cases::{eventually, with_watchdog};
use sluicedb_tests::rng::Rng;
use sluicedb_tests::sim_fs::{CrashMode, Effect, Fault, FileKind, Gate, Op, Pattern, SimFs};

const DB: &str = "/db";
const QUOTA: u64 = 256 << 10;

fn family_options() -> ColumnFamilyOptions {
    let mut options = ColumnFamilyOptions::default();
    options.write_buffer_size = 64 << 10;
    // Only the manager stops writers here, neither the number of memtables nor of L0 files.
    options.max_write_buffer_number = 1_000;
    options.level0_slowdown_writes_trigger = 1_000;
    options.level0_stop_writes_trigger = 1_000;
    options
}

fn options(fs: &SimFs) -> DbOptions {
    let mut options = DbOptions::default();
    options.file_system = Arc::new(fs.clone());
    options.column_family = family_options();
    options.db_write_buffer_size = QUOTA;
    options.delayed_write_rate = DelayedWriteRate::BytesPerSecond(1 << 30);
    options.commit_queue_bytes = 4 << 10;
    options.wal_segment_bytes = 64 << 10;
    options
}

fn no_slowdown() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.no_slowdown = true;
    options
}

/// Holds every flush before its table is synced.
fn hold_flushes(fs: &SimFs) -> Gate {
    fs.gate(Pattern::op(Op::Sync).on(FileKind::Sst))
}

fn is_stopped(db: &Db) -> bool {
    db.write_buffer_manager().pressure() == Pressure::Stopped
}

/// Writes from a thread of its own until `until` is set; how many were acknowledged, and what ended it otherwise.
fn write_on(db: &Db, thread: u64, until: &AtomicBool, written: &AtomicU64) -> Result<(), Error> {
    for count in 0_u64.. {
        if until.load(Ordering::Relaxed) {
            break;
        }
        db.put((thread << 32 | count).to_be_bytes(), [7; 1_000])?;
        written.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Runs `during` once one writer is held by a stop whose flush is held by `gate`; returns how that writer ended.
fn under_a_stop(fs: &SimFs, db: &Db, during: impl FnOnce(&Gate)) -> Result<(), Error> {
    let gate = hold_flushes(fs);
    let (done, written) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_on(db, 0, &done, &written));
        gate.wait_until_reached();
        eventually(|| if is_stopped(db) { Ok(()) } else { Err("no stop".to_owned()) })
            .expect("a stop begins");
        during(&gate);
        done.store(true, Ordering::Relaxed);
        gate.open();
        writer.join().expect("the writer does not panic")
    })
}

/// Many writers over many families on a tiny quota: every write ends, and memory in use stays within the quota plus one
/// batch for each writer and a charge unit for each memtable.
#[test]
fn usage_stays_within_the_quota() {
    with_watchdog(120, "usage_stays_within_the_quota", || {
        const WRITERS: u64 = 4;
        const LARGEST: u64 = 3_000;
        for families in [1, 28] {
            let fs = SimFs::new(families);
            let names: Vec<String> = (0..families).map(|number| format!("family {number}")).collect();
            let named = names.iter().map(|name| (name.clone(), family_options()));
            let db = Db::open_cf(DB, options(&fs), named).unwrap();
            let handles: Vec<ColumnFamily> =
                names.iter().map(|name| db.column_family(name).unwrap()).collect();
            let done = AtomicBool::new(false);
            let (db, handles, done) = (&db, &handles, &done);
            let peak = std::thread::scope(|scope| {
                let writers: Vec<_> = (0..WRITERS)
                    .map(|thread| {
                        scope.spawn(move || {
                            let mut rng = Rng::new(thread);
                            for _ in 0..1_000 {
                                let len = rng.below(LARGEST - 500) as usize;
                                let key = rng.next_u64().to_be_bytes();
                                db.put_cf(rng.pick(handles), key, vec![1; len]).expect("a write");
                            }
                        })
                    })
                    .collect();
                let watcher = scope.spawn(move || {
                    let mut peak = 0;
                    while !done.load(Ordering::Relaxed) {
                        peak = peak.max(db.write_buffer_manager().usage_report().used);
                    }
                    peak
                });
                for writer in writers {
                    writer.join().expect("the writer ends");
                }
                done.store(true, Ordering::Relaxed);
                watcher.join().expect("the watcher ends")
            });
            let unit = db.write_buffer_manager().quota().charge_unit();
            let bound = QUOTA - 1 + WRITERS * LARGEST + (families + 1) * unit;
            assert!(peak <= bound, "{families} families: {peak} bytes used, at most {bound} allowed");
            assert!(
                peak > QUOTA / 4,
                "{families} families: only {peak} bytes were ever used: nothing was tested"
            );
            db.close().unwrap();
        }
    });
}

/// After everything is flushed and closed, nothing is charged any more.
#[test]
fn charges_return_to_zero() {
    with_watchdog(60, "charges_return_to_zero", || {
        let fs = SimFs::new(1);
        let db = Db::open(DB, options(&fs)).unwrap();
        let manager = Arc::clone(db.write_buffer_manager());
        for number in 0..500_u32 {
            db.put(number.to_be_bytes(), [1; 1_000]).unwrap();
        }
        let mut iter = db.iter().unwrap();
        iter.seek_to_first().unwrap();
        db.flush().unwrap();
        drop(iter);
        db.close().unwrap();
        drop(db);
        eventually(|| {
            let report = manager.usage_report();
            let all = report.resident() + report.queued;
            if all == 0 { Ok(()) } else { Err(format!("{report:?}")) }
        })
        .unwrap();
    });
}

/// `reliability U5`: on the way up the delay is met before the stop, and its steps do not jump to the end.
#[test]
fn the_delay_comes_before_the_stop() {
    with_watchdog(60, "the_delay_comes_before_the_stop", || {
        let fs = SimFs::new(2);
        let db = Db::open(DB, options(&fs)).unwrap();
        let gate = hold_flushes(&fs);
        let mut steps = Vec::new();
        for number in 0_u32.. {
            db.put(number.to_be_bytes(), [1; 500]).unwrap();
            match db.write_buffer_manager().pressure() {
                Pressure::Normal => {}
                Pressure::Delayed(step) => steps.push(step.get()),
                Pressure::Stopped => break,
            }
        }
        // Memory is charged by the unit: that many percent of the slope at once, rounded up.
        let quota = db.write_buffer_manager().quota();
        let unit = (quota.charge_unit() * 100 / (QUOTA - quota.delay_start()) + 1) as u8;
        assert!(steps.len() > 50, "only {} writes saw a delay: {steps:?}", steps.len());
        assert!(steps.is_sorted() && steps[0] <= unit, "{steps:?}");
        assert!(steps.windows(2).all(|pair| pair[1] - pair[0] <= unit), "{steps:?}");
        gate.open();
        db.put("last", "1").unwrap();
    });
}

/// Under a stop, a plain write waits and ends well once a flush has ended; `no_slowdown` is refused at once and leaves no
/// trace; a `stall_timeout` ends a wait with the holders named.
#[test]
fn a_stopped_write_waits_or_is_refused() {
    with_watchdog(60, "a_stopped_write_waits_or_is_refused", || {
        let fs = SimFs::new(3);
        let db = Db::open(DB, options(&fs)).unwrap();
        let ended = under_a_stop(&fs, &db, |_| {
            let used = db.write_buffer_manager().usage_report().used;
            match db.put_opt("refused", "1", &no_slowdown()) {
                Err(Error::Stalled { waited, .. }) => assert!(waited < Duration::from_secs(5)),
                other => panic!("{other:?}"),
            }
            let mut short = WriteOptions::default();
            short.stall_timeout = Some(Duration::from_millis(5));
            match db.put_opt("refused", "2", &short) {
                Err(Error::Stalled { holders, waited, .. }) => {
                    assert!(!holders.is_empty());
                    assert!(waited >= Duration::from_millis(5), "{waited:?}");
                }
                other => panic!("{other:?}"),
            }
            assert!(db.get("refused").unwrap().is_none(), "a refused write left a trace");
            assert_eq!(db.write_buffer_manager().usage_report().used, used, "a refused write was charged");
        });
        ended.expect("the waiting writer ends well");
        db.flush().unwrap();
        db.put_opt("welcome", "1", &no_slowdown()).expect("nothing is stalled any more");
        assert!(db.get("refused").unwrap().is_none());
    });
}

/// Reads, flushes and iterators are not held by a stop of writers.
#[test]
fn a_stop_holds_only_writers() {
    with_watchdog(60, "a_stop_holds_only_writers", || {
        let fs = SimFs::new(4);
        let db = Db::open(DB, options(&fs)).unwrap();
        db.put("early", "1").unwrap();
        under_a_stop(&fs, &db, |_| {
            assert_eq!(db.get("early").unwrap().as_deref(), Some(&b"1"[..]));
            let mut iter = db.iter().unwrap();
            iter.seek("early").unwrap();
            assert!(iter.valid());
            db.sync_wal().unwrap();
            let made = db.create_column_family("made under a stop", family_options()).unwrap();
            db.drop_column_family(&made).unwrap();
        })
        .unwrap();
    });
}

/// Closing under a stop releases its writers with `ShutdownInProgress` before the held flush ends, and then returns;
/// what was acknowledged is there.
#[test]
fn closing_under_a_stop_releases_writers() {
    with_watchdog(60, "closing_under_a_stop_releases_writers", || {
        let fs = SimFs::new(5);
        let db = Db::open(DB, options(&fs)).unwrap();
        let gate = hold_flushes(&fs);
        let written = AtomicU64::new(0);
        let never = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| write_on(&db, 0, &never, &written));
            gate.wait_until_reached();
            eventually(|| if is_stopped(&db) { Ok(()) } else { Err("no stop".to_owned()) }).unwrap();
            let closer = scope.spawn(|| db.close());
            match writer.join().unwrap() {
                Err(Error::ShutdownInProgress) => {}
                other => panic!("{other:?}"),
            }
            gate.open();
            closer.join().unwrap().expect("the close ends well");
        });
        drop(db);
        let image = fs.crash(CrashMode::DropUnsynced, 1);
        let db = Db::open(DB, options(&image)).unwrap();
        for count in 0..written.into_inner() {
            assert!(
                db.get(count.to_be_bytes()).unwrap().is_some(),
                "write {count} was acknowledged and is lost"
            );
        }
    });
}

/// A flush that fails for good under a stop ends the wait with that error; reads go on.
#[test]
fn a_failing_flush_releases_writers() {
    with_watchdog(60, "a_failing_flush_releases_writers", || {
        let fs = SimFs::new(6);
        let db = Db::open(DB, options(&fs)).unwrap();
        db.put("early", "1").unwrap();
        let gate = hold_flushes(&fs);
        let (never, written) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| write_on(&db, 0, &never, &written));
            gate.wait_until_reached();
            eventually(|| if is_stopped(&db) { Ok(()) } else { Err("no stop".to_owned()) }).unwrap();
            fs.inject(Fault::always(
                Pattern::op(Op::Sync).on(FileKind::Sst),
                Effect::Fail(std::io::ErrorKind::Other),
            ));
            gate.open();
            match writer.join().unwrap() {
                Err(Error::ReadOnly { .. } | Error::Io { .. }) => {}
                other => panic!("{other:?}"),
            }
        });
        assert_eq!(db.get("early").unwrap().as_deref(), Some(&b"1"[..]));
        assert!(matches!(db.put("late", "1"), Err(Error::ReadOnly { .. } | Error::Io { .. })));
    });
}

/// A batch larger than the whole quota is let in alone instead of waiting for itself for ever.
#[test]
fn a_batch_beyond_the_quota_is_let_in_alone() {
    with_watchdog(60, "a_batch_beyond_the_quota_is_let_in_alone", || {
        let fs = SimFs::new(7);
        let db = Db::open(DB, options(&fs)).unwrap();
        let db = &db;
        std::thread::scope(|scope| {
            for thread in 0..3_u8 {
                scope.spawn(move || {
                    for round in 0..4_u8 {
                        let mut batch = WriteBatch::new();
                        for part in 0..8_u8 {
                            batch.put([thread, round, part], vec![part; QUOTA as usize / 4]);
                        }
                        db.write(batch).expect("the batch is let in");
                        db.put([thread, round], "small").expect("small ones go on");
                    }
                });
            }
        });
        for thread in 0..3_u8 {
            assert_eq!(db.get([thread, 3, 7]).unwrap().map(|value| value.len()), Some(QUOTA as usize / 4));
        }
    });
}

/// An iterator that pins flushed memtables never causes a stop: they are reported, not counted.
#[test]
fn pinned_memtables_do_not_stop_writers() {
    with_watchdog(60, "pinned_memtables_do_not_stop_writers", || {
        let fs = SimFs::new(8);
        let db = Db::open(DB, options(&fs)).unwrap();
        let mut pins = Vec::new();
        for number in 0..2_000_u32 {
            db.put(number.to_be_bytes(), [1; 1_000]).unwrap();
            if number % 40 == 0 {
                let mut iter = db.iter().unwrap();
                iter.seek_to_first().unwrap();
                pins.push(iter);
            }
        }
        db.flush().unwrap();
        assert!(
            db.write_buffer_manager().usage_report().pinned > QUOTA,
            "2 MB pinned is more than the quota"
        );
        db.put_opt("free", "1", &no_slowdown()).expect("pinned bytes stop nobody");
    });
}

/// A quota lowered below what is in use stops writers only until a flush has ended; one that is raised frees them at once.
#[test]
fn the_quota_may_change_while_writers_run() {
    with_watchdog(60, "the_quota_may_change_while_writers_run", || {
        let fs = SimFs::new(9);
        let db = Db::open(DB, options(&fs)).unwrap();
        let (done, written) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| write_on(&db, 0, &done, &written));
            for round in 1..=20_u64 {
                let before = written.load(Ordering::Relaxed);
                db.write_buffer_manager().set_quota_bytes(if round % 2 == 0 { QUOTA } else { 70 << 10 });
                let more = || written.load(Ordering::Relaxed) > before + 100;
                eventually(|| if more() { Ok(()) } else { Err(format!("round {round}: writes stand")) })
                    .unwrap();
            }
            done.store(true, Ordering::Relaxed);
            writer.join().unwrap().unwrap();
        });
        let ended = under_a_stop(&fs, &db, |_| {
            let before = db.write_buffer_manager().usage_report().used;
            db.write_buffer_manager().set_quota_bytes(before * 4);
            let more = || db.write_buffer_manager().usage_report().used > before;
            eventually(|| if more() { Ok(()) } else { Err("raising the quota freed nobody".to_owned()) })
                .unwrap();
        });
        ended.unwrap();
    });
}

/// `reliability U1`, `U2`: many families, each far below its own trigger, fill the quota: writes go on.
#[test]
fn many_small_families_do_not_block_each_other() {
    with_watchdog(120, "many_small_families_do_not_block_each_other", || {
        let fs = SimFs::new(10);
        let mut large = family_options();
        large.write_buffer_size = 64 << 20;
        let names: Vec<String> = (0..200).map(|number| format!("f{number}")).collect();
        let db =
            Db::open_cf(DB, options(&fs), names.iter().map(|name| (name.clone(), large.clone()))).unwrap();
        let handles: Vec<ColumnFamily> = names.iter().map(|name| db.column_family(name).unwrap()).collect();
        for round in 0..10_u8 {
            for handle in &handles {
                db.put_cf(handle, [round], [1; 400]).unwrap();
            }
        }
        for handle in &handles {
            assert!(db.get_cf(handle, [9]).unwrap().is_some());
        }
    });
}

/// Each smoothing option alone, and all together: on a tiny quota every write ends and is found, and compactions go on.
#[test]
fn smoothing_keeps_every_write() {
    with_watchdog(120, "smoothing_keeps_every_write", || {
        type Bend = fn(&mut DbOptions);
        let smoothings: [Bend; 5] = [
            |options| options.flush_progress_credit = true,
            |options| options.desync_write_buffers = false,
            |options| options.strict_flush_priority = true,
            |options| options.smooth_writes = true,
            |options| {
                options.flush_progress_credit = true;
                options.desync_write_buffers = true;
                options.strict_flush_priority = true;
                options.smooth_writes = true;
            },
        ];
        for (number, smooth) in smoothings.into_iter().enumerate() {
            let fs = SimFs::new(number as u64);
            let mut options = options(&fs);
            options.column_family.level0_file_num_compaction_trigger = 2;
            smooth(&mut options);
            let db = Db::open(DB, options).unwrap();
            std::thread::scope(|scope| {
                for thread in 0..3_u64 {
                    let db = &db;
                    scope.spawn(move || {
                        for count in 0..500_u64 {
                            db.put((thread << 32 | count).to_be_bytes(), [7; 1_000]).expect("a write");
                        }
                    });
                }
            });
            for thread in 0..3_u64 {
                for count in 0..500_u64 {
                    assert!(db.get((thread << 32 | count).to_be_bytes()).unwrap().is_some());
                }
            }
            let statistics = db.statistics();
            assert!(statistics.flushes > 0);
            db.close().unwrap();
        }
    });
}
