//! One database and its brake: who sleeps, who is refused, what passes, and what is reported of it.
//!
//! `pressure` groups I, J, V, O of section 10 through the public API. Sources of the test's own slow and stop the
//! controller at will; time moves only when a test moves it.

use std::sync::Arc;
use std::time::Duration;

use sluicedb::{
    Db, DbOptions, Durability, Error, ManualClock, Pressure, Requirement, SourceKind, WriteBatch,
    WriteOptions,
};
use sluicedb_tests::pressure::*;
use sluicedb_tests::sim_fs::{FileKind, Op, Pattern, SimFs};

/// A database whose top rate is `rate`, without a quota.
fn open(fs: &SimFs, clock: &ManualClock, rate: u64) -> Db {
    let mut options = options(fs, clock);
    options.write_controller = Some(controller(rate, clock));
    options.db_write_buffer_size = 0;
    Db::open("/db", options).unwrap()
}

fn batch(key: &str, len: usize) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(key, vec![7; len]);
    batch
}

/// Encoded size of a put.
fn size(key: &str, len: usize) -> u64 {
    batch(key, len).byte_size()
}

fn micros(amount: u64) -> Duration {
    Duration::from_micros(amount)
}

/// pressure I1: a batch that would have to sleep is refused and not charged; a plain one sleeps for its own bytes exactly.
#[test]
fn a_batch_pays_for_itself() {
    for durability in [Durability::None, Durability::Buffered, Durability::Os, Durability::Sync] {
        case("a_batch_pays_for_itself", |clock| {
            let fs = SimFs::new(1);
            let db = open(&fs, clock, 1);
            let delay = db.write_controller().source(SourceKind::L0);
            delay.require(full());
            let mut hasty = WriteOptions::durability(durability);
            hasty.no_slowdown = true;
            assert!(is_stalled(&db.write_opt(batch("k", 1_000), &hasty)));
            assert!(db.get("k").unwrap().is_none());
            assert_eq!(db.statistics().writes_refused, 1);
            db.write_controller().set_max_rate(1_000_000);
            std::thread::scope(|scope| {
                let plain = WriteOptions::durability(durability);
                let db = &db;
                let writer = scope.spawn(move || db.write_opt(batch("k", 1_000), &plain));
                until_asleep(db, 1);
                clock.advance(micros(size("k", 1_000)));
                writer.join().unwrap().unwrap();
            });
            assert_eq!(db.statistics().stall_delay_micros, size("k", 1_000), "the refused one is not in it");
        });
    }
}

/// pressure I2: sleepers pass in their order, each when all before it and itself are paid for; the hasty are refused.
#[test]
fn sleepers_pass_in_order() {
    case("sleepers_pass_in_order", |clock| {
        let fs = SimFs::new(1);
        let db = open(&fs, clock, 1_000_000);
        let delay = db.write_controller().source(SourceKind::L0);
        delay.require(full());
        std::thread::scope(|scope| {
            let a = put_aside(scope, &db, "a", 1_000_000);
            until_asleep(&db, 1);
            let b = put_aside(scope, &db, "b", 100_000);
            until_asleep(&db, 2);
            let c = put_aside(scope, &db, "c", 100_000);
            until_asleep(&db, 3);
            for _ in 0..2 {
                assert!(is_stalled(&db.put_opt("hasty", "1", &no_slowdown())));
            }
            for (writer, bytes) in
                [(a, size("a", 1_000_000)), (b, size("b", 100_000)), (c, size("c", 100_000))]
            {
                clock.advance(micros(bytes));
                writer.join().unwrap().unwrap();
            }
        });
        let (a, b) = (size("a", 1_000_000), size("b", 100_000));
        assert_eq!(db.statistics().stall_delay_micros, a + (a + b) + (a + b + b));
        db.put_opt("hasty", "1", &no_slowdown()).unwrap();
    });
}

/// Runs `then` while one write is held in the log and two hasty ones are queued behind it.
fn with_a_queue(clock: &ManualClock, then: impl FnOnce(&Db)) {
    let fs = SimFs::new(1);
    let mut options = options(&fs, clock);
    options.write_controller = Some(controller(1, clock));
    let db = Db::open("/db", options).unwrap();
    std::thread::scope(|scope| {
        let db = &db;
        let gate = fs.gate(Pattern::op(Op::Write).on(FileKind::Wal));
        let leader = put_aside(scope, db, "leader", 10);
        gate.wait_until_reached();
        let queued = ["q1", "q2"].map(|key| scope.spawn(move || db.put_opt(key, [1; 10], &no_slowdown())));
        let all = size("leader", 10) + 2 * size("q1", 10);
        until("all are queued", || db.write_buffer_manager().usage_report().queued == all);
        then(db);
        gate.open();
        leader.join().unwrap().unwrap();
        for writer in queued {
            writer.join().unwrap().unwrap();
        }
    });
    assert!(db.get("q2").unwrap().is_some());
}

/// pressure I3: a delay that begins later does not touch what is queued.
#[test]
fn a_delay_does_not_touch_the_queue() {
    case("a_delay_does_not_touch_the_queue", |clock| {
        with_a_queue(clock, |db| {
            let delay = db.write_controller().source(SourceKind::L0);
            delay.require(full());
            assert!(is_stalled(&db.put_opt("late", [1; 10], &no_slowdown())));
            assert_eq!(db.write_controller().stats().sleeping, 0);
            delay.require(Requirement::Normal);
        });
    });
}

/// pressure I4: nor does a stop; those who come later park, or are refused, and pass when it ends.
#[test]
fn a_stop_does_not_touch_the_queue() {
    case("a_stop_does_not_touch_the_queue", |clock| {
        with_a_queue(clock, |db| {
            let stop = db.write_controller().source(SourceKind::L0);
            stop.require(Requirement::Stopped);
            assert!(is_stalled(&db.put_opt("late", [1; 10], &no_slowdown())));
            assert_eq!(db.write_controller().stats().parked, 0);
        });
        let fs = SimFs::new(2);
        let db = open(&fs, clock, UNFELT);
        let stop = db.write_controller().source(SourceKind::L0);
        stop.require(Requirement::Stopped);
        std::thread::scope(|scope| {
            let writers = ["a", "b", "c"].map(|key| put_aside(scope, &db, key, 10));
            until_parked(&db, 3);
            for _ in 0..2 {
                assert!(is_stalled(&db.put_opt("hasty", "1", &no_slowdown())));
            }
            drop(stop);
            for writer in writers {
                writer.join().unwrap().unwrap();
            }
        });
    });
}

/// pressure I5: slow and hasty writers mixed over a stop by L0 whose trigger is its slowdown's: each ends, well or stalled.
#[test]
fn slow_and_hasty_writers_mix() {
    case("slow_and_hasty_writers_mix", |clock| {
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
        std::thread::scope(|scope| {
            let hasty = || db.put_opt("hasty", "1", &no_slowdown());
            let first = put_aside(scope, &db, "1", 10);
            until_parked(&db, 1);
            assert!(is_stalled(&hasty()));
            let second = put_aside(scope, &db, "2", 10);
            until_parked(&db, 2);
            assert!(is_stalled(&hasty()) && is_stalled(&hasty()));
            let third = put_aside(scope, &db, "3", 10);
            until_parked(&db, 3);
            compaction.open();
            for writer in [first, second, third] {
                writer.join().unwrap().unwrap();
            }
        });
        db.wait_for_background_work().unwrap();
        db.put_opt("hasty", "1", &no_slowdown()).unwrap();
    });
}

/// pressure I6: closing ends a parked and a sleeping put at the same instant, though no source lets go.
#[test]
fn closing_ends_every_wait_at_once() {
    case("closing_ends_every_wait_at_once", |clock| {
        for (ask, len) in [(Requirement::Stopped, 10), (full(), 1 << 20)] {
            let fs = SimFs::new(1);
            let db = open(&fs, clock, 16_384);
            let source = db.write_controller().source(SourceKind::L0);
            source.require(ask);
            std::thread::scope(|scope| {
                let writer = put_aside(scope, &db, "k", len);
                until("it waits", || {
                    let stats = db.write_controller().stats();
                    stats.parked + stats.sleeping == 1
                });
                let before = sluicedb::Clock::now_nanos(clock);
                db.close().unwrap();
                assert!(matches!(writer.join().unwrap(), Err(Error::ShutdownInProgress)));
                assert_eq!(sluicedb::Clock::now_nanos(clock), before);
            });
        }
    });
}

/// pressure I7, pressure I8: `lock_wal` holds the writers of its own database only, and lets go even under another stop.
#[test]
fn lock_wal_holds_one_database() {
    case("lock_wal_holds_one_database", |clock| {
        let both = databases(2, &passive_manager(1 << 20, clock), &controller(UNFELT, clock), clock);
        let (locked, other) = (&both[0].1, &both[1].1);
        std::thread::scope(|scope| {
            let lock = locked.lock_wal().unwrap();
            let plain = put_aside(scope, locked, "plain", 10);
            let synced =
                scope.spawn(|| locked.put_opt("synced", "1", &WriteOptions::durability(Durability::Sync)));
            until_parked(locked, 2);
            assert!(is_stalled(&locked.put_opt("hasty", "1", &no_slowdown())));
            assert_eq!(locked.property_int("rocksdb.is-write-stopped"), Some(1));
            other.put_opt("k", "1", &no_slowdown()).unwrap();
            locked.flush().unwrap();
            drop(lock);
            plain.join().unwrap().unwrap();
            synced.join().unwrap().unwrap();
        });
        locked.put_opt("hasty", "1", &no_slowdown()).unwrap();

        let lock = locked.lock_wal().unwrap();
        let stop = locked.write_controller().source(SourceKind::L0);
        stop.require(Requirement::Stopped);
        drop(lock);
        assert!(is_stalled(&locked.put_opt("hasty", "2", &no_slowdown())));
        drop(stop);
        locked.put_opt("hasty", "3", &no_slowdown()).unwrap();
    });
}

/// pressure I7: a batch that is being written when `lock_wal` is called is finished first.
#[test]
fn lock_wal_waits_for_running_batches() {
    case("lock_wal_waits_for_running_batches", |clock| {
        let fs = SimFs::new(1);
        let db = open(&fs, clock, UNFELT);
        std::thread::scope(|scope| {
            let gate = fs.gate(Pattern::op(Op::Write).on(FileKind::Wal));
            let writer = put_aside(scope, &db, "running", 10);
            gate.wait_until_reached();
            let locker = scope.spawn(|| {
                let lock = db.lock_wal().unwrap();
                let there = db.get("running").unwrap().is_some();
                drop(lock);
                there
            });
            gate.open();
            assert!(locker.join().unwrap(), "the lock came before the batch was done");
            writer.join().unwrap().unwrap();
        });
    });
}

/// pressure I11: low-priority writes are paced once compaction is behind, plain ones are not, and neither is after it.
#[test]
fn low_priority_gives_way_to_compaction() {
    case("low_priority_gives_way_to_compaction", |clock| {
        let fs = SimFs::new(1);
        let mut options = options(&fs, clock);
        options.column_family.level0_file_num_compaction_trigger = 4;
        options.column_family.level0_slowdown_writes_trigger = 12;
        let db = Db::open("/db", options).unwrap();
        let mut low = WriteOptions::default();
        low.low_pri = true;
        let paced = || db.write_controller().stats().tally.low_priority_delays;
        add_l0(&db, 3);
        db.put("a", "1").unwrap();
        db.put("z", "1").unwrap();
        let compaction = flush_and_hold_compaction(&fs, &db);
        add_l0(&db, 1);
        db.put_opt("k", vec![1; 100_000], &low).unwrap();
        assert_eq!(paced(), 0, "5 files are few");
        add_l0(&db, 1);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| db.put_opt("k", vec![1; 1 << 20], &low));
            until("the low one is paced", || db.write_controller().stats().low_priority_sleeping == 1);
            db.put_opt("l", vec![1; 1 << 20], &no_slowdown()).unwrap();
            assert_eq!(paced(), 1);
            let mut hasty = low.clone();
            hasty.no_slowdown = true;
            match db.put_opt("m", vec![1; 1 << 20], &hasty) {
                Err(Error::Stalled { cause, .. }) => assert_eq!(cause, "low priority"),
                other => panic!("{other:?}"),
            }
            clock.advance(Duration::from_secs(2));
            writer.join().unwrap().unwrap();
        });
        compaction.open();
        db.wait_for_background_work().unwrap();
        let before = paced();
        db.put_opt("k", vec![1; 1 << 20], &low).unwrap();
        assert_eq!(paced(), before);
    });
}

/// pressure I13: one compaction runs at a time, and as many as allowed once writers are held.
#[test]
fn a_stop_speeds_compaction_up() {
    case("a_stop_speeds_compaction_up", |clock| {
        let fs = SimFs::new(1);
        let mut options = options(&fs, clock);
        options.max_background_compactions = 3;
        options.column_family.level0_file_num_compaction_trigger = 2;
        let family = options.column_family.clone();
        let db = Db::open_cf("/db", options, (0..2).map(|n| (format!("cf{n}"), family.clone()))).unwrap();
        add_l0(&db, 1);
        db.put("a", "1").unwrap();
        db.put("z", "1").unwrap();
        let first = flush_and_hold_compaction(&fs, &db);
        for family in ["cf0", "cf1"].map(|name| db.column_family(name).unwrap()) {
            for _ in 0..2 {
                db.put_cf(&family, "a", "1").unwrap();
                db.put_cf(&family, "z", "1").unwrap();
                flush(&db, family.name());
            }
        }
        let running = || db.property_int("rocksdb.num-running-compactions").unwrap();
        assert_eq!(running(), 1);
        let rest = fs.gate(Pattern::op(Op::Create).on(FileKind::Sst));
        let stop = db.write_controller().source(SourceKind::MemtableCount);
        stop.require(Requirement::Stopped);
        std::thread::scope(|scope| {
            let writer = put_aside(scope, &db, "k", 10); // it parks, and that wakes who can end a stop
            until("three run", || running() == 3);
            drop(stop);
            first.open();
            rest.open();
            writer.join().unwrap().unwrap();
        });
        db.wait_for_background_work().unwrap();
    });
}

/// pressure J1, pressure J2, pressure V7: the manager's stop is counted where RocksDB's users look, and no family is blamed for it.
#[test]
fn the_managers_stop_is_counted() {
    case("the_managers_stop_is_counted", |clock| {
        let all = databases(1, &passive_manager(100_000, clock), &controller(UNFELT, clock), clock);
        let (fs, db) = &all[0];
        let stats = |name: &str| {
            let text = db.property("rocksdb.dbstats").unwrap();
            let at = text.find(name).unwrap_or_else(|| panic!("no {name} in:\n{text}"));
            let digits = text[at + name.len() + 2..].split(|c: char| !c.is_ascii_digit()).next().unwrap();
            digits.parse::<u64>().unwrap()
        };
        let limit = "write-buffer-manager-limit";
        assert_eq!((stats(&format!("{limit}-delays")), stats(&format!("{limit}-stops"))), (0, 0));
        let gate = hold_flushes(fs);
        db.put("large", [1; 100_000]).unwrap();
        assert!(is_stalled(&db.put_opt("k", "1", &no_slowdown())));
        assert_eq!(stats(&format!("{limit}-stops")), 1);
        assert_eq!(number(db, "sluicedb.pressure", "stops"), 1);
        assert_eq!(number(db, "sluicedb.pressure", "rejected"), 1);
        assert_eq!(db.property_int("rocksdb.is-write-stopped"), Some(1));
        assert_eq!(db.statistics().stall_micros, 0, "nobody waited");
        let family = db.property("rocksdb.cfstats").unwrap();
        assert!(family.contains("total-stops: 0") && family.contains("total-delays: 0"), "{family}");
        std::thread::scope(|scope| {
            let writer = put_aside(scope, db, "parked", 5);
            until_parked(db, 1);
            clock.advance(Duration::from_millis(7));
            gate.open();
            writer.join().unwrap().unwrap();
        });
        assert_eq!(db.statistics().stall_micros, 7_000);
        assert_eq!(db.statistics().stall_delay_micros, 0);
    });
}

/// pressure J3: two sealed memtables of one family stop by their number, and only that family is blamed.
#[test]
fn a_family_is_blamed_for_its_own_stop() {
    case("a_family_is_blamed_for_its_own_stop", |clock| {
        let fs = SimFs::new(1);
        let mut options = options(&fs, clock);
        options.column_family.max_write_buffer_number = 2;
        let family = options.column_family.clone();
        let db = Db::open_cf("/db", options, [("other", family)]).unwrap();
        let gate = hold_flushes(&fs);
        std::thread::scope(|scope| {
            db.put("k", "1").unwrap();
            let first = scope.spawn(|| db.flush());
            gate.wait_until_reached();
            db.put("k", "2").unwrap();
            let second = scope.spawn(|| db.flush());
            until("two are sealed", || db.property_int("rocksdb.num-immutable-mem-table") == Some(2));
            until("writers stop", || db.property_int("rocksdb.is-write-stopped") == Some(1));
            gate.open();
            first.join().unwrap().unwrap();
            second.join().unwrap().unwrap();
        });
        let text = db.property("rocksdb.cfstats").unwrap();
        for part in
            ["memtable-limit-stops: 1", "memtable-limit-delays: 0", "total-stops: 1", "total-delays: 0"]
        {
            assert!(text.contains(part), "no {part} in:\n{text}");
        }
        let other = db.column_family("other").unwrap();
        let text = db.property_cf(&other, "rocksdb.cfstats").unwrap();
        assert!(text.contains("total-stops: 0") && text.contains("total-delays: 0"), "{text}");
    });
}

/// pressure V2: a writer delayed for 2 s, stopped for 5 s, then delayed for the rest is booked under both; one that did not
/// wait under none.
#[test]
fn waits_are_booked_by_kind() {
    case("waits_are_booked_by_kind", |clock| {
        let fs = SimFs::new(1);
        let db = open(&fs, clock, 1_000_000);
        db.put("free", "1").unwrap();
        assert_eq!(db.statistics().stall_micros, 0);
        let source = db.write_controller().source(SourceKind::L0);
        source.require(full());
        let bytes = size("k", 10_000_000);
        std::thread::scope(|scope| {
            let writer = put_aside(scope, &db, "k", 10_000_000);
            until_asleep(&db, 1);
            clock.advance(Duration::from_secs(2));
            until_asleep(&db, 1);
            source.require(Requirement::Stopped);
            until_parked(&db, 1);
            clock.advance(Duration::from_secs(5));
            until_parked(&db, 1);
            source.require(full());
            until_asleep(&db, 1);
            clock.advance(micros(bytes - 2_000_000));
            writer.join().unwrap().unwrap();
        });
        let stats = db.statistics();
        assert_eq!((stats.stall_delay_micros, stats.stall_micros), (bytes, bytes + 5_000_000));
        assert_eq!((stats.write_stalls, stats.write_stall_max_micros), (1, bytes + 5_000_000), "one sample");
    });
}

/// pressure V9: a refusal names cause, source, waiting time, usage, quota and holders, as the properties do at that instant.
#[test]
fn a_refusal_says_why() {
    case("a_refusal_says_why", |clock| {
        let all = databases(1, &passive_manager(100_000, clock), &controller(UNFELT, clock), clock);
        let (fs, db) = &all[0];
        let gate = hold_flushes(fs);
        db.put("k", [1; 100_000]).unwrap();
        gate.wait_until_reached();
        let error = db.put_opt("l", "1", &no_slowdown()).unwrap_err();
        let text = error.to_string();
        let source = db.property("sluicedb.pressure").unwrap();
        let source =
            source.lines().find_map(|line| line.strip_prefix("strictest-source: ")).unwrap().to_owned();
        let Error::Stalled { cause, waited, holders } = error else { panic!("{text}") };
        assert_eq!((cause, waited), (format!("stop, {source}"), Duration::ZERO));
        let largest = db.property("sluicedb.wbm-holders").unwrap();
        assert!(holders.starts_with(largest.lines().next().unwrap()), "{holders}\n{largest}");
        let usage = format!("{} of 100000 bytes used, 0 pinned", used(db));
        assert!(holders.ends_with(&usage), "{holders}");
        for part in [source.as_str(), "0ns", "/0/default flushing", &usage] {
            assert!(text.contains(part), "no {part} in: {text}");
        }
        gate.open();
    });
}

/// pressure V8: a memtable pinned by an iterator is listed with its holder's age.
#[test]
fn a_pinned_memtable_is_listed_with_its_age() {
    case("a_pinned_memtable_is_listed_with_its_age", |clock| {
        let fs = SimFs::new(1);
        let db = Db::open("/db", options(&fs, clock)).unwrap();
        db.put("k", [1; 50_000]).unwrap();
        let mut iter = db.iter().unwrap();
        iter.seek_to_first().unwrap();
        clock.advance(Duration::from_secs(10));
        db.flush().unwrap();
        clock.advance(Duration::from_secs(60));
        let pinned = db.write_buffer_manager().usage_report().pinned;
        let holders = db.property("sluicedb.wbm-holders").unwrap();
        assert!(holders.contains(&format!("/db/default pinned {pinned} bytes for 60s")), "{holders}");
        let holders = db.write_buffer_manager().holders();
        assert_eq!(holders[0].pinned_by.map(|kind| format!("{kind:?}")), Some("Reader".to_owned()));
        drop(iter);
    });
}

/// pressure V10: the two lines of the statistics dump.
#[test]
fn the_dump_has_the_managers_lines() {
    case("the_dump_has_the_managers_lines", |clock| {
        let all = databases(1, &passive_manager(1_000_000, clock), &controller(UNFELT, clock), clock);
        let db = &all[0].1;
        db.put("k", [1; 850_000]).unwrap();
        clock.advance(Duration::from_millis(3_412));
        let usage = db.write_buffer_manager().usage_report();
        let percent = usage.used as f64 / 10_000.0;
        let rate = db.write_controller().rate();
        let expected = format!(
            "WBM: usage {} of 1000000 ({percent:.1} percent), mutable {}, immutable 0, pinned 0, state delayed, \
             step {}, rate {rate} B/s\nWBM stall: delayed 00:00:3.412 H:M:S, stopped 00:00:0.000 H:M:S, 1 delay \
             episodes, 0 stops\n",
            usage.used,
            usage.mutable,
            step(db)
        );
        let text = db.property("rocksdb.stats").unwrap();
        assert!(text.contains(&expected), "expected\n{expected}in\n{text}");
    });
}

/// pressure O3: what may change while the database is open reaches a sleeping and a parked writer at once.
#[test]
fn live_changes_reach_waiting_writers() {
    case("live_changes_reach_waiting_writers", |clock| {
        let all = databases(1, &passive_manager(100_000, clock), &controller(100_000, clock), clock);
        let (fs, db) = &all[0];
        let manager = Arc::clone(db.write_buffer_manager());
        let gate = hold_flushes(fs);
        db.put("k", [1; 80_000]).unwrap();
        assert!(step(db) >= 33);
        type Change<'a> = (&'a str, Box<dyn Fn() + 'a>, Box<dyn Fn() + 'a>);
        let changes: [Change; 4] = [
            (
                "delayed_write_rate",
                Box::new(|| db.write_controller().set_max_rate(UNFELT)),
                Box::new(|| db.write_controller().set_max_rate(100_000)),
            ),
            (
                "delay_start_percent",
                Box::new(|| manager.set_delay_start_percent(95).unwrap()),
                Box::new(|| manager.set_delay_start_percent(70).unwrap()),
            ),
            (
                "allow_stall",
                Box::new(|| manager.set_allow_stall(false)),
                Box::new(|| manager.set_allow_stall(true)),
            ),
            (
                "quota",
                Box::new(|| manager.set_quota_bytes(1_000_000)),
                Box::new(|| manager.set_quota_bytes(100_000)),
            ),
        ];
        for (what, apply, back) in &changes {
            std::thread::scope(|scope| {
                let sleeper = put_aside(scope, db, "s", 100);
                let second = put_aside(scope, db, "t", 1_500);
                until("one sleeps", || db.write_controller().stats().sleeping >= 1);
                apply();
                // A lower debt may be left to serve at a rate that nobody feels.
                clock.advance(micros(1));
                sleeper.join().unwrap().unwrap_or_else(|error| panic!("{what}: {error}"));
                second.join().unwrap().unwrap_or_else(|error| panic!("{what}: {error}"));
            });
            back();
            assert!(step(db) >= 33, "{what}");
        }
        gate.open();
    });
}

/// pressure O4: a plain `db_write_buffer_size` of 1 MiB delays from 734,003 bytes on and flushes from 209,715 on.
#[test]
fn a_private_quota_delays_and_flushes() {
    case("a_private_quota_delays_and_flushes", |clock| {
        for initiate in [true, false] {
            let fs = SimFs::new(1);
            let mut options: DbOptions = options(&fs, clock);
            options.db_write_buffer_size = 1 << 20;
            options.initiate_flushes = initiate;
            let db = Db::open("/db", options).unwrap();
            assert_eq!(db.write_buffer_manager().quota().delay_start(), 734_003);
            let gate = hold_flushes(&fs);
            if initiate {
                db.put("a", vec![1; 200_000]).unwrap();
                let asked = |db: &Db| {
                    let stats = db.write_buffer_manager().stats();
                    stats.flushes_queued + stats.flushes_running
                };
                assert_eq!((asked(&db), used(&db) < 209_715), (0, true));
                db.put("b", vec![1; 10_000]).unwrap();
                assert_eq!((asked(&db), used(&db) >= 209_715), (1, true));
            } else {
                db.put("a", vec![1; 720_000]).unwrap();
                assert_eq!(db.write_buffer_manager().pressure(), Pressure::Normal);
                db.put("b", vec![1; 15_000]).unwrap();
                assert!(used(&db) >= 734_003 && step(&db) >= 1);
            }
            gate.open();
        }
    });
}

/// pressure M4, pressure V8: flushed memtables that are kept are pinned as history, listed as such with their age, bounded, known to
/// `recent_write`, and gone once the manager delays.
#[test]
fn history_is_kept_until_pressure_begins() {
    case("history_is_kept_until_pressure_begins", |clock| {
        let fs = SimFs::new(1);
        let mut options = options(&fs, clock);
        options.write_buffer_manager = Some(passive_manager(100_000, clock));
        options.column_family.max_write_buffer_size_to_maintain = 150_000;
        let db = Db::open("/db", options).unwrap();
        let (family, manager) = (db.default_column_family(), Arc::clone(db.write_buffer_manager()));
        let pinned = || manager.usage_report().pinned;
        for key in ["a", "b", "c"] {
            db.put(key, [1; 60_000]).unwrap();
            flush(&db, "default");
            assert_eq!((used(&db), manager.pressure()), (0, Pressure::Normal), "{key}");
        }
        assert!((120_000..150_000).contains(&pinned()), "two fit: {}", pinned());
        let of = |key: &str| db.recent_write(&family, key).unwrap();
        assert!(of("c").newest > of("b").newest && of("b").newest.is_some());
        assert_eq!((of("a").newest, of("a").complete_after.get()), (None, of("b").newest.unwrap().get() - 1));
        clock.advance(Duration::from_secs(60));
        let holders = db.property("sluicedb.wbm-holders").unwrap();
        assert_eq!(
            holders.lines().filter(|line| line.ends_with("for 60s by history")).count(),
            2,
            "{holders}"
        );
        db.put("d", [1; 75_000]).unwrap();
        assert!(step(&db) >= 1);
        until("the history is trimmed", || pinned() == 0);
        assert_eq!(of("c").newest, None);
    });
}
