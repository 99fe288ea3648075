//! The gate: every writer that waits, asleep in a delay or parked in a stop, in order of arrival.
//!
//! It holds the waiters of one [`Lane`](crate::lane::Lane) and marks how each wait ends; it wakes nobody itself but
//! collects whom to wake, so that no waker runs under a lock. Rates are not known here.

use std::collections::BTreeMap;
use std::task::Waker;
use std::time::Duration;

use crate::pacer::Position;
use crate::{ClientId, Parker, SourceKind};

/// Where a writer waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the pacer, until its bytes are earned.
    Asleep,
    /// Until a stop ends.
    Parked,
}

/// What a writer has paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Nothing yet.
    None,
    /// Its place in the pacer's books.
    At(Position),
    /// All of it: earlier, or the delay ended.
    Paid,
}

/// Why a wait ended without the right to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WaitEnded {
    /// The limit given to the wait has passed. Nothing is charged.
    #[error("the wait took longer than its limit")]
    TimedOut,
    /// Somebody took the waiter out. Nothing is charged.
    #[error("the wait was cancelled")]
    Cancelled,
    /// The client's database failed; it knows why.
    #[error("the database failed during the wait")]
    Failed,
    /// The client is shutting down.
    #[error("the database is shutting down")]
    Shutdown,
}

/// How long one writer has waited, and where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waited {
    /// Time asleep in the pacer.
    pub delayed: Duration,
    /// Time at the gate.
    pub stopped: Duration,
    /// It was let through although its manager asks for a stop ([`PressureSink::rescue_one`](crate::PressureSink::rescue_one)):
    /// do not test the stop again for it.
    pub rescued: bool,
}

impl Waited {
    /// Delay plus stop.
    pub fn total(&self) -> Duration {
        self.delayed + self.stopped
    }
}

#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) client: ClientId,
    pub(crate) bytes: u64,
    pub(crate) claim: Claim,
    pub(crate) place: Place,
    /// Up to when its time is booked.
    pub(crate) since: u64,
    pub(crate) waited: Waited,
    /// `Ok` = may write.
    pub(crate) outcome: Option<Result<(), WaitEnded>>,
    /// The deadline that its thread or task has been told; `None` when it waits for an event.
    pub(crate) wake_at: Option<u64>,
    /// Its caller is to look around before it waits on.
    pub(crate) nudged: bool,
    pub(crate) parker: Parker,
    pub(crate) waker: Option<Waker>,
}

/// Somebody to wake once the lock is released.
#[derive(Debug)]
pub(crate) enum WakeUp {
    Thread(Parker),
    Task(Waker),
}

impl WakeUp {
    pub(crate) fn wake(self) {
        match self {
            Self::Thread(parker) => parker.unpark(),
            Self::Task(waker) => waker.wake(),
        }
    }
}

impl Waiter {
    pub(crate) fn wake_up(&mut self, wakeups: &mut Vec<WakeUp>) {
        wakeups.push(match self.waker.take() {
            Some(waker) => WakeUp::Task(waker),
            None => WakeUp::Thread(self.parker.clone()),
        });
    }

    /// Books its time until `now` under `cause`; returns where it was and for how many nanoseconds.
    pub(crate) fn settle(&mut self, now: u64) -> (Place, u64) {
        let nanos = now.saturating_sub(self.since);
        self.since = self.since.max(now);
        match self.place {
            Place::Asleep => self.waited.delayed += Duration::from_nanos(nanos),
            Place::Parked => self.waited.stopped += Duration::from_nanos(nanos),
        }
        (self.place, nanos)
    }
}

/// Names one waiter of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WaiterId(u64);

/// Waiters in order of arrival. Those whose wait has ended stay until they pick up the outcome.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    waiters: BTreeMap<WaiterId, Waiter>,
    next: u64,
}

impl Gate {
    pub(crate) fn join(&mut self, waiter: Waiter) -> WaiterId {
        let id = WaiterId(self.next);
        self.next += 1;
        self.waiters.insert(id, waiter);
        id
    }

    pub(crate) fn get_mut(&mut self, id: WaiterId) -> Option<&mut Waiter> {
        self.waiters.get_mut(&id)
    }

    pub(crate) fn get(&self, id: WaiterId) -> Option<&Waiter> {
        self.waiters.get(&id)
    }

    pub(crate) fn leave(&mut self, id: WaiterId) -> Option<Waiter> {
        self.waiters.remove(&id)
    }

    /// Those still waiting, first come first.
    pub(crate) fn waiting_mut(&mut self) -> impl Iterator<Item = &mut Waiter> {
        self.waiters.values_mut().filter(|waiter| waiter.outcome.is_none())
    }

    /// Ids of those still waiting, first come first.
    pub(crate) fn ids(&self) -> Vec<WaiterId> {
        self.waiting().map(|(id, _)| id).collect()
    }

    /// Ids of those of `client` still waiting.
    pub(crate) fn ids_of(&self, client: ClientId) -> Vec<WaiterId> {
        self.waiting().filter(|(_, waiter)| waiter.client == client).map(|(id, _)| id).collect()
    }

    /// The first parked waiter whose client satisfies `may`.
    pub(crate) fn first_parked(&self, may: impl Fn(ClientId) -> bool) -> Option<WaiterId> {
        let parked = |waiter: &Waiter| waiter.place == Place::Parked && may(waiter.client);
        self.waiting().find(|(_, waiter)| parked(waiter)).map(|(id, _)| id)
    }

    fn waiting(&self) -> impl Iterator<Item = (WaiterId, &Waiter)> {
        self.waiters.iter().filter(|(_, waiter)| waiter.outcome.is_none()).map(|(id, waiter)| (*id, waiter))
    }

    /// How many are asleep and how many parked.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let asleep = self.waiting().filter(|(_, waiter)| waiter.place == Place::Asleep).count();
        (asleep, self.waiting().count() - asleep)
    }
}

/// What holds a waiter at this moment, for the books.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Source(SourceKind),
    LowPriority,
}
