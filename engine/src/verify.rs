//! Checking every byte of a database: CURRENT, the manifest, every table, the log, and whether they fit together.
//!
//! ```text
//!   CURRENT -> manifest: records, edits, versions -> tables: every block, key, filter, count -> log: every fragment, batch
//! ```
//!
//! It goes on after what it finds, takes no lock and writes nothing. Another process may have the database open: what looks
//! like damage may then be a file that was just replaced, so a stage with findings is looked at again until it says the same
//! twice, and a table that the manifest no longer names is none of the database's.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::batch::format::BatchReader;
use crate::env::{FileSystem, ReadOnlyFileSystem, TrackedFileSystem};
use crate::error::{Corruption, Error, Result};
use crate::filename::{FileKind, manifest_name, parse, sst_path, wal_path};
use crate::inspect::{LogItem, add_up, read_log};
use crate::key::SequenceNumber;
use crate::manifest::{Current, survey};
use crate::options::{DbOptions, RecoveryMode};
use crate::sst::check;
use crate::version::set::ManifestState;
use crate::version::{FileMeta, FileNumber};
use crate::wal::{ReplayRequest, damage_at, replay};

/// Looks at a stage that changes under the eyes.
const LOOKS_MAX: u32 = 8;

/// What [`Db::verify`](crate::Db::verify) found.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Tables that the manifest names.
    pub tables: u64,
    /// Segments of the log.
    pub segments: u64,
    /// Manifests: 1, or 0 when there is none to be read.
    pub manifests: u64,
    /// Bytes of all these and of CURRENT.
    pub bytes: u64,
    /// Everything that is wrong, each with file and offset. Empty: the database is sound.
    pub findings: Vec<Error>,
    /// What is as it may be and yet worth a line: a torn tail that nobody was promised, a file that nothing names.
    pub notes: Vec<String>,
}

impl VerifyReport {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    /// Files looked at, CURRENT included.
    pub fn files(&self) -> u64 {
        self.tables + self.segments + self.manifests + 1
    }

    /// The files that something is wrong with.
    pub fn damaged_files(&self) -> Vec<PathBuf> {
        let path = |finding: &Error| match finding {
            Error::Corruption { path, .. } | Error::Io { path, .. } => Some(path.clone()),
            _ => None,
        };
        let paths: BTreeSet<_> = self.findings.iter().filter_map(path).collect();
        paths.into_iter().collect()
    }
}

/// Checks every byte of the database in `dir`.
pub(crate) fn verify(dir: &Path, options: &DbOptions) -> Result<VerifyReport> {
    let looking = Arc::new(ReadOnlyFileSystem::new(Arc::clone(&options.file_system)));
    let verifier = Verifier { fs: Arc::new(TrackedFileSystem::new(looking)), dir };
    let mut report = VerifyReport::default();
    let mut state = ManifestState::default();
    verifier.until_steady(&mut report, |report| {
        state = verifier.manifest(report)?;
        Ok(())
    })?;
    verifier.tables(&state, &mut report);
    verifier.until_steady(&mut report, |report| {
        // As it is now: the segments that were needed before may have been released.
        let state = verifier.manifest(&mut VerifyReport::default())?;
        verifier.log(&state, report);
        Ok(())
    })?;
    verifier.unnamed(&state, &mut report)?;
    Ok(report)
}

struct Verifier<'a> {
    fs: Arc<dyn FileSystem>,
    dir: &'a Path,
}

impl Verifier<'_> {
    /// Runs a stage until it finds nothing, or the same twice, and adds what it says to `report`.
    fn until_steady(
        &self,
        report: &mut VerifyReport,
        mut stage: impl FnMut(&mut VerifyReport) -> Result<()>,
    ) -> Result<()> {
        let words = |report: &VerifyReport| report.findings.iter().map(Error::to_string).collect::<Vec<_>>();
        let mut before: Option<Vec<String>> = None;
        let mut looked = VerifyReport::default();
        for _ in 0..LOOKS_MAX {
            looked = VerifyReport::default();
            stage(&mut looked)?;
            if looked.is_sound() || before.as_ref() == Some(&words(&looked)) {
                break;
            }
            before = Some(words(&looked));
        }
        report.segments += looked.segments;
        report.manifests += looked.manifests;
        report.bytes += looked.bytes;
        report.findings.append(&mut looked.findings);
        report.notes.append(&mut looked.notes);
        Ok(())
    }

    /// CURRENT and the manifest; what it says comes back.
    ///
    /// # Errors
    ///
    /// [`Error::NotADatabase`]: there is nothing to verify.
    fn manifest(&self, report: &mut VerifyReport) -> Result<ManifestState> {
        let (number, synced_bytes) = match Current::read(&*self.fs, self.dir) {
            Ok(current) => (current.manifest, current.synced_bytes),
            Err(error @ Error::NotADatabase { .. }) => return Err(error),
            Err(error) => {
                report.findings.push(error);
                let Some(number) = newest_manifest(&*self.fs, self.dir)? else {
                    return Ok(ManifestState::default());
                };
                (number, 0)
            }
        };
        report.bytes += self.fs.size(&self.dir.join(crate::filename::CURRENT)).unwrap_or(0);
        let path = self.dir.join(manifest_name(number));
        let surveyed = match survey(&*self.fs, &path, number) {
            Ok(surveyed) => surveyed,
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                let named_by = "CURRENT".to_owned();
                report.findings.push(Error::corrupt(&path, 0, Corruption::Missing { named_by }));
                return Ok(ManifestState::default());
            }
            Err(error) => {
                report.findings.push(error);
                return Ok(ManifestState::default());
            }
        };
        report.manifests = 1;
        report.bytes += surveyed.bytes;
        for hole in &surveyed.holes {
            let damage = Error::corrupt(&path, hole.offset, hole.found.clone());
            if hole.inside || hole.offset < synced_bytes {
                report.findings.push(damage);
            } else {
                report
                    .notes
                    .push(format!("an edit that was cut short and that nobody was told of: {damage}"));
            }
        }
        if surveyed.bytes < synced_bytes {
            let found =
                Corruption::Truncated { what: "manifest", expected: synced_bytes, found: surveyed.bytes };
            report.findings.push(Error::corrupt(&path, surveyed.bytes, found));
        }
        let state = add_up(&surveyed, &mut report.findings);
        if !state.families.contains_key(&crate::batch::DEFAULT_FAMILY) {
            let found = Corruption::bad("column families", "one with id 0, 'default'", "none");
            report.findings.push(Error::corrupt(&path, 0, found));
        }
        for family in state.families.values() {
            for (_, file) in
                family.version.all_files().filter(|(_, file)| file.largest_seq > family.flushed_through)
            {
                let expected =
                    format!("at most {}, through which '{}' is flushed", family.flushed_through, family.name);
                let found = Corruption::bad("largest sequence of a table", expected, file.largest_seq);
                report.findings.push(Error::corrupt(&path, 0, found));
            }
        }
        Ok(state)
    }

    /// Every table that the manifest names.
    fn tables(&self, state: &ManifestState, report: &mut VerifyReport) {
        for file in tables_of(state) {
            let mut findings = Vec::new();
            let bytes = check(&*self.fs, &sst_path(self.dir, file.number), Some(file), &mut findings);
            if !findings.is_empty() && !self.is_still_named(file.number) {
                continue;
            }
            report.tables += 1;
            report.bytes += bytes;
            report.findings.append(&mut findings);
        }
    }

    fn is_still_named(&self, number: FileNumber) -> bool {
        match self.manifest(&mut VerifyReport::default()) {
            Ok(state) => tables_of(&state).any(|file| file.number == number),
            Err(_) => true,
        }
    }

    /// The log: what an open would replay, and behind its first damage whatever else is damaged.
    fn log(&self, state: &ManifestState, report: &mut VerifyReport) {
        if state.wal.first_needed == FileNumber(0) {
            return;
        }
        let request = ReplayRequest {
            fs: &*self.fs,
            dir: self.dir,
            facts: &state.wal,
            mode: RecoveryMode::TolerateTail,
            read_only: true,
        };
        let (mut last, mut findings) = (SequenceNumber::ZERO, Vec::new());
        let ended = replay(&request, |place, bytes| {
            if let Err(found) = check_batch(bytes, &mut last) {
                findings.push(damage_at(self.dir, place, found));
            }
            Ok(())
        });
        report.findings.append(&mut findings);
        let is_needed = |number: FileNumber| number >= state.wal.first_needed;
        match ended {
            Ok(end) => {
                if end.bytes_dropped > 0 {
                    report.notes.push(format!(
                        "{}: {} bytes behind the last whole batch were never promised to anybody",
                        wal_path(self.dir, end.segment).display(),
                        end.bytes_dropped
                    ));
                }
                for segment in &end.live {
                    report.segments += 1;
                    report.bytes += self.fs.size(&wal_path(self.dir, segment.number)).unwrap_or(0);
                }
            }
            Err(first) => {
                let numbers = crate::wal::segment_numbers(&*self.fs, self.dir).unwrap_or_default();
                for number in numbers.into_iter().filter(|number| is_needed(*number)) {
                    report.segments += 1;
                    report.bytes += self.fs.size(&wal_path(self.dir, number)).unwrap_or(0);
                }
                self.rest_of_log(&first, &is_needed, report);
                report.findings.push(first);
            }
        }
    }

    /// The damage that a replay, which stops at the first, did not come to.
    fn rest_of_log(&self, first: &Error, is_needed: &dyn Fn(FileNumber) -> bool, report: &mut VerifyReport) {
        let place = |error: &Error| match error {
            Error::Corruption { path, offset, .. } => Some((path.clone(), *offset)),
            _ => None,
        };
        let number = |path: &Path| match parse(&path.file_name()?.to_string_lossy()) {
            Some(FileKind::Wal(number)) => Some(number),
            _ => None,
        };
        let looked = read_log(&*self.fs, self.dir, |item| {
            if let LogItem::Damage(damage) = item
                && let Some((path, offset)) = place(&damage)
                && place(first) != Some((path.clone(), offset))
                && number(&path).is_some_and(is_needed)
            {
                report.findings.push(damage);
            }
            Ok(())
        });
        if let Err(error) = looked
            && error.to_string() != first.to_string()
        {
            report.findings.push(error);
        }
    }

    /// Tables that nothing names: the next ordinary open removes them.
    fn unnamed(&self, state: &ManifestState, report: &mut VerifyReport) -> Result<()> {
        let names = self.fs.list(self.dir).map_err(|error| Error::io("list", self.dir, error))?;
        let named: BTreeSet<_> = tables_of(state).map(|file| file.number).collect();
        for name in names {
            if let Some(FileKind::Sst(number)) = parse(&name)
                && !named.contains(&number)
            {
                let path = self.dir.join(name);
                report.notes.push(format!("{}: the manifest does not name it", path.display()));
            }
        }
        Ok(())
    }
}

fn tables_of(state: &ManifestState) -> impl Iterator<Item = &FileMeta> {
    state.families.values().flat_map(|family| family.version.all_files()).map(|(_, file)| &**file)
}

/// The manifest with the largest number, for want of a CURRENT that says which.
pub(crate) fn newest_manifest(fs: &dyn FileSystem, dir: &Path) -> Result<Option<FileNumber>> {
    let names = fs.list(dir).map_err(|error| Error::io("list", dir, error))?;
    let number = |name: &String| match parse(name) {
        Some(FileKind::Manifest(number)) => Some(number),
        _ => None,
    };
    Ok(names.iter().filter_map(number).max())
}

/// Whether a record is a whole batch whose sequences are behind those before it.
fn check_batch(bytes: &[u8], last: &mut SequenceNumber) -> Result<(), Corruption> {
    let mut entries = BatchReader::new(bytes)?;
    if entries.first <= *last {
        let expected = format!("above {last}, the one before");
        return Err(Corruption::bad("sequence of a logged batch", expected, entries.first));
    }
    *last = SequenceNumber::new(entries.first.get() + u64::from(entries.count).saturating_sub(1));
    while entries.next()?.is_some() {}
    Ok(())
}
