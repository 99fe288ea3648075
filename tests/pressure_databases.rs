//! One manager, one controller, several databases and families: who is flushed, who waits, who is released.
//!
//! `pressure` groups E, H, L of section 10 through the public API. Quotas are small, memtables are charged exactly, and
//! flushes are held by gates, so that every number is known.

use std::sync::Arc;
use std::time::Duration;

use sluicedb::{Db, Error, Pressure, WriteOptions};
use sluicedb_tests::pressure::*;
use sluicedb_tests::sim_fs::{FileKind, Op, Pattern, SimFs};

/// A database with families `cf0` to `cf3` on a passive manager of this quota.
fn with_families(quota: u64, fs: &SimFs, clock: &sluicedb::ManualClock) -> Db {
    let mut options = options(fs, clock);
    options.write_buffer_manager = Some(passive_manager(quota, clock));
    let family = options.column_family.clone();
    Db::open_cf("/db", options, (0..4).map(|n| (format!("cf{n}"), family.clone()))).unwrap()
}

fn put(db: &Db, family: &str, key: &str, len: usize) {
    db.put_cf(&db.column_family(family).unwrap(), key, vec![1; len]).unwrap();
}

/// pressure E2, pressure E5: what is given is shared, what is not given is private.
#[test]
fn given_managers_and_controllers_are_shared() {
    case("given_managers_and_controllers_are_shared", |clock| {
        let (manager, brake) = (passive_manager(40 << 10, clock), controller(1 << 24, clock));
        let both = databases(2, &manager, &brake, clock);
        let fs = SimFs::new(9);
        let own = Db::open("/own", options(&fs, clock)).unwrap();
        for (_, db) in &both {
            assert!(Arc::ptr_eq(db.write_buffer_manager(), &manager));
            assert!(Arc::ptr_eq(db.write_controller(), &brake));
        }
        assert!(!Arc::ptr_eq(own.write_buffer_manager(), &manager));
        assert!(!Arc::ptr_eq(own.write_controller(), &brake));
        both[0].1.put("k", [1; 10_000]).unwrap();
        assert!(used(&both[1].1) >= 10_000);
        assert_eq!(used(&own), 0);
    });
}

/// pressure E6: both are delayed by what one holds; a flush under an iterator ends the delay, its bytes are pinned.
#[test]
fn pinned_bytes_delay_nobody() {
    case("pinned_bytes_delay_nobody", |clock| {
        let brake = controller(UNFELT, clock);
        let both = databases(2, &passive_manager(40 << 10, clock), &brake, clock);
        let db = &both[0].1;
        for number in 0..7_u8 {
            db.put([number], [1; 4096]).unwrap();
        }
        assert!((28 << 10..36 << 10).contains(&used(db)), "{} used", used(db));
        assert!(step(db) >= 1 && brake.is_holding());
        let mut iter = db.iter().unwrap();
        iter.seek_to_first().unwrap();
        db.flush().unwrap();
        assert!(used(db) < 1024, "{} used", used(db));
        assert!(db.write_buffer_manager().usage_report().pinned > 28 << 10);
        assert!(!brake.is_holding() && db.property_int("rocksdb.actual-delayed-write-rate") == Some(0));
        drop(iter);
        until("nothing is pinned", || db.write_buffer_manager().usage_report().pinned == 0);
    });
}

/// pressure E10: eight databases and sixteen threads share a small quota: every put ends, within the overshoot bound.
#[test]
fn many_databases_many_threads() {
    case("many_databases_many_threads", |clock| {
        const QUOTA: u64 = 1 << 20;
        let all = databases(8, &passive_manager(QUOTA, clock), &controller(UNFELT, clock), clock);
        std::thread::scope(|scope| {
            for thread in 0..16_u32 {
                let db = &all[thread as usize % 8].1;
                scope.spawn(move || {
                    for number in 0..150_u32 {
                        db.put((thread << 16 | number).to_be_bytes(), [1; 8_000]).expect("a write");
                        let most =
                            QUOTA - 1 + 16 * 8_200 + 8 * db.write_buffer_manager().quota().charge_unit();
                        assert!(used(db) <= most, "{} used, at most {most}", used(db));
                    }
                });
            }
        });
        let stats = all[0].1.write_buffer_manager().stats();
        assert_eq!(stats.liveness_rescues, 0);
        assert!(stats.times.stops > 0, "nothing was tested");
    });
}

/// pressure H1, pressure H2: the family that holds most is flushed; all who waited go on.
#[test]
fn the_largest_family_is_flushed() {
    case("the_largest_family_is_flushed", |clock| {
        let fs = SimFs::new(1);
        let db = with_families(100_000, &fs, clock);
        let gate = hold_flushes(&fs);
        for (family, len) in [("cf3", 30_000), ("cf0", 40_000), ("cf2", 1)] {
            put(&db, family, "k", len);
        }
        assert!(!is_stopped(&db));
        put(&db, "cf3", "l", 40_000);
        gate.wait_until_reached();
        assert!(used(&db) >= 110_001 && is_stopped(&db));
        std::thread::scope(|scope| {
            let writers = [1, 2, 3, 4, 5_u8].map(|key| put_aside(scope, &db, [key], 10));
            until_parked(&db, 5);
            assert_eq!(number(&db, "sluicedb.commit_queue", "used"), 0, "they hold nothing");
            gate.open();
            for writer in writers {
                writer.join().unwrap().unwrap();
            }
        });
        db.wait_for_background_work().unwrap();
        assert_eq!((files_of(&db, "cf3"), files_of(&db, "cf0"), files_of(&db, "cf2")), (1, 0, 0));
        assert!((40_001..50_000).contains(&used(&db)), "{} used", used(&db));
        assert_eq!(db.write_buffer_manager().pressure(), Pressure::Normal);
    });
}

/// pressure H3: four databases; the last put is delayed by 2.1 ms, then all wait for its flush.
#[test]
fn a_delay_then_a_stop_over_four_databases() {
    case("a_delay_then_a_stop_over_four_databases", |clock| {
        let brake = controller(16 << 20, clock);
        let all = databases(4, &passive_manager(100_000, clock), &brake, clock);
        let gates: Vec<_> = all.iter().map(|(fs, _)| hold_flushes(fs)).collect();
        for (_, db) in &all[..3] {
            db.put("k", [1; 25_000]).unwrap();
        }
        let last = &all[3].1;
        assert!((16..=17).contains(&step(last)), "step {}", step(last));
        std::thread::scope(|scope| {
            let writer = put_aside(scope, last, "k", 30_000);
            until_asleep(last, 1);
            clock.advance(Duration::from_micros(2_200));
            writer.join().unwrap().unwrap();
            let slept = last.statistics().stall_delay_micros;
            assert!((2_100..=2_200).contains(&slept), "slept {slept} us");
            gates[3].wait_until_reached();
            assert!(is_stopped(last));
            let more = [0, 1, 2, 3].map(|n| put_aside(scope, &all[n].1, "l", 5));
            until_parked(last, 4);
            gates.iter().for_each(|gate| gate.open());
            clock.advance(Duration::from_millis(10));
            until("the stop ends", || !is_stopped(last));
            clock.advance(Duration::from_millis(10));
            for writer in more {
                writer.join().unwrap().unwrap();
            }
        });
        last.wait_for_background_work().unwrap();
        assert_eq!(files(last), 1, "it held most");
    });
}

/// pressure H4, pressure H5, pressure H6: every writer of every database and family waits for itself; those that will not wait are refused.
#[test]
fn each_writer_waits_for_itself() {
    case("each_writer_waits_for_itself", |clock| {
        let all = databases(4, &passive_manager(100_000, clock), &controller(UNFELT, clock), clock);
        let first = &all[0].1;
        let families: Vec<_> = (0..3)
            .map(|n| {
                first
                    .create_column_family(&format!("cf{n}"), options(&all[0].0, clock).column_family)
                    .unwrap()
            })
            .collect();
        let gate = hold_flushes(&all[0].0);
        fill_until_stopped(first);
        std::thread::scope(|scope| {
            let writers: Vec<_> = all.iter().map(|(_, db)| put_aside(scope, db, "k", 5)).collect();
            let others: Vec<_> =
                families.iter().map(|family| scope.spawn(move || first.put_cf(family, "k", "v"))).collect();
            until_parked(first, 7);
            for (_, db) in &all {
                assert!(is_stalled(&db.put_opt("hasty", "1", &no_slowdown())));
            }
            assert_eq!(first.write_controller().stats().parked, 7, "nobody else was touched");
            gate.open();
            for writer in writers.into_iter().chain(others) {
                writer.join().unwrap().unwrap();
            }
        });
        for (_, db) in &all {
            assert!(db.get("k").unwrap().is_some() && db.get("hasty").unwrap().is_none());
            assert_eq!(db.statistics().writes_refused, 1);
        }
    });
}

/// pressure H8: a put larger than the quota enters alone; `allow_stall` off releases, on stops again.
#[test]
fn allow_stall_changes_under_a_stop() {
    case("allow_stall_changes_under_a_stop", |clock| {
        let all = databases(1, &passive_manager(1, clock), &controller(UNFELT, clock), clock);
        let (fs, db) = &all[0];
        let gate = hold_flushes(fs);
        db.put("large", [1; 10_000]).unwrap();
        assert!(is_stalled(&db.put_opt("k", "1", &no_slowdown())));
        std::thread::scope(|scope| {
            let writer = put_aside(scope, db, "parked", 5);
            until_parked(db, 1);
            db.write_buffer_manager().set_allow_stall(false);
            writer.join().unwrap().unwrap();
        });
        db.put_opt("k", "1", &no_slowdown()).unwrap();
        db.write_buffer_manager().set_allow_stall(true);
        assert!(is_stalled(&db.put_opt("l", "1", &no_slowdown())));
        gate.open();
        db.put("l", "1").unwrap();
    });
}

/// pressure H9: as a mere trigger of flushes, the quota picks the largest family, then the oldest of equals.
#[test]
fn the_largest_then_the_oldest() {
    case("the_largest_then_the_oldest", |clock| {
        let fs = SimFs::new(1);
        let db = with_families(114_285, &fs, clock);
        db.write_buffer_manager().set_allow_stall(false);
        let flushed = |expected: [u64; 5]| {
            until("the largest is flushed", || {
                db.wait_for_background_work().unwrap();
                ["cf0", "cf1", "cf2", "cf3", "default"].map(|family| files_of(&db, family)) == expected
            });
        };
        for (family, len) in [("cf3", 30_000), ("cf0", 60_000), ("cf2", 1)] {
            put(&db, family, "k", len);
        }
        flushed([0, 0, 0, 0, 0]);
        put(&db, "cf3", "l", 30_000);
        flushed([0, 0, 0, 1, 0]);
        put(&db, "cf1", "k", 60_000);
        flushed([1, 0, 0, 1, 0]);
    });
}

/// pressure H10: over databases too the largest holder is flushed, whoever writes.
#[test]
fn the_largest_over_databases() {
    case("the_largest_over_databases", |clock| {
        let all = databases(2, &passive_manager(120_000, clock), &controller(UNFELT, clock), clock);
        let (one, two) = (&all[0].1, &all[1].1);
        for name in ["cf0", "cf2"] {
            one.create_column_family(name, options(&all[0].0, clock).column_family).unwrap();
        }
        // A wish of the manager reaches the other database on a thread of its own: it may come after the wait has looked.
        let flushed = |of_one: [u64; 2], of_two: u64| {
            until("the largest is flushed", || {
                one.wait_for_background_work().unwrap();
                two.wait_for_background_work().unwrap();
                (["cf0", "cf2"].map(|family| files_of(one, family)), files(two)) == (of_one, of_two)
            });
        };
        put(one, "cf2", "k", 70_000);
        put(one, "cf0", "k", 20_000);
        two.put("k", [1; 20_000]).unwrap();
        flushed([0, 1], 0);
        two.put("l", [1; 70_000]).unwrap();
        flushed([0, 1], 1);
        two.put("m", [1; 40_000]).unwrap();
        two.put("n", [1; 50_000]).unwrap();
        flushed([0, 1], 2);
    });
}

/// pressure H11: nineteen idle databases hold nearly all; one flush of one of them lets the busy one go on, at step 83.
#[test]
fn idle_databases_make_room() {
    case("idle_databases_make_room", |clock| {
        let mut all = databases(20, &passive_manager(10 << 20, clock), &controller(UNFELT, clock), clock);
        let (busy_fs, busy) = all.pop().unwrap();
        let gates: Vec<_> = all.iter().map(|(fs, _)| hold_flushes(fs)).collect();
        let _busy_gate = hold_flushes(&busy_fs);
        for (_, db) in &all {
            db.put("idle", vec![1; 512 << 10]).unwrap();
        }
        fill_until_stopped(&busy);
        std::thread::scope(|scope| {
            let writer = put_aside(scope, &busy, "waits", 5);
            until_parked(&busy, 1);
            let held = all.iter().position(|(_, db)| {
                db.property_int("rocksdb.mem-table-flush-pending") == Some(1)
                    || db.property_int("rocksdb.num-running-flushes") == Some(1)
            });
            let held = held.expect("a flush of an idle database is queued");
            gates[held].open();
            writer.join().unwrap().unwrap();
        });
        assert_eq!(step(&busy), 83);
        assert_eq!(files(&busy), 0);
        assert_eq!(busy.write_buffer_manager().stats().liveness_rescues, 0);
    });
}

/// pressure H12: a close releases its own writers while another database's flush is held; closing the holder releases all.
#[test]
fn closing_releases() {
    case("closing_releases", |clock| {
        let all = databases(3, &passive_manager(100_000, clock), &controller(UNFELT, clock), clock);
        let [(fs, holder), (_, waiting), (_, closing)] = &all[..] else { panic!("three databases") };
        let gate = hold_flushes(fs);
        fill_until_stopped(holder);
        std::thread::scope(|scope| {
            let of_closing = put_aside(scope, closing, "k", 5);
            let of_waiting = put_aside(scope, waiting, "k", 5);
            until_parked(holder, 2);
            closing.close().unwrap();
            assert!(matches!(of_closing.join().unwrap(), Err(Error::ShutdownInProgress)));
            let closer = scope.spawn(|| holder.close());
            gate.open();
            closer.join().unwrap().unwrap();
            of_waiting.join().unwrap().unwrap();
        });
    });
}

/// pressure L7: `stall_timeout` bounds the wait by the clock, names who holds the memory, and charges nothing.
#[test]
fn a_timeout_names_the_holders() {
    case("a_timeout_names_the_holders", |clock| {
        let all = databases(1, &passive_manager(100_000, clock), &controller(UNFELT, clock), clock);
        let (fs, db) = &all[0];
        let gate = hold_flushes(fs);
        fill_until_stopped(db);
        let before = used(db);
        let mut patient = WriteOptions::default();
        patient.stall_timeout = Some(Duration::from_secs(5));
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| db.put_opt("k", "1", &patient));
            until_parked(db, 1);
            for _ in 0..5 {
                // The writer, the housekeeping, the compaction and one flush thread wait; the other flush thread is held.
                clock.wait_until_waiting(4);
                clock.advance(Duration::from_secs(1));
            }
            match writer.join().unwrap() {
                Err(Error::Stalled { cause, waited, holders }) => {
                    assert_eq!(waited, Duration::from_secs(5));
                    assert!(cause.starts_with("timeout, wbm#"), "{cause}");
                    assert!(holders.contains("/0/default"), "{holders}");
                }
                other => panic!("{other:?}"),
            }
        });
        assert_eq!(used(db), before);
        gate.open();
    });
}

/// pressure L8: one thread feeds three databases; the oldest of equal holders is flushed, and nobody else.
#[test]
fn one_thread_feeds_three_databases() {
    case("one_thread_feeds_three_databases", |clock| {
        let all = databases(3, &passive_manager(10 << 20, clock), &controller(UNFELT, clock), clock);
        let gates: Vec<_> = all.iter().map(|(fs, _)| hold_flushes(fs)).collect();
        for (_, db) in &all {
            db.put("k", vec![1; 4 << 20]).unwrap();
        }
        let first = &all[0].1;
        assert!(is_stopped(first));
        gates[0].wait_until_reached();
        std::thread::scope(|scope| {
            let fourth = put_aside(scope, first, "l", 1 << 10);
            until_parked(first, 1);
            for (_, db) in &all[1..] {
                assert_eq!(db.property_int("rocksdb.mem-table-flush-pending"), Some(0));
            }
            gates[0].open();
            fourth.join().unwrap().unwrap();
        });
        assert_eq!(step(first), 33);
        assert_eq!(all.iter().map(|(_, db)| files(db)).collect::<Vec<_>>(), [1, 0, 0]);
    });
}

/// pressure L9: whatever frees enough releases the writer, and returns although the flush of another family is held.
#[test]
fn all_that_frees_releases() {
    type Frees = fn(&Db);
    let ways: [(&str, Frees); 4] = [
        ("quota doubled", |db| db.write_buffer_manager().set_quota_bytes(400_000)),
        ("quota 0", |db| db.write_buffer_manager().set_quota_bytes(0)),
        ("allow_stall off", |db| db.write_buffer_manager().set_allow_stall(false)),
        ("the holder dropped", |db| db.drop_column_family(&db.column_family("cf1").unwrap()).unwrap()),
    ];
    for (way, frees) in ways {
        case(way, |clock| {
            let fs = SimFs::new(1);
            let db = with_families(200_000, &fs, clock);
            let gate = hold_flushes(&fs);
            put(&db, "cf0", "k", 110_000);
            put(&db, "cf1", "k", 80_000);
            put(&db, "cf2", "k", 20_000);
            gate.wait_until_reached();
            assert!(is_stopped(&db), "{way}");
            std::thread::scope(|scope| {
                let writer = put_aside(scope, &db, "waits", 5);
                until_parked(&db, 1);
                frees(&db);
                writer.join().unwrap().unwrap_or_else(|error| panic!("{way}: {error}"));
            });
            gate.open();
        });
    }
}

/// pressure L12: a stop by the number of memtables ends with the flush of that family; one by L0 files with its compaction.
#[test]
fn family_stops_name_the_work_that_ends_them() {
    case("family_stops_name_the_work_that_ends_them", |clock| {
        let fs = SimFs::new(1);
        let mut few = options(&fs, clock);
        few.column_family.max_write_buffer_number = 2;
        few.column_family.write_buffer_size = 64 << 10;
        few.column_family.level0_file_num_compaction_trigger = 2;
        few.column_family.level0_slowdown_writes_trigger = 4;
        few.column_family.level0_stop_writes_trigger = 4;
        let db = Db::open("/db", few).unwrap();
        let gate = hold_flushes(&fs);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| (0..40_u8).try_for_each(|key| db.put([key], [1; 10_000])));
            gate.wait_until_reached();
            until_parked(&db, 1);
            assert_eq!(number(&db, "sluicedb.pressure", "flushes-running"), 1);
            assert!(db.property("sluicedb.pressure-sources").unwrap().contains("memtable-count"));
            gate.open();
            writer.join().unwrap().unwrap();
        });
        db.flush().unwrap();
        db.compact_range(None, None).unwrap();

        add_l0(&db, 1);
        db.put("a", "1").unwrap();
        db.put("z", "1").unwrap();
        let compaction = flush_and_hold_compaction(&fs, &db);
        add_l0(&db, 2);
        std::thread::scope(|scope| {
            let writer = put_aside(scope, &db, "waits", 5);
            until_parked(&db, 1);
            assert_eq!(db.property_int("rocksdb.num-running-compactions"), Some(1));
            assert_eq!(db.property_int("rocksdb.is-write-stopped"), Some(1));
            compaction.open();
            writer.join().unwrap().unwrap();
        });
    });
}

/// pressure L14: under a stop, flushes, compactions and switches of memtables never ask to be admitted.
#[test]
fn what_relieves_a_stop_never_waits_for_it() {
    case("what_relieves_a_stop_never_waits_for_it", |clock| {
        let brake = controller(UNFELT, clock);
        let all = databases(1, &passive_manager(1 << 20, clock), &brake, clock);
        let (_, db) = &all[0];
        add_l0(db, 2);
        db.put("k", "1").unwrap();
        let stop = brake.source(sluicedb::SourceKind::Governor);
        stop.require(sluicedb::Requirement::Stopped);
        let before = brake.stats().tally;
        db.flush().unwrap();
        db.compact_range(None, None).unwrap();
        let made = db.create_column_family("made", options(&all[0].0, clock).column_family).unwrap();
        db.drop_column_family(&made).unwrap();
        db.sync_wal().unwrap();
        assert_eq!(brake.stats().tally, before);
        assert_eq!((brake.stats().parked, brake.stats().sleeping), (0, 0));
        drop(stop);
        db.put_opt("k", "2", &no_slowdown()).unwrap();
        assert_eq!(db.write_buffer_manager().stats().liveness_rescues, 0);
    });
}

/// pressure M4: bytes that readers pin never stop writers, however many families there are.
#[test]
fn a_writer_never_waits_for_what_readers_pin() {
    case("a_writer_never_waits_for_what_readers_pin", |clock| {
        let fs = SimFs::new(1);
        let db = with_families(100_000, &fs, clock);
        let _pins: Vec<_> = (0..4)
            .map(|n| {
                let family = db.column_family(&format!("cf{n}")).unwrap();
                db.put_cf(&family, "k", [1; 60_000]).unwrap();
                let mut iter = db.iter_cf(&family).unwrap();
                iter.seek_to_first().unwrap();
                db.flush_cf(&family).unwrap();
                assert_eq!(db.write_buffer_manager().pressure(), Pressure::Normal);
                iter
            })
            .collect();
        assert!(db.write_buffer_manager().usage_report().pinned >= 240_000);
        db.put_opt("free", "1", &no_slowdown()).unwrap();
        let holders = db.property("sluicedb.wbm-holders").unwrap();
        assert!(holders.lines().filter(|line| line.contains("pinned")).count() >= 4, "{holders}");
    });
}

/// pressure L4: what a failed database holds is pinned, so its neighbour goes on; `resume` makes it count again.
#[test]
fn a_failed_database_counts_again_once_resumed() {
    case("a_failed_database_counts_again_once_resumed", |clock| {
        let all = databases(2, &passive_manager(100_000, clock), &controller(UNFELT, clock), clock);
        let [(sick_fs, sick), (_, healthy)] = &all[..] else { panic!("two databases") };
        let gate = hold_flushes(sick_fs);
        fill_until_stopped(sick);
        gate.wait_until_reached();
        sick_fs.inject(sluicedb_tests::sim_fs::Fault::always(
            Pattern::op(Op::Sync).on(FileKind::Sst),
            sluicedb_tests::sim_fs::Effect::Fail(std::io::ErrorKind::Other),
        ));
        std::thread::scope(|scope| {
            let of_sick = put_aside(scope, sick, "k", 5);
            let of_healthy = put_aside(scope, healthy, "k", 5);
            until_parked(sick, 2);
            gate.open();
            assert!(matches!(of_sick.join().unwrap(), Err(Error::ReadOnly { .. } | Error::Io { .. })));
            of_healthy.join().unwrap().unwrap();
        });
        assert!(healthy.write_buffer_manager().usage_report().pinned >= 90_000);
        sick_fs.heal();
        sick.resume().unwrap();
        sick.put("k", "1").unwrap();
    });
}
