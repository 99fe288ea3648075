//! Several databases on one manager, or one controller: one quota, one brake, nobody starves behind an idle neighbour.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sluicedb::{Db, DbOptions, DelayedWriteRate, Error, Pressure, WriteOptions};
use sluicedb_tests::cases::{eventually, with_watchdog};
use sluicedb_tests::sim_fs::{CrashMode, Effect, Fault, FileKind, Op, Pattern, SimFs};

const QUOTA: u64 = 256 << 10;

fn options(fs: &SimFs) -> DbOptions {
    let mut options = DbOptions::default();
    options.file_system = Arc::new(fs.clone());
    options.db_write_buffer_size = QUOTA;
    options.delayed_write_rate = DelayedWriteRate::BytesPerSecond(1 << 30);
    options.commit_queue_bytes = 4 << 10;
    options.wal_segment_bytes = 64 << 10;
    options.column_family.level0_slowdown_writes_trigger = 1_000;
    options.column_family.level0_stop_writes_trigger = 1_000;
    options
}

/// A second database on the manager and the controller of `first`.
fn beside(first: &Db, fs: &SimFs, path: &str) -> Db {
    let mut shared = options(fs);
    shared.write_buffer_manager = Some(Arc::clone(first.write_buffer_manager()));
    shared.write_controller = Some(Arc::clone(first.write_controller()));
    Db::open(path, shared).expect("the second database opens")
}

fn used(db: &Db) -> u64 {
    db.write_buffer_manager().usage_report().used
}

/// The sum of all databases stays within the one quota, and every write ends.
#[test]
fn one_quota_bounds_all_databases() {
    with_watchdog(120, "one_quota_bounds_all_databases", || {
        let fs = SimFs::new(1);
        let first = Db::open("/0", options(&fs)).unwrap();
        let others: Vec<Db> = (1..4).map(|number| beside(&first, &fs, &format!("/{number}"))).collect();
        let manager = Arc::clone(first.write_buffer_manager());
        let databases: Vec<&Db> = std::iter::once(&first).chain(&others).collect();
        let done = AtomicBool::new(false);
        let peak = std::thread::scope(|scope| {
            let writers: Vec<_> = databases
                .iter()
                .map(|db| {
                    scope.spawn(move || {
                        for number in 0..800_u32 {
                            db.put(number.to_be_bytes(), [1; 1_000]).expect("a write");
                        }
                    })
                })
                .collect();
            let watcher = scope.spawn(|| {
                let mut peak = 0;
                while !done.load(Ordering::Relaxed) {
                    peak = peak.max(manager.usage_report().used);
                }
                peak
            });
            for writer in writers {
                writer.join().expect("the writer ends");
            }
            done.store(true, Ordering::Relaxed);
            watcher.join().expect("the watcher ends")
        });
        let bound = QUOTA - 1 + 4 * 1_500 + 4 * manager.quota().charge_unit();
        assert!(peak <= bound, "{peak} bytes used, at most {bound} allowed");
        for db in databases {
            assert!(db.get(799_u32.to_be_bytes()).unwrap().is_some());
            db.close().unwrap();
        }
    });
}

/// `reliability U3`: the memory lies in a database that gets no more writes; it is flushed for the neighbour's sake.
#[test]
fn an_idle_database_gives_its_memory_back() {
    with_watchdog(60, "an_idle_database_gives_its_memory_back", || {
        let fs = SimFs::new(2);
        let mut passive = options(&fs);
        passive.initiate_flushes = false;
        let idle = Db::open("/idle", passive).unwrap();
        let busy = beside(&idle, &fs, "/busy");
        for number in 0..150_u32 {
            idle.put(number.to_be_bytes(), [1; 1_000]).unwrap();
        }
        for number in 0..2_000_u32 {
            busy.put(number.to_be_bytes(), [2; 1_000]).unwrap();
        }
        let files = |db: &Db| -> u64 {
            db.level_stats(&db.default_column_family()).unwrap().iter().map(|level| level.files).sum()
        };
        assert!(files(&busy) > 0, "2 MB went through 256 KiB");
        assert!(idle.get(149_u32.to_be_bytes()).unwrap().is_some());
    });
}

/// One thread that feeds several databases in turn with batches of which a few fill the quota does not wait for itself.
#[test]
fn one_thread_may_feed_several_databases() {
    with_watchdog(60, "one_thread_may_feed_several_databases", || {
        let fs = SimFs::new(3);
        let mut passive = options(&fs);
        passive.initiate_flushes = false;
        let first = Db::open("/0", passive).unwrap();
        let databases = [first.clone(), beside(&first, &fs, "/1"), beside(&first, &fs, "/2")];
        for round in 0..20_u8 {
            for db in &databases {
                db.put([round], vec![round; 100 << 10]).unwrap();
            }
        }
        for db in &databases {
            assert_eq!(db.get([19]).unwrap().map(|value| value.len()), Some(100 << 10));
        }
    });
}

/// A stop holds the writers of every database on that controller, and ends for all of them.
#[test]
fn a_stop_is_shared() {
    with_watchdog(60, "a_stop_is_shared", || {
        let fs = SimFs::new(4);
        let first = Db::open("/0", options(&fs)).unwrap();
        let second = beside(&first, &fs, "/1");
        let gate = fs.gate(Pattern::op(Op::Sync).on(FileKind::Sst));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for number in 0_u32.. {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    first.put(number.to_be_bytes(), [1; 1_000]).expect("a write");
                }
            });
            let stopped = || first.write_buffer_manager().pressure() == Pressure::Stopped;
            eventually(|| if stopped() { Ok(()) } else { Err("no stop".to_owned()) }).unwrap();
            let mut hasty = WriteOptions::default();
            hasty.no_slowdown = true;
            assert!(matches!(second.put_opt("k", "v", &hasty), Err(Error::Stalled { .. })));
            let waiting = scope.spawn(|| second.put("k", "v"));
            done.store(true, Ordering::Relaxed);
            gate.open();
            writer.join().unwrap();
            waiting.join().unwrap().expect("the stop ends for all");
        });
        assert!(second.get("k").unwrap().is_some());
    });
}

/// A database that closes gives back all it had charged; its neighbour goes on.
#[test]
fn closing_gives_back_the_charge() {
    with_watchdog(60, "closing_gives_back_the_charge", || {
        let fs = SimFs::new(5);
        let first = Db::open("/0", options(&fs)).unwrap();
        let second = beside(&first, &fs, "/1");
        for number in 0..40_u32 {
            second.put(number.to_be_bytes(), [1; 1_000]).unwrap();
        }
        assert!(used(&first) >= 40_000, "one number for both: {}", used(&first));
        second.close().unwrap();
        drop(second);
        eventually(
            || if used(&first) < 40_000 { Ok(()) } else { Err(format!("{} bytes stay", used(&first))) },
        )
        .unwrap();
        for number in 0..1_000_u32 {
            first.put(number.to_be_bytes(), [1; 1_000]).unwrap();
        }
    });
}

/// `pressure L4`: a database that fails keeps its memory, but nobody waits for it: its writers get the error, the
/// neighbour's go on.
#[test]
fn a_failed_database_holds_up_nobody() {
    with_watchdog(60, "a_failed_database_holds_up_nobody", || {
        let fs = SimFs::new(6);
        let healthy = Db::open("/healthy", options(&fs)).unwrap();
        let other = SimFs::new(7);
        let sick = beside(&healthy, &other, "/sick");
        other.inject(Fault::always(
            Pattern::op(Op::Sync).on(FileKind::Sst),
            Effect::Fail(std::io::ErrorKind::Other),
        ));
        let failed = (0_u32..).find_map(|number| sick.put(number.to_be_bytes(), [1; 1_000]).err());
        assert!(matches!(failed, Some(Error::ReadOnly { .. } | Error::Io { .. })), "{failed:?}");
        for number in 0..2_000_u32 {
            healthy.put(number.to_be_bytes(), [2; 1_000]).expect("the neighbour goes on");
        }
        drop(sick);
        let image = other.crash(CrashMode::Kill, 1);
        let sick = beside(&healthy, &image, "/sick");
        assert!(
            sick.get(0_u32.to_be_bytes()).unwrap().is_some(),
            "what it acknowledged is there after a reopen"
        );
    });
}
