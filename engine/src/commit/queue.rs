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
//! Beside the bytes, which its pool bounds, the queue is bounded by runs of units ([`QueueGroups`]): a unit that would open
//! one too many is refused under the same guard, and from then on the pool is held; each run that leaves lets one pass.
//!
//! The queue knows neither the log nor memtables, nor what a unit holds.

use std::sync::Arc;

use sluicedb_wbm::MemoryPool;

use super::group::{Group, Insertion, Origin};
use super::roster::{GroupLimits, Kind, Ranked, Roster, Successor};
use super::runs::{QueueGroupLimits, QueueGroups};
use super::seat::{Call, Seat};
use crate::error::Result;
use crate::jobs::Bell;
use crate::key::SequenceNumber;
use crate::stats::Counter;
use crate::sync::{Mutex, MutexGuard, Rank};

/// What became of a unit: its last sequence, or why it was not committed.
pub(crate) type Outcome = Result<SequenceNumber>;

/// What the queue must know of a unit of work.
pub(crate) trait Unit {
    /// Bytes that it adds to the append of its group.
    fn bytes(&self) -> u64;
    /// Whether it is to be synced before it is done.
    fn wants_sync(&self) -> bool;
    /// It has its place in the queue. Whether it was let through a hold of the queue's pool.
    fn settle(&mut self) -> bool {
        false
    }
}

/// Why a unit was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The queue is closed.
    Closed,
    /// It would open one run too many. The pool is held: it has to wait there.
    NoGroup,
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
    /// Units refused for want of a run; each has waited for one, or was turned away.
    pub(crate) groups_refused: Counter,
    /// Groups whose followers inserted their own units.
    pub(crate) parallel_groups: Counter,
}

/// A FIFO of units of work `W`, led by one thread at a time, whose state is `S`.
#[derive(Debug)]
pub(crate) struct CommitQueue<W: Unit, S> {
    inner: Mutex<Inner<W, S>>,
    limits: GroupLimits,
    /// Gives room by bytes; held while there is no room for another run.
    pool: MemoryPool,
    /// Rung when a run that a leader waits with need not wait any longer.
    company: Arc<Bell>,
    /// Rung to have the appender look.
    appender: Arc<Bell>,
    pub(crate) counts: QueueCounts,
}

#[derive(Debug)]
struct Inner<W, S> {
    roster: Roster<Queued<W, S>>,
    /// What the leader has, while nobody leads.
    idle: Option<Box<Desk<W, S>>>,
    groups: QueueGroups,
    /// A unit was refused for want of a run, and the pool is held.
    holds: bool,
    /// A leader waits for company.
    lingers: bool,
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
    pub(crate) fn new(
        state: S,
        limits: GroupLimits,
        groups: QueueGroupLimits,
        pool: &MemoryPool,
        appender: Arc<Bell>,
    ) -> Self {
        let desk = Box::new(Desk { state, spare: Group::default() });
        let inner = Inner {
            roster: Roster::new(),
            idle: Some(desk),
            groups: QueueGroups::new(groups),
            holds: false,
            lingers: false,
            closed: false,
        };
        Self {
            inner: Mutex::new(inner).ranked(Rank::CommitQueue),
            limits,
            pool: pool.clone(),
            company: appender.another(),
            appender,
            counts: QueueCounts::default(),
        }
    }

    /// Joins with `work` and waits for its turn: leads at once if nobody does.
    ///
    /// # Errors
    ///
    /// The work, if the queue is closed or has no room for another run.
    #[inline]
    pub(crate) fn join(&self, mut work: W) -> Result<Turn<'_, W, S>, (Refusal, W)> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Err((Refusal::Closed, work));
        }
        if inner.roster.is_empty() && !inner.groups.has_linger() && inner.roster.leads_as_caller() {
            if inner.holds {
                self.let_the_next_pass(&mut inner, &mut work);
            }
            let desk = inner.idle.take();
            return Ok(Turn::Lead(Leadership { queue: self, desk, leads: Leads::Lone(Some(work)) }));
        }
        let mut work = self.count_in(&mut inner, work)?;
        if inner.holds {
            self.let_the_next_pass(&mut inner, &mut work);
        }
        let seat = Arc::new(Seat::new());
        let leads = inner.roster.leads_as_caller();
        // Somebody leads, perhaps this thread: there is no appender to be woken.
        let _ = inner.roster.push(Queued::Caller { work, seat: Arc::clone(&seat) });
        if leads {
            let desk = inner.idle.take();
            return Ok(Turn::Lead(Leadership { queue: self, desk, leads: Leads::Seated(seat) }));
        }
        self.end_linger(inner);
        Ok(self.wait(seat))
    }

    /// Queues `work` that no thread waits for; `completion` is told its outcome. Never waits.
    ///
    /// # Errors
    ///
    /// The work, if the queue is closed or has no room for another run.
    pub(crate) fn push(&self, work: W, completion: Arc<dyn Completion>) -> Result<(), (Refusal, W)> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Err((Refusal::Closed, work));
        }
        let mut work = self.count_in(&mut inner, work)?;
        if inner.holds {
            self.let_the_next_pass(&mut inner, &mut work);
        }
        let wake = inner.roster.push(Queued::Loose { work, completion });
        self.end_linger(inner);
        if wake {
            self.call_appender();
        }
        Ok(())
    }

    /// Counts a unit into a run, or refuses it and holds the pool until a run leaves.
    fn count_in(&self, inner: &mut Inner<W, S>, work: W) -> Result<W, (Refusal, W)> {
        let bytes = work.bytes();
        if inner.groups.has_room(bytes) {
            let now = if inner.groups.has_linger() { self.company.now_nanos() } else { 0 };
            inner.groups.push(bytes, now);
            return Ok(work);
        }
        inner.holds = true;
        self.pool.hold();
        self.company.ring(); // the queue is full: whoever waits for company has it
        self.counts.groups_refused.add(1);
        Err((Refusal::NoGroup, work))
    }

    /// A unit has its place: if the pool's hold let it through, the next one may try.
    #[cold]
    fn let_the_next_pass(&self, inner: &mut Inner<W, S>, work: &mut W) {
        if work.settle() && inner.groups.has_room(1) {
            inner.holds = self.pool.let_one_pass();
        }
    }

    /// Tells a leader that waits for company, if it need not any longer.
    fn end_linger(&self, mut inner: MutexGuard<'_, Inner<W, S>>) {
        if inner.lingers && inner.lingers_until().is_none() {
            inner.lingers = false;
            drop(inner);
            self.company.ring();
        }
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
        self.end_linger(inner);
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
        let mut inner = self.inner.lock();
        inner.closed = true;
        self.end_linger(inner);
    }

    /// Runs of units that wait.
    pub(crate) fn groups(&self) -> usize {
        self.inner.lock().groups.len()
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

    /// Waits while the queue is to wait for company, without a lock.
    #[inline]
    pub(crate) fn linger(&self) {
        if matches!(self.leads, Leads::Seated(_) | Leads::Appender) {
            self.queue.wait_for_company();
        }
    }

    /// Units of the next group and their bytes, if they may be more than `bytes`.
    #[inline]
    pub(crate) fn next_group_beyond(&self, bytes: u64) -> Option<(u64, u64)> {
        match &self.leads {
            Leads::Lone(work) => {
                work.as_ref().map(|work| (1, work.bytes())).filter(|(_, unit)| *unit > bytes)
            }
            Leads::Internal => None,
            Leads::Seated(_) | Leads::Appender => {
                let inner = self.queue.inner.lock();
                (inner.groups.bytes() > bytes).then(|| inner.roster.next_group(self.queue.limits))
            }
        }
    }

    /// Takes the next group off the queue. Empty only if an internal unit is next, which then has to lead:
    /// [`complete`](Self::complete) it as it is.
    #[inline]
    pub(crate) fn take_group(&mut self) -> Group<W, S> {
        let mut group = std::mem::take(&mut self.desk().spare);
        self.fill(&mut group);
        self.count(&group);
        group
    }

    /// Takes what has come since into the same group; whether there was anything.
    #[cfg(feature = "bench-arms")]
    pub(crate) fn take_more(&mut self, group: &mut Group<W, S>) -> bool {
        let before = group.len();
        if matches!(self.leads, Leads::Seated(_) | Leads::Appender) {
            self.fill(group);
        }
        group.len() > before
    }

    #[inline]
    fn fill(&mut self, group: &mut Group<W, S>) {
        match &mut self.leads {
            // Nobody was waiting when the lead began, so the group is the leader's own.
            Leads::Lone(work) => group.push(work.take(), Origin::Own),
            Leads::Internal => {}
            Leads::Appender | Leads::Seated(_) => {
                let mut inner = self.queue.inner.lock();
                let Inner { roster, groups, .. } = &mut *inner;
                roster.take_group(self.queue.limits, |unit| {
                    groups.pop();
                    match unit {
                        Queued::Caller { work, seat } if self.leads.is_for(&seat) => {
                            group.push(Some(work), Origin::Own);
                        }
                        Queued::Caller { work, seat } => group.push(Some(work), Origin::Caller(seat)),
                        Queued::Loose { work, completion } => {
                            group.push(Some(work), Origin::Loose(completion));
                        }
                        Queued::Internal { .. } => unreachable!("an internal unit is never part of a group"),
                    }
                });
                if inner.holds && inner.groups.has_room(1) {
                    inner.holds = self.queue.pool.let_one_pass();
                }
            }
        }
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

impl<W: Unit, S> Inner<W, S> {
    /// Until when a leader waits for company; `None`: it takes what there is.
    fn lingers_until(&self) -> Option<u64> {
        let forced = self.closed || self.holds || self.roster.has_internal();
        self.groups.lingers_until().filter(|_| !forced)
    }
}

impl<W: Unit, S> CommitQueue<W, S> {
    fn wait_for_company(&self) {
        loop {
            let (seen, until) = {
                let mut inner = self.inner.lock();
                let until = inner.lingers_until().filter(|until| *until > self.company.now_nanos());
                inner.lingers = until.is_some();
                let Some(until) = until else { return };
                (self.company.rings(), until)
            };
            self.company.wait_past_until(seen, until);
        }
    }

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
