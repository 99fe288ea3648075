//! What the database reaches in the loads that have a limit: from the first operation until the last table is written.

use std::path::Path;
use std::time::{Duration, Instant};

use sluicedb::{ColumnFamilyOptions, Compression, Db, DbOptions, Durability, Result, WriteOptions};

use super::model::Load;
use crate::{Numbers, key};

/// Keys that the loads choose from.
const KEYS: u64 = 20_000_000;
/// Keys of the database that is read.
const READ_KEYS: u64 = 500_000;
/// Operations between two looks at the clock.
const STRIDE: u64 = 64;

/// What was reached.
#[derive(Debug, Clone, Copy)]
pub struct Reached {
    /// Operations per second.
    pub operations: f64,
    /// Bytes of tables written per byte that was put; 1 for reads.
    pub amplification: f64,
}

/// Runs a load for about `time` in a new database below `directory`, then removes it.
///
/// # Errors
///
/// Those of the database.
pub fn run(directory: &Path, load: Load, time: Duration) -> Result<Reached> {
    let path = directory.join("limits.db");
    let options = options(load);
    let db = Db::open(&path, options.clone())?;
    let reached = match load {
        Load::Put { value, durability, leveled } => puts(&db, value, durability, leveled, time),
        Load::Get => gets(&db, time),
    };
    db.close()?;
    Db::destroy(&path, &options)?;
    reached
}

fn options(load: Load) -> DbOptions {
    let mut family = ColumnFamilyOptions::default();
    family.compression = Compression::None;
    family.bloom_bits_per_key = 10.0;
    if let Load::Put { leveled: false, .. } = load {
        family.disable_auto_compactions = true;
        family.level0_slowdown_writes_trigger = 1 << 20;
        family.level0_stop_writes_trigger = 1 << 20;
    }
    let mut options = DbOptions::default();
    options.column_family = family;
    options.delayed_write_rate = sluicedb::DelayedWriteRate::BytesPerSecond(512 << 20);
    options
}

fn puts(db: &Db, value: u32, durability: Durability, leveled: bool, time: Duration) -> Result<Reached> {
    let value = vec![b'v'; value as usize];
    let options = WriteOptions::durability(durability);
    let mut numbers = Numbers::new(17);
    let start = Instant::now();
    let mut count = 0;
    while start.elapsed() < time {
        for _ in 0..STRIDE {
            db.put_opt(key(numbers.below(KEYS)), &value, &options)?;
        }
        count += STRIDE;
    }
    let user_bytes = (count * (16 + value.len() as u64)) as f64;
    // What was only postponed counts: the flush, and the compactions where they run. A synced load leaves next to nothing.
    if durability != Durability::Sync {
        db.flush()?;
    }
    if leveled {
        db.wait_for_background_work()?;
    }
    let operations = count as f64 / start.elapsed().as_secs_f64();
    let statistics = db.statistics();
    let written = statistics.flush_bytes_written + statistics.compaction_bytes_written;
    Ok(Reached { operations, amplification: written as f64 / user_bytes })
}

fn gets(db: &Db, time: Duration) -> Result<Reached> {
    let buffered = WriteOptions::durability(Durability::Buffered);
    for number in 0..READ_KEYS {
        db.put_opt(key(number), [b'v'; 100], &buffered)?;
    }
    db.compact_range(None, None)?;
    let mut numbers = Numbers::new(17);
    // Once over, so that tables are open and their pages mapped.
    for number in 0..READ_KEYS {
        db.get(key(number))?;
    }
    let start = Instant::now();
    let mut count = 0;
    while start.elapsed() < time {
        for _ in 0..STRIDE {
            assert!(db.get(key(numbers.below(READ_KEYS)))?.is_some(), "every key was put");
        }
        count += STRIDE;
    }
    Ok(Reached { operations: count as f64 / start.elapsed().as_secs_f64(), amplification: 1.0 })
}
