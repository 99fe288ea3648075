//! Whole tables: written, read back, and compared with a `BTreeMap`. What damage does: [`damage`].

mod damage;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;
use crate::cache::BlockCache;
use crate::env::FileSystem;
use crate::env::mem::MemFileSystem;
use crate::error::Result;
use crate::iter::InternalIterator;
use crate::key::{SequenceNumber, ValueType, make_internal, seek_key, split_internal, unpack_trailer};
use crate::options::ReadMode;
use crate::version::FileNumber;

/// The generator of all tests here: xorshift64*, seeded.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Internal keys in their order: user key, then newest first.
type Model = BTreeMap<(Vec<u8>, std::cmp::Reverse<u64>), Vec<u8>>;

fn internal(user: &[u8], seq: u64, value_type: ValueType) -> Vec<u8> {
    let mut key = Vec::new();
    make_internal(&mut key, user, SequenceNumber::new(seq), value_type);
    key
}

/// Keys of mixed lengths with long and short shared parts, several versions of many, tombstones, odd values.
fn random_model(random: &mut Random, entries: usize) -> Model {
    let mut model = Model::new();
    let mut user = Vec::new();
    while model.len() < entries {
        if random.below(3) > 0 {
            user = match random.below(5) {
                0 => format!("{:016}", random.below(100_000)).into_bytes(),
                1 => format!("a/long/shared/prefix/{:04}", random.below(500)).into_bytes(),
                2 => vec![random.below(256) as u8; random.below(4) as usize],
                3 => vec![0xff; random.below(20) as usize],
                _ => {
                    let mut longer = user.clone();
                    longer.truncate(150);
                    longer.extend_from_slice(&random.next().to_be_bytes()[..random.below(8) as usize]);
                    longer
                }
            };
        }
        let seq = 1 + random.below(1000);
        let is_put = random.below(5) > 0;
        let value = match random.below(20) {
            _ if !is_put => Vec::new(),
            0 => vec![b'x'; random.below(6000) as usize],
            1 => (0..random.below(300)).map(|_| random.next() as u8).collect(),
            _ => format!("value of {seq}").into_bytes(),
        };
        let trailer = std::cmp::Reverse(seq << 8 | u64::from(is_put));
        let others =
            (user.clone(), std::cmp::Reverse(seq << 8 | 1))..=(user.clone(), std::cmp::Reverse(seq << 8));
        if model.range(others).next().is_none() {
            model.insert((user.clone(), trailer), value);
        }
    }
    model
}

fn joined((user, trailer): &(Vec<u8>, std::cmp::Reverse<u64>)) -> Vec<u8> {
    let mut key = user.clone();
    key.extend_from_slice(&trailer.0.to_le_bytes());
    key
}

fn options(block_size: u64, restart_interval: u32, compression: Compression) -> SstOptions {
    SstOptions { block_size, restart_interval, compression, bloom_bits_per_key: 10.0, direct: false }
}

const PATH: &str = "db/000007.sst";

fn write(fs: &MemFileSystem, path: &str, model: &Model, options: SstOptions) -> SstSummary {
    let mut writer = SstWriter::create(fs, PathBuf::from(path), fs.unique_id(), options).unwrap();
    for (key, value) in model {
        writer.add(&joined(key), value).unwrap();
    }
    let before = writer.file_size();
    let summary = writer.finish().unwrap();
    // Only the block that was open counts before compression.
    assert!(before <= summary.size + options.block_size.max(8192));
    assert_eq!(fs.contents(Path::new(path)).len() as u64, summary.size);
    assert_eq!(fs.syncs(Path::new(path)), 1, "finished means synced");
    summary
}

fn open_with(
    fs: &MemFileSystem,
    path: &str,
    summary: &SstSummary,
    mode: ReadMode,
    cache: Option<Arc<BlockCache>>,
) -> Result<Arc<SstReader>> {
    SstReader::open(fs, PathBuf::from(path), FileNumber(7), summary.unique_id, summary.size, mode, cache)
}

fn entries_forward(iter: &mut SstIter) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut entries = Vec::new();
    iter.seek_to_first()?;
    while iter.valid() {
        entries.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next()?;
    }
    Ok(entries)
}

/// Every entry comes back by iteration in both directions, by seek and by get, for all kinds of options.
///
/// Method: random tables against a `BTreeMap`; random moves of one iterator; gets at random sequences, of
/// keys that are there and of neighbours that may not be.
#[test]
fn tables_answer_like_a_map() {
    for seed in 1..=24 {
        let mut random = Random(seed * 0x9e37_79b9);
        let entries = 1 + random.below(1500) as usize;
        let model = random_model(&mut random, entries);
        let compression = [Compression::None, Compression::Lz4][seed as usize % 2];
        let block_size = [256, 1024, 4096, 1 << 20][seed as usize / 2 % 4];
        let restart_interval = [1, 2, 16, 256][seed as usize / 3 % 4];
        let fs = MemFileSystem::new();
        let mut made = options(block_size, restart_interval, compression);
        made.bloom_bits_per_key = if seed % 5 == 0 { 0.0 } else { 10.0 };
        let summary = write(&fs, PATH, &model, made);
        check_summary(&summary, &model);
        let cache = BlockCache::new(256 << 10);
        for (mode, cache) in
            [(ReadMode::Mmap, Some(cache.clone())), (ReadMode::Pread, Some(cache)), (ReadMode::Mmap, None)]
        {
            let table = open_with(&fs, PATH, &summary, mode, cache).unwrap();
            check_gets(&table, &model, &mut random, &format!("seed {seed}, {mode:?}"));
            for how in
                [BlockRead::USER, BlockRead::BACKGROUND, BlockRead { verify: false, ..BlockRead::USER }]
            {
                check_moves(&table, &model, &mut random, how, &format!("seed {seed}, {mode:?}, {how:?}"));
            }
        }
    }
}

fn check_summary(summary: &SstSummary, model: &Model) {
    let keys: Vec<Vec<u8>> = model.keys().map(joined).collect();
    let seqs = || keys.iter().map(|key| unpack_trailer(split_internal(key).1).unwrap());
    assert_eq!(*summary.smallest, keys[0]);
    assert_eq!(*summary.largest, keys[keys.len() - 1]);
    assert_eq!(summary.smallest_seq, seqs().map(|(seq, _)| seq).min().unwrap());
    assert_eq!(summary.largest_seq, seqs().map(|(seq, _)| seq).max().unwrap());
    assert_eq!(summary.entries, keys.len() as u64);
    assert_eq!(
        summary.tombstones,
        seqs().filter(|(_, value_type)| *value_type == ValueType::Delete).count() as u64
    );
    let values = model.values().map(Vec::len);
    assert_eq!(summary.raw_bytes, keys.iter().map(Vec::len).chain(values).sum::<usize>() as u64);
}

fn check_gets(table: &SstReader, model: &Model, random: &mut Random, state: &str) {
    let users: Vec<&Vec<u8>> = model.keys().map(|(user, _)| user).collect();
    for _ in 0..500 {
        let mut user = users[random.below(users.len() as u64) as usize].clone();
        match random.below(8) {
            0 => user.push(random.next() as u8),
            1 => drop(user.pop()),
            2 if !user.is_empty() => *user.last_mut().unwrap() ^= 1,
            _ => {}
        }
        let seq = if random.below(3) == 0 { SequenceNumber::MAX.get() } else { random.below(1002) };
        let from = (user.clone(), std::cmp::Reverse(seq << 8 | 1));
        let expected = model.range(from..).next().filter(|((found, _), _)| *found == user);
        let expected = expected.map(|((_, trailer), value)| {
            let (seq, value_type) = unpack_trailer(trailer.0).unwrap();
            (seq, value_type, value.clone())
        });
        let found = table.get(&seek_key(&user, SequenceNumber::new(seq)), BlockRead::USER).unwrap();
        let found = found.map(|(seq, value_type, value)| (seq, value_type, value.to_vec()));
        assert_eq!(found, expected, "{state}: get {} at {seq}", user.escape_ascii());
    }
}

/// Random moves of one iterator beside a position in the sorted list of entries.
fn check_moves(table: &Arc<SstReader>, model: &Model, random: &mut Random, how: BlockRead, state: &str) {
    let entries: Vec<(Vec<u8>, &Vec<u8>)> = model.iter().map(|(key, value)| (joined(key), value)).collect();
    let mut iter = table.iter(how);
    assert!(!iter.valid());
    let forward = entries_forward(&mut iter).unwrap();
    assert!(
        forward.iter().map(|(key, value)| (key, value)).eq(entries.iter().map(|(key, value)| (key, *value)))
    );
    iter.seek_to_last().unwrap();
    for (key, value) in entries.iter().rev() {
        assert_eq!((iter.key(), iter.value()), (key.as_slice(), value.as_slice()), "{state}: backwards");
        iter.prev().unwrap();
    }
    assert!(!iter.valid());

    let mut at: Option<usize> = None;
    for step in 0..1000 {
        let mut target = entries[random.below(entries.len() as u64) as usize].0.clone();
        if random.below(2) == 0 {
            let byte = random.below(target.len() as u64) as usize;
            target[byte] = random.next() as u8;
        }
        let order = |entry: &(Vec<u8>, &Vec<u8>)| crate::key::compare_internal(&entry.0, &target);
        let last = entries.len() - 1;
        match (random.below(12), at) {
            (0, _) => {
                iter.seek_to_first().unwrap();
                at = Some(0);
            }
            (1, _) => {
                iter.seek_to_last().unwrap();
                at = Some(last);
            }
            (2..=3, _) => {
                iter.seek(&target).unwrap();
                at = Some(entries.partition_point(|entry| order(entry).is_lt())).filter(|&at| at <= last);
            }
            (4..=5, _) => {
                iter.seek_for_prev(&target).unwrap();
                at = entries.partition_point(|entry| order(entry).is_le()).checked_sub(1);
            }
            (6..=8, Some(here)) => {
                iter.next().unwrap();
                at = Some(here + 1).filter(|&at| at <= last);
            }
            (_, Some(here)) => {
                iter.prev().unwrap();
                at = here.checked_sub(1);
            }
            _ => {}
        }
        let expected = at.map(|at| (entries[at].0.as_slice(), entries[at].1.as_slice()));
        let found = iter.valid().then(|| (iter.key(), iter.value()));
        assert_eq!(found, expected, "{state}: step {step}");
    }
}

fn small_model() -> Model {
    let mut model = Model::new();
    for number in 0..40_u64 {
        let (user, trailer) =
            (format!("key{:03}", number / 2).into_bytes(), std::cmp::Reverse((50 - number) << 8 | 1));
        model.insert((user, trailer), format!("value value value {number}").into_bytes());
    }
    model
}

/// A table that nobody knows can be opened and tells what a manifest needs.
#[test]
fn an_unlisted_table_tells_what_it_is() {
    let fs = MemFileSystem::new();
    let summary = write(&fs, PATH, &small_model(), options(256, 4, Compression::Lz4));
    let table = SstReader::open_unlisted(&fs, PathBuf::from(PATH), FileNumber(7)).unwrap();
    let properties = table.properties();
    assert_eq!((table.footer().unique_id, table.footer().file_size), (summary.unique_id, summary.size));
    assert_eq!((&properties.smallest, &properties.largest), (&summary.smallest, &summary.largest));
    assert_eq!(
        (properties.smallest_seq, properties.largest_seq),
        (summary.smallest_seq, summary.largest_seq)
    );
    assert_eq!((properties.entries, properties.tombstones), (summary.entries, summary.tombstones));
    assert_eq!(properties.raw_key_bytes + properties.raw_value_bytes, summary.raw_bytes);
    assert!(table.approximate_offset(&summary.smallest) == 0);
    assert!(table.approximate_offset(b"zzz.........") == summary.size);
}

/// Mapped stored blocks are used in place: no block goes to the cache, and each checksum is verified once.
/// Everything else is loaded once and then hit.
#[test]
fn blocks_are_loaded_once() {
    let read_all = |table: &Arc<SstReader>| entries_forward(&mut table.iter(BlockRead::USER)).unwrap().len();
    for (compression, mode) in [
        (Compression::None, ReadMode::Mmap),
        (Compression::Lz4, ReadMode::Mmap),
        (Compression::None, ReadMode::Pread),
    ] {
        let (fs, cache) = (MemFileSystem::new(), BlockCache::new(4 << 20));
        let model: Model = (0..2000_u64)
            .map(|n| ((format!("k{n:08}").into_bytes(), std::cmp::Reverse(257)), vec![b'v'; 100]))
            .collect();
        let summary = write(&fs, PATH, &model, options(4096, 16, compression));
        let table = open_with(&fs, PATH, &summary, mode, Some(cache.clone())).unwrap();
        let opened = fs.reads(Path::new(PATH));
        assert_eq!(read_all(&table), 2000);
        let blocks = table.index().len() as u64;
        let in_place = (compression, mode) == (Compression::None, ReadMode::Mmap);
        assert_eq!(cache.misses(), if in_place { 0 } else { blocks });
        assert_eq!(read_all(&table), 2000);
        assert_eq!((cache.hits(), cache.usage() == 0), (if in_place { 0 } else { blocks }, in_place));
        let reads = fs.reads(Path::new(PATH)) - opened;
        assert_eq!(reads, if mode == ReadMode::Pread { blocks } else { 0 });
    }
}

/// Keys out of order, and equal ones, are a bug of ours and stop the writer.
#[test]
fn a_broken_order_panics() {
    for (first, second) in [
        (internal(b"b", 1, ValueType::Put), internal(b"a", 1, ValueType::Put)),
        (internal(b"b", 1, ValueType::Put), internal(b"b", 1, ValueType::Put)),
        (internal(b"b", 1, ValueType::Put), internal(b"b", 2, ValueType::Put)),
        (internal(b"bb", 1, ValueType::Put), internal(b"b", 1, ValueType::Put)),
    ] {
        let fs = MemFileSystem::new();
        let made = options(1, 16, Compression::None);
        let mut writer = SstWriter::create(&fs, PathBuf::from(PATH), 1, made).unwrap();
        writer.add(&first, b"").unwrap();
        let added = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| writer.add(&second, b"")));
        assert!(added.is_err(), "{} behind {}", second.escape_ascii(), first.escape_ascii());
    }
}

/// The bytes of a whole table are frozen.
#[test]
fn table_bytes_are_frozen() {
    let fs = MemFileSystem::new();
    let made = SstOptions { bloom_bits_per_key: 0.0, ..options(4096, 16, Compression::None) };
    let mut writer = SstWriter::create(&fs, PathBuf::from(PATH), 7, made).unwrap();
    writer.add(&internal(b"ab", 2, ValueType::Put), b"x").unwrap();
    writer.add(&internal(b"ac", 1, ValueType::Delete), b"").unwrap();
    writer.finish().unwrap();
    let bytes = fs.contents(Path::new(PATH));
    #[rustfmt::skip]
    let data_block = [
        25, 0, 0, 0, 1, 0, 0, 0,                     // 25 bytes of keys, one restart:
        0, 0, 0, 0, 0, 0, 0, 0,                      // key at 0, value at 0
        0, 2, 1, b'a', b'b', 1, 2, 0, 0, 0, 0, 0, 0, // shared 0, unshared 2, value 1
        1, 1, 0, b'c', 0, 1, 0, 0, 0, 0, 0, 0,       // shared 1, unshared 1, value 0
        b'x',
    ];
    #[rustfmt::skip]
    let index_block = [
        13, 0, 0, 0, 1, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0,
        0, 2, 3, b'a', b'c', 0, 1, 0, 0, 0, 0, 0, 0,
        0, 42, 0,                                    // handle: offset 0, 42 bytes, stored
    ];
    assert_eq!(bytes[..42], data_block);
    assert_eq!(bytes[42..51], GOLDEN_DATA_TRAILER);
    assert_eq!(bytes[51..83], index_block);
    assert_eq!(crate::checksum::crc32(&[&bytes]), GOLDEN_TABLE_CRC);
}

const GOLDEN_DATA_TRAILER: [u8; 9] = [0, 42, 0, 0, 0, 117, 222, 170, 109];
const GOLDEN_TABLE_CRC: u32 = 0x9022_b562;
