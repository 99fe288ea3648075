//! [`SuperVersion`]: everything a reader needs of one column family, pinned at one moment.

use std::sync::Arc;

use super::Version;
use crate::memtable::Memtable;
use crate::obsolete::ReaderGone;

/// The memtables and the version of one column family at one moment.
///
/// Immutable but for the mutable memtable, which goes on taking writes. Whoever holds it keeps its memtables and
/// files alive; pinned memory never causes a stop.
#[derive(Debug)]
pub(crate) struct SuperVersion {
    pub(crate) mutable: Arc<Memtable>,
    /// Sealed memtables that no installed SST holds yet, newest first.
    pub(crate) sealed: Vec<Arc<Memtable>>,
    pub(crate) version: Arc<Version>,
    /// Declared last, so dropped last: says that files may have become free.
    pub(crate) gone: ReaderGone,
}

impl SuperVersion {
    /// The same with other parts.
    pub(crate) fn with(
        &self,
        mutable: Arc<Memtable>,
        sealed: Vec<Arc<Memtable>>,
        version: Arc<Version>,
    ) -> SuperVersion {
        SuperVersion { mutable, sealed, version, gone: self.gone.clone() }
    }

    /// All memtables, newest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.mutable).chain(&self.sealed)
    }
}
