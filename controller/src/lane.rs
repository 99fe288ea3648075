//! One [`Pacer`] and the [`Gate`] of those who wait for it: who passes, sleeps or parks, and when each must look again.
//!
//! The main lane is delayed and stopped by the sources; the low-priority lane has a rate of its own and no stop.
//! Where the rate comes from is not known here.

use std::collections::BTreeSet;

use crate::gate::{Cause, Claim, Gate, Place, WaitEnded, Waited, Waiter, WaiterId, WakeUp};
use crate::pacer::{Claimed, Pacer};
use crate::{ClientId, Parker};

/// What holds at present in a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hold {
    /// Nobody passes.
    pub(crate) stopped: bool,
    /// Bytes per second of a delay; `None` when there is none.
    pub(crate) rate: Option<u64>,
    /// Clients that are stopped in any case.
    pub(crate) locked: BTreeSet<ClientId>,
    /// To whom time is booked now.
    pub(crate) cause: Option<Cause>,
}

/// Time to be booked: whose, where, how long, why.
pub(crate) type Booking = (ClientId, Place, u64, Cause);

#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) pacer: Pacer,
    pub(crate) gate: Gate,
    pub(crate) hold: Hold,
    /// To be taken by whoever holds the lock, and booked.
    pub(crate) bookings: Vec<Booking>,
    /// Waiters that began to wait, or moved from the pacer to the gate.
    pub(crate) held: Vec<(ClientId, Place, Cause)>,
    /// To be woken once the lock is released.
    pub(crate) wakeups: Vec<WakeUp>,
}

/// The state of one waiter when it looks.
#[derive(Debug)]
pub(crate) enum Look {
    /// The wait is over.
    Over(Result<(), WaitEnded>, Waited),
    /// Look again then, or when woken.
    Again(Option<u64>),
}

impl Lane {
    /// A lane that delays with `rate`, or does not delay yet.
    pub(crate) fn new(pacer: Pacer, rate: Option<u64>, cause: Option<Cause>) -> Self {
        let hold = Hold { stopped: false, rate, locked: BTreeSet::new(), cause };
        Self {
            pacer,
            gate: Gate::default(),
            hold,
            bookings: Vec::new(),
            held: Vec::new(),
            wakeups: Vec::new(),
        }
    }

    /// Asks for `bytes` to pass at `now`; `None` = passed. `paid`: they were charged before, only a stop holds them.
    pub(crate) fn admit(&mut self, client: ClientId, bytes: u64, paid: bool, now: u64) -> Option<WaiterId> {
        let claim = if self.is_stopped_for(client) {
            if paid { Claim::Paid } else { Claim::None }
        } else if paid || self.hold.rate.is_none() {
            return None;
        } else {
            match self.pacer.claim(bytes, now) {
                Claimed::Passed => return None,
                Claimed::At(position) => Claim::At(position),
            }
        };
        Some(self.join(client, bytes, claim, now))
    }

    /// Passes `bytes` if that takes no wait; else charges nothing and says where they would have waited.
    pub(crate) fn try_admit(&mut self, client: ClientId, bytes: u64, now: u64) -> Result<(), Place> {
        if self.is_stopped_for(client) {
            Err(Place::Parked)
        } else if self.hold.rate.is_none() || self.pacer.try_claim(bytes, now) {
            Ok(())
        } else {
            Err(Place::Asleep)
        }
    }

    /// A waiter whose wait is over before it began.
    pub(crate) fn join_ended(&mut self, client: ClientId, why: WaitEnded, now: u64) -> WaiterId {
        let id = self.join(client, 0, Claim::None, now);
        if let Some(waiter) = self.gate.get_mut(id) {
            waiter.outcome = Some(Err(why));
        }
        self.held.pop();
        id
    }

    fn join(&mut self, client: ClientId, bytes: u64, claim: Claim, now: u64) -> WaiterId {
        let place = if self.is_stopped_for(client) { Place::Parked } else { Place::Asleep };
        if let Some(cause) = self.cause_for(client) {
            self.held.push((client, place, cause));
        }
        self.gate.join(Waiter {
            client,
            bytes,
            claim,
            place,
            since: now,
            waited: Waited::default(),
            outcome: None,
            wake_at: None,
            nudged: false,
            parker: Parker::new(),
            waker: None,
        })
    }

    /// How it stands with a waiter at `now`. Once it is over the waiter is gone.
    pub(crate) fn look(&mut self, id: WaiterId, now: u64) -> Look {
        // By a stale `now` a wait that is over would be booked shorter than it was.
        let now = self.pacer.accrue(now);
        let Some(waiter) = self.gate.get(id) else {
            return Look::Over(Err(WaitEnded::Cancelled), Waited::default());
        };
        if waiter.outcome.is_none() {
            match (waiter.place, waiter.claim) {
                (Place::Asleep, Claim::At(position)) if !self.pacer.is_earned(position) => {
                    let again = self.pacer.earned_at(position);
                    if let Some(waiter) = self.gate.get_mut(id) {
                        waiter.wake_at = again;
                    }
                    return Look::Again(again);
                }
                (Place::Asleep, _) => self.end(id, Ok(()), now),
                (Place::Parked, _) => return Look::Again(None),
            }
        }
        match self.gate.leave(id) {
            Some(waiter) => Look::Over(waiter.outcome.unwrap_or(Ok(())), waiter.waited),
            None => Look::Over(Err(WaitEnded::Cancelled), Waited::default()),
        }
    }

    /// Takes a waiter out that will not write: its bytes too, so that those behind move up.
    pub(crate) fn withdraw(&mut self, id: WaiterId, why: WaitEnded, now: u64) -> Waited {
        self.refuse(id, why, now);
        self.gate.leave(id).map_or_else(Waited::default, |waiter| waiter.waited)
    }

    /// Ends the wait of `id` without the right to write, if it has not ended; the waiter picks that up.
    pub(crate) fn refuse(&mut self, id: WaiterId, why: WaitEnded, now: u64) {
        let Some(waiter) = self.gate.get(id) else { return };
        let (claim, bytes) = (waiter.claim, waiter.bytes);
        if waiter.outcome.is_some() {
            return;
        }
        self.end(id, Err(why), now);
        if let Claim::At(position) = claim {
            self.pacer.withdraw(bytes, now);
            for behind in self.gate.waiting_mut() {
                if let Claim::At(theirs) = behind.claim
                    && theirs > position
                {
                    behind.claim = Claim::At(theirs.moved_up(bytes));
                }
            }
            self.rearrange(now);
        }
    }

    /// Lets the callers of all waiters of `client` look around; they wait on afterwards.
    pub(crate) fn nudge_client(&mut self, client: ClientId) {
        for id in self.gate.ids_of(client) {
            if let Some(waiter) = self.gate.get_mut(id) {
                waiter.nudged = true;
                waiter.wake_up(&mut self.wakeups);
            }
        }
    }

    /// Ends the waits of all waiters of `client`.
    pub(crate) fn refuse_client(&mut self, client: ClientId, why: WaitEnded, now: u64) {
        for id in self.gate.ids_of(client) {
            self.refuse(id, why, now);
        }
    }

    /// Lets the first parked waiter pass for which `may` holds, paid or not.
    pub(crate) fn rescue_first(&mut self, now: u64) -> bool {
        let locked = &self.hold.locked;
        let Some(id) = self.gate.first_parked(|client| !locked.contains(&client)) else {
            return false;
        };
        if let Some(waiter) = self.gate.get_mut(id) {
            waiter.waited.rescued = true;
        }
        self.end(id, Ok(()), now);
        true
    }

    /// Replaces what holds. Whoever may pass by the old terms until `now` passes first.
    pub(crate) fn set_hold(&mut self, hold: Hold, top_rate: u64, now: u64) {
        self.pass_earned(now);
        if hold.cause != self.hold.cause || hold.locked != self.hold.locked {
            self.settle_all(now);
        }
        self.pacer.set(hold.rate.unwrap_or(top_rate), hold.stopped || hold.rate.is_none(), now);
        self.hold = hold;
        if !self.hold.stopped && self.hold.rate.is_none() {
            self.pacer.reset(now);
            for waiter in self.gate.waiting_mut() {
                // A delay that ended has no debts; a locked client's writer may be waiting still.
                if waiter.claim != Claim::None {
                    waiter.claim = Claim::Paid;
                }
            }
        }
        self.rearrange(now);
    }

    /// Puts every waiter where it belongs now, first come first, and wakes those who must look earlier than told.
    fn rearrange(&mut self, now: u64) {
        let normal = self.hold.rate.is_none();
        for id in self.gate.ids() {
            let Some(waiter) = self.gate.get(id) else { continue };
            let client = waiter.client;
            let stopped = self.is_stopped_for(client);
            let claim = match waiter.claim {
                Claim::None if !stopped && !normal => match self.pacer.claim(waiter.bytes, now) {
                    Claimed::Passed => Claim::Paid,
                    Claimed::At(position) => Claim::At(position),
                },
                claim => claim,
            };
            let passes = !stopped && (normal || self.is_paid(claim));
            let Some(waiter) = self.gate.get_mut(id) else { continue };
            waiter.claim = claim;
            if passes {
                self.end(id, Ok(()), now);
            } else {
                self.move_to(id, if stopped { Place::Parked } else { Place::Asleep }, now);
            }
        }
    }

    fn is_paid(&self, claim: Claim) -> bool {
        match claim {
            Claim::None => false,
            Claim::At(position) => self.pacer.is_earned(position),
            Claim::Paid => true,
        }
    }

    fn move_to(&mut self, id: WaiterId, place: Place, now: u64) {
        let cause = self.gate.get(id).and_then(|waiter| self.cause_for(waiter.client));
        let Some(waiter) = self.gate.get_mut(id) else { return };
        let again = match (place, waiter.claim) {
            (Place::Asleep, Claim::At(position)) => self.pacer.earned_at(position),
            _ => None,
        };
        let mut wake = again.is_some_and(|again| waiter.wake_at.is_none_or(|told| again < told));
        if waiter.place != place {
            let (was, nanos) = waiter.settle(now);
            if let Some(cause) = cause {
                self.bookings.push((waiter.client, was, nanos, cause));
                self.held.push((waiter.client, place, cause));
            }
            waiter.place = place;
            wake = true;
        }
        waiter.wake_at = again;
        if wake {
            waiter.wake_up(&mut self.wakeups);
        }
    }

    fn end(&mut self, id: WaiterId, outcome: Result<(), WaitEnded>, now: u64) {
        self.settle(id, now);
        if let Some(waiter) = self.gate.get_mut(id) {
            waiter.outcome = Some(outcome);
            waiter.wake_up(&mut self.wakeups);
        }
    }

    /// Ends the waits of sleepers whose bytes are earned at `now`.
    pub(crate) fn pass_earned(&mut self, now: u64) {
        self.pacer.accrue(now);
        for id in self.gate.ids() {
            let Some(waiter) = self.gate.get(id) else { continue };
            if waiter.place == Place::Asleep && self.is_paid(waiter.claim) {
                self.end(id, Ok(()), now);
            }
        }
    }

    /// When a sleeper's bytes will be earned at the present rate.
    pub(crate) fn due_at(&self, id: WaiterId) -> Option<u64> {
        let waiter = self.gate.get(id).filter(|waiter| waiter.outcome.is_none())?;
        match (waiter.place, waiter.claim) {
            (Place::Asleep, Claim::At(position)) => self.pacer.earned_at(position),
            _ => None,
        }
    }

    /// The earliest instant at which a sleeping *task* must look again.
    pub(crate) fn next_task(&mut self) -> Option<u64> {
        self.gate
            .waiting_mut()
            .filter(|waiter| waiter.waker.is_some())
            .filter_map(|waiter| waiter.wake_at)
            .min()
    }

    pub(crate) fn settle_all(&mut self, now: u64) {
        for id in self.gate.ids() {
            self.settle(id, now);
        }
    }

    fn settle(&mut self, id: WaiterId, now: u64) {
        let cause = self.gate.get(id).and_then(|waiter| self.cause_for(waiter.client));
        if let (Some(waiter), Some(cause)) = (self.gate.get_mut(id), cause) {
            let (place, nanos) = waiter.settle(now);
            self.bookings.push((waiter.client, place, nanos, cause));
        }
    }

    pub(crate) fn is_stopped_for(&self, client: ClientId) -> bool {
        self.hold.stopped || self.hold.locked.contains(&client)
    }

    /// A stop for everybody owns the time; else a client's own lock; else the delay.
    pub(crate) fn cause_for(&self, client: ClientId) -> Option<Cause> {
        if !self.hold.stopped && self.hold.locked.contains(&client) {
            return Some(Cause::Source(crate::SourceKind::LockWal));
        }
        self.hold.cause
    }
}
