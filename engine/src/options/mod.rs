//! Settings as plain values: each says unit, default, range, and which way to turn.
//!
//! [`DbOptions`] for a database, [`ColumnFamilyOptions`] for one column family, [`ReadOptions`] and
//! [`WriteOptions`] for a call. Names are RocksDB's where RocksDB has the option; bytes are `u64`. Each has one
//! `validate`, called by whoever opens; it refuses and does not repair. Live components (file system, clock,
//! manager, controller, cache) are fields of [`DbOptions`] of their own.

mod column_family;
mod compact_range;
mod db;
mod flush;
mod live;
mod read;
mod write;

pub use column_family::{ColumnFamilyOptions, CompactionStyle, Compression, MemtableRepKind};
pub use compact_range::{BottommostLevelCompaction, CompactRangeOptions};
pub use db::{DbOptions, DelayedWriteRate, ReadMode, RecoveryMode, TableWrites};
pub use flush::FlushOptions;
pub use read::ReadOptions;
pub use write::{Durability, WriteOptions};
