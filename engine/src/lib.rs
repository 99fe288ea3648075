//! SluiceDB: an embedded LSM key-value store whose writes slow down smoothly and never fall off a cliff.
//!
//! Open a directory with [`Db::open`], write with [`Db::put`] or a [`WriteBatch`], read with [`Db::get`] or a
//! [`DbIterator`]. The memtables of all column families, and of all databases that share a [`WriteBufferManager`],
//! charge one quota; from 70 % of it writers are slowed in 99 linear steps, up to a stop at the quota that lasts until
//! a flush has freed memory. What an acknowledged write is worth is each write's choice: [`Durability`].
//!
//! ```
//! # fn main() -> sluicedb::Result<()> {
//! use sluicedb::{Db, DbOptions, WriteBatch};
//!
//! # let dir = std::env::temp_dir().join(format!("sluicedb-doc-{}", std::process::id()));
//! let db = Db::open(&dir, DbOptions::default())?;
//! db.put("apple", "red")?;
//! let mut batch = WriteBatch::new();
//! batch.put("pear", "green").delete("apple");
//! db.write(batch)?; // all of it or nothing
//! assert_eq!(db.get("pear")?.as_deref(), Some(&b"green"[..]));
//! assert!(db.get("apple")?.is_none());
//! db.close()?;
//! # Db::destroy(&dir, &DbOptions::default())
//! # }
//! ```
//!
//! The crate knows nothing of command lines, benchmarks or test clocks. Its only ways out are a [`FileSystem`] and a
//! [`Clock`], both replaceable.

mod batch;
#[cfg(feature = "bench-arms")]
#[doc(hidden)]
pub mod bench_arms;
mod cache;
mod cancel;
mod check;
mod checksum;
mod coding;
mod column_family;
mod commit;
mod compaction;
mod db;
mod durability;
mod env;
mod error;
mod event;
mod filename;
mod flush;
mod histogram;
mod info_log;
pub mod inspect;
mod iter;
mod jobs;
mod key;
mod manifest;
mod memtable;
mod obsolete;
mod options;
mod rate_limiter;
mod repair;
mod slice;
mod snapshot;
mod sst;
mod stats;
mod sync;
mod verify;
mod version;
mod wal;

pub use batch::{WriteBatch, WriteError};
pub use cache::BlockCache;
pub use cancel::CancelToken;
pub use column_family::ColumnFamily;
pub use compaction::filter::{CompactionFilter, FilterDecision, Ttl};
pub use db::{Db, DurableSubscription, LevelStats, RecentWrite, WalLock, WriteTicket, prometheus_text};
pub use env::{
    Clock, DiskFileSystem, FileLock, FileSystem, MappedFile, ReadableFile, SystemClock, WritableFile,
};
pub use error::{Corruption, Error, Result};
pub use event::{BackgroundJobPressure, CompactionCompleted, EventListener, FlushCompleted, StallConditions};
pub use iter::db_iter::DbIterator;
pub use key::{MAX_KEY_LEN, MAX_VALUE_LEN, SequenceNumber};
pub use options::{
    BottommostLevelCompaction, ColumnFamilyOptions, CompactRangeOptions, CompactionStyle, Compression,
    DbOptions, DelayedWriteRate, Durability, FlushOptions, MemtableRepKind, ReadMode, ReadOptions,
    RecoveryMode, StoredOptions, TableWrites, WriteOptions,
};
pub use rate_limiter::{IoPriority, RateLimiter};
pub use repair::RepairReport;
pub use slice::PinnedSlice;
#[cfg(feature = "manual-clock")]
pub use sluicedb_controller::ManualClock;
pub use sluicedb_controller::{
    ControllerOptions, DelayStep, Fraction, Pressure, Requirement, Source, SourceId, SourceKind, State,
    WriteController, derived_rate,
};
pub use sluicedb_wbm::{
    CACHE_UNIT, Holder, MemtableCache, MemtableState, PinKind, PressureChange, Quota, WbmOptions,
    WriteBufferManager,
};
pub use snapshot::Snapshot;
pub use stats::{CauseStalls, HistogramSummary, StallStatistics, StatisticsSnapshot};
pub use verify::VerifyReport;
