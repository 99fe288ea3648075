//! Checkpoints: a second database in another directory that holds what this one holds now.
//!
//! 1. Flush, so that the log is short.
//! 2. For a moment, keep flushes and writers away: note what the manifest says and how far the log was handed over.
//!    Writers go on at once; flushes, which release the log's segments, when 3 is done.
//! 3. Copy the log's bytes up to there.
//! 4. Link the tables. Compactions may make them obsolete meanwhile: the noted versions keep their files.
//! 5. Write a manifest that says what was noted, then CURRENT, with everything else durable: a directory in which this
//!    was cut short has no CURRENT, so it is no database.

use std::path::Path;
use std::sync::Arc;

use super::Shared;
use crate::column_family::ColumnFamily;
use crate::env::{FileSystem, copy_file, link_or_copy};
use crate::error::{Error, Result};
use crate::filename::{CURRENT, parse, sst_path, wal_path};
use crate::manifest::ManifestLog;
use crate::version::FileNumber;
use crate::version::set::ManifestState;
use crate::wal::SegmentPart;

impl Shared {
    /// Makes a database in `target`, which holds nothing yet, of what this one holds.
    pub(super) fn checkpoint(&self, target: &Path) -> Result<()> {
        self.check_writable()?;
        // Not through the tracked file system: a sync that fails over there says nothing about this database.
        let fs = Arc::clone(&self.options.file_system);
        prepare_directory(&*fs, target)?;
        // 1. The log.
        self.flush_memtables(&self.families.all())?;
        let made = self.checkpoint_into(&fs, target);
        if made.is_err() {
            remove_unfinished(&*fs, target);
        }
        made
    }

    fn checkpoint_into(&self, fs: &Arc<dyn FileSystem>, target: &Path) -> Result<()> {
        // 2. and 3. What there is, and the log.
        let families = self.hold_flushes()?;
        let noted = self.note_state(fs, target);
        for family in &families {
            family.data.end_flush();
        }
        for bell in [&self.flush_bell, &self.done_bell] {
            bell.ring();
        }
        let mut state = noted?;
        // 4. The tables.
        let linked = self.link_tables(&**fs, target, &state);
        // 5. The manifest.
        let written = linked.and_then(|()| {
            let number = self.versions.new_file_number();
            state.next_file = state.next_file.max(FileNumber(number.0 + 1));
            ManifestLog::create(Arc::clone(fs), target, number, &state.to_edits()).map(drop)
        });
        drop(state);
        self.purge_bell.ring(); // files that were kept by the noted versions alone may go
        written
    }

    /// Takes the right to flush of every family, and comes back with the lead free and no family made meanwhile.
    fn hold_flushes(&self) -> Result<Vec<ColumnFamily>> {
        loop {
            let families = self.families.all();
            for (taken, family) in families.iter().enumerate() {
                if let Err(error) = self.take_flush_right(family) {
                    families[..taken].iter().for_each(|family| family.data.end_flush());
                    return Err(error);
                }
            }
            let ids = |families: &[ColumnFamily]| families.iter().map(ColumnFamily::id).collect::<Vec<_>>();
            if ids(&self.families.all()) == ids(&families) {
                return Ok(families);
            }
            families.iter().for_each(|family| family.data.end_flush());
        }
    }

    /// What the manifest says at a moment between two groups; the log up to that moment is in `target` on return.
    fn note_state(&self, fs: &Arc<dyn FileSystem>, target: &Path) -> Result<ManifestState> {
        let leadership = self.commit.lead();
        let handed_over = self.wal.flush(false).inspect_err(|error| self.log_failed(error));
        let state = self.versions.state();
        let parts = self.wal.written_parts(state.wal.first_needed);
        leadership.end();
        handed_over?;
        for SegmentPart { number, bytes } in parts {
            let (from, to) = (wal_path(&self.dir, number), wal_path(target, number));
            copy_file(&**fs, &from, &to, bytes).map_err(|error| Error::io("copy", &from, error))?;
        }
        Ok(state)
    }

    fn link_tables(&self, fs: &dyn FileSystem, target: &Path, state: &ManifestState) -> Result<()> {
        let files = state.families.values().flat_map(|family| family.version.all_files());
        for (_, file) in files {
            let (from, to) = (sst_path(&self.dir, file.number), sst_path(target, file.number));
            link_or_copy(fs, &from, &to).map_err(|error| Error::io("link", &from, error))?;
        }
        fs.sync_dir(target).map_err(|error| Error::io("sync", target, error))
    }
}

/// Makes `target`, or refuses it if something is in it.
fn prepare_directory(fs: &dyn FileSystem, target: &Path) -> Result<()> {
    let failed = |doing, path: &Path| {
        let path = path.to_owned();
        move |error| Error::io(doing, &path, error)
    };
    if fs.exists(target).map_err(failed("look for", target))? {
        let names = fs.list(target).map_err(failed("list", target))?;
        if let Some(name) = names.first() {
            let why = format!("{} is not empty, it holds '{name}'; name a new directory", target.display());
            return Err(Error::invalid("checkpoint directory", why));
        }
    }
    fs.create_dir_all(target).map_err(failed("create", target))?;
    match target.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => fs.sync_dir(parent).map_err(failed("sync", parent)),
        None => Ok(()),
    }
}

/// Removes what a checkpoint that failed has made, CURRENT first; what cannot be removed has no CURRENT or is whole.
fn remove_unfinished(fs: &dyn FileSystem, target: &Path) {
    let _ = fs.remove(&target.join(CURRENT));
    let _ = fs.sync_dir(target);
    for name in fs.list(target).unwrap_or_default().iter().filter(|name| parse(name).is_some()) {
        let _ = fs.remove(&target.join(name));
    }
    let _ = fs.remove_dir(target);
}
