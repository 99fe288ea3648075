//! Baseline designs to measure and test against, chosen for the whole process. Feature `bench-arms`; no part of the API.
//!
//! | arm | baseline | ours |
//! |---|---|---|
//! | [`LockScope`] | a counted lock is kept while the leader appends to the log and syncs | no lock across I/O |

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::env::{Clock, SystemClock};
use crate::jobs::{BulkHandle, JobHandle, Pool, PoolOptions};
use crate::sync::{Mutex, MutexGuard};

/// Whether the leader of the commit queue keeps a lock across the log's I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockScope {
    /// It keeps one: the design that this store replaces.
    Held,
    /// It keeps none.
    Scoped,
}

static HELD: AtomicBool = AtomicBool::new(false);
static GUARD: Mutex<()> = Mutex::new(());

/// Chooses the scope from now on.
pub fn set_lock_scope(scope: LockScope) {
    HELD.store(scope == LockScope::Held, Ordering::Release);
}

/// The guard that the leader keeps, in the baseline.
pub(crate) fn guard_of_leader() -> Option<MutexGuard<'static, ()>> {
    HELD.load(Ordering::Acquire).then(|| GUARD.lock())
}

/// One worker of the database's kind, fed through its ring: what a bench of the hand-off measures.
#[derive(Debug)]
pub struct RingWorker(Pool);

/// The result of a job, to be waited for.
#[must_use = "the job runs anyway"]
pub struct Pending<R>(JobHandle<R>);

/// The results of jobs that were submitted together.
#[must_use = "the jobs run anyway"]
pub struct PendingBulk<R>(BulkHandle<R>);

impl RingWorker {
    /// Starts the worker; its ring has 128 slots, as a database's have.
    ///
    /// # Errors
    ///
    /// If the thread cannot be started.
    pub fn start() -> std::io::Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let pool = Pool::new(PoolOptions { name: "bench", workers: 1, slots: 128 }, &clock);
        pool.start()?;
        Ok(Self(pool))
    }

    /// Hands over one job, and waits for a slot if none is free.
    pub fn submit<R: Send + 'static>(&self, job: impl FnOnce() -> R + Send + 'static) -> Pending<R> {
        Pending(self.0.submit(move |_| job()))
    }

    /// Hands over many jobs at once.
    pub fn submit_bulk<F, R>(&self, jobs: impl IntoIterator<Item = F>) -> PendingBulk<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        PendingBulk(self.0.submit_bulk(jobs.into_iter().map(|job| move |_: &_| job())))
    }
}

impl<R> Pending<R> {
    /// Waits for the result; `None` if the job panicked.
    pub fn wait(self) -> Option<R> {
        self.0.wait().ok()
    }
}

impl<R> PendingBulk<R> {
    /// Waits for all results, in the order of submission; `None` for each job that panicked.
    pub fn wait(self) -> Vec<Option<R>> {
        self.0.wait().into_iter().map(Result::ok).collect()
    }
}
