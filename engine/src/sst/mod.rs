//! Tables: sorted, immutable files of internal keys and values.
//!
//! ```text
//!   SstWriter --- block_builder, compression, filter ---> file      (format, block, filter, properties:
//!   SstReader <-- source <------------------------------- file       the bytes, each described once)
//!       |  index, filter resident; blocks mapped or from the cache
//!       +--- get: filter -> index -> block -> find
//!       +--- SstIter: index -> block -> BlockCursor
//! ```
//!
//! [`SstWriter`] makes a table from ascending keys, [`SstReader`] answers from one, [`SstIter`] moves over
//! one. [`check`](fn@check) looks at every byte of one. Nothing here knows versions, levels, visibility or other tables.

mod block;
mod block_builder;
mod bytes;
mod check;
mod compression;
mod filter;
mod format;
mod index;
mod iter;
mod properties;
mod reader;
mod source;
mod writer;

pub(crate) use bytes::BlockBytes;
pub(crate) use check::{check, salvage};
pub(crate) use iter::SstIter;
pub(crate) use reader::{BlockRead, SstReader};
pub(crate) use writer::{SstSummary, SstWriter, UnsyncedSst};

use crate::options::{ColumnFamilyOptions, Compression};

/// How a table is made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SstOptions {
    /// Size of a data block before compression, in bytes.
    pub(crate) block_size: u64,
    /// Entries between two keys that are stored whole.
    pub(crate) restart_interval: u32,
    pub(crate) compression: Compression,
    /// 0: no filter.
    pub(crate) bloom_bits_per_key: f64,
    /// Whether the file is written past the page cache.
    pub(crate) direct: bool,
}

impl SstOptions {
    /// How a family wants the tables of `level`, through the page cache.
    pub(crate) fn from_family(options: &ColumnFamilyOptions, level: usize) -> Self {
        Self {
            block_size: options.block_size,
            restart_interval: options.block_restart_interval,
            compression: options.compression_at(level),
            bloom_bits_per_key: options.bloom_bits_per_key,
            direct: false,
        }
    }
}

/// How many leading bytes are equal.
#[inline]
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let (words_a, _) = a.as_chunks::<8>();
    let (words_b, _) = b.as_chunks::<8>();
    let mut common = 0;
    for (word_a, word_b) in words_a.iter().zip(words_b) {
        let differing = u64::from_le_bytes(*word_a) ^ u64::from_le_bytes(*word_b);
        if differing != 0 {
            return common + (differing.trailing_zeros() / 8) as usize;
        }
        common += 8;
    }
    let rest = a[common..].iter().zip(&b[common..]);
    common + rest.take_while(|(byte_a, byte_b)| byte_a == byte_b).count()
}

#[cfg(test)]
mod tests;
