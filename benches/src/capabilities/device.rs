//! A slow device: the simulated file system with the times that a figure injects, and databases on it.

use std::sync::Arc;
use std::time::Duration;

use sluicedb::{DbOptions, DelayedWriteRate, WriteBatch};
use sluicedb_tests::sim_fs::{FileKind, Op, Pattern, SimFs};

/// A device whose log takes `per_sync` for each sync, and for writes their bytes at `bytes_per_second` (0: no time).
pub fn slow_log(per_sync: Duration, bytes_per_second: u64) -> SimFs {
    let fs = SimFs::new(1);
    if !per_sync.is_zero() {
        fs.before(Pattern::op(Op::Sync).on(FileKind::Wal), move |_| std::thread::sleep(per_sync));
    }
    if bytes_per_second > 0 {
        fs.before(Pattern::op(Op::Write).on(FileKind::Wal), move |bytes| {
            std::thread::sleep(Duration::from_secs_f64(bytes as f64 / bytes_per_second as f64));
        });
    }
    fs
}

/// Options of a database on it in which nothing but what is measured holds writers.
pub fn options(fs: &SimFs) -> DbOptions {
    let mut options = DbOptions::default();
    options.file_system = Arc::new(fs.clone());
    options.delayed_write_rate = DelayedWriteRate::BytesPerSecond(1 << 50);
    options.wal_segment_bytes = 256 << 20; // no end of one falls into a measurement
    options.wal_sync_interval = Duration::ZERO;
    // Nor do flushes.
    options.db_write_buffer_size = 8 << 30;
    options.max_total_wal_size = 8 << 30;
    options.column_family.write_buffer_size = 4 << 30;
    options
}

/// A batch of one put, of `value` bytes.
pub fn batch(number: u64, value: usize) -> WriteBatch {
    let mut batch = WriteBatch::with_capacity(value + 64);
    batch.put(crate::key(number), vec![b'v'; value]);
    batch
}
