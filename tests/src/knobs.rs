//! Odd options by seed: tiny memtables, blocks, segments and quotas, so that rare branches are common.
//!
//! Everything drawn is valid; what options mean is the store's affair.

use std::sync::Arc;
use std::time::Duration;

use sluicedb::{
    ColumnFamilyOptions, CompactionStyle, Compression, DbOptions, DelayedWriteRate, FileSystem, ReadMode,
    RecoveryMode,
};

use crate::rng::Rng;

/// Options of a database on `file_system`. `levels` stays the same for the life of a database.
pub fn db_options(rng: &mut Rng, file_system: Arc<dyn FileSystem>, levels: u32) -> DbOptions {
    let mut options = DbOptions::default();
    options.file_system = file_system;
    options.column_family = family_options(rng, levels);
    options.db_write_buffer_size = *rng.pick(&[0, 256 << 10, 512 << 10, 1 << 20]);
    options.delay_start_percent = *rng.pick(&[1, 50, 70, 99]);
    options.initiate_flushes = rng.chance(80);
    options.max_parallel_flushes = rng.range(1, 4) as u32;
    // A delay costs real time here, so the brake is on, but hardly felt.
    options.delayed_write_rate = DelayedWriteRate::BytesPerSecond(1 << 30);
    options.max_background_flushes = rng.range(1, 2) as u32;
    options.max_background_compactions = rng.range(1, 2) as u32;
    options.max_subcompactions = rng.range(1, 2) as u32;
    options.commit_queue_bytes = *rng.pick(&[4 << 10, 64 << 10, 64 << 20]);
    options.commit_group_bytes = *rng.pick(&[4 << 10, 64 << 10, 32 << 20]);
    options.wal_segment_bytes = *rng.pick(&[64 << 10, 64 << 10, 96 << 10, 1 << 20]);
    options.wal_buffer_bytes = *rng.pick(&[0, 300, 4 << 10, 64 << 10]);
    options.wal_sync_interval =
        *rng.pick(&[Duration::ZERO, Duration::from_millis(2), Duration::from_secs(1)]);
    options.wal_sync_bytes = *rng.pick(&[0, 0, 5_000]);
    options.wal_sync_on_idle = rng.chance(20);
    options.manifest_min_gap = *rng.pick(&[Duration::ZERO, Duration::from_millis(300)]);
    options.job_ring_slots = *rng.pick(&[2, 128]);
    options.max_total_wal_size = *rng.pick(&[1 << 20, 1 << 30]);
    options.recovery_mode =
        if rng.chance(90) { RecoveryMode::TolerateTail } else { RecoveryMode::PointInTime };
    options.block_cache_size = *rng.pick(&[0, 16 << 10, 1 << 20]);
    options.read_mode = *rng.pick(&[ReadMode::Mmap, ReadMode::Pread]);
    options.max_read_threads = *rng.pick(&[1, 1, 1, 3]);
    options.max_open_files = *rng.pick(&[16, 1_000]);
    options
}

/// Options of a column family.
pub fn family_options(rng: &mut Rng, levels: u32) -> ColumnFamilyOptions {
    let mut options = ColumnFamilyOptions::default();
    options.write_buffer_size = *rng.pick(&[64 << 10, 64 << 10, 100_000]);
    options.max_write_buffer_number = rng.range(2, 4) as u32;
    options.min_write_buffer_number_to_merge =
        if rng.chance(80) { 1 } else { rng.range(1, u64::from(options.max_write_buffer_number) - 1) as u32 };
    options.level0_file_num_compaction_trigger = rng.range(1, 3) as u32;
    options.level0_slowdown_writes_trigger = rng.range(4, 8) as u32;
    options.level0_stop_writes_trigger = rng.range(8, 12) as u32;
    options.num_levels = levels;
    // FIFO keeps everything below its default size.
    options.compaction_style = *rng.pick(&[
        CompactionStyle::Leveled,
        CompactionStyle::Leveled,
        CompactionStyle::SizeTiered,
        CompactionStyle::LazyLeveled,
        CompactionStyle::Fifo,
    ]);
    options.universal_max_size_amplification_percent = *rng.pick(&[25, 200]);
    options.tombstone_density_percent = *rng.pick(&[0, 10, 50]);
    options.max_bytes_for_level_base = *rng.pick(&[64 << 10, 128 << 10]);
    options.max_bytes_for_level_multiplier = *rng.pick(&[2.0, 3.5, 10.0]);
    options.level_compaction_dynamic_level_bytes = rng.chance(50);
    options.target_file_size_base = 64 << 10;
    options.compression = *rng.pick(&[Compression::None, Compression::Lz4]);
    options.min_level_to_compress = rng.below(u64::from(levels) + 1) as u32;
    options.block_size = *rng.pick(&[256, 512, 4 << 10]);
    options.block_restart_interval = *rng.pick(&[1, 2, 16]);
    options.bloom_bits_per_key = *rng.pick(&[0.0, 2.0, 10.0]);
    options
}

/// The `number`-th key of a small key space that holds what key codecs fear: the empty key, keys that are
/// prefixes of others, long common prefixes, bytes at both ends of the range.
pub fn key(number: u64) -> Vec<u8> {
    match number % 5 {
        _ if number == 0 => Vec::new(),
        0 => vec![0xff; number as usize % 7 + 1],
        1 => format!("key{number:06}").into_bytes(),
        2 => [vec![b'p'; 150], number.to_be_bytes().to_vec()].concat(),
        3 => vec![b'a'; number as usize % 40 + 1],
        _ => number.to_le_bytes()[..2].to_vec(),
    }
}
