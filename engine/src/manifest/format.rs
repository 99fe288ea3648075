//! How the manifest lies on disk. Integers are little-endian, varints as in [`crate::coding`].
//!
//! # File header
//!
//! | bytes  | field     | meaning                                                     |
//! |--------|-----------|-------------------------------------------------------------|
//! | 0..8   | `magic`   | `SLUICMAN`                                                  |
//! | 8..12  | `version` | 1                                                           |
//! | 12..16 | `crc`     | CRC-32 of all other bytes of the header                     |
//! | 16..24 | `number`  | the manifest's number, as in its file name                  |
//!
//! # Record
//!
//! | bytes  | field     | meaning                                                     |
//! |--------|-----------|-------------------------------------------------------------|
//! | 0..4   | `crc`     | CRC-32 of the manifest's number and the record's offset     |
//! |        |           | (u64 each, not stored here), then `len` and the edit        |
//! | 4..8   | `len`     | bytes of the edit; trusted only after `crc`                 |
//! | 8..    | edit      | fields as below, each a tag and its value                   |
//!
//! # Edit
//!
//! Tags are varints, never reused; an unknown one refuses the manifest. "bytes" is a varint length, then bytes.
//!
//! | tag | field                 | value                                                        |
//! |----:|-----------------------|--------------------------------------------------------------|
//! |   1 | `next_file_number`    | varint                                                       |
//! |   2 | `last_sequence`       | varint                                                       |
//! |   3 | `next_family_id`      | varint                                                       |
//! |   4 | `wal.log_id`          | u64                                                          |
//! |   5 | `wal.first_needed`    | varint                                                       |
//! |   6 | `wal.recovered`       | varints: segment, stream bytes, next segment                 |
//! |   7 | `wal.synced`          | varints: segment, stream bytes, sequence                     |
//! |   8 | `wal.quarantined`     | varint; may repeat                                           |
//! |   9 | family                | bytes: varint id, then the family's fields; may repeat       |
//!
//! | tag | field of a family     | value                                                        |
//! |----:|-----------------------|--------------------------------------------------------------|
//! |   1 | `created`             | bytes: the name, UTF-8                                       |
//! |   2 | `dropped`             | nothing                                                      |
//! |   3 | `flushed_through`     | varint                                                       |
//! |   4 | `removed`             | varints: level, file number; may repeat                      |
//! |   5 | `added`               | varints: level, file number; u64 unique id; varint size;     |
//! |     |                       | bytes smallest, largest; varints smallest, largest sequence, |
//! |     |                       | entries, tombstones, creation time; may repeat               |

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::edit::{FamilyEdit, VersionEdit};
use crate::checksum::crc32;
use crate::coding::{Cursor, put_bytes, put_varint};
use crate::error::Corruption;
use crate::key::SequenceNumber;
use crate::version::{FileMeta, FileNumber, MAX_LEVELS};
use crate::wal::{RecoveredEnd, SyncedPosition};

const MAGIC: [u8; 8] = *b"SLUICMAN";
const VERSION: u32 = 1;

const H_MAGIC: Range<usize> = 0..8;
const H_VERSION: Range<usize> = H_MAGIC.end..H_MAGIC.end + 4;
const H_CRC: Range<usize> = H_VERSION.end..H_VERSION.end + 4;
const H_NUMBER: Range<usize> = H_CRC.end..H_CRC.end + 8;
/// Length of the file header.
pub(super) const HEADER_LEN: usize = 24;
const _: () = assert!(H_NUMBER.end == HEADER_LEN);

const R_CRC: Range<usize> = 0..4;
const R_LEN: Range<usize> = R_CRC.end..R_CRC.end + 4;
/// Length of what precedes the edit in a record.
pub(super) const RECORD_HEADER_LEN: usize = 8;
const _: () = assert!(R_LEN.end == RECORD_HEADER_LEN);

mod tag {
    pub(super) const NEXT_FILE_NUMBER: u64 = 1;
    pub(super) const LAST_SEQUENCE: u64 = 2;
    pub(super) const NEXT_FAMILY_ID: u64 = 3;
    pub(super) const LOG_ID: u64 = 4;
    pub(super) const FIRST_NEEDED: u64 = 5;
    pub(super) const RECOVERED: u64 = 6;
    pub(super) const SYNCED: u64 = 7;
    pub(super) const QUARANTINED: u64 = 8;
    pub(super) const FAMILY: u64 = 9;
}

mod family_tag {
    pub(super) const CREATED: u64 = 1;
    pub(super) const DROPPED: u64 = 2;
    pub(super) const FLUSHED_THROUGH: u64 = 3;
    pub(super) const REMOVED: u64 = 4;
    pub(super) const ADDED: u64 = 5;
}

/// The header of manifest `number`.
pub(super) fn encode_header(number: FileNumber) -> [u8; HEADER_LEN] {
    let mut out = [0; HEADER_LEN];
    put(&mut out, H_MAGIC, &MAGIC);
    put(&mut out, H_VERSION, &VERSION.to_le_bytes());
    put(&mut out, H_NUMBER, &number.0.to_le_bytes());
    let crc = header_crc(&out);
    put(&mut out, H_CRC, &crc.to_le_bytes());
    out
}

/// Refuses `bytes`, the first of a file, unless they are the header of manifest `number`.
pub(super) fn check_header(bytes: &[u8], number: FileNumber) -> Result<(), Corruption> {
    let Some(bytes) = bytes.first_chunk::<HEADER_LEN>() else {
        let found = bytes.len() as u64;
        return Err(Corruption::Truncated { what: "manifest header", expected: HEADER_LEN as u64, found });
    };
    let mut cursor = Cursor::new(bytes);
    if cursor.take(MAGIC.len()) != Some(&MAGIC) {
        return Err(Corruption::bad("manifest magic", "SLUICMAN", "other bytes"));
    }
    let (version, stored) = (cursor.u32().unwrap_or_default(), cursor.u32().unwrap_or_default());
    let found = header_crc(bytes);
    if stored != found {
        return Err(Corruption::Checksum { what: "manifest header", expected: stored, found });
    }
    if version != VERSION {
        return Err(Corruption::bad("manifest version", VERSION.to_string(), version));
    }
    let named = FileNumber(cursor.u64().unwrap_or_default());
    if named != number {
        return Err(Corruption::bad("manifest number", number.to_string(), named));
    }
    Ok(())
}

fn put(out: &mut [u8], place: Range<usize>, bytes: &[u8]) {
    if let Some(place) = out.get_mut(place) {
        place.copy_from_slice(bytes);
    }
}

fn header_crc(bytes: &[u8; HEADER_LEN]) -> u32 {
    crc32(&[bytes.get(..H_CRC.start).unwrap_or_default(), bytes.get(H_CRC.end..).unwrap_or_default()])
}

fn record_crc(number: FileNumber, offset: u64, covered: &[u8]) -> u32 {
    crc32(&[&number.0.to_le_bytes(), &offset.to_le_bytes(), covered])
}

/// Appends one record of `edits` to `out`; it will lie at `offset` of manifest `number`. It reads back as one edit
/// that says what they say one after the other.
pub(super) fn put_record(out: &mut Vec<u8>, number: FileNumber, offset: u64, edits: &[VersionEdit]) {
    let start = out.len();
    out.extend_from_slice(&[0; RECORD_HEADER_LEN]);
    for edit in edits {
        put_edit(out, edit);
    }
    let len = out.len() - start - RECORD_HEADER_LEN;
    let len = u32::try_from(len).unwrap_or_else(|_| panic!("an edit of {len} bytes cannot be written"));
    let record = out.get_mut(start..).unwrap_or_default();
    put(record, R_LEN, &len.to_le_bytes());
    let crc = record_crc(number, offset, record.get(R_LEN.start..).unwrap_or_default());
    put(record, R_CRC, &crc.to_le_bytes());
}

/// The edit bytes of the record at the beginning of `bytes`, which reach from `offset` to the end of the file.
pub(super) fn parse_record(bytes: &[u8], number: FileNumber, offset: u64) -> Result<&[u8], Corruption> {
    let truncated =
        |expected: u64| Corruption::Truncated { what: "record", expected, found: bytes.len() as u64 };
    let mut cursor = Cursor::new(bytes);
    let (Some(stored), Some(len)) = (cursor.u32(), cursor.u32()) else {
        return Err(truncated(RECORD_HEADER_LEN as u64));
    };
    let end = u64::from(len) + RECORD_HEADER_LEN as u64;
    let covered = usize::try_from(end).ok().and_then(|end| bytes.get(R_LEN.start..end));
    let covered = covered.ok_or_else(|| truncated(end))?;
    let found = record_crc(number, offset, covered);
    if stored != found {
        return Err(Corruption::Checksum { what: "record", expected: stored, found });
    }
    Ok(covered.get(R_LEN.len()..).unwrap_or_default())
}

fn put_field(out: &mut Vec<u8>, tag: u64, values: &[u64]) {
    put_varint(out, tag);
    for value in values {
        put_varint(out, *value);
    }
}

fn put_edit(out: &mut Vec<u8>, edit: &VersionEdit) {
    if let Some(number) = edit.next_file_number {
        put_field(out, tag::NEXT_FILE_NUMBER, &[number.0]);
    }
    if let Some(seq) = edit.last_sequence {
        put_field(out, tag::LAST_SEQUENCE, &[seq.get()]);
    }
    if let Some(id) = edit.next_family_id {
        put_field(out, tag::NEXT_FAMILY_ID, &[u64::from(id)]);
    }
    let wal = &edit.wal;
    if let Some(log_id) = wal.log_id {
        put_varint(out, tag::LOG_ID);
        out.extend_from_slice(&log_id.to_le_bytes());
    }
    if let Some(segment) = wal.first_needed {
        put_field(out, tag::FIRST_NEEDED, &[segment.0]);
    }
    if let Some(end) = wal.recovered {
        put_field(out, tag::RECOVERED, &[end.segment.0, end.stream_bytes, end.next_segment.0]);
    }
    if let Some(synced) = wal.synced {
        put_field(out, tag::SYNCED, &[synced.segment.0, synced.stream_bytes, synced.seq.get()]);
    }
    for segment in &wal.quarantined {
        put_field(out, tag::QUARANTINED, &[segment.0]);
    }
    let mut fields = Vec::new();
    for family in &edit.families {
        fields.clear();
        put_family(&mut fields, family);
        put_varint(out, tag::FAMILY);
        put_bytes(out, &fields);
    }
}

fn put_family(out: &mut Vec<u8>, family: &FamilyEdit) {
    put_varint(out, u64::from(family.id));
    if let Some(name) = &family.created {
        put_varint(out, family_tag::CREATED);
        put_bytes(out, name.as_bytes());
    }
    if family.dropped {
        put_varint(out, family_tag::DROPPED);
    }
    if let Some(seq) = family.flushed_through {
        put_field(out, family_tag::FLUSHED_THROUGH, &[seq.get()]);
    }
    for (level, number) in &family.removed {
        put_field(out, family_tag::REMOVED, &[u64::from(*level), number.0]);
    }
    for (level, file) in &family.added {
        put_field(out, family_tag::ADDED, &[u64::from(*level), file.number.0]);
        out.extend_from_slice(&file.unique_id.to_le_bytes());
        put_varint(out, file.size);
        put_bytes(out, &file.smallest);
        put_bytes(out, &file.largest);
        for value in [
            file.smallest_seq.get(),
            file.largest_seq.get(),
            file.entries,
            file.tombstones,
            file.created_micros,
        ] {
            put_varint(out, value);
        }
    }
}

/// The edit that `bytes` hold. Their checksum held, so a failure means an unknown or a broken format.
pub(super) fn parse_edit(bytes: &[u8]) -> Result<VersionEdit, Corruption> {
    let mut edit = VersionEdit::default();
    let mut cursor = Cursor::new(bytes);
    while !cursor.is_empty() {
        let tag = cursor.varint().ok_or_else(|| broken("tag"))?;
        parse_field(&mut edit, tag, &mut cursor).ok_or_else(|| {
            if (tag::NEXT_FILE_NUMBER..=tag::FAMILY).contains(&tag) {
                return broken("field");
            }
            Corruption::bad("edit tag", "1 to 9; a newer version may have written this", tag)
        })??;
    }
    Ok(edit)
}

fn broken(what: &'static str) -> Corruption {
    Corruption::bad("edit", "whole fields", format!("a broken {what}"))
}

/// One field; `None` when the tag is unknown or the value does not parse.
fn parse_field(edit: &mut VersionEdit, tag: u64, cursor: &mut Cursor<'_>) -> Option<Result<(), Corruption>> {
    match tag {
        tag::NEXT_FILE_NUMBER => edit.next_file_number = Some(file_number(cursor)?),
        tag::LAST_SEQUENCE => edit.last_sequence = Some(sequence(cursor)?),
        tag::NEXT_FAMILY_ID => edit.next_family_id = Some(cursor.varint32()?),
        tag::LOG_ID => edit.wal.log_id = Some(cursor.u64()?),
        tag::FIRST_NEEDED => edit.wal.first_needed = Some(file_number(cursor)?),
        tag::RECOVERED => {
            let (segment, stream_bytes) = (file_number(cursor)?, cursor.varint()?);
            edit.wal.recovered =
                Some(RecoveredEnd { segment, stream_bytes, next_segment: file_number(cursor)? });
        }
        tag::SYNCED => {
            let (segment, stream_bytes) = (file_number(cursor)?, cursor.varint()?);
            edit.wal.synced = Some(SyncedPosition { segment, stream_bytes, seq: sequence(cursor)? });
        }
        tag::QUARANTINED => edit.wal.quarantined.push(file_number(cursor)?),
        tag::FAMILY => match parse_family(cursor.bytes()?) {
            Ok(family) => edit.families.push(family),
            Err(error) => return Some(Err(error)),
        },
        _ => return None,
    }
    Some(Ok(()))
}

fn parse_family(bytes: &[u8]) -> Result<FamilyEdit, Corruption> {
    let mut cursor = Cursor::new(bytes);
    let mut family = FamilyEdit::new(cursor.varint32().ok_or_else(|| broken("family id"))?);
    while !cursor.is_empty() {
        let tag = cursor.varint().ok_or_else(|| broken("family tag"))?;
        if !(family_tag::CREATED..=family_tag::ADDED).contains(&tag) {
            let expected = "1 to 5; a newer version may have written this";
            return Err(Corruption::bad("family tag", expected, tag));
        }
        parse_family_field(&mut family, tag, &mut cursor).ok_or_else(|| broken("family field"))?;
    }
    Ok(family)
}

fn parse_family_field(family: &mut FamilyEdit, tag: u64, cursor: &mut Cursor<'_>) -> Option<()> {
    match tag {
        family_tag::CREATED => family.created = Some(std::str::from_utf8(cursor.bytes()?).ok()?.to_owned()),
        family_tag::DROPPED => family.dropped = true,
        family_tag::FLUSHED_THROUGH => family.flushed_through = Some(sequence(cursor)?),
        family_tag::REMOVED => {
            let level = level(cursor)?;
            family.removed.push((level, file_number(cursor)?));
        }
        family_tag::ADDED => {
            let level = level(cursor)?;
            family.added.push((level, Arc::new(file_meta(cursor)?)));
        }
        _ => return None,
    }
    Some(())
}

fn file_meta(cursor: &mut Cursor<'_>) -> Option<FileMeta> {
    Some(FileMeta {
        number: file_number(cursor)?,
        unique_id: cursor.u64()?,
        size: cursor.varint()?,
        smallest: cursor.bytes()?.into(),
        largest: cursor.bytes()?.into(),
        smallest_seq: sequence(cursor)?,
        largest_seq: sequence(cursor)?,
        entries: cursor.varint()?,
        tombstones: cursor.varint()?,
        created_micros: cursor.varint()?,
        being_compacted: AtomicBool::new(false),
    })
}

fn file_number(cursor: &mut Cursor<'_>) -> Option<FileNumber> {
    cursor.varint().map(FileNumber)
}

fn sequence(cursor: &mut Cursor<'_>) -> Option<SequenceNumber> {
    let number = cursor.varint()?;
    (number <= SequenceNumber::MAX.get()).then(|| SequenceNumber::new(number))
}

fn level(cursor: &mut Cursor<'_>) -> Option<u32> {
    cursor.varint32().filter(|level| (*level as usize) < MAX_LEVELS)
}
