//! The way of one write through the brake and into the commit queue.
//!
//! Waits happen here, with no lock, no queue room and no lead held. What a delay is, and when a stop ends, is the
//! controller's and the manager's affair.

use std::time::Duration;

use sluicedb_controller::{Admission, NotNow, Turn, WaitEnded, Waited, Wake, deadline_after};
use sluicedb_wbm::{MemoryLease, PoolAdmission, PoolTurn, PoolWaitEnded};

use super::Pressure;
use super::report::name_holder;
use crate::column_family::ColumnFamily;
use crate::db::Shared;
use crate::error::{Error, Result};
use crate::memtable::Prepaid;
use crate::options::WriteOptions;
use crate::sync::forbid_held_locks;

/// Holders of memory named in a refusal.
const NAMED_HOLDERS: usize = 5;

/// One write on its way through the brake.
#[derive(Debug)]
pub(in crate::db) struct Admitted {
    pub(super) no_slowdown: bool,
    pub(super) low_pri: bool,
    /// The write's own limit; without one that of the database holds, as it is at the time.
    pub(super) limit: Option<Duration>,
    /// When its wait for room ends, ns, once it waits.
    pub(super) room_until: Option<u64>,
    /// The delay has been served: from here on only a stop holds it.
    pub(super) paid: bool,
    pub(super) waited: Waited,
    /// Let through although writers are stopped; not to be tested again.
    pub(super) rescued: bool,
}

/// How large a write is, for the two who ask.
#[derive(Debug, Clone, Copy)]
pub(in crate::db) struct UnitSize {
    /// Encoded bytes: what the brake paces and the manager counts.
    pub(in crate::db) batch: u64,
    /// The same with the log's framing: what it takes of the commit queue.
    pub(in crate::db) unit: u64,
}

/// What a write holds between the brake and its memtables.
#[derive(Debug)]
pub(in crate::db) struct Room {
    pub(in crate::db) prepaid: Prepaid,
    /// Its room in the commit queue; returned before its caller is told.
    lease: MemoryLease,
}

impl Room {
    /// It has its place in the queue. Whether a hold of the queue's pool let it through.
    pub(in crate::db) fn settle(&mut self) -> bool {
        self.lease.settle()
    }

    /// Its room is free again, before it is committed.
    #[cfg(feature = "bench-arms")]
    pub(in crate::db) fn release(&mut self) {
        drop(self.lease.take());
    }

    /// The queue has no place for it: its room returns, and it waits for `bytes` where it stood.
    pub(super) fn go_back(self, bytes: u64) -> PoolTurn {
        let Self { prepaid, lease } = self;
        drop(prepaid);
        lease.go_back(bytes)
    }
}

/// The way of one write.
impl Pressure {
    /// A write with these options, at the beginning of its way.
    #[inline]
    pub(in crate::db) fn begin(&self, options: &WriteOptions) -> Admitted {
        Admitted {
            no_slowdown: options.no_slowdown,
            low_pri: options.low_pri,
            limit: options.stall_timeout,
            room_until: None,
            paid: false,
            waited: Waited::default(),
            rescued: false,
        }
    }

    /// Admission by the brake, then room in the commit queue by bytes, then the stop once more: in the other order each
    /// thread could slip one stale batch past a stop. Waits with no lock held.
    ///
    /// `nudge` is called when the writer parks and once a second while it waits: it makes sure that work is under way
    /// which ends the stop.
    #[inline]
    pub(in crate::db) fn admit(&self, shared: &Shared, size: UnitSize, write: &mut Admitted) -> Result<Room> {
        let outcome = self.admit_write(shared, size, write);
        let waited = write.waited.total();
        if !waited.is_zero() {
            shared.stats.write_stall.record(u64::try_from(waited.as_micros()).unwrap_or(u64::MAX));
        }
        outcome
    }

    #[inline]
    fn admit_write(&self, shared: &Shared, size: UnitSize, write: &mut Admitted) -> Result<Room> {
        loop {
            self.pass_brake(shared, size.batch, write)?;
            let lease = self.queue_room(size.unit, write)?;
            if let Some(room) = self.enter_with(size, write, lease) {
                return Ok(room);
            }
        }
    }

    /// The queue has refused a write that had room: it waits for its place, and is tested once more like any other.
    #[cold]
    pub(in crate::db) fn admit_refused(
        &self,
        shared: &Shared,
        size: UnitSize,
        room: Room,
        write: &mut Admitted,
    ) -> Result<Room> {
        if write.no_slowdown {
            return Err(self.queue_full(size.unit));
        }
        let lease = self.wait_for_turn(room.go_back(size.unit), size.unit, write)?;
        match self.enter_with(size, write, lease) {
            Some(room) => Ok(room),
            None => self.admit(shared, size, write),
        }
    }

    /// The last test of a write that has room: `None`, and the room is returned, if a stop has begun since.
    #[inline]
    pub(super) fn enter_with(&self, size: UnitSize, write: &Admitted, lease: MemoryLease) -> Option<Room> {
        if self.database.is_oversized(size.batch) {
            // It is not held by its own charge; whoever loses the race for it goes back to the gate.
            let advance = self.database.admit_alone(size.batch)?;
            return Some(Room { prepaid: Prepaid::Alone(advance), lease });
        }
        if self.client.is_stopped() && !write.rescued {
            return None;
        }
        Some(Room { prepaid: Prepaid::Queued(self.database.queue(size.batch)), lease })
    }

    #[inline]
    fn pass_brake(&self, shared: &Shared, bytes: u64, write: &mut Admitted) -> Result<()> {
        if write.low_pri && !write.paid && self.needs_speed_up(shared) {
            self.pass_low_priority(shared, bytes, write)?;
        }
        if write.no_slowdown {
            let now = if write.paid { 0 } else { bytes };
            self.client.try_admit(now).map_err(|refused| self.refusal(shared, &refused, write))?;
        } else {
            let admission =
                if write.paid { self.client.admit_again(bytes) } else { self.client.admit(bytes) };
            if let Admission::Wait(turn) = admission
                && !self.wait(shared, turn, write)?
            {
                return self.pass_brake(shared, bytes, write);
            }
        }
        write.paid = true;
        Ok(())
    }

    /// Whether writers are held, or compaction is behind with any family.
    #[cold]
    pub(super) fn needs_speed_up(&self, shared: &Shared) -> bool {
        let behind = |family: &ColumnFamily| family.data.pressure().is_some_and(|it| it.is_behind());
        self.slows_writers() || shared.families.all().iter().any(behind)
    }

    #[cold]
    fn pass_low_priority(&self, shared: &Shared, bytes: u64, write: &mut Admitted) -> Result<()> {
        match self.client.admit_low_priority(bytes) {
            Admission::Passed => Ok(()),
            Admission::Wait(_) if write.no_slowdown => {
                Err(self.stalled(shared, "low priority".to_owned(), write))
            }
            Admission::Wait(turn) => self.wait(shared, turn, write).map(drop),
        }
    }

    /// Waits for the turn. False: the database failed meanwhile and has been resumed since, so ask anew.
    #[cold]
    fn wait(&self, shared: &Shared, mut turn: Turn, write: &mut Admitted) -> Result<bool> {
        forbid_held_locks("wait for the brake");
        let ended = loop {
            if self.client.is_stopped() {
                self.manager.check_liveness();
                shared.make_sure_that_stops_end();
            }
            // The limit holds for delay and stop together, over all turns of this write.
            let limit = write.limit.or_else(|| self.timeouts.stall());
            match turn.wait(limit.map(|limit| limit.saturating_sub(write.waited.total()))) {
                Ok(Wake::Passed) => break Ok(()),
                Ok(Wake::Slice) => {}
                Err(ended) => break Err(ended),
            }
        };
        let waited = turn.waited();
        write.waited.delayed += waited.delayed;
        write.waited.stopped += waited.stopped;
        write.rescued = waited.rescued;
        write.room_until = None; // its patience for room begins anew behind the brake
        match ended {
            Ok(()) => Ok(true),
            Err(WaitEnded::TimedOut) => {
                Err(self.stalled(shared, format!("timeout, {}", self.strictest()), write))
            }
            Err(WaitEnded::Failed) => shared.check_writable().map(|()| false),
            Err(WaitEnded::Shutdown | WaitEnded::Cancelled) => Err(Error::ShutdownInProgress),
        }
    }

    #[inline]
    fn queue_room(&self, bytes: u64, write: &mut Admitted) -> Result<MemoryLease> {
        match self.queue.try_admit(bytes) {
            Some(lease) => Ok(lease),
            None => self.wait_for_queue_room(bytes, write),
        }
    }

    #[cold]
    fn wait_for_queue_room(&self, bytes: u64, write: &mut Admitted) -> Result<MemoryLease> {
        if write.no_slowdown {
            return Err(self.queue_full(bytes));
        }
        match self.queue.start_admit(bytes) {
            PoolAdmission::Admitted(lease) => Ok(lease),
            PoolAdmission::Wait(turn) => self.wait_for_turn(turn, bytes, write),
        }
    }

    pub(in crate::db) fn queue_full(&self, bytes: u64) -> Error {
        Error::QueueFull { bytes, used: self.queue.used(), capacity: self.queue.capacity() }
    }

    fn wait_for_turn(&self, mut turn: PoolTurn, bytes: u64, write: &mut Admitted) -> Result<MemoryLease> {
        forbid_held_locks("wait for room in the commit queue");
        let write_timeout = self.timeouts.write();
        let until = || deadline_after(self.clock.now_nanos(), write_timeout);
        let deadline = *write.room_until.get_or_insert_with(until);
        turn.wait(Some(deadline)).map_err(|ended| match ended {
            PoolWaitEnded::Closed => Error::ShutdownInProgress,
            _ => Error::QueueWaitTimeout { bytes, waited: write_timeout },
        })
    }

    fn refusal(&self, shared: &Shared, refused: &NotNow, write: &Admitted) -> Error {
        let cause = match refused {
            NotNow::Delayed(source) => format!("delay, {source}"),
            NotNow::Stopped(source) => format!("stop, {source}"),
        };
        self.stalled(shared, cause, write)
    }

    #[cold]
    pub(super) fn stalled(&self, shared: &Shared, cause: String, write: &Admitted) -> Error {
        shared.stats.writes_refused.add(1);
        let usage = self.manager.usage_report();
        let mut holders: Vec<String> =
            self.manager.holders().iter().take(NAMED_HOLDERS).map(name_holder).collect();
        holders.push(format!(
            "{} of {} bytes used, {} pinned",
            usage.used,
            self.manager.quota_bytes(),
            usage.pinned
        ));
        Error::Stalled { cause, waited: write.waited.total(), holders: holders.join("; ") }
    }

    pub(super) fn strictest(&self) -> String {
        self.controller
            .stats()
            .strictest
            .map_or_else(|| "nobody holds it now".to_owned(), |source| source.to_string())
    }
}
