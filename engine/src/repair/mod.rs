//! Making a database that opens of what is left of one that does not.
//!
//! 1. Read CURRENT and the manifest, or the newest manifest there is: what do its sound edits say?
//! 2. Look at every table: whole ones stay as they are, of damaged ones the whole blocks are written anew ([`tables`]).
//! 3. Read every batch of the log that is whole, also behind damage, and write what the tables lack into new ones ([`log`]).
//! 4. Arrange: a sound manifest's levels are kept; what has no level goes to L0 if that is right, else all tables of the
//!    family are merged ([`mod@arrange`]).
//! 5. Write a manifest that says so, and CURRENT. Until then nothing that was there has been touched.
//! 6. Move what was replaced to `lost/`. Nothing is deleted.
//!
//! A table or a part of the log that is lost may have held deletes: keys may come back. So may they without a manifest, from
//! tables that a compaction had just replaced and not yet removed. That is in the nature of it, and each loss is reported.

mod arrange;
mod log;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::arrange::arrange;
use self::log::read_batches;
use self::tables::{Found, look_at_tables};
use crate::batch::DEFAULT_FAMILY;
use crate::env::{Clock, FileSystem, TrackedFileSystem};
use crate::error::{Error, Result};
use crate::filename::{FileKind, LOCK, manifest_name, parse};
use crate::inspect::add_up;
use crate::key::SequenceNumber;
use crate::manifest::{Current, FamilyEdit, ManifestLog, SurveyedManifest, VersionEdit, survey};
use crate::options::DbOptions;
use crate::verify::newest_manifest;
use crate::version::set::{FileNumbers, ManifestState};
use crate::version::{FileMeta, FileNumber, MAX_LEVELS};

/// Where files go that the repaired database does not need.
const LOST: &str = "lost";

/// What [`Db::repair`](crate::Db::repair) did.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// Tables that stayed as they were.
    pub tables_kept: u64,
    /// Tables that were written: of the log, of damaged tables, by merging.
    pub tables_rewritten: u64,
    /// Batches of the log that were read.
    pub log_batches: u64,
    /// Names of the column families.
    pub families: Vec<String>,
    /// What was lost or in doubt, a line each, with the file.
    pub dropped: Vec<String>,
    /// Where files that are not needed any more are now.
    pub moved: Vec<PathBuf>,
}

/// A repair under way.
struct Repair<'a> {
    fs: Arc<dyn FileSystem>,
    dir: &'a Path,
    clock: &'a dyn Clock,
    options: &'a DbOptions,
    numbers: FileNumbers,
    /// What the sound edits say.
    state: ManifestState,
    /// All edits were sound, so what they do not name is not of the database.
    manifest_is_sound: bool,
    /// Names of families by id: those of the manifest, and those that tables and log add to it.
    names: BTreeMap<u32, String>,
    /// Names of families by id that stand in edits behind damage.
    hints: BTreeMap<u32, String>,
    report: RepairReport,
}

/// Repairs the database in `dir`.
pub(crate) fn repair(dir: &Path, options: &DbOptions) -> Result<RepairReport> {
    let fs: Arc<dyn FileSystem> = Arc::new(TrackedFileSystem::new(Arc::clone(&options.file_system)));
    let names = match fs.list(dir) {
        Ok(names) => names,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(Error::io("list", dir, error)),
    };
    let is_ours = |name: &String| {
        matches!(
            parse(name),
            Some(FileKind::Manifest(_) | FileKind::Sst(_) | FileKind::Wal(_) | FileKind::Current)
        )
    };
    if !names.iter().any(is_ours) {
        let why = "it holds no table, no log and no manifest; there is nothing to repair".to_owned();
        return Err(Error::NotADatabase { path: dir.to_owned(), why });
    }
    let lock_path = dir.join(LOCK);
    let lock = fs.lock(&lock_path).map_err(|error| Error::io("lock", &lock_path, error))?;
    let _lock = lock.ok_or(Error::Locked { path: lock_path })?;
    let (mut repair, surveyed) = Repair::begin(fs, dir, options, &names)?;
    let found = look_at_tables(&mut repair, surveyed.as_ref(), &names)?;
    let from_log = read_batches(&mut repair, &found)?;
    repair.finish(&names, found, from_log)
}

impl<'a> Repair<'a> {
    /// Step 1.
    fn begin(
        fs: Arc<dyn FileSystem>,
        dir: &'a Path,
        options: &'a DbOptions,
        names: &[String],
    ) -> Result<(Self, Option<SurveyedManifest>)> {
        let mut report = RepairReport::default();
        let mut damage = Vec::new();
        let live = match Current::read(&*fs, dir) {
            Ok(current) => Some(current.manifest),
            Err(error) => {
                damage.push(error);
                newest_manifest(&*fs, dir)?
            }
        };
        let mut surveyed = None;
        if let Some(number) = live {
            match survey(&*fs, &dir.join(manifest_name(number)), number) {
                Ok(found) => surveyed = Some(found),
                Err(error) => damage.push(error),
            }
        }
        if let Some(manifest) = &surveyed {
            // A torn last edit was never acknowledged: it makes nothing unsound.
            let inside = manifest.holes.iter().filter(|hole| hole.inside);
            damage.extend(inside.map(|hole| Error::corrupt(&manifest.path, hole.offset, hole.found.clone())));
        }
        let synced = Current::read(&*fs, dir).map_or(0, |current| current.synced_bytes);
        if let Some(manifest) = &surveyed
            && manifest.sound().last().map_or(0, |record| record.offset + record.bytes) < synced
            && damage.is_empty()
        {
            let end = manifest.holes.first().map_or(manifest.bytes, |hole| hole.offset);
            let found =
                crate::error::Corruption::Truncated { what: "manifest", expected: synced, found: end };
            damage.push(Error::corrupt(&manifest.path, end, found));
        }
        let mut state =
            surveyed.as_ref().map_or_else(ManifestState::default, |manifest| add_up(manifest, &mut damage));
        let manifest_is_sound = damage.is_empty() && surveyed.is_some();
        report.dropped.extend(damage.iter().map(Error::to_string));
        let numbers = FileNumbers::starting_at(state.next_file);
        for name in names {
            if let Some(FileKind::Manifest(number) | FileKind::Wal(number) | FileKind::Sst(number)) =
                parse(name)
            {
                numbers.pass(number);
            }
        }
        state.next_file = numbers.next();
        let known = state.families.iter().map(|(id, family)| (*id, family.name.clone())).collect();
        let edits = surveyed.iter().flat_map(|manifest| &manifest.records).map(|record| &record.edit);
        let hints = edits
            .flat_map(|edit| &edit.families)
            .filter_map(|change| Some((change.id, change.created.clone()?)))
            .collect();
        let clock = &*options.clock;
        let names = known;
        let repair =
            Self { fs, dir, clock, options, numbers, state, manifest_is_sound, names, hints, report };
        Ok((repair, surveyed))
    }
}

impl Repair<'_> {
    /// Steps 4 to 6.
    fn finish(
        mut self,
        names: &[String],
        mut found: Found,
        from_log: Vec<(u32, Arc<FileMeta>)>,
    ) -> Result<RepairReport> {
        self.names.entry(DEFAULT_FAMILY).or_insert_with(|| "default".to_owned());
        for (family, file) in from_log {
            found.loose.entry(family).or_default().push(file);
        }
        let mut edits = Vec::new();
        let mut last = self.state.last_sequence;
        for (id, name) in self.names.clone() {
            let placed = found.placed.remove(&id).unwrap_or_default();
            let loose = found.loose.remove(&id).unwrap_or_default();
            let added = arrange(&mut self, id, &name, placed, loose)?;
            last = added.iter().map(|(_, file)| file.largest_seq).max().unwrap_or_default().max(last);
            let known = self.state.families.get(&id).map(|family| family.flushed_through);
            last = last.max(known.unwrap_or_default());
            edits.push(FamilyEdit { created: Some(name), added, ..FamilyEdit::new(id) });
        }
        let kept = self.write_manifest(edits, last)?;
        self.move_replaced(names, &kept)?;
        self.report.families = self.names.into_values().collect();
        Ok(self.report)
    }

    /// Step 5: the numbers of the tables that the new manifest names, and its own.
    fn write_manifest(
        &mut self,
        edits: Vec<FamilyEdit>,
        last: SequenceNumber,
    ) -> Result<BTreeSet<FileNumber>> {
        self.fs.sync_dir(self.dir).map_err(|error| Error::io("sync", self.dir, error))?;
        let mut state = ManifestState { last_sequence: last, ..ManifestState::default() };
        state.wal.log_id = self.fs.unique_id();
        for mut edit in edits {
            edit.flushed_through = Some(last); // the old log is in tables, as far as it could be read
            let whole = VersionEdit { families: vec![edit], ..VersionEdit::default() };
            state.apply(&whole, MAX_LEVELS).map_err(|why| why.in_manifest(self.dir))?;
        }
        state.next_family = state.next_family.max(self.state.next_family);
        let number = self.numbers.take();
        state.next_file = self.numbers.next();
        drop(ManifestLog::create(Arc::clone(&self.fs), self.dir, number, &state.to_edits())?);
        let files = state.families.values().flat_map(|family| family.version.all_files());
        let mut kept: BTreeSet<FileNumber> = files.map(|(_, file)| file.number).collect();
        kept.insert(number);
        Ok(kept)
    }

    /// Step 6.
    fn move_replaced(&mut self, names: &[String], kept: &BTreeSet<FileNumber>) -> Result<()> {
        let written = self.fs.list(self.dir).map_err(|error| Error::io("list", self.dir, error))?;
        let is_replaced = |name: &&String| match parse(name) {
            Some(FileKind::Sst(number) | FileKind::Manifest(number)) => !kept.contains(&number),
            Some(FileKind::Wal(_)) => true,
            _ => false,
        };
        let replaced: Vec<&String> = written.iter().filter(is_replaced).collect();
        if replaced.is_empty() {
            return Ok(());
        }
        let lost = self.dir.join(LOST);
        self.fs.create_dir_all(&lost).map_err(|error| Error::io("create", &lost, error))?;
        let taken = self.fs.list(&lost).map_err(|error| Error::io("list", &lost, error))?;
        for name in replaced {
            let from = self.dir.join(name);
            if !names.contains(name) {
                // Made by this repair on its way to something better.
                self.fs.remove(&from).map_err(|error| Error::io("remove", &from, error))?;
                continue;
            }
            let free = |candidate: &String| !taken.contains(candidate);
            let candidates = (1..).map(|n| format!("{name}.{n}"));
            let to =
                std::iter::once(name.clone()).chain(candidates).find(free).unwrap_or_else(|| name.clone());
            let to = lost.join(to);
            self.fs.rename(&from, &to).map_err(|error| Error::io("move", &from, error))?;
            self.report.moved.push(to);
        }
        for dir in [&lost, self.dir] {
            self.fs.sync_dir(dir).map_err(|error| Error::io("sync", dir, error))?;
        }
        Ok(())
    }

    /// Whether the manifest, if it is sound, has dropped this family, so that its data is nobody's.
    fn is_dropped(&self, family: u32) -> bool {
        self.manifest_is_sound && !self.state.families.contains_key(&family)
    }

    /// Makes sure that the family has a name.
    fn know_family(&mut self, id: u32, name: Option<&str>) {
        if self.names.contains_key(&id) {
            return;
        }
        let hint = self.hints.get(&id).cloned();
        let name = hint.as_deref().or(name);
        let given = name.map_or_else(|| format!("column_family_{id:06}"), str::to_owned);
        let given = if id == DEFAULT_FAMILY { "default".to_owned() } else { given };
        if name.is_none() && id != DEFAULT_FAMILY {
            self.report.dropped.push(format!("the name of column family #{id}; it is called '{given}' now"));
        }
        self.names.insert(id, given);
    }
}
