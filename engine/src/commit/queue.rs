//! [`CommitQueue`]: a FIFO of units of work, led by one thread at a time.
//!
//! A thread that finds no leader becomes it, so a lone writer hands over to nobody, wakes nobody and parks nowhere.
//! Others queue up and wait until a leader has done their work, has them insert it, or names them leader. Units that
//! nobody waits for are led by the appender, a thread of the database, when no caller leads. The leader's state `S`
//! travels with the lead: who holds [`Leadership`] owns it, so the state needs no lock of its own and may be used
//! across I/O.
//!
//! Invariants: a unit is never queued without a thread that will drain it (the push and the test for a leader happen
//! under one guard); leadership is never lost (a leader that unwinds hands on when its [`Leadership`] drops); queue
//! order is commit order.
//!
//! The queue knows neither the log nor memtables, nor what a unit holds.

use std::sync::Arc;

use super::group::{Group, Insertion, Origin};
use super::roster::{GroupLimits, Kind, Ranked, Roster, Successor};
use super::seat::{Call, Seat};
use crate::error::Result;
use crate::jobs::Bell;
use crate::key::SequenceNumber;
use crate::stats::Counter;
use crate::sync::{Mutex, Rank};

/// What became of a unit: its last sequence, or why it was not committed.
pub(crate) type Outcome = Result<SequenceNumber>;

/// What the queue must know of a unit of work.
pub(crate) trait Unit {
    /// Bytes that it adds to the append of its group.
    fn bytes(&self) -> u64;
    /// Whether it is to be synced before it is done.
    fn wants_sync(&self) -> bool;
}

/// Told the outcome of a unit that no thread waits for. Called with no lock held; it marks and wakes, no more.
pub(crate) trait Completion: Send + Sync + std::fmt::Debug {
    /// The unit is done. Called once.
    fn complete(&self, outcome: Outcome);
}

/// What the queue did so far.
#[derive(Debug, Default)]
pub(crate) struct QueueCounts {
    /// Groups led by threads that committed their own unit.
    pub(crate) groups_by_callers: Counter,
    /// Groups led by the appender.
    pub(crate) groups_by_appender: Counter,
    /// Units in all groups, and their bytes.
    pub(crate) units: Counter,
    pub(crate) bytes: Counter,
    /// Leads handed to another thread.
    pub(crate) hand_overs: Counter,
    /// Threads woken that had parked.
    pub(crate) wake_ups: Counter,
    /// Threads that parked.
    pub(crate) parks: Counter,
    /// Groups whose followers inserted their own units.
    pub(crate) parallel_groups: Counter,
}

/// A FIFO of units of work `W`, led by one thread at a time, whose state is `S`.
#[derive(Debug)]
pub(crate) struct CommitQueue<W: Unit, S> {
    inner: Mutex<Inner<W, S>>,
    limits: GroupLimits,
    /// Rung to have the appender look.
    appender: Arc<Bell>,
    pub(crate) counts: QueueCounts,
}

#[derive(Debug)]
struct Inner<W, S> {
    roster: Roster<Queued<W, S>>,
    /// What the leader has, while nobody leads.
    idle: Option<Box<Desk<W, S>>>,
    closed: bool,
}

/// What goes from leader to leader.
#[derive(Debug)]
pub(super) struct Desk<W, S> {
    state: S,
    /// An empty group, kept for its buffer.
    spare: Group<W, S>,
}

#[derive(Debug)]
enum Queued<W, S> {
    Caller { work: W, seat: Arc<Seat<W, S>> },
    Loose { work: W, completion: Arc<dyn Completion> },
    Internal { seat: Arc<Seat<W, S>> },
}

/// How it goes on for a thread whose unit has joined.
#[derive(Debug)]
pub(crate) enum Turn<'a, W: Unit, S> {
    /// It leads: take a group, commit it, [`complete`](Leadership::complete) it.
    Lead(Leadership<'a, W, S>),
    /// It inserts its own unit, then goes on waiting.
    Insert(Insertion<'a, W, S>),
    /// Its unit is done.
    Done(Outcome),
    /// It had no unit of its own and has put the lead down.
    Over,
}

/// Whom a leader leads for.
#[derive(Debug)]
enum Leads<W, S> {
    /// Its own unit, which never was in the queue, and is taken with the next group.
    Lone(Option<W>),
    /// Its own unit, which waits in the queue or is being committed.
    Seated(Arc<Seat<W, S>>),
    /// The units of others.
    Appender,
    /// A change between two groups.
    Internal,
}

/// The right to commit, with the leader's state.
#[derive(Debug)]
pub(crate) struct Leadership<'a, W: Unit, S> {
    queue: &'a CommitQueue<W, S>,
    desk: Option<Box<Desk<W, S>>>,
    leads: Leads<W, S>,
}

impl<W: Unit, S> CommitQueue<W, S> {
    pub(crate) fn new(state: S, limits: GroupLimits, appender: Arc<Bell>) -> Self {
        let desk = Box::new(Desk { state, spare: Group::default() });
        let inner = Inner { roster: Roster::new(), idle: Some(desk), closed: false };
        Self {
            inner: Mutex::new(inner).ranked(Rank::CommitQueue),
            limits,
            appender,
            counts: QueueCounts::default(),
        }
    }

    /// Joins with `work` and waits for its turn: leads at once if nobody does.
    ///
    /// # Errors
    ///
    /// The work, if the queue is closed.
    #[inline]
    pub(crate) fn join(&self, work: W) -> Result<Turn<'_, W, S>, W> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Err(work);
        }
        if inner.roster.is_empty() && inner.roster.leads_as_caller() {
            let desk = inner.idle.take();
            return Ok(Turn::Lead(Leadership { queue: self, desk, leads: Leads::Lone(Some(work)) }));
        }
        let seat = Arc::new(Seat::new());
        let leads = inner.roster.leads_as_caller();
        // Somebody leads, perhaps this thread: there is no appender to be woken.
        let _ = inner.roster.push(Queued::Caller { work, seat: Arc::clone(&seat) });
        if leads {
            let desk = inner.idle.take();
            return Ok(Turn::Lead(Leadership { queue: self, desk, leads: Leads::Seated(seat) }));
        }
        drop(inner);
        Ok(self.wait(seat))
    }

    /// Queues `work` that no thread waits for; `completion` is told its outcome. Never waits.
    ///
    /// # Errors
    ///
    /// The work, if the queue is closed.
    pub(crate) fn push(&self, work: W, completion: Arc<dyn Completion>) -> Result<(), W> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Err(work);
        }
        let wake = inner.roster.push(Queued::Loose { work, completion });
        drop(inner);
        if wake {
            self.call_appender();
        }
        Ok(())
    }

    /// Waits for everything queued before and takes the lead without work of its own: for changes that must not
    /// happen in the middle of a group. Also when closed.
    pub(crate) fn lead(&self) -> Leadership<'_, W, S> {
        let mut inner = self.inner.lock();
        if inner.roster.leads_as_internal() {
            let desk = inner.idle.take();
            return Leadership { queue: self, desk, leads: Leads::Internal };
        }
        let seat = Arc::new(Seat::new());
        let wake = inner.roster.push(Queued::Internal { seat: Arc::clone(&seat) });
        drop(inner);
        if wake {
            self.call_appender();
        }
        match seat.wait(&self.counts) {
            Call::Lead(desk) => Leadership { queue: self, desk: Some(desk), leads: Leads::Internal },
            _ => unreachable!("an internal unit is only ever called to lead"),
        }
    }

    /// Returns once everything queued before is done.
    pub(crate) fn barrier(&self) {
        self.lead().end();
    }

    /// The appender's look: it leads if units wait and nobody does.
    pub(crate) fn lead_as_appender(&self) -> Option<Leadership<'_, W, S>> {
        let mut inner = self.inner.lock();
        if !inner.roster.leads_as_appender() {
            return None;
        }
        let desk = inner.idle.take();
        drop(inner);
        Some(Leadership { queue: self, desk, leads: Leads::Appender })
    }

    /// Refuses further units. Those that wait are still done.
    pub(crate) fn close(&self) {
        self.inner.lock().closed = true;
    }

    /// Units that wait.
    pub(crate) fn len(&self) -> usize {
        self.inner.lock().roster.len()
    }

    fn call_appender(&self) {
        self.counts.wake_ups.add(1);
        self.appender.ring();
    }

    pub(super) fn wait(&self, seat: Arc<Seat<W, S>>) -> Turn<'_, W, S> {
        match seat.wait(&self.counts) {
            Call::Lead(desk) => {
                Turn::Lead(Leadership { queue: self, desk: Some(desk), leads: Leads::Seated(seat) })
            }
            Call::Insert(errand) => Turn::Insert(Insertion::new(self, seat, errand)),
            Call::Done(outcome) => Turn::Done(outcome),
        }
    }
}

impl<'a, W: Unit, S> Leadership<'a, W, S> {
    /// The leader's state.
    pub(crate) fn state(&mut self) -> &mut S {
        &mut self.desk().state
    }

    fn desk(&mut self) -> &mut Desk<W, S> {
        self.desk.as_mut().expect("held until the lead is handed on")
    }

    /// Takes the next group off the queue. Empty only if an internal unit is next, which then has to lead:
    /// [`complete`](Self::complete) it as it is.
    #[inline]
    pub(crate) fn take_group(&mut self) -> Group<W, S> {
        let mut group = std::mem::take(&mut self.desk().spare);
        match &mut self.leads {
            // Nobody was waiting when the lead began, so the group is the leader's own.
            Leads::Lone(work) => group.push(work.take(), Origin::Own),
            Leads::Internal => {}
            Leads::Appender | Leads::Seated(_) => {
                let mut inner = self.queue.inner.lock();
                inner.roster.take_group(self.queue.limits, |unit| match unit {
                    Queued::Caller { work, seat } if self.leads.is_for(&seat) => {
                        group.push(Some(work), Origin::Own);
                    }
                    Queued::Caller { work, seat } => group.push(Some(work), Origin::Caller(seat)),
                    Queued::Loose { work, completion } => group.push(Some(work), Origin::Loose(completion)),
                    Queued::Internal { .. } => unreachable!("an internal unit is never part of a group"),
                });
            }
        }
        self.count(&group);
        group
    }

    fn count(&self, group: &Group<W, S>) {
        let counts = &self.queue.counts;
        counts.units.add_alone(group.len() as u64);
        counts.bytes.add_alone(group.bytes());
        match self.leads {
            _ if group.is_empty() => {}
            Leads::Appender => counts.groups_by_appender.add_alone(1),
            _ => counts.groups_by_callers.add_alone(1),
        }
    }

    /// Ends a group: `outcome` turns each unit of work into its outcome and returns what the unit holds; then the next
    /// leader is called, if it is another, and then the units are told. The lead is kept while the leader's own unit
    /// still waits, and by the appender while any does.
    #[inline]
    pub(crate) fn complete(
        mut self,
        mut group: Group<W, S>,
        outcome: impl FnMut(W) -> Outcome,
    ) -> Turn<'a, W, S> {
        let own = group.settle(outcome);
        group.tell_loose();
        let keeps = own.is_none() && !matches!(self.leads, Leads::Internal) && {
            self.queue.inner.lock().roster.has_group()
        };
        if keeps {
            group.tell(&self.queue.counts);
            self.desk().spare = group;
            return Turn::Lead(self);
        }
        if group.has_nobody_else() {
            self.desk().spare = group.recycle();
        }
        self.hand_on();
        group.tell(&self.queue.counts);
        match (own, &self.leads) {
            (Some(outcome), _) => Turn::Done(outcome),
            // An internal unit is before its own: it waits on.
            (None, Leads::Seated(seat)) => self.queue.wait(Arc::clone(seat)),
            (None, _) => Turn::Over,
        }
    }

    /// Puts the lead down.
    pub(crate) fn end(mut self) {
        self.hand_on();
    }
}

impl<W: Unit, S> Leadership<'_, W, S> {
    fn hand_on(&mut self) {
        let Some(desk) = self.desk.take() else { return };
        let queue = self.queue;
        let mut inner = queue.inner.lock();
        let Inner { roster, idle, .. } = &mut *inner;
        match roster.hand_on(queue.limits) {
            Successor::Nobody => *idle = Some(desk),
            Successor::Appender { wake } => {
                *idle = Some(desk);
                queue.counts.hand_overs.add(1);
                if wake {
                    queue.call_appender();
                }
            }
            Successor::Caller(unit) => queue.call_leader(unit, desk),
            Successor::Internal(unit) => queue.call_leader(&unit, desk),
        }
    }
}

impl<W: Unit, S> CommitQueue<W, S> {
    fn call_leader(&self, unit: &Queued<W, S>, desk: Box<Desk<W, S>>) {
        self.counts.hand_overs.add(1);
        match unit {
            Queued::Caller { seat, .. } | Queued::Internal { seat } => {
                seat.call(Call::Lead(desk), &self.counts);
            }
            Queued::Loose { .. } => unreachable!("nobody waits for it"),
        }
    }
}

impl<W: Unit, S> Drop for Leadership<'_, W, S> {
    /// A leader that unwinds, or gives up, still hands on.
    fn drop(&mut self) {
        self.hand_on();
    }
}

impl<W, S> Leads<W, S> {
    fn is_for(&self, seat: &Arc<Seat<W, S>>) -> bool {
        matches!(self, Self::Seated(own) if Arc::ptr_eq(own, seat))
    }
}

impl<W: Unit, S> Ranked for Queued<W, S> {
    fn kind(&self) -> Kind {
        match self {
            Self::Caller { .. } => Kind::Caller,
            Self::Loose { .. } => Kind::Loose,
            Self::Internal { .. } => Kind::Internal,
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Caller { work, .. } | Self::Loose { work, .. } => work.bytes(),
            Self::Internal { .. } => 0,
        }
    }

    fn wants_sync(&self) -> bool {
        match self {
            Self::Caller { work, .. } | Self::Loose { work, .. } => work.wants_sync(),
            Self::Internal { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests;
