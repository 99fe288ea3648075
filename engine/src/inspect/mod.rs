//! Looking into a database's files: the only side door, for tools.
//!
//! Every function here reads one kind of file as it is, without opening the database, without a lock, and without writing
//! anything; it works on a closed database, on one that another process holds, and on one that no longer opens. What comes
//! back are plain values. Bytes are believed only behind their checksums.
//!
//! | file | decoder |
//! |---|---|
//! | `CURRENT` | [`read_current`] |
//! | `MANIFEST-n` | [`read_manifest`] |
//! | `n.log` | [`read_log`] |
//! | `n.sst` | [`Table`] |
//!
//! Whether the files fit together is [`Db::verify`](crate::Db::verify)'s affair.

mod manifest;
mod table;
mod wal;

use std::path::Path;

pub(crate) use manifest::add_up;
pub use manifest::{FamilyChange, FamilyFiles, ManifestContents, ManifestRecord, TableFacts, read_manifest};
pub use table::{Table, TableProperties};
pub(crate) use wal::headers_in_order;
pub use wal::{LogEntry, LogItem, LogRecord, read_log};

use crate::env::FileSystem;
use crate::error::Result;
use crate::filename::manifest_name;
use crate::key::{SequenceNumber, ValueType, split_internal, unpack_trailer};
use crate::manifest::Current;

/// What CURRENT says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CurrentContents {
    /// The name of the live manifest.
    pub manifest: String,
    /// Bytes of that manifest that were synced when CURRENT was written.
    pub synced_bytes: u64,
}

/// Reads the CURRENT of the database in `dir`.
///
/// # Errors
///
/// [`Error::NotADatabase`](crate::Error::NotADatabase) when it is not there; [`Error::Corruption`](crate::Error::Corruption)
/// when it is damaged.
pub fn read_current(fs: &dyn FileSystem, dir: &Path) -> Result<CurrentContents> {
    let Current { manifest, synced_bytes } = Current::read(fs, dir)?;
    Ok(CurrentContents { manifest: manifest_name(manifest), synced_bytes })
}

/// What an entry does to its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryKind {
    /// Removes it; number 0 on disk.
    Delete,
    /// Gives it a value; number 1 on disk.
    Put,
}

impl EntryKind {
    /// The number on disk.
    pub fn number(self) -> u8 {
        match self {
            Self::Delete => 0,
            Self::Put => 1,
        }
    }

    fn of(value_type: ValueType) -> Self {
        match value_type {
            ValueType::Delete => Self::Delete,
            ValueType::Put => Self::Put,
        }
    }
}

/// A key as tables keep it: what the user wrote, when, and whether it is a value or a tombstone.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InternalKey {
    /// The user's key.
    pub user_key: Vec<u8>,
    /// The sequence of the write.
    pub sequence: SequenceNumber,
    /// What it does; `None` for a number that is not known.
    pub kind: Option<EntryKind>,
}

impl InternalKey {
    /// The key in `bytes`, of which the last eight are the trailer; shorter ones are taken for a user key alone.
    fn decode(bytes: &[u8]) -> Self {
        if bytes.len() < crate::key::TRAILER_LEN {
            return Self { user_key: bytes.to_vec(), sequence: SequenceNumber::ZERO, kind: None };
        }
        let (user_key, trailer) = split_internal(bytes);
        let (sequence, kind) = match unpack_trailer(trailer) {
            Some((sequence, value_type)) => (sequence, Some(EntryKind::of(value_type))),
            None => (SequenceNumber::new(trailer >> 8), None),
        };
        Self { user_key: user_key.to_vec(), sequence, kind }
    }
}
