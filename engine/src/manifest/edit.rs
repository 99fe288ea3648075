//! [`VersionEdit`]: one change of what the database is made of, as a plain value.
//!
//! What is `None` or empty stays as it was. Full state is an edit too: the one that makes it of nothing.
//!
//! This file knows neither bytes nor what a change means to anybody.

use std::sync::Arc;

use crate::key::SequenceNumber;
use crate::version::{FileMeta, FileNumber};
use crate::wal::WalEdit;

/// One change, made as a whole or not at all.
#[derive(Debug, Clone, Default)]
pub(crate) struct VersionEdit {
    /// No file has this number or a larger one, as far as this manifest knows. An open must go beyond the numbers
    /// that it finds in the directory, too: WAL segments and tables are created before an edit says so.
    pub(crate) next_file_number: Option<FileNumber>,
    /// The last sequence in any table.
    pub(crate) last_sequence: Option<SequenceNumber>,
    /// The id of the next column family.
    pub(crate) next_family_id: Option<u32>,
    /// What changed about the log.
    pub(crate) wal: WalEdit,
    /// What changed about column families, in the order in which it is applied.
    pub(crate) families: Vec<FamilyEdit>,
}

/// What changed about one column family.
#[derive(Debug, Clone, Default)]
pub(crate) struct FamilyEdit {
    pub(crate) id: u32,
    /// The family is new and has this name.
    pub(crate) created: Option<String>,
    /// The family is gone, with all its files.
    pub(crate) dropped: bool,
    /// Everything of this family at or below is in tables: replay skips it.
    pub(crate) flushed_through: Option<SequenceNumber>,
    /// Files that left a level. Applied before `added`, so that a file can move.
    pub(crate) removed: Vec<(u32, FileNumber)>,
    /// Files that came to a level.
    pub(crate) added: Vec<(u32, Arc<FileMeta>)>,
}

impl FamilyEdit {
    /// An edit of family `id` that changes nothing yet.
    pub(crate) fn new(id: u32) -> Self {
        Self { id, ..Self::default() }
    }
}
