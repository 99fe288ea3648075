//! Counters of what the database did, and [`StatisticsSnapshot`], a copy of them all.
//!
//! Plain relaxed counters: nobody decides anything by them. How they are shown is not known here: Prometheus text is
//! `db/prometheus.rs`'s, RocksDB's lines are `db/stats_text.rs`'s.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::sync::Mutex;

mod histogram;
mod stalls;

pub(crate) use histogram::Histogram;
pub use histogram::HistogramSummary;
pub use stalls::{CauseStalls, StallStatistics};

macro_rules! statistics {
    (
        counted { $($(#[doc = $doc:literal])+ $name:ident,)+ }
        kept_elsewhere { $($(#[doc = $kept_doc:literal])+ $kept:ident,)+ }
    ) => {
        /// The live counters.
        #[derive(Debug, Default)]
        pub(crate) struct Statistics {
            $(pub(crate) $name: Counter,)+
            /// Microseconds that each write waited for the brake; writes that did not wait are not in it.
            pub(crate) write_stall: Histogram,
            /// Microseconds that each flush, and each compaction, took.
            pub(crate) flush_times: Histogram,
            pub(crate) compaction_times: Histogram,
        }

        /// What the database did since it was opened.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct StatisticsSnapshot {
            $($(#[doc = $doc])+ pub $name: u64,)+
            $($(#[doc = $kept_doc])+ pub $kept: u64,)+
            /// Writers' time delayed and stopped, by cause.
            pub stalls: StallStatistics,
            /// Microseconds that each write waited for the brake; writes that did not wait are not in it.
            pub write_stall: HistogramSummary,
            /// Microseconds that each flush took.
            pub flush_times: HistogramSummary,
            /// Microseconds that each compaction took.
            pub compaction_times: HistogramSummary,
        }

        impl StatisticsSnapshot {
            /// Every counter: its name, what it counts, and where it stands.
            pub(crate) fn counters(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![
                    $((stringify!($name), concat!($($doc),+), self.$name),)+
                    $((stringify!($kept), concat!($($kept_doc),+), self.$kept),)+
                ]
            }
        }

        impl Statistics {
            /// A copy of all counters; what is kept elsewhere is for the caller to fill in.
            pub(crate) fn snapshot(&self) -> StatisticsSnapshot {
                StatisticsSnapshot {
                    $($name: self.$name.get(),)+
                    write_stall: self.write_stall.summary(),
                    flush_times: self.flush_times.summary(),
                    compaction_times: self.compaction_times.summary(),
                    ..StatisticsSnapshot::default()
                }
            }
        }
    };
}

statistics! {
counted {
    /// Entries written (puts and deletes).
    entries_written,
    /// Encoded bytes of the batches written.
    bytes_written,
    /// Groups committed; entries per group show how well writes share an append.
    commit_groups,
    /// Write calls committed.
    write_calls,
    /// Point reads.
    gets,
    /// Point reads that found a value.
    gets_found,
    /// Point reads answered by a memtable.
    memtable_hits,
    /// Calls of `multi_get`; their keys count as point reads.
    multi_gets,
    /// Blocks that they looked into, one that holds several of a call's keys once.
    multi_get_blocks,
    /// Tables and blocks that they brought into memory with several threads at once.
    multi_get_parallel_reads,
    /// Memtables sealed.
    memtables_sealed,
    /// Flushes that installed an SST.
    flushes,
    /// Bytes that flushes wrote.
    flush_bytes_written,
    /// Time spent in flushes, in microseconds.
    flush_micros,
    /// Time for which flushes kept others from beginning, in microseconds: while they computed, and at least half of the time
    /// they took.
    flush_slot_micros,
    /// Compactions that rewrote files.
    compactions,
    /// Compactions that only moved files down.
    trivial_moves,
    /// Bytes that compactions read.
    compaction_bytes_read,
    /// Bytes that compactions wrote.
    compaction_bytes_written,
    /// Bytes of L0 files that compactions moved or merged into a deeper level.
    l0_bytes_compacted,
    /// Time spent in compactions, in microseconds.
    compaction_micros,
    /// Entries that compactions read.
    compaction_entries_read,
    /// Entries that compactions dropped: overwritten, or deleted.
    compaction_entries_dropped,
    /// Entries that compaction filters removed.
    compaction_entries_filtered,
    /// SSTs that FIFO dropped with all that they held.
    fifo_files_dropped,
    /// SSTs deleted.
    files_deleted,
    /// Writes refused by `no_slowdown` or a timeout.
    writes_refused,
}
kept_elsewhere {
    /// Time that writers spent delayed or stopped, summed over writers, in microseconds.
    stall_micros,
    /// The part of it spent delayed.
    stall_delay_micros,
    /// Writes that were delayed or stopped.
    write_stalls,
    /// The longest time that one of them waited, in microseconds.
    write_stall_max_micros,
    /// Bytes that the log handed to the kernel, headers included.
    wal_bytes_written,
    /// Calls that handed them over.
    wal_writes,
    /// Syncs of the log.
    wal_syncs,
    /// Block cache look-ups that found the block; of a shared cache those of all its databases.
    block_cache_hits,
    /// Block cache look-ups that did not.
    block_cache_misses,
}
}

/// What flushes and compactions into one level of a column family did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LevelWork {
    /// Bytes read from the levels above, and from the level itself.
    pub(crate) read_upper: u64,
    pub(crate) read_lower: u64,
    pub(crate) written: u64,
    /// Bytes of files moved into the level as they were.
    pub(crate) moved: u64,
    /// Bytes written by flushes.
    pub(crate) flushed: u64,
    /// Time, and processor time of the job's own thread, in microseconds.
    pub(crate) micros: u64,
    pub(crate) cpu_micros: u64,
    /// Flushes and compactions.
    pub(crate) count: u64,
    pub(crate) entries_in: u64,
    pub(crate) entries_dropped: u64,
}

impl LevelWork {
    pub(crate) fn add(&mut self, more: &Self) {
        self.zip(more, u64::wrapping_add);
    }

    /// What was done since `earlier`, a copy of the same counters.
    pub(crate) fn since(mut self, earlier: &Self) -> Self {
        self.zip(earlier, u64::saturating_sub);
        self
    }

    /// Bytes that came new into the level.
    pub(crate) fn ingested(&self) -> u64 {
        self.read_upper + self.flushed
    }

    fn zip(&mut self, other: &Self, join: impl Fn(u64, u64) -> u64) {
        let fields = [
            (&mut self.read_upper, other.read_upper),
            (&mut self.read_lower, other.read_lower),
            (&mut self.written, other.written),
            (&mut self.moved, other.moved),
            (&mut self.flushed, other.flushed),
            (&mut self.micros, other.micros),
            (&mut self.cpu_micros, other.cpu_micros),
            (&mut self.count, other.count),
            (&mut self.entries_in, other.entries_in),
            (&mut self.entries_dropped, other.entries_dropped),
        ];
        for (mine, theirs) in fields {
            *mine = join(*mine, theirs);
        }
    }
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed); // statistics
    }

    /// The same, by the only thread that adds now.
    #[inline]
    pub(crate) fn add_alone(&self, amount: u64) {
        self.0.store(self.get() + amount, Ordering::Relaxed); // statistics
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed) // statistics
    }
}

/// What was said last, to be told what came since.
#[derive(Debug, Default)]
pub(crate) struct Last<T>(Mutex<T>);

impl<T> Last<T> {
    pub(crate) fn get(&self) -> T
    where
        T: Copy,
    {
        *self.0.lock()
    }

    /// Remembers `now`; what was remembered before comes back.
    pub(crate) fn replace(&self, now: T) -> T {
        std::mem::replace(&mut *self.0.lock(), now)
    }
}
