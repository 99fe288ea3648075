//! What is inside a data or index block, and how it is searched: [`find`] for a point read, [`BlockCursor`]
//! for moving about.
//!
//! Keys lie together and values lie together, so that a search touches few cache lines, and keys compress
//! well.
//!
//! | part     | bytes     | meaning                                                                   |
//! |----------|-----------|---------------------------------------------------------------------------|
//! | header   | 0..4      | `keys_len`: bytes of all keys                                             |
//! |          | 4..8      | `restarts`: their number, at least 1                                      |
//! | restart  | u32       | offset in the keys of a key with `shared` 0, at which a search may begin  |
//! |          | u32       | offset in the values of its value                                         |
//! | ...      |           | further restarts, ascending                                               |
//! | key      | varint    | `shared`: leading bytes of the user key that the key before has too        |
//! |          | varint    | `unshared`: further bytes of the user key                                 |
//! |          | varint    | `value_len`                                                               |
//! |          | unshared  | the user key behind its shared part                                       |
//! |          | 8         | trailer of the internal key, see [`crate::key`]                           |
//! | ...      |           | further keys, ascending by internal key                                   |
//! | values   | the rest  | the values in the order of their keys                                     |
//!
//! A read may skip checksums, so nothing here trusts the bytes: damage is [`BadBlock`], never a panic and
//! never an endless loop (each key ends behind where it began). Only order is believed; a block whose
//! checksum was verified has it. Which file a block is from is the caller's affair.

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

use std::ops::Range;

use super::bytes::BlockBytes;
use super::common_prefix;
use crate::coding::Cursor;
use crate::key::{TRAILER_LEN, compare_parts, split_internal};

/// The bytes of a block are not one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadBlock;

const KEYS_LEN: Range<usize> = 0..4;
const RESTARTS: Range<usize> = KEYS_LEN.end..KEYS_LEN.end + 4;
/// Bytes in front of the restarts.
pub(super) const HEADER_LEN: usize = 8;
const _: () = assert!(RESTARTS.end == HEADER_LEN);
/// Bytes of one restart.
pub(super) const RESTART_LEN: usize = 8;

/// Where the parts of a block are.
#[derive(Debug, Clone, Copy)]
struct Layout {
    restarts: usize,
    keys: usize,
    /// Where the keys end and the values begin.
    values: usize,
}

/// Where a key and its value begin, in bytes from the start of the block.
#[derive(Debug, Clone, Copy)]
struct Place {
    key: usize,
    value: usize,
}

/// One entry's key, as it lies in its block.
struct Entry<'a> {
    shared: usize,
    /// Rest of the user key, then the trailer.
    suffix: &'a [u8],
    value_len: usize,
    /// Where the next key begins.
    next: usize,
}

impl Layout {
    #[inline]
    fn of(block: &[u8]) -> Result<Self, BadBlock> {
        let field =
            |at: Range<usize>| block.get(at).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
        let (keys_len, restarts) = field(KEYS_LEN).zip(field(RESTARTS)).ok_or(BadBlock)?;
        // Sums of u64 that begin as u32 cannot overflow.
        let keys = HEADER_LEN as u64 + u64::from(restarts) * RESTART_LEN as u64;
        let values = keys + u64::from(keys_len);
        if restarts == 0 || values > block.len() as u64 {
            return Err(BadBlock);
        }
        Ok(Self { restarts: restarts as usize, keys: keys as usize, values: values as usize })
    }

    /// Where the run number `index` begins.
    #[inline]
    fn restart(self, block: &[u8], index: usize) -> Result<Place, BadBlock> {
        let at = HEADER_LEN + RESTART_LEN * index;
        let bytes = block.get(at..).and_then(<[u8]>::first_chunk::<RESTART_LEN>).ok_or(BadBlock)?;
        let [k0, k1, k2, k3, v0, v1, v2, v3] = *bytes;
        let (key, value) = (u32::from_le_bytes([k0, k1, k2, k3]), u32::from_le_bytes([v0, v1, v2, v3]));
        let place = |from: usize, offset: u32| from.checked_add(offset as usize).ok_or(BadBlock);
        Ok(Place { key: place(self.keys, key)?, value: place(self.values, value)? })
    }

    /// The entry whose key begins at `at`.
    #[inline]
    fn entry(self, block: &[u8], at: usize) -> Result<Entry<'_>, BadBlock> {
        let rest = block.get(at..self.values).ok_or(BadBlock)?;
        // Nearly always the lengths of the key are below 128 and take a byte each, the value's at most two.
        let (shared, unshared, value_len, header) = match *rest {
            [shared, unshared, value_len, ..] if shared | unshared | value_len < 0x80 => {
                (usize::from(shared), usize::from(unshared), usize::from(value_len), 3)
            }
            [shared, unshared, low, high, ..] if shared | unshared | high < 0x80 => (
                usize::from(shared),
                usize::from(unshared),
                usize::from(low & 0x7f) | usize::from(high) << 7,
                4,
            ),
            _ => long_header(rest, block.len()).ok_or(BadBlock)?,
        };
        let suffix_end = header + unshared + TRAILER_LEN;
        let suffix = rest.get(header..suffix_end).ok_or(BadBlock)?;
        Ok(Entry { shared, suffix, value_len, next: at + suffix_end })
    }

    /// Where to begin a search for the internal key of these parts: at the last restart before it, or at the
    /// first.
    #[inline]
    fn run_before(self, block: &[u8], user: &[u8], trailer: u64) -> Result<Place, BadBlock> {
        self.last_run(block, |place| {
            let entry = self.entry(block, place.key)?;
            if entry.shared != 0 {
                return Err(BadBlock);
            }
            Ok(compare_parts(split_internal(entry.suffix), (user, trailer)).is_lt())
        })
    }

    /// The last restart for which `before` says true (it does for those in front), or the first.
    #[inline]
    fn last_run(
        self,
        block: &[u8],
        mut before: impl FnMut(Place) -> Result<bool, BadBlock>,
    ) -> Result<Place, BadBlock> {
        let (mut low, mut high) = (0, self.restarts);
        let mut begin = Place { key: self.keys, value: self.values };
        while low < high {
            let middle = low.midpoint(high);
            let place = self.restart(block, middle)?;
            if before(place)? {
                begin = place;
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(begin)
    }
}

/// The header of an entry with longer lengths.
#[cold]
fn long_header(rest: &[u8], block_len: usize) -> Option<(usize, usize, usize, usize)> {
    let mut cursor = Cursor::new(rest);
    let (shared, unshared, value_len) = (cursor.varint32()?, cursor.varint32()?, cursor.varint32()?);
    // A key or value never passes the block; with that, sums cannot overflow.
    let fits = |len: u32| usize::try_from(len).ok().filter(|&len| len <= block_len);
    Some((usize::try_from(shared).ok()?, fits(unshared)?, fits(value_len)?, cursor.position()))
}

/// What a point read found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) trailer: u64,
    /// The value's place in the block.
    pub(crate) value: Range<usize>,
}

/// The first entry of user key `user` at or behind `trailer` in the order of internal keys: the newest one at
/// or below that sequence.
///
/// Builds no key. `matched` is how many bytes the user key of the entry looked at last shares with `user`; as
/// keys ascend, an entry that shares more than that with its predecessor is still before `user`, one that
/// shares less is behind it, and only one that shares exactly as much has to be compared, from there on.
#[inline]
pub(crate) fn find(block: &[u8], user: &[u8], trailer: u64) -> Result<Option<Found>, BadBlock> {
    let layout = Layout::of(block)?;
    let Place { key: mut at, value: mut value_end } = layout.run_before(block, user, trailer)?;
    let mut matched = 0;
    while at < layout.values {
        let entry = layout.entry(block, at)?;
        let value = value_end;
        at = entry.next;
        value_end += entry.value_len;
        if entry.shared > matched {
            continue;
        }
        // Only a run begins with less shared than its order demands: its key is stored whole.
        if entry.shared < matched && entry.shared != 0 {
            return Ok(None);
        }
        let (suffix, found) = split_internal(entry.suffix);
        let wanted = user.get(entry.shared..).unwrap_or_default();
        let common = common_prefix(suffix, wanted);
        match (suffix.get(common), wanted.get(common)) {
            (None, None) if found <= trailer => {
                let value = value..value_end;
                return if value.end <= block.len() {
                    Ok(Some(Found { trailer: found, value }))
                } else {
                    Err(BadBlock)
                };
            }
            (Some(have), Some(want)) if have > want => return Ok(None),
            (Some(_), None) => return Ok(None),
            _ => matched = entry.shared + common,
        }
    }
    Ok(None)
}

/// A position in one block. Keeps its buffers when it moves on to another block.
#[derive(Debug)]
pub(crate) struct BlockCursor {
    block: BlockBytes,
    layout: Layout,
    /// Where the current key begins and the next one does; both at the end of the keys when there is none.
    at: usize,
    next: usize,
    /// The internal key here.
    key: Vec<u8>,
    /// The value here; the next one begins where it ends.
    value: Range<usize>,
    /// Entries of the current run in front of the current entry, as far as moving backwards has decoded them:
    /// the last is the one before. Without it every step back would decode half a run again.
    before: Vec<Decoded>,
    before_keys: Vec<u8>,
}

/// An entry in front of the current one.
#[derive(Debug)]
struct Decoded {
    at: usize,
    next: usize,
    /// Its key in `before_keys` begins here and ends where the one behind begins.
    key: usize,
    value: Range<usize>,
}

impl BlockCursor {
    /// A cursor on `block`, standing nowhere.
    pub(crate) fn new(block: BlockBytes) -> Result<Self, BadBlock> {
        let layout = Layout::of(&block)?;
        let (at, next) = (layout.values, layout.values);
        let (key, before, before_keys) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { block, layout, at, next, key, value: 0..0, before, before_keys })
    }

    /// Moves on to another block, standing nowhere.
    pub(crate) fn reset(&mut self, block: BlockBytes) -> Result<(), BadBlock> {
        self.layout = Layout::of(&block)?;
        self.block = block;
        self.leave();
        Ok(())
    }

    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.at < self.layout.values
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        self.block.get(self.value.clone()).unwrap_or_default()
    }

    /// To no entry.
    pub(crate) fn leave(&mut self) {
        self.at = self.layout.values;
        self.next = self.at;
        self.forget_before();
    }

    pub(crate) fn first(&mut self) -> Result<(), BadBlock> {
        self.begin_at(Place { key: self.layout.keys, value: self.layout.values });
        self.step()
    }

    pub(crate) fn last(&mut self) -> Result<(), BadBlock> {
        self.leave();
        self.prev()
    }

    /// To the first entry at or behind the internal key `target`; to none when all are before it.
    pub(crate) fn seek(&mut self, target: &[u8]) -> Result<(), BadBlock> {
        let (user, trailer) = split_internal(target);
        self.begin_at(self.layout.run_before(&self.block, user, trailer)?);
        loop {
            self.step()?;
            if !self.valid() || compare_parts(split_internal(&self.key), (user, trailer)).is_ge() {
                return Ok(());
            }
        }
    }

    /// To the next entry, or to none behind the last.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<(), BadBlock> {
        self.forget_before();
        self.step()
    }

    /// To the entry before, or to none before the first. From none: to the last.
    pub(crate) fn prev(&mut self) -> Result<(), BadBlock> {
        if self.before.is_empty() {
            let end = self.at;
            if end == self.layout.keys {
                self.leave();
                return Ok(());
            }
            self.decode_run_before(end)?;
        }
        let Some(Decoded { at, next, key, value }) = self.before.pop() else { return Err(BadBlock) };
        self.key.clear();
        self.key.extend_from_slice(self.before_keys.get(key..).unwrap_or_default());
        self.before_keys.truncate(key);
        (self.at, self.next, self.value) = (at, next, value);
        Ok(())
    }

    /// Decodes all entries from the last restart before `end` up to `end`.
    fn decode_run_before(&mut self, end: usize) -> Result<(), BadBlock> {
        let begin = self.layout.last_run(&self.block, |place| Ok(place.key < end))?;
        self.begin_at(begin);
        while self.next < end {
            self.step()?;
            let (at, next, key) = (self.at, self.next, self.before_keys.len());
            self.before.push(Decoded { at, next, key, value: self.value.clone() });
            self.before_keys.extend_from_slice(&self.key);
        }
        Ok(())
    }

    /// Makes the entry at `place`, which begins a run, the next one.
    fn begin_at(&mut self, place: Place) {
        self.next = place.key;
        self.value = 0..place.value;
        self.key.clear();
        self.forget_before();
    }

    #[inline]
    fn forget_before(&mut self) {
        self.before.clear();
        self.before_keys.clear();
    }

    /// To the entry at `next`; to none when the entries end there.
    #[inline]
    fn step(&mut self) -> Result<(), BadBlock> {
        self.at = self.next;
        if self.at >= self.layout.values {
            return Ok(());
        }
        let block: &[u8] = &self.block;
        match self.layout.entry(block, self.at) {
            Ok(entry)
                if entry.shared <= self.key.len().saturating_sub(TRAILER_LEN)
                    && entry.value_len <= block.len().saturating_sub(self.value.end) =>
            {
                self.key.truncate(entry.shared);
                self.key.extend_from_slice(entry.suffix);
                self.next = entry.next;
                self.value = self.value.end..self.value.end + entry.value_len;
                Ok(())
            }
            _ => {
                self.leave();
                Err(BadBlock)
            }
        }
    }
}
