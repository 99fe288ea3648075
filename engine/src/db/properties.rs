//! What a database says about itself: properties by name, under RocksDB's names where RocksDB has them.
//!
//! Everything here reads; nothing waits, and nothing does I/O.

use std::fmt::Write as _;

use super::Shared;
use crate::column_family::{ColumnFamily, FamilyData, FlushStage};
use crate::compaction::score::Score;
use crate::error::Result;
use crate::key::split_internal;
use crate::stats::{HistogramSummary, StatisticsSnapshot};
use crate::sync::{Rank, hold_times, io_under_lock};

/// Files and bytes of one level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelStats {
    /// Number of the level, 0 at the top.
    pub level: u32,
    /// Files in it.
    pub files: u64,
    /// Bytes of those files.
    pub bytes: u64,
}

const MIB: f64 = 1_048_576.0;

impl Shared {
    /// What the database did since it was opened, from all who count.
    pub(super) fn statistics(&self) -> StatisticsSnapshot {
        let (log, cache) = (self.wal.stats(), self.block_cache.as_ref());
        let (delayed, stopped) = self.pressure.stall_micros();
        let counted = self.stats.snapshot();
        StatisticsSnapshot {
            stalls: self.pressure.stalls_by_cause(),
            stall_micros: delayed + stopped,
            stall_delay_micros: delayed,
            write_stalls: counted.write_stall.count,
            write_stall_max_micros: counted.write_stall.max,
            wal_bytes_written: log.bytes_written,
            wal_writes: log.writes,
            wal_syncs: log.syncs,
            block_cache_hits: cache.map_or(0, |cache| cache.hits()),
            block_cache_misses: cache.map_or(0, |cache| cache.misses()),
            ..counted
        }
    }

    /// Files and bytes of each level.
    pub(super) fn level_stats(&self, family: &FamilyData) -> Result<Vec<LevelStats>> {
        self.check_family(family)?;
        let version = &family.pin().version;
        let level_stats = |level| LevelStats {
            level: level as u32,
            files: version.files(level).len() as u64,
            bytes: version.level_bytes(level),
        };
        Ok((0..version.num_levels()).map(level_stats).collect())
    }

    /// The value of a property, or `None` for a name that is not known.
    pub(super) fn property(&self, family: &FamilyData, name: &str) -> Option<String> {
        let pinned = family.pin();
        let version = &pinned.version;
        let memtables = || pinned.memtables();
        let all = || self.families.all();
        let number: u64 = match name {
            "rocksdb.stats" => return Some(self.stats_text(family)),
            "rocksdb.sstables" => return Some(self.files_text(family)),
            "rocksdb.db.write.stall" => return Some(histogram_text(name, self.stats.write_stall.summary())),
            "rocksdb.db.flush.micros" => return Some(histogram_text(name, self.stats.flush_times.summary())),
            "rocksdb.compaction.times.micros" => {
                return Some(histogram_text(name, self.stats.compaction_times.summary()));
            }
            "rocksdb.cfstats" => return Some(self.family_stats_text(family)),
            "rocksdb.dbstats" => return Some(self.db_stats_text()),
            "rocksdb.levelstats" => return Some(self.level_stats_text(family)),
            "sluicedb.pressure" => return Some(self.pressure.describe()),
            "sluicedb.pressure-sources" => return Some(self.pressure.describe_sources()),
            "sluicedb.wbm" => return Some(self.pressure.describe_wbm()),
            "sluicedb.wbm-holders" => return Some(self.pressure.describe_holders()),
            "sluicedb.commit_queue" => return Some(self.describe_commit_queue()),
            "rocksdb.num-immutable-mem-table" => pinned.sealed.len() as u64,
            "rocksdb.cur-size-active-mem-table" => pinned.mutable.bytes(),
            "rocksdb.cur-size-all-mem-tables" | "rocksdb.size-all-mem-tables" => {
                memtables().map(|memtable| memtable.bytes()).sum()
            }
            "rocksdb.num-entries-active-mem-table" => pinned.mutable.entries(),
            "rocksdb.num-entries-imm-mem-tables" => {
                pinned.sealed.iter().map(|memtable| memtable.entries()).sum()
            }
            "rocksdb.mem-table-flush-pending" => u64::from(family.stage() != FlushStage::Idle),
            "rocksdb.num-running-flushes" => u64::from(self.state.lock().running_flushes),
            "rocksdb.num-running-compactions" => u64::from(self.state.lock().running_compactions),
            "rocksdb.compaction-pending" => u64::from(Score::new(version, &family.options()).is_due()),
            "rocksdb.estimate-pending-compaction-bytes" => {
                Score::new(version, &family.options()).pending_bytes()
            }
            "rocksdb.background-errors" => u64::from(self.failure.has_failed() && !self.read_only),
            "rocksdb.estimate-num-keys" => {
                // Every tombstone hides about one entry; overwritten entries are counted twice.
                let in_files: u64 = version
                    .all_files()
                    .map(|(_, file)| file.entries.saturating_sub(2 * file.tombstones))
                    .sum();
                in_files + memtables().map(|memtable| memtable.entries()).sum::<u64>()
            }
            "rocksdb.total-sst-files-size" | "rocksdb.live-sst-files-size" => {
                version.all_files().map(|(_, file)| file.size).sum()
            }
            "rocksdb.estimate-live-data-size" => version.live_bytes(),
            "sluicedb.space_amplification" => {
                // What readers pin is on disk, too; it is known for the database as a whole.
                let files: u64 = version.all_files().map(|(_, file)| file.size).sum();
                let taken = files + self.obsolete.bytes_pinned_by_readers();
                let live = version.live_bytes();
                return Some(format!("{:.2}", if live == 0 { 1.0 } else { taken as f64 / live as f64 }));
            }
            "rocksdb.num-snapshots" => self.snapshots.sequences().len() as u64,
            "rocksdb.oldest-snapshot-sequence" => {
                self.snapshots.sequences().first().map_or(0, |seq| seq.get())
            }
            "rocksdb.num-live-versions" => 1,
            "rocksdb.block-cache-capacity" => self.block_cache.as_ref().map_or(0, |cache| cache.capacity()),
            "rocksdb.estimate-table-readers-mem" => self.tables.heap_bytes(),
            "rocksdb.block-cache-usage" => self.block_cache.as_ref().map_or(0, |cache| cache.usage()),
            "rocksdb.actual-delayed-write-rate" => self.pressure.delayed_rate(),
            "rocksdb.is-write-stopped" => u64::from(self.pressure.is_stopped()),
            "sluicedb.bytes_pinned_by_readers" => self.obsolete.bytes_pinned_by_readers(),
            "sluicedb.wal.segments" => self.wal.segments().len() as u64,
            "sluicedb.wal.bytes" => self.wal.live_bytes(),
            "sluicedb.wal.written" => self.wal.durability().watermarks().written.bytes,
            "sluicedb.wal.written_seq" => self.wal.durability().watermarks().written.seq.get(),
            "sluicedb.wal.synced" => self.wal.durability().watermarks().synced.bytes,
            "sluicedb.wal.inline_creations" => self.wal.stats().inline_creations,
            "sluicedb.manifest.lag_segments" => self.versions.position_facts().0,
            "sluicedb.manifest.position_saves" => self.versions.position_facts().1,
            "sluicedb.manifest.position_failures" => self.versions.position_facts().2,
            "sluicedb.wal.durable_seq" => self.wal.durability().durable_sequence().get(),
            "sluicedb.locks.io_under_lock" => io_under_lock(),
            "sluicedb.memtables.idle_bytes" => self.pressure.idle_memtable_bytes(),
            "sluicedb.memtables.bytes" => {
                let bytes = |family: ColumnFamily| -> u64 {
                    family.data.pin().memtables().map(|memtable| memtable.bytes()).sum()
                };
                all().into_iter().map(bytes).sum()
            }
            name if name.starts_with("sluicedb.commit_queue.") => {
                self.commit_queue_number(name.trim_start_matches("sluicedb.commit_queue."))?
            }
            _ => {
                if let Some(lock) = name.strip_prefix("sluicedb.locks.") {
                    return hold_times_text(lock);
                }
                if let Some(pool) = name.strip_prefix("sluicedb.jobs.") {
                    return self.pools.describe(pool);
                }
                let level = name.strip_prefix("rocksdb.num-files-at-level")?.parse::<usize>().ok()?;
                if level >= version.num_levels() {
                    return None;
                }
                version.files(level).len() as u64
            }
        };
        Some(number.to_string())
    }

    /// Every file of every level, in RocksDB's shape: number, size, sequences, key range. A version's number is that of
    /// its youngest file.
    fn files_text(&self, family: &FamilyData) -> String {
        let version = &family.pin().version;
        let youngest = version.all_files().map(|(_, file)| file.number.0).max().unwrap_or(0);
        let mut text = String::new();
        for level in 0..version.num_levels() {
            let _ = writeln!(text, "--- level {level} --- version# {youngest} ---");
            for file in version.files(level) {
                let (number, size) = (file.number.0, file.size);
                let (from, to) = (bound_text(&file.smallest), bound_text(&file.largest));
                let (first, last) = (file.smallest_seq, file.largest_seq);
                let _ = writeln!(text, " {number}:{size}[{first} .. {last}][{from} .. {to}]");
            }
        }
        text
    }

    /// The table that `db_bench --benchmarks=levelstats` prints, as RocksDB prints it.
    fn level_stats_text(&self, family: &FamilyData) -> String {
        let version = &family.pin().version;
        let mut text = String::from("Level Files Size(MB)\n--------------------\n");
        for level in 0..version.num_levels() {
            let size = version.level_bytes(level) as f64 / MIB;
            let _ = writeln!(text, "{level:3} {:8} {size:8.0}", version.files(level).len());
        }
        text
    }
}

/// A histogram of microseconds as RocksDB writes one.
fn histogram_text(name: &str, summary: HistogramSummary) -> String {
    let HistogramSummary { count, sum, max, p50, p95, p99 } = summary;
    format!(
        "{name} P50 : {p50}.000000 P95 : {p95}.000000 P99 : {p99}.000000 P100 : {max}.000000 COUNT : {count} SUM : {sum}"
    )
}

/// An internal key: `'a' seq:1, type:1`.
fn bound_text(key: &[u8]) -> String {
    let (user_key, trailer) = split_internal(key);
    format!("'{}' seq:{}, type:{}", user_key.escape_ascii(), trailer >> 8, trailer & 0xff)
}

/// What `sluicedb.locks.NAME.hold` says: how long locks of that rank were held in this process, in nanoseconds.
fn hold_times_text(lock: &str) -> Option<String> {
    let name = lock.strip_suffix(".hold")?;
    let rank = Rank::ALL.into_iter().find(|rank| rank.name() == name)?;
    Some(hold_times(rank).to_string())
}
