//! Asynchronous writes through the public API: a ticket never parks its submitter, waits in its stead, can be taken back
//! while it waits, and always ends, with the batch if nothing of it was queued.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use sluicedb::{
    Db, Durability, Error, Requirement, SequenceNumber, SourceKind, WriteBatch, WriteOptions, WriteTicket,
};
use sluicedb_tests::commit::{batch, hold_lead, open, queue, until_queued};
use sluicedb_tests::pressure::{case, controller, half, no_slowdown, until, until_asleep, until_parked};
use sluicedb_tests::sim_fs::{CrashMode, Effect, Fault, FileKind, Op, Pattern, SimFs};

fn sequences(tickets: Vec<WriteTicket>) -> Vec<SequenceNumber> {
    tickets.into_iter().map(|ticket| ticket.wait().expect("it is written")).collect()
}

fn key(n: usize) -> String {
    format!("key{n:04}")
}

/// write-path Q15: on a full queue no submitter parks; tickets wait, complete in order, and beyond the bound of the
/// waiting list one ends at once with its batch.
#[test]
fn a_full_queue_parks_no_submitter() {
    case("a_full_queue_parks_no_submitter", |clock| {
        let fs = SimFs::new(1);
        let db = open(&fs, clock, |options| {
            options.commit_queue_bytes = 4_096;
            options.async_waiting_bytes = 1 << 20;
        });
        std::thread::scope(|scope| {
            let held = hold_lead(scope, &fs, &db, "a");
            let mut tickets = vec![db.write_async(batch("first", 5_000))];
            assert!(!tickets[0].is_waiting());
            tickets.extend((0..16).map(|n| db.write_async(batch(&key(n), (64 << 10) + 8))));
            assert!(tickets[1..].iter_mut().all(|ticket| ticket.is_waiting() && ticket.try_wait().is_none()));
            assert_eq!(
                (queue(&db, "used"), queue(&db, "units")),
                (5_000, 1),
                "they own no bytes of the queue"
            );
            assert_eq!((queue(&db, "tickets_waiting"), queue(&db, "tickets_waiting_bytes")), (16, 1 << 20));
            let mut beyond = db.write_async(batch("beyond", 100));
            let (error, back) = beyond.try_wait().expect("it ends at once").unwrap_err().into_parts();
            assert!(matches!(error, Error::QueueFull { .. }), "{error}");
            assert_eq!(back.expect("the batch comes back").byte_size(), 92);
            let again = beyond.try_wait().expect("the outcome stays").unwrap_err();
            assert!(again.into_batch().is_none(), "the batch comes back once");
            held.release();
            let sequences = sequences(tickets);
            assert!(sequences.is_sorted(), "{sequences:?}");
        });
        assert_eq!((queue(&db, "used"), queue(&db, "tickets_waiting_bytes")), (0, 0));
    });
}

/// write-path Q15: the same on a stopped controller: nothing is parked but tickets, and all complete in order when the
/// stop ends.
#[test]
fn a_stop_parks_no_submitter() {
    case("a_stop_parks_no_submitter", |clock| {
        let fs = SimFs::new(2);
        let db = open(&fs, clock, |_| {});
        let stop = db.write_controller().source(SourceKind::Governor);
        stop.require(Requirement::Stopped);
        let mut tickets: Vec<_> = (0..100).map(|n| db.write_async(batch(&key(n), 100))).collect();
        assert!(tickets.iter_mut().all(|ticket| ticket.is_waiting() && ticket.try_wait().is_none()));
        until_parked(&db, 1);
        assert_eq!(queue(&db, "used"), 0, "nothing is charged while writers are stopped");
        let refused = db.write_async_opt(batch("now", 100), &no_slowdown()).wait().unwrap_err();
        assert!(matches!(refused.error(), Error::Stalled { .. }), "{refused}");
        assert!(refused.into_batch().is_some());
        drop(stop);
        assert!(sequences(tickets).is_sorted());
        assert_eq!(db.latest_sequence().get(), 100);
    });
}

/// A delay holds tickets as it holds writers: each pays for its own bytes, in order, and no thread but the appender
/// waits.
#[test]
fn a_delay_is_served_by_the_ticket() {
    case("a_delay_is_served_by_the_ticket", |clock| {
        let fs = SimFs::new(3);
        let brake = controller(2 << 20, clock);
        let db = open(&fs, clock, |options| options.write_controller = Some(Arc::clone(&brake)));
        let delay = brake.source(SourceKind::Governor);
        delay.require(half());
        // 256 KiB at 1 MiB/s are 250 ms.
        let mut tickets: Vec<_> = (0..4).map(|n| db.write_async(batch(&key(n), 256 << 10))).collect();
        for done in 0..4 {
            until_asleep(&db, 1);
            assert!(tickets[done..].iter_mut().all(|ticket| ticket.try_wait().is_none()), "{done} are done");
            clock.advance(Duration::from_millis(251));
            until("the next one is done", || tickets[done].sequence().is_some());
        }
        assert_eq!(queue(&db, "tickets_waiting"), 0);
        drop(delay);
    });
}

/// A ticket that waits can be taken back, from the front, the middle and while it is delayed; a queued one cannot.
#[test]
fn a_waiting_ticket_can_be_cancelled() {
    case("a_waiting_ticket_can_be_cancelled", |clock| {
        let fs = SimFs::new(4);
        let db = open(&fs, clock, |options| options.commit_queue_bytes = 4_096);
        std::thread::scope(|scope| {
            let held = hold_lead(scope, &fs, &db, "a");
            let queued = db.write_async(batch("queued", 4_096));
            let mut tickets: Vec<_> = (0..5).map(|n| db.write_async(batch(&key(n), 1_000))).collect();
            let queued = queued.cancel().expect_err("it has been queued");
            for at in [2, 0] {
                let back = tickets.remove(at).cancel().expect("it waits");
                assert_eq!(back.byte_size(), 992);
            }
            held.release();
            queued.wait().unwrap();
            assert_eq!(sequences(tickets).len(), 3);
        });
        let there: Vec<_> = (0..5).map(|n| db.get(key(n)).unwrap().is_some()).collect();
        assert_eq!(there, [false, true, false, true, true]);

        let stop = db.write_controller().source(SourceKind::Governor);
        stop.require(Requirement::Stopped);
        let ticket = db.write_async(batch("stopped", 100));
        until_parked(&db, 1);
        ticket.cancel().expect("it waits");
        until_parked(&db, 0);
        drop(stop);
        db.barrier().unwrap();
        assert!(db.get("stopped").unwrap().is_none() && queue(&db, "tickets_waiting_bytes") == 0);
    });
}

/// The limits of a blocking writer hold for a ticket, also one that is not in front: it ends with the same error, and its
/// batch.
#[test]
fn a_waiting_ticket_runs_out_of_patience() {
    case("a_waiting_ticket_runs_out_of_patience", |clock| {
        let fs = SimFs::new(5);
        let db = open(&fs, clock, |options| {
            options.commit_queue_bytes = 4_096;
            options.write_timeout = Duration::from_millis(200);
            options.stall_timeout = Some(Duration::from_millis(100));
        });
        std::thread::scope(|scope| {
            let held = hold_lead(scope, &fs, &db, "a");
            let queued = db.write_async(batch("queued", 4_096));
            let tickets: Vec<_> = (0..3).map(|n| db.write_async(batch(&key(n), 1_000))).collect();
            until("all stand in the line for room", || queue(&db, "waiting") == 3);
            clock.advance(Duration::from_millis(200));
            for ticket in tickets {
                let (error, back) = ticket.wait().unwrap_err().into_parts();
                assert!(matches!(error, Error::QueueWaitTimeout { bytes: 1_000, .. }), "{error}");
                assert!(back.is_some());
            }
            held.release();
            queued.wait().unwrap();
        });
        let stop = db.write_controller().source(SourceKind::Governor);
        stop.require(Requirement::Stopped);
        let tickets: Vec<_> = (0..3).map(|n| db.write_async(batch(&key(n), 1_000))).collect();
        until_parked(&db, 1);
        clock.advance(Duration::from_millis(100));
        for ticket in tickets {
            let (error, back) = ticket.wait().unwrap_err().into_parts();
            assert!(
                matches!(error, Error::Stalled { waited, .. } if waited == Duration::from_millis(100)),
                "{error}"
            );
            assert!(back.is_some());
        }
        drop(stop);
        db.put("k", "v").unwrap();
    });
}

/// Closing: tickets that wait end at once with their batches, queued ones are committed, and later ones are refused. What
/// was acknowledged is there after reopening.
#[test]
fn closing_ends_every_ticket() {
    case("closing_ends_every_ticket", |clock| {
        let fs = SimFs::new(6);
        let db = open(&fs, clock, |options| options.commit_queue_bytes = 4_096);
        std::thread::scope(|scope| {
            let held = hold_lead(scope, &fs, &db, "a");
            let queued: Vec<_> = (0..5).map(|n| db.write_async(batch(&key(n), 1_000))).collect();
            let waiting: Vec<_> = (5..9).map(|n| db.write_async(batch(&key(n), 1_000))).collect();
            let closes = scope.spawn(|| db.close());
            for ticket in waiting {
                let (error, back) = ticket.wait().unwrap_err().into_parts();
                assert!(matches!(error, Error::ShutdownInProgress) && back.is_some(), "{error}");
            }
            let refused = db.write_async(batch("late", 100)).wait().unwrap_err();
            assert!(matches!(refused.error(), Error::ShutdownInProgress));
            assert!(refused.into_batch().is_some());
            held.release();
            assert_eq!(sequences(queued).len(), 5);
            closes.join().unwrap().unwrap();
        });
        assert!(matches!(db.try_write(batch("late", 100)).unwrap_err().error(), Error::ShutdownInProgress));
        drop(db);
        let db = open(&fs, clock, |_| {});
        let there = (0..9).filter(|n| db.get(key(*n)).unwrap().is_some()).count();
        assert_eq!(there, 5);
    });
}

/// A failure of the log ends every ticket: queued ones without, waiting ones with their batches; after `resume` they can
/// be written.
#[test]
fn a_failure_ends_every_ticket() {
    case("a_failure_ends_every_ticket", |clock| {
        let fs = SimFs::new(7);
        let db = open(&fs, clock, |options| options.commit_queue_bytes = 4_096);
        let back = std::thread::scope(|scope| {
            let held = hold_lead(scope, &fs, &db, "a");
            let gate = fs.gate_next(Pattern::op(Op::Write).on(FileKind::Wal));
            fs.inject(Fault::next(
                Pattern::op(Op::Write).on(FileKind::Wal),
                Effect::Fail(std::io::ErrorKind::Other),
            ));
            let queued: Vec<_> = (0..5).map(|n| db.write_async(batch(&key(n), 1_000))).collect();
            let waiting: Vec<_> = (5..9).map(|n| db.write_async(batch(&key(n), 1_000))).collect();
            held.release();
            gate.wait_until_reached();
            gate.open();
            for ticket in queued {
                assert!(ticket.wait().unwrap_err().into_batch().is_none(), "it was queued");
            }
            // Whether one of these was queued between the failed append and its latch is chance; that it ends is not.
            waiting
                .into_iter()
                .filter_map(|ticket| ticket.wait().unwrap_err().into_batch())
                .collect::<Vec<_>>()
        });
        assert_eq!(queue(&db, "used"), 0);
        db.resume().unwrap();
        let written = back.len();
        let tickets: Vec<_> = back.into_iter().map(|batch| db.write_async(batch)).collect();
        assert_eq!(sequences(tickets).len(), written);
    });
}

/// A thread's waker, for a runtime of a few lines.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// The three ways to hear of an outcome without waiting for it: `await`, a callback, and a look; and a dropped ticket is
/// written all the same.
#[test]
fn every_way_to_hear() {
    case("every_way_to_hear", |clock| {
        let fs = SimFs::new(8);
        let db = open(&fs, clock, |_| {});
        let (tell, told) = mpsc::channel();
        std::thread::scope(|scope| {
            let held = hold_lead(scope, &fs, &db, "a");
            let awaited = db.write_async(batch("awaited", 100));
            let called = db.write_async(batch("called", 100));
            let mut looked = db.write_async(batch("looked", 100));
            let timed = &mut db.write_async(batch("timed", 100));
            drop(db.write_async(batch("dropped", 100)));
            let tell_early = tell.clone();
            called.on_complete(move |outcome| tell_early.send(outcome).unwrap()).unwrap();
            let awaited = scope.spawn(|| block_on(awaited));
            until_queued(&db, 5);
            assert!(looked.try_wait().is_none() && told.try_recv().is_err() && !awaited.is_finished());
            assert!(timed.wait_timeout(Duration::ZERO).is_none());
            held.release();
            assert_eq!(awaited.join().unwrap().unwrap().get(), 1);
            assert_eq!(told.recv().unwrap().unwrap().get(), 2);
            until("the look succeeds", || looked.try_wait().is_some());
            assert_eq!(looked.sequence().map(SequenceNumber::get), Some(3));
            assert!(matches!(timed.wait_timeout(Duration::from_secs(1)), Some(Ok(_))));
        });
        db.barrier().unwrap();
        assert!(db.get("dropped").unwrap().is_some());
        // A callback on a ticket that is done already, and one that panics: the next is called all the same.
        let mut done = db.write_async(batch("done", 100));
        assert!(done.wait_timeout(Duration::from_secs(1)).is_some());
        done.on_complete(|_| panic!("a callback fails (expected in this test)")).unwrap();
        let last = db.write_async(WriteBatch::new());
        last.on_complete(move |outcome| tell.send(outcome).unwrap()).unwrap();
        assert_eq!(told.recv().unwrap().unwrap(), db.latest_sequence(), "an empty batch is done at once");
    });
}

/// Closing waits for the callbacks of all that was written.
#[test]
fn closing_calls_every_callback() {
    case("closing_calls_every_callback", |clock| {
        let fs = SimFs::new(9);
        let db = open(&fs, clock, |options| options.commit_queue_bytes = 4_096);
        let called = Arc::new(AtomicU64::new(0));
        for n in 0..500 {
            let called = Arc::clone(&called);
            let count = move |_| {
                called.fetch_add(1, Ordering::Relaxed);
            };
            db.write_async(batch(&key(n), 200)).on_complete(count).unwrap();
        }
        db.close().unwrap();
        assert_eq!(called.load(Ordering::Relaxed), 500);
    });
}

/// No acknowledgement is lost: what a ticket with `Sync` said is written is there after a power failure at any moment.
#[test]
fn an_acknowledged_ticket_survives_a_crash() {
    case("an_acknowledged_ticket_survives_a_crash", |clock| {
        let fs = SimFs::new(10);
        let db = open(&fs, clock, |options| options.commit_queue_bytes = 4_096);
        let sync = WriteOptions::durability(Durability::Sync);
        let mut tickets: Vec<_> = (0..300).map(|n| db.write_async_opt(batch(&key(n), 300), &sync)).collect();
        for crash in 0..10 {
            let acknowledged: Vec<usize> =
                (0..tickets.len()).filter(|n| matches!(tickets[*n].try_wait(), Some(Ok(_)))).collect();
            let image = fs.crash(CrashMode::DropUnsynced, crash);
            let survivor = open(&image, clock, |_| {});
            for n in &acknowledged {
                assert!(
                    survivor.get(key(*n)).unwrap().is_some(),
                    "ticket {n} was acknowledged before the crash"
                );
            }
            let more = acknowledged.len() + 25;
            tickets[more.min(299)].wait_timeout(Duration::from_secs(10));
        }
        assert!(sequences(tickets).is_sorted());
    });
}

/// A ticket tells when its write is durable; one that is not logged says that it never is.
#[test]
fn a_ticket_waits_until_it_is_durable() {
    case("a_ticket_waits_until_it_is_durable", |clock| {
        let fs = SimFs::new(11);
        let db = open(&fs, clock, |_| {});
        std::thread::scope(|scope| {
            let ticket = db.write_async(batch("k", 100));
            let waits = scope.spawn(|| ticket.wait_durable());
            until("it is written", || db.latest_sequence().get() == 1);
            assert_eq!(db.durable_sequence().get(), 0);
            db.sync_wal().unwrap();
            assert_eq!(waits.join().unwrap().unwrap(), db.durable_sequence());
        });
        let none = WriteOptions::durability(Durability::None);
        let refused = db.write_async_opt(batch("k", 100), &none).wait_durable().unwrap_err();
        assert!(matches!(refused.error(), Error::InvalidArgument { .. }), "{refused}");
    });
}

/// Submitters, blocking writers, a stop that comes and goes and a small queue, with real interleavings: everything ends,
/// each thread's writes are made in its order, and nothing stays charged.
#[test]
fn tickets_and_writers_together() {
    case("tickets_and_writers_together", |clock| {
        let fs = SimFs::new(12);
        let db = open(&fs, clock, |options| {
            options.commit_queue_bytes = 4_096;
            options.commit_group_count = 7;
            options.parallel_insert_bytes = 0;
        });
        std::thread::scope(|scope| {
            let working = Arc::new(());
            for thread in 0..6 {
                let (db, working) = (&db, Arc::clone(&working));
                scope.spawn(move || {
                    let mut tickets = Vec::new();
                    for n in 0..400 {
                        if thread % 2 == 0 {
                            tickets.push(db.write_async(batch(&format!("{thread}-{n}"), 200)));
                        } else {
                            db.write(batch(&format!("{thread}-{n}"), 200)).unwrap();
                        }
                    }
                    assert!(sequences(tickets).is_sorted());
                    drop(working);
                });
            }
            let db: &Db = &db;
            scope.spawn(move || {
                while Arc::strong_count(&working) > 1 {
                    let stop = db.write_controller().source(SourceKind::Governor);
                    stop.require(Requirement::Stopped);
                    std::thread::yield_now();
                    drop(stop);
                    std::thread::yield_now();
                }
            });
        });
        assert_eq!((queue(&db, "used"), queue(&db, "units"), queue(&db, "tickets_waiting")), (0, 0, 0));
        assert_eq!(db.latest_sequence().get(), 2_400);
    });
}
