//! [`Ring`]: a bounded queue of jobs for one worker, with a permit for each job that has not ended.
//!
//! ```text
//!   submit --permit--> queue --pop up to `slots`--> local batch --run--> ended: permit returns
//! ```
//!
//! A permit is held from before the push until the job has run, so queued and running jobs never exceed
//! `slots`, and a push cannot fail. The worker is woken only while it is parked, once per pushed chunk, whatever its
//! length. Stopping is a state of the queue, never a wake-up value.
//!
//! What jobs do, and who takes their results, is not known here; [`super::pool`] has the threads.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::task::{JobError, Queued};
use crate::histogram::{Histogram, Summary};
use crate::sync::{Condvar, Mutex, MutexGuard};

/// How a stop treats what has not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// All accepted jobs run, those of submitters that wait for a permit included.
    Drain,
    /// Jobs that have not started fail with [`JobError::Aborted`]; running ones see it in their [`AbortToken`].
    Abort,
}

/// Tells a running job that its pool was aborted.
#[derive(Debug)]
pub(crate) struct AbortToken(AtomicBool);

impl AbortToken {
    pub(crate) fn is_aborted(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The queue of one worker.
#[derive(Debug)]
pub(crate) struct Ring {
    slots: usize,
    state: Mutex<State>,
    /// The worker waits here while it is parked.
    work: Condvar,
    /// Submitters wait here for permits.
    room: Condvar,
    abort: AbortToken,
    /// Jobs that hold a permit, readable without the lock.
    outstanding: AtomicUsize,
    /// Accepted and not started: jobs in the queue, and those popped that wait for their turn.
    length: AtomicUsize,
    counters: Counters,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Queued>,
    permits_taken: usize,
    parked: bool,
    closed: bool,
    /// Submitters that were here before the ring was closed and wait for permits.
    waiting: usize,
    /// The fewest free permits that wake a waiting submitter.
    wanted: usize,
}

#[derive(Debug, Default)]
struct Counters {
    submitted: AtomicU64,
    wakes: AtomicU64,
    permit_waits: AtomicU64,
    panicked: AtomicU64,
    failed_at_stop: AtomicU64,
    length_at_stop: AtomicU64,
    length_peak: AtomicUsize,
    outstanding_peak: AtomicUsize,
    chunk: Histogram,
    popped: Histogram,
    in_queue: Histogram,
    run: Histogram,
}

/// What a ring did, for properties. Times in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RingStats {
    /// Accepted and not started, now and at most.
    pub(crate) length: usize,
    pub(crate) length_peak: usize,
    /// Jobs that held a permit at one time, at most.
    pub(crate) outstanding_peak: usize,
    pub(crate) submitted: u64,
    /// Wake-ups of a parked worker.
    pub(crate) wakes: u64,
    /// Times that a submitter had to wait for a permit.
    pub(crate) permit_waits: u64,
    pub(crate) panicked: u64,
    pub(crate) failed_at_stop: u64,
    pub(crate) length_at_stop: u64,
    /// Jobs per published chunk, and per pop of the worker.
    pub(crate) chunk: Summary,
    pub(crate) popped: Summary,
    pub(crate) in_queue: Summary,
    pub(crate) run: Summary,
}

/// What a push of several jobs did.
pub(super) enum Pushed {
    /// All are in the queue.
    All,
    /// The ring is closed: what is left of the jobs was not accepted.
    Closed,
    /// No permit is free, and the caller does not wait.
    Full,
}

impl Ring {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            slots,
            state: Mutex::new(State::default()),
            work: Condvar::new(),
            room: Condvar::new(),
            abort: AbortToken(AtomicBool::new(false)),
            outstanding: AtomicUsize::new(0),
            length: AtomicUsize::new(0),
            counters: Counters::default(),
        }
    }

    pub(super) fn abort_token(&self) -> &AbortToken {
        &self.abort
    }

    /// Jobs that hold a permit. A hint for choosing a ring.
    pub(super) fn outstanding(&self) -> usize {
        self.outstanding.load(Ordering::Relaxed)
    }

    /// Pushes all of `jobs`, as many at a time as permits are free, and wakes the worker once per chunk. Waits for permits
    /// if `waits`. What was not accepted stays in `jobs`.
    pub(super) fn push_all(
        &self,
        jobs: &mut impl ExactSizeIterator<Item = Queued>,
        waits: bool,
        now: &dyn Fn() -> u64,
    ) -> Pushed {
        let mut state = self.state.lock();
        if state.closed {
            return Pushed::Closed; // nobody who came before the stop is turned away; who comes after it is
        }
        loop {
            let free = self.slots - state.permits_taken;
            let take = free.min(jobs.len());
            if take > 0 {
                self.publish(&mut state, take, jobs, now());
            }
            if jobs.len() == 0 {
                return Pushed::All;
            }
            if !waits {
                return Pushed::Full;
            }
            // A long rest goes on in halves of the ring, not job by job: one wake-up must be worth it.
            let wanted = jobs.len().min(self.slots.div_ceil(2));
            self.wait_for_permits(&mut state, wanted);
            if self.is_aborted() {
                self.work.notify_one(); // the worker may have waited for this submitter
                return Pushed::Closed;
            }
        }
    }

    fn wait_for_permits(&self, state: &mut MutexGuard<'_, State>, wanted: usize) {
        self.counters.permit_waits.fetch_add(1, Ordering::Relaxed); // statistics
        state.wanted = if state.waiting == 0 { wanted } else { state.wanted.min(wanted) };
        state.waiting += 1;
        while self.slots - state.permits_taken < wanted && !self.is_aborted() {
            self.room.wait(state);
        }
        state.waiting -= 1;
    }

    fn publish(&self, state: &mut State, count: usize, jobs: &mut impl Iterator<Item = Queued>, now: u64) {
        state.permits_taken += count;
        state.queue.extend(jobs.take(count).map(|job| job.accepted(now)));
        let counters = &self.counters;
        // Statistics and hints, written under the lock.
        self.outstanding.store(state.permits_taken, Ordering::Relaxed);
        counters.outstanding_peak.fetch_max(state.permits_taken, Ordering::Relaxed);
        let length = self.length.fetch_add(count, Ordering::Relaxed) + count;
        counters.length_peak.fetch_max(length, Ordering::Relaxed);
        counters.submitted.fetch_add(count as u64, Ordering::Relaxed);
        counters.chunk.record(count as u64);
        if std::mem::take(&mut state.parked) {
            counters.wakes.fetch_add(1, Ordering::Relaxed);
            self.work.notify_one();
        }
    }

    /// The worker's loop: pops what there is, runs it in order with no lock held, parks when there is nothing. Returns
    /// when the ring is closed and empty and nobody waits for a permit.
    pub(super) fn work(&self, now: &dyn Fn() -> u64) {
        let mut batch = VecDeque::with_capacity(self.slots);
        while self.pop_batch(&mut batch) {
            while let Some(job) = batch.pop_front() {
                self.run_one(job, now);
            }
        }
    }

    fn pop_batch(&self, batch: &mut VecDeque<Queued>) -> bool {
        let mut state = self.state.lock();
        loop {
            if !state.queue.is_empty() {
                std::mem::swap(&mut state.queue, batch); // at most `slots`: there are no more permits
                self.counters.popped.record(batch.len() as u64);
                return true;
            }
            if state.closed && state.waiting == 0 {
                return false;
            }
            state.parked = true;
            self.work.wait(&mut state);
            state.parked = false;
        }
    }

    fn run_one(&self, job: Queued, now: &dyn Fn() -> u64) {
        let began = now();
        self.length.fetch_sub(1, Ordering::Relaxed); // statistics
        let counters = &self.counters;
        if self.is_aborted() {
            counters.failed_at_stop.fetch_add(1, Ordering::Relaxed); // statistics
            self.return_permits(1);
            job.fail(JobError::Aborted);
            return;
        }
        counters.in_queue.record(began.saturating_sub(job.accepted_at));
        job.run(&self.abort, &mut |well| {
            counters.run.record(now().saturating_sub(began));
            counters.panicked.fetch_add(u64::from(!well), Ordering::Relaxed); // statistics
            // Before the result is published: who has it finds the room, and a ring that looks as idle as it is.
            self.return_permits(1);
        });
    }

    fn return_permits(&self, count: usize) {
        let mut state = self.state.lock();
        state.permits_taken -= count;
        self.outstanding.store(state.permits_taken, Ordering::Relaxed); // a hint
        if state.waiting > 0 && self.slots - state.permits_taken >= state.wanted {
            self.room.notify_all();
        }
    }

    fn is_aborted(&self) -> bool {
        self.abort.0.load(Ordering::Acquire)
    }

    /// Refuses new jobs; with [`Stop::Abort`] fails those that have not started. Idempotent; an abort may follow a drain.
    pub(super) fn close(&self, how: Stop) {
        let failed: Vec<Queued> = {
            let mut state = self.state.lock();
            if !state.closed {
                let length = self.length.load(Ordering::Relaxed) as u64;
                self.counters.length_at_stop.store(length, Ordering::Relaxed); // statistics
            }
            state.closed = true;
            if how == Stop::Abort {
                // Jobs that are popped already are failed by the worker, when it comes to them.
                self.abort.0.store(true, Ordering::Release);
                self.room.notify_all();
            }
            self.work.notify_one();
            if how == Stop::Abort { state.queue.drain(..).collect() } else { Vec::new() }
        };
        let count = failed.len();
        self.length.fetch_sub(count, Ordering::Relaxed); // statistics
        self.counters.failed_at_stop.fetch_add(count as u64, Ordering::Relaxed); // statistics
        for job in failed {
            job.fail(JobError::Aborted);
        }
        self.return_permits(count);
    }

    pub(super) fn stats(&self) -> RingStats {
        let counters = &self.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed); // statistics
        RingStats {
            length: self.length.load(Ordering::Relaxed),
            length_peak: counters.length_peak.load(Ordering::Relaxed),
            outstanding_peak: counters.outstanding_peak.load(Ordering::Relaxed),
            submitted: read(&counters.submitted),
            wakes: read(&counters.wakes),
            permit_waits: read(&counters.permit_waits),
            panicked: read(&counters.panicked),
            failed_at_stop: read(&counters.failed_at_stop),
            length_at_stop: read(&counters.length_at_stop),
            chunk: counters.chunk.summary(),
            popped: counters.popped.summary(),
            in_queue: counters.in_queue.summary(),
            run: counters.run.summary(),
        }
    }
}
