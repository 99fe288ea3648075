//! The cases of `write-path.md` 6.3 on rings and pools.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use sluicedb_controller::{ManualClock, Parker, ThreadTicket, Woken};

use super::pool::{Pool, PoolOptions, Refused};
use super::ring::{RingStats, Stop};
use super::task::JobError;
use crate::env::Clock;
use crate::sync::{Condvar, Mutex};

/// A gate that jobs wait at until it is opened.
#[derive(Default)]
struct Gate {
    open: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.open.lock();
        state.1 += 1;
        self.changed.notify_all();
        while !state.0 {
            self.changed.wait(&mut state);
        }
    }

    fn open(&self) {
        self.open.lock().0 = true;
        self.changed.notify_all();
    }

    fn wait_for_arrivals(&self, count: usize) {
        let mut state = self.open.lock();
        while state.1 < count {
            self.changed.wait(&mut state);
        }
    }
}

fn pool_on(clock: &Arc<dyn Clock>, workers: usize) -> Arc<Pool> {
    let pool = Pool::new(PoolOptions { name: "test", workers, slots: 128 }, clock);
    pool.start().unwrap();
    Arc::new(pool)
}

fn pool(workers: usize) -> Arc<Pool> {
    pool_on(&(Arc::new(ManualClock::new(0)) as _), workers)
}

fn stats(pool: &Pool) -> RingStats {
    pool.stats()[0]
}

/// Blocks until the pool says so; others make it true.
fn until(what: impl Fn() -> bool) {
    while !what() {
        std::thread::yield_now();
    }
}

/// A pool of one worker that is held in its first job.
fn gated() -> (Arc<Pool>, Arc<Gate>, super::task::JobHandle<()>) {
    let (pool, gate) = (pool(1), Arc::new(Gate::default()));
    let held = Arc::clone(&gate);
    let first = pool.submit(move |_| held.pass());
    gate.wait_for_arrivals(1);
    (pool, gate, first)
}

/// write-path W1: a thousand jobs, right values, started in the order of submission.
#[test]
fn w1_a_thousand_jobs_in_order() {
    let pool = pool(1);
    let started = Arc::new(Mutex::new(Vec::new()));
    let handles: Vec<_> = (0..1000)
        .map(|n| {
            let started = Arc::clone(&started);
            pool.submit(move |_| {
                started.lock().push(n);
                n
            })
        })
        .collect();
    let values: Vec<u64> = handles.into_iter().map(|handle| handle.wait().unwrap()).collect();
    assert_eq!(values, (0..1000).collect::<Vec<_>>());
    assert_eq!(*started.lock(), values);
}

/// write-path W2: 128 jobs fit, number 129 is refused or waits, and goes on when one has ended.
#[test]
fn w2_the_129th_waits() {
    let (pool, gate, first) = gated();
    let rest: Vec<_> = (1..128).map(|n| pool.submit(move |_| n)).collect();
    assert_eq!(pool.try_submit(|_| ()).err(), Some(Refused::Full));
    std::thread::scope(|scope| {
        let late = scope.spawn(|| pool.submit(|_| 128).wait());
        until(|| stats(&pool).permit_waits == 1);
        assert!(!first.is_done());
        gate.open();
        assert_eq!(late.join().unwrap(), Ok(128));
    });
    assert!(rest.into_iter().zip(1..).all(|(handle, n)| handle.wait() == Ok(n)));
    assert_eq!(stats(&pool).outstanding_peak, 128);
}

/// write-path W3: bulk submission wakes once per published chunk, a pop takes at most 128 jobs, and a held worker leaves
/// the rest with the caller.
#[test]
fn w3_bulk_wakes_once_per_chunk() {
    let idle = pool(1);
    until(|| idle.try_submit(|_| ()).is_ok_and(|handle| handle.wait().is_ok()));
    let before = stats(&idle);
    let done = idle.submit_bulk((0..1000_u64).map(|n| move |_: &_| n)).wait();
    assert!(done.into_iter().zip(0..).all(|(value, n)| value == Ok(n)));
    let after = stats(&idle);
    let chunks = after.chunk.count - before.chunk.count;
    let wakes = after.wakes - before.wakes;
    assert!(wakes <= chunks && wakes * 16 <= 1000, "{wakes} wake-ups for {chunks} chunks");
    assert!(after.popped.max <= 128);

    let (pool, gate, first) = gated();
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| pool.submit_bulk((0..1000_u64).map(|n| move |_: &_| n)).wait());
        until(|| stats(&pool).permit_waits == 1);
        assert_eq!(stats(&pool).submitted, 128, "the one that is held, and 127 of the thousand");
        gate.open();
        assert!(caller.join().unwrap().into_iter().zip(0..).all(|(value, n)| value == Ok(n)));
    });
    first.wait().unwrap();
    let stats = stats(&pool);
    assert_eq!((stats.submitted, stats.outstanding_peak), (1001, 128));
    assert!(stats.chunk.count <= 1 + 16, "{} chunks", stats.chunk.count);
}

/// write-path W4: stopping before the start, twice, and submitting afterwards.
#[test]
fn w4_stop_is_idempotent() {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(0));
    let pool = Pool::new(PoolOptions { name: "test", workers: 2, slots: 128 }, &clock);
    let early = pool.submit(|_| 1);
    assert!(pool.stop(Stop::Drain).is_empty());
    assert_eq!(early.wait(), Err(JobError::Aborted), "it never had a worker");
    assert!(pool.stop(Stop::Drain).is_empty() && pool.stop(Stop::Abort).is_empty());
    pool.start().unwrap();
    assert_eq!(pool.try_submit(|_| ()).err(), Some(Refused::Closed));

    let pool = self::pool(2);
    assert!(pool.stop(Stop::Drain).is_empty() && pool.stop(Stop::Drain).is_empty());
    assert_eq!(pool.submit(|_| 1).wait(), Err(JobError::Closed));
    assert_eq!(
        pool.submit_bulk([|_: &_| 1, |_: &_| 2]).wait(),
        [Err(JobError::Closed), Err(JobError::Closed)]
    );
}

/// write-path W5: eight submitters race a draining stop. Every handle gets its own value or `Closed`, and as many jobs ran
/// as values came back. A watchdog sees to it that nothing hangs.
#[test]
fn w5_drain_at_a_random_moment() {
    let (sender, receiver) = mpsc::channel();
    let soak = std::thread::Builder::new().spawn(move || {
        for run in 0..1000_u64 {
            let pool = pool(1);
            let ran = Arc::new(AtomicU64::new(0));
            let returned: u64 = std::thread::scope(|scope| {
                let submitters: Vec<_> = (0..8)
                    .map(|thread| {
                        let (pool, ran) = (&pool, &ran);
                        scope.spawn(move || {
                            let submit = |n| {
                                let ran = Arc::clone(ran);
                                pool.submit(move |_| {
                                    ran.fetch_add(1, Ordering::Relaxed);
                                    thread * 1000 + n
                                })
                            };
                            let handles: Vec<_> = (0..128).map(submit).collect();
                            let check = |(handle, n): (super::task::JobHandle<u64>, u64)| match handle.wait()
                            {
                                Ok(value) => {
                                    assert_eq!(value, thread * 1000 + n);
                                    1
                                }
                                Err(error) => {
                                    assert_eq!(error, JobError::Closed);
                                    0
                                }
                            };
                            handles.into_iter().zip(0..).map(check).sum::<u64>()
                        })
                    })
                    .collect();
                until(|| stats(&pool).submitted >= run % 300);
                pool.stop(Stop::Drain);
                submitters.into_iter().map(|submitter| submitter.join().unwrap()).sum()
            });
            assert_eq!(returned, ran.load(Ordering::Relaxed), "run {run}");
            sender.send(()).unwrap();
        }
    });
    for run in 0..1000 {
        let watched = receiver.recv_timeout(Duration::from_secs(60));
        assert!(watched.is_ok(), "run {run} hangs or failed");
    }
    soak.unwrap().join().unwrap();
}

/// write-path W6: an abort fails what has not started, exactly once, and the running job sees it.
#[test]
fn w6_abort_fails_what_has_not_started() {
    let (pool, gate) = (pool(1), Arc::new(Gate::default()));
    let held = Arc::clone(&gate);
    let running = pool.submit(move |token| {
        held.pass();
        while !token.is_aborted() {
            std::thread::yield_now();
        }
        "saw it"
    });
    gate.wait_for_arrivals(1);
    let ended = Arc::new(AtomicUsize::new(0));
    let waiting: Vec<_> = (0..100).map(|_| pool.submit(|_| ())).collect();
    gate.open();
    pool.stop(Stop::Abort);
    assert_eq!(running.wait(), Ok("saw it"));
    for handle in waiting {
        assert_eq!(handle.wait(), Err(JobError::Aborted));
        ended.fetch_add(1, Ordering::Relaxed);
    }
    let stats = stats(&pool);
    assert_eq!((ended.load(Ordering::Relaxed), stats.failed_at_stop, stats.length_at_stop), (100, 100, 100));
    assert_eq!(stats.length, 0);
}

/// write-path W7: a panic stays with its job.
#[test]
fn w7_a_panic_stays_with_its_job() {
    let pool = pool(1);
    let jobs = (0..100).map(|n| {
        move |_: &_| {
            assert!(n != 50, "job 50 fails (expected in this test)");
            n
        }
    });
    let done = pool.submit_bulk(jobs).wait();
    assert_eq!(done.iter().filter(|value| value.is_ok()).count(), 99);
    assert_eq!(done[50], Err(JobError::Panicked("job 50 fails (expected in this test)".to_owned())));
    let next: Vec<_> = (0..100).map(|n| pool.submit(move |_| n)).collect();
    assert!(next.into_iter().zip(0..).all(|(handle, n)| handle.wait() == Ok(n)));
    assert_eq!(stats(&pool).panicked, 1);
}

/// A worker that dies closes its ring: whoever waits gets an error.
#[test]
fn a_dead_worker_closes_its_ring() {
    /// Panics when the worker asks for the third time, outside of any job.
    #[derive(Debug)]
    struct Broken(AtomicU64);
    impl Clock for Broken {
        fn now_nanos(&self) -> u64 {
            let looks = self.0.fetch_add(1, Ordering::Relaxed);
            let is_worker = std::thread::current().name() == Some("sluice-test-0");
            assert!(!is_worker || looks < 2, "no time (expected in this test)");
            0
        }
        fn unix_micros(&self) -> u64 {
            0
        }
        fn park(&self, _: &Parker, _: Option<u64>) -> Woken {
            Woken::Deadline
        }
        fn announce_thread(&self) -> ThreadTicket {
            ThreadTicket::none()
        }
    }
    let pool =
        Pool::new(PoolOptions { name: "test", workers: 1, slots: 128 }, &(Arc::new(Broken(0.into())) as _));
    let jobs = pool.submit_bulk([|_: &_| 1, |_: &_| 2]); // the first look at the clock
    pool.start().unwrap();
    assert_eq!(
        jobs.wait(),
        [Err(JobError::Closed), Err(JobError::Closed)],
        "the first ran, and its result is lost"
    );
    until(|| pool.try_submit(|_| ()).err() == Some(Refused::Closed));
    assert_eq!(pool.stop(Stop::Drain), ["sluice-test-0"]);
}

/// write-path W8: a job that submits to its own full ring runs the new job itself.
#[test]
fn w8_a_job_submits_to_its_own_full_ring() {
    let pool = pool(1);
    let gate = Arc::new(Gate::default());
    let (held, inner) = (Arc::clone(&gate), Arc::clone(&pool));
    let first = pool.submit(move |_| {
        held.pass();
        let refused = inner.try_submit(|_| 0).err();
        (refused, inner.submit(|_| 7).wait(), inner.submit_bulk([|_: &_| 8, |_: &_| 9]).wait())
    });
    gate.wait_for_arrivals(1);
    let rest: Vec<_> = (1..128).map(|n| pool.submit(move |_| n)).collect();
    gate.open();
    assert_eq!(first.wait(), Ok((Some(Refused::Full), Ok(7), vec![Ok(8), Ok(9)])));
    assert!(rest.into_iter().zip(1..).all(|(handle, n)| handle.wait() == Ok(n)));
}

/// write-path W9: queue length and times, for a hundred jobs of a millisecond of the clock.
#[test]
fn w9_queue_length_and_times() {
    const MILLI: u64 = 1_000_000;
    let clock = ManualClock::new(0);
    let pool = pool_on(&(Arc::new(clock.clone()) as _), 1);
    let jobs = (0..100).map(|_| {
        let clock = clock.clone();
        move |_: &_| clock.advance(Duration::from_millis(1))
    });
    assert!(pool.submit_bulk(jobs).wait().iter().all(Result::is_ok));
    pool.stop(Stop::Drain);
    let stats = stats(&pool);
    assert!(stats.length_peak >= 99 && stats.length == 0, "{stats:?}");
    assert_eq!((stats.in_queue.count, stats.run.count), (100, 100));
    assert_eq!((stats.in_queue.sum, stats.run.sum), ((0..100).sum::<u64>() * MILLI, 100 * MILLI));
    assert!((40 * MILLI..=80 * MILLI).contains(&stats.in_queue.p50), "{}", stats.in_queue);
}

/// write-path W10: handles may be dropped at once. The jobs run, and nothing of them stays.
#[test]
fn w10_dropped_handles() {
    let pool = pool(1);
    let token = Arc::new(());
    let ran = Arc::new(AtomicU64::new(0));
    let job = |_| {
        let (token, ran) = (Arc::clone(&token), Arc::clone(&ran));
        move |_: &_| {
            ran.fetch_add(1, Ordering::Relaxed);
            token // the result, which nobody takes
        }
    };
    (0..100).map(job).for_each(|job| pool.submit(job).detach());
    pool.submit_bulk((0..100).map(job)).detach();
    pool.stop(Stop::Drain);
    assert_eq!(ran.load(Ordering::Relaxed), 200);
    assert_eq!(Arc::strong_count(&token), 1, "all jobs and results are gone");
}

/// write-path W11: no wake-up is lost when the worker parks between any two jobs.
#[test]
fn w11_ping_pong() {
    let rounds = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
    let pool = pool(1);
    for n in 0..rounds {
        assert_eq!(pool.submit(move |_| n).wait(), Ok(n));
    }
    assert_eq!(stats(&pool).submitted, rounds);
}

/// Jobs of several workers go where the fewest wait: one that is held keeps nobody from the other.
#[test]
fn a_held_worker_is_passed_by() {
    let (pool, gate) = (pool(2), Arc::new(Gate::default()));
    let held = Arc::clone(&gate);
    let first = pool.submit(move |_| held.pass());
    gate.wait_for_arrivals(1);
    for n in 0..50 {
        assert_eq!(pool.submit(move |_| n).wait(), Ok(n));
    }
    gate.open();
    first.wait().unwrap();
}
