//! Reading a manifest back: the edits that were acknowledged, or the place where it is damaged.
//!
//! A record that does not parse ends the manifest if nothing proves that it was acknowledged: it is the torn tail
//! of an edit that nobody was told of. It is proved by CURRENT (bytes synced before it named the manifest) and by
//! any whole record behind it (each was synced before the next was written). Then the open is refused.
//!
//! This file does not know what edits mean.

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use super::current::Current;
use super::edit::VersionEdit;
use super::format::{HEADER_LEN, RECORD_HEADER_LEN, check_header, parse_edit, parse_record};
use crate::env::{FileSystem, read_all};
use crate::error::{Corruption, Error, Result};
use crate::filename::{CURRENT, manifest_name};
use crate::version::FileNumber;

/// What a manifest holds.
#[derive(Debug)]
pub(crate) struct RecoveredManifest {
    pub(crate) number: FileNumber,
    pub(crate) path: PathBuf,
    /// The edits, in order; the first are full state.
    pub(crate) edits: Vec<VersionEdit>,
    /// Bytes of a torn last record that were dropped.
    pub(crate) bytes_dropped: u64,
}

/// Reads the manifest that CURRENT names. An open for writing goes on in a new one, written from full state
/// ([`ManifestLog::create`](super::ManifestLog::create)); nothing is ever appended to this one.
///
/// # Errors
///
/// [`Error::NotADatabase`] without CURRENT; [`Error::Corruption`] naming CURRENT or the manifest and the offset.
pub(crate) fn recover(fs: &dyn FileSystem, dir: &Path) -> Result<RecoveredManifest> {
    let Current { manifest: number, synced_bytes } = Current::read(fs, dir)?;
    let path = dir.join(manifest_name(number));
    if !fs.exists(&path).map_err(|error| Error::io("look for", &path, error))? {
        return Err(Error::corrupt(&path, 0, Corruption::Missing { named_by: CURRENT.to_owned() }));
    }
    let bytes = read_all(fs, &path).map_err(|error| Error::io("read", &path, error))?;
    check_header(&bytes, number).map_err(|found| Error::corrupt(&path, 0, found))?;
    let mut edits = Vec::new();
    let mut at = HEADER_LEN;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        match parse_record(rest, number, at as u64) {
            Ok(record) => {
                let refuse = |found| Error::corrupt(&path, at as u64, found);
                edits.push(parse_edit(record).map_err(refuse)?);
                at += RECORD_HEADER_LEN + record.len();
            }
            Err(found) => {
                if (at as u64) < synced_bytes || !is_torn_tail(&bytes, at, number) {
                    return Err(Error::corrupt(&path, at as u64, found));
                }
                break;
            }
        }
    }
    if (at as u64) < synced_bytes {
        let found = Corruption::Truncated { what: "manifest", expected: synced_bytes, found: at as u64 };
        return Err(Error::corrupt(&path, at as u64, found));
    }
    Ok(RecoveredManifest { number, path, edits, bytes_dropped: (bytes.len() - at) as u64 })
}

/// Whether no whole record begins anywhere behind `at`. Bytes made to look like records cannot keep this busy: it
/// gives up, and the manifest is refused, when it has checked many times its length.
fn is_torn_tail(bytes: &[u8], at: usize, number: FileNumber) -> bool {
    let mut budget = 1_u64 << 30;
    for place in at + 1..bytes.len() {
        let rest = bytes.get(place..).unwrap_or_default();
        match parse_record(rest, number, place as u64) {
            Ok(_) => return false,
            Err(Corruption::Checksum { .. }) => {
                budget = budget.saturating_sub(rest.len() as u64);
                if budget == 0 {
                    return false;
                }
            }
            Err(_) => {}
        }
    }
    true
}
