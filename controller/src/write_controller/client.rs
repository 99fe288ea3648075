//! [`Client`]: one database as the controller sees it: it asks, and it can be interrupted as a whole.

use std::num::NonZeroU64;
use std::sync::Arc;

use super::{LOCKED, LaneId, STOPPED};
use crate::gate::Cause;
use crate::sync::atomic::Ordering;
use crate::{Requirement, Source, SourceId, SourceKind, Tally, Turn, WaitEnded, WriteController};

/// Identity of a [`Client`] within its controller: 1, 2, 3 ..., never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub(super) NonZeroU64);

impl ClientId {
    /// The number.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

/// What [`Client::admit`] answers.
#[derive(Debug)]
#[must_use]
pub enum Admission {
    /// Write now.
    Passed,
    /// Wait for the turn, holding nothing, then write.
    Wait(Turn),
}

/// Why [`Client::try_admit`] refused. Nothing was charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotNow {
    /// Writers are delayed and the batch would have to sleep. Names the strictest source.
    #[error("writes are delayed by {0}")]
    Delayed(SourceId),
    /// Writers are stopped. Names the strictest source.
    #[error("writes are stopped by {0}")]
    Stopped(SourceId),
}

/// Why all waits of a client end, until it is cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt {
    /// The database failed: waits end with [`WaitEnded::Failed`].
    Failed,
    /// The database shuts down: waits end with [`WaitEnded::Shutdown`].
    Shutdown,
}

impl From<Interrupt> for WaitEnded {
    fn from(interrupt: Interrupt) -> Self {
        match interrupt {
            Interrupt::Failed => Self::Failed,
            Interrupt::Shutdown => Self::Shutdown,
        }
    }
}

/// A registered database. Dropping it ends the waits of its writers with [`WaitEnded::Shutdown`].
#[derive(Debug)]
pub struct Client {
    controller: Arc<WriteController>,
    id: ClientId,
}

impl Client {
    pub(super) fn new(controller: Arc<WriteController>, id: ClientId) -> Self {
        Self { controller, id }
    }

    /// Its identity.
    pub fn id(&self) -> ClientId {
        self.id
    }

    /// The controller that it is registered with.
    pub fn controller(&self) -> &Arc<WriteController> {
        &self.controller
    }

    /// Asks for `bytes`, the encoded size of one batch, to be written: passes at once, or answers with a turn to wait
    /// for. Call it before the batch joins any queue, with no lock held.
    ///
    /// While nothing holds writers back this is one atomic load.
    #[inline]
    pub fn admit(&self, bytes: u64) -> Admission {
        if self.controller.held.load(Ordering::SeqCst) == 0 {
            return Admission::Passed;
        }
        self.ask(LaneId::Main, bytes, false)
    }

    /// The same for a batch that [`admit`](Self::admit) let pass before and that found a stop in its way since: waits
    /// while stopped and pays no second time.
    #[inline]
    pub fn admit_again(&self, bytes: u64) -> Admission {
        if self.controller.held.load(Ordering::SeqCst) == 0 {
            return Admission::Passed;
        }
        self.ask(LaneId::Main, bytes, true)
    }

    /// Passes `bytes` if that takes no wait.
    ///
    /// # Errors
    ///
    /// [`NotNow`] if the batch would have to sleep or park; it is counted as rejected and not charged.
    #[inline]
    pub fn try_admit(&self, bytes: u64) -> Result<(), NotNow> {
        if self.controller.held.load(Ordering::SeqCst) == 0 {
            return Ok(());
        }
        self.try_ask(bytes)
    }

    /// Asks the second pacer, 1 MiB/s whatever the sources say: for low-priority batches, before
    /// [`admit`](Self::admit). Call it while compactions are to be sped up; otherwise low priority costs nothing.
    pub fn admit_low_priority(&self, bytes: u64) -> Admission {
        self.ask(LaneId::LowPriority, bytes, false)
    }

    /// Whether this client's writers are stopped: by a source that holds everybody, or by its own
    /// [`lock_wal`](Self::lock_wal). One atomic load unless somebody holds a WAL lock.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        let held = self.controller.held.load(Ordering::SeqCst);
        held & STOPPED != 0 || (held & LOCKED != 0 && self.is_locked())
    }

    /// Stops the writers of this client only, until the returned source is dropped. Others on the same controller are
    /// not touched.
    pub fn lock_wal(&self) -> Source {
        let id = SourceId::new(SourceKind::LockWal);
        let source = Source { controller: Arc::clone(&self.controller), id, scope: Some(self.id) };
        source.require(Requirement::Stopped);
        source
    }

    /// Ends every wait of this client at once, and those that begin until [`clear`](Self::clear). Others sharing the
    /// controller wait on. A batch that needs no wait still passes: test for failure and shutdown before asking.
    pub fn interrupt(&self, why: Interrupt) {
        let now = self.controller.clock.now_nanos();
        self.controller.with_core(|core| {
            if let Some(entry) = core.clients.get_mut(&self.id) {
                entry.interrupt = Some(why);
            }
            core.main.refuse_client(self.id, why.into(), now);
            core.low.refuse_client(self.id, why.into(), now);
        });
    }

    /// Lets whoever waits for a turn of this client look around at once, not only at the end of its slice: what bounds its
    /// wait may have changed. The waits go on.
    pub fn look_again(&self) {
        self.controller.with_core(|core| {
            core.main.nudge_client(self.id);
            core.low.nudge_client(self.id);
        });
    }

    /// Waits are possible again, as after `resume()`.
    pub fn clear(&self) {
        self.controller.with_core(|core| {
            if let Some(entry) = core.clients.get_mut(&self.id) {
                entry.interrupt = None;
            }
        });
    }

    /// What happened to the writers of this client so far.
    pub fn tally(&self) -> Tally {
        let now = self.controller.clock.now_nanos();
        self.controller.with_core(|core| {
            core.main.settle_all(now);
            core.low.settle_all(now);
            core.book();
            core.clients.get(&self.id).map_or_else(Tally::default, |entry| entry.tally)
        })
    }

    /// The name given at registration.
    pub fn name(&self) -> String {
        self.controller
            .with_core(|core| core.clients.get(&self.id).map(|entry| entry.name.clone()))
            .unwrap_or_default()
    }

    #[cold]
    fn is_locked(&self) -> bool {
        self.controller.with_core(|core| core.main.is_stopped_for(self.id))
    }

    #[cold]
    fn ask(&self, lane: LaneId, bytes: u64, paid: bool) -> Admission {
        let now = self.controller.clock.now_nanos();
        let waiter = self.controller.with_core(|core| {
            let interrupt = core.interrupt_of(self.id);
            let lane = core.lane(lane);
            match interrupt {
                None => lane.admit(self.id, bytes, paid, now),
                Some(_) if paid && !lane.is_stopped_for(self.id) => None,
                Some(_) if lane.try_admit(self.id, bytes, now).is_ok() => None,
                Some(why) => Some(lane.join_ended(self.id, why.into(), now)),
            }
        });
        match waiter {
            None => Admission::Passed,
            Some(id) => Admission::Wait(Turn::new(Arc::clone(&self.controller), lane, id, now)),
        }
    }

    #[cold]
    fn try_ask(&self, bytes: u64) -> Result<(), NotNow> {
        let now = self.controller.clock.now_nanos();
        self.controller.with_core(|core| {
            let Err(place) = core.main.try_admit(self.id, bytes, now) else { return Ok(()) };
            let cause = core.main.cause_for(self.id).unwrap_or(Cause::Source(SourceKind::LockWal));
            core.tally.rejected += 1;
            core.tally.count_hold(cause, place);
            if let Some(entry) = core.clients.get_mut(&self.id) {
                entry.tally.rejected += 1;
                entry.tally.count_hold(cause, place);
            }
            let locked = || core.requirements.iter().find(|(_, entry)| entry.scope == Some(self.id));
            let source = match core.verdict.strictest {
                Some(source) if core.verdict.stopped || place == super::Place::Asleep => Some(source),
                _ => locked().map(|(source, _)| source),
            };
            let source = source.unwrap_or_else(|| SourceId::new(SourceKind::LockWal));
            Err(match place {
                super::Place::Asleep => NotNow::Delayed(source),
                super::Place::Parked => NotNow::Stopped(source),
            })
        })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.interrupt(Interrupt::Shutdown);
        self.controller.with_core(|core| core.clients.remove(&self.id));
    }
}
