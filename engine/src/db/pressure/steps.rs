//! The way of an asynchronous write through the brake and into the commit queue, in steps that never wait.
//!
//! The same way as [`admit`](super::admit)'s, with the same rules: the brake first, then room by bytes, then the stop
//! once more. Only the appender takes steps, for one write after the other; what is waited for wakes it. Which write
//! stands where is [`crate::db`]'s `tickets.rs`.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use sluicedb_controller::{Admission, Turn, WaitEnded, Waited, deadline_after};
use sluicedb_wbm::{MemoryLease, PoolAdmission, PoolTurn};

use super::Pressure;
use super::admit::{Admitted, Room, UnitSize};
use crate::db::Shared;
use crate::error::{Error, Result};

/// An asynchronous write that has not entered the commit queue.
#[derive(Debug)]
pub(in crate::db) struct Way {
    write: Admitted,
    size: UnitSize,
    at: At,
    /// The low-priority lane, which comes before the brake, has been passed.
    low_priority_passed: bool,
    /// When the write was submitted, ns.
    began: u64,
    /// Since when it has waited for room, ns.
    room_since: u64,
}

#[derive(Debug)]
enum At {
    /// Before the brake, or on its way back to it.
    Brake,
    /// Asleep in the low-priority lane.
    LowPriority(Turn),
    /// Asleep in a delay or parked in a stop.
    Held(Turn),
    /// In the FIFO for room.
    Room(PoolTurn),
    /// It has room.
    Admitted(MemoryLease),
}

/// How [`Pressure::enter`] went.
#[derive(Debug)]
pub(in crate::db) enum Entry {
    /// It has no room yet.
    NotYet(Way),
    /// It may enter the queue; its way, in case that the queue refuses it.
    Open(Room, Way),
    /// A stop has begun since: its room is returned, and it stands before the brake again.
    BackToTheBrake(Way),
}

impl Way {
    /// Whether it stands before the brake or is held there.
    pub(in crate::db) fn is_at_brake(&self) -> bool {
        matches!(self.at, At::Brake | At::LowPriority(_) | At::Held(_))
    }

    /// Gives up what it has of the queue, or its place there, and goes back to the brake. A delay that it has served
    /// stays served.
    pub(in crate::db) fn go_back_to_the_brake(&mut self) {
        if !self.is_at_brake() {
            self.at = At::Brake;
        }
    }

    /// When a delay ends by itself at the present rate, ns.
    pub(in crate::db) fn wake_at(&self) -> Option<u64> {
        match &self.at {
            At::LowPriority(turn) | At::Held(turn) => turn.wake_at(),
            _ => None,
        }
    }
}

impl Pressure {
    /// The beginning of a way, before the brake.
    pub(in crate::db) fn set_out(&self, write: Admitted, size: UnitSize) -> Way {
        let began = self.clock.now_nanos();
        Way { write, size, at: At::Brake, low_priority_passed: false, began, room_since: began }
    }

    /// Room for a write at once, if nothing holds writers and the queue has room. Never waits, charges nothing
    /// otherwise.
    pub(in crate::db) fn admit_at_once(
        &self,
        shared: &Shared,
        size: UnitSize,
        write: &Admitted,
    ) -> Option<Room> {
        if self.controller.is_holding()
            || self.client.is_stopped()
            || (write.low_pri && self.needs_speed_up(shared))
        {
            return None;
        }
        let lease = self.queue.try_admit(size.unit)?;
        self.enter_with(size, write, lease)
    }

    /// Goes on to the FIFO for room, if the brake lets it; `Pending` while it is held. The task is woken by events; that
    /// a delay ends is to be looked at in time: [`Way::wake_at`].
    pub(in crate::db) fn step_past_the_brake(
        &self,
        shared: &Shared,
        way: &mut Way,
        task: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        loop {
            let held = match &mut way.at {
                At::Room(_) | At::Admitted(_) => return Poll::Ready(Ok(())),
                At::Brake => {
                    way.at = self.ask_the_brake(shared, way);
                    continue;
                }
                At::LowPriority(turn) | At::Held(turn) => Pin::new(turn).poll(task),
            };
            match held {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(WaitEnded::Failed)) => {
                    shared.check_writable()?;
                    way.at = At::Brake; // resumed since: ask anew
                }
                Poll::Ready(Err(_)) => return Poll::Ready(Err(Error::ShutdownInProgress)),
                Poll::Ready(Ok(waited)) => {
                    let waits_for_low_priority = matches!(way.at, At::LowPriority(_));
                    way.write.waited.delayed += waited.delayed;
                    way.write.waited.stopped += waited.stopped;
                    if waits_for_low_priority {
                        way.low_priority_passed = true;
                        way.at = At::Brake;
                    } else {
                        way.write.rescued = waited.rescued;
                        way.at = self.ask_for_room(way);
                    }
                }
            }
        }
    }

    fn ask_the_brake(&self, shared: &Shared, way: &mut Way) -> At {
        let (write, bytes) = (&way.write, way.size.batch);
        if write.low_pri && !write.paid && !way.low_priority_passed && self.needs_speed_up(shared) {
            match self.client.admit_low_priority(bytes) {
                Admission::Wait(turn) => return At::LowPriority(turn),
                Admission::Passed => way.low_priority_passed = true,
            }
        }
        let admission =
            if way.write.paid { self.client.admit_again(bytes) } else { self.client.admit(bytes) };
        match admission {
            Admission::Wait(turn) => At::Held(turn),
            Admission::Passed => self.ask_for_room(way),
        }
    }

    fn ask_for_room(&self, way: &mut Way) -> At {
        way.write.paid = true;
        way.room_since = self.clock.now_nanos();
        match self.queue.start_admit(way.size.unit) {
            PoolAdmission::Admitted(lease) => At::Admitted(lease),
            PoolAdmission::Wait(turn) => At::Room(turn),
        }
    }

    /// Enters the queue, if room has been granted and no stop has begun since.
    pub(in crate::db) fn enter(&self, mut way: Way, task: &mut Context<'_>) -> Result<Entry> {
        let lease = match way.at {
            At::Admitted(lease) => lease,
            At::Room(mut turn) => match Pin::new(&mut turn).poll(task) {
                Poll::Ready(Ok(lease)) => lease,
                Poll::Ready(Err(_)) => return Err(Error::ShutdownInProgress), // without a deadline: closed
                Poll::Pending => {
                    way.at = At::Room(turn);
                    return Ok(Entry::NotYet(way));
                }
            },
            at @ (At::Brake | At::LowPriority(_) | At::Held(_)) => {
                way.at = at;
                return Ok(Entry::NotYet(way));
            }
        };
        way.at = At::Brake;
        Ok(match self.enter_with(way.size, &way.write, lease) {
            Some(room) => Entry::Open(room, way),
            None => Entry::BackToTheBrake(way),
        })
    }

    /// The queue has refused a write that had room: it waits for its place in the FIFO for room.
    pub(in crate::db) fn wait_again(way: &mut Way, room: Room) {
        way.at = At::Room(room.go_back(way.size.unit));
    }

    /// Until when the way may go on waiting where it stands, ns; `None`: for ever.
    pub(in crate::db) fn patience(&self, way: &Way) -> Option<u64> {
        if way.is_at_brake() {
            way.write.limit.or_else(|| self.timeouts.stall()).map(|limit| deadline_after(way.began, limit))
        } else {
            Some(deadline_after(way.room_since, self.timeouts.write()))
        }
    }

    /// The refusal of a way whose patience has ended.
    pub(in crate::db) fn out_of_patience(&self, shared: &Shared, mut way: Way) -> Error {
        if !way.is_at_brake() {
            return Error::QueueWaitTimeout { bytes: way.size.unit, waited: self.timeouts.write() };
        }
        let waited = self.clock.now_nanos().saturating_sub(way.began);
        way.write.waited = Waited { delayed: std::time::Duration::from_nanos(waited), ..Waited::default() };
        self.stalled(shared, format!("timeout, {}", self.strictest()), &way.write)
    }
}
