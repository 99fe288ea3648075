//! Reading the stream back: which segments it runs through, where it ends, and why there.
//!
//! ```text
//!   1  list the segments from `first_needed` on, leave out those that an earlier recovery left out
//!   2  sync them and the directory: what is read is what the next open reads
//!   3  read the headers; link them backwards from the newest, each names the one before it
//!   4  read fragments forwards; whole records go to the sink
//!   5  at the first place that holds no fragment: is it the end, a torn tail, or damage to synced bytes?
//! ```
//!
//! Synced bytes are proved by the manifest ([`WalFacts`]), by the header of a later segment, and by a fragment behind
//! the place that claims more than the place was synced. What the caller wants done about damage: [`RecoveryMode`].
//! A segment that is missing from the middle is refused in every mode.
//!
//! Steps 1 to 3 are [`super::chain`]'s. Neither file knows what a record holds.

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

use std::path::Path;

use super::chain::{Chain, Stop};
use super::facts::{RecoveredEnd, SyncedPosition, WalEdit, WalFacts};
use super::format::{HEADER_LEN, Kind, ROOM_MIN, SegmentHeader};
use super::reader::SegmentReader;
use super::scan::RecordPlace;
use super::segments::LiveSegment;
use crate::env::FileSystem;
use crate::error::{Corruption, Error, Result};
use crate::filename::wal_path;
use crate::key::SequenceNumber;
use crate::options::RecoveryMode;
use crate::version::FileNumber;

/// What to replay, and how.
pub(crate) struct ReplayRequest<'a> {
    pub(crate) fs: &'a dyn FileSystem,
    pub(crate) dir: &'a Path,
    pub(crate) facts: &'a WalFacts,
    pub(crate) mode: RecoveryMode,
    /// Nothing is synced first, so nothing is written; for read-only opens.
    pub(crate) read_only: bool,
}

/// Where the stream ended.
#[derive(Debug, Default)]
pub(crate) struct ReplayEnd {
    /// The segment that holds the end; 0 when no segment has been begun.
    pub(crate) segment: FileNumber,
    /// Bytes of the stream up to the end of the last whole record.
    pub(crate) stream_bytes: u64,
    /// Records handed to the sink.
    pub(crate) records: u64,
    /// Bytes of the stream behind the end that are known to have been there.
    pub(crate) bytes_dropped: u64,
    /// With [`RecoveryMode::PointInTime`]: the damage at which replay stopped. The caller must refuse to open if an
    /// SST already holds data from beyond the last replayed record.
    pub(crate) damage: Option<Error>,
    /// Segments that hold the stream, in order.
    pub(crate) live: Vec<LiveSegment>,
    /// All other segment files of the directory but those in quarantine: to be removed once the edit is synced.
    pub(crate) dead: Vec<FileNumber>,
}

impl ReplayEnd {
    /// What the manifest must hold before the first append after this recovery is acknowledged, so that each
    /// reopen ends replay at the same place. `fresh` is the segment in which writing goes on.
    pub(crate) fn edit(&self, fresh: FileNumber, last_seq: SequenceNumber) -> WalEdit {
        let (segment, stream_bytes) = (self.segment, self.stream_bytes);
        WalEdit {
            log_id: None,
            first_needed: Some(self.live.first().map_or(fresh, |segment| segment.number)),
            recovered: Some(RecoveredEnd { segment, stream_bytes, next_segment: fresh }),
            synced: Some(SyncedPosition { segment, stream_bytes, seq: last_seq }),
            quarantined: Vec::new(),
        }
    }
}

/// Replays the log: hands every whole record with its place, in order, to `sink`.
///
/// # Errors
///
/// [`Error::Corruption`] naming file and offset, as the mode has it; [`Error::Io`] when reading fails; whatever
/// `sink` returns.
pub(crate) fn replay(
    request: &ReplayRequest<'_>,
    mut sink: impl FnMut(RecordPlace, &[u8]) -> Result<()>,
) -> Result<ReplayEnd> {
    let chain = Chain::find(request)?;
    let mut stream = Stream {
        request,
        proved: chain.proved,
        segment: chain.headers.first().map_or(FileNumber(0), |header| header.number),
        stream_bytes: chain.start,
        records: 0,
        record: Record {
            state: State::Start,
            began: RecordPlace { segment: FileNumber(0), offset: 0 },
            bytes: Vec::new(),
        },
    };
    let stop = stream.read(&chain, &mut sink)?;
    let (bytes_dropped, damage) = stream.judge(&chain, &stop)?;
    Ok(stream.end(&chain, bytes_dropped, damage))
}

/// How reading a segment, or the stream, came to its end.
enum Ended {
    /// All of it was read.
    Whole,
    /// A clean close left its mark here; nothing follows.
    Closed(Stop),
    /// Here is no fragment.
    NoFragment(Stop),
}

/// The stream as far as it was read.
struct Stream<'a> {
    request: &'a ReplayRequest<'a>,
    /// Bytes of the stream that are proved to have been synced.
    proved: u64,
    /// The segment and position of the end of the last whole record.
    segment: FileNumber,
    stream_bytes: u64,
    records: u64,
    record: Record,
}

impl Stream<'_> {
    /// Step 4.
    fn read(
        &mut self,
        chain: &Chain,
        sink: &mut dyn FnMut(RecordPlace, &[u8]) -> Result<()>,
    ) -> Result<Ended> {
        for (i, header) in chain.headers.iter().enumerate() {
            let cut = chain.cut_of(i, self.request.facts);
            match self.read_segment(header, cut, sink)? {
                Ended::Whole => {}
                stop => return Ok(stop),
            }
        }
        Ok(Ended::Whole)
    }

    /// Reads a segment up to `cut`, where a later one takes over, or to its end.
    fn read_segment(
        &mut self,
        header: &SegmentHeader,
        cut: Option<u64>,
        sink: &mut dyn FnMut(RecordPlace, &[u8]) -> Result<()>,
    ) -> Result<Ended> {
        let ReplayRequest { fs, dir, facts, .. } = *self.request;
        let mut reader = SegmentReader::open(fs, dir, header.number, facts.log_id)?;
        let full = header.end().unwrap_or(u64::MAX);
        let end = cut.unwrap_or(full);
        let offset_of = |position: u64| HEADER_LEN as u64 + position - header.start;
        let stop = |position: u64, found| {
            let offset = offset_of(position);
            Stop { number: header.number, offset, position, found }
        };
        if end < header.start || end > full {
            let found = Corruption::bad("end of the segment", format!("{} to {full}", header.start), end);
            return Ok(Ended::NoFragment(stop(header.start, found)));
        }
        let mut position = header.start;
        while position < end {
            if full - position < ROOM_MIN {
                position = full; // padding
                continue;
            }
            let fragment = match reader.fragment(offset_of(position), offset_of(end))? {
                Ok(fragment) => fragment,
                Err(found) => return Ok(Ended::NoFragment(stop(position, found))),
            };
            self.proved = self.proved.max(fragment.synced.unwrap_or(0).min(position));
            if fragment.kind == Kind::End {
                let found =
                    Corruption::bad("fragment", "the rest of the log", "the end mark of a clean close");
                return Ok(Ended::Closed(stop(position, found)));
            }
            let Some(next) = self.record.state.after(fragment.kind) else {
                let found =
                    Corruption::bad("fragment", self.record.state.expected(), format!("{:?}", fragment.kind));
                return Ok(Ended::NoFragment(stop(position, found)));
            };
            let was_open = self.record.state == State::Open;
            self.record.state = next;
            let here = RecordPlace { segment: header.number, offset: offset_of(position) };
            position += fragment.len;
            match fragment.kind {
                Kind::Full => sink(here, fragment.payload)?,
                Kind::Last if was_open => {
                    self.record.bytes.extend_from_slice(fragment.payload);
                    sink(self.record.began, &self.record.bytes)?;
                }
                Kind::First => {
                    self.record.began = here;
                    self.record.bytes.clear();
                    self.record.bytes.extend_from_slice(fragment.payload);
                }
                Kind::Middle if was_open => self.record.bytes.extend_from_slice(fragment.payload),
                _ => {}
            }
            if next == State::Between {
                self.records += u64::from(fragment.kind == Kind::Full || was_open);
                self.stream_bytes = position;
                self.segment = header.number;
            }
        }
        if position > end {
            let found = Corruption::bad("end of the segment", end.to_string(), position);
            return Ok(Ended::NoFragment(stop(end, found)));
        }
        Ok(Ended::Whole)
    }

    /// Step 5: the bytes dropped and the damage met, or a refusal.
    fn judge(&mut self, chain: &Chain, ended: &Ended) -> Result<(u64, Option<Error>)> {
        let behind = chain.behind(self.stream_bytes, self.request.facts);
        let stop = match ended {
            Ended::Whole => &behind,
            Ended::Closed(stop) | Ended::NoFragment(stop) => stop,
        };
        let position = stop.position;
        if self.proved <= position {
            let here = matches!(ended, Ended::NoFragment(_)).then_some(stop);
            self.proved = self.proved.max(chain.claims(self.request, here, position)?);
        }
        let path = wal_path(self.request.dir, stop.number);
        let refusal = Error::corrupt(&path, stop.offset, stop.found.clone());
        let dropped = self.proved.max(position).saturating_sub(self.stream_bytes);
        if self.proved > position {
            if matches!(ended, Ended::Whole | Ended::Closed(_)) {
                chain.check_synced_segment(self.request)?;
            }
            return match self.request.mode {
                RecoveryMode::PointInTime => Ok((dropped, Some(refusal))),
                RecoveryMode::TolerateTail | RecoveryMode::Absolute => Err(refusal),
            };
        }
        if self.request.mode == RecoveryMode::Absolute && !self.is_clean(chain, ended)? {
            return Err(refusal);
        }
        Ok((dropped, None))
    }

    /// Whether the stream ends as a log that was not torn ends: between records, with bytes never written behind.
    fn is_clean(&self, chain: &Chain, ended: &Ended) -> Result<bool> {
        if matches!(self.record.state, State::Open | State::Skipping) {
            return Ok(false);
        }
        let ReplayRequest { fs, dir, facts, .. } = *self.request;
        if let Ended::NoFragment(stop) = ended {
            let mut reader = SegmentReader::open(fs, dir, stop.number, facts.log_id)?;
            if !reader.is_zero_from(stop.offset)? {
                return Ok(false);
            }
        }
        Ok(matches!(ended, Ended::Closed(_)) || chain.rest_is_prepared())
    }

    fn end(self, chain: &Chain, bytes_dropped: u64, damage: Option<Error>) -> ReplayEnd {
        let live = |header: &SegmentHeader| LiveSegment {
            number: header.number,
            start: header.start,
            capacity: header.capacity,
        };
        let live: Vec<_> =
            chain.headers.iter().filter(|header| header.number <= self.segment).map(live).collect();
        let is_dead = |number: &FileNumber| {
            !live.iter().any(|live| live.number == *number)
                && !self.request.facts.quarantined.contains(number)
        };
        let dead = chain.all.iter().copied().filter(is_dead).collect();
        ReplayEnd {
            segment: self.segment,
            stream_bytes: self.stream_bytes,
            records: self.records,
            bytes_dropped,
            damage,
            live,
            dead,
        }
    }
}

/// The record that is being put together.
struct Record {
    state: State,
    began: RecordPlace,
    bytes: Vec<u8>,
}

/// Where reading stands between the pieces of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// At the first fragment of all: it may continue a record that began in a segment no longer needed.
    Start,
    /// In such a record, which is skipped.
    Skipping,
    /// In a record.
    Open,
    /// Behind a whole record.
    Between,
}

impl State {
    /// The state behind a fragment of this kind; `None` where it may not stand.
    fn after(self, kind: Kind) -> Option<Self> {
        match (self, kind) {
            (Self::Start | Self::Between, Kind::Full) => Some(Self::Between),
            (Self::Start | Self::Between, Kind::First) | (Self::Open, Kind::Middle) => Some(Self::Open),
            (Self::Start | Self::Skipping, Kind::Middle) => Some(Self::Skipping),
            (Self::Start | Self::Skipping | Self::Open, Kind::Last) => Some(Self::Between),
            _ => None,
        }
    }

    fn expected(self) -> &'static str {
        match self {
            Self::Start => "any piece of a record",
            Self::Between => "the beginning of a record",
            Self::Skipping | Self::Open => "the continuation of a record",
        }
    }
}
