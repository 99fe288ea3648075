//! Going on after a failure, without reopening.
//!
//! What a failed write or sync left on disk is unknown, so nothing of it is used again: the log goes on in a fresh segment
//! and the failed one is set aside, the manifest goes on in a new file written from full state, and every memtable is
//! flushed, since its entries may be in the failed part of the log only. When all of that is durable, writes are let in.
//!
//! A caller asks for it with [`Db::resume`](crate::Db::resume). After a full disk the housekeeping thread tries it once a
//! second by itself. If a step fails, the database stays as it was, read-only.

use std::sync::Arc;

use super::Shared;
use super::write::Writer;
use crate::column_family::{ColumnFamily, FlushStage};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::manifest::VersionEdit;
use crate::wal::WalEdit;

impl Shared {
    /// Brings the database back to taking writes, if it does not.
    pub(super) fn resume(&self) -> Result<()> {
        if self.read_only || !self.failure.has_failed() {
            return self.check_writable();
        }
        // The right to flush first, then the lead: a flush thread takes them in this order, too.
        let families = self.families.all();
        for (taken, family) in families.iter().enumerate() {
            if let Err(error) = self.take_flush_right(family) {
                families[..taken].iter().for_each(|family| family.data.end_flush());
                return Err(error);
            }
        }
        self.wait_for_running_compactions();
        let mut leadership = self.commit.lead();
        let outcome = self.resume_as_leader(leadership.state(), &families);
        leadership.end();
        families.iter().for_each(|family| family.data.end_flush());
        match &outcome {
            Ok(()) => self.info_log.info("resumed: writes are accepted again"),
            Err(error) => self.info_log.error(&format!("could not resume: {error}")),
        }
        for bell in [&self.flush_bell, &self.compaction_bell, &self.purge_bell, &self.done_bell] {
            bell.ring();
        }
        outcome
    }

    /// Waits until no compaction runs: one that still fails would be taken for a new failure. None begins meanwhile.
    fn wait_for_running_compactions(&self) {
        loop {
            let seen = self.done_bell.rings();
            if self.state.lock().running_compactions == 0 || self.is_closing() {
                return;
            }
            self.done_bell.wait_past(seen);
        }
    }

    /// Waits until no job flushes the family, and takes the right to.
    pub(super) fn take_flush_right(&self, family: &ColumnFamily) -> Result<()> {
        loop {
            let seen = self.done_bell.rings();
            if family.data.begin_flush() {
                return Ok(());
            }
            if self.is_closing() {
                return Err(Error::ShutdownInProgress);
            }
            self.done_bell.wait_past(seen);
        }
    }

    fn resume_as_leader(&self, writer: &mut Writer, families: &[ColumnFamily]) -> Result<()> {
        if self.is_closing() {
            return Err(Error::ShutdownInProgress);
        }
        self.tracked_fs.forget_failed_sync();
        if self.wal.durability().failure().is_some() {
            let failed = self.wal.begin_anew()?;
            writer.failed_segments.push(failed);
        }
        self.versions.heal()?;
        for family in families {
            self.flush_beside_the_log(writer, family)?;
        }
        if let Some(&last) = writer.failed_segments.last() {
            let published = self.published();
            let mut wal = self.wal.facts_anew(last, published);
            wal.quarantined.clone_from(&writer.failed_segments);
            self.versions.commit(VersionEdit { wal, ..VersionEdit::default() }, |_| {})?;
            self.wal.reopen(published);
            writer.failed_segments.clear();
        }
        self.failure.clear(|| self.events.push(|| Event::Resumed));
        for family in families {
            family.data.accept_flushes();
        }
        self.pressure.database_resumed();
        for family in families {
            self.update_sources(&family.data);
        }
        Ok(())
    }

    /// Flushes all that a family has in memory, without asking the log to be synced first: it is the log that failed.
    fn flush_beside_the_log(&self, writer: &mut Writer, family: &ColumnFamily) -> Result<()> {
        let Some(of_writer) = writer.family(family.id()) else { return Ok(()) };
        self.seal(of_writer, FlushStage::SealWanted);
        let sealed = family.data.pin().sealed.clone();
        if sealed.is_empty() {
            return Ok(());
        }
        self.pressure.flush_started(&family.data, &sealed);
        let outcome = self.write_and_install(&Arc::clone(&family.data), &sealed, WalEdit::default(), None);
        self.pressure.flush_ended(&family.data, &sealed, outcome.is_ok());
        if outcome.is_ok() {
            self.settle_history(&family.data, &sealed);
        }
        outcome
    }
}
