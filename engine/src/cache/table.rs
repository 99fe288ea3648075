//! [`TableCache`]: open tables of one database, bounded by their number.
//!
//! A table is opened when it is first read; of several threads that miss it, one opens it. Whoever holds a
//! reader keeps it open, evicted or not. It knows where files are, not which ones are live.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use quick_cache::sync::{Cache, DefaultLifecycle, GuardResult};
use quick_cache::{OptionsBuilder, UnitWeighter};

use super::BlockCache;
use super::block::BlockHash;
use crate::env::FileSystem;
use crate::error::{Corruption, Error, Result};
use crate::filename::sst_path;
use crate::options::ReadMode;
use crate::sst::SstReader;
use crate::sync::forbid_held_locks;
use crate::version::{FileMeta, FileNumber};

/// Open tables of one database.
pub(crate) struct TableCache {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    mode: ReadMode,
    blocks: Option<Arc<BlockCache>>,
    tables: Cache<FileNumber, Arc<SstReader>, UnitWeighter, BlockHash>,
    /// Tables that stay open whatever happens to their files; see [`pin`](Self::pin).
    pinned: HashMap<FileNumber, Arc<SstReader>>,
}

impl TableCache {
    /// A cache of at most `capacity` open tables of the database in `dir`, rounded up to what its shards hold
    /// (a few more). Readers that are in use count only while they are in the cache.
    pub(crate) fn new(
        fs: Arc<dyn FileSystem>,
        dir: PathBuf,
        capacity: usize,
        mode: ReadMode,
        blocks: Option<Arc<BlockCache>>,
    ) -> Self {
        let capacity = capacity.max(1);
        let options = OptionsBuilder::new()
            .weight_capacity(capacity as u64)
            .estimated_items_capacity(capacity)
            .build()
            .expect("both capacities are set");
        let tables = Cache::with_options(options, UnitWeighter, BlockHash, DefaultLifecycle::default());
        Self { fs, dir, mode, blocks, tables, pinned: HashMap::new() }
    }

    /// Opens these tables and keeps them open: who does not hold the database's lock reads on from files that its holder
    /// deletes.
    pub(crate) fn pin<'a>(&mut self, files: impl IntoIterator<Item = &'a FileMeta>) -> Result<()> {
        for file in files {
            let table = self.open(file)?;
            self.pinned.insert(file.number, table);
        }
        Ok(())
    }

    /// The open table of `file`; opens it if it is not.
    ///
    /// # Errors
    ///
    /// [`Error::Corruption`] when the file is missing, is not the one that the manifest names, or is damaged.
    #[inline]
    pub(crate) fn get(&self, file: &FileMeta) -> Result<Arc<SstReader>> {
        match self.tables.get(&file.number) {
            Some(table) => Ok(table),
            None => self.open_once(file),
        }
    }

    #[inline(never)]
    fn open_once(&self, file: &FileMeta) -> Result<Arc<SstReader>> {
        forbid_held_locks("open a table");
        loop {
            match self.tables.get_value_or_guard(&file.number, None) {
                GuardResult::Value(table) => return Ok(table),
                GuardResult::Guard(guard) => {
                    let table = match self.pinned.get(&file.number) {
                        Some(pinned) => Arc::clone(pinned),
                        None => self.open(file)?,
                    };
                    // Refused only when the file was evicted meanwhile; this reader is good all the same.
                    let _ = guard.insert(table.clone());
                    return Ok(table);
                }
                GuardResult::Timeout => {} // only with a time limit, and there is none
            }
        }
    }

    fn open(&self, file: &FileMeta) -> Result<Arc<SstReader>> {
        let path = sst_path(&self.dir, file.number);
        let (fs, blocks) = (self.fs.as_ref(), self.blocks.clone());
        match SstReader::open(fs, path, file.number, file.unique_id, file.size, self.mode, blocks) {
            Err(Error::Io { path, source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Err(Error::corrupt(&path, 0, Corruption::Missing { named_by: "the manifest".to_owned() }))
            }
            opened => opened,
        }
    }

    /// Whether the table of this number is open, so that getting it reads nothing.
    pub(crate) fn is_open(&self, number: FileNumber) -> bool {
        self.tables.contains_key(&number) || self.pinned.contains_key(&number)
    }

    /// Forgets the table of this number: its file is about to be deleted.
    pub(crate) fn evict(&self, number: FileNumber) {
        self.tables.remove(&number);
    }

    /// Open tables that it keeps.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.tables.len()
    }

    /// Heap memory that its tables keep (index and filter), in bytes.
    pub(crate) fn heap_bytes(&self) -> u64 {
        self.tables.iter().map(|(_, table)| table.heap_bytes() as u64).sum()
    }
}

impl std::fmt::Debug for TableCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableCache").field("dir", &self.dir).field("tables", &self.tables.len()).finish()
    }
}

#[cfg(test)]
mod tests;
