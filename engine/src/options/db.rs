//! [`DbOptions`]: how a database as a whole behaves, and the components that it shares with others.

use std::sync::Arc;
use std::time::Duration;

use sluicedb_controller::WriteController;
use sluicedb_wbm::WriteBufferManager;

use super::ColumnFamilyOptions;
use crate::cache::BlockCache;
use crate::env::{Clock, DiskFileSystem, FileSystem, SystemClock};
use crate::error::{Error, Result};
use crate::event::EventListener;
use crate::rate_limiter::RateLimiter;

/// How SSTs are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ReadMode {
    /// Files are mapped into memory; stored (uncompressed) blocks are read in place, without a copy.
    #[default]
    Mmap,
    /// Blocks are read into the block cache with positioned reads.
    Pread,
}

/// How SSTs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TableWrites {
    /// Through the page cache, so that reads find them there; but a compaction into L1 or below writes past it
    /// ([`Direct`](Self::Direct)) while both hold: writers are slowed or soon will be, and the database has outgrown a sixty-fourth
    /// of the machine's memory. Then disk and processors are what is short, and a buffered byte costs several times the
    /// processor time of a direct one. A base level that is more than twice what a compaction of L0 brings stays in the
    /// page cache while such levels fit into a quarter of the memory: it is read again at once, and the disk is spared that.
    #[default]
    Auto,
    /// Always through the page cache.
    Buffered,
    /// Always past the page cache (`O_DIRECT`) where the file system can do that. What was written is read from the device
    /// at first.
    Direct,
}

/// What recovery does about a damaged write-ahead log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum RecoveryMode {
    /// A torn tail behind the last synced byte is dropped; damage before it refuses to open.
    #[default]
    TolerateTail,
    /// Opens at the last batch before the first damage.
    PointInTime,
    /// Any damage, a torn tail too, refuses to open.
    Absolute,
}

/// The top rate of delayed writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum DelayedWriteRate {
    /// The rate limiter's, if there is one; else 16 MiB/s.
    #[default]
    Default,
    /// This many bytes per second; 0 means the default.
    BytesPerSecond(u64),
    /// Twice what flushes are measured to take out of memory, so that a delay step is 2 % of it on any machine: bytes per
    /// second that a flush was busy, over the last 20 s of such time, times `max_background_flushes`. What writers bring stands
    /// in until a flush has ended, and the default until anything was measured.
    Auto,
}

impl DelayedWriteRate {
    /// The rate in bytes per second, where there is no rate limiter; of `Auto`, that before anything was measured.
    pub fn bytes_per_second(self) -> u64 {
        match self {
            Self::Default | Self::Auto | Self::BytesPerSecond(0) => 16 << 20,
            Self::BytesPerSecond(rate) => rate,
        }
    }
}

/// How a database as a whole behaves, and the components that it shares with others.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DbOptions {
    /// Make the database if the directory holds none. Default: true.
    pub create_if_missing: bool,
    /// Refuse to open a database that exists. Default: false.
    pub error_if_exists: bool,
    /// Make column families that [`Db::open_cf`](crate::Db::open_cf) names and the database lacks. Default: true.
    pub create_missing_column_families: bool,
    /// Options of the column family `default`, and of families that are opened without options of their own.
    pub column_family: ColumnFamilyOptions,

    /// Quota of the private write buffer manager; without effect when `write_buffer_manager` is given.
    ///
    /// Unit: bytes. Default: 256 MiB. 0 = no quota. Changeable live: through the manager.
    /// More: larger L0 files, later delay; longer replay.
    pub db_write_buffer_size: u64,
    /// Whether the private manager may delay and stop writers. Default: true; false makes the quota soft. Changeable live: yes.
    pub allow_stall: bool,
    /// Share of the private manager's quota at which the delay begins.
    ///
    /// Unit: percent. Default: 70. Range: 1 to 99. Changeable live: yes.
    pub delay_start_percent: u32,
    /// Whether the private manager asks for flushes before the delay begins. Default: true.
    pub initiate_flushes: bool,
    /// Flushes that the private manager wants at once.
    ///
    /// Default: 4. Range: 1 to 64.
    pub max_parallel_flushes: u32,
    /// Whether the memory of the private manager's memtables takes room in the block cache, in units of 256 KiB: the sum of
    /// both then keeps to the cache's size. A shared manager: see
    /// [`WriteBufferManager::set_cost_to_cache`].
    ///
    /// Default: false. Changeable live: yes. Without effect when there is no block cache.
    pub cost_write_buffer_to_cache: bool,
    /// Whether what running flushes have written already counts against the delay of writers no more; a stop counts it
    /// until its memory is free. For the private manager. Default: false.
    pub flush_progress_credit: bool,
    /// Whether each memtable is sealed at a size of its own, 75 to 100 % of `write_buffer_size`, so that families that are
    /// written alike do not all flush at once. Default: true.
    pub desync_write_buffers: bool,
    /// Whether running compactions wait while writers are slowed and a flush is queued or running. Default: false.
    pub strict_flush_priority: bool,
    /// Whether a governor holds writers to the rate that flushes and compactions sustain over some 20 s, measured, while they
    /// press for more. Only lowers the rate; silent while writers bring less. A database that has not compacted yet is granted
    /// a part of what its flushes write at best and the room in L0 spread over two minutes, then slowly more: even from the first
    /// second, and slower than it could be while the tree is small.
    ///
    /// Default: false.
    pub smooth_writes: bool,
    /// Top rate of delayed writers of the private controller; of a shared one, what it was made with.
    ///
    /// Unit: bytes per second. Default: that of `rate_limiter`, else 16 MiB/s. Changeable live: yes, and then also of a shared one,
    /// which with `Auto` follows the database that flushed last.
    pub delayed_write_rate: DelayedWriteRate,
    /// Longest time that a write spends delayed and stopped before it returns
    /// [`Error::Stalled`].
    ///
    /// Default: none. Least: 1 ms. Changeable live: yes.
    pub stall_timeout: Option<Duration>,
    /// Recovery flushes memtables before they outgrow the manager's quota. Default: true.
    pub enforce_write_buffer_manager_during_recovery: bool,

    /// Flushes that compute at once. As many again may wait for the device meanwhile, each on a thread of its own.
    ///
    /// Default: 1. Range: 1 to 64.
    pub max_background_flushes: u32,
    /// Compactions that run at once.
    ///
    /// Default: 2. Range: 1 to 64.
    pub max_background_compactions: u32,
    /// Threads that share the work of one large compaction.
    ///
    /// Default: 1. Range: 1 to 64.
    pub max_subcompactions: u32,
    /// How SSTs are written. Default: [`TableWrites::Auto`].
    pub table_writes: TableWrites,

    /// Bytes that may wait in the commit queue; one write of any size passes while a byte is free.
    ///
    /// Unit: bytes. Default: 64 MiB. Least: 4 KiB. Changeable live:
    /// [`Db::set_commit_queue_bytes`](crate::Db::set_commit_queue_bytes). More: longer groups under slow syncs, and a
    /// longer tail of the time to acknowledgement.
    pub commit_queue_bytes: u64,
    /// Most bytes in one append to the log.
    ///
    /// Unit: bytes. Default: 32 MiB. Least: 4 KiB.
    pub commit_group_bytes: u64,
    /// Most batches in one append to the log.
    ///
    /// Default: 5,000. Least: 1.
    pub commit_group_count: u32,
    /// Queue groups that may wait beside [`commit_queue_bytes`](Self::commit_queue_bytes): a write joins the last one if
    /// it fits, and waits, like for bytes, if it would open one more.
    ///
    /// Default: 100. Range: 1 to 1,000,000. Raise it together with `queue_group_bytes`.
    pub group_queue_limit: u32,
    /// A queue group with so many bytes is full. A larger write is a group by itself.
    ///
    /// Unit: bytes. Default: 2 MiB. Least: 1.
    pub queue_group_bytes: u64,
    /// How long the only queue group waits for company before it is committed, unless it is full or a flush of the log asks
    /// for it.
    ///
    /// Default: 0, not at all. Most: 1 s. More: fewer, larger appends, and every write that finds the queue empty waits so
    /// long.
    pub linger: Duration,
    /// Size of a group from which threads insert their own batches into the memtables, side by side, instead of the
    /// one that leads the group.
    ///
    /// Unit: bytes. Default: 16 KiB. 0 = always, when two threads or more are in the group.
    pub parallel_insert_bytes: u64,
    /// Bytes of asynchronous writes that may wait for a delay, for a stop or for room in the commit queue; one write
    /// of any size passes while a byte is free. Beyond it [`Db::write_async`](crate::Db::write_async) refuses.
    ///
    /// Unit: bytes. Default: 64 MiB. Least: 1.
    pub async_waiting_bytes: u64,
    /// Largest batch.
    ///
    /// Unit: bytes. Default: 32 MiB. Range: 4 KiB to 8 GiB. Raise it for larger values.
    pub max_batch_bytes: u64,
    /// Longest wait for room in the commit queue.
    ///
    /// Default: 30 s. Least: 1 ms. Changeable live: yes.
    pub write_timeout: Duration,
    /// Size of a WAL segment.
    ///
    /// Unit: bytes. Default: 16 MiB. Range: 64 KiB to 4 GiB. More: fewer files, later automatic sync.
    pub wal_segment_bytes: u64,
    /// The store's own buffer for [`Durability::Buffered`](crate::Durability::Buffered) writes.
    ///
    /// Unit: bytes. Default: 64 KiB. Range: 0 to 64 MiB.
    pub wal_buffer_bytes: u64,
    /// Longest time that a logged write waits for a background sync of the log, which makes it durable without asking.
    ///
    /// Default: 1 s. 0 = off. Changeable live: [`Db::set_wal_sync_interval`](crate::Db::set_wal_sync_interval). Less: earlier
    /// durability, more syncs.
    pub wal_sync_interval: Duration,
    /// Bytes of the log that are not synced before a background sync begins.
    ///
    /// Unit: bytes. Default: 0 = off. A segment's end is synced in any case.
    pub wal_sync_bytes: u64,
    /// Sync the log in the background as soon as no write waits. Default: false. For streams of asynchronous writes; a lone
    /// writer that needs no durability only pays for it.
    pub wal_sync_on_idle: bool,
    /// Oldest that the log's synced position in the manifest may be while the log moves on.
    ///
    /// Default: 300 s. Least: 1 ms. [`Duration::MAX`]: any age. A position that lags by a segment is recorded earlier.
    pub manifest_save_interval: Duration,
    /// Least time between two records of the manifest that hold no more than the log's position.
    ///
    /// Default: 300 ms. Range: 0 to 1 h.
    pub manifest_min_gap: Duration,
    /// Jobs that each background worker holds at most, queued and running.
    ///
    /// Unit: jobs. Default: 128. A power of two from 2 to 65536.
    pub job_ring_slots: u32,
    /// Log size above which the column family that holds the oldest segment is flushed.
    ///
    /// Unit: bytes. Default: 1 GiB. Least: 1 MiB. Changeable live: yes. More: longer replay, fewer small flushes of quiet families.
    pub max_total_wal_size: u64,
    /// What recovery does about a damaged log. Default: [`RecoveryMode::TolerateTail`].
    pub recovery_mode: RecoveryMode,

    /// Size of the block cache, when `block_cache` names none.
    ///
    /// Unit: bytes. Default: 32 MiB. 0 = no cache.
    pub block_cache_size: u64,
    /// How SSTs are read. Default: [`ReadMode::Mmap`].
    pub read_mode: ReadMode,
    /// SSTs kept open at once.
    ///
    /// Unit: files. Default: 1,000. Least: 16.
    pub max_open_files: u32,
    /// Threads that one [`multi_get`](crate::Db::multi_get) reads with at most, where many tables or blocks are not in memory.
    /// They are shared by all callers and start when first needed.
    ///
    /// Unit: threads. Default: 4. Range: 1 (the caller alone) to 64.
    /// More: more requests to the device at once.
    pub max_read_threads: u32,

    /// A block cache shared with other databases. Default: none, a private one.
    pub block_cache: Option<Arc<BlockCache>>,
    /// A manager shared with other databases: one quota for all. Default: none, a private one.
    pub write_buffer_manager: Option<Arc<WriteBufferManager>>,
    /// A controller shared with other databases: one rate for all. Default: none, a private one.
    pub write_controller: Option<Arc<WriteController>>,
    /// Bounds the bytes per second that flushes and compactions write; it may be shared with other databases. Default: none.
    pub rate_limiter: Option<Arc<RateLimiter>>,
    /// Who is told what the database does, in this order. Default: nobody.
    pub listeners: Vec<Arc<dyn EventListener>>,
    /// The way to disk. Default: the operating system's files.
    pub file_system: Arc<dyn FileSystem>,
    /// The way to time. Default: the operating system's clocks.
    pub clock: Arc<dyn Clock>,
}

impl Default for DbOptions {
    fn default() -> Self {
        Self {
            create_if_missing: true,
            error_if_exists: false,
            create_missing_column_families: true,
            column_family: ColumnFamilyOptions::default(),
            db_write_buffer_size: 256 << 20,
            allow_stall: true,
            delay_start_percent: 70,
            initiate_flushes: true,
            flush_progress_credit: false,
            desync_write_buffers: true,
            strict_flush_priority: false,
            smooth_writes: false,
            max_parallel_flushes: 4,
            cost_write_buffer_to_cache: false,
            delayed_write_rate: DelayedWriteRate::Default,
            stall_timeout: None,
            enforce_write_buffer_manager_during_recovery: true,
            max_background_flushes: 1,
            max_background_compactions: 2,
            max_subcompactions: 1,
            table_writes: TableWrites::Auto,
            commit_queue_bytes: 64 << 20,
            commit_group_bytes: 32 << 20,
            commit_group_count: 5_000,
            group_queue_limit: 100,
            queue_group_bytes: 2 << 20,
            linger: Duration::ZERO,
            parallel_insert_bytes: 16 << 10,
            async_waiting_bytes: 64 << 20,
            max_batch_bytes: 32 << 20,
            write_timeout: Duration::from_secs(30),
            wal_segment_bytes: 16 << 20,
            wal_buffer_bytes: 64 << 10,
            wal_sync_interval: Duration::from_secs(1),
            wal_sync_bytes: 0,
            wal_sync_on_idle: false,
            manifest_save_interval: Duration::from_secs(300),
            manifest_min_gap: Duration::from_millis(300),
            job_ring_slots: 128,
            max_total_wal_size: 1 << 30,
            recovery_mode: RecoveryMode::default(),
            block_cache_size: 32 << 20,
            read_mode: ReadMode::default(),
            max_open_files: 1000,
            max_read_threads: 4,
            block_cache: None,
            write_buffer_manager: None,
            write_controller: None,
            rate_limiter: None,
            listeners: Vec::new(),
            file_system: Arc::new(DiskFileSystem),
            clock: Arc::new(SystemClock),
        }
    }
}

impl DbOptions {
    /// The top rate of delayed writers, in bytes per second.
    pub(crate) fn delayed_bytes_per_second(&self) -> u64 {
        match (self.delayed_write_rate, &self.rate_limiter) {
            (
                DelayedWriteRate::Default | DelayedWriteRate::Auto | DelayedWriteRate::BytesPerSecond(0),
                Some(limiter),
            ) => limiter.bytes_per_second(),
            (rate, _) => rate.bytes_per_second(),
        }
    }

    /// Checks every range above, those of `column_family` included.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] naming the first option outside its range, the range and the value.
    pub fn validate(&self) -> Result<()> {
        let check = |ok: bool, what: &'static str, range: &str, given: &dyn std::fmt::Display| {
            if ok { Ok(()) } else { Err(Error::out_of_range(what, range, given)) }
        };
        let millis = |time: Duration| format!("{time:?}");
        check(
            (1..=99).contains(&self.delay_start_percent),
            "delay_start_percent",
            "1 to 99 percent",
            &self.delay_start_percent,
        )?;
        check(
            (1..=64).contains(&self.max_parallel_flushes),
            "max_parallel_flushes",
            "1 to 64",
            &self.max_parallel_flushes,
        )?;
        if let Some(timeout) = self.stall_timeout {
            check(timeout >= Duration::from_millis(1), "stall_timeout", "at least 1 ms", &millis(timeout))?;
        }
        check(
            (1..=64).contains(&self.max_background_flushes),
            "max_background_flushes",
            "1 to 64",
            &self.max_background_flushes,
        )?;
        check(
            (1..=64).contains(&self.max_background_compactions),
            "max_background_compactions",
            "1 to 64",
            &self.max_background_compactions,
        )?;
        check(
            (1..=64).contains(&self.max_subcompactions),
            "max_subcompactions",
            "1 to 64",
            &self.max_subcompactions,
        )?;
        check(
            self.commit_queue_bytes >= 4096,
            "commit_queue_bytes",
            "at least 4096 bytes",
            &self.commit_queue_bytes,
        )?;
        check(
            self.commit_group_bytes >= 4096,
            "commit_group_bytes",
            "at least 4096 bytes",
            &self.commit_group_bytes,
        )?;
        check(self.commit_group_count >= 1, "commit_group_count", "at least 1", &self.commit_group_count)?;
        check(
            (1..=1_000_000).contains(&self.group_queue_limit),
            "group_queue_limit",
            "1 to 1000000",
            &self.group_queue_limit,
        )?;
        check(self.queue_group_bytes >= 1, "queue_group_bytes", "at least 1 byte", &self.queue_group_bytes)?;
        check(self.linger <= Duration::from_secs(1), "linger", "0 to 1000 ms", &millis(self.linger))?;
        check(
            self.async_waiting_bytes >= 1,
            "async_waiting_bytes",
            "at least 1 byte",
            &self.async_waiting_bytes,
        )?;
        check(
            (4096..=8 << 30).contains(&self.max_batch_bytes),
            "max_batch_bytes",
            "4096 to 8589934592 bytes",
            &self.max_batch_bytes,
        )?;
        check(
            self.write_timeout >= Duration::from_millis(1),
            "write_timeout",
            "at least 1 ms",
            &millis(self.write_timeout),
        )?;
        check(
            (64 << 10..=4 << 30).contains(&self.wal_segment_bytes),
            "wal_segment_bytes",
            "65536 to 4294967296 bytes",
            &self.wal_segment_bytes,
        )?;
        check(
            self.wal_buffer_bytes <= 64 << 20,
            "wal_buffer_bytes",
            "0 to 67108864 bytes",
            &self.wal_buffer_bytes,
        )?;
        check(
            self.manifest_save_interval >= Duration::from_millis(1),
            "manifest_save_interval",
            "at least 1 ms",
            &millis(self.manifest_save_interval),
        )?;
        check(
            self.manifest_min_gap <= Duration::from_secs(3600),
            "manifest_min_gap",
            "0 to 1 h",
            &millis(self.manifest_min_gap),
        )?;
        check(
            self.job_ring_slots.is_power_of_two() && (2..=65536).contains(&self.job_ring_slots),
            "job_ring_slots",
            "a power of two from 2 to 65536",
            &self.job_ring_slots,
        )?;
        check(
            self.max_total_wal_size >= 1 << 20,
            "max_total_wal_size",
            "at least 1048576 bytes",
            &self.max_total_wal_size,
        )?;
        check(self.max_open_files >= 16, "max_open_files", "at least 16", &self.max_open_files)?;
        check(
            (1..=64).contains(&self.max_read_threads),
            "max_read_threads",
            "1 to 64",
            &self.max_read_threads,
        )?;
        self.column_family.validate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The defaults are valid, and every option that is bent out of its range is refused by its own name.
    #[test]
    fn each_option_is_refused_by_name() {
        DbOptions::default().validate().unwrap();
        type Bend = fn(&mut DbOptions);
        let bends: [(&str, Bend); 24] = [
            ("delay_start_percent", |o| o.delay_start_percent = 100),
            ("max_parallel_flushes", |o| o.max_parallel_flushes = 0),
            ("stall_timeout", |o| o.stall_timeout = Some(Duration::ZERO)),
            ("max_background_flushes", |o| o.max_background_flushes = 0),
            ("max_background_compactions", |o| o.max_background_compactions = 65),
            ("max_subcompactions", |o| o.max_subcompactions = 0),
            ("commit_queue_bytes", |o| o.commit_queue_bytes = 0),
            ("commit_group_bytes", |o| o.commit_group_bytes = 0),
            ("commit_group_count", |o| o.commit_group_count = 0),
            ("group_queue_limit", |o| o.group_queue_limit = 0),
            ("queue_group_bytes", |o| o.queue_group_bytes = 0),
            ("linger", |o| o.linger = Duration::from_secs(2)),
            ("async_waiting_bytes", |o| o.async_waiting_bytes = 0),
            ("max_batch_bytes", |o| o.max_batch_bytes = 0),
            ("write_timeout", |o| o.write_timeout = Duration::ZERO),
            ("wal_segment_bytes", |o| o.wal_segment_bytes = 1),
            ("wal_buffer_bytes", |o| o.wal_buffer_bytes = u64::MAX),
            ("manifest_save_interval", |o| o.manifest_save_interval = Duration::ZERO),
            ("manifest_min_gap", |o| o.manifest_min_gap = Duration::MAX),
            ("job_ring_slots", |o| o.job_ring_slots = 100),
            ("max_total_wal_size", |o| o.max_total_wal_size = 0),
            ("max_open_files", |o| o.max_open_files = 1),
            ("max_read_threads", |o| o.max_read_threads = 0),
            ("num_levels", |o| o.column_family.num_levels = 0),
        ];
        for (name, bend) in bends {
            let mut options = DbOptions::default();
            bend(&mut options);
            let refused = options.validate().unwrap_err();
            assert!(
                matches!(refused, Error::InvalidArgument { what, .. } if what == name),
                "{name}: {refused}"
            );
        }
    }
}
