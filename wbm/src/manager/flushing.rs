//! The flush decision: puts the manager's bytes before the [`FlushPolicy`], and asks the targets it names.
//!
//! Any number of threads may decide at once: looking and marking a target as asked are one step, and no lock is held
//! while a target is asked.

use crate::sync::atomic::Ordering;

use super::WriteBufferManager;
use crate::flush_policy::{FlushPolicy, rank};
use crate::liveness::is_candidate;
use crate::targets::Candidate;

impl WriteBufferManager {
    pub(super) fn policy(&self) -> FlushPolicy {
        FlushPolicy {
            quota: self.quota(),
            initiate: self.options.initiate_flushes,
            parallel: u64::from(self.options.max_parallel_flushes),
        }
    }

    /// The flush decision: asks targets until no further flush is wanted, or none is left to ask.
    pub(crate) fn evaluate(&self) {
        let policy = self.policy();
        let mut candidates: Option<Vec<Candidate>> = None;
        loop {
            let usage = self.usage.report();
            let wants = |flight| policy.wants(flight, usage.mutable, usage.used);
            let Some(list) = &mut candidates else {
                let flight = self.targets.in_flight();
                if !wants(flight) {
                    if self.settle(policy.next_edge(flight, usage.mutable, usage.used), false) {
                        return;
                    }
                    continue;
                }
                let mut list = self.targets.survey();
                list.retain(is_candidate);
                list.sort_by_key(|candidate| rank(&candidate.reclaimable));
                candidates = Some(list);
                continue;
            };
            match self.targets.claim_first(list, self.now(), wants) {
                Err(flight) => {
                    if self.settle(policy.next_edge(flight, usage.mutable, usage.used), false) {
                        return;
                    }
                }
                Ok(Some(candidate)) => {
                    self.request(&candidate);
                }
                Ok(None) => {
                    self.settle(policy.edge_when_unserved(usage.used), true);
                    return;
                }
            }
        }
    }

    /// Where the next look is due. False if usage is there already.
    fn settle(&self, edge: u64, unserved: bool) -> bool {
        self.unserved.store(unserved, Ordering::Relaxed); // statistics
        self.flush_edge.store(edge, Ordering::SeqCst);
        self.usage.used.load(Ordering::SeqCst) < edge
    }

    /// Asks one target, that was marked as asked, with no lock held.
    pub(crate) fn request(&self, candidate: &Candidate) -> bool {
        self.requested.fetch_add(1, Ordering::Relaxed); // statistics
        let accepted = candidate.target.request_flush();
        self.targets.answered(candidate.id, accepted);
        if !accepted {
            self.refused.fetch_add(1, Ordering::Relaxed); // statistics
        }
        accepted
    }
}
