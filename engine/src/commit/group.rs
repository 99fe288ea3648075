//! [`Group`]: the units that one append carries, who waits for each, and how they are told.
//!
//! Followers may insert their own units: the leader hands them out ([`Group::insert_in_parallel`]), each with an [`Insertion`] that it
//! returns when it has inserted, and waits at a [`Latch`]. What an insertion does is not known here.

use std::sync::Arc;

use super::queue::{CommitQueue, Completion, Outcome, QueueCounts, Turn, Unit};
use super::seat::{Call, Seat};
use crate::error::Error;
use crate::sync::{Condvar, Mutex};

/// Who waits for a unit.
#[derive(Debug)]
pub(super) enum Origin<W, S> {
    /// The leader itself.
    Own,
    /// Another thread.
    Caller(Arc<Seat<W, S>>),
    /// No thread.
    Loose(Arc<dyn Completion>),
}

#[derive(Debug)]
struct Member<W, S> {
    /// Away while its own thread inserts it, and once it is settled.
    work: Option<W>,
    outcome: Option<Outcome>,
    origin: Origin<W, S>,
}

/// The units that one append carries, in commit order.
#[derive(Debug)]
pub(crate) struct Group<W, S> {
    members: Vec<Member<W, S>>,
}

impl<W, S> Default for Group<W, S> {
    fn default() -> Self {
        Self { members: Vec::new() }
    }
}

impl<W, S> Group<W, S> {
    /// A buffer with nothing in it, to be used by the next group. Everybody has been told.
    pub(super) fn recycle(&mut self) -> Self {
        debug_assert!(self.members.iter().all(|member| matches!(member.origin, Origin::Own)));
        self.members.clear();
        std::mem::take(self)
    }

    /// Whether nobody but the leader is left to be told.
    pub(super) fn has_nobody_else(&self) -> bool {
        self.members.iter().all(|member| matches!(member.origin, Origin::Own))
    }
}

impl<W: Unit, S> Group<W, S> {
    pub(super) fn push(&mut self, work: Option<W>, origin: Origin<W, S>) {
        self.members.push(Member { work, outcome: None, origin });
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The units of work, in order.
    pub(crate) fn works(&self) -> impl Iterator<Item = &W> + Clone {
        self.members.iter().filter_map(|member| member.work.as_ref())
    }

    /// The units of work, in order.
    pub(crate) fn works_mut(&mut self) -> impl Iterator<Item = &mut W> {
        self.members.iter_mut().filter_map(|member| member.work.as_mut())
    }

    /// Bytes of all units.
    pub(crate) fn bytes(&self) -> u64 {
        self.works().map(Unit::bytes).sum()
    }

    /// Whether two threads or more wait for its units, so that they can share the inserts.
    pub(crate) fn has_company(&self) -> bool {
        self.members.iter().filter(|member| !matches!(member.origin, Origin::Loose(_))).nth(1).is_some()
    }

    /// Has every follower insert its own unit and inserts the rest, then waits for the followers. False if one of them
    /// panicked: its unit is inserted in part.
    pub(crate) fn insert_in_parallel(
        &mut self,
        counts: &QueueCounts,
        mut insert: impl FnMut(&mut W),
    ) -> bool {
        let latch = Arc::new(Latch::default());
        let away = Away { group: self, latch: &latch };
        for (at, member) in away.group.members.iter_mut().enumerate() {
            if let Origin::Caller(seat) = &member.origin
                && let Some(work) = member.work.take()
            {
                latch.state.lock().away += 1;
                seat.call(Call::Insert(Errand { work, at, latch: Arc::clone(&latch) }), counts);
            }
        }
        away.group.works_mut().for_each(&mut insert);
        drop(away);
        counts.parallel_groups.add(1);
        !latch.state.lock().panicked
    }

    /// Turns every unit into its outcome. The leader's own outcome comes back, if the group has its unit.
    pub(super) fn settle(&mut self, mut outcome: impl FnMut(W) -> Outcome) -> Option<Outcome> {
        let mut own = None;
        for member in &mut self.members {
            let settled = member.work.take().map_or(Err(Error::ShutdownInProgress), &mut outcome);
            match member.origin {
                Origin::Own => own = Some(settled),
                _ => member.outcome = Some(settled),
            }
        }
        own
    }

    /// Tells those whom no thread waits for: before the lead is handed on, so that whoever leads next knows that all
    /// tickets before it have been told.
    pub(super) fn tell_loose(&mut self) {
        for member in &mut self.members {
            if let Origin::Loose(completion) = &member.origin {
                completion.complete(member.outcome.take().unwrap_or(Err(Error::ShutdownInProgress)));
                member.origin = Origin::Own; // nobody is left to be told
            }
        }
    }

    /// Tells everybody else.
    pub(super) fn tell(&mut self, counts: &QueueCounts) {
        for member in self.members.drain(..) {
            member.tell(counts);
        }
    }
}

impl<W, S> Member<W, S> {
    fn tell(mut self, counts: &QueueCounts) {
        self.work = None; // what it holds returns before its caller hears
        let outcome = self.outcome.take().unwrap_or(Err(Error::ShutdownInProgress));
        match self.origin {
            Origin::Own => {}
            Origin::Caller(seat) => seat.call(Call::Done(outcome), counts),
            Origin::Loose(completion) => completion.complete(outcome),
        }
    }
}

impl<W, S> Drop for Group<W, S> {
    /// A leader that unwinds leaves nobody waiting.
    fn drop(&mut self) {
        if !self.members.is_empty() {
            let counts = QueueCounts::default();
            self.members.drain(..).for_each(|member| member.tell(&counts));
        }
    }
}

/// Where a leader waits for the followers that insert. They hand their units back here.
#[derive(Debug)]
pub(super) struct Latch<W> {
    state: Mutex<LatchState<W>>,
    all_back: Condvar,
}

#[derive(Debug)]
struct LatchState<W> {
    away: usize,
    /// Units, and their places in the group.
    back: Vec<(usize, W)>,
    panicked: bool,
}

impl<W> Default for Latch<W> {
    fn default() -> Self {
        let state = LatchState { away: 0, back: Vec::new(), panicked: false };
        Self { state: Mutex::new(state), all_back: Condvar::new() }
    }
}

impl<W> Latch<W> {
    fn come_back(&self, at: usize, work: Option<W>) {
        let mut state = self.state.lock();
        state.away -= 1;
        state.panicked |= work.is_none();
        state.back.extend(work.map(|work| (at, work)));
        if state.away == 0 {
            drop(state);
            self.all_back.notify_one();
        }
    }
}

/// Units are away: the group takes them back before anything else happens to it, also when its leader unwinds.
struct Away<'a, W, S> {
    group: &'a mut Group<W, S>,
    latch: &'a Latch<W>,
}

impl<W, S> Drop for Away<'_, W, S> {
    fn drop(&mut self) {
        let mut state = self.latch.state.lock();
        while state.away > 0 {
            self.latch.all_back.wait(&mut state);
        }
        for (at, work) in state.back.drain(..) {
            self.group.members[at].work = Some(work);
        }
    }
}

/// A unit that its own thread is to insert.
#[derive(Debug)]
pub(super) struct Errand<W> {
    work: W,
    at: usize,
    latch: Arc<Latch<W>>,
}

/// The calling thread inserts its own unit while the leader of the group waits. Dropped without
/// [`finish`](Self::finish), as by a panic, it fails the group.
#[derive(Debug)]
pub(crate) struct Insertion<'a, W: Unit, S> {
    queue: &'a CommitQueue<W, S>,
    seat: Arc<Seat<W, S>>,
    work: Option<W>,
    at: usize,
    latch: Arc<Latch<W>>,
}

impl<'a, W: Unit, S> Insertion<'a, W, S> {
    pub(super) fn new(queue: &'a CommitQueue<W, S>, seat: Arc<Seat<W, S>>, errand: Errand<W>) -> Self {
        Self { queue, seat, work: Some(errand.work), at: errand.at, latch: errand.latch }
    }

    /// The unit to insert.
    pub(crate) fn work(&mut self) -> &mut W {
        self.work.as_mut().expect("held until finished")
    }

    /// The unit is inserted; waits for its outcome.
    pub(crate) fn finish(mut self) -> Turn<'a, W, S> {
        self.latch.come_back(self.at, self.work.take());
        self.at = usize::MAX;
        self.queue.wait(Arc::clone(&self.seat))
    }
}

impl<W: Unit, S> Drop for Insertion<'_, W, S> {
    fn drop(&mut self) {
        if self.at != usize::MAX {
            self.work = None;
            self.latch.come_back(self.at, None);
        }
    }
}
