//! [`FileMeta`]: what the manifest remembers of one SST.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::key::{SequenceNumber, user_key};
use crate::sst::SstSummary;

/// The number in the name of a file: one counter for all files of a database, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct FileNumber(pub(crate) u64);

impl std::fmt::Display for FileNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:06}", self.0)
    }
}

/// What the manifest remembers of one SST. Shared by all versions that hold the file; it is obsolete, and may
/// be deleted, when the last of them is gone.
#[derive(Debug)]
pub(crate) struct FileMeta {
    /// Number in the file's name.
    pub(crate) number: FileNumber,
    /// Random id, kept in the footer too; every block's checksum covers it.
    pub(crate) unique_id: u64,
    /// Bytes of the file.
    pub(crate) size: u64,
    /// Smallest internal key.
    pub(crate) smallest: Box<[u8]>,
    /// Largest internal key.
    pub(crate) largest: Box<[u8]>,
    /// Smallest and largest sequence in the file.
    pub(crate) smallest_seq: SequenceNumber,
    pub(crate) largest_seq: SequenceNumber,
    /// Entries, tombstones included.
    pub(crate) entries: u64,
    /// Tombstones among them.
    pub(crate) tombstones: u64,
    /// Wall time at which the file was made, microseconds since 1970.
    pub(crate) created_micros: u64,
    /// A running compaction reads it. Written under the database's state lock only.
    pub(crate) being_compacted: AtomicBool,
}

impl FileMeta {
    /// The facts of a table that was just written under this number.
    pub(crate) fn from_summary(number: FileNumber, summary: SstSummary, created_micros: u64) -> Self {
        Self {
            number,
            unique_id: summary.unique_id,
            size: summary.size,
            smallest: summary.smallest,
            largest: summary.largest,
            smallest_seq: summary.smallest_seq,
            largest_seq: summary.largest_seq,
            entries: summary.entries,
            tombstones: summary.tombstones,
            created_micros,
            being_compacted: AtomicBool::new(false),
        }
    }

    pub(crate) fn smallest_user_key(&self) -> &[u8] {
        user_key(&self.smallest)
    }

    pub(crate) fn largest_user_key(&self) -> &[u8] {
        user_key(&self.largest)
    }

    /// Whether the file may hold a user key of `from..=to`; `None` means unbounded on that side.
    pub(crate) fn overlaps(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> bool {
        from.is_none_or(|from| self.largest_user_key() >= from)
            && to.is_none_or(|to| self.smallest_user_key() <= to)
    }

    pub(crate) fn is_being_compacted(&self) -> bool {
        // Written and read under the state lock; the atomic only makes the shared struct writable.
        self.being_compacted.load(Ordering::Relaxed)
    }

    pub(crate) fn set_being_compacted(&self, busy: bool) {
        self.being_compacted.store(busy, Ordering::Relaxed);
    }
}
