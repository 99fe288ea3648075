//! [`TableIndex`]: the index of an open table, laid out for searching.
//!
//! On disk the index is a block (see [`block`](super::block)) with one entry for each data block: a key at or
//! behind the block's last key and before the next block's first, and a
//! [`BlockHandle`]. It is decoded once, when the table is opened. A search then compares eight bytes of
//! each key, taken behind the prefix that all share, and looks at whole keys only where those are equal.
//!
//! It knows where blocks are, not how they are read.

use std::cmp::Ordering;

use super::block::BlockCursor;
use super::bytes::BlockBytes;
use super::common_prefix;
use super::format::BlockHandle;
use crate::error::Corruption;
use crate::key::{compare_parts, split_internal};

/// The data blocks of a table and the keys that bound them, by ordinal.
#[derive(Debug)]
pub(crate) struct TableIndex {
    /// What all keys begin with.
    prefix: Box<[u8]>,
    /// The first eight bytes of each user key behind the prefix, as a number that orders like them.
    heads: Box<[u64]>,
    handles: Box<[BlockHandle]>,
    /// All keys (internal keys without the prefix), one behind the other, and where each one ends.
    keys: Box<[u8]>,
    ends: Box<[u32]>,
}

impl TableIndex {
    /// Decodes the index block, whose checksum was verified. Every handle must lie before `data_end`.
    pub(crate) fn decode(block: BlockBytes, data_end: u64) -> Result<Self, Corruption> {
        let damaged = || Corruption::bad("index block", "ascending keys with handles", "something else");
        let mut cursor = BlockCursor::new(block).map_err(|_| damaged())?;
        cursor.last().map_err(|_| damaged())?;
        let last = split_internal(cursor.key()).0.to_vec();
        cursor.first().map_err(|_| damaged())?;
        let first = split_internal(cursor.key()).0.to_vec();
        let prefix = &first[..common_prefix(&first, &last)];

        let (mut heads, mut handles, mut keys, mut ends) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut before = Vec::new();
        while cursor.valid() {
            let key = cursor.key();
            let ascends =
                before.is_empty() || compare_parts(split_internal(&before), split_internal(key)).is_lt();
            let rest = key.strip_prefix(prefix).filter(|_| ascends).ok_or_else(damaged)?;
            heads.push(head(split_internal(rest).0));
            keys.extend_from_slice(rest);
            ends.push(u32::try_from(keys.len()).map_err(|_| damaged())?);
            let handle = BlockHandle::decode(cursor.value()).ok_or_else(damaged)?;
            if handle.extent.end().is_none_or(|end| end > data_end) {
                let expected = format!("before byte {data_end}");
                return Err(Corruption::bad("end of a block", expected, format!("{:?}", handle.extent)));
            }
            handles.push(handle);
            before.clear();
            before.extend_from_slice(key);
            cursor.next().map_err(|_| damaged())?;
        }
        Ok(Self {
            prefix: prefix.into(),
            heads: heads.into(),
            handles: handles.into(),
            keys: keys.into(),
            ends: ends.into(),
        })
    }

    /// Number of data blocks.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.handles.len()
    }

    /// The handle of the block `ordinal`, which must be below [`len`](Self::len).
    #[inline]
    pub(crate) fn handle(&self, ordinal: usize) -> BlockHandle {
        self.handles[ordinal]
    }

    /// The only block that may hold the first entry at or behind this internal key, if it is not the first
    /// entry of the block behind; [`len`](Self::len) when all entries are before the key.
    #[inline]
    pub(crate) fn find(&self, user_key: &[u8], trailer: u64) -> usize {
        let Some(rest) = user_key.strip_prefix(&*self.prefix) else {
            return if user_key < &*self.prefix { 0 } else { self.len() };
        };
        let wanted = head(rest);
        let begin = self.heads.partition_point(|&head| head < wanted);
        if self.heads.get(begin) != Some(&wanted) {
            return begin;
        }
        self.find_among_equals(begin, wanted, rest, trailer)
    }

    /// The same where heads are equal from `begin` on.
    fn find_among_equals(&self, begin: usize, wanted: u64, rest: &[u8], trailer: u64) -> usize {
        let (mut low, mut high) =
            (begin, begin + self.heads[begin..].partition_point(|&head| head == wanted));
        while low < high {
            let middle = low.midpoint(high);
            match compare_parts(split_internal(self.key(middle)), (rest, trailer)) {
                Ordering::Less => low = middle + 1,
                _ => high = middle,
            }
        }
        low
    }

    /// The internal key that bounds the block `ordinal`, without the prefix.
    fn key(&self, ordinal: usize) -> &[u8] {
        let begin = if ordinal == 0 { 0 } else { self.ends[ordinal - 1] };
        &self.keys[begin as usize..self.ends[ordinal] as usize]
    }

    /// Heap memory that it keeps, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let each = size_of::<u64>() + size_of::<BlockHandle>() + size_of::<u32>();
        self.prefix.len() + self.keys.len() + self.len() * each
    }
}

/// The first eight bytes as a number that orders like them; missing ones count as zero.
#[inline]
fn head(key: &[u8]) -> u64 {
    if let Some(bytes) = key.first_chunk::<8>() {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [0; 8];
    bytes[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(bytes)
}
