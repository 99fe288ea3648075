//! [`BlockBuilder`]: makes the contents of one block after the other.
//!
//! What it makes is described in [`block`](super::block). It knows nothing of trailers, files or compression;
//! it keeps its buffers from block to block, and it is where the order of a table's keys is enforced: a table
//! out of order would answer reads wrongly for as long as it lives, so that is checked in release builds too.

use super::block::{HEADER_LEN, RESTART_LEN};
use super::common_prefix;
use crate::coding::put_varint;
use crate::key::TRAILER_LEN;

/// Builds blocks from ascending internal keys.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    keys: Vec<u8>,
    values: Vec<u8>,
    /// As they will lie in the block.
    restarts: Vec<u8>,
    finished: Vec<u8>,
    restart_interval: u32,
    /// Entries that may still follow in the current run.
    left_in_run: u32,
    /// User key and trailer of the entry added last, in this block or an earlier one.
    last_user_key: Vec<u8>,
    last_trailer: u64,
    any: bool,
}

impl BlockBuilder {
    pub(crate) fn new(restart_interval: u32) -> Self {
        Self {
            keys: Vec::new(),
            values: Vec::new(),
            restarts: Vec::new(),
            finished: Vec::new(),
            restart_interval: restart_interval.max(1),
            left_in_run: 0,
            last_user_key: Vec::new(),
            last_trailer: 0,
            any: false,
        }
    }

    /// Adds an entry behind all others. Whether its user key differs from the entry's before.
    ///
    /// # Panics
    ///
    /// When the entry does not belong behind the one added last.
    #[inline]
    pub(crate) fn add(&mut self, user_key: &[u8], trailer: u64, value: &[u8]) -> bool {
        let common = common_prefix(&self.last_user_key, user_key);
        let ascends = match (self.last_user_key.get(common), user_key.get(common)) {
            (None, None) => trailer < self.last_trailer || !self.any,
            (None, Some(_)) => true,
            (Some(_), None) => false,
            (Some(last), Some(this)) => last < this,
        };
        assert!(ascends, "entries are added out of order");
        let is_new_key = !self.any || common < self.last_user_key.len().max(user_key.len());

        let shared = if self.left_in_run == 0 {
            self.add_restart();
            self.left_in_run = self.restart_interval;
            0
        } else {
            common
        };
        self.left_in_run -= 1;
        let suffix = &user_key[shared..];
        if (shared | suffix.len() | value.len()) < 0x80 {
            self.keys.extend_from_slice(&[shared as u8, suffix.len() as u8, value.len() as u8]);
        } else {
            put_varint(&mut self.keys, shared as u64);
            put_varint(&mut self.keys, suffix.len() as u64);
            put_varint(&mut self.keys, value.len() as u64);
        }
        self.keys.extend_from_slice(suffix);
        self.keys.extend_from_slice(&trailer.to_le_bytes());
        self.values.extend_from_slice(value);

        self.last_user_key.truncate(common);
        self.last_user_key.extend_from_slice(&user_key[common..]);
        self.last_trailer = trailer;
        self.any = true;
        is_new_key
    }

    /// Whether the current block has no entry.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Bytes of the block if it were finished now.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        HEADER_LEN + self.restarts.len() + self.keys.len() + self.values.len()
    }

    /// Bytes of the block if an entry of these lengths were added, at most.
    #[inline]
    pub(crate) fn len_with(&self, user_key: usize, value: usize) -> usize {
        // Two of the three lengths are nearly always one byte; a fixed slack is close enough for a target
        // size.
        const LENGTHS_AND_RESTART: usize = 4 + RESTART_LEN;
        self.len() + LENGTHS_AND_RESTART + user_key + TRAILER_LEN + value
    }

    /// User key and trailer of the entry added last; it may be in a block that was finished since.
    pub(crate) fn last_key(&self) -> (&[u8], u64) {
        (&self.last_user_key, self.last_trailer)
    }

    /// The contents of the block. [`clear`](Self::clear) begins the next one.
    pub(crate) fn finish(&mut self) -> &[u8] {
        self.finished.clear();
        self.finished.reserve(self.len());
        self.finished.extend_from_slice(&offset(self.keys.len()));
        self.finished.extend_from_slice(&offset(self.restarts.len() / RESTART_LEN));
        self.finished.extend_from_slice(&self.restarts);
        self.finished.extend_from_slice(&self.keys);
        self.finished.extend_from_slice(&self.values);
        &self.finished
    }

    /// Begins an empty block; keys must still ascend.
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
        self.restarts.clear();
        self.left_in_run = 0;
    }

    fn add_restart(&mut self) {
        self.restarts.extend_from_slice(&offset(self.keys.len()));
        self.restarts.extend_from_slice(&offset(self.values.len()));
    }
}

fn offset(number: usize) -> [u8; 4] {
    u32::try_from(number).expect("the writer keeps blocks below 4 GiB").to_le_bytes()
}
