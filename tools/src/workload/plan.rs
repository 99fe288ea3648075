//! What one benchmark does: the flags after its own tweaks.
//!
//! Made anew for each benchmark, so that the tweaks of one do not leak into the next. Must not know the loops.

use sluicedb::{Durability, WriteOptions};

use super::catalogue::{Benchmark, Order, Tweak, Work};
use super::values::Sizes;
use crate::settings::Settings;

/// The sizes and counts of one run of one benchmark.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The loop.
    pub work: Work,
    /// Keys in the key space; at least 1.
    pub num: u64,
    /// Reads per thread.
    pub reads: u64,
    /// Writes per thread and database.
    pub writes: u64,
    /// Deletes per thread.
    pub deletes: u64,
    /// Bytes per key.
    pub key_size: usize,
    /// Bytes per value.
    pub sizes: Sizes,
    /// Entries per batch.
    pub batch: u64,
    /// Threads, without a background writer.
    pub threads: usize,
    /// One more thread writes until the others have ended.
    pub background_writer: bool,
    /// Seconds instead of counts; 0 = counts.
    pub duration: u64,
    /// How benchmark writes are made durable.
    pub write_options: WriteOptions,
    /// The summary says how many operations there were, because a tweak changed the number.
    pub counts_in_message: bool,
}

impl Plan {
    /// The plan of `benchmark` under `settings`.
    pub fn new(benchmark: &Benchmark, settings: &Settings) -> Self {
        let bench = &settings.bench;
        let mut num = bench.num;
        let mut sizes = Sizes {
            distribution: bench.value_size_distribution_type,
            fixed: bench.value_size,
            range: (bench.value_size_min, bench.value_size_max),
        };
        let mut write_options = settings.write_options();
        let mut batch = bench.batch_size;
        let mut key_size = bench.key_size;
        match benchmark.tweak {
            Tweak::None => {}
            Tweak::Batch1000 => batch = 1000,
            Tweak::Sync => {
                num /= 1000;
                if write_options.durability != Durability::None {
                    write_options.durability = Durability::Sync;
                }
            }
            Tweak::Value100K => {
                num /= 1000;
                sizes.fixed = 100_000;
            }
            Tweak::LongerKey => key_size += 1,
            Tweak::WholeOnOneThread => {}
        }
        let count = |given: i64| u64::try_from(given).unwrap_or(num);
        let whole = benchmark.tweak == Tweak::WholeOnOneThread;
        let alone = whole || benchmark.work == Work::Fill(Order::UniqueRandom);
        Self {
            work: benchmark.work,
            num: num.max(1),
            reads: if whole { u64::MAX } else { count(bench.reads) },
            writes: if bench.writes > 0 { count(bench.writes) } else { num },
            deletes: count(bench.deletes),
            key_size,
            sizes,
            batch,
            threads: if alone { 1 } else { bench.threads },
            background_writer: benchmark.background_writer,
            duration: bench.duration,
            write_options,
            counts_in_message: num != bench.num,
        }
    }

    /// Operations of all threads over `databases`; `None` if only the end shows how many.
    pub fn total_ops(&self, databases: usize) -> Option<u64> {
        let each = match self.work {
            Work::Fill(Order::Sequential | Order::Random | Order::UniqueRandom) => {
                self.writes.saturating_mul(databases as u64)
            }
            Work::Delete(_) => self.deletes,
            Work::ReadRandom | Work::MultiReadRandom | Work::SeekRandom | Work::UpdateRandom => self.reads,
            Work::ReadSequential | Work::ReadReverse if self.reads < u64::MAX => self.reads,
            _ => return None,
        };
        Some(each.saturating_mul(self.threads as u64))
    }
}
