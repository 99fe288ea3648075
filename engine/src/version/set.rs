//! [`VersionSet`]: the current version of every column family, and the one way to change them.
//!
//! A change is a [`VersionEdit`]. [`VersionSet::commit`] hands it to the manifest's thread ([`super::writer`]), which builds and
//! checks the new versions and makes the edit durable; then the caller installs, in the order of the file. So edits reach
//! disk, and readers, in one order, and a version that breaks an invariant reaches neither. The manifest is written anew from
//! full state when it has grown too long.
//!
//! What edits are made for, and who may see which version, is not known here.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::builder::VersionBuilder;
use super::writer::{ManifestWriter, PositionSource};
use super::{FileNumber, Version};
use crate::check::InvalidVersion;
use crate::env::{Clock, FileSystem};
use crate::error::{Error, Result};
use crate::filename::manifest_name;
use crate::jobs::{JobHandle, Pool};
use crate::key::SequenceNumber;
use crate::manifest::{FamilyEdit, PositionOptions, VersionEdit};
use crate::wal::{SyncedPosition, WalEdit, WalFacts};

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
        let mut changed: BTreeMap<u32, Option<FamilyState>> = BTreeMap::new();
        for family in &edit.families {
            // One record may hold several changes of one family: each is of what the one before made.
            let present = match changed.get(&family.id) {
                Some(next) => next.as_ref(),
                None => self.families.get(&family.id),
            };
            let next = apply_to_family(present, family, num_levels)?;
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

/// The family as it is after the edit; `None` if it is dropped by it.
fn apply_to_family(
    present: Option<&FamilyState>,
    edit: &FamilyEdit,
    num_levels: usize,
) -> Result<Option<FamilyState>, EditError> {
    let mut next = match (present, &edit.created) {
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
    writer: Arc<ManifestWriter>,
    /// One worker: the manifest's thread.
    pool: Arc<Pool>,
}

impl VersionSet {
    /// Writes a new manifest that says `state`, makes it the live one, and goes on from there, on the thread of `pool`.
    #[expect(clippy::too_many_arguments, reason = "called once, by the open")]
    pub(crate) fn create(
        fs: &Arc<dyn FileSystem>,
        dir: &Path,
        clock: &Arc<dyn Clock>,
        state: ManifestState,
        numbers: Arc<FileNumbers>,
        options: PositionOptions,
        position: PositionSource,
        pool: Arc<Pool>,
    ) -> Result<Self> {
        let writer = ManifestWriter::new(fs, dir, clock, state, numbers, options, position)?;
        Ok(Self { writer: Arc::new(writer), pool })
    }

    /// The versions of a database that is open for reading only: no edit is taken.
    pub(crate) fn read_only(
        fs: &Arc<dyn FileSystem>,
        dir: &Path,
        clock: &Arc<dyn Clock>,
        state: ManifestState,
        manifest: FileNumber,
        refusal: Error,
        pool: Arc<Pool>,
    ) -> Self {
        Self { writer: Arc::new(ManifestWriter::read_only(fs, dir, clock, state, manifest, refusal)), pool }
    }

    /// After a failed edit: goes on in a new manifest, written from what was acknowledged.
    pub(crate) fn heal(&self) -> Result<()> {
        let writer = &self.writer;
        let mut tail = writer.manifest.lock();
        if tail.failure().is_none() {
            return Ok(());
        }
        let mut state = writer.state.lock().clone();
        let failed = writer.roll_over(&mut tail, &mut state)?;
        drop(tail);
        let _ = writer.fs.remove(&writer.dir.join(manifest_name(failed)));
        Ok(())
    }

    /// The last step of a clean close: the manifest says that the log is synced up to `end`, and CURRENT vouches for every
    /// edit.
    pub(crate) fn close(&self, end: SyncedPosition) -> Result<()> {
        let writer = Arc::clone(&self.writer);
        let job = move |_: &_| {
            writer.write_waiting(Some(end));
            writer.manifest.lock().vouch()
        };
        self.pool.submit(job).wait().unwrap_or(Err(Error::ShutdownInProgress))
    }

    /// Number of the live manifest.
    pub(crate) fn manifest_number(&self) -> FileNumber {
        self.writer.manifest.lock().number()
    }

    /// What the manifest says now.
    pub(crate) fn state(&self) -> ManifestState {
        self.writer.state.lock().clone()
    }

    /// A number that no file has.
    pub(crate) fn new_file_number(&self) -> FileNumber {
        self.writer.numbers.take()
    }

    /// An id that no family has had.
    pub(crate) fn new_family_id(&self) -> u32 {
        self.writer.next_family.fetch_add(1, Ordering::Relaxed) // only has to be unique
    }

    /// Builds the versions that `edit` makes, makes the edit durable, and lets `install` show them to readers. Waits for
    /// the manifest's thread.
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
        edit: VersionEdit,
        num_levels: usize,
        install: impl FnOnce(&NewVersions),
    ) -> Result<()> {
        let pending = self.writer.enqueue(edit, num_levels);
        // The job may find that an earlier one has taken the edit along: then it has nothing to do.
        let writer = Arc::clone(&self.writer);
        let job = self.pool.submit(move |_| writer.write_waiting(None));
        let ended = job.wait();
        let (turn, versions) = self.writer.outcome_of(&pending, ended)?;
        self.writer.in_turn(turn, || {
            install(&versions);
            // Before the next edit can doom files of theirs: whoever holds a version then must ring when it lets go.
            drop(versions);
        });
        Ok(())
    }

    /// When the log's position is due to be recorded, in nanoseconds of the clock, if it is ahead of what was recorded.
    pub(crate) fn position_due_at(&self) -> Option<u64> {
        self.writer.position_due_at()
    }

    /// Has the position recorded by the manifest's thread if it is due, then calls `then`. Waits for nothing. False if the
    /// thread has no room; then the position goes along with one of the edits that it has.
    pub(crate) fn save_position(&self, then: impl FnOnce() + Send + 'static) -> bool {
        let writer = Arc::clone(&self.writer);
        let job = move |_: &_| {
            writer.write_waiting(None);
            then();
        };
        self.pool.try_submit(job).map(JobHandle::detach).is_ok()
    }

    /// Has the calling thread record the position now, whether it is due or not.
    #[cfg(feature = "bench-arms")]
    pub(crate) fn save_position_inline(&self) {
        self.writer.save_now();
    }

    /// Segments by which the recorded position lags; positions recorded; attempts that failed.
    pub(crate) fn position_facts(&self) -> (u64, u64, u64) {
        let lag = self.writer.lag_segments();
        let plan = self.writer.plan.lock();
        (lag, plan.saves, plan.failures)
    }

    /// The first segment that the manifest says is needed.
    pub(crate) fn wal_start(&self) -> FileNumber {
        self.writer.state.lock().wal.first_needed
    }

    /// Notes in the manifest that segments below `needed` are not.
    pub(crate) fn record_wal_start(&self, needed: FileNumber) -> Result<()> {
        if self.wal_start() >= needed {
            return Ok(());
        }
        let wal = WalEdit { first_needed: Some(needed), ..WalEdit::default() };
        self.commit(VersionEdit { wal, ..VersionEdit::default() }, |_| {})
    }
}
