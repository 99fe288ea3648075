//! The engine's own counters, as `--statistics` prints them and as a run's facts need them.
//!
//! Owns which counter has which of RocksDB's ticker names. The counters are the engine's.

use sluicedb::StatisticsSnapshot;

use crate::workload::target::Target;

/// Counters of all databases together, as far as a run's facts need them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineTotals {
    /// Bytes that writers wrote.
    pub bytes_written: u64,
    /// Bytes that flushes and compactions wrote.
    pub background_bytes_written: u64,
    /// Time that writers spent delayed or stopped.
    pub stall_micros: u64,
}

/// The totals now.
pub fn total(target: &Target) -> EngineTotals {
    let mut total = EngineTotals::default();
    for open in &target.dbs {
        let stats = open.db.statistics();
        total.bytes_written += stats.bytes_written;
        total.background_bytes_written += stats.flush_bytes_written + stats.compaction_bytes_written;
        total.stall_micros += stats.stall_micros;
    }
    total
}

impl EngineTotals {
    /// What was added since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            bytes_written: self.bytes_written - earlier.bytes_written,
            background_bytes_written: self.background_bytes_written - earlier.background_bytes_written,
            stall_micros: self.stall_micros - earlier.stall_micros,
        }
    }

    /// Bytes written in the background by bytes that writers wrote.
    pub fn write_amp(&self) -> Option<f64> {
        (self.bytes_written > 0).then(|| self.background_bytes_written as f64 / self.bytes_written as f64)
    }
}

/// `NAME COUNT : N` lines; cache hits and misses come from the cache that the tool handed to the engine.
pub fn tickers(stats: &StatisticsSnapshot, cache: Option<(u64, u64)>) -> String {
    let (hits, misses) = cache.unwrap_or_default();
    let lines = [
        ("rocksdb.block.cache.miss", misses),
        ("rocksdb.block.cache.hit", hits),
        ("rocksdb.memtable.hit", stats.memtable_hits),
        ("rocksdb.memtable.miss", stats.gets - stats.memtable_hits.min(stats.gets)),
        ("rocksdb.number.keys.written", stats.entries_written),
        ("rocksdb.number.keys.read", stats.gets),
        ("rocksdb.bytes.written", stats.bytes_written),
        ("rocksdb.stall.micros", stats.stall_micros),
        ("rocksdb.wal.synced", stats.wal_syncs),
        ("rocksdb.wal.bytes", stats.wal_bytes_written),
        ("rocksdb.compact.read.bytes", stats.compaction_bytes_read),
        ("rocksdb.compact.write.bytes", stats.compaction_bytes_written),
        ("rocksdb.flush.write.bytes", stats.flush_bytes_written),
        ("sluicedb.stall.delay.micros", stats.stall_delay_micros),
        ("sluicedb.stall.stop.micros", stats.stall_micros.saturating_sub(stats.stall_delay_micros)),
        ("sluicedb.keys.found", stats.gets_found),
        ("sluicedb.write.calls", stats.write_calls),
        ("sluicedb.write.commit-groups", stats.commit_groups),
        ("sluicedb.write.rejected", stats.writes_refused),
        ("sluicedb.memtables.sealed", stats.memtables_sealed),
        ("sluicedb.flushes", stats.flushes),
        ("sluicedb.flush.micros", stats.flush_micros),
        ("sluicedb.compactions", stats.compactions),
        ("sluicedb.compaction.micros", stats.compaction_micros),
        ("sluicedb.compaction.trivial-moves", stats.trivial_moves),
    ];
    lines.iter().map(|(name, count)| format!("{name} COUNT : {count}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines have the documented shape: three words between name and number.
    #[test]
    fn tickers_are_lines_of_name_and_count() {
        let text = tickers(&StatisticsSnapshot::default(), Some((7, 1459)));
        assert!(
            text.starts_with("rocksdb.block.cache.miss COUNT : 1459\nrocksdb.block.cache.hit COUNT : 7\n")
        );
        assert!(text.lines().all(|line| line.split_whitespace().count() == 4));
    }

    /// Amplification is a ratio, and none without writes.
    #[test]
    fn amplification_is_a_ratio() {
        let earlier = EngineTotals { bytes_written: 100, background_bytes_written: 50, stall_micros: 1 };
        let now = EngineTotals { bytes_written: 200, background_bytes_written: 350, stall_micros: 2 };
        assert_eq!(now.since(&earlier).write_amp(), Some(3.0));
        assert_eq!(now.since(&now).write_amp(), None);
    }
}
