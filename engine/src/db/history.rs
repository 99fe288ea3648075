//! [`History`]: flushed memtables that a column family keeps, so that memory knows the latest writes to a key for longer.
//!
//! Who checks for conflicts before it writes asks [`Db::recent_write`](crate::Db::recent_write). Reads do not look here:
//! the SST has the same entries. What is kept is pinned memory: it neither delays nor stops anybody, and it goes as soon as
//! the manager delays or stops writers. Memtables die in flush threads and in the purge thread, never in a writer.

use std::collections::VecDeque;
use std::sync::Arc;

use sluicedb_wbm::{PinKind, Pressure};

use super::Shared;
use crate::column_family::FamilyData;
use crate::error::Result;
use crate::key::SequenceNumber;
use crate::memtable::Memtable;
use crate::sync::Mutex;

/// What memory knows of the writes to one key; see [`Db::recent_write`](crate::Db::recent_write).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecentWrite {
    /// Sequence of the newest write to the key that is in memory; none if there is none.
    pub newest: Option<SequenceNumber>,
    /// Every write to the family with a larger sequence is in memory. A key without `newest` was not written since.
    pub complete_after: SequenceNumber,
}

/// Flushed memtables of one family.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// A leaf.
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Newest first.
    memtables: VecDeque<Arc<Memtable>>,
    /// Largest sequence that was in a memtable which is gone from memory.
    gone: SequenceNumber,
}

impl History {
    /// Nothing is kept, and what was written up to `gone` may not be in memory.
    pub(crate) fn after(gone: SequenceNumber) -> Self {
        Self { kept: Mutex::new(Kept { memtables: VecDeque::new(), gone }) }
    }

    /// Takes memtables over, newest first, from the super version that is about to be replaced by one without them.
    /// [`Shared::settle_history`] follows once that is done.
    pub(crate) fn take(&self, flushed: &[Arc<Memtable>]) {
        let mut kept = self.kept.lock();
        for memtable in flushed.iter().rev() {
            kept.memtables.push_front(Arc::clone(memtable));
        }
    }

    /// Lets the oldest go until the rest has at most `most` bytes.
    fn trim(&self, most: u64) {
        let gone = self.kept.lock().trim(most);
        // Without the lock: the manager may ask for flushes, and this may be the last to hold a memtable. A reader may
        // hold it still.
        gone.iter().for_each(|memtable| memtable.charge().pinned_by(PinKind::Reader));
    }

    fn holds(&self, memtable: &Arc<Memtable>) -> bool {
        self.kept.lock().memtables.iter().any(|kept| Arc::ptr_eq(kept, memtable))
    }
}

impl Kept {
    /// Takes out the oldest until the rest has at most `most` bytes.
    fn trim(&mut self, most: u64) -> Vec<Arc<Memtable>> {
        let mut bytes: u64 = self.memtables.iter().map(|memtable| memtable.bytes()).sum();
        let mut gone = Vec::new();
        while bytes > most
            && let Some(oldest) = self.memtables.pop_back()
        {
            bytes -= oldest.bytes();
            self.gone = self.gone.max(oldest.largest_seq());
            gone.push(oldest);
        }
        gone
    }
}

impl Shared {
    /// After a flush: the family keeps of what it [took over](History::take) as much as its options and the pressure allow.
    pub(super) fn settle_history(&self, family: &FamilyData, flushed: &[Arc<Memtable>]) {
        if self.history_bytes(family) > 0 {
            flushed.iter().for_each(|memtable| memtable.charge().pinned_by(PinKind::History));
        }
        family.history.trim(self.history_bytes(family));
        // Those that another thread has let go meanwhile.
        for memtable in flushed.iter().filter(|memtable| !family.history.holds(memtable)) {
            memtable.charge().pinned_by(PinKind::Reader);
        }
    }

    /// Lets kept memtables go where pressure or options no longer allow them.
    pub(super) fn trim_history(&self) {
        for family in self.families.all() {
            family.data.history.trim(self.history_bytes(&family.data));
        }
    }

    /// The family keeps nothing any more: it is dropped, or its database closed.
    pub(super) fn forget_history(&self, family: &FamilyData) {
        family.history.trim(0);
    }

    fn history_bytes(&self, family: &FamilyData) -> u64 {
        match self.pressure.manager().pressure() {
            Pressure::Normal if !family.is_dropped() && !self.is_closing() => {
                family.options().max_write_buffer_size_to_maintain
            }
            _ => 0,
        }
    }

    /// What memory knows of the writes to `key`.
    pub(super) fn recent_write(&self, family: &FamilyData, key: &[u8]) -> Result<RecentWrite> {
        self.check_family(family)?;
        let seq = self.published();
        // In this order: a flushed memtable is in the history before it leaves the super version.
        let pinned = family.pin();
        let (kept, gone): (Vec<_>, _) = {
            let kept = family.history.kept.lock();
            (kept.memtables.iter().cloned().collect(), kept.gone)
        };
        let newest = pinned.memtables().chain(&kept).find_map(|memtable| memtable.newest_write(key, seq));
        Ok(RecentWrite { newest, complete_after: gone })
    }
}
