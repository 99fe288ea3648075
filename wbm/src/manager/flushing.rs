//! The flush decision: puts the manager's bytes before the [`FlushPolicy`], and asks the targets it names.
//!
//! Any number of threads may decide at once: looking and marking a target as asked are one step, and no lock is held
//! while a target is asked.

use crate::sync::atomic::Ordering;
use crate::sync::fence_of_models;

use super::WriteBufferManager;
use crate::flush_policy::{FlushPolicy, rank};
use crate::liveness::is_candidate;
use crate::targets::{Candidate, TargetId};

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
        let mut asked_for = None;
        // Who could be asked at the first look: a second one is for the others.
        let mut seen: Option<Vec<TargetId>> = None;
        loop {
            let usage = self.usage.report();
            let wants = |flight| policy.wants(flight, usage.mutable, usage.used);
            let Some(list) = &mut candidates else {
                let flight = self.targets.in_flight();
                if !wants(flight) {
                    if self.settle(policy.next_edge(flight, usage.mutable, usage.used), 0) {
                        return;
                    }
                    continue;
                }
                let mut list = self.targets.survey();
                list.retain(|candidate| {
                    is_candidate(candidate) && seen.as_ref().is_none_or(|seen| !seen.contains(&candidate.id))
                });
                list.sort_by_key(|candidate| rank(&candidate.reclaimable));
                asked_for
                    .get_or_insert_with(|| list.iter().map(|candidate| candidate.id).collect::<Vec<_>>());
                candidates = Some(list);
                continue;
            };
            match self.targets.claim_first(list, self.now(), wants) {
                Err(flight) => {
                    if self.settle(policy.next_edge(flight, usage.mutable, usage.used), 0) {
                        return;
                    }
                }
                Ok(Some(candidate)) => {
                    self.request(&candidate);
                }
                Ok(None) => {
                    self.settle(policy.edge_when_unserved(usage.used), usage.used);
                    if seen.is_some() {
                        return;
                    }
                    // A charge counts in the usage before it does in its memtable. One that was between the two sees now that
                    // nobody was asked, or else this look sees its bytes.
                    seen = asked_for.take();
                    candidates = None;
                }
            }
        }
    }

    /// Where the next look is due, and the usage at which nobody was left to ask, else 0. False if usage is at the edge already.
    fn settle(&self, edge: u64, unserved_at: u64) -> bool {
        self.unserved_at.store(unserved_at, Ordering::SeqCst);
        self.flush_edge.store(edge, Ordering::SeqCst);
        fence_of_models();
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
