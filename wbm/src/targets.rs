//! Flush targets and what is on its way for each: the book that [`FlushPolicy`](crate::flush_policy::FlushPolicy) and
//! liveness read.
//!
//! A target is asked by the manager, or flushes for a reason of its own (a full memtable, a user's call); either way
//! its engine says when that flush is queued, starts and ends. Per target at most one flush is asked for, one queued,
//! one running and one waiting for its retry. Targets are held weakly and called without the lock.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use crate::database::DatabaseShared;
use crate::flush_policy::InFlight;
use crate::sync::Mutex;

/// Something that can be flushed on its own: one column family, or all of a database that flushes atomically.
pub trait FlushTarget: Send + Sync {
    /// What a flush of it would free. May take the engine's own leaf locks, no others; called without any of ours.
    fn reclaimable(&self) -> Reclaimable;

    /// Marks the target and wakes its flush thread; says whether a flush will really be queued.
    ///
    /// Never blocks and takes no lock that a writer may wait with. Refuse (false) only while closing, failed or
    /// read-only, or with nothing left to flush; a stop is never a reason. Accepting is a promise: report
    /// [`TargetGuard::flush_queued`](crate::TargetGuard::flush_queued) or
    /// [`flush_started`](crate::TargetGuard::flush_started), or
    /// [`flush_ended`](crate::TargetGuard::flush_ended) with [`FlushOutcome::Nothing`].
    fn request_flush(&self) -> bool;
}

/// What a flush of a target would free.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reclaimable {
    /// Bytes in its mutable memtable and in sealed ones that are not in a flush.
    pub bytes: u64,
    /// The part of [`bytes`](Self::bytes) in the mutable memtable.
    pub mutable: u64,
    /// When the oldest of these memtables was created, on any scale that rises with time; `None` without one.
    pub oldest: Option<u64>,
    /// A flush of it is wanted, queued, running or waiting for its retry already.
    pub pending: bool,
}

/// How a flush ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushOutcome {
    /// Its SST is installed; its charges have left the pressure before this was reported.
    Done,
    /// It failed and will be queued again after a pause; its charges are back in sealed.
    Failed,
    /// There was nothing to flush, or the request was dropped.
    Nothing,
}

/// Identity of a target within its manager; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetId(pub(crate) u64);

/// A request that was accepted, or is being made, and of which the engine has reported nothing yet.
#[derive(Debug, Clone, Copy)]
struct Asked {
    bytes: u64,
    mutable: u64,
    /// When, ns.
    at: u64,
    /// The call of `request_flush` is going on.
    calling: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Flight {
    asked: Option<Asked>,
    queued: Option<u64>,
    running: Option<u64>,
    retrying: Option<u64>,
}

struct Entry {
    database: Arc<DatabaseShared>,
    target: Weak<dyn FlushTarget>,
    flight: Flight,
}

/// All targets of a manager.
#[derive(Default)]
pub(crate) struct Targets {
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    entries: BTreeMap<TargetId, Entry>,
    last: u64,
}

/// A target and what it said a moment ago.
pub(crate) struct Candidate {
    pub(crate) id: TargetId,
    pub(crate) target: Arc<dyn FlushTarget>,
    pub(crate) reclaimable: Reclaimable,
}

/// Flushes by stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FlightReport {
    /// Asked for or queued.
    pub(crate) queued: u64,
    pub(crate) running: u64,
    pub(crate) retrying: u64,
    /// Bytes of those queued and running.
    pub(crate) planned: u64,
    /// Some flush that frees memory was reported as queued or running.
    pub(crate) frees: bool,
}

impl Flight {
    fn is_idle(&self) -> bool {
        self.asked.is_none() && self.queued.is_none() && self.running.is_none() && self.retrying.is_none()
    }
}

impl Targets {
    pub(crate) fn attach(&self, database: Arc<DatabaseShared>, target: Weak<dyn FlushTarget>) -> TargetId {
        let mut book = self.book.lock();
        book.last += 1;
        let id = TargetId(book.last);
        book.entries.insert(id, Entry { database, target, flight: Flight::default() });
        id
    }

    pub(crate) fn detach(&self, id: TargetId) {
        let entry = self.book.lock().entries.remove(&id);
        drop(entry); // outside the lock: the last reference to a database may go with it
    }

    pub(crate) fn queued(&self, id: TargetId, bytes: u64) {
        self.with(id, |flight| {
            flight.asked = None;
            flight.retrying = None;
            flight.queued = Some(bytes);
        });
    }

    pub(crate) fn started(&self, id: TargetId, bytes: u64) {
        self.with(id, |flight| *flight = Flight { running: Some(bytes), ..Flight::default() });
    }

    pub(crate) fn ended(&self, id: TargetId, outcome: FlushOutcome) {
        self.with(id, |flight| match (outcome, flight.running.take()) {
            (FlushOutcome::Failed, ran) => {
                let bytes = ran.or(flight.queued.take()).unwrap_or(0);
                *flight = Flight { retrying: Some(bytes), ..Flight::default() };
            }
            (_, Some(_)) => {}
            (_, None) => *flight = Flight::default(),
        });
    }

    fn with(&self, id: TargetId, change: impl FnOnce(&mut Flight)) {
        if let Some(entry) = self.book.lock().entries.get_mut(&id) {
            change(&mut entry.flight);
        }
    }

    /// Asks every live target what it holds, without the lock. Targets that are gone are forgotten.
    pub(crate) fn survey(&self) -> Vec<Candidate> {
        let mut gone = Vec::new();
        let live: Vec<_> = {
            let mut book = self.book.lock();
            let dead: Vec<TargetId> = {
                let entries = book.entries.iter();
                entries.filter(|(_, entry)| entry.target.strong_count() == 0).map(|(id, _)| *id).collect()
            };
            gone.extend(dead.into_iter().filter_map(|id| book.entries.remove(&id)));
            book.entries.iter().filter_map(|(id, entry)| Some((*id, entry.target.upgrade()?))).collect()
        };
        drop(gone);
        let ask = |(id, target): (TargetId, Arc<dyn FlushTarget>)| {
            let reclaimable = target.reclaimable();
            Candidate { id, target, reclaimable }
        };
        live.into_iter().map(ask).collect()
    }

    pub(crate) fn in_flight(&self) -> InFlight {
        self.book.lock().in_flight()
    }

    /// If `wanted` says so of what is on its way: marks the first of `candidates` for which nothing is on its way as
    /// asked, in one step, and takes it out of the list. `Ok(None)` if there is none; `Err` if no flush is wanted.
    pub(crate) fn claim_first(
        &self,
        candidates: &mut Vec<Candidate>,
        now: u64,
        wanted: impl FnOnce(InFlight) -> bool,
    ) -> Result<Option<Candidate>, InFlight> {
        let mut book = self.book.lock();
        let flight = book.in_flight();
        if !wanted(flight) {
            return Err(flight);
        }
        while !candidates.is_empty() {
            let candidate = candidates.remove(0);
            let Some(entry) = book.entries.get_mut(&candidate.id) else { continue };
            if entry.flight.is_idle() {
                let Reclaimable { bytes, mutable, .. } = candidate.reclaimable;
                entry.flight.asked = Some(Asked { bytes, mutable, at: now, calling: true });
                return Ok(Some(candidate));
            }
        }
        Ok(None)
    }

    /// The answer to a request that [`claim_first`](Self::claim_first) marked.
    pub(crate) fn answered(&self, id: TargetId, accepted: bool) {
        self.with(id, |flight| match &mut flight.asked {
            Some(asked) if accepted => asked.calling = false,
            Some(asked) if asked.calling => flight.asked = None,
            _ => {}
        });
    }

    /// Forgets requests older than `age` whose target says that nothing is pending: they were lost.
    pub(crate) fn forget_lost(&self, survey: &[Candidate], now: u64, age: u64) -> u64 {
        let mut book = self.book.lock();
        let mut lost = 0;
        for seen in survey.iter().filter(|seen| !seen.reclaimable.pending) {
            let Some(entry) = book.entries.get_mut(&seen.id) else { continue };
            let old = |asked: &Asked| !asked.calling && now.saturating_sub(asked.at) >= age;
            if entry.flight.asked.as_ref().is_some_and(old) {
                entry.flight.asked = None;
                lost += 1;
            }
        }
        lost
    }

    pub(crate) fn report(&self) -> FlightReport {
        let book = self.book.lock();
        let mut report = FlightReport::default();
        for Flight { asked, queued, running, retrying } in book.entries.values().map(|entry| entry.flight) {
            let asked = asked.map(|asked| asked.bytes);
            report.queued += [asked, queued].iter().flatten().count() as u64;
            report.running += u64::from(running.is_some());
            report.retrying += u64::from(retrying.is_some());
            let bytes: u64 = [asked, queued, running].iter().flatten().sum();
            report.planned += bytes;
            report.frees |= queued.unwrap_or(0) + running.unwrap_or(0) > 0;
        }
        report
    }

    pub(crate) fn len(&self) -> usize {
        self.book.lock().entries.len()
    }

    /// Targets of `database` that are attached.
    pub(crate) fn of_database(&self, database: u64) -> usize {
        self.book.lock().entries.values().filter(|entry| entry.database.id == database).count()
    }
}

impl Book {
    fn in_flight(&self) -> InFlight {
        let mut sum = InFlight::default();
        for Flight { asked, queued, running, .. } in self.entries.values().map(|entry| entry.flight) {
            if let Some(asked) = asked {
                sum.flushes += 1;
                sum.planned += asked.bytes;
                sum.planned_mutable += asked.mutable;
            }
            for bytes in [queued, running].into_iter().flatten() {
                sum.flushes += 1;
                sum.planned += bytes;
            }
        }
        sum
    }
}

impl std::fmt::Debug for Targets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Targets").field("len", &self.len()).finish_non_exhaustive()
    }
}
