//! Reading segments for their own sake: what each file holds, whatever the manifest thinks of it.
//!
//! [`replay`](fn@super::replay) decides what the log is and stops at its end; this goes on behind damage, to the next
//! fragment whose checksum holds, and says what was passed over. For dumps, verification and repair.
//!
//! A file is believed about itself: the log id that its checksums are mixed with is the one in its header.

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

use std::path::Path;

use super::format::{HEADER_LEN, HeaderFound, Kind, ROOM_MIN, SegmentHeader, peek_fragment};
use super::reader::SegmentReader;
use crate::env::FileSystem;
use crate::error::{Corruption, Error, Result};
use crate::filename::{FileKind, parse, wal_path};
use crate::version::FileNumber;

/// Where a record begins: the first byte of its first fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordPlace {
    pub(crate) segment: FileNumber,
    /// Offset in the file.
    pub(crate) offset: u64,
}

/// What a scan comes upon.
#[derive(Debug)]
pub(crate) enum Scanned<'a> {
    /// A whole record.
    Record { place: RecordPlace, bytes: &'a [u8] },
    /// A record of which the beginning is not among what is scanned.
    Headless { place: RecordPlace },
    /// A record that is not whole although more fragments follow.
    Broken { place: RecordPlace },
    /// No fragment here; further on there is one again.
    Gap { place: RecordPlace, found: Corruption },
    /// No fragment from here to the segment's end, and not only zeros.
    Tail { place: RecordPlace, found: Corruption },
}

/// The header of the segment in `path`, as the file itself has it.
pub(crate) fn read_header(fs: &dyn FileSystem, dir: &Path, number: FileNumber) -> Result<HeaderFound> {
    let mut reader = SegmentReader::open(fs, dir, number, 0)?;
    reader.own_header(number)
}

/// The numbers of all segment files in `dir`, ascending.
pub(crate) fn segment_numbers(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<FileNumber>> {
    let names = fs.list(dir).map_err(|error| Error::io("list", dir, error))?;
    let number = |name: &String| match parse(name) {
        Some(FileKind::Wal(number)) => Some(number),
        _ => None,
    };
    let mut numbers: Vec<_> = names.iter().filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Scans `headers`, which follow each other in one stream, and hands what it comes upon to `visit`.
pub(crate) fn scan(
    fs: &dyn FileSystem,
    dir: &Path,
    headers: &[SegmentHeader],
    visit: &mut dyn FnMut(Scanned<'_>) -> Result<()>,
) -> Result<()> {
    let mut scan = Scan { record: Vec::new(), open: None, visit };
    for (i, header) in headers.iter().enumerate() {
        let full = header.end().unwrap_or(u64::MAX);
        let next = headers.get(i + 1);
        // A segment after this one begins where this one's part of the stream ends.
        let end =
            next.filter(|next| next.previous == header.number).map_or(full, |next| next.start.min(full));
        if i > 0
            && next.is_some()
            && header.previous != headers.get(i - 1).map_or(FileNumber(0), |h| h.number)
        {
            scan.abandon()?;
        }
        scan.segment(fs, dir, header, HEADER_LEN as u64 + end.saturating_sub(header.start))?;
    }
    Ok(())
}

struct Scan<'v> {
    /// The record that is being put together, and where it began.
    record: Vec<u8>,
    open: Option<RecordPlace>,
    visit: &'v mut dyn FnMut(Scanned<'_>) -> Result<()>,
}

impl Scan<'_> {
    /// Scans one segment up to the offset `end`.
    fn segment(&mut self, fs: &dyn FileSystem, dir: &Path, header: &SegmentHeader, end: u64) -> Result<()> {
        let mut reader = SegmentReader::open(fs, dir, header.number, header.log_id)?;
        let full = HEADER_LEN as u64 + header.capacity;
        let mut at = HEADER_LEN as u64;
        while at < end && full.saturating_sub(at) >= ROOM_MIN {
            let place = RecordPlace { segment: header.number, offset: at };
            match reader.fragment(at, end)? {
                Ok(fragment) => {
                    let (kind, len) = (fragment.kind, fragment.len);
                    let payload = fragment.payload;
                    match kind {
                        Kind::End => return Ok(()),
                        Kind::Full => {
                            self.abandon()?;
                            (self.visit)(Scanned::Record { place, bytes: payload })?;
                        }
                        Kind::First => {
                            self.abandon()?;
                            self.open = Some(place);
                            self.record.extend_from_slice(payload);
                        }
                        Kind::Middle | Kind::Last => self.continue_record(place, kind, payload)?,
                    }
                    at += len;
                }
                Err(found) => {
                    if reader.is_zero_from(at)? {
                        return Ok(());
                    }
                    let Some(next) = next_fragment(&mut reader, at, end)? else {
                        return (self.visit)(Scanned::Tail { place, found });
                    };
                    (self.visit)(Scanned::Gap { place, found })?;
                    at = next;
                }
            }
        }
        Ok(())
    }

    fn continue_record(&mut self, place: RecordPlace, kind: Kind, payload: &[u8]) -> Result<()> {
        let Some(began) = self.open else {
            return if kind == Kind::Last { (self.visit)(Scanned::Headless { place }) } else { Ok(()) };
        };
        self.record.extend_from_slice(payload);
        if kind == Kind::Last {
            (self.visit)(Scanned::Record { place: began, bytes: &self.record })?;
            self.open = None;
            self.record.clear();
        }
        Ok(())
    }

    /// What was begun does not go on.
    fn abandon(&mut self) -> Result<()> {
        self.record.clear();
        self.open.take().map_or(Ok(()), |place| (self.visit)(Scanned::Broken { place }))
    }
}

/// The first offset behind `at` where a fragment begins whose checksum holds. Work is bounded, so that values made to
/// look like fragments cannot keep it busy.
fn next_fragment(reader: &mut SegmentReader, at: u64, end: u64) -> Result<Option<u64>> {
    // Damage in a payload leaves the lengths right.
    if let Some(next) = reader.length_at(at)?.map(|len| at + len).filter(|next| *next < end)
        && reader.fragment(next, end)?.is_ok()
    {
        return Ok(Some(next));
    }
    let mut budget = 1_u64 << 30;
    for place in at + 1..end {
        let Some(len) = reader.length_at(place)?.filter(|len| place + len <= end) else { continue };
        if reader.fragment(place, end)?.is_ok() {
            return Ok(Some(place));
        }
        budget = budget.saturating_sub(len);
        if budget == 0 {
            break;
        }
    }
    Ok(None)
}

impl SegmentReader {
    /// Bytes of the fragment that would begin at `offset`, its checksum not looked at.
    fn length_at(&mut self, offset: u64) -> Result<Option<u64>> {
        let bytes = self.peek(offset, super::format::FRAGMENT_HEADER_MAX)?;
        Ok(peek_fragment(bytes)
            .map(|(_, synced, len)| (super::format::header_len(synced.is_some()) + len) as u64))
    }

    /// The header as the file itself has it: of whatever log it is.
    fn own_header(&mut self, number: FileNumber) -> Result<HeaderFound> {
        let bytes = self.peek(0, HEADER_LEN)?;
        Ok(SegmentHeader::parse_own(bytes, number))
    }
}

/// Bytes of the stream in front of `place`, which is in one of `headers`.
pub(crate) fn stream_position(headers: &[SegmentHeader], place: RecordPlace) -> Option<u64> {
    let header = headers.iter().find(|header| header.number == place.segment)?;
    Some(header.start + place.offset.saturating_sub(HEADER_LEN as u64))
}

/// Damage in a segment of `dir`.
pub(crate) fn damage_at(dir: &Path, place: RecordPlace, found: Corruption) -> Error {
    Error::corrupt(&wal_path(dir, place.segment), place.offset, found)
}
