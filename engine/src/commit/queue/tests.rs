//! The queue with real threads and without a database: who leads, who waits, and what becomes of a leader that panics.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::env::Clock;
use crate::error::Error;

#[derive(Debug)]
struct Number(u64);

impl Unit for Number {
    fn bytes(&self) -> u64 {
        1
    }

    fn wants_sync(&self) -> bool {
        false
    }
}

type Queue = CommitQueue<Number, u64>;

fn queue(count: usize) -> Queue {
    let clock: Arc<dyn Clock> = Arc::new(sluicedb_controller::SystemClock);
    let limits = GroupLimits { bytes: u64::MAX, count };
    let pool = MemoryPool::unlimited(Arc::clone(&clock));
    Queue::new(0, limits, QueueGroupLimits::NONE, &pool, Bell::new(&clock))
}

fn seq(n: u64) -> Outcome {
    Ok(SequenceNumber::new(n))
}

/// Commits what it is to commit, until its own unit is done: adds all numbers to the state.
fn take_turns(mut turn: Turn<'_, Number, u64>) -> Outcome {
    loop {
        turn = match turn {
            Turn::Done(outcome) => return outcome,
            Turn::Over => return seq(0),
            Turn::Insert(insertion) => insertion.finish(),
            Turn::Lead(mut leadership) => {
                let group = leadership.take_group();
                *leadership.state() += group.works().map(|work| work.0).sum::<u64>();
                leadership.complete(group, |work| seq(work.0))
            }
        };
    }
}

#[derive(Debug, Default)]
struct Told(AtomicU64);

impl Completion for Told {
    fn complete(&self, outcome: Outcome) {
        self.0.fetch_add(outcome.unwrap().get(), Ordering::Relaxed);
    }
}

/// `write-path Q12`, the queue's part: a lone thread leads at once, with a group of its own; nobody is woken, parked or
/// handed to.
#[test]
fn a_lone_thread_leads() {
    let queue = queue(100);
    for n in 1..=1_000 {
        assert_eq!(take_turns(queue.join(Number(n)).unwrap()).unwrap().get(), n);
    }
    let counts = &queue.counts;
    assert_eq!((counts.groups_by_callers.get(), counts.groups_by_appender.get()), (1_000, 0));
    assert_eq!((counts.wake_ups.get(), counts.parks.get(), counts.hand_overs.get()), (0, 0, 0));
    assert_eq!(*queue.lead().state(), 500_500);
}

/// `write-path Q13`, with threads: callers, tickets, internal leads and an appender; each unit is done exactly once, and
/// the state, which no lock guards, counts them all.
#[test]
fn every_unit_is_done_once() {
    let queue = queue(3);
    let told = Arc::new(Told::default());
    let (internal, done) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let (queue, internal, done) = (&queue, &internal, &done);
            let told = Arc::clone(&told);
            scope.spawn(move || {
                for n in 0..500 {
                    let number = thread * 1_000 + n;
                    if n % 50 == 7 {
                        let mut leadership = queue.lead();
                        *leadership.state() += 1;
                        leadership.end();
                        internal.fetch_add(1, Ordering::Relaxed);
                    }
                    if thread % 2 == 0 {
                        assert_eq!(take_turns(queue.join(Number(number)).unwrap()).unwrap().get(), number);
                    } else {
                        queue.push(Number(number), Arc::clone(&told) as _).unwrap();
                    }
                }
                done.fetch_add(1, Ordering::Release);
            });
        }
        scope.spawn(|| {
            loop {
                // Read before the look: what was pushed by then is seen.
                let last = done.load(Ordering::Acquire) == 8;
                match queue.lead_as_appender() {
                    Some(leadership) => drop(take_turns(Turn::Lead(leadership))),
                    None if last => return,
                    None => std::thread::yield_now(),
                }
            }
        });
    });
    let of = |threads: std::ops::Range<u64>, odd: u64| -> u64 {
        threads.filter(|t| t % 2 == odd).flat_map(|t| (0..500).map(move |n| t * 1_000 + n)).sum()
    };
    assert_eq!(told.0.load(Ordering::Relaxed), of(0..8, 1));
    let expected = of(0..8, 0) + of(0..8, 1) + internal.load(Ordering::Relaxed);
    assert_eq!(*queue.lead().state(), expected);
    assert_eq!(queue.counts.units.get(), 8 * 500);
}

/// `write-path Q11`: room for one unit, eight writers, a million writes: none sleeps for ever, and nothing stays charged.
#[test]
fn no_wake_up_is_lost_in_a_million_writes() {
    let queue = queue(100);
    let clock: Arc<dyn Clock> = Arc::new(sluicedb_controller::SystemClock);
    let room = sluicedb_wbm::MemoryPool::new(1, clock);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..125_000 {
                    let lease = room.admit(1, None).unwrap();
                    take_turns(queue.join(Number(1)).unwrap()).unwrap();
                    drop(lease);
                }
            });
        }
    });
    assert_eq!((room.used(), room.stats().peak), (0, 1));
    assert_eq!(*queue.lead().state(), 1_000_000);
}

/// Closed, the queue refuses and gives the work back, does what is queued, and still lets changes lead.
#[test]
fn a_closed_queue_gives_the_work_back() {
    let queue = queue(10);
    let told = Arc::new(Told::default());
    queue.push(Number(5), Arc::clone(&told) as _).unwrap();
    queue.close();
    assert_eq!(queue.join(Number(7)).unwrap_err().1.0, 7);
    assert_eq!(queue.push(Number(8), Arc::clone(&told) as _).unwrap_err().1.0, 8);
    let leadership = queue.lead_as_appender().unwrap();
    take_turns(Turn::Lead(leadership)).unwrap();
    assert_eq!(told.0.load(Ordering::Relaxed), 5);
    queue.barrier();
}

/// `write-path Q14`, the queue's part: a leader that panics with a group in hand fails it and hands on; nobody hangs.
/// Followers that panic while they insert fail the group as well.
#[test]
fn a_panicking_leader_hands_on() {
    let queue = queue(3);
    let first = queue.lead();
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..4)
            .map(|n| {
                let queue = &queue;
                let body = move || match queue.join(Number(n)).unwrap() {
                    Turn::Done(outcome) => outcome.is_err(),
                    Turn::Lead(mut leadership) => {
                        let _group = leadership.take_group();
                        panic!("a leader fails (expected in this test)");
                    }
                    other => panic!("{other:?}"),
                };
                std::thread::Builder::new().spawn_scoped(scope, body).unwrap()
            })
            .collect();
        while queue.len() < 4 {
            std::thread::yield_now();
        }
        first.end();
        let outcomes: Vec<_> = waiters.into_iter().map(|waiter| waiter.join()).collect();
        let panicked = outcomes.iter().filter(|outcome| outcome.is_err()).count();
        assert_eq!(panicked, 2, "one leader for three units, one for the fourth");
        assert!(outcomes.into_iter().flatten().all(|failed| failed), "their groups failed");
    });
    queue.barrier();
}

/// Followers insert their own units while the leader waits; a follower that panics is noticed.
#[test]
fn followers_insert_their_own() {
    for panics in [false, true] {
        let queue = queue(10);
        let inserted = AtomicU64::new(0);
        let first = queue.lead();
        std::thread::scope(|scope| {
            let work = |n: u64| {
                let (queue, inserted) = (&queue, &inserted);
                move || {
                    let mut turn = queue.join(Number(n)).unwrap();
                    loop {
                        turn = match turn {
                            Turn::Done(outcome) => return outcome,
                            Turn::Insert(mut insertion) => {
                                assert!(!panics, "a follower fails (expected in this test)");
                                inserted.fetch_add(insertion.work().0, Ordering::Relaxed);
                                insertion.finish()
                            }
                            Turn::Lead(mut leadership) => {
                                let mut group = leadership.take_group();
                                assert!(group.has_company());
                                let whole = group.insert_in_parallel(&queue.counts, |work| {
                                    inserted.fetch_add(work.0, Ordering::Relaxed);
                                });
                                assert_eq!(whole, !panics);
                                leadership.complete(group, |work| match whole {
                                    true => seq(work.0),
                                    false => Err(Error::ShutdownInProgress),
                                })
                            }
                            Turn::Over => unreachable!("it has a unit"),
                        };
                    }
                }
            };
            let threads: Vec<_> = [1, 10, 100].map(|n| scope.spawn(work(n))).into();
            let told = Arc::new(Told::default());
            while queue.len() < 3 {
                std::thread::yield_now();
            }
            if !panics {
                queue.push(Number(1_000), Arc::clone(&told) as _).unwrap();
            }
            first.end();
            let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
            if panics {
                assert_eq!(ended.iter().filter(|ended| ended.is_err()).count(), 2);
                assert!(ended.into_iter().flatten().all(|outcome| outcome.is_err()));
            } else {
                assert!(ended.into_iter().all(|ended| ended.unwrap().is_ok()));
                assert_eq!(inserted.load(Ordering::Relaxed), 1_111);
                assert_eq!(
                    told.0.load(Ordering::Relaxed),
                    1_000,
                    "nobody waits for it: the leader inserted it"
                );
            }
        });
        assert_eq!(queue.counts.parallel_groups.get(), 1);
    }
}
