//! [`CommitQueue`]: a FIFO of units of work, led by one thread at a time.
//!
//! A thread that finds no leader becomes it, so a lone writer hands over to nobody and allocates nothing. Others
//! queue up and wait until a leader has done their work or names them leader. The leader's state `S` travels with
//! the leadership: who holds [`Leadership`] owns it, so the state needs no lock of its own and may be used across
//! I/O.
//!
//! Invariants: a unit is never queued without a thread that will drain it (the push and the test for a leader happen
//! under one guard); leadership is never lost (a leader that unwinds hands on when its [`Leadership`] drops);
//! queue order is commit order.
//!
//! The queue knows neither the log nor memtables, nor what a unit holds.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::sync::{Condvar, Mutex, Rank};

/// A FIFO of units of work `W`, led by one thread at a time, whose state is `S`.
#[derive(Debug)]
pub(crate) struct CommitQueue<W, S> {
    waiting: Mutex<Waiting<W, S>>,
}

#[derive(Debug)]
struct Waiting<W, S> {
    units: VecDeque<Arc<Unit<W, S>>>,
    /// The state, while nobody leads.
    idle: Option<Box<S>>,
}

/// A queued piece of work and the thread that waits for it.
#[derive(Debug)]
pub(crate) struct Unit<W, S> {
    slot: Mutex<Slot<W, S>>,
    changed: Condvar,
}

#[derive(Debug)]
enum Slot<W, S> {
    /// Waits for a leader; `None` is an internal unit, which is never part of a group.
    Queued(Option<W>),
    /// A leader works on it.
    Taken,
    /// Its own thread leads now.
    Leads(Option<W>, Box<S>),
    /// Committed, or not.
    Done(Result<()>),
    /// The waiting thread has seen the outcome.
    Seen,
}

/// What became of a unit that joined.
#[derive(Debug)]
pub(crate) enum Turn<'a, W, S> {
    /// The caller leads, and its own work is still to be done.
    Lead(W, Leadership<'a, W, S>),
    /// Another thread has done the work.
    Done(Result<()>),
}

/// The right to commit, with the leader's state.
#[derive(Debug)]
pub(crate) struct Leadership<'a, W, S> {
    queue: &'a CommitQueue<W, S>,
    state: Option<Box<S>>,
    /// Units taken into the current group, to be completed or failed.
    group: Vec<Arc<Unit<W, S>>>,
    /// Whether units may already have been waiting when this thread began to lead.
    promoted: bool,
}

impl<W, S> CommitQueue<W, S> {
    pub(crate) fn new(state: S) -> Self {
        let waiting = Waiting { units: VecDeque::new(), idle: Some(Box::new(state)) };
        Self { waiting: Mutex::new(waiting).ranked(Rank::CommitQueue) }
    }

    /// Joins with `work`: leads at once if nobody does, else waits for the outcome or for the lead.
    pub(crate) fn join(&self, work: W) -> Turn<'_, W, S> {
        match self.enter(Some(work)) {
            Entered::Leads(Some(work), leadership) => Turn::Lead(work, leadership),
            Entered::Leads(None, _) => unreachable!("a unit with work leads with it"),
            Entered::Done(outcome) => Turn::Done(outcome),
        }
    }

    /// Waits for everything queued before and takes the lead without work of its own: for changes that must not
    /// happen in the middle of a group.
    pub(crate) fn lead(&self) -> Leadership<'_, W, S> {
        match self.enter(None) {
            Entered::Leads(_, leadership) => leadership,
            Entered::Done(_) => unreachable!("an internal unit is never part of a group"),
        }
    }

    fn enter(&self, work: Option<W>) -> Entered<'_, W, S> {
        let mut waiting = self.waiting.lock();
        if let Some(state) = waiting.idle.take() {
            debug_assert!(waiting.units.is_empty());
            return Entered::Leads(
                work,
                Leadership { queue: self, state: Some(state), group: Vec::new(), promoted: false },
            );
        }
        let unit = Arc::new(Unit { slot: Mutex::new(Slot::Queued(work)), changed: Condvar::new() });
        waiting.units.push_back(Arc::clone(&unit));
        drop(waiting);

        let mut slot = unit.slot.lock();
        loop {
            match std::mem::replace(&mut *slot, Slot::Seen) {
                Slot::Done(outcome) => return Entered::Done(outcome),
                Slot::Leads(work, state) => {
                    let leadership =
                        Leadership { queue: self, state: Some(state), group: Vec::new(), promoted: true };
                    return Entered::Leads(work, leadership);
                }
                still => *slot = still,
            }
            unit.changed.wait(&mut slot);
        }
    }
}

enum Entered<'a, W, S> {
    Leads(Option<W>, Leadership<'a, W, S>),
    Done(Result<()>),
}

impl<W, S> Leadership<'_, W, S> {
    /// The leader's state.
    pub(crate) fn state(&mut self) -> &mut S {
        self.state.as_mut().expect("held until dropped")
    }

    /// Takes the units that wait behind this one, in order, as long as `fits` says so of the next; their work comes
    /// back. An internal unit ends the group.
    pub(crate) fn take_group(&mut self, mut fits: impl FnMut(&W) -> bool) -> Vec<W> {
        let mut taken = Vec::new();
        if !self.promoted {
            return taken; // nobody was waiting when the lead began, so the group is the leader's own
        }
        let mut waiting = self.queue.waiting.lock();
        while let Some(unit) = waiting.units.front() {
            let mut slot = unit.slot.lock();
            let Slot::Queued(Some(work)) = &*slot else { break };
            if !fits(work) {
                break;
            }
            if let Slot::Queued(Some(work)) = std::mem::replace(&mut *slot, Slot::Taken) {
                taken.push(work);
            }
            drop(slot);
            self.group.extend(waiting.units.pop_front());
        }
        taken
    }

    /// Ends the lead: the next waiting unit leads, or nobody; then the group's units get their outcomes, in the order
    /// in which [`take_group`](Self::take_group) returned their work.
    pub(crate) fn finish(mut self, outcomes: impl IntoIterator<Item = Result<()>>) {
        self.hand_on();
        let mut outcomes = outcomes.into_iter();
        for unit in self.group.drain(..) {
            complete(&unit, outcomes.next().unwrap_or(Err(Error::ShutdownInProgress)));
        }
    }

    fn hand_on(&mut self) {
        let Some(state) = self.state.take() else { return };
        let mut waiting = self.queue.waiting.lock();
        match waiting.units.pop_front() {
            None => waiting.idle = Some(state),
            Some(next) => {
                let mut slot = next.slot.lock();
                let work = match std::mem::replace(&mut *slot, Slot::Seen) {
                    Slot::Queued(work) => work,
                    other => unreachable!("a queued unit is {}", other.name()),
                };
                *slot = Slot::Leads(work, state);
                next.changed.notify_one();
            }
        }
    }
}

impl<W, S> Drop for Leadership<'_, W, S> {
    /// A leader that unwinds, or gives up, still hands on and leaves nobody waiting.
    fn drop(&mut self) {
        self.hand_on();
        for unit in self.group.drain(..) {
            complete(&unit, Err(Error::ShutdownInProgress));
        }
    }
}

fn complete<W, S>(unit: &Unit<W, S>, outcome: Result<()>) {
    *unit.slot.lock() = Slot::Done(outcome);
    unit.changed.notify_one();
}

impl<W, S> Slot<W, S> {
    fn name(&self) -> &'static str {
        match self {
            Self::Queued(_) => "queued",
            Self::Taken => "taken",
            Self::Leads(..) => "leading",
            Self::Done(_) => "done",
            Self::Seen => "seen",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A lone thread leads at once, with a group of its own only, every time.
    #[test]
    fn a_lone_thread_leads() {
        let queue = CommitQueue::<u32, u32>::new(0);
        for n in 0..3 {
            let Turn::Lead(work, mut leadership) = queue.join(n) else { panic!("nobody else leads") };
            assert_eq!((work, leadership.take_group(|_| true).len()), (n, 0));
            *leadership.state() += 1;
            leadership.finish([]);
        }
        assert_eq!(*queue.lead().state(), 3);
    }

    /// Many threads: each unit is done exactly once, by its own thread or a leader, and the state, which no lock guards,
    /// counts them all.
    ///
    /// Method: every leader adds its own and its group's numbers to the state; internal leads are mixed in.
    #[test]
    fn every_unit_is_done_once() {
        let queue = Arc::new(CommitQueue::<u64, u64>::new(0));
        let internal = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..8_u64 {
                let (queue, internal) = (&queue, &internal);
                scope.spawn(move || {
                    for n in 0..500 {
                        if n % 50 == 7 {
                            *queue.lead().state() += 1;
                            internal.fetch_add(1, Ordering::Relaxed);
                        }
                        match queue.join(thread * 1000 + n) {
                            Turn::Done(outcome) => outcome.unwrap(),
                            Turn::Lead(own, mut leadership) => {
                                let mut room = 3;
                                let group = leadership.take_group(|_| {
                                    room -= 1;
                                    room >= 0
                                });
                                *leadership.state() += own + group.iter().sum::<u64>();
                                let outcomes = group.iter().map(|_| Ok(())).collect::<Vec<_>>();
                                leadership.finish(outcomes);
                            }
                        }
                    }
                });
            }
        });
        let expected: u64 = (0..8).flat_map(|t| (0..500).map(move |n| t * 1000 + n)).sum();
        assert_eq!(*queue.lead().state(), expected + internal.load(Ordering::Relaxed));
    }

    /// A leader that panics fails its group and hands on; nobody hangs.
    #[test]
    fn a_panicking_leader_hands_on() {
        let queue = Arc::new(CommitQueue::<u32, ()>::new(()));
        let first = queue.lead();
        let waiters: Vec<_> = (0..4)
            .map(|n| {
                let queue = Arc::clone(&queue);
                std::thread::Builder::new()
                    .spawn(move || match queue.join(n) {
                        Turn::Done(outcome) => outcome.is_err(),
                        Turn::Lead(_, mut leadership) => {
                            leadership.take_group(|_| true);
                            panic!("a leader fails (expected in this test)");
                        }
                    })
                    .unwrap()
            })
            .collect();
        while queue.waiting.lock().units.len() < 4 {
            std::thread::yield_now();
        }
        drop(first);
        let outcomes: Vec<_> = waiters.into_iter().map(std::thread::JoinHandle::join).collect();
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_err()).count(), 1, "one leader panicked");
        assert!(outcomes.iter().flatten().all(|failed| *failed), "its group failed");
        drop(queue.lead());
    }
}
