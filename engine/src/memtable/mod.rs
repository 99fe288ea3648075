//! [`Memtable`]: one sorted table in memory, and what it owes the write buffer manager.
//!
//! A memtable takes writes until it is sealed, is flushed into an SST, and is freed when its last reader lets go.
//! How entries are kept sorted is the [`MemtableRep`]'s affair; what the manager does with the bytes is `wbm`'s.
//! This module knows nothing of flushes or of other memtables.

mod arena;
mod arena_list;
mod chunk_pool;
mod filter;
mod rep;
mod skiplist;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sluicedb_wbm::{Advance, Charge, Queued};

use arena_list::ArenaListRep;
pub(crate) use chunk_pool::ChunkPool;
use filter::MemtableFilter;
use rep::key_prefix;
use rep::{MemtableRep, RepIter};
use skiplist::SkipListRep;

use crate::key::{SequenceNumber, ValueType, pack_trailer, unpack_trailer};
use crate::options::{ColumnFamilyOptions, MemtableRepKind};
use crate::version::FileNumber;

/// What a batch has put down for its entries before it reaches a memtable; charges take from it first.
#[derive(Debug)]
pub(crate) enum Prepaid {
    /// Nothing: each charge is new.
    Nothing,
    /// Bytes counted while they waited for commit: what is charged leaves that count.
    Queued(Queued),
    /// The whole charge of a batch larger than the quota, taken ahead.
    Alone(Advance),
}

impl Prepaid {
    #[inline]
    fn charge(&mut self, charge: &Charge, bytes: u64) {
        match self {
            Self::Nothing => charge.grow(bytes),
            Self::Queued(queued) => charge.grow_from_queue(queued, bytes),
            Self::Alone(advance) => charge.grow_from_advance(advance, bytes),
        }
    }
}

/// One sorted table in memory.
#[derive(Debug)]
pub(crate) struct Memtable {
    rep: Arc<dyn MemtableRep>,
    filter: MemtableFilter,
    /// What this memtable owes the write buffer manager.
    ///
    /// Invariant, charge-before-insert: the charge covers an entry before the entry is in `rep`. So the manager
    /// may count bytes that are not here yet, and never misses bytes that are; the quota holds even while many
    /// writers insert at once. [`Memtable::insert`] alone grows it. [`Charge::flushed`] takes it out of the
    /// pressure, dropping the memtable returns the rest, each exactly once.
    charge: Charge,
    /// Place in the order of all memtables of the database.
    id: u64,
    /// Bytes charged so far.
    bytes: AtomicU64,
    entries: AtomicU64,
    /// Largest sequence inserted; 0 while empty.
    largest_seq: AtomicU64,
    /// Largest sequence of an entry that is in the log; 0 without one.
    largest_logged_seq: AtomicU64,
    /// Oldest WAL segment that holds entries of this memtable; `u64::MAX` while none does.
    oldest_segment: AtomicU64,
    /// Whether it holds entries that the log lacks.
    unlogged: AtomicBool,
    /// When it was made, on the database's clock, in nanoseconds.
    created: u64,
}

impl Memtable {
    /// An empty memtable for a family with these options. Chunks of memory have `chunk_bytes`, and come from `chunks`.
    pub(crate) fn new(
        options: &ColumnFamilyOptions,
        chunk_bytes: u64,
        chunks: &Arc<ChunkPool>,
        charge: Charge,
        id: u64,
        created: u64,
    ) -> Self {
        let rep: Arc<dyn MemtableRep> = match options.memtable_rep {
            MemtableRepKind::ArenaSkipList => {
                Arc::new(ArenaListRep::new(chunk_bytes as usize, Arc::clone(chunks)))
            }
            MemtableRepKind::CrossbeamSkipList => Arc::new(SkipListRep::default()),
        };
        let filter = MemtableFilter::for_memtable_of(options.write_buffer_size);
        charge.set_overhead(filter.bytes());
        Self {
            rep,
            filter,
            charge,
            id,
            bytes: AtomicU64::new(0),
            entries: AtomicU64::new(0),
            largest_seq: AtomicU64::new(0),
            largest_logged_seq: AtomicU64::new(0),
            oldest_segment: AtomicU64::new(u64::MAX),
            unlogged: AtomicBool::new(false),
            created,
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn created(&self) -> u64 {
        self.created
    }

    pub(crate) fn charge(&self) -> &Charge {
        &self.charge
    }

    /// Bytes that its entries take in memory.
    pub(crate) fn bytes(&self) -> u64 {
        // Decisions made from it (seal, flush) are re-made with the next write; no order is needed.
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries() == 0
    }

    /// Largest sequence in it. Final once it is sealed: the commit leader seals and inserts.
    pub(crate) fn largest_seq(&self) -> SequenceNumber {
        SequenceNumber::new(self.largest_seq.load(Ordering::Acquire))
    }

    /// Largest sequence in it that the log holds too.
    pub(crate) fn largest_logged_seq(&self) -> SequenceNumber {
        SequenceNumber::new(self.largest_logged_seq.load(Ordering::Acquire))
    }

    /// The oldest WAL segment that holds entries of it.
    pub(crate) fn oldest_segment(&self) -> Option<FileNumber> {
        match self.oldest_segment.load(Ordering::Acquire) {
            u64::MAX => None,
            number => Some(FileNumber(number)),
        }
    }

    /// Says that entries up to `seq` of this memtable are in the log, from `segment` on. The commit leader calls it
    /// before it inserts them.
    pub(crate) fn note_logged(&self, segment: FileNumber, seq: SequenceNumber) {
        self.oldest_segment.fetch_min(segment.0, Ordering::AcqRel);
        self.largest_logged_seq.fetch_max(seq.get(), Ordering::AcqRel);
    }

    /// Says that an entry is about to be inserted that the log lacks.
    #[inline]
    pub(crate) fn note_unlogged(&self) {
        if !self.unlogged.load(Ordering::Relaxed) {
            self.unlogged.store(true, Ordering::Release);
        }
    }

    /// Whether it holds entries that the log lacks.
    pub(crate) fn has_unlogged(&self) -> bool {
        self.unlogged.load(Ordering::Acquire)
    }

    /// Inserts one entry, charging it first.
    #[inline]
    pub(crate) fn insert(
        &self,
        user_key: &[u8],
        seq: SequenceNumber,
        value_type: ValueType,
        value: &[u8],
        prepaid: &mut Prepaid,
    ) {
        self.filter.insert(user_key);
        self.rep.insert(user_key, pack_trailer(seq, value_type), value, &mut |bytes| {
            // First, since the charge may ask for a flush: who holds most is judged with these bytes.
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            prepaid.charge(&self.charge, bytes);
        });
        self.entries.fetch_add(1, Ordering::Relaxed);
        self.largest_seq.fetch_max(seq.get(), Ordering::Release);
    }

    /// The newest entry of `user_key` at or below `seq`: its type, and its value copied out.
    #[inline]
    pub(crate) fn get(&self, user_key: &[u8], seq: SequenceNumber) -> Option<(ValueType, Box<[u8]>)> {
        if !self.filter.may_contain(user_key) {
            return None;
        }
        let mut found = None;
        self.rep.get(user_key, pack_trailer(seq, ValueType::MAX), &mut |trailer, value| {
            found = unpack_trailer(trailer).map(|(_, value_type)| (value_type, value.into()));
        });
        found
    }

    /// Sequence of the newest entry of `user_key` at or below `seq`.
    pub(crate) fn newest_write(&self, user_key: &[u8], seq: SequenceNumber) -> Option<SequenceNumber> {
        if !self.filter.may_contain(user_key) {
            return None;
        }
        let mut found = None;
        self.rep.get(user_key, pack_trailer(seq, ValueType::MAX), &mut |trailer, _| {
            found = unpack_trailer(trailer).map(|(seq, _)| seq);
        });
        found
    }

    /// An iterator over all entries. Entries inserted while it lives may or may not appear.
    pub(crate) fn iter(&self) -> RepIter {
        Arc::clone(&self.rep).iter()
    }
}
