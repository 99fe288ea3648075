//! The benchmarks by name, and the list of them that `--benchmarks` gives.
//!
//! Owns names, which want a fresh database, which are timed, and the `name[X5-W2]` suffix. What a benchmark's loop
//! does is its own module's affair; [`Work`] only says which.

use crate::gflags::nearest::nearest;

/// In which order a fill draws its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// 0, 1, 2, ...
    Sequential,
    /// Drawn with replacement.
    Random,
    /// Each key once, shuffled.
    UniqueRandom,
}

/// The loop that a benchmark runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the names are the benchmarks'; the catalogue in the crate's manual describes them"
)]
pub enum Work {
    Fill(Order),
    ReadRandom,
    MultiReadRandom,
    ReadSequential,
    ReadReverse,
    SeekRandom,
    Delete(Order),
    UpdateRandom,
    ReadRandomWriteRandom,
    NewIterator,
    Compact,
    CompactAll,
    Flush,
    WaitForCompaction,
    Stats,
    LevelStats,
    Sstables,
    MemStats,
    ResetStats,
    StatsHistory,
}

/// How a benchmark bends the flags before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tweak {
    /// Not at all.
    None,
    /// Batches of 1000.
    Batch1000,
    /// A thousandth of the operations, each synced.
    Sync,
    /// A thousandth of the operations, values of 100,000 bytes.
    Value100K,
    /// Keys one byte longer than any stored.
    LongerKey,
    /// One thread, as many operations as there are entries.
    WholeOnOneThread,
}

/// One benchmark.
#[derive(Debug)]
pub struct Benchmark {
    /// Its name in `--benchmarks`.
    pub name: &'static str,
    /// Whether it destroys and reopens the database first.
    pub fresh: bool,
    /// Its loop.
    pub work: Work,
    /// How it bends the flags.
    pub tweak: Tweak,
    /// Whether one more thread writes until the others have ended.
    pub background_writer: bool,
}

impl Benchmark {
    /// Whether it runs on threads behind a barrier and prints a summary line.
    pub fn is_timed(&self) -> bool {
        use Work::*;
        !matches!(
            self.work,
            CompactAll
                | Flush
                | WaitForCompaction
                | Stats
                | LevelStats
                | Sstables
                | MemStats
                | ResetStats
                | StatsHistory
        )
    }

    /// Whether it changes the database.
    pub fn writes(&self) -> bool {
        use Work::*;
        let changes = matches!(
            self.work,
            Fill(_) | Delete(_) | UpdateRandom | ReadRandomWriteRandom | Compact | CompactAll | Flush
        );
        changes || self.background_writer
    }

    /// Whether an operation that takes minutes is normal.
    pub fn is_one_long_operation(&self) -> bool {
        self.work == Work::Compact
    }
}

const fn entry(name: &'static str, fresh: bool, work: Work, tweak: Tweak) -> Benchmark {
    Benchmark { name, fresh, work, tweak, background_writer: false }
}

const fn while_writing(name: &'static str, work: Work) -> Benchmark {
    Benchmark { name, fresh: false, work, tweak: Tweak::None, background_writer: true }
}

/// All benchmarks that can run.
pub static BENCHMARKS: &[Benchmark] = &[
    entry("fillseq", true, Work::Fill(Order::Sequential), Tweak::None),
    entry("fillrandom", true, Work::Fill(Order::Random), Tweak::None),
    entry("overwrite", false, Work::Fill(Order::Random), Tweak::None),
    entry("filluniquerandom", true, Work::Fill(Order::UniqueRandom), Tweak::None),
    entry("fillbatch", true, Work::Fill(Order::Sequential), Tweak::Batch1000),
    entry("fillsync", true, Work::Fill(Order::Random), Tweak::Sync),
    entry("fill100K", true, Work::Fill(Order::Random), Tweak::Value100K),
    entry("readrandom", false, Work::ReadRandom, Tweak::None),
    entry("readmissing", false, Work::ReadRandom, Tweak::LongerKey),
    entry("readseq", false, Work::ReadSequential, Tweak::None),
    entry("readreverse", false, Work::ReadReverse, Tweak::None),
    entry("multireadrandom", false, Work::MultiReadRandom, Tweak::None),
    entry("seekrandom", false, Work::SeekRandom, Tweak::None),
    entry("deleteseq", false, Work::Delete(Order::Sequential), Tweak::None),
    entry("deleterandom", false, Work::Delete(Order::Random), Tweak::None),
    entry("readtocache", false, Work::ReadSequential, Tweak::WholeOnOneThread),
    entry("newiterator", false, Work::NewIterator, Tweak::None),
    while_writing("readwhilewriting", Work::ReadRandom),
    while_writing("seekrandomwhilewriting", Work::SeekRandom),
    while_writing("multireadwhilewriting", Work::MultiReadRandom),
    entry("readrandomwriterandom", false, Work::ReadRandomWriteRandom, Tweak::None),
    entry("updaterandom", false, Work::UpdateRandom, Tweak::None),
    entry("compact", false, Work::Compact, Tweak::None),
    entry("compactall", false, Work::CompactAll, Tweak::None),
    entry("flush", false, Work::Flush, Tweak::None),
    entry("waitforcompaction", false, Work::WaitForCompaction, Tweak::None),
    entry("stats", false, Work::Stats, Tweak::None),
    entry("levelstats", false, Work::LevelStats, Tweak::None),
    entry("sstables", false, Work::Sstables, Tweak::None),
    entry("memstats", false, Work::MemStats, Tweak::None),
    entry("resetstats", false, Work::ResetStats, Tweak::None),
    entry("stats_history", false, Work::StatsHistory, Tweak::None),
];

/// Benchmarks of upstream's that are not here (yet).
const NOT_BUILT: &[&str] = &[
    "acquireload",
    "appendrandom",
    "approximatesizerandom",
    "backup",
    "compact0",
    "compact1",
    "compress",
    "crc32c",
    "fillanddeleteuniquerandom",
    "fillseekseq",
    "fillseqdeterministic",
    "filluniquerandomdeterministic",
    "getmergeoperands",
    "mergerandom",
    "mixgraph",
    "randomreplacekeys",
    "randomtransaction",
    "randomwithverify",
    "readrandommergerandom",
    "readwhilescanning",
    "replay",
    "restore",
    "seekrandomwriterandom",
    "seektodeletedranges",
    "timeseries",
    "uncompress",
    "verifychecksum",
    "verifyfilechecksums",
    "xorupdaterandom",
    "xxh3",
    "xxhash",
    "xxhash64",
];

/// One element of `--benchmarks`.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The benchmark.
    pub benchmark: &'static Benchmark,
    /// Timed runs.
    pub runs: u32,
    /// Runs before them that do not count.
    pub warmups: u32,
}

/// Most repeats of one benchmark.
const MAX_RUNS: u32 = 10_000;

/// The benchmarks of a comma-separated list, in order; empty elements are skipped.
///
/// # Errors
///
/// One complaint for each element that cannot run.
pub fn parse_list(list: &str) -> Result<Vec<Entry>, Vec<String>> {
    let mut entries = Vec::new();
    let mut complaints = Vec::new();
    for element in list.split(',').map(str::trim).filter(|element| !element.is_empty()) {
        match parse_entry(element) {
            Ok(entry) => entries.push(entry),
            Err(complaint) => complaints.push(complaint),
        }
    }
    if complaints.is_empty() { Ok(entries) } else { Err(complaints) }
}

fn parse_entry(element: &str) -> Result<Entry, String> {
    let (name, suffix) = match element.split_once('[') {
        Some((name, suffix)) => (name, Some(suffix)),
        None => (element, None),
    };
    let Some(benchmark) = BENCHMARKS.iter().find(|benchmark| benchmark.name == name) else {
        if NOT_BUILT.contains(&name) {
            return Err(format!("benchmark '{name}' is known to db_bench, not supported yet"));
        }
        return Err(match nearest(name, BENCHMARKS.iter().map(|benchmark| benchmark.name)) {
            Some(near) => format!("unknown benchmark '{name}' (did you mean {near}?)"),
            None => format!("unknown benchmark '{name}'"),
        });
    };
    let mut entry = Entry { benchmark, runs: 1, warmups: 0 };
    let Some(suffix) = suffix else { return Ok(entry) };
    let bad = || format!("the repeats of '{element}' are not of the form name[X5-W2]");
    for part in suffix.strip_suffix(']').ok_or_else(bad)?.split('-') {
        let count = part.get(1..).and_then(|digits| digits.parse().ok()).filter(|count| *count <= MAX_RUNS);
        match (part.chars().next(), count) {
            (Some('X'), Some(count)) if count >= 1 => entry.runs = count,
            (Some('W'), Some(count)) => entry.warmups = count,
            _ => return Err(bad()),
        }
    }
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names, repeats, empty elements; typos are found with a suggestion and unbuilt ones told apart (`db-bench DB9`).
    #[test]
    fn lists_parse_or_complain_in_full() {
        let entries = parse_list("fillrandom,,readrandom[X5-W2]").unwrap();
        assert_eq!(entries.len(), 2);
        assert_eq!((entries[1].benchmark.name, entries[1].runs, entries[1].warmups), ("readrandom", 5, 2));
        let complaints = parse_list("fillrandom,fillrandm,mixgraph,fillseq[5]").unwrap_err();
        assert_eq!(
            complaints,
            [
                "unknown benchmark 'fillrandm' (did you mean fillrandom?)",
                "benchmark 'mixgraph' is known to db_bench, not supported yet",
                "the repeats of 'fillseq[5]' are not of the form name[X5-W2]",
            ]
        );
    }
}
