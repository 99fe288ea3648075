//! Settings as plain values: each says unit, default, range, and which way to turn.
//!
//! [`DbOptions`] for a database, [`ColumnFamilyOptions`] for one column family, [`ReadOptions`] and
//! [`WriteOptions`] for a call. Names are RocksDB's where RocksDB has the option; bytes are `u64`. Each has one
//! `validate`, called by whoever opens; it refuses and does not repair. Live components (file system, clock,
//! manager, controller, cache) are fields of [`DbOptions`] of their own. [`StoredOptions`] is all of it as text, the
//! content of the file OPTIONS.

mod column_family;
mod compact_range;
mod db;
mod file;
mod flush;
mod live;
mod read;
mod text;
mod write;

pub use column_family::{ColumnFamilyOptions, CompactionStyle, Compression, MemtableRepKind};
pub use compact_range::{BottommostLevelCompaction, CompactRangeOptions};
pub use db::{DbOptions, DelayedWriteRate, ReadMode, RecoveryMode, TableWrites};
pub(crate) use file::OPTIONS_LEN_MAX;
pub use file::StoredOptions;
pub use flush::FlushOptions;
pub use read::ReadOptions;
pub use write::{Durability, WriteOptions};
