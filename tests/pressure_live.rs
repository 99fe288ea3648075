//! Options that change while the database is open: felt at once, by writers that wait as well, and never half applied.
//!
//! `pressure` F8, F12, F13, I9, I10, I12, L12, O3, B9, X3 of section 10 through `set_options` and `set_db_options`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use sluicedb::{
    BackgroundJobPressure, BlockCache, CACHE_UNIT, ColumnFamily, Compression, Db, DbOptions,
    DelayedWriteRate, Error, EventListener, IoPriority, ManualClock, RateLimiter, Requirement, SourceKind,
    StallConditions, State, WriteOptions,
};
use sluicedb_tests::pressure::*;
use sluicedb_tests::rng::Rng;
use sluicedb_tests::sim_fs::{FileKind, Op, Pattern, SimFs};

const GIB: u64 = 1 << 30;
const SECOND: u64 = 1_000_000_000;

fn set(db: &Db, changes: &[(&str, &str)]) {
    db.set_options(&db.default_column_family(), changes).unwrap();
}

fn rate(db: &Db) -> u64 {
    db.property_int("rocksdb.actual-delayed-write-rate").unwrap()
}

fn pending(db: &Db) -> u64 {
    db.property_int("rocksdb.estimate-pending-compaction-bytes").unwrap()
}

/// Whether writers are stopped, and whether they are delayed.
fn held(db: &Db) -> (bool, bool) {
    (db.write_controller().is_stopped(), rate(db) > 0)
}

/// Keeps what listeners are told of states and of the background.
#[derive(Default)]
struct Notes {
    delayed: AtomicBool,
    stopped: AtomicBool,
    sped_up: AtomicBool,
    proximity: AtomicU32,
}

impl EventListener for Notes {
    fn on_stall_conditions_changed(&self, change: &StallConditions) {
        self.delayed.fetch_or(change.current == State::Delayed, Ordering::SeqCst);
        self.stopped.fetch_or(change.current == State::Stopped, Ordering::SeqCst);
    }

    fn on_background_job_pressure_changed(&self, pressure: &BackgroundJobPressure) {
        self.sped_up.store(pressure.compactions_sped_up, Ordering::SeqCst);
        self.proximity.store(pressure.write_stall_proximity_percent, Ordering::SeqCst);
    }
}

fn with_notes(fs: &SimFs, clock: &ManualClock) -> (DbOptions, Arc<Notes>) {
    let (mut options, notes) = (options(fs, clock), Arc::new(Notes::default()));
    options.listeners = vec![Arc::clone(&notes) as _];
    options.column_family.compression = Compression::None;
    options.column_family.level_compaction_dynamic_level_bytes = false;
    (options, notes)
}

/// pressure F8: L0 files let more compactions run, by the slowdown trigger that holds at the time; listeners hear of it, and
/// of how near a delay is.
#[test]
fn l0_speeds_compactions_up() {
    case("l0_speeds_compactions_up", |clock| {
        let fs = SimFs::new(1);
        let (mut options, notes) = with_notes(&fs, clock);
        options.column_family.disable_auto_compactions = true;
        let db = Db::open("/db", options).unwrap();
        let told = |sped_up, proximity| {
            until(&format!("sped up {sped_up}, proximity {proximity}"), || {
                (notes.sped_up.load(Ordering::SeqCst), notes.proximity.load(Ordering::SeqCst))
                    == (sped_up, proximity)
            });
        };
        add_l0(&db, 7);
        let gate = fs.gate_next(Pattern::op(Op::Create).on(FileKind::Sst));
        set(
            &db,
            &[
                ("level0_file_num_compaction_trigger", "4"),
                ("level0_slowdown_writes_trigger", "36"),
                ("level0_stop_writes_trigger", "40"),
                ("disable_auto_compactions", "false"),
            ],
        );
        gate.wait_until_reached();
        told(false, 9); // (7 - 4) of the 32 files between the trigger and the slowdown
        add_l0(&db, 2);
        told(true, 15);
        set(&db, &[("level0_slowdown_writes_trigger", "16")]);
        told(true, 41);
        gate.open();
        db.wait_for_background_work().unwrap();
        told(false, 0);
        db.close().unwrap();
    });
}

/// pressure F12: three L0 files delay, and the listener hears of it; so does a level over its target, when the target falls;
/// compaction ends both.
#[test]
fn a_soft_limit_comes_and_goes() {
    case("a_soft_limit_comes_and_goes", |clock| {
        let fs = SimFs::new(1);
        let (mut options, notes) = with_notes(&fs, clock);
        options.column_family.level0_file_num_compaction_trigger = 3;
        options.column_family.level0_slowdown_writes_trigger = 3;
        let db = Db::open("/db", options).unwrap();
        add_l0(&db, 2);
        db.put("a", "1").unwrap();
        db.put("z", "1").unwrap();
        let compaction = flush_and_hold_compaction(&fs, &db);
        assert_eq!(held(&db), (false, true), "three files");
        until("the listener hears of the delay", || notes.delayed.load(Ordering::SeqCst));
        compaction.open();
        db.wait_for_background_work().unwrap();
        assert_eq!(held(&db), (false, false));

        // 400,000 bytes in L1 of a target of 256 MiB owe nothing.
        let mut rng = Rng::new(1);
        for key in 0..4_u8 {
            let value: Vec<u8> = (0..100_000).map(|_| rng.next_u64() as u8).collect();
            db.put([b'b' + key], value).unwrap();
        }
        db.compact_range(None, None).unwrap();
        set(&db, &[("soft_pending_compaction_bytes_limit", "160000")]);
        assert_eq!((pending(&db), held(&db)), (0, (false, false)));
        let compaction = fs.gate_next(Pattern::any().on(FileKind::Manifest));
        set(&db, &[("max_bytes_for_level_base", "65536")]);
        compaction.wait_until_reached();
        assert!(pending(&db) >= 160_000, "{} pending", pending(&db));
        assert_eq!(held(&db), (false, true), "the level is over its target");
        compaction.open();
        db.wait_for_background_work().unwrap();
        assert_eq!(held(&db), (false, false));
        db.close().unwrap();
    });
}

/// pressure F13: two L0 files meet automatic compactions, switched on with triggers or limits that stop, delay, or do
/// neither: by `set_options`, and by `enable_auto_compaction`.
#[test]
fn automatic_compactions_switched_on() {
    let l0_bytes = |db: &Db| db.property_int("rocksdb.total-sst-files-size").unwrap();
    let far = ("level0_stop_writes_trigger", "1000".to_owned());
    for by_name in [true, false] {
        case("automatic_compactions_switched_on", |clock| {
            for (what, expected) in [
                ("stop", (true, false)),
                ("slowdown", (false, true)),
                ("hard", (true, false)),
                ("soft", (false, true)),
            ] {
                let fs = SimFs::new(1);
                let (mut options, notes) = with_notes(&fs, clock);
                options.column_family.disable_auto_compactions = true;
                options.column_family.level0_file_num_compaction_trigger = 2;
                let db = Db::open("/db", options).unwrap();
                add_l0(&db, 2);
                let bytes = l0_bytes(&db).to_string();
                let two = || "2".to_owned();
                let changes = match what {
                    "stop" => {
                        vec![("level0_slowdown_writes_trigger", two()), ("level0_stop_writes_trigger", two())]
                    }
                    "slowdown" => vec![("level0_slowdown_writes_trigger", two()), far.clone()],
                    "hard" => vec![
                        ("soft_pending_compaction_bytes_limit", bytes.clone()),
                        ("hard_pending_compaction_bytes_limit", bytes),
                    ],
                    _ => vec![("soft_pending_compaction_bytes_limit", bytes)],
                };
                let mut changes: Vec<_> =
                    changes.iter().map(|(name, value)| (*name, value.as_str())).collect();
                let gate = fs.gate(Pattern::op(Op::Create).on(FileKind::Sst));
                if by_name {
                    changes.push(("disable_auto_compactions", "false"));
                    set(&db, &changes);
                } else {
                    set(&db, &changes);
                    assert_eq!(held(&db), (false, false), "{what}: not yet");
                    db.enable_auto_compaction(&[db.default_column_family()]).unwrap();
                }
                gate.wait_until_reached();
                assert_eq!(held(&db), expected, "{what}");
                gate.open();
                db.wait_for_background_work().unwrap();
                assert_eq!(held(&db), (false, false), "{what}, compacted");
                db.close().unwrap();
                let told = (notes.stopped.load(Ordering::SeqCst), notes.delayed.load(Ordering::SeqCst));
                assert_eq!(told, expected, "{what}");
            }
        });
    }
}

/// pressure L12: a stop by pending bytes names the compaction that ends it; without automatic compactions there is none.
#[test]
fn a_stop_by_pending_bytes_names_its_compaction() {
    case("a_stop_by_pending_bytes_names_its_compaction", |clock| {
        let fs = SimFs::new(1);
        let (mut options, _) = with_notes(&fs, clock);
        options.column_family.level0_file_num_compaction_trigger = 3;
        let db = Db::open("/db", options).unwrap();
        add_l0(&db, 2);
        db.put("a", "1").unwrap();
        db.put("z", "1").unwrap();
        let compaction = flush_and_hold_compaction(&fs, &db);
        set(
            &db,
            &[("soft_pending_compaction_bytes_limit", "1"), ("hard_pending_compaction_bytes_limit", "1")],
        );
        std::thread::scope(|scope| {
            let writer = put_aside(scope, &db, "waits", 5);
            until_parked(&db, 1);
            assert_eq!(db.property_int("rocksdb.num-running-compactions"), Some(1));
            assert!(db.property("sluicedb.pressure-sources").unwrap().contains("pending-compaction-bytes"));
            set(&db, &[("disable_auto_compactions", "true")]);
            writer.join().unwrap().unwrap();
            assert_eq!(held(&db), (false, false), "no stop without automatic compactions");
            set(&db, &[("disable_auto_compactions", "false")]);
            let writer = put_aside(scope, &db, "waits", 5);
            until_parked(&db, 1);
            compaction.open();
            writer.join().unwrap().unwrap();
        });
        db.close().unwrap();
    });
}

/// pressure I9: `set_db_options` changes the top rate, and the rate in force follows from the fraction.
#[test]
fn the_top_rate_changes_by_name() {
    case("the_top_rate_changes_by_name", |clock| {
        let mut options = options(&SimFs::new(1), clock);
        options.delayed_write_rate = DelayedWriteRate::BytesPerSecond(2 << 20);
        let db = Db::open("/db", options).unwrap();
        assert_eq!(db.write_controller().max_rate(), 2 << 20);
        db.set_db_options(&[("delayed_write_rate", "20000")]).unwrap();
        assert_eq!(db.write_controller().max_rate(), 20_000);
        let source = db.write_controller().source(SourceKind::WriteBufferManager);
        source.require(half());
        assert_eq!(rate(&db), 16_384, "the floor");
        assert_eq!(db.db_options().delayed_write_rate, DelayedWriteRate::BytesPerSecond(20_000));
    });
}

/// pressure I10: a rate of 0 is the rate limiter's, or 16 MiB/s without one.
#[test]
fn no_rate_is_the_limiters() {
    case("no_rate_is_the_limiters", |clock| {
        let open = |limiter: Option<u64>, rate| {
            let mut options = options(&SimFs::new(1), clock);
            options.rate_limiter = limiter.map(RateLimiter::new);
            options.delayed_write_rate = rate;
            Db::open("/db", options).unwrap().write_controller().max_rate()
        };
        let zero = DelayedWriteRate::BytesPerSecond(0);
        assert_eq!((open(None, zero), open(None, DelayedWriteRate::Default)), (16 << 20, 16 << 20));
        assert_eq!(open(Some(31 << 20), zero), 31 << 20);
        assert_eq!(open(Some(31 << 20), DelayedWriteRate::Default), 31 << 20);
        assert_eq!(open(Some(31 << 20), DelayedWriteRate::BytesPerSecond(5)), 5);
    });
}

/// pressure X3: `Auto` is twice what arrives until a flush has ended, then twice what flushes take out of memory while they are
/// busy, times the flushers; a step keeps its meaning; by name it begins and ends.
#[test]
fn the_top_rate_is_measured() {
    case("the_top_rate_is_measured", |clock| {
        let fs = SimFs::new(1);
        let mut options = options(&fs, clock);
        options.delayed_write_rate = DelayedWriteRate::Auto;
        options.max_background_flushes = 2;
        let db = Db::open("/db", options).unwrap();
        let top = |expected: u64| {
            until(&format!("a top rate of {expected}"), || db.write_controller().max_rate() == expected);
        };
        assert_eq!(db.write_controller().max_rate(), 16 << 20, "nothing measured");
        // The thread that looks waits for the next second from before the first write on.
        until("the thread waits", || clock.next_deadline() == Some(1_000 + SECOND));
        for number in 0..400 {
            db.put(format!("{number:03}"), [1; 1_000]).unwrap();
        }
        let arrived = db.statistics().bytes_written;
        clock.advance(Duration::from_secs(1));
        top(2 * arrived);

        let flush_for = |seconds: u32| {
            let bytes = used(&db);
            let gate = hold_flushes(&fs);
            std::thread::scope(|scope| {
                let flusher = scope.spawn(|| db.flush());
                gate.wait_until_reached();
                clock.advance(Duration::from_secs(seconds.into()));
                gate.open();
                flusher.join().unwrap().unwrap();
            });
            bytes / u64::from(seconds)
        };
        let drain = flush_for(4);
        top(4 * drain);
        let source = db.write_controller().source(SourceKind::WriteBufferManager);
        source.require(half());
        assert_eq!(rate(&db), 2 * drain, "step 50");

        // Too small a flush says nothing, however long it took.
        db.put("a", "1").unwrap();
        flush_for(100);
        settle(&db);
        assert_eq!(db.write_controller().max_rate(), 4 * drain);

        db.set_db_options(&[("delayed_write_rate", "5000000")]).unwrap();
        assert_eq!(rate(&db), 2_500_000);
        db.set_db_options(&[("delayed_write_rate", "auto")]).unwrap();
        assert_eq!((rate(&db), db.db_options().delayed_write_rate), (2 * drain, DelayedWriteRate::Auto));
        db.close().unwrap();
    });
}

/// pressure X3: a shared controller keeps the rate that it was made with, until `auto` is asked for by name.
#[test]
fn a_shared_top_rate_is_not_measured_unasked() {
    case("a_shared_top_rate_is_not_measured_unasked", |clock| {
        let fs = SimFs::new(1);
        let mut options = options(&fs, clock);
        options.delayed_write_rate = DelayedWriteRate::Auto;
        options.write_controller = Some(controller(777_777, clock));
        let db = Db::open("/db", options).unwrap();
        for number in 0..400 {
            db.put(format!("{number:03}"), [1; 1_000]).unwrap();
        }
        let drain = used(&db);
        let gate = hold_flushes(&fs);
        std::thread::scope(|scope| {
            let flusher = scope.spawn(|| db.flush());
            gate.wait_until_reached();
            clock.advance(Duration::from_secs(1));
            gate.open();
            flusher.join().unwrap().unwrap();
        });
        settle(&db);
        assert_eq!(db.write_controller().max_rate(), 777_777);
        db.set_db_options(&[("delayed_write_rate", "auto")]).unwrap();
        let flushers = u64::from(db.db_options().max_background_flushes);
        assert_eq!(db.write_controller().max_rate(), 2 * drain * flushers);
        db.close().unwrap();
    });
}

/// pressure I12: flushes write at high priority and compactions at low; with a delay or a stop in force, both at user priority;
/// back afterwards.
#[test]
fn output_is_urgent_while_writers_are_held() {
    case("output_is_urgent_while_writers_are_held", |clock| {
        let limiter = RateLimiter::new(u64::MAX >> 24);
        let mut options = options(&SimFs::new(1), clock);
        options.rate_limiter = Some(Arc::clone(&limiter));
        let db = Db::open("/db", options).unwrap();
        let written = || {
            [IoPriority::High, IoPriority::Low, IoPriority::User]
                .map(|priority| limiter.total_bytes_through(priority))
        };
        let source = db.write_controller().source(SourceKind::L0);
        for (ask, expected) in [
            (Requirement::Normal, [true, true, false]),
            (full(), [false, false, true]),
            (Requirement::Stopped, [false, false, true]),
            (Requirement::Normal, [true, true, false]),
        ] {
            db.put("a", "1").unwrap();
            db.put("z", "1").unwrap();
            let before = written();
            source.require(ask);
            flush(&db, "default");
            db.compact_range(None, None).unwrap();
            source.require(Requirement::Normal);
            let moved = [0, 1, 2].map(|which| written()[which] > before[which]);
            assert_eq!(moved, expected, "{ask:?}");
        }
    });
}

/// pressure B9: without a quota, too, one small put takes one unit of the block cache; the whole of it comes back.
#[test]
fn memtables_take_room_in_the_cache() {
    case("memtables_take_room_in_the_cache", |clock| {
        let cache = BlockCache::new(8 << 20);
        let mut options = options(&SimFs::new(1), clock);
        options.db_write_buffer_size = 0;
        options.block_cache = Some(Arc::clone(&cache));
        options.cost_write_buffer_to_cache = true;
        let db = Db::open("/db", options).unwrap();
        assert_eq!(cache.usage(), 0);
        db.put("k", "1").unwrap();
        assert_eq!((cache.usage(), cache.reserved_bytes()), (CACHE_UNIT, CACHE_UNIT));
        assert!(cache.usage() > 128_000);
        assert_eq!(number(&db, "sluicedb.wbm", "cache-reserved"), CACHE_UNIT);
        db.put("l", vec![1; 3 << 20]).unwrap();
        assert!(cache.reserved_bytes() > 3 << 20);
        // What memtables take, blocks lack: reading all of a larger table does not bring the cache above its size.
        db.flush().unwrap();
        for key in 0..200_u8 {
            db.put([b't', key], [key; 40_000]).unwrap();
        }
        db.flush().unwrap();
        db.put("m", vec![1; 6 << 20]).unwrap();
        for key in 0..200_u8 {
            assert_eq!(db.get([b't', key]).unwrap().map(|value| value.len()), Some(40_000));
        }
        assert!(cache.usage() <= cache.capacity(), "{cache:?}");
        db.set_db_options(&[("cost_write_buffer_to_cache", "false")]).unwrap();
        assert_eq!(cache.reserved_bytes(), 0);
        db.set_db_options(&[("cost_write_buffer_to_cache", "true")]).unwrap();
        assert!(cache.reserved_bytes() >= 6 << 20);
        db.close().unwrap();
        drop(db);
        assert_eq!(cache.reserved_bytes(), 0);
    });
}

/// pressure O3: triggers, limits and memtable numbers that change let a parked writer go, and hold the next one.
#[test]
fn family_options_reach_a_parked_writer() {
    case("family_options_reach_a_parked_writer", |clock| {
        let fs = SimFs::new(1);
        let mut options = options(&fs, clock);
        options.column_family.level0_file_num_compaction_trigger = 4;
        options.column_family.level0_slowdown_writes_trigger = 4;
        options.column_family.level0_stop_writes_trigger = 4;
        let db = Db::open("/db", options).unwrap();
        add_l0(&db, 3);
        db.put("a", "1").unwrap();
        db.put("z", "1").unwrap();
        let compaction = flush_and_hold_compaction(&fs, &db);
        let parked_until = |changes: &[(&str, &str)]| {
            std::thread::scope(|scope| {
                let writer = put_aside(scope, &db, "waits", 5);
                until_parked(&db, 1);
                set(&db, changes);
                writer.join().unwrap().unwrap();
            });
        };
        parked_until(&[("level0_stop_writes_trigger", "10"), ("level0_slowdown_writes_trigger", "9")]);
        set(
            &db,
            &[("soft_pending_compaction_bytes_limit", "1"), ("hard_pending_compaction_bytes_limit", "1")],
        );
        parked_until(&[
            ("hard_pending_compaction_bytes_limit", "256G"),
            ("soft_pending_compaction_bytes_limit", "64G"),
        ]);
        let flush = hold_flushes(&fs);
        db.flush_opt(&sluicedb::FlushOptions::queued()).unwrap();
        flush.wait_until_reached();
        db.put("k", "1").unwrap();
        db.flush_opt(&sluicedb::FlushOptions::queued()).unwrap();
        set(&db, &[("max_write_buffer_number", "2")]);
        parked_until(&[("max_write_buffer_number", "8")]);
        // A smaller memtable is sealed by the change itself.
        db.put("k", vec![1; 100_000]).unwrap();
        assert_eq!(db.property_int("rocksdb.num-immutable-mem-table"), Some(2));
        flush.open();
        set(&db, &[("write_buffer_size", "64K")]);
        until("it is flushed", || db.property_int("rocksdb.cur-size-all-mem-tables") == Some(0));
        compaction.open();
    });
}

/// pressure O3: `delayed_write_rate`, `allow_stall`, `delay_start_percent` and `stall_timeout`, by name, reach a writer that
/// sleeps in a delay; the last one a parked writer, too.
#[test]
fn database_options_reach_waiting_writers() {
    case("database_options_reach_waiting_writers", |clock| {
        let fs = SimFs::new(1);
        let mut options = options(&fs, clock);
        options.db_write_buffer_size = 100_000;
        options.initiate_flushes = false;
        options.delayed_write_rate = DelayedWriteRate::BytesPerSecond(100_000);
        let db = Db::open("/db", options).unwrap();
        let gate = hold_flushes(&fs);
        db.put("k", [1; 80_000]).unwrap();
        for (change, back) in [
            (("delayed_write_rate", "1125899906842624"), "100000"),
            (("delay_start_percent", "95"), "70"),
            (("allow_stall", "false"), "true"),
        ] {
            std::thread::scope(|scope| {
                let sleeper = put_aside(scope, &db, "s", 1_500);
                until_asleep(&db, 1);
                db.set_db_options(&[change]).unwrap();
                // What is left of a debt is served at a rate that nobody feels.
                clock.advance(Duration::from_micros(1));
                sleeper.join().unwrap().unwrap_or_else(|error| panic!("{change:?}: {error}"));
            });
            db.set_db_options(&[(change.0, back)]).unwrap();
        }
        let timed_out = |writer: sluicedb::Result<()>| match writer {
            Err(Error::Stalled { cause, waited, .. }) => {
                assert!(cause.starts_with("timeout"), "{cause}");
                waited
            }
            other => panic!("{other:?}"),
        };
        std::thread::scope(|scope| {
            let sleeper = put_aside(scope, &db, "s", 10_000);
            until_asleep(&db, 1);
            clock.advance(Duration::from_millis(10));
            until_asleep(&db, 1);
            db.set_db_options(&[("stall_timeout", "10000")]).unwrap();
            assert_eq!(timed_out(sleeper.join().unwrap()), Duration::from_millis(10));
            db.set_db_options(&[("stall_timeout", "0")]).unwrap();
            let stop = db.write_controller().source(SourceKind::L0);
            stop.require(Requirement::Stopped);
            let parked = put_aside(scope, &db, "p", 10);
            until_parked(&db, 1);
            clock.advance(Duration::from_millis(20));
            until_parked(&db, 1);
            db.set_db_options(&[("stall_timeout", "20000")]).unwrap();
            assert_eq!(timed_out(parked.join().unwrap()), Duration::from_millis(20));
        });
        gate.open();
    });
}

/// The options as text, less the shared parts: what clock, file system, manager and controller print moves with the
/// database's threads.
fn settings(db: &Db, family: &ColumnFamily) -> String {
    let mut options = db.db_options();
    let shared = DbOptions::default();
    options.write_buffer_manager = None;
    options.write_controller = None;
    options.file_system = shared.file_system;
    options.clock = shared.clock;
    format!("{:?} {options:?}", family.options())
}

/// pressure O3: a refused change changes nothing, what it names beside the refused option included.
#[test]
fn a_refused_change_changes_nothing() {
    case("a_refused_change_changes_nothing", |clock| {
        let brake = controller(UNFELT, clock);
        let shared = databases(1, &passive_manager(GIB, clock), &brake, clock);
        let db = &shared[0].1;
        let family = db.default_column_family();
        let before = settings(db, &family);
        let refused = |outcome: sluicedb::Result<()>, name: &str| match outcome {
            Err(Error::InvalidArgument { what, .. }) => assert_eq!(what, name),
            other => panic!("{name}: {other:?}"),
        };
        let size = ("write_buffer_size", "128K");
        for (beside, name) in [
            (("num_levels", "3"), "num_levels"),
            (("max_write_buffer_size_to_maintain", "1"), "max_write_buffer_size_to_maintain"),
            (("min_write_buffer_number_to_merge", "1"), "min_write_buffer_number_to_merge"),
            (("level0_stop_writes_trigger", "1"), "level0_slowdown_writes_trigger"),
            (("write_buffer_sizes", "1"), "option"),
        ] {
            refused(db.set_options(&family, &[size, beside]), name);
        }
        let timeout = ("stall_timeout", "5000");
        for (beside, name) in [
            (("db_write_buffer_size", "1G"), "db_write_buffer_size"),
            (("initiate_flushes", "false"), "initiate_flushes"),
            (("max_parallel_flushes", "2"), "max_parallel_flushes"),
            (("delay_start_percent", "100"), "delay_start_percent"),
            (("allow_stall", "false"), "allow_stall"), // the manager is shared
            (("cost_write_buffer_to_cache", "true"), "cost_write_buffer_to_cache"),
            (
                ("enforce_write_buffer_manager_during_recovery", "false"),
                "enforce_write_buffer_manager_during_recovery",
            ),
        ] {
            refused(db.set_db_options(&[timeout, beside]), name);
        }
        assert_eq!(settings(db, &family), before);
        db.close().unwrap();
        assert!(matches!(db.set_options(&family, &[size]), Err(Error::ShutdownInProgress)));
        assert!(matches!(db.set_db_options(&[timeout]), Err(Error::ShutdownInProgress)));
    });
}

/// pressure L7: a writer asleep in a delay of 64 s gives up at its limit of 5 s, and who is behind it moves up; 3 s asleep and
/// 2 s parked are 5 s as well.
#[test]
fn a_limit_bounds_delay_and_stop_together() {
    case("a_limit_bounds_delay_and_stop_together", |clock| {
        let fs = SimFs::new(1);
        let mut options = options(&fs, clock);
        options.write_controller = Some(controller(16_384, clock));
        options.db_write_buffer_size = 0;
        let db = Db::open("/db", options).unwrap();
        let source = db.write_controller().source(SourceKind::L0);
        source.require(full());
        let mut patient = WriteOptions::default();
        patient.stall_timeout = Some(Duration::from_secs(5));
        let (db, patient) = (&db, &patient);
        for stop in [false, true] {
            std::thread::scope(|scope| {
                let writer = scope.spawn(move || db.put_opt("large", vec![1; 1 << 20], patient));
                until_asleep(db, 1);
                let behind = put_aside(scope, db, "behind", 16_000);
                until_asleep(db, 2);
                for second in 1..=5 {
                    if stop && second == 4 {
                        source.require(Requirement::Stopped);
                        until_parked(db, 2);
                    }
                    until("both wait for the clock", || clock.next_deadline().is_some());
                    // Two flush threads, compaction and housekeeping threads, and the two writers.
                    clock.wait_until_waiting(6);
                    clock.advance(Duration::from_secs(1));
                }
                match writer.join().unwrap() {
                    Err(Error::Stalled { waited, .. }) => assert_eq!(waited, Duration::from_secs(5)),
                    other => panic!("{other:?}"),
                }
                source.require(full());
                // It has only its own bytes to wait for now: 16,000 at 16,384 a second are earned long ago, or nearly.
                until("the one behind is asleep or done", || {
                    behind.is_finished() || db.write_controller().stats().sleeping == 1
                });
                clock.advance(Duration::from_secs(1));
                behind.join().unwrap().unwrap();
            });
            assert!(db.get("large").unwrap().is_none());
            source.require(Requirement::Normal);
            source.require(full());
        }
    });
}

/// pressure X2: a governor with nothing to govern holds nobody, and its thread ends with the database.
#[test]
fn a_governor_ends_with_its_database() {
    case("a_governor_ends_with_its_database", |clock| {
        let fs = SimFs::new(1);
        let mut options = options(&fs, clock);
        options.smooth_writes = true;
        let db = Db::open("/db", options).unwrap();
        for n in 0..50_u64 {
            db.put(n.to_be_bytes(), [1; 100]).unwrap();
            clock.advance(Duration::from_millis(10));
        }
        assert!(!db.write_controller().is_holding());
        db.close().unwrap();
    });
}
