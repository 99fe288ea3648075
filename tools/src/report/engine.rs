//! The engine's own counters, as `--statistics` prints them and as a run's facts need them.
//!
//! Owns which counter has which of RocksDB's ticker names. The counters are the engine's.

use sluicedb::{CauseStalls, Db, StatisticsSnapshot};

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
    /// Writes held, and their time, by cause.
    pub stalls: [CauseStalls; 4],
}

/// The totals now.
pub fn total(target: &Target) -> EngineTotals {
    let mut total = EngineTotals::default();
    for open in &target.dbs {
        let stats = open.db.statistics();
        total.bytes_written += stats.bytes_written;
        total.background_bytes_written += stats.flush_bytes_written + stats.compaction_bytes_written;
        total.stall_micros += stats.stall_micros;
        for (sum, (_, part)) in total.stalls.iter_mut().zip(stats.stalls.by_cause()) {
            zip(sum, &part, |a, b| a + b);
        }
    }
    total
}

/// Joins each figure of `mine` with that of `theirs`.
fn zip(mine: &mut CauseStalls, theirs: &CauseStalls, join: impl Fn(u64, u64) -> u64) {
    mine.delays = join(mine.delays, theirs.delays);
    mine.stops = join(mine.stops, theirs.stops);
    mine.delay_micros = join(mine.delay_micros, theirs.delay_micros);
    mine.stop_micros = join(mine.stop_micros, theirs.stop_micros);
}

impl EngineTotals {
    /// What was added since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut stalls = self.stalls;
        for (now, then) in stalls.iter_mut().zip(&earlier.stalls) {
            zip(now, then, u64::saturating_sub);
        }
        Self {
            stalls,
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

/// `NAME COUNT : N` lines, then the histograms that the engine keeps.
pub fn statistics(db: &Db, cache: Option<(u64, u64)>) -> String {
    const HISTOGRAMS: [&str; 3] =
        ["rocksdb.compaction.times.micros", "rocksdb.db.flush.micros", "rocksdb.db.write.stall"];
    let tickers = tickers(&db.statistics(), cache);
    let mut text: String = tickers.iter().map(|(name, count)| format!("{name} COUNT : {count}\n")).collect();
    for histogram in HISTOGRAMS.iter().filter_map(|name| db.property(name)) {
        text.push_str(&histogram);
        text.push('\n');
    }
    text
}

/// Every ticker by its name; cache hits and misses come from the cache that the tool handed to the engine.
pub fn tickers(stats: &StatisticsSnapshot, cache: Option<(u64, u64)>) -> Vec<(&'static str, u64)> {
    let (hits, misses) = cache.unwrap_or_default();
    vec![
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
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines have the documented shapes: tickers first, then histograms.
    #[test]
    fn statistics_are_tickers_and_histograms() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path(), sluicedb::DbOptions::default()).unwrap();
        let text = statistics(&db, Some((7, 1459)));
        assert!(
            text.starts_with("rocksdb.block.cache.miss COUNT : 1459\nrocksdb.block.cache.hit COUNT : 7\n")
        );
        let words: Vec<usize> = text.lines().map(|line| line.split_whitespace().count()).collect();
        assert!(words.is_sorted() && words.iter().filter(|words| **words == 19).count() == 3, "{text}");
        assert!(words.iter().all(|words| [4, 19].contains(words)), "{text}");
        let last = "rocksdb.db.write.stall P50 : 0.000000 P95 : 0.000000 P99 : 0.000000 P100 : 0.000000 COUNT : 0 SUM : 0\n";
        assert!(text.ends_with(last), "{text}");
        db.close().unwrap();
    }

    /// Amplification is a ratio, and none without writes.
    #[test]
    fn amplification_is_a_ratio() {
        let earlier = EngineTotals {
            bytes_written: 100,
            background_bytes_written: 50,
            stall_micros: 1,
            ..EngineTotals::default()
        };
        let now = EngineTotals {
            bytes_written: 200,
            background_bytes_written: 350,
            stall_micros: 2,
            ..EngineTotals::default()
        };
        assert_eq!(now.since(&earlier).write_amp(), Some(3.0));
        assert_eq!(now.since(&now).write_amp(), None);
    }
}
