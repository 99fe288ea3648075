//! [`MemtableRep`]: the seam between a memtable and the sorted structure that keeps its entries.

use std::fmt::Debug;
use std::sync::Arc;

use crate::iter::InternalIterator;

/// An iterator over a rep, which it keeps alive.
pub(crate) type RepIter = Box<dyn InternalIterator>;

/// Keeps entries sorted as [`crate::key`] says, for many readers and inserting threads at once.
///
/// Entries are never changed and never removed; all memory goes at once, when the rep is dropped. No two entries
/// have the same user key and trailer.
pub(crate) trait MemtableRep: Send + Sync + Debug {
    /// Inserts an entry; visible to readers when the call returns. Before the entry can be reached, and before the
    /// allocator is asked, `charge` is told the bytes that will be asked for: an entry's own, or a chunk's.
    fn insert(&self, user_key: &[u8], trailer: u64, value: &[u8], charge: &mut dyn FnMut(u64));

    /// Hands the first entry of `user_key` at or behind `trailer` (that is: at or older) to `found`, if there is one.
    fn get(&self, user_key: &[u8], trailer: u64, found: &mut dyn FnMut(u64, &[u8]));

    /// An iterator over all entries.
    fn iter(self: Arc<Self>) -> RepIter;
}

/// First eight bytes of a user key, big-endian, padded with zeros: orders as the keys do, where two of them differ. Equal
/// ones say nothing, and the keys must be compared.
#[inline]
pub(super) fn key_prefix(user_key: &[u8]) -> u64 {
    match user_key.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut first = [0; 8];
            first[..user_key.len()].copy_from_slice(user_key);
            u64::from_be_bytes(first)
        }
    }
}
