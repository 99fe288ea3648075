//! [`ColumnFamilyOptions`]: how one column family keeps and compacts its data.

use std::sync::Arc;

use crate::compaction::filter::CompactionFilter;
use crate::error::{Error, Result};
use crate::version::MAX_LEVELS;

/// How the blocks of an SST are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Compression {
    /// Blocks are stored as they are.
    None,
    /// LZ4 block format. A block that does not shrink by an eighth is stored.
    #[default]
    Lz4,
}

/// The sorted structure that keeps a memtable's entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum MemtableRepKind {
    /// A skip list in chunks of memory of its own. Memory is charged by the chunk.
    #[default]
    ArenaSkipList,
    /// The skip list of the crossbeam project. Memory is charged by the entry.
    CrossbeamSkipList,
}

/// Which files a family keeps, and what is merged with what. May change from open to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CompactionStyle {
    /// Each level is one sorted run with a target size, ten times the one above. Fewest runs to read and least space; an
    /// entry is rewritten several times a level.
    #[default]
    Leveled,
    /// Runs of similar size are merged, newest first (RocksDB's universal compaction). An entry is rewritten about once for
    /// each doubling of the data; up to
    /// [`level0_file_num_compaction_trigger`](ColumnFamilyOptions::level0_file_num_compaction_trigger) runs have to be read,
    /// and up to twice the space is taken, three times while all is merged.
    SizeTiered,
    /// Size-tiered above one large last level: nearly the few rewrites of the one and the space of the other.
    LazyLeveled,
    /// Nothing is merged. The oldest files are dropped, and what they hold is lost, once all files take more than
    /// [`fifo_max_table_files_size`](ColumnFamilyOptions::fifo_max_table_files_size) or a file is older than
    /// [`ttl`](ColumnFamilyOptions::ttl), also for snapshots. L0 never slows or stops writes.
    Fifo,
}

/// How one column family keeps and compacts its data.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ColumnFamilyOptions {
    /// Size at which the mutable memtable is sealed and handed to a flush; with [`DbOptions::desync_write_buffers`](super::DbOptions)
    /// (the default) the most, since each memtable is sealed at 75 to 100 % of it.
    ///
    /// Unit: bytes. Default: 64 MiB. Least: 64 KiB. Changeable live: yes.
    /// More: fewer, larger L0 files and less rewriting, but a longer replay after a crash.
    pub write_buffer_size: u64,
    /// The sorted structure that keeps a memtable's entries.
    ///
    /// Default: [`MemtableRepKind::ArenaSkipList`]. Changeable live: no.
    pub memtable_rep: MemtableRepKind,
    /// Memtables, the mutable one included, at which writes stop until a flush has ended.
    ///
    /// Unit: memtables. Default: 2. Least: 2. Changeable live: yes.
    /// More: longer bursts at full speed, more memory where the manager's quota allows it.
    pub max_write_buffer_number: u32,
    /// Sealed memtables that one flush waits for and merges.
    ///
    /// Unit: memtables. Default: 1. Range: 1 to `max_write_buffer_number` - 1. Changeable live: no.
    /// More: overwrites disappear before they reach disk, but memory is freed later.
    pub min_write_buffer_number_to_merge: u32,
    /// Bytes of flushed memtables that stay in memory, so that it knows the latest writes for longer; see
    /// [`Db::recent_write`](crate::Db::recent_write). While the manager delays or stops writers, none stay.
    ///
    /// Unit: bytes. Default: 0. Changeable live: no.
    /// More: fewer conflict checks that find memory too short, for memory that is pinned.
    pub max_write_buffer_size_to_maintain: u64,
    /// L0 files at which a compaction into L1 becomes due.
    ///
    /// Unit: files. Default: 4. Least: 1. Changeable live: yes.
    /// More: less rewriting, slower reads.
    pub level0_file_num_compaction_trigger: u32,
    /// L0 files at which writes begin to be delayed.
    ///
    /// Unit: files. Default: 20. Range: 1 to `level0_stop_writes_trigger`. Changeable live: yes.
    /// More: full speed for longer, then slower reads and a steeper brake.
    pub level0_slowdown_writes_trigger: u32,
    /// L0 files at which writes stop until a compaction has ended.
    ///
    /// Unit: files. Default: 36. Least: `level0_slowdown_writes_trigger`. Changeable live: yes.
    /// More: a gentler brake, slower reads in the worst case.
    pub level0_stop_writes_trigger: u32,
    /// Bytes waiting for compaction at which writes begin to be delayed.
    ///
    /// Unit: bytes. Default: 64 GiB. 0 = never. Changeable live: yes.
    pub soft_pending_compaction_bytes_limit: u64,
    /// Bytes waiting for compaction at which writes stop.
    ///
    /// Unit: bytes. Default: 256 GiB. 0 = never; else at least the soft limit. Changeable live: yes.
    pub hard_pending_compaction_bytes_limit: u64,
    /// No compaction starts by itself; [`Db::compact_range`](crate::Db::compact_range) still works, and L0 never slows or stops writes.
    ///
    /// Default: false. Changeable live: yes.
    pub disable_auto_compactions: bool,
    /// Which files are kept, and what is merged with what.
    ///
    /// Default: [`CompactionStyle::Leveled`]. Changeable live: no.
    pub compaction_style: CompactionStyle,
    /// A family's own word on which entries compactions keep. Default: none. Changeable live: no.
    pub compaction_filter: Option<Arc<dyn CompactionFilter>>,
    /// Age at which a file is rewritten, so that the compaction filter meets every entry. Not with FIFO.
    ///
    /// Unit: seconds. Default: 0 (never). Changeable live: yes.
    /// Less: expired data goes sooner, for more rewriting.
    pub periodic_compaction_seconds: u64,
    /// Share of tombstones among a file's entries at which it is compacted although its level is small enough, so that
    /// scans do not step over them. Files with fewer than 100 tombstones are left alone, and so are families that are not
    /// leveled.
    ///
    /// Unit: percent. Default: 50. Range: 0 (never) to 100. Changeable live: yes.
    /// Less: faster scans over what was deleted, for more rewriting.
    pub tombstone_density_percent: u32,
    /// With size-tiered compaction and lazy leveling: how much larger than all newer runs together the next one may be to be
    /// merged with them.
    ///
    /// Unit: percent. Default: 1. Range: 0 to 1,000. Changeable live: yes.
    /// More: fewer runs, more rewriting.
    pub universal_size_ratio: u32,
    /// With size-tiered compaction and lazy leveling: fewest runs that are merged because of their sizes.
    ///
    /// Unit: runs. Default: 2. Least: 2. Changeable live: yes.
    pub universal_min_merge_width: u32,
    /// With size-tiered compaction: bytes of all newer runs, as a share of the oldest, at which all are merged.
    ///
    /// Unit: percent. Default: 200. Least: 1. Changeable live: yes.
    /// Less: less space, more rewriting.
    pub universal_max_size_amplification_percent: u32,
    /// With FIFO: bytes of all files above which the oldest are dropped.
    ///
    /// Unit: bytes. Default: 1 GiB. Least: 1. Changeable live: yes.
    pub fifo_max_table_files_size: u64,
    /// With FIFO: age at which a file is dropped.
    ///
    /// Unit: seconds. Default: 0 (never). Changeable live: yes.
    pub ttl: u64,
    /// Levels, L0 included.
    ///
    /// Unit: levels. Default: 7. Range: 2 to 12. Changeable live: no.
    pub num_levels: u32,
    /// Target size of the first level below L0.
    ///
    /// Unit: bytes. Default: 256 MiB. Least: 64 KiB. Changeable live: yes.
    /// More: fewer levels and less rewriting, larger single compactions.
    pub max_bytes_for_level_base: u64,
    /// How much larger each level's target is than the one above.
    ///
    /// Default: 10. Range: 2 to 100. Changeable live: yes.
    /// More: fewer levels, better reads, more rewriting.
    pub max_bytes_for_level_multiplier: f64,
    /// Level targets follow the size of the last level, so that little space is wasted while levels fill.
    ///
    /// Default: true. Changeable live: no.
    pub level_compaction_dynamic_level_bytes: bool,
    /// Size at which a compaction's output file is cut in L1.
    ///
    /// Unit: bytes. Default: 64 MiB. Least: 64 KiB. Changeable live: yes.
    pub target_file_size_base: u64,
    /// How much larger files of each deeper level are.
    ///
    /// Default: 1. Range: 1 to 100. Changeable live: yes.
    pub target_file_size_multiplier: u32,
    /// Compression of data blocks.
    ///
    /// Default: LZ4. Changeable live: yes.
    pub compression: Compression,
    /// Levels below this number are stored uncompressed.
    ///
    /// Unit: level number. Default: 0 (all levels are compressed). Range: 0 to `num_levels`. Changeable live: yes.
    /// More: cheaper flushes and upper compactions, more space.
    pub min_level_to_compress: u32,
    /// Size of a data block before compression.
    ///
    /// Unit: bytes. Default: 4 KiB. Range: 256 bytes to 4 MiB. Changeable live: yes.
    /// More: better compression and a smaller index, more bytes per point read.
    pub block_size: u64,
    /// Entries between two keys that are stored whole in a data block.
    ///
    /// Unit: entries. Default: 16. Range: 1 to 256. Changeable live: yes.
    pub block_restart_interval: u32,
    /// Bits of Bloom filter per key.
    ///
    /// Unit: bits. Default: 10 (about 1 % of missing keys cost a block read). Range: 0 (no filter) to 32. Changeable live: yes.
    pub bloom_bits_per_key: f64,
}

impl Default for ColumnFamilyOptions {
    fn default() -> Self {
        Self {
            write_buffer_size: 64 << 20,
            memtable_rep: MemtableRepKind::default(),
            max_write_buffer_number: 2,
            min_write_buffer_number_to_merge: 1,
            max_write_buffer_size_to_maintain: 0,
            level0_file_num_compaction_trigger: 4,
            level0_slowdown_writes_trigger: 20,
            level0_stop_writes_trigger: 36,
            soft_pending_compaction_bytes_limit: 64 << 30,
            hard_pending_compaction_bytes_limit: 256 << 30,
            disable_auto_compactions: false,
            compaction_style: CompactionStyle::default(),
            compaction_filter: None,
            periodic_compaction_seconds: 0,
            tombstone_density_percent: 50,
            universal_size_ratio: 1,
            universal_min_merge_width: 2,
            universal_max_size_amplification_percent: 200,
            fifo_max_table_files_size: 1 << 30,
            ttl: 0,
            num_levels: 7,
            max_bytes_for_level_base: 256 << 20,
            max_bytes_for_level_multiplier: 10.0,
            level_compaction_dynamic_level_bytes: true,
            target_file_size_base: 64 << 20,
            target_file_size_multiplier: 1,
            compression: Compression::default(),
            min_level_to_compress: 0,
            block_size: 4 << 10,
            block_restart_interval: 16,
            bloom_bits_per_key: 10.0,
        }
    }
}

impl ColumnFamilyOptions {
    /// Checks every range above.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] naming the first option outside its range, the range and the value.
    pub fn validate(&self) -> Result<()> {
        let check = |ok: bool, what: &'static str, range: &str, given: &dyn std::fmt::Display| {
            if ok { Ok(()) } else { Err(Error::out_of_range(what, range, given)) }
        };
        check(
            self.write_buffer_size >= 64 << 10,
            "write_buffer_size",
            "at least 65536 bytes",
            &self.write_buffer_size,
        )?;
        check(
            self.max_write_buffer_number >= 2,
            "max_write_buffer_number",
            "at least 2",
            &self.max_write_buffer_number,
        )?;
        check(
            (1..self.max_write_buffer_number).contains(&self.min_write_buffer_number_to_merge),
            "min_write_buffer_number_to_merge",
            "1 to max_write_buffer_number - 1",
            &self.min_write_buffer_number_to_merge,
        )?;
        check(
            self.level0_file_num_compaction_trigger >= 1,
            "level0_file_num_compaction_trigger",
            "at least 1",
            &self.level0_file_num_compaction_trigger,
        )?;
        check(
            (1..=self.level0_stop_writes_trigger).contains(&self.level0_slowdown_writes_trigger),
            "level0_slowdown_writes_trigger",
            "1 to level0_stop_writes_trigger",
            &self.level0_slowdown_writes_trigger,
        )?;
        check(
            self.hard_pending_compaction_bytes_limit == 0
                || self.hard_pending_compaction_bytes_limit >= self.soft_pending_compaction_bytes_limit,
            "hard_pending_compaction_bytes_limit",
            "0 (never) or at least soft_pending_compaction_bytes_limit",
            &self.hard_pending_compaction_bytes_limit,
        )?;
        check(
            self.tombstone_density_percent <= 100,
            "tombstone_density_percent",
            "0 (never) to 100",
            &self.tombstone_density_percent,
        )?;
        check(
            self.universal_size_ratio <= 1000,
            "universal_size_ratio",
            "0 to 1000",
            &self.universal_size_ratio,
        )?;
        check(
            self.universal_min_merge_width >= 2,
            "universal_min_merge_width",
            "at least 2",
            &self.universal_min_merge_width,
        )?;
        check(
            self.universal_max_size_amplification_percent >= 1,
            "universal_max_size_amplification_percent",
            "at least 1",
            &self.universal_max_size_amplification_percent,
        )?;
        check(
            self.fifo_max_table_files_size >= 1,
            "fifo_max_table_files_size",
            "at least 1 byte",
            &self.fifo_max_table_files_size,
        )?;
        check((2..=MAX_LEVELS as u32).contains(&self.num_levels), "num_levels", "2 to 12", &self.num_levels)?;
        check(
            self.max_bytes_for_level_base >= 64 << 10,
            "max_bytes_for_level_base",
            "at least 65536 bytes",
            &self.max_bytes_for_level_base,
        )?;
        check(
            (2.0..=100.0).contains(&self.max_bytes_for_level_multiplier),
            "max_bytes_for_level_multiplier",
            "2 to 100",
            &self.max_bytes_for_level_multiplier,
        )?;
        check(
            self.target_file_size_base >= 64 << 10,
            "target_file_size_base",
            "at least 65536 bytes",
            &self.target_file_size_base,
        )?;
        check(
            (1..=100).contains(&self.target_file_size_multiplier),
            "target_file_size_multiplier",
            "1 to 100",
            &self.target_file_size_multiplier,
        )?;
        check(
            self.min_level_to_compress <= self.num_levels,
            "min_level_to_compress",
            "0 to num_levels",
            &self.min_level_to_compress,
        )?;
        check(
            (256..=4 << 20).contains(&self.block_size),
            "block_size",
            "256 to 4194304 bytes",
            &self.block_size,
        )?;
        check(
            (1..=256).contains(&self.block_restart_interval),
            "block_restart_interval",
            "1 to 256",
            &self.block_restart_interval,
        )?;
        check(
            (0.0..=32.0).contains(&self.bloom_bits_per_key),
            "bloom_bits_per_key",
            "0 (no filter) to 32",
            &self.bloom_bits_per_key,
        )
    }

    /// Size at which a compaction into `level` cuts its output, in bytes.
    pub(crate) fn target_file_size(&self, level: usize) -> u64 {
        let factor =
            u64::from(self.target_file_size_multiplier).saturating_pow(level.saturating_sub(1) as u32);
        self.target_file_size_base.saturating_mul(factor)
    }

    /// The codec for files of `level`.
    pub(crate) fn compression_at(&self, level: usize) -> Compression {
        if (level as u64) < u64::from(self.min_level_to_compress) {
            Compression::None
        } else {
            self.compression
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The defaults are valid, and every option that is bent out of its range is refused by its own name.
    #[test]
    fn each_option_is_refused_by_name() {
        ColumnFamilyOptions::default().validate().unwrap();
        type Bend = fn(&mut ColumnFamilyOptions);
        let bends: [(&str, Bend); 20] = [
            ("write_buffer_size", |o| o.write_buffer_size = 1),
            ("max_write_buffer_number", |o| o.max_write_buffer_number = 1),
            ("min_write_buffer_number_to_merge", |o| o.min_write_buffer_number_to_merge = 2),
            ("level0_file_num_compaction_trigger", |o| o.level0_file_num_compaction_trigger = 0),
            ("level0_slowdown_writes_trigger", |o| o.level0_slowdown_writes_trigger = 37),
            ("hard_pending_compaction_bytes_limit", |o| o.hard_pending_compaction_bytes_limit = 1),
            ("tombstone_density_percent", |o| o.tombstone_density_percent = 101),
            ("universal_size_ratio", |o| o.universal_size_ratio = 1001),
            ("universal_min_merge_width", |o| o.universal_min_merge_width = 1),
            ("universal_max_size_amplification_percent", |o| {
                o.universal_max_size_amplification_percent = 0;
            }),
            ("fifo_max_table_files_size", |o| o.fifo_max_table_files_size = 0),
            ("num_levels", |o| o.num_levels = 1),
            ("max_bytes_for_level_base", |o| o.max_bytes_for_level_base = 0),
            ("max_bytes_for_level_multiplier", |o| o.max_bytes_for_level_multiplier = f64::NAN),
            ("target_file_size_base", |o| o.target_file_size_base = 0),
            ("target_file_size_multiplier", |o| o.target_file_size_multiplier = 0),
            ("min_level_to_compress", |o| o.min_level_to_compress = 8),
            ("block_size", |o| o.block_size = 0),
            ("block_restart_interval", |o| o.block_restart_interval = 0),
            ("bloom_bits_per_key", |o| o.bloom_bits_per_key = -1.0),
        ];
        for (name, bend) in bends {
            let mut options = ColumnFamilyOptions::default();
            bend(&mut options);
            let refused = options.validate().unwrap_err();
            assert!(
                matches!(refused, Error::InvalidArgument { what, .. } if what == name),
                "{name}: {refused}"
            );
        }
    }
}
