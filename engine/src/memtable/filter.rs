//! [`MemtableFilter`]: says of most keys that a memtable lacks that it lacks them, at the cost of one cache miss.
//!
//! A Bloom filter of one 64-bit word a key: four bits of the word that the key's hash chooses. At ten bits of filter per
//! key about 4 % of the missing keys look as if they were there. A key's bits are set before the sequence that makes it
//! visible is published, so a reader that may see the entry sees the bits.

use std::sync::atomic::{AtomicU64, Ordering};

use xxhash_rust::xxh3::xxh3_64;

/// Memtable bytes for one byte of filter: entries of 100 bytes get about ten bits each.
const MEMTABLE_BYTES_PER_FILTER_BYTE: u64 = 128;

/// A Bloom filter over the user keys of a memtable.
#[derive(Debug)]
pub(super) struct MemtableFilter {
    /// A power of two of them.
    words: Box<[AtomicU64]>,
}

impl MemtableFilter {
    /// A filter for a memtable of about this many bytes.
    pub(super) fn for_memtable_of(bytes: u64) -> Self {
        let words = (bytes / MEMTABLE_BYTES_PER_FILTER_BYTE / 8).clamp(8, 1 << 24).next_power_of_two();
        // Zeroed pages are taken from the system only when a key first touches them.
        Self { words: std::iter::repeat_with(AtomicU64::default).take(words as usize).collect() }
    }

    /// Bytes of the filter.
    pub(super) fn bytes(&self) -> u64 {
        size_of_val(&*self.words) as u64
    }

    #[inline]
    pub(super) fn insert(&self, user_key: &[u8]) {
        let (word, bits) = self.place(user_key);
        // Relaxed: published with the sequence, see the head of this file.
        if word.load(Ordering::Relaxed) & bits != bits {
            word.fetch_or(bits, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(super) fn may_contain(&self, user_key: &[u8]) -> bool {
        let (word, bits) = self.place(user_key);
        word.load(Ordering::Relaxed) & bits == bits
    }

    #[inline]
    fn place(&self, user_key: &[u8]) -> (&AtomicU64, u64) {
        let hash = xxh3_64(user_key);
        // The low bits choose the word, 24 high ones the four bits in it.
        let word = &self.words[hash as usize & (self.words.len() - 1)];
        let bit = |shift: u32| 1_u64 << (hash >> shift & 63);
        (word, bit(40) | bit(46) | bit(52) | bit(58))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys that are there are never denied; of those that are not, few are let through.
    #[test]
    fn nothing_is_denied_and_little_let_through() {
        let filter = MemtableFilter::for_memtable_of(1 << 20);
        let keys = 8 * filter.bytes() / 10;
        for key in 0..keys {
            filter.insert(&key.to_be_bytes());
        }
        assert!((0..keys).all(|key| filter.may_contain(&key.to_be_bytes())));
        let through = (keys..11 * keys).filter(|key| filter.may_contain(&key.to_be_bytes())).count() as u64;
        assert!(through < 10 * keys * 6 / 100, "{through} of {}", 10 * keys);
    }
}
