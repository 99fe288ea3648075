//! [`Roster`]: which units wait in which order, who leads, and who leads next. Pure bookkeeping under the queue's lock.
//!
//! Invariants, model-checked in the tests below: a unit never waits without somebody who will drain it (a leader, or
//! the appender, called and not yet looked); at most one leads; a caller that is named leader has its own unit in the
//! next group.
//!
//! Threads, waking and what a unit holds are [`super::queue`]'s.

use std::collections::VecDeque;

/// Who stands behind a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A thread that waits for it, and that can lead.
    Caller,
    /// Nobody: the appender leads when no caller does.
    Loose,
    /// A thread that wants the lead itself, once all units before it are done. Never part of a group.
    Internal,
}

/// What the roster must know of a unit.
pub(super) trait Ranked {
    fn kind(&self) -> Kind;
    /// Bytes that count towards the limit of a group.
    fn bytes(&self) -> u64;
    /// Whether it is to be synced.
    fn wants_sync(&self) -> bool;
}

/// The limits of one group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupLimits {
    /// A group is never longer, but for a unit that is longer by itself.
    pub(crate) bytes: u64,
    /// Most units.
    pub(crate) count: usize,
}

/// Who leads next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Successor<'a, U> {
    /// Nobody waits.
    Nobody,
    /// This caller, whose unit stays in its place.
    Caller(&'a U),
    /// This internal unit, which has left the queue.
    Internal(U),
    /// The appender, which may lead once it looks; wake it if it was not called before.
    Appender { wake: bool },
}

/// Units in commit order, and whether somebody leads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Roster<U> {
    units: VecDeque<U>,
    led: bool,
    /// The appender has been called and has not looked since.
    called: bool,
}

impl<U: Ranked> Roster<U> {
    pub(super) fn new() -> Self {
        Self { units: VecDeque::new(), led: false, called: false }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.units.len()
    }

    /// A caller arrives: whether it leads from now on.
    pub(super) fn leads_as_caller(&mut self) -> bool {
        !std::mem::replace(&mut self.led, true)
    }

    /// An internal unit arrives: whether it leads from now on, nothing being before it.
    pub(super) fn leads_as_internal(&mut self) -> bool {
        self.units.is_empty() && self.leads_as_caller()
    }

    /// Queues a unit; true if the appender has to be woken, there being nobody else to drain it.
    #[must_use]
    pub(super) fn push(&mut self, unit: U) -> bool {
        self.units.push_back(unit);
        !self.led && !std::mem::replace(&mut self.called, true)
    }

    /// The appender looks: whether it leads from now on.
    pub(super) fn leads_as_appender(&mut self) -> bool {
        self.called = false;
        !self.units.is_empty() && self.leads_as_caller()
    }

    /// Whether an internal unit waits.
    pub(super) fn has_internal(&self) -> bool {
        self.units.iter().any(|unit| unit.kind() == Kind::Internal)
    }

    /// Units of the next group, and their bytes.
    pub(super) fn next_group(&self, limits: GroupLimits) -> (u64, u64) {
        Self::group(&self.units, limits)
            .fold((0, 0), |(units, bytes), unit| (units + 1, bytes + unit.bytes()))
    }

    /// Whether the next group has a unit: nothing waits, or an internal unit does, when it has none.
    pub(super) fn has_group(&self) -> bool {
        self.units.front().is_some_and(|unit| unit.kind() != Kind::Internal)
    }

    /// Takes the next group: in order, until the next unit would exceed a limit, is an internal one, or wants a sync
    /// that the head of the group does not want.
    pub(super) fn take_group(&mut self, limits: GroupLimits, mut take: impl FnMut(U)) {
        let count = Self::group(&self.units, limits).count();
        self.units.drain(..count).for_each(&mut take);
    }

    /// The leader puts the lead down: who leads next.
    pub(super) fn hand_on(&mut self, limits: GroupLimits) -> Successor<'_, U> {
        if self.units.front().is_some_and(|unit| unit.kind() == Kind::Internal) {
            return self.units.pop_front().map_or(Successor::Nobody, Successor::Internal);
        }
        // A caller of the next group, so that it leads for its own unit and then no longer.
        if let Some(at) = Self::group(&self.units, limits).position(|unit| unit.kind() == Kind::Caller) {
            return Successor::Caller(&self.units[at]);
        }
        self.led = false;
        if self.units.is_empty() {
            return Successor::Nobody;
        }
        Successor::Appender { wake: !std::mem::replace(&mut self.called, true) }
    }

    fn group(units: &VecDeque<U>, limits: GroupLimits) -> impl Iterator<Item = &U> {
        let syncs = units.front().is_some_and(Ranked::wants_sync);
        let (mut room, mut first) = (limits.bytes, true);
        units.iter().take(limits.count.max(1)).take_while(move |unit| {
            let fits = std::mem::take(&mut first) || unit.bytes() <= room;
            room = room.saturating_sub(unit.bytes());
            fits && unit.kind() != Kind::Internal && (syncs || !unit.wants_sync())
        })
    }
}

#[cfg(test)]
mod tests;
