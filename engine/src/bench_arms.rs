//! Baseline designs to measure and test against, chosen for the whole process. Feature `bench-arms`; no part of the API.
//!
//! | arm | baseline | ours |
//! |---|---|---|
//! | [`QueueBound`] | the queue holds so many records; a slot is free again when its record is popped, and a group is collected until nothing is ready | bytes |
//! | [`AckOn`] | only the ticker syncs, not the end of a segment | the end of a segment |
//! | [`ManifestFlush`] | the leader saves the log's position whenever the durable sequence moves | the manifest's thread |
//! | [`LockScope`] | a counted lock is kept while the leader appends to the log and syncs | no lock across I/O |

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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

/// What bounds the commit queue. Chosen before a database is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueBound {
    /// So many records, whatever their size.
    Records(u32),
    /// `commit_queue_bytes`.
    Bytes,
}

/// What makes writes durable that do not ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckOn {
    /// The sync of the ticker alone.
    Ticker,
    /// The end of a segment, too.
    Segment,
}

/// Who saves the log's position in the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ManifestFlush {
    /// The leader, on the write path.
    Inline,
    /// The manifest's thread.
    Background,
}

static RECORDS: AtomicU64 = AtomicU64::new(0);
static TICKER_ONLY: AtomicBool = AtomicBool::new(false);
static INLINE: AtomicBool = AtomicBool::new(false);

/// Chooses the bound from now on.
pub fn set_queue_bound(bound: QueueBound) {
    let records = match bound {
        QueueBound::Records(records) => u64::from(records).max(1),
        QueueBound::Bytes => 0,
    };
    RECORDS.store(records, Ordering::Release);
}

/// Chooses the cause of durability from now on.
pub fn set_ack_on(ack: AckOn) {
    TICKER_ONLY.store(ack == AckOn::Ticker, Ordering::Release);
}

/// Chooses who saves positions from now on.
pub fn set_manifest_flush(flush: ManifestFlush) {
    INLINE.store(flush == ManifestFlush::Inline, Ordering::Release);
}

/// Records that the queue holds, in the baseline.
pub(crate) fn records_bound() -> Option<u64> {
    Some(RECORDS.load(Ordering::Acquire)).filter(|records| *records > 0)
}

/// Whether the end of a segment is not synced.
pub(crate) fn acks_on_ticker() -> bool {
    TICKER_ONLY.load(Ordering::Acquire)
}

/// Whether the leader saves positions.
pub(crate) fn saves_inline() -> bool {
    INLINE.load(Ordering::Acquire)
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
