//! The file OPTIONS: the options in force, written at open and at each change, for people and for
//! [`Db::load_options`].
//!
//! It is replaced as a whole: written as `OPTIONS.tmp`, synced, renamed, and the directory synced; so there is one at any
//! time, the last one or the one before. Nothing here depends on it: recovery does not read it, and when it cannot be written
//! LOG says so and the database goes on. What stands in it is [`crate::options`]' affair.

use std::path::Path;

use super::{Db, Shared};
use crate::column_family::ColumnFamily;
use crate::env::{FileSystem, read_all};
use crate::error::{Error, Result};
use crate::filename::{OPTIONS, OPTIONS_TMP};
use crate::options::{DbOptions, OPTIONS_LEN_MAX, StoredOptions};

impl Db {
    /// The options of the database in `path` as of its last open or change, from its file OPTIONS. The database may be
    /// open or closed.
    ///
    /// `components` says how to get there: its file system reads the file, and its file system, clock, caches, manager,
    /// controller, rate limiter and listeners are those of the result.
    ///
    /// ```no_run
    /// # fn main() -> sluicedb::Result<()> {
    /// use sluicedb::{Db, DbOptions};
    ///
    /// let stored = Db::load_options("path/to/db", &DbOptions::default())?;
    /// let db = Db::open_cf("path/to/db", stored.db, stored.families)?; // as it was open last
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] with file and line for a text that is not understood, [`Error::Io`] when there is no
    /// such file or it cannot be read.
    pub fn load_options(path: impl AsRef<Path>, components: &DbOptions) -> Result<StoredOptions> {
        let path = path.as_ref().join(OPTIONS);
        let fs = &*components.file_system;
        let size = fs.size(&path).map_err(|error| Error::io("measure", &path, error))?;
        let refused = |why: String| Error::invalid("options file", format!("{}, {why}", path.display()));
        if size > OPTIONS_LEN_MAX {
            return Err(refused(format!(
                "{size} bytes: longer than {OPTIONS_LEN_MAX}, so it is none of ours"
            )));
        }
        let bytes = read_all(fs, &path).map_err(|error| Error::io("read", &path, error))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let good = error.utf8_error().valid_up_to();
            let line = error.as_bytes()[..good].iter().filter(|byte| **byte == b'\n').count() + 1;
            refused(format!("line {line}: not UTF-8 at offset {good}"))
        })?;
        let mut stored = StoredOptions::from_text(&text).map_err(|error| match error {
            Error::InvalidArgument { why, .. } => refused(why),
            other => other,
        })?;
        with_components(&mut stored.db, components);
        Ok(stored)
    }
}

/// Puts the parts of a program that have no text into `options`.
fn with_components(options: &mut DbOptions, from: &DbOptions) {
    options.block_cache.clone_from(&from.block_cache);
    options.write_buffer_manager.clone_from(&from.write_buffer_manager);
    options.write_controller.clone_from(&from.write_controller);
    options.rate_limiter.clone_from(&from.rate_limiter);
    options.listeners.clone_from(&from.listeners);
    options.file_system.clone_from(&from.file_system);
    options.clock.clone_from(&from.clock);
}

impl Shared {
    /// Writes OPTIONS if what it says is not what is in force. Calls run one after the other, so the last one writes what
    /// holds after it.
    pub(super) fn write_options_file(&self) {
        if self.read_only {
            return;
        }
        let _one_at_a_time = self.options_file.lock();
        let families = self.families.all();
        let options_of = |family: &ColumnFamily| (family.name().to_owned(), (*family.options()).clone());
        let stored =
            StoredOptions { db: self.db_options(), families: families.iter().map(options_of).collect() };
        if let Err(error) = replace(&*self.fs, &self.dir, stored.to_text().as_bytes()) {
            self.info_log.error(&format!("OPTIONS is not up to date, and nothing depends on it: {error}"));
        }
    }
}

/// Puts `bytes` in the place of OPTIONS, unless it holds them already.
fn replace(fs: &dyn FileSystem, dir: &Path, bytes: &[u8]) -> Result<()> {
    let (from, to) = (dir.join(OPTIONS_TMP), dir.join(OPTIONS));
    if fs.size(&to).is_ok_and(|size| size == bytes.len() as u64)
        && read_all(fs, &to).is_ok_and(|found| found == bytes)
    {
        return Ok(());
    }
    let file = fs.create(&from).map_err(|error| Error::io("create", &from, error))?;
    file.write_at(bytes, 0).map_err(|error| Error::io("write", &from, error))?;
    file.sync().map_err(|error| Error::io("sync", &from, error))?;
    fs.rename(&from, &to).map_err(|error| Error::io("rename", &from, error))?;
    fs.sync_dir(dir).map_err(|error| Error::io("sync", dir, error))
}
