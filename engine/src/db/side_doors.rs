//! The ways to a database beside opening it and using it: read-only opens, checkpoints, verification, repair.
//!
//! Methods of [`Db`]; each hands over to the module that does the work. Decoders of single files are in [`crate::inspect`].

use std::path::Path;
use std::sync::Arc;

use super::{Db, Handle, open_read_only};
use crate::error::Result;
use crate::options::{ColumnFamilyOptions, DbOptions};
use crate::repair::{RepairReport, repair};
use crate::verify::{VerifyReport, verify};

impl Db {
    /// Opens the database in the directory `path` for reading only.
    ///
    /// Nothing is written: no LOG, no lock, no file created, changed or removed. The log is replayed into memory, so what is
    /// read is what an ordinary open would find at this moment; what is written later by others is not seen. It works
    /// while another process has the database open: up to [`DbOptions::max_open_files`] tables are opened at once and
    /// kept, so that they stay readable when the holder deletes them. The replayed log is charged to the write buffer
    /// manager as pinned: it slows nobody.
    ///
    /// Every call that would change something returns [`Error::OpenedReadOnly`](crate::Error::OpenedReadOnly). `create_if_missing` and `error_if_exists`
    /// are without meaning here.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), but for [`Error::Locked`](crate::Error::Locked). [`Error::Io`](crate::Error::Io) when a database that is open elsewhere changed
    /// during each of many attempts.
    pub fn open_read_only(path: impl AsRef<Path>, options: DbOptions) -> Result<Self> {
        Self::open_cf_read_only(path, options, std::iter::empty::<(String, ColumnFamilyOptions)>())
    }

    /// The same, with options for the named column families, which must be there.
    pub fn open_cf_read_only<N: Into<String>>(
        path: impl AsRef<Path>,
        options: DbOptions,
        families: impl IntoIterator<Item = (N, ColumnFamilyOptions)>,
    ) -> Result<Self> {
        let families = families.into_iter().map(|(name, options)| (name.into(), options)).collect();
        let shared = open_read_only::open(path.as_ref(), options, families)?;
        Ok(Self { handle: Arc::new(Handle { shared }) })
    }

    /// Checks every byte of the database in `path`: CURRENT, the manifest, every block, key, filter and count of every table,
    /// every batch of the log, and whether they fit together. It goes on after what it finds.
    ///
    /// Nothing is written and no lock taken; another process may have the database open. Of the options only the file
    /// system matters.
    ///
    /// # Errors
    ///
    /// [`Error::NotADatabase`](crate::Error::NotADatabase) where there is none, [`Error::Io`](crate::Error::Io) when the directory cannot be read. Everything else that is
    /// wrong is in [`VerifyReport::findings`].
    pub fn verify(path: impl AsRef<Path>, options: &DbOptions) -> Result<VerifyReport> {
        verify(path.as_ref(), options)
    }

    /// Makes a database that opens of what is left of the one in `path`: the manifest is written anew from its sound edits,
    /// the tables and the log. Whole tables stay as they are; of damaged ones the whole blocks are kept, of the log every
    /// whole batch. What is lost is in [`RepairReport::dropped`]. Nothing is deleted: files that are not needed any more
    /// are moved to `lost/` in the directory.
    ///
    /// A lost block or batch may have held deletes, so keys that were deleted may come back.
    ///
    /// Of the options the file system, and the form of new tables in `column_family`, matter.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`](crate::Error::Locked) while it is open, [`Error::NotADatabase`](crate::Error::NotADatabase) where there is nothing to repair, [`Error::Io`](crate::Error::Io) and
    /// [`Error::NoSpace`](crate::Error::NoSpace) when reading or writing fails; the database is as it was then, or repaired.
    pub fn repair(path: impl AsRef<Path>, options: &DbOptions) -> Result<RepairReport> {
        repair(path.as_ref(), options)
    }

    /// Makes a database of its own in the directory `path` that holds what this one holds now: every write that was
    /// acknowledged before the call, and a prefix of those made meanwhile, over all column families.
    ///
    /// Tables are hard-linked where the file system can do that, else copied; the end of the log is copied. Writers wait for
    /// an instant only. The new database is durable on return. A crash before that leaves a directory without CURRENT:
    /// no database, and [`destroy`](Self::destroy) removes it.
    ///
    /// ```
    /// # fn main() -> sluicedb::Result<()> {
    /// use sluicedb::{Db, DbOptions};
    ///
    /// # let dir = std::env::temp_dir().join(format!("sluicedb-checkpoint-{}", std::process::id()));
    /// # let copy = dir.with_extension("copy");
    /// let db = Db::open(&dir, DbOptions::default())?;
    /// db.put("apple", "red")?;
    /// db.checkpoint(&copy)?;
    /// db.put("apple", "green")?;
    /// let then = Db::open(&copy, DbOptions::default())?;
    /// assert_eq!(then.get("apple")?.as_deref(), Some(&b"red"[..]));
    /// # then.close()?;
    /// # db.close()?;
    /// # Db::destroy(&copy, &DbOptions::default())?;
    /// # Db::destroy(&dir, &DbOptions::default())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a directory that is not empty; what a flush, a link or a copy failed with. What was
    /// made is removed then.
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<()> {
        self.shared().checkpoint(path.as_ref())
    }
}
