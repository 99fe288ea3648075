//! The commit queue through the public API: bounded by bytes with at most one overdraft, first come first served, and
//! never a lost wake-up or acknowledgement. `write-path` section 4.3.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use sluicedb::{Db, Durability, Error, Requirement, SourceKind, WriteBatch, WriteOptions, WriteTicket};
use sluicedb_tests::commit::{batch, hold_lead, open, queue, until_queued, until_waiting};
use sluicedb_tests::pressure::{case, until, until_parked};
use sluicedb_tests::rng::Rng;
use sluicedb_tests::sim_fs::{Effect, Fault, FileKind, Op, Pattern, SimFs};

/// write-path Q2: one byte of room admits a batch of any size, once; the next gets `QueueFull` and its batch back.
#[test]
fn one_overdraft_and_then_full() {
    case("one_overdraft_and_then_full", |clock| {
        let fs = SimFs::new(1);
        let db = open(&fs, clock, |options| options.commit_queue_bytes = 4_096);
        std::thread::scope(|scope| {
            let held = hold_lead(scope, &fs, &db, "a");
            let mut tickets: Vec<_> = (0..4).map(|n| db.write_async(batch(&format!("{n}"), 1_000))).collect();
            assert_eq!(queue(&db, "used"), 4_000);
            tickets.push(db.write_async(batch("large", 10_000)));
            assert_eq!((queue(&db, "used"), queue(&db, "overdraft")), (14_000, 9_904));
            let mut small = WriteBatch::new();
            small.put("k", "");
            let before = db.statistics().bytes_written;
            let (error, back) = db.try_write(small.clone()).unwrap_err().into_parts();
            assert!(matches!(error, Error::QueueFull { used: 14_000, capacity: 4_096, .. }), "{error}");
            let back = back.expect("the batch comes back");
            assert_eq!((back.len(), back.byte_size()), (small.len(), small.byte_size()));
            assert_eq!(queue(&db, "used"), 14_000, "a refused batch is not charged");
            assert_eq!(
                db.statistics().bytes_written,
                before + small.byte_size(),
                "a call is counted as a call"
            );
            held.release();
            tickets.into_iter().for_each(written);
            assert_eq!(queue(&db, "used"), 0);
            db.try_write(back).unwrap();
        });
        assert_eq!(db.get("k").unwrap().as_deref(), Some(&b""[..]));
    });
}

/// write-path Q3: 64 threads that try at once overdraw by one batch in total, not by one each.
#[test]
fn the_overdraft_is_one_for_any_number_of_threads() {
    case("the_overdraft_is_one_for_any_number_of_threads", |clock| {
        for (seed, fixed) in [(1, true), (2, false), (3, false)] {
            let fs = SimFs::new(seed);
            let db = open(&fs, clock, |options| options.commit_queue_bytes = 8_192);
            let finished = AtomicU64::new(0);
            std::thread::scope(|scope| {
                let held = hold_lead(scope, &fs, &db, "a");
                for thread in 0..64_u64 {
                    let (db, finished) = (&db, &finished);
                    scope.spawn(move || {
                        let mut rng = Rng::new(seed * 100 + thread);
                        for n in 0..200 {
                            let unit = if fixed { 512 } else { 64 + rng.below(4_033) as usize };
                            match db.try_write(batch(&format!("{thread}-{n}"), unit)) {
                                Ok(()) => {}
                                Err(refused) => assert!(refused.into_batch().is_some()),
                            }
                        }
                        finished.fetch_add(1, Ordering::Release);
                    });
                }
                if fixed {
                    // Who was admitted is held in its write; all others have tried to the end.
                    until("48 threads are through", || finished.load(Ordering::Acquire) == 48);
                    assert_eq!((queue(&db, "units"), queue(&db, "peak")), (16, 8_192));
                } else {
                    until("the queue is full", || queue(&db, "used") >= 8_192);
                }
                held.release();
            });
            assert_eq!(queue(&db, "used"), 0);
            assert!(queue(&db, "peak") <= 8_191 + 4_096, "{}", queue(&db, "peak"));
            assert!(queue(&db, "refused") > 0, "nothing was tested");
        }
    });
}

/// write-path Q4: several batches are one unit with one overdraft; one that is too large refuses all of them.
#[test]
fn many_batches_are_one_unit() {
    case("many_batches_are_one_unit", |clock| {
        let fs = SimFs::new(4);
        let db = open(&fs, clock, |options| options.commit_queue_bytes = 8_192);
        let key = |n: usize| format!("key{n:03}");
        std::thread::scope(|scope| {
            let held = hold_lead(scope, &fs, &db, "a");
            let first = db.write_async(batch("first", 8_191));
            let db = &db;
            let many = scope.spawn(move || db.write_many((0..100).map(|n| batch(&key(n), 1_024))));
            until_queued(db, 2);
            assert_eq!(queue(db, "used"), 8_192 - 1 + 102_400);
            let too_large = [batch("small", 100), batch("huge", 40 << 20), batch("other", 100)];
            match db.write_many(too_large) {
                Err(Error::BatchTooLarge { bytes, limit }) => {
                    assert_eq!((bytes, limit), ((40 << 20) - 8, 32 << 20));
                }
                other => panic!("{other:?}"),
            }
            assert_eq!((queue(db, "units"), queue(db, "used")), (2, 8_192 - 1 + 102_400));
            held.release();
            many.join().unwrap().unwrap();
            first.wait().unwrap();
        });
        assert_eq!(queue(&db, "used"), 0);
        assert!((0..100).all(|n| db.get(key(n)).unwrap().is_some()));
        assert!(db.get("small").unwrap().is_none() && db.get("other").unwrap().is_none());
        // One unit is one record of the log: after a crash all of it is there, or nothing.
        assert_eq!(queue(&db, "grouped_units"), 2);
        db.write_many(std::iter::empty()).unwrap();
        db.write_many([WriteBatch::new(), WriteBatch::new()]).unwrap();
    });
}

/// write-path Q5: a barrier needs no room, and ends only after all that was queued before it.
#[test]
fn a_barrier_waits_for_what_is_queued() {
    case("a_barrier_waits_for_what_is_queued", |clock| {
        let fs = SimFs::new(5);
        let db = open(&fs, clock, |options| options.commit_queue_bytes = 4_096);
        std::thread::scope(|scope| {
            let held = hold_lead(scope, &fs, &db, "a");
            let mut ticket = db.write_async(batch("k", 5_000));
            let barrier = scope.spawn(|| db.barrier().unwrap());
            until_queued(&db, 2);
            assert!(db.try_write(batch("l", 100)).is_err(), "the queue is full");
            assert!(ticket.try_wait().is_none() && !barrier.is_finished());
            held.release();
            barrier.join().unwrap();
            assert!(ticket.try_wait().expect("done before the barrier ends").is_ok());
        });
        assert!(db.get("k").unwrap().is_some());
    });
}

/// write-path Q7: whoever hears that its batch is done finds its room in the queue free.
#[test]
fn room_is_free_before_the_acknowledgement() {
    case("room_is_free_before_the_acknowledgement", |clock| {
        let fs = SimFs::new(7);
        let db = open(&fs, clock, |_| {});
        for n in 0..1_000_u32 {
            db.write_async(batch(&n.to_string(), 300)).wait().unwrap();
            assert_eq!(queue(&db, "used"), 0, "after ticket {n}");
            db.put(n.to_be_bytes(), "v").unwrap();
            assert_eq!(queue(&db, "used"), 0, "after put {n}");
        }
    });
}

/// write-path Q8: a failed append fails its group and all behind it; nothing stays charged, later writes are refused, and
/// after `resume` writes go on.
#[test]
fn a_failed_append_fails_what_is_queued() {
    case("a_failed_append_fails_what_is_queued", |clock| {
        let fs = SimFs::new(8);
        let db = open(&fs, clock, |options| options.commit_group_count = 2);
        std::thread::scope(|scope| {
            let held = hold_lead(scope, &fs, &db, "a");
            let tickets: Vec<_> = (0..10).map(|n| db.write_async(batch(&n.to_string(), 200))).collect();
            let on = Pattern::op(Op::Write).on(FileKind::Wal);
            fs.inject(Fault { on, nth: 3, forever: false, effect: Effect::Fail(io::ErrorKind::Other) });
            held.release();
            let outcomes: Vec<_> = tickets.into_iter().map(|ticket| ticket.wait()).collect();
            let ok = outcomes.iter().map(Result::is_ok).collect::<Vec<_>>();
            assert_eq!(ok, [[true; 4].as_slice(), &[false; 6]].concat());
            assert!(matches!(outcomes[4].as_ref().unwrap_err().error(), Error::Io { .. }));
            assert!(matches!(outcomes[6].as_ref().unwrap_err().error(), Error::ReadOnly { .. }));
        });
        assert_eq!(queue(&db, "used"), 0);
        assert!(matches!(db.put("k", "v"), Err(Error::ReadOnly { .. })));
        let (error, back) = db.write_async(batch("k", 100)).wait().unwrap_err().into_parts();
        assert!(matches!(error, Error::ReadOnly { .. }) && back.is_some(), "{error}");
        db.resume().unwrap();
        db.write_async(batch("k", 100)).wait().unwrap();
        assert!(db.get("3").unwrap().is_some() && db.get("4").unwrap().is_none());
    });
}

/// write-path Q9: with less capacity than is used leases stay and nobody is admitted; more wakes all who are blocked.
#[test]
fn the_capacity_is_live() {
    case("the_capacity_is_live", |clock| {
        let fs = SimFs::new(9);
        let db = open(&fs, clock, |options| options.commit_queue_bytes = 64 << 10);
        assert!(db.set_commit_queue_bytes(4_095).is_err());
        std::thread::scope(|scope| {
            let held = hold_lead(scope, &fs, &db, "a");
            let tickets: Vec<_> = (0..10).map(|n| db.write_async(batch(&n.to_string(), 4_096))).collect();
            db.set_commit_queue_bytes(8 << 10).unwrap();
            assert_eq!((queue(&db, "used"), queue(&db, "overdraft")), (40 << 10, 32 << 10));
            assert!(db.try_write(batch("k", 100)).is_err());
            let writers: Vec<_> = (0..8)
                .map(|n| {
                    let db = &db;
                    scope.spawn(move || db.write(batch(&format!("w{n}"), 1_000)))
                })
                .collect();
            until_waiting(&db, 8);
            db.set_commit_queue_bytes(128 << 10).unwrap();
            until_queued(&db, 18);
            assert_eq!((queue(&db, "waiting"), queue(&db, "used")), (0, (40 << 10) + 8_000));
            // Less again: the next is admitted only when less than the new bound is used.
            db.set_commit_queue_bytes(8 << 10).unwrap();
            let late = scope.spawn(|| db.write(batch("late", 100)));
            until_waiting(&db, 1);
            held.release();
            late.join().unwrap().unwrap();
            writers.into_iter().for_each(|writer| writer.join().unwrap().unwrap());
            tickets.into_iter().for_each(written);
        });
        assert_eq!((queue(&db, "used"), queue(&db, "capacity")), (0, 8 << 10));
    });
}

/// write-path Q10: a blocked writer of 5 KiB is not overtaken by a later writer of 100 bytes, nor by a ticket.
///
/// Method: each of the first two takes all the room there is, so that the next is admitted only when it is done.
#[test]
fn first_come_first_served() {
    case("first_come_first_served", |clock| {
        let fs = SimFs::new(10);
        let db = open(&fs, clock, |options| options.commit_queue_bytes = 4_096);
        for run in 0..100 {
            // The last ticket may be told before the appender has taken it off its list; a new one would line up there.
            until("no ticket waits", || queue(&db, "tickets_waiting") == 0);
            std::thread::scope(|scope| {
                let held = hold_lead(scope, &fs, &db, &format!("family{run}"));
                let full = db.write_async(batch("full", 4_096));
                let large = scope.spawn(|| db.write(batch("k", 5 << 10)));
                until_waiting(&db, 1);
                let ticket = db.write_async(batch("k", 4_096));
                until_waiting(&db, 2);
                let small = scope.spawn(|| db.write(batch("k", 100)));
                until_waiting(&db, 3);
                assert!(ticket.is_waiting() && db.try_write(batch("x", 64)).is_err());
                held.release();
                large.join().unwrap().unwrap();
                small.join().unwrap().unwrap();
                let (full, ticket) = (full.wait().unwrap().get(), ticket.wait().unwrap().get());
                assert_eq!((ticket, db.latest_sequence().get()), (full + 2, full + 3));
            });
            let value = db.get("k").unwrap().unwrap();
            assert!(value.len() < 100, "{} bytes: the last to come wrote last", value.len());
        }
    });
}

/// write-path Q12: a lone writer wakes nobody, parks nowhere and leads all its groups, also while the appender lives.
#[test]
fn a_lone_writer_pays_no_hand_over() {
    case("a_lone_writer_pays_no_hand_over", |clock| {
        let fs = SimFs::new(12);
        let db = open(&fs, clock, |_| {});
        db.write_async(batch("first", 100)).wait().unwrap();
        db.barrier().unwrap();
        let counts =
            || ["wake_ups", "parks", "hand_overs", "groups_by_appender"].map(|name| queue(&db, name));
        let (before, led) = (counts(), queue(&db, "groups_by_callers"));
        assert_eq!(before[3], 1, "the appender lives");
        for n in 0..100_000_u32 {
            db.put(n.to_be_bytes(), "value").unwrap();
        }
        assert_eq!(counts(), before);
        assert_eq!(queue(&db, "groups_by_callers"), led + 100_000);
    });
}

/// write-path Q16: a stop that begins while writers stand between charge and push finds every one of them: none pushes,
/// all room goes back, and all pass when it ends. Tickets likewise.
#[test]
fn a_stop_finds_who_has_room_already() {
    case("a_stop_finds_who_has_room_already", |clock| {
        for tickets in [false, true] {
            let fs = SimFs::new(16);
            let db = open(&fs, clock, |options| options.commit_queue_bytes = 4_096);
            std::thread::scope(|scope| {
                let held = hold_lead(scope, &fs, &db, "a");
                let full = db.write_async(batch("full", 4_096));
                // Past the brake, and without room: each is charged the moment that the queue has some.
                let mut writers = Vec::new();
                let mut waiting = Vec::new();
                for n in 0..16 {
                    let (db, batch) = (&db, batch(&n.to_string(), 500));
                    if tickets {
                        waiting.push(db.write_async(batch));
                    } else {
                        writers.push(scope.spawn(move || db.write(batch)));
                    }
                }
                until_waiting(&db, 16);
                let stop = db.write_controller().source(SourceKind::Governor);
                stop.require(Requirement::Stopped);
                held.release();
                full.wait().unwrap();
                until_parked(&db, if tickets { 1 } else { 16 });
                until("all room is free", || queue(&db, "used") == 0 && queue(&db, "waiting") == 0);
                assert_eq!((queue(&db, "units"), queue(&db, "grouped_units")), (0, 1), "nobody pushed");
                assert_eq!(queue(&db, "tickets_waiting"), if tickets { 16 } else { 0 });
                drop(stop);
                writers.into_iter().for_each(|writer| writer.join().unwrap().unwrap());
                waiting.into_iter().for_each(written);
            });
            assert_eq!((queue(&db, "grouped_units"), queue(&db, "used")), (17, 0));
        }
    });
}

/// Group commit: with `Sync` the syncs per write fall as threads rise, one sync for all who came during the last.
///
/// Method: in each round one writer's append is held at a gate until the other threads' writes are queued behind it.
#[test]
fn syncs_per_write_fall_as_threads_rise() {
    const ROUNDS: u64 = 20;
    case("syncs_per_write_fall_as_threads_rise", |clock| {
        let mut per_write = Vec::new();
        for threads in [1_u64, 4, 16] {
            let fs = SimFs::new(threads);
            let db = open(&fs, clock, |options| options.wal_segment_bytes = 64 << 20);
            let sync = WriteOptions::durability(Durability::Sync);
            let before = db.statistics().wal_syncs;
            for round in 0..ROUNDS {
                std::thread::scope(|scope| {
                    let gate = fs.gate_next(Pattern::op(Op::Write).on(FileKind::Wal));
                    let writer = |n: u64| {
                        let (db, sync) = (&db, &sync);
                        scope.spawn(move || db.put_opt(format!("{round}-{n}"), "v", sync).unwrap())
                    };
                    writer(0);
                    gate.wait_until_reached();
                    (1..threads).for_each(|n| drop(writer(n)));
                    until_queued(&db, threads - 1);
                    gate.open();
                });
            }
            let syncs = db.statistics().wal_syncs - before;
            per_write.push((threads, syncs as f64 / (ROUNDS * threads) as f64));
        }
        println!("syncs per write: {per_write:?}");
        assert_eq!(per_write, [(1, 1.0), (4, 0.5), (16, 0.125)]);
    });
}

/// Large groups are inserted by their own threads, and readers see all of a group or nothing of it.
#[test]
fn followers_insert_side_by_side() {
    case("followers_insert_side_by_side", |clock| {
        let fs = SimFs::new(20);
        let db = open(&fs, clock, |options| options.parallel_insert_bytes = 16 << 10);
        std::thread::scope(|scope| {
            let held = hold_lead(scope, &fs, &db, "a");
            for thread in 0..8_u32 {
                let db = &db;
                scope.spawn(move || {
                    let mut batch = WriteBatch::new();
                    for n in 0..100_u32 {
                        batch.put((n << 8 | thread).to_be_bytes(), [7; 64]);
                    }
                    db.write(batch).unwrap();
                });
            }
            let ticket = db.write_async(batch("ticket", 100));
            until_queued(&db, 9);
            assert_eq!(entries(&db), 0);
            held.release();
            ticket.wait().unwrap();
        });
        assert_eq!((queue(&db, "parallel_groups"), queue(&db, "groups_by_callers")), (1, 1));
        assert_eq!(entries(&db), 801);
        assert_eq!(db.latest_sequence().get(), 801);
    });
}

fn written(ticket: WriteTicket) {
    ticket.wait().expect("it is written");
}

fn entries(db: &Db) -> usize {
    let mut iter = db.iter().unwrap();
    iter.seek_to_first().unwrap();
    let mut count = 0;
    while iter.valid() {
        count += 1;
        iter.next().unwrap();
    }
    count
}
