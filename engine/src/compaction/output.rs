//! Cutting what a compaction keeps into files: [`OutputWriter`].
//!
//! A file is cut when it has reached the target size, when it would overlap too much of the level below (the
//! *grandparents*), and, once it is nearly full, where a grandparent ends, so that later compactions fit. A cut
//! lies between two user keys, never between versions of one: below L0 files do not overlap in user keys.
//!
//! Files come from an [`OutputFactory`]; [`SstOutputs`] is the one over SSTs. A writer that is dropped before
//! [`finish`](OutputWriter::finish) removes what it made.
//!
//! Must not know: where entries come from, which entries stay.

use std::path::PathBuf;
use std::sync::Arc;

use super::Compaction;
use crate::env::{Clock, FileSystem};
use crate::error::{Error, Result};
use crate::filename::sst_path;
use crate::key::user_key;
use crate::sst::{SstOptions, SstSummary, SstWriter};
use crate::version::{FileMeta, FileNumber};

/// A table being written.
pub(crate) trait OutputTable {
    /// Appends an entry. Internal keys ascend.
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Bytes written or buffered so far, roughly.
    fn file_size(&self) -> u64;
    /// Completes the file and makes its bytes durable; its name needs the directory's sync.
    fn finish(self) -> Result<SstSummary>;
}

impl OutputTable for SstWriter {
    #[inline]
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        SstWriter::add(self, key, value)
    }
    #[inline]
    fn file_size(&self) -> u64 {
        SstWriter::file_size(self)
    }
    fn finish(self) -> Result<SstSummary> {
        SstWriter::finish(self)
    }
}

/// Makes and removes the files of a compaction. Shared by the threads of one job.
pub(crate) trait OutputFactory: Sync {
    type Table: OutputTable;

    /// Begins a new table under a number of its own.
    fn create(&self) -> Result<(FileNumber, Self::Table)>;
    /// Removes a table that will not be installed. A failure is left to whoever removes obsolete files.
    fn remove(&self, number: FileNumber);
    /// Makes the names of all tables durable.
    fn sync_names(&self) -> Result<()>;
    /// Wall time, microseconds since 1970.
    fn now_micros(&self) -> u64;
}

/// Makes SSTs in the database's directory.
pub(crate) struct SstOutputs<'a> {
    pub(crate) fs: &'a dyn FileSystem,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) dir: PathBuf,
    pub(crate) options: SstOptions,
    /// Id and name of the column family.
    pub(crate) family: (u32, Arc<str>),
    /// Takes a file number and protects that file from being removed as obsolete until the job has ended.
    pub(crate) next_number: &'a (dyn Fn() -> FileNumber + Sync),
}

impl OutputFactory for SstOutputs<'_> {
    type Table = SstWriter;

    fn create(&self) -> Result<(FileNumber, SstWriter)> {
        let number = (self.next_number)();
        let path = sst_path(&self.dir, number);
        let table = SstWriter::create(self.fs, path, self.fs.unique_id(), self.options);
        // What a failed creation left behind, if anything.
        let table = table.inspect_err(|_| self.remove(number))?;
        Ok((number, table.of_family(self.family.0, &self.family.1)))
    }

    fn remove(&self, number: FileNumber) {
        let _ = self.fs.remove(&sst_path(&self.dir, number));
    }

    fn sync_names(&self) -> Result<()> {
        self.fs.sync_dir(&self.dir).map_err(|source| Error::io("sync", &self.dir, source))
    }

    fn now_micros(&self) -> u64 {
        self.clock.unix_micros()
    }
}

/// Finished outputs; removed again when dropped, unless [`keep`](Self::keep) is called.
pub(crate) struct Outputs<'a, F: OutputFactory> {
    factory: &'a F,
    files: Vec<FileMeta>,
}

impl<'a, F: OutputFactory> Outputs<'a, F> {
    pub(crate) fn none(factory: &'a F) -> Self {
        Self { factory, files: Vec::new() }
    }

    /// Takes over what `other` holds; its keys lie behind.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.files.append(&mut other.files);
    }

    /// The files, no longer removed.
    pub(crate) fn keep(mut self) -> Vec<FileMeta> {
        std::mem::take(&mut self.files)
    }
}

impl<F: OutputFactory> Drop for Outputs<'_, F> {
    fn drop(&mut self) {
        for file in &self.files {
            self.factory.remove(file.number);
        }
    }
}

/// Writes the entries that stay, in order, to one file after another.
pub(crate) struct OutputWriter<'a, F: OutputFactory> {
    factory: &'a F,
    open: Option<(FileNumber, F::Table)>,
    finished: Outputs<'a, F>,
    target_size: u64,
    /// Grandparents that end at or behind the last key.
    grandparents: &'a [Arc<FileMeta>],
    /// Bytes of grandparents that the open file has passed.
    overlap: u64,
    max_overlap: u64,
}

impl<'a, F: OutputFactory> OutputWriter<'a, F> {
    pub(crate) fn new(compaction: &'a Compaction, factory: &'a F) -> Self {
        Self {
            factory,
            open: None,
            finished: Outputs::none(factory),
            target_size: compaction.target_file_size(),
            grandparents: compaction.grandparents(),
            overlap: 0,
            max_overlap: compaction.max_grandparent_overlap(),
        }
    }

    /// To be called before the first entry of each user key is added: here a file may end.
    #[inline]
    pub(crate) fn begin_key(&mut self, user: &[u8]) -> Result<()> {
        let mut passed_end = false;
        while let [first, rest @ ..] = self.grandparents
            && first.largest_user_key() < user
        {
            self.grandparents = rest;
            self.overlap += first.size;
            passed_end = true;
        }
        let Some((_, table)) = &self.open else {
            self.overlap = 0;
            return Ok(());
        };
        let size = table.file_size();
        let nearly_full = size >= self.target_size / 4 * 3;
        if size >= self.target_size || passed_end && (nearly_full || self.overlap > self.max_overlap) {
            self.cut()?;
        }
        Ok(())
    }

    /// Adds an entry, behind all before it.
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if let Some((_, table)) = &mut self.open {
            return table.add(key, value);
        }
        let (number, table) = self.factory.create()?;
        let (_, table) = self.open.insert((number, table));
        table.add(key, value)
    }

    /// Completes the open file.
    #[cold]
    fn cut(&mut self) -> Result<()> {
        let Some((number, table)) = self.open.take() else {
            return Ok(());
        };
        self.overlap = 0;
        let made = table.finish().inspect_err(|_| self.factory.remove(number))?;
        debug_assert!(
            self.finished.files.last().is_none_or(|last| last.largest_user_key() < user_key(&made.smallest))
        );
        self.finished.files.push(FileMeta::from_summary(number, made, self.factory.now_micros()));
        Ok(())
    }

    /// Completes the last file and hands all of them over.
    pub(crate) fn finish(mut self) -> Result<Outputs<'a, F>> {
        self.cut()?;
        Ok(std::mem::replace(&mut self.finished, Outputs::none(self.factory)))
    }
}

impl<F: OutputFactory> Drop for OutputWriter<'_, F> {
    fn drop(&mut self) {
        if let Some((number, table)) = self.open.take() {
            drop(table);
            self.factory.remove(number);
        }
    }
}

#[cfg(test)]
mod tests;
