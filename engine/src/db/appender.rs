//! The appender: the thread that commits asynchronous writes when no caller does, and moves waiting ones on.
//!
//! It is started with the first asynchronous write. Between two groups, and whenever it is woken, it looks at the
//! tickets that wait: it never sleeps for one, but parks with a deadline and stays ready to lead. User code never runs
//! on it; callbacks of tickets have a thread of their own, started with the first callback.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use sluicedb_controller::deadline_after;

use super::Shared;
use super::pressure::{Entry, Pressure, Room, Way};
use super::waiting::{Place, WaitingTicket, WaitingTickets};
use super::write::{Work, Writer};
use crate::batch::WriteError;
use crate::commit::{Callbacks, Turn};
use crate::env::Clock;
use crate::error::{Error, Result};
use crate::jobs::Bell;
use crate::sync::Mutex;

/// Time between two looks at whether something ends a stop.
const SLICE: Duration = Duration::from_secs(1);

/// What the appender shares with those who submit.
#[derive(Debug)]
pub(super) struct Appender {
    pub(super) tickets: WaitingTickets,
    pub(super) bell: Arc<Bell>,
    pub(super) callbacks: Arc<Callbacks>,
    /// Rings the bell: what the waits of tickets are given to wake.
    waker: Waker,
    append_thread: Lazily,
    callback_thread: Lazily,
}

/// Whether a thread has been started.
#[derive(Debug, Default)]
struct Lazily {
    started: AtomicBool,
    starting: Mutex<()>,
}

/// A waker that rings a bell.
struct RingBell(Arc<Bell>);

impl Wake for RingBell {
    fn wake(self: Arc<Self>) {
        self.0.ring();
    }
}

impl Appender {
    pub(super) fn new(waiting_bytes: u64, bell: Arc<Bell>, clock: &Arc<dyn Clock>) -> Self {
        Self {
            tickets: WaitingTickets::new(waiting_bytes, clock),
            waker: Waker::from(Arc::new(RingBell(Arc::clone(&bell)))),
            bell,
            callbacks: Callbacks::new(clock),
            append_thread: Lazily::default(),
            callback_thread: Lazily::default(),
        }
    }
}

impl Shared {
    /// Makes sure that the appender runs.
    #[inline]
    pub(super) fn start_appender(self: &Arc<Self>) -> Result<()> {
        self.start_lazily(&self.appender.append_thread, "sluice-append", Self::append)
    }

    /// Makes sure that callbacks of tickets are called.
    pub(super) fn start_callbacks(self: &Arc<Self>) -> Result<()> {
        self.start_lazily(&self.appender.callback_thread, "sluice-callback", Self::run_callbacks)
    }

    #[inline]
    fn start_lazily(self: &Arc<Self>, thread: &Lazily, name: &str, body: fn(&Self)) -> Result<()> {
        if thread.started.load(Ordering::Acquire) {
            return Ok(());
        }
        let _starting = thread.starting.lock();
        if thread.started.load(Ordering::Acquire) {
            return Ok(());
        }
        let (shared, announced) = (Arc::clone(self), self.clock.announce_thread());
        let body = move || {
            let _counted = announced.enter();
            body(&shared);
        };
        self.workers
            .spawn(name.to_owned(), body)
            .map_err(|error| Error::io("start a thread for", &self.dir, error))?;
        thread.started.store(true, Ordering::Release);
        Ok(())
    }

    /// The appender's life.
    fn append(&self) {
        loop {
            let seen = self.appender.bell.rings();
            if self.is_closing() {
                return;
            }
            let turn = catch_unwind(AssertUnwindSafe(|| {
                if let Some(leadership) = self.commit.lead_as_appender() {
                    self.append_groups(Turn::Lead(leadership));
                }
                self.move_tickets()
            }));
            match turn {
                Ok(Some(deadline)) => self.appender.bell.wait_past_until(seen, deadline),
                Ok(None) => self.appender.bell.wait_past(seen),
                // The leader's own panic has latched the failure, too: this tells of any other.
                Err(_) => self.latch_failure(&self.panicked("the appender")),
            }
        }
    }

    /// Leads until nothing is queued.
    fn append_groups(&self, mut turn: Turn<'_, Work, Writer>) {
        while let Turn::Lead(leadership) = turn {
            turn = self.lead_group(leadership);
            // The stop never holds the appender, nor do the tickets that it moves.
            if !self.appender.tickets.is_empty() {
                self.move_tickets();
            }
        }
    }

    /// Moves waiting tickets on as far as they get; the time at which to look again, if there is one.
    fn move_tickets(&self) -> Option<u64> {
        let tickets = &self.appender.tickets;
        if tickets.is_empty() {
            return None;
        }
        if let Err(error) = self.check_writable() {
            self.refuse_tickets(tickets.take_all(false), |_, _| error.clone());
            return None;
        }
        let now = self.clock.now_nanos();
        self.refuse_tickets(tickets.take_expired(now), |shared, way| match way {
            Some(way) => shared.pressure.out_of_patience(shared, way),
            None => Error::ShutdownInProgress,
        });
        let task = &mut Context::from_waker(&self.appender.waker);
        while self.enter_first(task) || self.pass_the_brake(task) {}
        let brake = self.look_again_at_the_brake();
        [brake, tickets.soonest()].into_iter().flatten().min()
    }

    /// The first ticket enters the queue, if it has room; whether anything moved.
    fn enter_first(&self, task: &mut Context<'_>) -> bool {
        let tickets = &self.appender.tickets;
        let Some((place, way)) = tickets.check_out_first() else { return false };
        match self.pressure.enter(way, task) {
            Ok(Entry::NotYet(way)) => {
                self.check_in(place, way);
                false
            }
            Ok(Entry::BackToTheBrake(way)) => {
                tickets.all_back_to_the_brake();
                self.check_in(place, way);
                true
            }
            Ok(Entry::Open(room, way)) => self.enter_with(place, room, way),
            Err(error) => {
                self.refuse_tickets(tickets.remove(place), |_, _| error.clone());
                true
            }
        }
    }

    /// A ticket that has room enters the queue, or lines up again for a place; whether it entered, or is gone.
    fn enter_with(&self, place: Place, room: Room, mut way: Way) -> bool {
        let tickets = &self.appender.tickets;
        let Some(mut ticket) = tickets.remove(place) else { return true };
        let batch = std::mem::take(&mut ticket.batch);
        match self.push_ticket(batch, ticket.durability, room, &ticket.cell) {
            Ok(()) => {
                tickets.gone();
                true
            }
            Err(refused) => {
                let (batch, room) = *refused;
                Pressure::wait_again(&mut way, room);
                ticket.batch = batch;
                ticket.way = Some(way);
                let came_late = tickets.put_back(place, ticket);
                self.refuse_tickets(came_late, |_, _| Error::ShutdownInProgress);
                false
            }
        }
    }

    /// The first ticket before the brake goes on to the FIFO for room, if nothing holds it; whether anything moved.
    fn pass_the_brake(&self, task: &mut Context<'_>) -> bool {
        let tickets = &self.appender.tickets;
        let Some((place, mut way)) = tickets.check_out_at_brake() else { return false };
        match self.pressure.step_past_the_brake(self, &mut way, task) {
            Poll::Pending => {
                self.check_in(place, way);
                false
            }
            Poll::Ready(Ok(())) => {
                self.check_in(place, way);
                true
            }
            Poll::Ready(Err(error)) => {
                self.refuse_tickets(tickets.remove(place), |_, _| error.clone());
                true
            }
        }
    }

    fn check_in(&self, place: Place, way: Way) {
        let deadline = self.pressure.patience(&way);
        drop(self.appender.tickets.check_in(place, way, deadline)); // cancelled meanwhile: gives its place up
    }

    /// When the ticket that the brake holds has to be looked at again; sees to it that a stop ends.
    fn look_again_at_the_brake(&self) -> Option<u64> {
        let (place, way) = self.appender.tickets.check_out_at_brake()?;
        let again = way.wake_at();
        self.check_in(place, way);
        self.pressure.see_to_the_stop(self);
        Some(again.unwrap_or_else(|| deadline_after(self.clock.now_nanos(), SLICE)))
    }

    /// Gives tickets that were taken out their batches back.
    pub(super) fn refuse_tickets(
        &self,
        tickets: impl IntoIterator<Item = WaitingTicket>,
        why: impl Fn(&Self, Option<Way>) -> Error,
    ) {
        for ticket in tickets {
            ticket.cell.refuse(WriteError::refused(why(self, ticket.way), ticket.batch));
            self.appender.tickets.gone();
        }
    }

    /// Runs callbacks until the database closes.
    fn run_callbacks(&self) {
        let callbacks = &self.appender.callbacks;
        loop {
            let seen = callbacks.bell.rings();
            while self.run_one_callback() {}
            if self.is_closing() {
                return;
            }
            callbacks.bell.wait_past(seen);
        }
    }

    /// A panic of a callback is its owner's; it is written to LOG.
    pub(super) fn run_one_callback(&self) -> bool {
        catch_unwind(AssertUnwindSafe(|| self.appender.callbacks.run_one())).unwrap_or_else(|_| {
            self.info_log
                .error("a callback of an asynchronous write panicked; see the standard error output");
            true
        })
    }
}
