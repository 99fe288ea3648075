//! What the commit queue says of itself: the property `sluicedb.commit_queue`, whole or by one of its names.

use super::Shared;

impl Shared {
    /// Names and values, in the order in which they are printed.
    fn commit_queue_numbers(&self) -> Vec<(&'static str, u64)> {
        let (pool, counts) = (self.pressure.queue().stats(), &self.commit.counts);
        let waiting = self.appender.tickets.room().stats();
        vec![
            ("used", pool.used),
            ("capacity", pool.capacity),
            ("overdraft", pool.overdraft),
            ("peak", pool.peak),
            ("admitted", pool.admitted),
            ("refused", pool.refused),
            // Threads and tickets in the FIFO for room; units in the queue.
            ("waiting", pool.waiting as u64),
            ("units", self.commit.len() as u64),
            ("queue_groups", self.commit.groups() as u64),
            ("groups_refused", counts.groups_refused.get()),
            ("tickets_waiting", self.appender.tickets.len() as u64),
            ("tickets_waiting_bytes", waiting.used),
            ("groups_by_callers", counts.groups_by_callers.get()),
            ("groups_by_appender", counts.groups_by_appender.get()),
            ("grouped_units", counts.units.get()),
            ("grouped_bytes", counts.bytes.get()),
            ("parallel_groups", counts.parallel_groups.get()),
            ("hand_overs", counts.hand_overs.get()),
            ("wake_ups", counts.wake_ups.get()),
            ("parks", counts.parks.get()),
        ]
    }

    /// A line for each name and value.
    pub(super) fn describe_commit_queue(&self) -> String {
        self.commit_queue_numbers().iter().map(|(name, value)| format!("{name}: {value}\n")).collect()
    }

    /// One of them.
    pub(super) fn commit_queue_number(&self, name: &str) -> Option<u64> {
        self.commit_queue_numbers().into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}
