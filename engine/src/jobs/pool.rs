//! [`Pool`]: named workers, each fed through a [`Ring`] of its own.
//!
//! A job goes to the ring with the fewest jobs outstanding. A job that submits to its own pool never waits for room there:
//! it runs the new job itself instead. Workers hold no lock while a job runs, and a job's panic stays with the job.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::ring::{AbortToken, Pushed, Ring, RingStats, Stop};
use super::task::{BulkHandle, Group, JobError, JobHandle, Jobs, Queued, Slot};
use super::workers::Workers;
use crate::env::Clock;
use crate::sync::Mutex;

/// Stack of a worker. A job needs little; a compaction's rayon threads have their own.
const STACK_BYTES: usize = 2 << 20;

thread_local! {
    /// Identity of the pool whose worker this thread is; 0 for other threads.
    static WORKER_OF: Cell<u64> = const { Cell::new(0) };
}

static NEXT_IDENTITY: AtomicU64 = AtomicU64::new(1);

/// What a pool is made with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolOptions {
    /// Name of the pool; its threads are `sluice-NAME-N`.
    pub(crate) name: &'static str,
    pub(crate) workers: usize,
    /// Jobs that each worker holds at most, queued and running: a power of two.
    pub(crate) slots: usize,
}

/// Why a job was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// No slot is free.
    Full,
    /// The pool was stopped.
    Closed,
}

/// Workers and their rings.
#[derive(Debug)]
pub(crate) struct Pool {
    identity: u64,
    name: &'static str,
    rings: Arc<[Ring]>,
    clock: Arc<dyn Clock>,
    threads: Workers,
    life: Mutex<Life>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    New,
    Started,
    Stopped,
}

impl Pool {
    /// A pool whose workers do not run yet; jobs may be submitted, and wait.
    pub(crate) fn new(options: PoolOptions, clock: &Arc<dyn Clock>) -> Self {
        debug_assert!(options.slots.is_power_of_two() && options.workers > 0);
        Self {
            identity: NEXT_IDENTITY.fetch_add(1, Ordering::Relaxed), // only has to be unique
            name: options.name,
            rings: (0..options.workers).map(|_| Ring::new(options.slots)).collect(),
            clock: Arc::clone(clock),
            threads: Workers::default(),
            life: Mutex::new(Life::New),
        }
    }

    /// Starts the workers. Does nothing the second time, and after a stop.
    pub(crate) fn start(&self) -> std::io::Result<()> {
        {
            let mut life = self.life.lock();
            if *life != Life::New {
                return Ok(());
            }
            *life = Life::Started;
        }
        for n in 0..self.rings.len() {
            let (rings, clock, identity) = (Arc::clone(&self.rings), Arc::clone(&self.clock), self.identity);
            let name = format!("sluice-{}-{n}", self.name);
            self.threads.spawn_with_stack(name, STACK_BYTES, move || {
                WORKER_OF.set(identity);
                let closing = CloseIfUnwinding(&rings[n]);
                rings[n].work(&|| clock.now_nanos());
                drop(closing);
            })?;
        }
        Ok(())
    }

    /// Hands over a job and waits for room if there is none. After a stop its result is [`JobError::Closed`].
    pub(crate) fn submit<F, R>(&self, job: F) -> JobHandle<R>
    where
        F: FnOnce(&AbortToken) -> R + Send + 'static,
        R: Send + 'static,
    {
        let jobs = Arc::new(Jobs::new([Slot::new(job)]));
        self.push(Arc::clone(&jobs) as _, 1);
        JobHandle(jobs)
    }

    /// Hands over a job if a slot is free.
    pub(crate) fn try_submit<F, R>(&self, job: F) -> Result<JobHandle<R>, Refused>
    where
        F: FnOnce(&AbortToken) -> R + Send + 'static,
        R: Send + 'static,
    {
        let jobs = Arc::new(Jobs::new([Slot::new(job)]));
        let mut queued = std::iter::once(Queued::new(Arc::clone(&jobs) as _, 0));
        match self.ring().push_all(&mut queued, false, &|| self.clock.now_nanos()) {
            Pushed::All => Ok(JobHandle(jobs)),
            Pushed::Full => Err(Refused::Full),
            Pushed::Closed => Err(Refused::Closed),
        }
    }

    /// Hands over many jobs at once: as many as there is room for are published together with one wake-up, and the caller
    /// waits only for the rest. They run in this order.
    pub(crate) fn submit_bulk<F, R>(&self, jobs: impl IntoIterator<Item = F>) -> BulkHandle<R>
    where
        F: FnOnce(&AbortToken) -> R + Send + 'static,
        R: Send + 'static,
    {
        let slots: Vec<_> = jobs.into_iter().map(Slot::new).collect();
        let count = slots.len();
        let jobs = Arc::new(Jobs::new(slots));
        self.push(Arc::clone(&jobs) as _, count);
        BulkHandle(jobs)
    }

    fn push(&self, group: Arc<dyn Group>, count: usize) {
        let ring = self.ring();
        let is_worker = WORKER_OF.get() == self.identity;
        let mut queued = (0..count).map(|index| Queued::new(Arc::clone(&group), index));
        match ring.push_all(&mut queued, !is_worker, &|| self.clock.now_nanos()) {
            Pushed::All => {}
            Pushed::Full => queued.for_each(|job| job.run(ring.abort_token(), &mut |_| {})),
            Pushed::Closed if ring.abort_token().is_aborted() && count > 0 => {
                queued.for_each(|job| job.fail(JobError::Aborted));
            }
            Pushed::Closed => queued.for_each(|job| job.fail(JobError::Closed)),
        }
    }

    /// The ring with the fewest jobs outstanding.
    fn ring(&self) -> &Ring {
        self.rings.iter().min_by_key(|ring| ring.outstanding()).expect("a pool has a worker")
    }

    /// Refuses new jobs, then runs or fails what was accepted, then waits for the workers, but not for the calling thread
    /// if it is one of them. Idempotent. Names of workers that died come back.
    pub(crate) fn stop(&self, how: Stop) -> Vec<String> {
        let was = std::mem::replace(&mut *self.life.lock(), Life::Stopped);
        // Without workers nobody would ever run what waits.
        let how = if was == Life::New { Stop::Abort } else { how };
        for ring in &*self.rings {
            ring.close(how);
        }
        self.threads.join()
    }

    /// What each worker's ring did.
    pub(crate) fn stats(&self) -> Vec<RingStats> {
        self.rings.iter().map(Ring::stats).collect()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.stop(Stop::Drain);
    }
}

/// A worker that dies closes its ring, so that nobody waits for it.
struct CloseIfUnwinding<'a>(&'a Ring);

impl Drop for CloseIfUnwinding<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.close(Stop::Abort);
        }
    }
}
