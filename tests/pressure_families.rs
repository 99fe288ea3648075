//! What the shape of a column family asks of the brake: real L0 files, real sealed memtables, real compactions.
//!
//! `pressure` groups E (E3, E4) and F of section 10. Compactions are held before they make their first file, so that L0
//! is as deep as a case says; while files are added, the top rate is one that nobody feels.

use std::sync::Arc;

use sluicedb::{Compression, Db, DbOptions, ManualClock, Requirement, SourceKind, WriteBatch};
use sluicedb_tests::pressure::*;
use sluicedb_tests::rng::Rng;
use sluicedb_tests::sim_fs::{FileKind, Gate, Op, Pattern, SimFs};

/// Options whose compactions are due from `slowdown` L0 files on, as delays are.
fn l0_options(fs: &SimFs, clock: &ManualClock, slowdown: u32, stop: u32) -> DbOptions {
    let mut options = options(fs, clock);
    options.column_family.level0_file_num_compaction_trigger = slowdown;
    options.column_family.level0_slowdown_writes_trigger = slowdown;
    options.column_family.level0_stop_writes_trigger = stop;
    options
}

/// Brings L0 of `default` to `depth` files; from the first compaction on it is held by the gate.
fn raise_l0(fs: &SimFs, db: &Db, trigger: u32, depth: u32) -> Gate {
    add_l0(db, trigger - 1);
    db.put("a", "1").unwrap();
    db.put("z", "1").unwrap();
    let gate = flush_and_hold_compaction(fs, db);
    add_l0(db, depth - trigger);
    gate
}

fn rate(db: &Db) -> u64 {
    db.property_int("rocksdb.actual-delayed-write-rate").unwrap()
}

/// Two databases on one controller with L0 delays from 10 and stops from 20 files on.
fn two(clock: &ManualClock) -> [(SimFs, Db); 2] {
    let brake = controller(UNFELT, clock);
    [0, 1].map(|number| {
        let fs = SimFs::new(number);
        let mut options = l0_options(&fs, clock, 10, 20);
        options.write_controller = Some(Arc::clone(&brake));
        let db = Db::open("/db", options).unwrap();
        (fs, db)
    })
}

/// pressure E3: any source of any of its databases holds all writers of a controller; the last one to go frees them.
#[test]
fn sources_of_all_databases_count() {
    case("sources_of_all_databases_count", |clock| {
        let [(fs0, db0), (fs1, db1)] = &two(clock);
        let delayed = || [db0, db1].map(|db| rate(db) > 0);
        let stopped = || [db0, db1].map(|db| db.property_int("rocksdb.is-write-stopped") == Some(1));
        let gate = raise_l0(fs0, db0, 10, 10);
        assert_eq!((delayed(), stopped()), ([true; 2], [false; 2]));
        gate.open();
        db0.wait_for_background_work().unwrap();
        assert_eq!((delayed(), stopped()), ([false; 2], [false; 2]));
        let of_db1 = raise_l0(fs1, db1, 10, 15);
        assert_eq!((delayed(), stopped()), ([true; 2], [false; 2]));
        let of_db0 = raise_l0(fs0, db0, 10, 20);
        assert_eq!(stopped(), [true; 2]);
        of_db0.open();
        db0.wait_for_background_work().unwrap();
        assert_eq!((delayed(), stopped()), ([true; 2], [false; 2]), "db1 still has 15");
        of_db1.open();
        db1.wait_for_background_work().unwrap();
        assert_eq!((delayed(), stopped()), ([false; 2], [false; 2]));
    });
}

/// pressure E4: a stop by one database parks the writers of both; what they write is not visible before it ends.
#[test]
fn a_stop_by_one_parks_both() {
    case("a_stop_by_one_parks_both", |clock| {
        let [(fs0, db0), (_, db1)] = &two(clock);
        let gate = raise_l0(fs0, db0, 10, 20);
        std::thread::scope(|scope| {
            let writers = [db0, db1].map(|db| put_aside(scope, db, "k", 10));
            until_parked(db0, 2);
            assert!([db0, db1].iter().all(|db| db.get("k").unwrap().is_none()));
            gate.open();
            for writer in writers {
                writer.join().unwrap().unwrap();
            }
        });
        assert!([db0, db1].iter().all(|db| db.get("k").unwrap().is_some()));
    });
}

/// pressure F4, pressure F6: the slope of L0 from 20 to 10,000 files at 800,000 bytes a second, and a stricter source beside it.
#[test]
fn the_slope_of_l0() {
    case("the_slope_of_l0", |clock| {
        let fs = SimFs::new(1);
        let db = Db::open("/db", l0_options(&fs, clock, 20, 10_000)).unwrap();
        let brake = db.write_controller();
        let at_800_000 = || {
            brake.set_max_rate(800_000);
            let rate = rate(&db);
            brake.set_max_rate(UNFELT);
            rate
        };
        let _gate = raise_l0(&fs, &db, 20, 20);
        assert_eq!(at_800_000(), 800_000);
        add_l0(&db, 50);
        assert_eq!(at_800_000(), 795_992, "70 files");
        add_l0(&db, 30);
        assert_eq!(at_800_000(), 793_587, "100 files");
        add_l0(&db, 1);
        assert_eq!(at_800_000(), 793_507, "101 files");
        let pending = brake.source(SourceKind::PendingCompactionBytes);
        pending.require(Requirement::Delayed(sluicedb::Fraction::ratio(95, 100).unwrap()));
        assert_eq!(at_800_000(), 760_000, "the stricter of two");
        assert_eq!(db.property("sluicedb.pressure-sources").unwrap().lines().count(), 2);
        pending.require(full());
        assert_eq!(at_800_000(), 793_507);
    });
}

/// pressure F5: without automatic compactions L0 and pending bytes ask for nothing.
#[test]
fn without_compactions_no_delay() {
    case("without_compactions_no_delay", |clock| {
        let fs = SimFs::new(1);
        let mut options = l0_options(&fs, clock, 2, 4);
        options.column_family.disable_auto_compactions = true;
        options.column_family.soft_pending_compaction_bytes_limit = 1;
        options.column_family.hard_pending_compaction_bytes_limit = 1;
        let db = Db::open("/db", options).unwrap();
        add_l0(&db, 6);
        assert_eq!((rate(&db), db.write_controller().rate()), (0, UNFELT));
        db.put_opt("k", "1", &no_slowdown()).unwrap();
    });
}

/// pressure F7: over families the strictest asks, and what it lets go falls back to the next.
#[test]
fn the_strictest_family_rules() {
    case("the_strictest_family_rules", |clock| {
        let fs = SimFs::new(1);
        let options = l0_options(&fs, clock, 10, 30);
        let family = options.column_family.clone();
        let db = Db::open_cf("/db", options, [("other", family)]).unwrap();
        let other = db.column_family("other").unwrap();
        let at_1_000_000 = || {
            db.write_controller().set_max_rate(1_000_000);
            let rate = rate(&db);
            db.write_controller().set_max_rate(UNFELT);
            rate
        };
        let gate = raise_l0(&fs, &db, 10, 15);
        assert_eq!(at_1_000_000(), 750_000);
        let raise_other = |count: u32| {
            for _ in 0..count {
                db.put_cf(&other, "a", "1").unwrap();
                db.put_cf(&other, "z", "1").unwrap();
                flush(&db, "other");
            }
        };
        raise_other(14);
        assert_eq!(at_1_000_000(), 750_000, "14 files ask for less");
        raise_other(6);
        assert_eq!(at_1_000_000(), 500_000, "20 files ask for more");
        db.drop_column_family(&other).unwrap();
        assert_eq!(at_1_000_000(), 750_000);
        gate.open();
        db.wait_for_background_work().unwrap();
        assert_eq!(rate(&db), 0);
    });
}

/// pressure F9: the shape of either family lets more compactions run at once.
#[test]
fn either_family_speeds_compaction_up() {
    case("either_family_speeds_compaction_up", |clock| {
        let fs = SimFs::new(1);
        let mut options = options(&fs, clock);
        options.max_background_compactions = 6;
        options.column_family.level0_file_num_compaction_trigger = 2;
        let family = options.column_family.clone();
        let db = Db::open_cf("/db", options, [("other", family)]).unwrap();
        let other = db.column_family("other").unwrap();
        let gate = raise_l0(&fs, &db, 2, 2);
        for _ in 0..2 {
            db.put_cf(&other, "a", "1").unwrap();
            db.put_cf(&other, "z", "1").unwrap();
            flush(&db, "other");
        }
        let running = || db.property_int("rocksdb.num-running-compactions").unwrap();
        assert_eq!(running(), 1, "two due, one allowed");
        db.put("a", "1").unwrap();
        flush(&db, "default");
        assert_eq!(running(), 1, "3 files are few");
        db.put("a", "1").unwrap();
        db.put("z", "1").unwrap();
        let second = flush_and_hold_compaction(&fs, &db);
        assert_eq!(running(), 2);
        second.open();
        gate.open();
        db.wait_for_background_work().unwrap();
    });
}

/// pressure F11: the hard limit of pending bytes parks a writer, and compaction lets it go.
#[test]
fn the_hard_limit_parks() {
    case("the_hard_limit_parks", |clock| {
        let fs = SimFs::new(1);
        let mut options = options(&fs, clock);
        options.column_family.compression = Compression::None;
        options.column_family.level0_file_num_compaction_trigger = 5;
        options.column_family.soft_pending_compaction_bytes_limit = 800 << 10;
        options.column_family.hard_pending_compaction_bytes_limit = 800 << 10;
        let db = Db::open("/db", options).unwrap();
        let mut rng = Rng::new(1);
        let mut fill = || {
            let value: Vec<u8> = (0..110 << 10).map(|_| rng.next_u64() as u8).collect();
            db.put("k", value).unwrap();
        };
        for _ in 0..4 {
            fill();
            flush(&db, "default");
        }
        fill();
        let gate = flush_and_hold_compaction(&fs, &db);
        assert!(!db.write_controller().is_stopped(), "550 KiB are within the limit");
        let mut more = 0;
        while !db.write_controller().is_stopped() && more < 5 {
            fill();
            flush(&db, "default");
            more += 1;
        }
        assert!(db.property("sluicedb.pressure-sources").unwrap().contains("stopped"), "{more} more files");
        std::thread::scope(|scope| {
            let writer = put_aside(scope, &db, "parked", 10);
            until_parked(&db, 1);
            gate.open();
            writer.join().unwrap().unwrap();
        });
    });
}

/// pressure F12, its L0 part: three files delay, compaction ends that; so it goes in the next round.
#[test]
fn the_slowdown_comes_and_goes() {
    case("the_slowdown_comes_and_goes", |clock| {
        let fs = SimFs::new(1);
        let db = Db::open("/db", l0_options(&fs, clock, 3, 6)).unwrap();
        for _ in 0..2 {
            let gate = raise_l0(&fs, &db, 3, 3);
            assert!(rate(&db) > 0);
            gate.open();
            db.wait_for_background_work().unwrap();
            assert_eq!(rate(&db), 0);
        }
    });
}

/// pressure F13, on reopening: two files met with other triggers stop, delay, or do neither.
#[test]
fn triggers_hold_from_the_open_on() {
    case("triggers_hold_from_the_open_on", |clock| {
        let fs = SimFs::new(1);
        let mut plain = options(&fs, clock);
        plain.column_family.disable_auto_compactions = true;
        let db = Db::open("/db", plain).unwrap();
        add_l0(&db, 2);
        db.close().unwrap();
        for (slowdown, stop, expected) in
            [(2, 2, (true, false)), (2, 9, (false, true)), (3, 3, (false, false))]
        {
            let image = fs.crash(sluicedb_tests::sim_fs::CrashMode::Kill, 1);
            let gate = image.gate(Pattern::op(Op::Create).on(FileKind::Sst));
            let mut options = l0_options(&image, clock, slowdown, stop);
            options.column_family.level0_file_num_compaction_trigger = 2;
            let db = Db::open("/db", options).unwrap();
            let found = (db.write_controller().is_stopped(), rate(&db) > 0);
            assert_eq!(found, expected, "slowdown {slowdown}, stop {stop}");
            gate.open();
            db.wait_for_background_work().unwrap();
            assert!(!db.write_controller().is_holding(), "slowdown {slowdown}, stop {stop}");
        }
    });
}

/// pressure F14: rates and waits are a pure function of L0, whatever was before.
#[test]
fn waits_follow_l0_alone() {
    case("waits_follow_l0_alone", |clock| {
        let batch = |len: usize| {
            let mut batch = WriteBatch::new();
            batch.put("k", vec![1; len]);
            batch
        };
        let len = 100_000 - (batch(99_000).byte_size() as usize - 99_000);
        assert_eq!(batch(len).byte_size(), 100_000);
        let fs = SimFs::new(1);
        let db = Db::open("/db", l0_options(&fs, clock, 10, 26)).unwrap();
        add_l0(&db, 9);
        db.put("a", "1").unwrap();
        db.put("z", "1").unwrap();
        db.write_controller().set_max_rate(1_600_000);
        let _gate = flush_and_hold_compaction(&fs, &db);
        for depth in 10..=21_u64 {
            assert_eq!(rate(&db), 100_000 * (26 - depth), "{depth} files");
            std::thread::scope(|scope| {
                let db = &db;
                let writer = scope.spawn(move || db.write(batch(len)));
                until_asleep(db, 1);
                until("it sleeps", || clock.next_deadline().is_some());
                clock.set(clock.next_deadline().expect("it sleeps until it has paid"));
                writer.join().unwrap().unwrap();
            });
            flush(&db, "default");
        }
        let slept = db.statistics().stall_delay_micros;
        assert!((1_297_395..=1_297_396).contains(&slept), "{slept} us in all");
    });
}

/// pressure F15: what a family asked for goes with it, and with its database.
#[test]
fn what_is_gone_asks_for_nothing() {
    case("what_is_gone_asks_for_nothing", |clock| {
        let [(fs0, db0), (_, db1)] = &two(clock);
        let gate = raise_l0(fs0, db0, 10, 15);
        assert!(rate(db1) > 0);
        std::thread::scope(|scope| {
            let closer = scope.spawn(|| db0.close());
            gate.open();
            closer.join().unwrap().unwrap();
        });
        assert_eq!(rate(db1), 0);
        let (fs, other) = (SimFs::new(3), l0_options(&SimFs::new(4), clock, 10, 20).column_family);
        let mut options = l0_options(&fs, clock, 1_000, 1_000);
        options.write_controller = Some(Arc::clone(db1.write_controller()));
        let db = Db::open_cf("/db", options, [("other", other)]).unwrap();
        let family = db.column_family("other").unwrap();
        let held = fs.gate_next(Pattern::op(Op::Create).on(FileKind::Sst));
        held.open();
        for round in 0..10 {
            db.put_cf(&family, "a", "1").unwrap();
            db.put_cf(&family, "z", "1").unwrap();
            if round < 9 {
                flush(&db, "other");
            }
        }
        let gate = flush_and_hold_compaction(&fs, &db);
        assert!(rate(db1) > 0);
        db.drop_column_family(&family).unwrap();
        assert_eq!(rate(db1), 0);
        gate.open();
    });
}
