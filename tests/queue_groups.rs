//! Queue groups: the second bound of the commit queue, the linger, and the leader that keeps no lock while it appends.
//! `write-path` section 7.3, but for `L5`, `L8` and `L9`.

use std::io;
use std::thread::Scope;
use std::time::Duration;

use sluicedb::{Db, DbOptions, Error, ManualClock, WriteOptions, WriteTicket};
use sluicedb_tests::commit::{batch, hold_lead, open, queue, until_queued, until_waiting};
use sluicedb_tests::pressure::{case, until};
use sluicedb_tests::rng::Rng;
use sluicedb_tests::sim_fs::{CrashMode, Effect, Fault, FileKind, Gate, Op, Pattern, SimFs};

/// Bytes of each record in the queue, and records of a group.
const RECORD: usize = 100;
const RECORDS: u64 = 16;

fn small_groups(options: &mut DbOptions) {
    options.queue_group_bytes = RECORD as u64 * RECORDS;
}

fn on_appends() -> Pattern {
    Pattern::op(Op::Write).on(FileKind::Wal)
}

fn put(db: &Db, number: u64) -> WriteTicket {
    db.write_async(batch(&format!("{number:08}"), RECORD))
}

/// Sends one record into an append that is held at the gate, by a thread of its own so that the appender stays free, then
/// as many groups as the queue takes.
fn fill<'scope>(
    scope: &'scope Scope<'scope, '_>,
    fs: &SimFs,
    db: &'scope Db,
    groups: u64,
) -> (Gate, Vec<WriteTicket>) {
    let gate = fs.gate_next(on_appends());
    scope.spawn(|| db.put("first", "v").expect("it is written"));
    gate.wait_until_reached();
    let tickets = (1..=groups * RECORDS).map(|number| put(db, number)).collect();
    assert_eq!((queue(db, "queue_groups"), queue(db, "units")), (groups, groups * RECORDS));
    (gate, tickets)
}

/// All are written, one after the other.
fn written_in_order(tickets: Vec<WriteTicket>) {
    let sequences = tickets.into_iter().map(|ticket| ticket.wait().expect("it is written").get());
    let sequences: Vec<u64> = sequences.collect();
    assert!(sequences.windows(2).all(|pair| pair[1] == pair[0] + 1), "{sequences:?}");
}

/// write-path L1: while an append is under way a hundred groups are accepted, none of them by waiting; what would open
/// one more waits, as a ticket or as a thread, and goes on when the append ends.
#[test]
fn l1_a_hundred_groups_and_no_more() {
    case("l1_a_hundred_groups_and_no_more", |clock| {
        let fs = SimFs::new(1);
        let db = open(&fs, clock, small_groups);
        std::thread::scope(|scope| {
            let (gate, mut tickets) = fill(scope, &fs, &db, 100);
            let ticket = put(&db, 2_000);
            until_waiting(&db, 1);
            let blocked = scope.spawn(|| db.write(batch("blocked", RECORD)));
            until_waiting(&db, 2);
            assert!(ticket.is_waiting() && !blocked.is_finished());
            let mut no_wait = WriteOptions::default();
            no_wait.no_slowdown = true;
            let refused = db.write_opt(batch("refused", RECORD), &no_wait).unwrap_err();
            assert!(matches!(refused, Error::QueueFull { .. }), "{refused}");
            assert_eq!(queue(&db, "units"), 1_600);
            gate.open();
            blocked.join().unwrap().unwrap();
            tickets.push(ticket);
            written_in_order(tickets);
        });
        assert_eq!((queue(&db, "used"), queue(&db, "queue_groups"), queue(&db, "waiting")), (0, 0, 0));
        assert!(db.get("blocked").unwrap().is_some() && db.get("refused").unwrap().is_none());
        db.put("later", "v").unwrap();
    });
}

/// A write joins the last group if it fits, also when there are as many groups as may be.
#[test]
fn the_last_group_takes_what_fits() {
    case("the_last_group_takes_what_fits", |clock| {
        let fs = SimFs::new(1);
        let db = open(&fs, clock, |options| {
            small_groups(options);
            options.group_queue_limit = 1;
        });
        let gate = fs.gate_next(on_appends());
        let mut tickets = vec![put(&db, 0)];
        gate.wait_until_reached();
        tickets.extend((1..RECORDS).map(|number| put(&db, number)));
        assert_eq!((queue(&db, "queue_groups"), queue(&db, "units")), (1, RECORDS - 1));
        assert!(db.try_write(batch("large", RECORD + 2)).is_err());
        assert_eq!(queue(&db, "groups_refused"), 1);
        tickets.push(put(&db, RECORDS));
        gate.open();
        written_in_order(tickets);
    });
}

/// write-path L2: whoever waits for a group in vain is told after `write_timeout`, and nothing of its write is queued.
#[test]
fn l2_the_wait_for_a_group_ends() {
    case("l2_the_wait_for_a_group_ends", |clock| {
        let fs = SimFs::new(2);
        let db = open(&fs, clock, |options| {
            small_groups(options);
            options.write_timeout = Duration::from_millis(200);
        });
        std::thread::scope(|scope| {
            let (gate, tickets) = fill(scope, &fs, &db, 100);
            let mut ticket = put(&db, 2_000);
            until_waiting(&db, 1);
            let blocked = scope.spawn(|| {
                let began = clock_now(clock);
                (db.write(batch("blocked", RECORD)), clock_now(clock) - began)
            });
            until_waiting(&db, 2);
            let mut told = None;
            // The clock moves on only in these steps; whoever has not looked at it yet waits a step longer.
            until("both have been told", || {
                clock.advance(Duration::from_millis(1));
                told = told.take().or_else(|| ticket.try_wait());
                told.is_some() && blocked.is_finished()
            });
            let (outcome, waited) = blocked.join().unwrap();
            let limit = Duration::from_millis(200);
            assert!(
                matches!(outcome, Err(Error::QueueWaitTimeout { waited, .. }) if waited == limit),
                "{outcome:?}"
            );
            assert!(waited >= limit, "{waited:?}");
            let (error, back) = told.unwrap().unwrap_err().into_parts();
            assert!(matches!(error, Error::QueueWaitTimeout { .. }) && back.is_some(), "{error}");
            assert_eq!((queue(&db, "queue_groups"), queue(&db, "waiting")), (100, 0));
            gate.open();
            written_in_order(tickets);
        });
        assert!(db.get("blocked").unwrap().is_none());
        db.write(batch("blocked", RECORD)).unwrap();
    });
}

fn clock_now(clock: &ManualClock) -> Duration {
    Duration::from_nanos(sluicedb::Clock::now_nanos(clock))
}

/// write-path L3: what has been queued during an append leaves with the next, in one write and in order.
#[test]
fn l3_all_that_waits_leaves_together() {
    case("l3_all_that_waits_leaves_together", |clock| {
        let fs = SimFs::new(3);
        let db = open(&fs, clock, small_groups);
        let before = (fs.calls().get(Op::Write, FileKind::Wal), db.statistics().commit_groups);
        std::thread::scope(|scope| {
            let (gate, tickets) = fill(scope, &fs, &db, 62);
            gate.open();
            written_in_order(tickets);
        });
        let after = (fs.calls().get(Op::Write, FileKind::Wal), db.statistics().commit_groups);
        // One for the append that was held, one for all the others.
        assert_eq!((after.0 - before.0, after.1 - before.1), (2, 2));
    });
}

/// write-path L4: under appends of random length the order of the log is that of the puts: of all of them with one
/// submitter, of each writer's with eight.
#[test]
fn l4_the_log_keeps_the_order() {
    case("l4_the_log_keeps_the_order", |clock| {
        const PUTS: u64 = 10_000;
        let fs = SimFs::new(4);
        let db = open(&fs, clock, small_groups);
        with_ragged_appends(&fs, 4, || written_in_order((0..PUTS).map(|number| put(&db, number)).collect()));
        with_ragged_appends(&fs, 5, || {
            std::thread::scope(|scope| {
                for writer in 0..8 {
                    let db = &db;
                    scope.spawn(move || {
                        for number in 0..PUTS / 80 {
                            db.put(format!("writer{writer}"), number.to_string()).unwrap();
                        }
                    });
                }
            });
        });
        let image = fs.crash(CrashMode::Kill, 4);
        let again = open(&image, clock, small_groups);
        for writer in 0..8 {
            let last = again.get(format!("writer{writer}")).unwrap().expect("its last value");
            assert_eq!(&*last, (PUTS / 80 - 1).to_string().as_bytes());
        }
        assert_eq!(again.latest_sequence().get(), PUTS + 8 * (PUTS / 80));
    });
}

/// Runs `body` while each append is held for a random number of this thread's turns.
fn with_ragged_appends(fs: &SimFs, seed: u64, body: impl FnOnce() + Send) {
    let mut rng = Rng::new(seed);
    std::thread::scope(|scope| {
        let body = scope.spawn(body);
        while !body.is_finished() {
            let gate = fs.gate_next(on_appends());
            (0..rng.below(50)).for_each(|_| std::thread::yield_now());
            gate.open();
        }
        body.join().unwrap();
    });
}

/// write-path L6: while the next segment cannot be opened the queue stays as it is and the leader tries again, with
/// growing pauses; then every record is written once. Where it takes longer than `write_timeout` the writes fail, and
/// nothing else does.
#[test]
fn l6_a_segment_that_cannot_be_opened() {
    case("l6_a_segment_that_cannot_be_opened", |clock| {
        for in_time in [true, false] {
            let fs = SimFs::new(6);
            let db = open(&fs, clock, |options| options.wal_segment_bytes = 64 << 10);
            let tickets: Vec<_> = std::thread::scope(|scope| {
                let held = hold_lead(scope, &fs, &db, "a");
                let creations = Pattern::op(Op::Create).on(FileKind::Wal);
                fs.inject(Fault::always(creations, Effect::Fail(io::ErrorKind::Other)));
                let sized = |n: u64| batch(&format!("{n:08}"), 30_000);
                let tickets = (0..10).map(|n| db.write_async(sized(n))).collect();
                until_queued(&db, 10);
                held.release();
                tickets
            });
            let retries =
                || String::from_utf8_lossy(&fs.bytes("/db/LOG".as_ref())).matches("tries again").count();
            until("it has tried five times", || {
                clock.advance(Duration::from_millis(10));
                retries() >= 5
            });
            assert_eq!((queue(&db, "units"), queue(&db, "grouped_units")), (10, 0), "the queue is untouched");
            if in_time {
                fs.heal();
            }
            let done = || queue(&db, "grouped_units") == 10 && queue(&db, "used") == 0;
            until("the group has left", || {
                clock.advance(Duration::from_millis(500));
                done()
            });
            if in_time {
                written_in_order(tickets);
            } else {
                for ticket in tickets {
                    let (error, _) = ticket.wait().unwrap_err().into_parts();
                    assert!(matches!(error, Error::Io { doing: "create", .. }), "{error}");
                }
                fs.heal();
            }
            db.put("later", "v").unwrap();
            for n in 0..10_u64 {
                assert_eq!(db.get(format!("{n:08}")).unwrap().is_some(), in_time);
            }
            assert_eq!(db.latest_sequence().get(), if in_time { 11 } else { 1 });
        }
    });
}

/// write-path L7: eight writers wait before a full queue, and an append takes three groups: three writers go on, the
/// queue is full again, and nobody sleeps with a group free.
#[test]
fn l7_as_many_go_on_as_groups_leave() {
    case("l7_as_many_go_on_as_groups_leave", |clock| {
        const GROUP: usize = 2_000;
        let fs = SimFs::new(7);
        let db = open(&fs, clock, |options| {
            options.queue_group_bytes = GROUP as u64;
            options.commit_group_bytes = 3 * GROUP as u64;
            options.group_queue_limit = 4;
            options.wal_segment_bytes = 64 << 20;
        });
        for run in 0..1_000 {
            std::thread::scope(|scope| {
                let first = fs.gate_next(on_appends());
                let mut tickets = vec![put(&db, run)];
                first.wait_until_reached();
                let second = fs.gate_next(on_appends());
                tickets.extend((0..4).map(|n| db.write_async(batch(&format!("full{n}"), GROUP))));
                assert_eq!(queue(&db, "queue_groups"), 4);
                for writer in 0..8 {
                    let db = &db;
                    scope.spawn(move || db.write(batch(&format!("writer{writer}"), GROUP)).unwrap());
                }
                until_waiting(&db, 8);
                first.open();
                second.wait_until_reached();
                until("the queue is full again", || {
                    queue(&db, "queue_groups") == 4 && queue(&db, "waiting") == 5
                });
                second.open();
                written_in_order(tickets);
            });
            assert_eq!((queue(&db, "queue_groups"), queue(&db, "waiting"), queue(&db, "used")), (0, 0, 0));
        }
    });
}

/// write-path L10: a lone record leaves when its group has lingered; a full group, and one that a flush of the log asks
/// for, at once.
#[test]
fn l10_a_group_lingers() {
    case("l10_a_group_lingers", |clock| {
        let fs = SimFs::new(10);
        let db = open(&fs, clock, |options| {
            small_groups(options);
            options.linger = Duration::from_millis(10);
        });
        let mut lone = put(&db, 0);
        clock.advance(Duration::from_millis(9));
        assert!(lone.try_wait().is_none());
        assert_eq!((queue(&db, "units"), queue(&db, "grouped_units")), (1, 0));
        clock.advance(Duration::from_millis(1));
        lone.wait().unwrap();
        // A thread that leads lingers as well.
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| db.write(batch("blocking", RECORD)));
            until_queued(&db, 1);
            assert!(!writer.is_finished());
            clock.advance(Duration::from_millis(10));
            writer.join().unwrap().unwrap();
        });
        // From here on the clock stands still.
        written_in_order((0..RECORDS).map(|number| put(&db, number)).collect());
        let forced = put(&db, 100);
        db.flush_wal(false).unwrap();
        forced.wait().unwrap();
        let left = put(&db, 101);
        db.close().unwrap();
        left.wait().unwrap();
    });
}
