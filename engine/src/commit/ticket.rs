//! [`TicketCell`]: what stands for a write that no thread waits for, from its submission to its outcome.
//!
//! A cell goes from waiting (for the brake or for room) through queued to done, once. Whoever completes it marks and
//! wakes: threads, a task's waker, or, for a callback, the thread that runs [`Callbacks`]. User code never runs on a
//! leader. What the write holds while it waits is not known here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use sluicedb_controller::{Parker, Woken};

use super::queue::{Completion, Outcome};
use crate::batch::{WriteBatch, WriteError};
use crate::env::Clock;
use crate::jobs::Bell;
use crate::key::SequenceNumber;
use crate::sync::{Mutex, forbid_held_locks};

/// What a ticket tells its owner: the last sequence of the batch, or why it was not written.
pub(crate) type Told = Result<SequenceNumber, WriteError>;

type Callback = Box<dyn FnOnce(Told) + Send>;

/// Callbacks of tickets that are done, for the thread that runs them.
pub(crate) struct Callbacks {
    due: Mutex<VecDeque<(Callback, Told)>>,
    pub(crate) bell: Arc<Bell>,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Callbacks").finish_non_exhaustive()
    }
}

impl Callbacks {
    pub(crate) fn new(clock: &Arc<dyn Clock>) -> Arc<Self> {
        let due = Mutex::new(VecDeque::new());
        Arc::new(Self { due, bell: Bell::new(clock), clock: Arc::clone(clock) })
    }

    /// Runs the oldest that is due, with no lock held; false if there is none.
    pub(crate) fn run_one(&self) -> bool {
        let Some((callback, told)) = self.due.lock().pop_front() else { return false };
        callback(told);
        true
    }

    fn push(&self, callback: Callback, told: Told) {
        self.due.lock().push_back((callback, told));
        self.bell.ring();
    }
}

/// One asynchronous write.
#[derive(Debug)]
pub(crate) struct TicketCell {
    state: Mutex<State>,
    callbacks: Arc<Callbacks>,
}

struct State {
    stage: Stage,
    /// The batch, given back with a refusal.
    batch: Option<WriteBatch>,
    /// Who is to hear: a thread, a task, a callback.
    parker: Option<Parker>,
    waker: Option<Waker>,
    callback: Option<Callback>,
}

#[derive(Debug)]
enum Stage {
    /// For the brake or for room in the queue.
    Waiting,
    /// In the queue.
    Queued,
    Done(Outcome),
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("stage", &self.stage).finish_non_exhaustive()
    }
}

impl State {
    /// The outcome, once there is one. A batch to be given back goes with the first answer.
    fn told(&mut self) -> Option<Told> {
        let Stage::Done(outcome) = &self.stage else { return None };
        Some(match (outcome, self.batch.take()) {
            (Ok(seq), _) => Ok(*seq),
            (Err(error), Some(batch)) => Err(WriteError::refused(error.clone(), batch)),
            (Err(error), None) => Err(WriteError::failed(error.clone())),
        })
    }
}

impl TicketCell {
    /// A cell that waits.
    pub(crate) fn new(callbacks: &Arc<Callbacks>) -> Arc<Self> {
        let state = State { stage: Stage::Waiting, batch: None, parker: None, waker: None, callback: None };
        Arc::new(Self { state: Mutex::new(state), callbacks: Arc::clone(callbacks) })
    }

    /// The write is about to enter the queue: its outcome will come, and it cannot be cancelled any more.
    pub(crate) fn set_queued(&self) {
        let mut state = self.state.lock();
        if matches!(state.stage, Stage::Waiting) {
            state.stage = Stage::Queued;
        }
    }

    /// The write is done without having entered the queue: it was empty.
    pub(crate) fn set_done(&self, outcome: Outcome) {
        self.end(outcome, None);
    }

    /// The write was refused before it entered the queue.
    pub(crate) fn refuse(&self, refused: WriteError) {
        let (error, batch) = refused.into_parts();
        self.end(Err(error), batch);
    }

    fn end(&self, outcome: Outcome, batch: Option<WriteBatch>) {
        let mut state = self.state.lock();
        state.stage = Stage::Done(outcome);
        state.batch = batch;
        let (parker, waker) = (state.parker.take(), state.waker.take());
        let due = state.callback.take().and_then(|callback| Some((callback, state.told()?)));
        drop(state);
        if let Some(parker) = parker {
            parker.unpark();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
        if let Some((callback, told)) = due {
            self.callbacks.push(callback, told);
        }
    }

    /// The outcome, if there is one.
    pub(crate) fn try_wait(&self) -> Option<Told> {
        self.state.lock().told()
    }

    /// The outcome, or `waker` is woken when there is one.
    pub(crate) fn poll(&self, waker: &Waker) -> Option<Told> {
        let mut state = self.state.lock();
        let told = state.told();
        if told.is_none() {
            state.waker = Some(waker.clone());
        }
        told
    }

    /// The outcome, waiting until `deadline` (clock time in ns; `None`: for ever).
    pub(crate) fn wait(&self, deadline: Option<u64>) -> Option<Told> {
        forbid_held_locks("wait for a write");
        loop {
            let parker = {
                let mut state = self.state.lock();
                if let Some(told) = state.told() {
                    return Some(told);
                }
                state.parker.get_or_insert_default().clone()
            };
            if self.callbacks.clock.park(&parker, deadline) == Woken::Deadline {
                return self.try_wait();
            }
        }
    }

    pub(crate) fn now_nanos(&self) -> u64 {
        self.callbacks.clock.now_nanos()
    }

    /// Has `callback` called with the outcome, by whoever runs the callbacks.
    pub(crate) fn call_back(&self, callback: Callback) {
        let mut state = self.state.lock();
        match state.told() {
            None => state.callback = Some(callback),
            Some(told) => {
                drop(state);
                self.callbacks.push(callback, told);
            }
        }
    }

    /// The last sequence of the batch, once it is written.
    pub(crate) fn sequence(&self) -> Option<SequenceNumber> {
        match self.state.lock().stage {
            Stage::Done(Ok(seq)) => Some(seq),
            _ => None,
        }
    }

    /// Whether it waits still for the brake or for room.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.state.lock().stage, Stage::Waiting)
    }
}

impl Completion for TicketCell {
    fn complete(&self, outcome: Outcome) {
        self.end(outcome, None);
    }
}
