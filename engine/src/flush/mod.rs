//! Flushing: sealed memtables become one L0 SST.
//!
//! [`build_l0`] writes the file; when a flush runs, and how its result is installed, is [`crate::db`]'s `flush.rs`.
//! Nothing here knows compaction but for [`Gc`], which says which versions of a key nobody can see.

use std::sync::Arc;

use crate::compaction::gc::{Fate, Gc};
use crate::error::{Corruption, Error, Result};
use crate::iter::InternalIterator;
use crate::iter::merging::MergingIterator;
use crate::jobs::Stride;
use crate::key::{SequenceNumber, split_internal, unpack_trailer};
use crate::memtable::Memtable;
use crate::sst::SstWriter;

/// Merges `memtables` (newest first) into `table`, leaving out versions that no snapshot of `snapshots` and no later
/// reader can see. Entries written come back.
///
/// `go_on` is asked once in a [`Stride`], with no lock held, and told how many bytes the table has; an error of it ends the
/// flush.
pub(crate) fn build_l0(
    memtables: &[Arc<Memtable>],
    snapshots: &[SequenceNumber],
    table: &mut SstWriter,
    go_on: &dyn Fn(u64) -> Result<()>,
) -> Result<u64> {
    let mut merged = MergingIterator::new(memtables.iter().map(|memtable| memtable.iter()).collect());
    let mut gc = Gc::new(snapshots);
    let (mut stride, mut written) = (Stride::default(), 0);
    merged.seek_to_first()?;
    while merged.valid() {
        let key = merged.key();
        let (user, trailer) = split_internal(key);
        let (seq, value_type) = unpack_trailer(trailer).ok_or_else(|| unknown_kind(trailer))?;
        // Older files may hold any key, so no tombstone is spent here.
        if gc.step(user, seq, value_type, |_| false).fate == Fate::Keep {
            table.add(key, merged.value())?;
            written += 1;
        }
        if stride.is_complete(key.len() + merged.value().len()) {
            go_on(table.file_size())?;
        }
        merged.next()?;
    }
    Ok(written)
}

/// A memtable holds what was checked on its way in, so this is damage in memory.
#[cold]
fn unknown_kind(trailer: u64) -> Error {
    let found = Corruption::bad("value type of a memtable entry", "0 or 1", trailer as u8);
    Error::corrupt(std::path::Path::new("memtable"), 0, found)
}
