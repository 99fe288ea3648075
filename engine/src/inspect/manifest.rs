//! [`read_manifest`]: a manifest's edits one by one, and what they add up to.

use std::path::{Path, PathBuf};

use super::InternalKey;
use crate::env::FileSystem;
use crate::error::{Error, Result};
use crate::filename::{FileKind, parse};
use crate::key::SequenceNumber;
use crate::manifest::{FamilyEdit, SurveyedManifest, VersionEdit, survey};
use crate::version::set::ManifestState;
use crate::version::{FileMeta, MAX_LEVELS};

/// What the manifest remembers of one table.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TableFacts {
    /// Number in the file's name.
    pub number: u64,
    /// Random id, kept in the table's footer too.
    pub unique_id: u64,
    /// Bytes of the file.
    pub size: u64,
    /// Smallest key.
    pub smallest: InternalKey,
    /// Largest key.
    pub largest: InternalKey,
    /// Smallest sequence in it.
    pub smallest_sequence: SequenceNumber,
    /// Largest sequence in it.
    pub largest_sequence: SequenceNumber,
    /// Entries, tombstones included.
    pub entries: u64,
    /// Tombstones among them.
    pub tombstones: u64,
    /// Wall time at which it was made, microseconds since 1970.
    pub created_micros: u64,
}

impl TableFacts {
    fn of(file: &FileMeta) -> Self {
        Self {
            number: file.number.0,
            unique_id: file.unique_id,
            size: file.size,
            smallest: InternalKey::decode(&file.smallest),
            largest: InternalKey::decode(&file.largest),
            smallest_sequence: file.smallest_seq,
            largest_sequence: file.largest_seq,
            entries: file.entries,
            tombstones: file.tombstones,
            created_micros: file.created_micros,
        }
    }
}

/// What one edit changed about a column family.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FamilyChange {
    /// Id of the family.
    pub id: u32,
    /// The family is new and has this name.
    pub created: Option<String>,
    /// The family is gone.
    pub dropped: bool,
    /// Everything of this family at or below is in tables.
    pub flushed_through: Option<SequenceNumber>,
    /// Level and number of tables that went.
    pub removed: Vec<(u32, u64)>,
    /// Level and facts of tables that came.
    pub added: Vec<(u32, TableFacts)>,
}

impl FamilyChange {
    fn of(edit: &FamilyEdit) -> Self {
        Self {
            id: edit.id,
            created: edit.created.clone(),
            dropped: edit.dropped,
            flushed_through: edit.flushed_through,
            removed: edit.removed.iter().map(|(level, number)| (*level, number.0)).collect(),
            added: edit.added.iter().map(|(level, file)| (*level, TableFacts::of(file))).collect(),
        }
    }
}

/// One edit and its place. What is `None` or empty it leaves as it was.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ManifestRecord {
    /// Offset in the file.
    pub offset: u64,
    /// Bytes of the record.
    pub bytes: u64,
    /// No file has this number or a larger one.
    pub next_file_number: Option<u64>,
    /// The last sequence in any table.
    pub last_sequence: Option<SequenceNumber>,
    /// The log starts in this segment.
    pub first_needed_segment: Option<u64>,
    /// What is known to be synced of the log: segment, bytes of the stream, sequence.
    pub synced: Option<(u64, u64, SequenceNumber)>,
    /// Segments set aside after a failure.
    pub quarantined: Vec<u64>,
    /// What changed about column families, in order.
    pub families: Vec<FamilyChange>,
}

impl ManifestRecord {
    fn of(offset: u64, bytes: u64, edit: &VersionEdit) -> Self {
        Self {
            offset,
            bytes,
            next_file_number: edit.next_file_number.map(|number| number.0),
            last_sequence: edit.last_sequence,
            first_needed_segment: edit.wal.first_needed.map(|number| number.0),
            synced: edit.wal.synced.map(|synced| (synced.segment.0, synced.stream_bytes, synced.seq)),
            quarantined: edit.wal.quarantined.iter().map(|number| number.0).collect(),
            families: edit.families.iter().map(FamilyChange::of).collect(),
        }
    }
}

/// A column family and its tables.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FamilyFiles {
    /// Id of the family.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Everything of it at or below is in tables.
    pub flushed_through: SequenceNumber,
    /// Tables by level: L0 newest first, deeper levels by key.
    pub levels: Vec<Vec<TableFacts>>,
}

/// A manifest: its edits, and what those in front of the first damage add up to.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ManifestContents {
    /// The file.
    pub path: PathBuf,
    /// Its bytes.
    pub bytes: u64,
    /// Every whole edit, also behind damage.
    pub records: Vec<ManifestRecord>,
    /// Column families by id.
    pub families: Vec<FamilyFiles>,
    /// No file has this number or a larger one.
    pub next_file_number: u64,
    /// The last sequence in any table.
    pub last_sequence: SequenceNumber,
    /// No family has this id or a larger one.
    pub next_family_id: u32,
    /// The log starts in this segment; 0 when there is none.
    pub first_needed_segment: u64,
    /// Damage in order of offset. A place at the end may be an edit that was cut short and that nobody was told of.
    pub damage: Vec<Error>,
}

/// Reads the manifest in `path`, which has the name of one.
///
/// # Errors
///
/// [`Error::InvalidArgument`] for a file whose name is not that of a manifest; [`Error::Io`] when it cannot be read. Damage is
/// part of the result.
pub fn read_manifest(fs: &dyn FileSystem, path: &Path) -> Result<ManifestContents> {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let Some(FileKind::Manifest(number)) = parse(&name) else {
        return Err(Error::invalid("manifest", format!("'{name}' is not named like one (MANIFEST-000005)")));
    };
    let surveyed = survey(fs, path, number)?;
    let mut damage: Vec<_> =
        surveyed.holes.iter().map(|hole| Error::corrupt(path, hole.offset, hole.found.clone())).collect();
    let state = add_up(&surveyed, &mut damage);
    let record = |record: &crate::manifest::SurveyedRecord| {
        ManifestRecord::of(record.offset, record.bytes, &record.edit)
    };
    let family = |(id, family): (&u32, &crate::version::set::FamilyState)| FamilyFiles {
        id: *id,
        name: family.name.clone(),
        flushed_through: family.flushed_through,
        levels: (0..family.version.num_levels())
            .map(|level| family.version.files(level).iter().map(|file| TableFacts::of(file)).collect())
            .collect(),
    };
    Ok(ManifestContents {
        path: surveyed.path.clone(),
        bytes: surveyed.bytes,
        records: surveyed.records.iter().map(record).collect(),
        families: state.families.iter().map(family).collect(),
        next_file_number: state.next_file.0,
        last_sequence: state.last_sequence,
        next_family_id: state.next_family,
        first_needed_segment: state.wal.first_needed.0,
        damage,
    })
}

/// What the edits in front of the first damage say; an edit that does not fit those before it is damage, too, and ends it.
pub(crate) fn add_up(surveyed: &SurveyedManifest, damage: &mut Vec<Error>) -> ManifestState {
    let mut state = ManifestState::default();
    for record in surveyed.sound() {
        if let Err(why) = state.apply(&record.edit, MAX_LEVELS) {
            damage.push(why.in_manifest(&surveyed.path));
            break;
        }
    }
    state
}
