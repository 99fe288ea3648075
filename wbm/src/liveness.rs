//! Liveness: a manager is stopped only while a flush that frees memory is asked for, queued or running.
//!
//! Checked when a stop begins, whenever a flush ends or fails, when targets come and go, when the quota changes, and
//! by every writer that parks, once per slice. If nothing is under way the best candidate is asked, whatever the
//! thresholds say. Only a waiting writer's check may end in a rescue: one writer is let through, counted and logged,
//! for that is a defect. Keys and files are not known here.

use crate::sync::atomic::{AtomicU64, Ordering};

use sluicedb_controller::Pressure;

use crate::flush_policy::rank;
use crate::targets::Candidate;
use crate::{Holder, WriteBufferManager};

/// A request that its target does not know of after this long was lost: one slice, ns.
const LOST_AFTER: u64 = 1_000_000_000;

/// What liveness counted.
#[derive(Debug, Default)]
pub(crate) struct LivenessCounters {
    pub(crate) rescues: AtomicU64,
    /// Requests that were accepted and then forgotten by their target.
    pub(crate) lost_requests: AtomicU64,
}

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Liveness {
    /// Nobody is stopped.
    NotStopped,
    /// A flush that frees memory is under way, or an oversized batch on its way into its memtable.
    UnderWay,
    /// Nothing was under way; a flush was asked for and accepted.
    Asked,
    /// Only a flush that failed is waiting for its retry.
    Retrying,
    /// Nothing is under way and nobody can be asked.
    Stuck,
    /// The same, and one waiting writer was let through.
    Rescued,
}

impl WriteBufferManager {
    /// The check of a writer that waits, to be called when it parks and after each slice: finds the work that will end
    /// the stop, or starts it. Blocks on nothing.
    pub fn check_liveness(&self) -> Liveness {
        match self.check_flushes() {
            Liveness::Stuck if self.pressure() == Pressure::Stopped => self.rescue(),
            found => found,
        }
    }

    /// The same without the last resort.
    pub(crate) fn check_flushes(&self) -> Liveness {
        if self.pressure() != Pressure::Stopped {
            return Liveness::NotStopped;
        }
        // What an engine has reported it will also end; only requests may have been lost. An advance is looked at before the
        // survey: one that has been used up by then is in a memtable that the survey sees.
        if self.targets().report().frees || self.advances().load(Ordering::SeqCst) > 0 {
            return Liveness::UnderWay;
        }
        let mut candidates = self.targets().survey();
        let lost = self.targets().forget_lost(&candidates, self.now(), LOST_AFTER);
        self.liveness().lost_requests.fetch_add(lost, Ordering::Relaxed); // statistics
        // A flush that has not been reported yet, or whose end has not: that report leads to the next look.
        let pending = candidates.iter().any(|candidate| candidate.reclaimable.pending);
        candidates.retain(is_candidate);
        candidates.sort_by_key(|candidate| rank(&candidate.reclaimable));
        loop {
            if self.pressure() != Pressure::Stopped {
                return Liveness::NotStopped;
            }
            if self.advances().load(Ordering::SeqCst) > 0 {
                return Liveness::UnderWay;
            }
            // Looking and marking are one step, so that two checks do not both ask.
            match self.targets().claim_first(&mut candidates, self.now(), |flight| flight.planned == 0) {
                Err(_) => return Liveness::UnderWay,
                Ok(Some(candidate)) => {
                    if self.request(&candidate) {
                        return Liveness::Asked;
                    }
                }
                Ok(None) if self.targets().report().retrying > 0 => return Liveness::Retrying,
                Ok(None) if pending => return Liveness::UnderWay,
                Ok(None) => return Liveness::Stuck,
            }
        }
    }

    #[cold]
    fn rescue(&self) -> Liveness {
        let source = self.source();
        if !self.signal().sinks().iter().any(|sink| sink.rescue_one(source)) {
            return Liveness::Stuck;
        }
        self.liveness().rescues.fetch_add(1, Ordering::Relaxed); // statistics
        let holders = self.holders();
        log::error!(
            target: "sluicedb::pressure",
            "pressure: source {source} stops writers and no flush can end that; one writer let through; memory is held by {}",
            describe(&holders)
        );
        for observer in self.observers() {
            observer.liveness_rescued(source, &holders);
        }
        Liveness::Rescued
    }
}

/// Whether a flush of it would free anything and none is on its way.
pub(crate) fn is_candidate(candidate: &Candidate) -> bool {
    candidate.reclaimable.bytes > 0 && !candidate.reclaimable.pending
}

fn describe(holders: &[Holder]) -> String {
    let each = holders.iter().map(|holder| {
        let state = holder.pinned_by.map_or(holder.state.name(), |kind| kind.name());
        format!("{}/{} {} {state}", holder.database, holder.family, holder.bytes)
    });
    each.collect::<Vec<_>>().join(", ")
}
