//! The limit of a workload: arithmetic on measured constants, and on four costs of code that are taken as given.
//!
//! ```text
//! writer     API + index insert + copy + log (copy, checksum, write)          one thread does it
//! flush      walk and encode + Bloom + copy + checksum + write                another thread
//! rewrite    read, decode, merge, rebuild: once for each further write        all cores
//! device     bytes per operation / best sequential write rate
//! limit      the slowest of: writer, all processor work / cores, device
//! ```

use sluicedb::Durability;

use super::memory::MemoryCosts;
use super::primitives::PrimitiveCosts;
use super::storage::SmallCosts;

/// Entering and leaving a call of the API, in nanoseconds. Taken as given.
const API: f64 = 90.0;
/// Walking a memtable and encoding an entry, in nanoseconds. Taken as given.
const ENCODE: f64 = 40.0;
/// An entry's part in a Bloom filter, in nanoseconds. Taken as given.
const BLOOM: f64 = 32.0;
/// Finding a block in an index, or an entry in a block, in nanoseconds. Taken as given.
const SEARCH: f64 = 300.0;
/// Bytes of a key.
const KEY: f64 = 16.0;
/// What a log adds to a record, in bytes.
const LOG_OVERHEAD: f64 = 20.0;

/// All that was measured of the machine.
#[derive(Debug, Clone, Copy)]
pub struct Constants {
    /// Memory.
    pub memory: MemoryCosts,
    /// Checksums, compression, indexes.
    pub primitives: PrimitiveCosts,
    /// Small writes and syncs.
    pub small: SmallCosts,
    /// The best sequential write rate of all modes, in bytes per second, with its processor seconds per 10^9 bytes.
    pub device: (f64, f64),
    /// Processors.
    pub cores: f64,
}

/// A workload whose limit is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// Puts at random places from one thread.
    Put {
        /// Bytes of a value: 100 or 1000.
        value: u32,
        /// What an acknowledgement is worth.
        durability: Durability,
        /// Whether compactions run; else all tables stay in level 0.
        leveled: bool,
    },
    /// Gets of keys that are there, from one compacted level in cache, from one thread.
    Get,
}

/// How fast a workload can be, and what sets that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// Operations per second.
    pub operations: f64,
    /// What is used up first.
    pub bound: &'static str,
}

impl Load {
    /// The limit of this load when tables are written `amplification` times over, the flush included.
    pub fn limit(&self, constants: &Constants, amplification: f64) -> Limit {
        let Self::Put { value, durability, .. } = *self else {
            let nanos = API + constants.memory.dependent_load + 2.0 * SEARCH;
            return Limit { operations: 1e9 / nanos, bound: "processor" };
        };
        let record = KEY + f64::from(value);
        let log = log_nanos(constants, value, durability);
        let writer = API + index_nanos(constants, value) + constants.memory.copy * record + log;
        let table = record * (constants.memory.copy + constants.primitives.crc_large + constants.device.1);
        let flush = ENCODE + BLOOM + table;
        let rewrites = (amplification - 1.0).max(0.0) * rewrite_nanos(value);
        let logged = if durability == Durability::None { 0.0 } else { record + LOG_OVERHEAD };
        let device = (record * amplification + logged) / constants.device.0 * 1e9;
        let writer_bound = if durability == Durability::Sync { "sync" } else { "writer" };
        let bounds = [
            (writer, writer_bound),
            ((writer + flush + rewrites) / constants.cores, "processors"),
            (flush, "flush"),
            (device, "device"),
        ];
        let (nanos, bound) =
            bounds.into_iter().fold((0.0, ""), |most, next| if next.0 > most.0 { next } else { most });
        Limit { operations: 1e9 / nanos, bound }
    }
}

fn index_nanos(constants: &Constants, value: u32) -> f64 {
    if value < 500 { constants.primitives.small.arena } else { constants.primitives.large.arena }
}

/// Reading, decoding, merging and building an entry again in a good implementation. Taken as given.
fn rewrite_nanos(value: u32) -> f64 {
    if value < 500 { 220.0 } else { 500.0 }
}

fn log_nanos(constants: &Constants, value: u32, durability: Durability) -> f64 {
    let small = value < 500;
    let bytes = KEY + f64::from(value) + LOG_OVERHEAD;
    let prepare = constants.memory.copy * bytes
        + if small { constants.primitives.crc_120 } else { constants.primitives.crc_1020 };
    match durability {
        Durability::None => 0.0,
        Durability::Buffered => prepare + constants.small.append_large * bytes,
        Durability::Sync => prepare + constants.small.synced_overwrite,
        _ => prepare + if small { constants.small.append_140 } else { constants.small.append_1040 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::primitives::IndexCosts;

    fn constants() -> Constants {
        let index = IndexCosts { crossbeam: 2_000.0, arena: 1_000.0, hash: 100.0 };
        Constants {
            memory: MemoryCosts {
                copy: 0.1,
                first_touch: 2_000.0,
                second_touch: 20.0,
                dependent_load: 150.0,
            },
            primitives: PrimitiveCosts {
                crc_120: 10.0,
                crc_1020: 40.0,
                crc_large: 0.02,
                compress: 1.0,
                decompress: 0.3,
                small: index,
                large: index,
            },
            small: SmallCosts {
                append_140: 500.0,
                append_1040: 1_000.0,
                append_large: 0.4,
                synced_append: 180_000.0,
                synced_overwrite: 130_000.0,
            },
            device: (2e9, 0.1),
            cores: 2.0,
        }
    }

    fn put(value: u32, durability: Durability, leveled: bool) -> Load {
        Load::Put { value, durability, leveled }
    }

    #[test]
    fn one_writer_without_a_log_is_bound_by_its_index() {
        let limit = put(100, Durability::None, false).limit(&constants(), 1.0);
        // 90 of the API, 1000 of the index, 11.6 of the copy.
        assert!((limit.operations - 1e9 / 1_101.6).abs() < 1.0, "{limit:?}");
        assert_eq!(limit.bound, "writer");
    }

    #[test]
    fn much_rewriting_of_large_values_is_bound_by_the_device() {
        let limit = put(1000, Durability::None, true).limit(&constants(), 12.0);
        assert_eq!(limit.bound, "device");
        assert!((limit.operations - 2e9 / (12.0 * 1_016.0)).abs() < 1.0, "{limit:?}");
        let small = put(100, Durability::None, true).limit(&constants(), 12.0);
        assert_eq!(small.bound, "processors");
    }

    #[test]
    fn stronger_durability_never_raises_the_limit() {
        let rates = [Durability::None, Durability::Buffered, Durability::Os, Durability::Sync]
            .map(|durability| put(100, durability, false).limit(&constants(), 1.0).operations);
        assert!(rates.is_sorted_by(|first, second| first > second), "{rates:?}");
    }
}
