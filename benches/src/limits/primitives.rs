//! What checksums, compression and memtable indexes cost.

use std::collections::HashMap;
use std::hint::black_box;

use crossbeam_skiplist::SkipMap;

use super::skiplist::ArenaSkiplist;
use super::{nanos_each, seconds};
use crate::{Numbers, key};

/// Entries of the indexes: what 64 MiB of 16 + 100 bytes hold.
pub const SMALL_ENTRIES: usize = 520_000;
/// Entries of the indexes: what 64 MiB of 16 + 1000 bytes hold.
pub const LARGE_ENTRIES: usize = 62_000;

/// What these cost here.
#[derive(Debug, Clone, Copy)]
pub struct PrimitiveCosts {
    /// CRC-32 of 120 bytes, in nanoseconds.
    pub crc_120: f64,
    /// CRC-32 of 1020 bytes, in nanoseconds.
    pub crc_1020: f64,
    /// CRC-32 of 64 KiB, in nanoseconds per byte.
    pub crc_large: f64,
    /// LZ4 of 4 KiB that halve, in nanoseconds per byte of input.
    pub compress: f64,
    /// The way back, in nanoseconds per byte of output.
    pub decompress: f64,
    /// Inserts at random places, averaged while the index grows to its size, in nanoseconds.
    pub small: IndexCosts,
    /// The same for the smaller number of larger values.
    pub large: IndexCosts,
}

/// What an insert costs in each kind of memtable index, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct IndexCosts {
    /// `crossbeam-skiplist`.
    pub crossbeam: f64,
    /// [`ArenaSkiplist`].
    pub arena: f64,
    /// A hash map, and an append to a vector that is sorted at the end.
    pub hash: f64,
}

/// Measures them; takes some seconds.
pub fn measure() -> PrimitiveCosts {
    let (compress, decompress) = lz4();
    PrimitiveCosts {
        crc_120: crc(120),
        crc_1020: crc(1020),
        crc_large: crc(64 << 10) / f64::from(64 << 10),
        compress,
        decompress,
        small: indexes(SMALL_ENTRIES),
        large: indexes(LARGE_ENTRIES),
    }
}

fn crc(bytes: usize) -> f64 {
    const ROUNDS: usize = 20_000;
    let data = vec![5_u8; bytes];
    nanos_each(ROUNDS, || {
        for _ in 0..ROUNDS {
            black_box(crc32fast::hash(black_box(&data)));
        }
    })
}

fn lz4() -> (f64, f64) {
    const ROUNDS: usize = 2_000;
    const BLOCK: usize = 4096;
    let data = half_random(BLOCK);
    let mut packed = vec![0; lz4_flex::block::get_maximum_output_size(BLOCK)];
    let mut length = 0;
    let compress = nanos_each(ROUNDS * BLOCK, || {
        for _ in 0..ROUNDS {
            length = lz4_flex::block::compress_into(black_box(&data), &mut packed).unwrap_or_default();
        }
    });
    let mut unpacked = vec![0; BLOCK];
    let decompress = nanos_each(ROUNDS * BLOCK, || {
        for _ in 0..ROUNDS {
            let _ = black_box(lz4_flex::block::decompress_into(&packed[..length], &mut unpacked));
        }
    });
    assert_eq!(unpacked, data);
    (compress, decompress)
}

/// Bytes of which every 100 begin with 50 random ones.
fn half_random(bytes: usize) -> Vec<u8> {
    let mut numbers = Numbers::new(11);
    (0..bytes).map(|at| if at % 100 < 50 { numbers.below(256) as u8 } else { b'v' }).collect()
}

fn indexes(entries: usize) -> IndexCosts {
    let mut numbers = Numbers::new(13);
    let keys: Vec<_> = (0..entries).map(|_| key(numbers.below(1 << 40))).collect();
    let each = |taken: f64| taken * 1e9 / entries as f64;
    let crossbeam = SkipMap::new();
    let by_crossbeam = seconds(|| {
        for (value, key) in keys.iter().enumerate() {
            crossbeam.insert(*key, value as u32);
        }
    });
    let mut arena = ArenaSkiplist::with_capacity(entries);
    let by_arena = seconds(|| {
        for (value, key) in keys.iter().enumerate() {
            arena.insert(*key, value as u32);
        }
    });
    let mut index = HashMap::with_capacity(entries);
    let mut log = Vec::with_capacity(entries);
    let by_hash = seconds(|| {
        for (value, key) in keys.iter().enumerate() {
            log.push((*key, value as u32));
            index.insert(*key, value as u32);
        }
        log.sort_unstable();
    });
    assert!(crossbeam.len() == index.len() && log.len() == arena.values().count());
    IndexCosts { crossbeam: each(by_crossbeam), arena: each(by_arena), hash: each(by_hash) }
}
