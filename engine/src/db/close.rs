//! Closing, in order: refuse new work, release who waits, end the jobs, keep what only memory holds, sync the log.

use std::sync::atomic::Ordering;

use super::Shared;
use crate::column_family::ColumnFamily;
use crate::error::{Corruption, Error, Result};
use crate::jobs::Stop;

impl Shared {
    /// Closes the database once; later calls do nothing.
    ///
    /// Memtables that hold writes the log lacks ([`Durability::None`](crate::Durability::None)) are flushed first, so that
    /// a clean close loses nothing; all others are found again in the log. The first error is returned, after everything
    /// else has been tried.
    pub(super) fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        // Writers first: those who wait for the brake or the queue are released with an error, new ones refused.
        self.refusing.store(true, Ordering::Release);
        self.pressure.begin_close();
        self.refuse_tickets(self.appender.tickets.take_all(true), |_, _| Error::ShutdownInProgress);
        // What is queued is still committed.
        self.commit.close();
        self.commit.barrier();
        let mut first = self.flush_unlogged();

        self.closing.store(true, Ordering::Release);
        self.appender.bell.ring();
        self.appender.callbacks.bell.ring();
        for bell in [&self.flush_bell, &self.compaction_bell, &self.purge_bell, &self.done_bell] {
            bell.ring();
        }
        if let Some(governing) = &self.governing {
            governing.bell.ring();
        }
        let mut ended = self.workers.join();
        ended.extend(self.pools.stop_all_but_manifest());
        for name in ended {
            let found = Corruption::bad("a background thread", "to end", format!("{name} panicked"));
            first = first.and(Err(Error::corrupt(&self.dir, 0, found)));
        }
        while self.run_one_callback() {} // those that came due after their thread had ended
        // No job ends any more: nobody may wait for what this database holds while handles keep it alive.
        for family in self.families.all() {
            family.data.refuse_flushes();
            self.pressure.forget_family(&family.data);
            self.forget_history(&family.data);
        }
        // Takes the lead for the last time: nothing is queued any more.
        let leadership = self.commit.lead();
        if !self.failure.has_failed() {
            let synced = self.wal.close();
            let vouched = synced.clone().and_then(|()| self.versions.close(self.wal.synced_position()));
            first = first.and(synced).and(vouched);
        }
        self.pools.manifest.stop(Stop::Drain);
        drop(leadership);
        self.pressure.end_close();
        self.events.finish();
        self.info_log.info("closed");
        *self.lock.lock() = None;
        if self.read_only { first } else { first.and(self.failure.check()) }
    }

    /// Flushes the families whose memtables hold writes that the log lacks.
    fn flush_unlogged(&self) -> Result<()> {
        if self.failure.has_failed() {
            return Ok(());
        }
        let holds_unlogged =
            |family: &ColumnFamily| family.data.pin().memtables().any(|memtable| memtable.has_unlogged());
        let families: Vec<_> = self.families.all().into_iter().filter(holds_unlogged).collect();
        if families.is_empty() { Ok(()) } else { self.flush_memtables(&families) }
    }
}
