//! Flushes and compactions that a caller asks for and waits for.
//!
//! The caller waits on the bell that every ending job rings, never with a lock held, and looks again after each ring.

use super::Shared;
use crate::column_family::{ColumnFamily, FlushStage};
use crate::compaction::score::Score;
use crate::error::{Error, Result};
use crate::options::{CompactRangeOptions, CompactionStyle, FlushOptions};

impl Shared {
    /// Flushes the memtables of these families as the options say.
    pub(super) fn flush(&self, families: &[ColumnFamily], options: &FlushOptions) -> Result<()> {
        self.check_writable()?;
        if let [only] = families {
            self.check_family(&only.data)?;
        }
        let awaited = self.queue_flushes(families);
        if options.wait { self.wait_for_flushes(&awaited) } else { Ok(()) }
    }

    /// Flushes and waits, also while the database closes.
    pub(super) fn flush_memtables(&self, families: &[ColumnFamily]) -> Result<()> {
        let awaited = self.queue_flushes(families);
        self.wait_for_flushes(&awaited)
    }

    /// Seals and queues; the newest memtable that is sealed then of each family. Needs no room in the commit queue and waits
    /// for no stall.
    fn queue_flushes(&self, families: &[ColumnFamily]) -> Vec<(ColumnFamily, u64)> {
        let mut leadership = self.commit.lead();
        let mut awaited = Vec::new();
        for family in families {
            // Families that were dropped meanwhile have nothing to wait for.
            let Some(writer) = leadership.state().family(family.id()) else { continue };
            self.seal(writer, FlushStage::SealWanted);
            if let Some(newest) = family.data.pin().sealed.first() {
                awaited.push((family.clone(), newest.id()));
                family.data.want_flush(FlushStage::Queued);
            }
        }
        leadership.end();
        awaited
    }

    fn wait_for_flushes(&self, awaited: &[(ColumnFamily, u64)]) -> Result<()> {
        self.wait_until(|| {
            // Sealed memtables leave in order, so the newest that was sealed then is the last to wait for.
            let waits = |(family, newest): &(ColumnFamily, u64)| {
                !family.data.is_dropped()
                    && family.data.pin().sealed.iter().any(|memtable| memtable.id() <= *newest)
            };
            !awaited.iter().any(waits)
        })
    }

    /// Waits until no flush and no compaction is queued, running or due.
    pub(super) fn wait_for_background_work(&self) -> Result<()> {
        if self.read_only {
            return Ok(()); // there is none
        }
        self.wait_until(|| {
            let idle = {
                let state = self.state.lock();
                state.running_flushes == 0 && state.running_compactions == 0 && state.manual_compactions == 0
            };
            idle && self.families.all().iter().all(|family| {
                let pinned = family.data.pin();
                let compacts = !family.data.options().disable_auto_compactions;
                if self.has_marked(&family.data, &pinned) {
                    // A snapshot that went rang for nobody.
                    self.compaction_bell.ring();
                    return false;
                }
                family.data.stage() == FlushStage::Idle
                    && !(compacts && Score::new(&pinned.version, &family.data.options()).is_due())
            })
        })
    }

    /// Waits until `done`, looking again whenever a job ends; a failure or the shutdown ends the wait with its error.
    pub(super) fn wait_until(&self, mut done: impl FnMut() -> bool) -> Result<()> {
        loop {
            let seen = self.done_bell.rings();
            if done() {
                return Ok(());
            }
            self.failure.check()?;
            if self.is_closing() {
                return Err(Error::ShutdownInProgress);
            }
            crate::sync::forbid_held_locks("wait for a job");
            self.done_bell.wait_past(seen);
        }
    }

    /// Compacts `from..=to` of a family down to its last level, and waits.
    pub(super) fn compact_range(
        &self,
        family: &ColumnFamily,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        if let Some(cancel) = &options.cancel {
            cancel.ring_on_cancel(&self.done_bell);
            cancel.check("compact_range")?;
        }
        self.check_writable()?;
        self.check_family(&family.data)?;
        if let (Some(from), Some(to)) = (from, to)
            && from > to
        {
            return Err(Error::invalid("range", "it ends before it begins"));
        }
        self.flush_memtables(std::slice::from_ref(family))?;
        if family.data.options().compaction_style == CompactionStyle::Fifo {
            return Ok(()); // files are dropped, never merged
        }
        self.state.lock().manual_compactions += 1;
        let outcome = self.compact_level_by_level(&family.data, from, to, options);
        self.state.lock().manual_compactions -= 1;
        self.compaction_bell.ring();
        self.done_bell.ring();
        outcome.inspect_err(|error| {
            self.info_log.error(&format!("compact_range of '{}' failed: {error}", family.name()))
        })
    }
}
