//! [`VersionSet`]: the current version of every column family, and the one way to change them.
//!
//! A change is a [`VersionEdit`]. [`VersionSet::commit`] holds the manifest's own lock from the first look at the
//! current versions to the installed new ones: it builds and checks the new versions, makes the edit durable, then
//! lets the caller install. So edits reach disk, and readers, in one order, and a version that breaks an invariant
//! reaches neither. The manifest is written anew from full state when it has grown too long.
//!
//! What edits are made for, and who may see which version, is not known here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::builder::VersionBuilder;
use super::{FileNumber, Version};
use crate::check::InvalidVersion;
use crate::env::FileSystem;
use crate::error::{Error, Result};
use crate::filename::manifest_name;
use crate::key::SequenceNumber;
use crate::manifest::{FamilyEdit, ManifestLog, VersionEdit};
use crate::sync::Mutex;
use crate::wal::{WalEdit, WalFacts};

/// A manifest longer than this, and than twice its length when it was last written anew, is written anew.
const ROLL_OVER_BYTES: u64 = 4 << 20;

/// Hands out the numbers of files: one counter for all kinds, never reused.
#[derive(Debug)]
pub(crate) struct FileNumbers(AtomicU64);

impl FileNumbers {
    pub(crate) fn starting_at(next: FileNumber) -> Self {
        Self(AtomicU64::new(next.0.max(1)))
    }

    /// A number that no file has.
    pub(crate) fn take(&self) -> FileNumber {
        FileNumber(self.0.fetch_add(1, Ordering::Relaxed)) // only has to be unique
    }

    /// The number that comes next.
    pub(crate) fn next(&self) -> FileNumber {
        FileNumber(self.0.load(Ordering::Relaxed))
    }

    /// From now on only numbers above `used` are handed out.
    pub(crate) fn pass(&self, used: FileNumber) {
        self.0.fetch_max(used.0 + 1, Ordering::Relaxed);
    }
}

/// What the manifest says of one family: enough to write it anew.
#[derive(Debug, Clone)]
pub(crate) struct FamilyState {
    pub(crate) name: String,
    pub(crate) version: Arc<Version>,
    pub(crate) flushed_through: SequenceNumber,
}

/// Everything that the manifest says.
#[derive(Debug, Clone, Default)]
pub(crate) struct ManifestState {
    pub(crate) families: BTreeMap<u32, FamilyState>,
    pub(crate) last_sequence: SequenceNumber,
    pub(crate) next_file: FileNumber,
    pub(crate) next_family: u32,
    pub(crate) wal: WalFacts,
}

/// The versions that an edit made.
#[derive(Debug, Default)]
pub(crate) struct NewVersions(Vec<(u32, Arc<Version>)>);

impl NewVersions {
    /// The new version of a family, if the edit changed its files.
    pub(crate) fn of(&self, family: u32) -> Option<Arc<Version>> {
        self.0.iter().find(|(id, _)| *id == family).map(|(_, version)| Arc::clone(version))
    }
}

impl ManifestState {
    /// Takes over what `edit` says. New families begin with `num_levels` levels. On an error nothing has changed.
    pub(crate) fn apply(&mut self, edit: &VersionEdit, num_levels: usize) -> Result<NewVersions, EditError> {
        let mut changed = BTreeMap::new();
        for family in &edit.families {
            let next = self.apply_to_family(family, num_levels)?;
            changed.insert(family.id, next);
        }
        let mut versions = NewVersions::default();
        for (id, next) in changed {
            match next {
                Some(next) => {
                    versions.0.push((id, Arc::clone(&next.version)));
                    self.next_family = self.next_family.max(id + 1);
                    self.families.insert(id, next);
                }
                None => {
                    self.families.remove(&id);
                }
            }
        }
        if let Some(seq) = edit.last_sequence {
            self.last_sequence = self.last_sequence.max(seq);
        }
        if let Some(number) = edit.next_file_number {
            self.next_file = self.next_file.max(number);
        }
        if let Some(id) = edit.next_family_id {
            self.next_family = self.next_family.max(id);
        }
        self.wal.apply(&edit.wal);
        Ok(versions)
    }

    /// The family as it is after the edit; `None` if it is dropped by it.
    fn apply_to_family(
        &self,
        edit: &FamilyEdit,
        num_levels: usize,
    ) -> Result<Option<FamilyState>, EditError> {
        let mut next = match (self.families.get(&edit.id), &edit.created) {
            (Some(_), _) if edit.dropped => return Ok(None),
            (Some(_), Some(_)) => {
                let why = format!("column family #{} is created again", edit.id);
                return Err(EditError::Inconsistent(InvalidVersion::new(why)));
            }
            (Some(present), None) => present.clone(),
            (None, Some(name)) => FamilyState {
                name: name.clone(),
                version: Arc::new(Version::empty(num_levels)),
                flushed_through: SequenceNumber::ZERO,
            },
            (None, None) => return Err(EditError::NoSuchFamily(edit.id)),
        };
        if !edit.added.is_empty() || !edit.removed.is_empty() {
            let mut builder = VersionBuilder::new(&next.version);
            let built = builder.apply(edit).and_then(|()| builder.finish());
            next.version = Arc::new(built.map_err(EditError::Inconsistent)?);
        }
        if let Some(seq) = edit.flushed_through {
            next.flushed_through = next.flushed_through.max(seq);
        }
        Ok(Some(next))
    }

    /// The edits that make this state of nothing.
    pub(crate) fn to_edits(&self) -> Vec<VersionEdit> {
        let whole = VersionEdit {
            next_file_number: Some(self.next_file),
            last_sequence: Some(self.last_sequence),
            next_family_id: Some(self.next_family),
            wal: self.wal.to_edit(),
            ..VersionEdit::default()
        };
        let family = |(id, family): (&u32, &FamilyState)| FamilyEdit {
            created: Some(family.name.clone()),
            added: family.version.all_files().map(|(level, file)| (level as u32, Arc::clone(file))).collect(),
            flushed_through: Some(family.flushed_through),
            ..FamilyEdit::new(*id)
        };
        let families = self.families.iter().map(family);
        std::iter::once(whole)
            .chain(families.map(|family| VersionEdit { families: vec![family], ..VersionEdit::default() }))
            .collect()
    }
}

/// Why an edit cannot be applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EditError {
    /// It changes a family that is not there (any more).
    #[error("it changes column family #{0}, which is not there")]
    NoSuchFamily(u32),
    /// The version that it would make breaks an invariant.
    #[error("{0}")]
    Inconsistent(InvalidVersion),
}

impl EditError {
    /// As damage of the manifest that holds the edit.
    pub(crate) fn in_manifest(self, path: &Path) -> Error {
        match self {
            Self::NoSuchFamily(id) => {
                InvalidVersion::new(format!("column family #{id} is changed and is not there"))
                    .in_manifest(path)
            }
            Self::Inconsistent(why) => why.in_manifest(path),
        }
    }
}

/// The current versions, and the manifest that remembers them.
#[derive(Debug)]
pub(crate) struct VersionSet {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    manifest: ManifestLog,
    /// Length at which the manifest is written anew. Changed with the manifest's lock held.
    roll_over_at: AtomicU64,
    /// What the manifest says. Written with the manifest's lock held; a leaf lock of its own lets others look.
    state: Mutex<ManifestState>,
    numbers: Arc<FileNumbers>,
    next_family: AtomicU32,
}

impl VersionSet {
    /// Writes a new manifest that says `state`, makes it the live one, and goes on from there.
    pub(crate) fn create(
        fs: &Arc<dyn FileSystem>,
        dir: &Path,
        mut state: ManifestState,
        numbers: Arc<FileNumbers>,
    ) -> Result<Self> {
        let number = numbers.take();
        state.next_file = numbers.next();
        let manifest = ManifestLog::create(Arc::clone(fs), dir, number, &state.to_edits())?;
        let roll_over_at = AtomicU64::new(ROLL_OVER_BYTES.max(2 * manifest.lock().size()));
        let next_family = AtomicU32::new(state.next_family);
        let (fs, dir) = (Arc::clone(fs), dir.to_owned());
        Ok(Self { fs, dir, manifest, roll_over_at, state: Mutex::new(state), numbers, next_family })
    }

    /// The versions of a database that is open for reading only: no edit is taken.
    pub(crate) fn read_only(
        fs: &Arc<dyn FileSystem>,
        dir: &Path,
        state: ManifestState,
        manifest: FileNumber,
        refusal: Error,
    ) -> Self {
        let manifest = ManifestLog::read_only(Arc::clone(fs), dir, manifest, refusal);
        let numbers = Arc::new(FileNumbers::starting_at(state.next_file));
        let next_family = AtomicU32::new(state.next_family);
        let (fs, dir) = (Arc::clone(fs), dir.to_owned());
        let roll_over_at = AtomicU64::new(u64::MAX);
        Self { fs, dir, manifest, roll_over_at, state: Mutex::new(state), numbers, next_family }
    }

    /// After a failed edit: goes on in a new manifest, written from what was acknowledged.
    pub(crate) fn heal(&self) -> Result<()> {
        let mut tail = self.manifest.lock();
        if tail.failure().is_none() {
            return Ok(());
        }
        let number = self.numbers.take();
        let mut state = self.state.lock().clone();
        state.next_file = self.numbers.next();
        let failed = tail.roll_over(number, &state.to_edits())?;
        drop(tail);
        let _ = self.fs.remove(&self.dir.join(manifest_name(failed)));
        Ok(())
    }

    /// The last step of a clean close: CURRENT vouches for every edit.
    pub(crate) fn close(&self) -> Result<()> {
        self.manifest.lock().vouch()
    }

    /// Number of the live manifest.
    pub(crate) fn manifest_number(&self) -> FileNumber {
        self.manifest.lock().number()
    }

    /// What the manifest says now.
    pub(crate) fn state(&self) -> ManifestState {
        self.state.lock().clone()
    }

    /// A number that no file has.
    pub(crate) fn new_file_number(&self) -> FileNumber {
        self.numbers.take()
    }

    /// An id that no family has had.
    pub(crate) fn new_family_id(&self) -> u32 {
        self.next_family.fetch_add(1, Ordering::Relaxed) // only has to be unique
    }

    /// Builds the versions that `edit` makes, makes the edit durable, and lets `install` show them to readers.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchColumnFamily`] for a family that was dropped meanwhile: nothing has happened. Any other error means
    /// that it is unknown whether a reopen finds the edit; nothing was installed.
    pub(crate) fn commit(&self, edit: VersionEdit, install: impl FnOnce(&NewVersions)) -> Result<()> {
        self.commit_with(edit, 0, install)
    }

    /// The same for an edit that creates a family: it begins with `num_levels` levels.
    pub(crate) fn commit_with(
        &self,
        mut edit: VersionEdit,
        num_levels: usize,
        install: impl FnOnce(&NewVersions),
    ) -> Result<()> {
        let mut tail = self.manifest.lock();
        edit.next_file_number = Some(self.numbers.next());
        edit.next_family_id = Some(self.next_family.load(Ordering::Relaxed));
        let mut next = self.state.lock().clone();
        let versions = next.apply(&edit, num_levels).map_err(|error| match error {
            EditError::NoSuchFamily(id) => Error::NoSuchColumnFamily { name: format!("#{id}") },
            EditError::Inconsistent(why) => why.at_install(),
        })?;
        let mut replaced = None;
        if tail.size() > self.roll_over_at.load(Ordering::Relaxed) {
            replaced = Some(tail.roll_over(self.numbers.take(), &next.to_edits())?);
            self.roll_over_at.store(ROLL_OVER_BYTES.max(2 * tail.size()), Ordering::Relaxed);
        } else {
            tail.append_and_sync(&edit)?;
        }
        *self.state.lock() = next;
        install(&versions);
        // Before the next edit can doom files of theirs: whoever holds a version then must ring when it lets go.
        drop(versions);
        drop(tail);
        if let Some(number) = replaced {
            // What cannot be removed now goes at the next open.
            let _ = self.fs.remove(&self.dir.join(manifest_name(number)));
        }
        Ok(())
    }

    /// Notes in the manifest that segments below `needed` are not; says whether that was news.
    pub(crate) fn record_wal_start(&self, needed: FileNumber) -> Result<bool> {
        if self.state.lock().wal.first_needed >= needed {
            return Ok(false);
        }
        let wal = WalEdit { first_needed: Some(needed), ..WalEdit::default() };
        self.commit(VersionEdit { wal, ..VersionEdit::default() }, |_| {})?;
        Ok(true)
    }
}
