//! Whole-version invariants: what must hold of every [`Version`] that is installed or read from a manifest.
//!
//! Cheap enough for release builds: one pass over the files of a version, at each install. Also used by tests
//! and by verification.
//!
//! This module says what is wrong; whether that is a damaged manifest or a bug is the caller's to know.

use std::collections::HashSet;

use crate::error::{Corruption, Error};
use crate::key::{SequenceNumber, TRAILER_LEN, compare_internal};
use crate::version::{FileMeta, FileNumber, Version};

/// A version, or an edit of one, that breaks an invariant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InvalidVersion(String);

impl InvalidVersion {
    #[cold]
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    /// As found while reading `manifest`: its edits do not make a version.
    pub(crate) fn in_manifest(self, manifest: &std::path::Path) -> Error {
        Error::corrupt(manifest, 0, Corruption::bad("version edit", "a version that holds together", self.0))
    }

    /// As found before installing an edit of our own: a bug. Nothing has been written.
    pub(crate) fn at_install(self) -> Error {
        Error::invalid("version edit", self.0)
    }
}

/// Checks every invariant of [`Version`].
///
/// # Errors
///
/// The first file or pair of files that breaks one, with its level.
pub(crate) fn check_version(version: &Version) -> Result<(), InvalidVersion> {
    let mut seen = HashSet::<FileNumber>::new();
    for (level, file) in version.all_files() {
        check_file(level, file)?;
        if !seen.insert(file.number) {
            return Err(InvalidVersion::new(format!(
                "file {} is there twice, once in L{level}",
                file.number
            )));
        }
    }
    for level in 0..version.num_levels() {
        for pair in version.files(level).windows(2) {
            if let [a, b] = pair {
                let fits = if level == 0 { age(a) > age(b) } else { is_before(a, b) };
                if !fits {
                    let rule =
                        if level == 0 { "are not in order of age" } else { "overlap or are out of order" };
                    let (a, b) = (a.number, b.number);
                    return Err(InvalidVersion::new(format!("files {a} and {b} of L{level} {rule}")));
                }
            }
        }
    }
    Ok(())
}

/// What L0 is sorted by, largest first: the newer file holds later sequences, or has the larger number.
pub(crate) fn age(file: &FileMeta) -> (SequenceNumber, FileNumber) {
    (file.largest_seq, file.number)
}

/// Whether `a` stands before `b` below L0: no user key in both.
fn is_before(a: &FileMeta, b: &FileMeta) -> bool {
    a.largest_user_key() < b.smallest_user_key()
}

fn check_file(level: usize, file: &FileMeta) -> Result<(), InvalidVersion> {
    let number = file.number;
    let wrong = |why: &str| Err(InvalidVersion::new(format!("file {number} of L{level} {why}")));
    if number.0 == 0 || file.unique_id == 0 {
        return wrong("has no number or no id");
    }
    if file.smallest.len() < TRAILER_LEN || file.largest.len() < TRAILER_LEN {
        return wrong("has a bound that is no internal key");
    }
    if compare_internal(&file.smallest, &file.largest).is_gt() {
        return wrong("has bounds out of order");
    }
    if file.smallest_seq > file.largest_seq {
        return wrong("has sequences out of order");
    }
    if file.entries == 0 || file.tombstones > file.entries {
        return wrong("has no entries, or more tombstones than entries");
    }
    Ok(())
}
