//! [`WaitingTickets`]: asynchronous writes that wait for the brake or for room in the commit queue, in order.
//!
//! They lie here with their batches, own no bytes of the queue, and are moved on by the appender alone: it takes a
//! ticket's [`Way`] out, steps it with no lock held, and puts it back; a ticket that was cancelled meanwhile is not
//! there any more. The tickets in front stand in the queue's FIFO for room, those behind before the brake. How a way
//! is stepped, and when, is not known here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sluicedb_wbm::{MemoryLease, MemoryPool};

use super::pressure::Way;
use crate::batch::{WriteBatch, WriteError};
use crate::commit::TicketCell;
use crate::env::Clock;
use crate::error::Error;
use crate::options::Durability;
use crate::sync::Mutex;

/// Names a waiting ticket; later ones are larger.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(u64);

/// A ticket that waits.
#[derive(Debug)]
pub(super) struct WaitingTicket {
    pub(super) batch: WriteBatch,
    pub(super) durability: Durability,
    pub(super) cell: Arc<TicketCell>,
    /// Away while the appender steps it.
    pub(super) way: Option<Way>,
    /// When its patience ends, clock time in ns.
    deadline: Option<u64>,
    /// Its bytes of this list.
    _lease: MemoryLease,
}

/// Tickets that wait, in order.
#[derive(Debug)]
pub(super) struct WaitingTickets {
    list: Mutex<List>,
    /// Tickets that have not entered the queue: those of the list, and one on its way from here into the queue.
    count: AtomicUsize,
    /// Bounds the list, with the queue's rule: one byte of room admits any batch.
    room: MemoryPool,
}

#[derive(Debug, Default)]
struct List {
    tickets: BTreeMap<Place, WaitingTicket>,
    next: u64,
    /// Tickets before it stand in the FIFO for room; it and those behind it stand before the brake.
    first_at_brake: Place,
    /// No deadline is earlier.
    soonest: Option<u64>,
    closed: bool,
}

impl WaitingTickets {
    pub(super) fn new(bytes: u64, clock: &Arc<dyn Clock>) -> Self {
        Self {
            list: Mutex::default(),
            count: AtomicUsize::new(0),
            room: MemoryPool::new(bytes, Arc::clone(clock)),
        }
    }

    /// Whether nobody waits. A thread that finds it so after its own tickets passes nobody that it must not pass.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tickets that have not entered the queue.
    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// The bound of the list, and what is taken of it.
    pub(super) fn room(&self) -> &MemoryPool {
        &self.room
    }

    /// Adds a ticket at the end.
    ///
    /// # Errors
    ///
    /// The batch, and why it cannot wait: no room in the list, or closing.
    pub(super) fn add(
        &self,
        batch: WriteBatch,
        durability: Durability,
        way: Way,
        deadline: Option<u64>,
        cell: &Arc<TicketCell>,
    ) -> Result<Place, WriteError> {
        let bytes = batch.byte_size();
        let Some(lease) = self.room.try_admit(bytes) else {
            let (used, capacity) = (self.room.used(), self.room.capacity());
            return Err(WriteError::refused(Error::QueueFull { bytes, used, capacity }, batch));
        };
        let mut list = self.list.lock();
        if list.closed {
            drop(list);
            return Err(WriteError::refused(Error::ShutdownInProgress, batch));
        }
        self.count.fetch_add(1, Ordering::SeqCst);
        let place = Place(list.next);
        list.next += 1;
        list.note_deadline(deadline);
        let cell = Arc::clone(cell);
        let ticket = WaitingTicket { batch, durability, cell, way: Some(way), deadline, _lease: lease };
        list.tickets.insert(place, ticket);
        Ok(place)
    }

    /// Takes a ticket out for good; call [`gone`](Self::gone) once it is in the queue or refused.
    pub(super) fn remove(&self, place: Place) -> Option<WaitingTicket> {
        self.list.lock().tickets.remove(&place)
    }

    /// Puts a ticket back where it was taken out; once closed it comes back.
    pub(super) fn put_back(&self, place: Place, ticket: WaitingTicket) -> Option<WaitingTicket> {
        let mut list = self.list.lock();
        if list.closed {
            return Some(ticket);
        }
        list.note_deadline(ticket.deadline);
        list.tickets.insert(place, ticket);
        None
    }

    /// A ticket that was taken out is in the queue, or refused.
    pub(super) fn gone(&self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
    }

    /// Takes out the way of the first ticket, if it stands in the FIFO for room.
    pub(super) fn check_out_first(&self) -> Option<(Place, Way)> {
        let mut list = self.list.lock();
        let behind = list.first_at_brake;
        let (place, ticket) = list.tickets.range_mut(..behind).next()?;
        Some((*place, ticket.way.take()?))
    }

    /// Takes out the way of the first ticket that stands before the brake.
    pub(super) fn check_out_at_brake(&self) -> Option<(Place, Way)> {
        let mut list = self.list.lock();
        let from = list.first_at_brake;
        let (place, ticket) = list.tickets.range_mut(from..).next()?;
        Some((*place, ticket.way.take()?))
    }

    /// Puts a way back where it was taken out. It comes back if the ticket is gone.
    pub(super) fn check_in(&self, place: Place, way: Way, deadline: Option<u64>) -> Option<Way> {
        let mut list = self.list.lock();
        if !list.tickets.contains_key(&place) {
            return Some(way);
        }
        if !way.is_at_brake() {
            list.first_at_brake = list.first_at_brake.max(Place(place.0 + 1));
        }
        let Some(ticket) = list.tickets.get_mut(&place) else { return Some(way) };
        ticket.way = Some(way);
        ticket.deadline = deadline;
        list.note_deadline(deadline);
        None
    }

    /// Sends every ticket back to the brake: a stop has begun, and nobody may keep room, or a place for it, over a stop.
    pub(super) fn all_back_to_the_brake(&self) {
        let mut list = self.list.lock();
        list.first_at_brake = Place(0);
        for way in list.tickets.values_mut().filter_map(|ticket| ticket.way.as_mut()) {
            way.go_back_to_the_brake();
        }
    }

    /// Takes out the tickets whose patience has ended.
    pub(super) fn take_expired(&self, now: u64) -> Vec<WaitingTicket> {
        let mut list = self.list.lock();
        if list.soonest.is_none_or(|soonest| soonest > now) {
            return Vec::new();
        }
        let is_due = |ticket: &WaitingTicket| ticket.deadline.is_some_and(|deadline| deadline <= now);
        let due: Vec<Place> =
            list.tickets.iter().filter(|(_, ticket)| is_due(ticket)).map(|(place, _)| *place).collect();
        let expired = due.iter().filter_map(|place| list.tickets.remove(place)).collect();
        list.soonest = list.tickets.values().filter_map(|ticket| ticket.deadline).min();
        expired
    }

    /// Takes out all tickets; with `close`, none is added any more.
    pub(super) fn take_all(&self, close: bool) -> Vec<WaitingTicket> {
        let mut list = self.list.lock();
        list.closed |= close;
        std::mem::take(&mut list.tickets).into_values().collect()
    }

    /// When somebody has to look at the patience of tickets, at the latest.
    pub(super) fn soonest(&self) -> Option<u64> {
        self.list.lock().soonest
    }
}

impl List {
    fn note_deadline(&mut self, deadline: Option<u64>) {
        self.soonest = [self.soonest, deadline].into_iter().flatten().min();
    }
}
