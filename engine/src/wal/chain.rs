//! [`Chain`]: which segments the stream runs through, and what the others still prove.
//!
//! Each begun segment names the one before it. Linked backwards from the newest, they are the stream; what an earlier
//! recovery left out is not linked, a link to a file that is not there is refused, and a link to a file whose
//! header is damaged breaks the chain there.
//!
//! Steps 1 to 3 of [`super::replay`](mod@super::replay); no fragment is read here but to look for claims behind a damaged place.

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

use std::path::Path;

use super::facts::WalFacts;
use super::format::{HEADER_LEN, HeaderFound, SegmentHeader};
use super::reader::SegmentReader;
use super::replay::ReplayRequest;
use crate::env::FileSystem;
use crate::error::{Corruption, Error, Result};
use crate::filename::{FileKind, parse, wal_path};
use crate::version::FileNumber;

/// A place where the stream does not go on.
#[derive(Debug, Clone)]
pub(super) struct Stop {
    pub(super) number: FileNumber,
    /// Offset in the file.
    pub(super) offset: u64,
    /// Position in the stream.
    pub(super) position: u64,
    /// Why it does not.
    pub(super) found: Corruption,
}

/// A file whose header is not that of a begun segment of its number.
struct Unbegun {
    number: FileNumber,
    found: HeaderFound,
    size: u64,
}

/// The segments of the stream, in order.
pub(super) struct Chain {
    pub(super) headers: Vec<SegmentHeader>,
    /// Position at which the first one begins, or would begin.
    pub(super) start: u64,
    /// Bytes of the stream that the manifest and the headers prove to have been synced.
    pub(super) proved: u64,
    /// Every segment file of the directory.
    pub(super) all: Vec<FileNumber>,
    unbegun: Vec<Unbegun>,
    /// A damaged header behind the last segment of the chain, named by one that is out of reach.
    broken: Option<(FileNumber, Corruption)>,
}

impl Chain {
    /// Lists, syncs, and links the segments.
    pub(super) fn find(request: &ReplayRequest<'_>) -> Result<Self> {
        let ReplayRequest { fs, dir, facts, .. } = *request;
        let names = fs.list(dir).map_err(|error| Error::io("list", dir, error))?;
        let mut all: Vec<_> = names.iter().filter_map(|name| segment_number(name)).collect();
        all.sort_unstable();
        let is_left_out = |number: FileNumber| {
            facts.recovered.is_some_and(|end| number > end.segment && number < end.next_segment)
                || facts.quarantined.contains(&number)
        };
        let is_relevant =
            |number: FileNumber| facts.log_id != 0 && number >= facts.first_needed && !is_left_out(number);
        let relevant: Vec<_> = all.iter().copied().filter(|number| is_relevant(*number)).collect();
        if !request.read_only && !relevant.is_empty() {
            sync_all(fs, dir, &relevant)?;
        }
        let recovered = facts.recovered.map_or(0, |end| end.stream_bytes);
        let mut chain = Self {
            headers: Vec::new(),
            start: 0,
            proved: recovered.max(facts.synced.map_or(0, |synced| synced.stream_bytes)),
            all,
            unbegun: Vec::new(),
            broken: None,
        };
        let mut begun = Vec::new();
        for number in relevant {
            let mut reader = SegmentReader::open(fs, dir, number, facts.log_id)?;
            match reader.header(number, facts.log_id)? {
                HeaderFound::Begun(header) => begun.push(header),
                found => chain.unbegun.push(Unbegun { number, found, size: reader.size() }),
            }
        }
        for header in &begun {
            chain.proved = chain.proved.max(header.synced);
        }
        if facts.log_id != 0 {
            chain.link(request, begun)?;
        }
        Ok(chain)
    }

    /// Links `begun` backwards from the newest to the first needed one.
    fn link(&mut self, request: &ReplayRequest<'_>, mut begun: Vec<SegmentHeader>) -> Result<()> {
        let (dir, first) = (request.dir, request.facts.first_needed);
        while let Some(header) = begun.pop() {
            self.headers.push(header);
            let previous = header.previous;
            if header.number == first || previous < first {
                break;
            }
            // What lies between was left out by an earlier recovery.
            begun.retain(|other| other.number <= previous);
            if begun.last().is_some_and(|other| other.number == previous) {
                continue;
            }
            let named_by = wal_path(dir, header.number).display().to_string();
            let Some(other) = self.unbegun.iter().find(|other| other.number == previous) else {
                return Err(missing(dir, previous, named_by));
            };
            self.broken = Some((previous, describe(&other.found)));
            self.headers.clear();
        }
        self.headers.reverse();
        if self.headers.first().is_none_or(|header| header.number != first) {
            // Nothing was written since the first needed segment was prepared, or its header is damaged.
            let Some(other) = self.unbegun.iter().find(|other| other.number == first) else {
                return Err(missing(dir, first, "the manifest".to_owned()));
            };
            if !self.headers.is_empty() {
                self.headers.clear();
                self.broken = Some((first, describe(&other.found)));
            }
        }
        let before_first = |number: FileNumber| number < first;
        let facts = request.facts;
        let synced = facts
            .synced
            .filter(|synced| before_first(synced.segment))
            .map_or(0, |synced| synced.stream_bytes);
        let prepared_at = synced.max(facts.recovered.map_or(0, |end| end.stream_bytes));
        self.start = self.headers.first().map_or(prepared_at, |header| header.start);
        Ok(())
    }

    /// Where the segment at `index` of the chain ends before it is full, because a later one takes over.
    pub(super) fn cut_of(&self, index: usize, facts: &WalFacts) -> Option<u64> {
        if let Some(next) = self.headers.get(index + 1) {
            return Some(next.start);
        }
        let number = self.headers.get(index)?.number;
        facts.recovered.filter(|end| end.segment == number).map(|end| end.stream_bytes)
    }

    /// The place behind the chain when all of it was read.
    pub(super) fn behind(&self, read: u64, facts: &WalFacts) -> Stop {
        let last = self.headers.last();
        let position = match last {
            Some(last) => self.cut_of(self.headers.len() - 1, facts).or(last.end()).unwrap_or(read),
            None => self.start,
        };
        if let Some((number, found)) = self.broken.clone() {
            return Stop { number, offset: 0, position, found };
        }
        let is_bad = |other: &&Unbegun| {
            matches!(other.found, HeaderFound::Bad(_)) && last.is_none_or(|last| other.number > last.number)
        };
        if let Some(other) = self.unbegun.iter().find(is_bad) {
            return Stop { number: other.number, offset: 0, position, found: describe(&other.found) };
        }
        let start = last.map_or(position, |last| last.start);
        Stop {
            number: last.map_or(facts.first_needed, |last| last.number),
            offset: HEADER_LEN as u64 + position.saturating_sub(start),
            position,
            found: Corruption::bad("log", "the bytes behind this place, which were synced", "its end"),
        }
    }

    /// The furthest position that fragments behind `position`, where the last segment of the chain ends or stops,
    /// claim to have been synced; 0 if none goes beyond it. They may be in the rest of that segment (from `here`
    /// on, if it has a rest) and in later files whose header is not valid.
    pub(super) fn claims(
        &self,
        request: &ReplayRequest<'_>,
        here: Option<&Stop>,
        position: u64,
    ) -> Result<u64> {
        let ReplayRequest { fs, dir, facts, .. } = *request;
        let mut best = 0;
        let mut furthest = position;
        if let Some(here) = here {
            let mut reader = SegmentReader::open(fs, dir, here.number, facts.log_id)?;
            best = best.max(reader.synced_claim(here.offset, position, furthest)?.unwrap_or(0));
            furthest = furthest.saturating_add(reader.size());
        }
        let is_later = |number: FileNumber| self.headers.last().is_none_or(|last| number > last.number);
        for other in self.unbegun.iter().filter(|other| is_later(other.number)) {
            let mut reader = SegmentReader::open(fs, dir, other.number, facts.log_id)?;
            let claim = reader.synced_claim(HEADER_LEN as u64, position, furthest)?;
            best = best.max(claim.unwrap_or(0));
            furthest = furthest.saturating_add(other.size);
        }
        Ok(best)
    }

    /// The stream ended too early: refuses if that is because the segment that the manifest names as synced is gone.
    pub(super) fn check_synced_segment(&self, request: &ReplayRequest<'_>) -> Result<()> {
        let facts = request.facts;
        match facts.synced {
            Some(synced) if synced.segment >= facts.first_needed && !self.all.contains(&synced.segment) => {
                Err(missing(request.dir, synced.segment, "the manifest".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Whether the files that do not belong to the chain were prepared and never written to.
    pub(super) fn rest_is_prepared(&self) -> bool {
        self.unbegun.iter().all(|other| other.found == HeaderFound::Prepared)
    }
}

fn segment_number(name: &str) -> Option<FileNumber> {
    match parse(name) {
        Some(FileKind::Wal(number)) => Some(number),
        _ => None,
    }
}

fn missing(dir: &Path, number: FileNumber, named_by: String) -> Error {
    Error::corrupt(&wal_path(dir, number), 0, Corruption::Missing { named_by })
}

fn describe(found: &HeaderFound) -> Corruption {
    match found {
        HeaderFound::Bad(found) => found.clone(),
        _ => Corruption::bad("segment header", "that of a begun segment", "none"),
    }
}

/// What is read now is what the next open reads: the segments and their names are synced before they are believed.
fn sync_all(fs: &dyn FileSystem, dir: &Path, numbers: &[FileNumber]) -> Result<()> {
    for number in numbers {
        let path = wal_path(dir, *number);
        let file = fs.open_writable(&path).map_err(|error| Error::io("open", &path, error))?;
        file.sync().map_err(|error| Error::io("sync", &path, error))?;
    }
    fs.sync_dir(dir).map_err(|error| Error::io("sync", dir, error))
}
