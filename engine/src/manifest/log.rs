//! [`ManifestLog`]: appending edits and making them durable; going over to a new file.
//!
//! An edit is acknowledged when its record is synced. After a failed append or sync nothing is appended behind it:
//! the log refuses until [`ManifestGuard::roll_over`] has written full state into a new file and CURRENT names it.
//! The caller holds the guard over commit and install, so that edits are installed in the order of the file:
//!
//! ```text
//!   let mut manifest = log.lock();
//!   manifest.append_and_sync_all(&edits)?; // no other lock held
//!   state.lock().install(version);
//!   drop(manifest);
//! ```
//!
//! This file does not know what edits mean, and never learns full state but from its caller.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::current::Current;
use super::edit::VersionEdit;
use super::format::{encode_header, put_record};
use crate::env::{FileSystem, RefusingFile, WritableFile};
use crate::error::{Error, Result};
use crate::filename::{CURRENT_TMP, manifest_name};
use crate::sync::{Mutex, MutexGuard, Rank};
use crate::version::FileNumber;

/// The live manifest, open for appending.
#[derive(Debug)]
pub(crate) struct ManifestLog {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    tail: Mutex<Tail>,
}

#[derive(Debug)]
struct Tail {
    number: FileNumber,
    path: PathBuf,
    file: Box<dyn WritableFile>,
    /// Bytes that are there and synced.
    size: u64,
    /// Syncs of records. Statistics.
    syncs: u64,
    /// The failure after which nothing may be appended to this file.
    failure: Option<Error>,
}

/// The manifest's own lock: held over the sync of an edit and its installation.
pub(crate) struct ManifestGuard<'a> {
    fs: &'a dyn FileSystem,
    dir: &'a Path,
    tail: MutexGuard<'a, Tail>,
}

impl ManifestLog {
    /// Writes manifest `number` from full state and makes it the live one. For a new database, and for each open.
    /// The manifest that was live before, if any, may be removed afterwards.
    pub(crate) fn create(
        fs: Arc<dyn FileSystem>,
        dir: &Path,
        number: FileNumber,
        state: &[VersionEdit],
    ) -> Result<Self> {
        let tail = write_new(&*fs, dir, number, state)?;
        Current::swap_in(&*fs, dir)?;
        Ok(Self { fs, dir: dir.to_owned(), tail: Mutex::across_io(tail).ranked(Rank::Manifest) })
    }

    /// The manifest of a database that is open for reading only: every edit is refused with `refusal`.
    pub(crate) fn read_only(fs: Arc<dyn FileSystem>, dir: &Path, number: FileNumber, refusal: Error) -> Self {
        let (path, file) = (dir.join(manifest_name(number)), Box::new(RefusingFile));
        let tail = Tail { number, path, file, size: 0, syncs: 0, failure: Some(refusal) };
        Self { fs, dir: dir.to_owned(), tail: Mutex::across_io(tail) }
    }

    /// Takes the manifest's own lock. No lock of a lower rank may be held.
    pub(crate) fn lock(&self) -> ManifestGuard<'_> {
        ManifestGuard { fs: &*self.fs, dir: &self.dir, tail: self.tail.lock() }
    }
}

impl ManifestGuard<'_> {
    /// Number of the live manifest.
    pub(crate) fn number(&self) -> FileNumber {
        self.tail.number
    }

    /// Bytes of the live manifest. When that is large, [`roll_over`](Self::roll_over).
    pub(crate) fn size(&self) -> u64 {
        self.tail.size
    }

    /// The failure after which only [`roll_over`](Self::roll_over) helps.
    pub(crate) fn failure(&self) -> Option<&Error> {
        self.tail.failure.as_ref()
    }

    /// Appends one edit and syncs it.
    #[cfg(test)]
    pub(crate) fn append_and_sync(&mut self, edit: &VersionEdit) -> Result<()> {
        self.append_and_sync_all(std::slice::from_ref(edit))
    }

    /// Appends edits as one record and syncs it: a crash keeps all of them or none. (Records of their own could reach
    /// the device out of order, and the later one would prove that the earlier was acknowledged.)
    ///
    /// # Errors
    ///
    /// The edits may or may not be found by the next open, and everything later is refused with the same error.
    pub(crate) fn append_and_sync_all(&mut self, edits: &[VersionEdit]) -> Result<()> {
        let tail = &mut *self.tail;
        if let Some(failure) = &tail.failure {
            return Err(failure.clone());
        }
        let mut record = Vec::new();
        put_record(&mut record, tail.number, tail.size, edits);
        tail.syncs += 1;
        let written = write_and_sync(&*tail.file, &tail.path, &record, tail.size);
        match written {
            Ok(()) => {
                tail.size += record.len() as u64;
                Ok(())
            }
            Err(error) => {
                tail.failure = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Writes CURRENT anew with the present length of the manifest, so that every acknowledged edit, the last one too, is
    /// known to have been synced: damage in it is then refused and not taken for a torn tail. For a clean close.
    pub(crate) fn vouch(&mut self) -> Result<()> {
        if let Some(failure) = &self.tail.failure {
            return Err(failure.clone());
        }
        let current = Current { manifest: self.tail.number, synced_bytes: self.tail.size };
        current.write_temporary(self.fs, self.dir)?;
        Current::swap_in(self.fs, self.dir)
    }

    /// Writes manifest `number` from full state and makes it the live one; clears a failure. Returns the number of
    /// the one before, which may be removed.
    ///
    /// # Errors
    ///
    /// Failing before CURRENT is touched leaves everything as it was. Failing later makes the log refuse edits
    /// (either manifest may be found by the next open, and both hold the same state now) until a later roll-over
    /// succeeds; then neither may be removed.
    pub(crate) fn roll_over(&mut self, number: FileNumber, state: &[VersionEdit]) -> Result<FileNumber> {
        let mut next = write_new(self.fs, self.dir, number, state)?;
        if let Err(error) = Current::swap_in(self.fs, self.dir) {
            self.tail.failure.get_or_insert(error.clone());
            return Err(error);
        }
        next.syncs += self.tail.syncs;
        let previous = self.tail.number;
        *self.tail = next;
        Ok(previous)
    }
}

/// Writes and syncs manifest `number`, its name and `CURRENT.tmp`; on failure removes them.
fn write_new(fs: &dyn FileSystem, dir: &Path, number: FileNumber, state: &[VersionEdit]) -> Result<Tail> {
    let path = dir.join(manifest_name(number));
    let written = (|| {
        let mut bytes = encode_header(number).to_vec();
        for edit in state {
            let offset = bytes.len() as u64;
            put_record(&mut bytes, number, offset, std::slice::from_ref(edit));
        }
        let size = bytes.len() as u64;
        let file = fs.create(&path).map_err(|error| Error::io("create", &path, error))?;
        write_and_sync(&*file, &path, &bytes, 0)?;
        fs.sync_dir(dir).map_err(|error| Error::io("sync", dir, error))?;
        Current { manifest: number, synced_bytes: size }.write_temporary(fs, dir)?;
        Ok(Tail { number, path: path.clone(), file, size, syncs: 1, failure: None })
    })();
    if written.is_err() {
        // Nothing names them; what cannot be removed now goes at the next open.
        let _ = fs.remove(&path);
        let _ = fs.remove(&dir.join(CURRENT_TMP));
    }
    written
}

fn write_and_sync(file: &dyn WritableFile, path: &Path, bytes: &[u8], offset: u64) -> Result<()> {
    file.write_at(bytes, offset).map_err(|error| Error::io("write", path, error))?;
    file.sync().map_err(|error| Error::io("sync", path, error))
}
