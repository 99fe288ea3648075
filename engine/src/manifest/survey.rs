//! Reading a manifest for its own sake: every record that is whole, and every place that is not.
//!
//! [`recover`](fn@super::recover) stops at damage, because edits behind a hole mean nothing; this goes on, for dumps, verification
//! and repair.

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use super::edit::VersionEdit;
use super::format::{HEADER_LEN, RECORD_HEADER_LEN, check_header, parse_edit, parse_record};
use crate::env::{FileSystem, read_all};
use crate::error::{Corruption, Error, Result};
use crate::version::FileNumber;

/// One whole record.
#[derive(Debug)]
pub(crate) struct SurveyedRecord {
    /// Offset in the file.
    pub(crate) offset: u64,
    /// Bytes, the record's header included.
    pub(crate) bytes: u64,
    pub(crate) edit: VersionEdit,
}

/// A place that holds no whole record.
#[derive(Debug)]
pub(crate) struct Hole {
    pub(crate) offset: u64,
    pub(crate) found: Corruption,
    /// Whole records follow, so it was written and acknowledged once.
    pub(crate) inside: bool,
}

/// What a manifest holds.
#[derive(Debug)]
pub(crate) struct SurveyedManifest {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) records: Vec<SurveyedRecord>,
    pub(crate) holes: Vec<Hole>,
}

impl SurveyedManifest {
    /// The records in front of the first hole.
    pub(crate) fn sound(&self) -> impl Iterator<Item = &SurveyedRecord> {
        let end = self.holes.first().map_or(u64::MAX, |hole| hole.offset);
        self.records.iter().take_while(move |record| record.offset < end)
    }
}

/// Reads the manifest `number` in `path`.
///
/// # Errors
///
/// What the operating system refuses. Damage is in the result.
pub(crate) fn survey(fs: &dyn FileSystem, path: &Path, number: FileNumber) -> Result<SurveyedManifest> {
    let bytes = read_all(fs, path).map_err(|error| Error::io("read", path, error))?;
    let mut surveyed = SurveyedManifest {
        path: path.to_owned(),
        bytes: bytes.len() as u64,
        records: Vec::new(),
        holes: Vec::new(),
    };
    if let Err(found) = check_header(&bytes, number) {
        surveyed.holes.push(Hole { offset: 0, found, inside: true });
    }
    let mut at = HEADER_LEN.min(bytes.len());
    while at < bytes.len() {
        let rest = bytes.get(at..).unwrap_or_default();
        match parse_record(rest, number, at as u64) {
            Ok(record) => {
                let len = RECORD_HEADER_LEN + record.len();
                match parse_edit(record) {
                    Ok(edit) => {
                        surveyed.records.push(SurveyedRecord { offset: at as u64, bytes: len as u64, edit });
                    }
                    Err(found) => surveyed.holes.push(Hole { offset: at as u64, found, inside: true }),
                }
                at += len;
            }
            Err(found) => {
                let next = next_record(&bytes, at, number);
                surveyed.holes.push(Hole { offset: at as u64, found, inside: next.is_some() });
                let Some(next) = next else { break };
                at = next;
            }
        }
    }
    Ok(surveyed)
}

/// The first place behind `at` where a whole record begins. Work is bounded, so that bytes made to look like records cannot
/// keep it busy.
fn next_record(bytes: &[u8], at: usize, number: FileNumber) -> Option<usize> {
    let mut budget = 1_u64 << 30;
    for place in at + 1..bytes.len() {
        let rest = bytes.get(place..).unwrap_or_default();
        match parse_record(rest, number, place as u64) {
            Ok(_) => return Some(place),
            Err(Corruption::Checksum { .. }) => {
                budget = budget.saturating_sub(rest.len() as u64);
                if budget == 0 {
                    return None;
                }
            }
            Err(_) => {}
        }
    }
    None
}
