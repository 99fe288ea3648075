//! [`read_log`]: the records of a log, segment by segment.

use std::path::{Path, PathBuf};

use super::EntryKind;
use crate::batch::format::BatchReader;
use crate::env::FileSystem;
use crate::error::{Error, Result};
use crate::filename::{FileKind, parse, wal_path};
use crate::key::SequenceNumber;
use crate::version::FileNumber;
use crate::wal::{
    HeaderFound, RecordPlace, Scanned, SegmentHeader, damage_at, read_header, scan, segment_numbers,
};

/// One write in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogEntry<'a> {
    /// What it does.
    pub kind: EntryKind,
    /// Id of the column family.
    pub family: u32,
    /// The user's key.
    pub key: &'a [u8],
    /// Empty for a delete.
    pub value: &'a [u8],
}

/// One batch of the log.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LogRecord<'a> {
    /// The segment in which it begins.
    pub path: PathBuf,
    /// Offset there of its first byte.
    pub offset: u64,
    /// Bytes of the batch.
    pub bytes: u64,
    /// The sequence of its first entry; the others follow.
    pub first_sequence: SequenceNumber,
    /// Its entries.
    pub entries: Vec<LogEntry<'a>>,
}

/// What a log holds, piece by piece.
#[derive(Debug)]
#[non_exhaustive]
pub enum LogItem<'a> {
    /// A whole batch.
    Record(LogRecord<'a>),
    /// A place that holds none, in front of others that do.
    Damage(Error),
    /// Something that is as it may be but was not read: a batch that began in a segment that was not looked at, a file that
    /// was only prepared, what lies behind the end of the log.
    Note {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is there.
        what: String,
    },
}

/// Reads the segment `path`, or all segments of the log in the directory `path`, and hands what is in them to `visit` in the
/// order of the log. Whether the database still needs a batch is not known here.
///
/// # Errors
///
/// [`Error::InvalidArgument`] for a file whose name is not that of a segment; [`Error::Io`] when one cannot be read; what
/// `visit` returns. Damage is handed to `visit`.
pub fn read_log(
    fs: &dyn FileSystem,
    path: &Path,
    mut visit: impl FnMut(LogItem<'_>) -> Result<()>,
) -> Result<()> {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let (dir, numbers) = match parse(&name) {
        Some(FileKind::Wal(number)) => (path.parent().unwrap_or(Path::new("")), vec![number]),
        _ if name.ends_with(".log") => {
            let why = format!("'{name}' is not named like one (000007.log)");
            return Err(Error::invalid("log segment", why));
        }
        _ => (path, segment_numbers(fs, path)?),
    };
    let headers = headers_in_order(fs, dir, &numbers, &mut visit)?;
    scan(fs, dir, &headers, &mut |scanned| match scanned {
        Scanned::Record { place, bytes } => match decode(dir, place, bytes) {
            Ok(record) => visit(LogItem::Record(record)),
            Err(damage) => visit(LogItem::Damage(damage)),
        },
        Scanned::Headless { place } => {
            visit(note(dir, place, "the end of a batch that began in a segment before it; skipped"))
        }
        Scanned::Broken { place } => visit(note(dir, place, "a batch that is not whole; skipped")),
        Scanned::Gap { place, found } => visit(LogItem::Damage(damage_at(dir, place, found))),
        Scanned::Tail { place, found } => {
            visit(note(dir, place, &format!("the log ends here, with other bytes behind: {found}")))
        }
    })
}

fn note(dir: &Path, place: RecordPlace, what: &str) -> LogItem<'static> {
    LogItem::Note { path: wal_path(dir, place.segment), offset: place.offset, what: what.to_owned() }
}

/// The segments that were begun, linked backwards from the newest; about the others `visit` is told.
pub(crate) fn headers_in_order(
    fs: &dyn FileSystem,
    dir: &Path,
    numbers: &[FileNumber],
    visit: &mut impl FnMut(LogItem<'_>) -> Result<()>,
) -> Result<Vec<SegmentHeader>> {
    let mut begun: Vec<SegmentHeader> = Vec::new();
    for &number in numbers {
        let place = RecordPlace { segment: number, offset: 0 };
        match read_header(fs, dir, number)? {
            HeaderFound::Begun(header) => begun.push(header),
            HeaderFound::Prepared => visit(note(dir, place, "a segment that was prepared and not begun"))?,
            HeaderFound::Bad(found) => visit(LogItem::Damage(damage_at(dir, place, found)))?,
        }
    }
    let Some(&newest) = begun.last() else { return Ok(begun) };
    let mut linked = vec![newest];
    while let Some(oldest) = linked.last().copied() {
        match begun.iter().find(|header| header.number == oldest.previous && header.log_id == oldest.log_id) {
            Some(before) => linked.push(*before),
            None => break,
        }
    }
    linked.reverse();
    for header in begun.iter().filter(|header| !linked.iter().any(|other| other.number == header.number)) {
        let place = RecordPlace { segment: header.number, offset: 0 };
        visit(note(dir, place, "a segment that the newest one is not a continuation of; skipped"))?;
    }
    Ok(linked)
}

fn decode<'a>(dir: &Path, place: RecordPlace, bytes: &'a [u8]) -> Result<LogRecord<'a>> {
    let damaged = |found| damage_at(dir, place, found);
    let mut reader = BatchReader::new(bytes).map_err(damaged)?;
    let mut entries = Vec::new();
    while let Some(entry) = reader.next().map_err(damaged)? {
        let kind = EntryKind::of(entry.value_type);
        entries.push(LogEntry { kind, family: entry.family, key: entry.key, value: entry.value });
    }
    Ok(LogRecord {
        path: wal_path(dir, place.segment),
        offset: place.offset,
        bytes: bytes.len() as u64,
        first_sequence: reader.first,
        entries,
    })
}
