//! What lies in a ring, and where its result goes: a group of jobs submitted together is one allocation.
//!
//! ```text
//!   Queued(group, n) --run--> slot n of the group --all slots ended--> whoever waits for the group, woken once
//! ```
//!
//! A group is owned by its queued jobs and its handle together: dropping the handle is safe, and the jobs still run. A job
//! that is dropped without having been run ends with an error, so nobody waits for ever. Rings are not known here.

use std::any::Any;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::ring::AbortToken;
use crate::sync::{Condvar, Mutex, forbid_held_locks};

/// Why a job has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JobError {
    /// It panicked, with this message. Its worker goes on.
    #[error("the job panicked: {0}")]
    Panicked(String),
    /// Its pool was stopped before it started.
    #[error("the job was aborted before it started")]
    Aborted,
    /// Its pool had been stopped when it was submitted, or its worker died.
    #[error("the pool is closed")]
    Closed,
}

/// A group of jobs, its types forgotten.
pub(super) trait Group: Send + Sync {
    /// Runs job `index`, calls `ran` with whether it ended without a panic, then publishes its result.
    fn run(&self, index: usize, token: &AbortToken, ran: &mut dyn FnMut(bool));
    /// Ends job `index` without running it.
    fn fail(&self, index: usize, error: JobError);
}

/// One job on its way through a ring.
pub(super) struct Queued {
    group: Option<Arc<dyn Group>>,
    index: usize,
    /// When it was accepted, in nanoseconds of the pool's clock.
    pub(super) accepted_at: u64,
}

impl Queued {
    pub(super) fn new(group: Arc<dyn Group>, index: usize) -> Self {
        Self { group: Some(group), index, accepted_at: 0 }
    }

    pub(super) fn accepted(mut self, now: u64) -> Self {
        self.accepted_at = now;
        self
    }

    /// Runs it; see [`Group::run`].
    pub(super) fn run(mut self, token: &AbortToken, ran: &mut dyn FnMut(bool)) {
        if let Some(group) = &self.group {
            group.run(self.index, token, ran); // a worker that dies in it drops `self`, which ends the job
        }
        self.group = None;
    }

    pub(super) fn fail(mut self, error: JobError) {
        if let Some(group) = self.group.take() {
            group.fail(self.index, error);
        }
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        if let Some(group) = self.group.take() {
            group.fail(self.index, JobError::Closed);
        }
    }
}

impl std::fmt::Debug for Queued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queued").field("index", &self.index).finish_non_exhaustive()
    }
}

enum Stage<F, R> {
    Waiting(F),
    Running,
    Ended(Result<R, JobError>),
    Taken,
}

/// Where one job of a group stands.
pub(super) struct Slot<F, R>(Mutex<Stage<F, R>>);

impl<F, R> Slot<F, R> {
    pub(super) fn new(job: F) -> Self {
        Self(Mutex::new(Stage::Waiting(job)))
    }
}

/// Jobs submitted together; `S` is an array for one job, a vector for many.
pub(super) struct Jobs<F, R, S> {
    slots: S,
    progress: Mutex<Progress>,
    all_ended: Condvar,
    of: PhantomData<fn(F) -> R>,
}

#[derive(Default)]
struct Progress {
    ended: usize,
    is_awaited: bool,
}

impl<F, R, S> Jobs<F, R, S>
where
    F: FnOnce(&AbortToken) -> R + Send,
    R: Send,
    S: AsRef<[Slot<F, R>]> + Send + Sync,
{
    pub(super) fn new(slots: S) -> Self {
        Self { slots, progress: Mutex::default(), all_ended: Condvar::new(), of: PhantomData }
    }

    fn end(&self, index: usize, outcome: Result<R, JobError>) {
        let before = std::mem::replace(&mut *self.slots.as_ref()[index].0.lock(), Stage::Ended(outcome));
        debug_assert!(!matches!(before, Stage::Ended(_) | Stage::Taken), "a job ends once");
        drop(before); // the job itself, when it was not run; with no lock held
        let mut progress = self.progress.lock();
        progress.ended += 1;
        if progress.ended == self.slots.as_ref().len() && progress.is_awaited {
            self.all_ended.notify_all();
        }
    }
}

impl<F, R, S> Group for Jobs<F, R, S>
where
    F: FnOnce(&AbortToken) -> R + Send,
    R: Send,
    S: AsRef<[Slot<F, R>]> + Send + Sync,
{
    fn run(&self, index: usize, token: &AbortToken, ran: &mut dyn FnMut(bool)) {
        let stage = std::mem::replace(&mut *self.slots.as_ref()[index].0.lock(), Stage::Running);
        let Stage::Waiting(job) = stage else { return };
        let outcome = catch_unwind(AssertUnwindSafe(|| job(token))).map_err(|panic| message_of(&*panic));
        ran(outcome.is_ok());
        self.end(index, outcome.map_err(JobError::Panicked));
    }

    fn fail(&self, index: usize, error: JobError) {
        self.end(index, Err(error));
    }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// The results of a group.
pub(super) trait Outcomes<R>: Send + Sync {
    /// Number of jobs.
    fn len(&self) -> usize;
    /// Whether all have ended.
    fn is_done(&self) -> bool;
    /// Waits until all have ended.
    fn wait(&self);
    /// Takes one result, once all have ended.
    fn take(&self, index: usize) -> Result<R, JobError>;
}

impl<F, R, S> Outcomes<R> for Jobs<F, R, S>
where
    F: FnOnce(&AbortToken) -> R + Send,
    R: Send,
    S: AsRef<[Slot<F, R>]> + Send + Sync,
{
    fn len(&self) -> usize {
        self.slots.as_ref().len()
    }

    fn is_done(&self) -> bool {
        self.progress.lock().ended == self.len()
    }

    fn wait(&self) {
        forbid_held_locks("wait for a job");
        let mut progress = self.progress.lock();
        while progress.ended < self.slots.as_ref().len() {
            progress.is_awaited = true;
            self.all_ended.wait(&mut progress);
        }
    }

    fn take(&self, index: usize) -> Result<R, JobError> {
        match std::mem::replace(&mut *self.slots.as_ref()[index].0.lock(), Stage::Taken) {
            Stage::Ended(outcome) => outcome,
            _ => Err(JobError::Closed),
        }
    }
}

/// A submitted job. Dropping it is safe: the job still runs.
#[must_use = "the job runs anyway; say so with `detach`"]
pub(crate) struct JobHandle<R>(pub(super) Arc<dyn Outcomes<R>>);

impl<R> JobHandle<R> {
    /// Waits for the job's result. Hold no lock.
    pub(crate) fn wait(self) -> Result<R, JobError> {
        self.0.wait();
        self.0.take(0)
    }

    /// Whether the job has ended.
    #[cfg_attr(not(test), expect(dead_code, reason = "who submits today waits, or does not care"))]
    pub(crate) fn is_done(&self) -> bool {
        self.0.is_done()
    }

    /// Nobody asks for the result.
    pub(crate) fn detach(self) {}
}

/// Jobs submitted together. Dropping it is safe: the jobs still run.
#[must_use = "the jobs run anyway; say so with `detach`"]
pub(crate) struct BulkHandle<R>(pub(super) Arc<dyn Outcomes<R>>);

impl<R> BulkHandle<R> {
    /// Waits for all results, in the order of submission. Hold no lock.
    #[cfg_attr(
        not(any(test, feature = "bench-arms")),
        expect(dead_code, reason = "files are deleted without anybody waiting")
    )]
    pub(crate) fn wait(self) -> Vec<Result<R, JobError>> {
        self.0.wait();
        (0..self.0.len()).map(|index| self.0.take(index)).collect()
    }

    /// Nobody asks for the results.
    pub(crate) fn detach(self) {}
}
