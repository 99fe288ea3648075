//! [`QueueGroups`]: the runs of queued units that count once each against the bound of the queue.
//!
//! A unit joins the last run if it fits, else it opens one, unless there are as many as may be. With a linger the only
//! run of a queue waits a while for company, unless it is full. Pure bookkeeping under the queue's lock; who waits for
//! room is not known here.

use std::collections::VecDeque;

/// How queued units are counted, and how long a run that is not full waits for company.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueGroupLimits {
    /// Most runs.
    pub(crate) count: usize,
    /// A run with so many bytes is full. A unit that is larger is a run by itself.
    pub(crate) bytes: u64,
    /// In nanoseconds; 0 = not at all.
    pub(crate) linger: u64,
}

impl QueueGroupLimits {
    /// No bound, no linger.
    #[cfg(test)]
    pub(crate) const NONE: Self = Self { count: usize::MAX, bytes: u64::MAX, linger: 0 };
}

/// The runs, in order. Units that have left a run still count among its bytes.
#[derive(Debug)]
pub(super) struct QueueGroups {
    limits: QueueGroupLimits,
    runs: VecDeque<Run>,
}

#[derive(Debug)]
struct Run {
    units: usize,
    bytes: u64,
    /// When it was opened, if there is a linger.
    since: u64,
}

impl QueueGroups {
    pub(super) fn new(limits: QueueGroupLimits) -> Self {
        Self { limits, runs: VecDeque::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.runs.len()
    }

    /// Bytes of all units that are queued, at the most.
    pub(super) fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes).sum()
    }

    fn fits_last(&self, bytes: u64) -> bool {
        self.runs.back().is_some_and(|run| run.bytes.saturating_add(bytes) <= self.limits.bytes)
    }

    /// Whether a unit of `bytes` may be queued.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.runs.len() < self.limits.count || self.fits_last(bytes)
    }

    /// Counts a unit that is queued at `now`.
    pub(super) fn push(&mut self, bytes: u64, now: u64) {
        let fits = self.fits_last(bytes);
        match self.runs.back_mut() {
            Some(run) if fits => {
                run.units += 1;
                run.bytes += bytes;
            }
            _ => self.runs.push_back(Run { units: 1, bytes, since: now }),
        }
    }

    /// The first unit has left the queue.
    pub(super) fn pop(&mut self) {
        let Some(run) = self.runs.front_mut() else { return };
        run.units -= 1;
        if run.units == 0 {
            self.runs.pop_front();
        }
    }

    /// Until when the queue should wait for company; `None`: it should not.
    pub(super) fn lingers_until(&self) -> Option<u64> {
        let only = self.runs.front().filter(|_| self.runs.len() == 1 && self.limits.linger > 0)?;
        (only.bytes < self.limits.bytes).then(|| only.since.saturating_add(self.limits.linger))
    }

    /// Whether leaders look at [`lingers_until`](Self::lingers_until) at all.
    pub(super) fn has_linger(&self) -> bool {
        self.limits.linger > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bound counts runs, not units; a run that has lost units takes no more than before, and an empty one is gone.
    #[test]
    fn runs_are_counted() {
        let mut groups = QueueGroups::new(QueueGroupLimits { count: 2, bytes: 100, linger: 0 });
        for bytes in [40, 60, 70] {
            assert!(groups.has_room(bytes));
            groups.push(bytes, 0);
        }
        assert_eq!((groups.len(), groups.bytes()), (2, 170));
        assert!(groups.has_room(30) && !groups.has_room(31));
        groups.push(30, 0);
        groups.pop();
        assert!(!groups.has_room(1), "the first run is not empty yet");
        groups.pop();
        assert!(groups.has_room(1_000), "a unit of any size opens a run");
        groups.push(1_000, 0);
        assert_eq!((groups.len(), groups.lingers_until()), (2, None));
    }

    /// A lone run that is not full lingers from when it was opened.
    #[test]
    fn a_lone_run_lingers() {
        let mut groups = QueueGroups::new(QueueGroupLimits { count: 9, bytes: 100, linger: 10 });
        assert_eq!(groups.lingers_until(), None);
        groups.push(50, 7);
        groups.push(40, 9);
        assert_eq!(groups.lingers_until(), Some(17));
        groups.push(10, 9);
        assert_eq!(groups.lingers_until(), None, "full");
        groups.push(1, 10);
        assert_eq!(groups.lingers_until(), None, "two runs");
    }
}
