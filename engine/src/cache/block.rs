//! [`BlockCache`]: blocks that had to be read or decompressed, bounded by their bytes.
//!
//! May be shared by several databases: a block is known by its file's unique id, not by its number. It
//! knows no file; whoever misses brings the loader.

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::sync::{Cache, DefaultLifecycle, GuardResult};
use quick_cache::{OptionsBuilder, Weighter};
use sluicedb_wbm::{CACHE_UNIT, MemtableCache};

use crate::error::Result;
use crate::sst::BlockBytes;
use crate::sync::{Mutex, forbid_held_locks};

/// A block that the cache is sized for: it decides how many are expected, not how many there may be.
const TYPICAL_BLOCK: u64 = 4 << 10;
/// What the cache itself spends on a block, in bytes: slot, hash table entry, reference counts.
const ENTRY_OVERHEAD: u64 = 128;

/// Blocks of tables in memory, up to a number of bytes. May be shared by several databases.
///
/// Stored blocks of mapped files are read where they lie and never come here.
pub struct BlockCache {
    blocks: Cache<BlockKey, BlockBytes, BlockWeight, BlockHash>,
    capacity: u64,
    /// Units of [`CACHE_UNIT`] bytes that memtables have taken; blocks have the rest.
    reserved: Mutex<u64>,
    /// Hits and misses, spread so that threads reading different blocks do not share a cache line.
    counts: [Counts; COUNT_STRIPES],
}

const COUNT_STRIPES: usize = 16;

#[derive(Debug, Default)]
#[repr(align(128))]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Which block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockKey {
    pub(crate) file_id: u64,
    pub(crate) offset: u64,
}

impl Hash for BlockKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.file_id);
        state.write_u64(self.offset);
    }
}

impl BlockCache {
    /// An empty cache for blocks of `capacity_bytes` in all. 0 keeps nothing.
    pub fn new(capacity_bytes: u64) -> Arc<Self> {
        let expected = usize::try_from(capacity_bytes / TYPICAL_BLOCK).unwrap_or(usize::MAX).max(1);
        let options = OptionsBuilder::new()
            .weight_capacity(capacity_bytes)
            .estimated_items_capacity(expected)
            .build()
            .expect("both capacities are set");
        let blocks = Cache::with_options(options, BlockWeight, BlockHash, DefaultLifecycle::default());
        Arc::new(Self {
            blocks,
            capacity: capacity_bytes,
            reserved: Mutex::new(0),
            counts: Default::default(),
        })
    }

    /// Most bytes that it keeps, those of memtables included.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes that it keeps now, its own overhead and what memtables have reserved included.
    pub fn usage(&self) -> u64 {
        self.blocks.weight() + self.reserved_bytes()
    }

    /// Bytes that memtables have reserved.
    pub fn reserved_bytes(&self) -> u64 {
        *self.reserved.lock() * CACHE_UNIT
    }

    /// Lookups that found their block.
    pub fn hits(&self) -> u64 {
        self.counts.iter().map(|counts| counts.hits.load(Ordering::Relaxed)).sum() // statistics
    }

    /// Lookups that did not.
    pub fn misses(&self) -> u64 {
        self.counts.iter().map(|counts| counts.misses.load(Ordering::Relaxed)).sum() // statistics
    }

    /// The block if it is here.
    #[inline]
    pub(crate) fn get(&self, key: BlockKey) -> Option<BlockBytes> {
        let block = self.blocks.get(&key);
        let counts = self.counts(key);
        let count = if block.is_some() { &counts.hits } else { &counts.misses };
        count.fetch_add(1, Ordering::Relaxed); // statistics
        block
    }

    /// The block; if it is not here, `load` brings it. Of several threads that miss one block, one loads
    /// and the others wait for it; if it fails, the next one tries. No lock is held meanwhile.
    #[inline]
    pub(crate) fn get_or_load(
        &self,
        key: BlockKey,
        load: impl FnOnce() -> Result<BlockBytes>,
    ) -> Result<BlockBytes> {
        match self.get(key) {
            Some(block) => Ok(block),
            None => self.load_once(key, load),
        }
    }

    #[inline(never)]
    fn load_once(&self, key: BlockKey, load: impl FnOnce() -> Result<BlockBytes>) -> Result<BlockBytes> {
        forbid_held_locks("wait for a block");
        loop {
            match self.blocks.get_value_or_guard(&key, None) {
                GuardResult::Value(block) => return Ok(block),
                GuardResult::Guard(guard) => {
                    let block = load()?;
                    // Refused only when the placeholder was removed meanwhile; the block is good all the
                    // same.
                    let _ = guard.insert(block.clone());
                    return Ok(block);
                }
                GuardResult::Timeout => {} // only with a time limit, and there is none
            }
        }
    }

    /// Whether the block is here. Counts as no look-up.
    pub(crate) fn contains(&self, key: BlockKey) -> bool {
        self.blocks.contains_key(&key)
    }

    fn counts(&self, key: BlockKey) -> &Counts {
        &self.counts[(BlockHash.hash_one(key) >> 20) as usize % COUNT_STRIPES]
    }
}

/// Memtables take room from blocks, all of it if need be; blocks that no longer fit are evicted within the call.
impl MemtableCache for BlockCache {
    fn reserve(&self, units: u64) -> u64 {
        let mut reserved = self.reserved.lock();
        let granted = units.min((self.capacity / CACHE_UNIT).saturating_sub(*reserved));
        if granted > 0 {
            *reserved += granted;
            self.blocks.set_capacity(self.capacity - *reserved * CACHE_UNIT);
        }
        granted
    }

    fn release(&self, units: u64) {
        let mut reserved = self.reserved.lock();
        *reserved = reserved.saturating_sub(units);
        self.blocks.set_capacity(self.capacity - *reserved * CACHE_UNIT);
    }
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockCache").field("capacity", &self.capacity).field("usage", &self.usage()).finish()
    }
}

#[derive(Clone)]
struct BlockWeight;

impl Weighter<BlockKey, BlockBytes> for BlockWeight {
    fn weight(&self, _: &BlockKey, block: &BlockBytes) -> u64 {
        block.heap_bytes() as u64 + ENTRY_OVERHEAD
    }
}

/// Hashes a [`BlockKey`]. File ids are random already, so mixing the two numbers well is enough.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BlockHash;

impl BuildHasher for BlockHash {
    type Hasher = FoldedMultiply;

    #[inline]
    fn build_hasher(&self) -> FoldedMultiply {
        FoldedMultiply(0x243f_6a88_85a3_08d3)
    }
}

/// Odd and without pattern: 2^64 divided by the golden ratio.
const FOLD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Multiplies to 128 bits and folds the halves together, for every number written.
#[derive(Debug)]
pub(super) struct FoldedMultiply(u64);

impl Hasher for FoldedMultiply {
    #[inline]
    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * u128::from(FOLD);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests;
