//! [`WriteTicket`] and the submission of asynchronous writes: nothing here waits.
//!
//! A write enters the commit queue at once if nothing holds writers and there is room; else it joins the tickets that
//! the [appender](super::appender) moves on. What a ticket goes through afterwards is the same as for any other write.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use sluicedb_controller::deadline_after;

use super::Shared;
use super::pressure::Room;
use super::waiting::Place;
use super::write::{Work, unit_size};
use crate::batch::{WriteBatch, WriteError};
use crate::commit::{Refusal, TicketCell, Told};
use crate::error::{Error, Result};
use crate::key::SequenceNumber;
use crate::options::{Durability, WriteOptions};

/// An asynchronous write: see [`Db::write_async`](crate::Db::write_async).
///
/// It waits for the brake or for room, is queued, then done; [`wait`](Self::wait) for it, look with
/// [`try_wait`](Self::try_wait), `await` it in any runtime, or have a function called. Dropping a ticket cancels
/// nothing: the write is made all the same.
///
/// A write that was refused before it was queued gives its batch back with the error, once.
#[derive(Debug)]
pub struct WriteTicket {
    cell: Arc<TicketCell>,
    shared: Weak<Shared>,
    durability: Durability,
    /// Where it stood when it was submitted, unless it was queued at once.
    place: Option<Place>,
}

impl WriteTicket {
    /// Waits for the outcome: the last sequence of the batch.
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_opt`](crate::Db::write_opt), and [`Error::QueueFull`]; with the batch if nothing of it was
    /// queued.
    pub fn wait(self) -> Result<SequenceNumber, WriteError> {
        self.cell.wait(None).unwrap_or_else(|| Err(WriteError::failed(Error::ShutdownInProgress)))
    }

    /// The same for at most `limit`; `None` if there is no outcome by then. The ticket can be waited for again.
    pub fn wait_timeout(&mut self, limit: Duration) -> Option<Result<SequenceNumber, WriteError>> {
        self.cell.wait(Some(deadline_after(self.cell.now_nanos(), limit)))
    }

    /// The outcome if there is one, without waiting.
    pub fn try_wait(&mut self) -> Option<Result<SequenceNumber, WriteError>> {
        self.cell.try_wait()
    }

    /// Whether it waits still for the brake or for room in the commit queue. It can be
    /// [cancelled](Self::cancel) then.
    pub fn is_waiting(&self) -> bool {
        self.cell.is_waiting()
    }

    /// The last sequence of the batch, once it is written.
    pub fn sequence(&self) -> Option<SequenceNumber> {
        self.cell.sequence()
    }

    /// Calls `callback` with the outcome, from a thread of the database and with no lock held, soon after there is one.
    /// All that completed before [`Db::close`](crate::Db::close) began are called before it returns. A slow callback
    /// delays the callbacks behind it, nothing else; a panic is written to LOG.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if no thread can be started for it: it is not called then.
    pub fn on_complete(
        self,
        callback: impl FnOnce(Result<SequenceNumber, WriteError>) + Send + 'static,
    ) -> Result<()> {
        let Some(shared) = self.shared.upgrade() else {
            if let Some(told) = self.cell.try_wait() {
                callback(told); // the database is gone, and so are its threads
            }
            return Ok(());
        };
        shared.start_callbacks()?;
        self.cell.call_back(Box::new(callback));
        if shared.is_closing() {
            while shared.run_one_callback() {} // its thread may have ended
        }
        Ok(())
    }

    /// Takes the write back, if it still waits for the brake or for room.
    ///
    /// # Errors
    ///
    /// The ticket itself: the write has been queued, or is done.
    pub fn cancel(mut self) -> Result<WriteBatch, Self> {
        let Some((shared, place)) = self.shared.upgrade().zip(self.place) else { return Err(self) };
        let Some(ticket) = shared.appender.tickets.remove(place) else {
            self.place = None;
            return Err(self);
        };
        shared.appender.tickets.gone();
        shared.appender.bell.ring(); // those behind it move up
        Ok(ticket.batch)
    }

    /// Waits for the outcome, then until the write survives a power failure. Asks for no sync: see
    /// [`Db::wait_durable`](crate::Db::wait_durable).
    ///
    /// # Errors
    ///
    /// Those of [`wait`](Self::wait), and the failure of the log because of which it never will be known to be durable;
    /// [`Error::InvalidArgument`] for a write with [`Durability::None`], which is not logged.
    pub fn wait_durable(self) -> Result<SequenceNumber, WriteError> {
        let (shared, durability) = (self.shared.clone(), self.durability);
        let seq = self.wait()?;
        if durability == Durability::None {
            let why = "the write is not logged (Durability::None): flush to make it durable";
            return Err(WriteError::failed(Error::invalid("wait_durable", why)));
        }
        let shared = shared.upgrade().ok_or_else(|| WriteError::failed(Error::ShutdownInProgress))?;
        shared.wal.durability().wait_durable(seq).map_err(WriteError::failed)?;
        Ok(seq)
    }
}

impl Future for WriteTicket {
    type Output = Result<SequenceNumber, WriteError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Told> {
        self.cell.poll(context.waker()).map_or(Poll::Pending, Poll::Ready)
    }
}

impl Shared {
    /// Submits a batch and returns at once.
    pub(super) fn write_async(self: &Arc<Self>, batch: WriteBatch, options: &WriteOptions) -> WriteTicket {
        let cell = TicketCell::new(&self.appender.callbacks);
        let place = self.submit(batch, options, &cell).unwrap_or_else(|refused| {
            cell.refuse(refused);
            None
        });
        WriteTicket { cell, shared: Arc::downgrade(self), durability: options.durability, place }
    }

    /// Into the queue, or to the tickets that wait; its place there.
    fn submit(
        self: &Arc<Self>,
        batch: WriteBatch,
        options: &WriteOptions,
        cell: &Arc<TicketCell>,
    ) -> Result<Option<Place>, WriteError> {
        let checked = self.check_batch(&batch).and_then(|()| self.start_appender());
        if let Err(error) = checked {
            return Err(WriteError::refused(error, batch));
        }
        if batch.is_empty() {
            cell.set_done(Ok(self.published()));
            return Ok(None);
        }
        self.count_call(&batch);
        let (size, durability) = (unit_size(batch.byte_size(), options.durability), options.durability);
        if options.no_slowdown {
            return match self.pressure.admit(self, size, &mut self.pressure.begin(options)) {
                Ok(room) => match self.push_ticket(batch, durability, room, cell) {
                    Ok(()) => Ok(None),
                    Err(refused) => Err(WriteError::refused(self.pressure.queue_full(size.unit), refused.0)),
                },
                Err(error) => Err(WriteError::refused(error, batch)),
            };
        }
        let write = self.pressure.begin(options);
        let mut batch = batch;
        if self.appender.tickets.is_empty()
            && let Some(room) = self.pressure.admit_at_once(self, size, &write)
        {
            batch = match self.push_ticket(batch, durability, room, cell) {
                Ok(()) => return Ok(None),
                Err(refused) => refused.0, // no place: it lines up like any other, and its room returns
            };
        }
        let way = self.pressure.set_out(write, size);
        let deadline = self.pressure.patience(&way);
        let place = self.appender.tickets.add(batch, durability, way, deadline, cell)?;
        self.appender.bell.ring();
        Ok(Some(place))
    }

    /// Into the queue. What finds no place there comes back; what comes too late is refused.
    pub(super) fn push_ticket(
        &self,
        batch: WriteBatch,
        durability: Durability,
        room: Room,
        cell: &Arc<TicketCell>,
    ) -> Result<(), Box<(WriteBatch, Room)>> {
        match self.commit.push(Work::new(batch, durability, room), Arc::clone(cell) as _) {
            Ok(()) => cell.set_queued(),
            Err((Refusal::NoGroup, work)) => return Err(Box::new(work.into_parts())),
            Err((Refusal::Closed, work)) => {
                cell.refuse(WriteError::refused(Error::ShutdownInProgress, work.into_batch()));
            }
        }
        Ok(())
    }
}
