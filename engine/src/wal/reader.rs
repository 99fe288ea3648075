//! [`SegmentReader`]: one segment's header, its fragments one by one, and what a damaged segment still proves.
//!
//! Bytes are read through a window that grows to one fragment at most, so that no length is believed, and nothing
//! allocated for it, before its checksum held. A refusal of the operating system is an error of its own and never
//! taken for bad bytes.
//!
//! What the findings mean for the stream is decided in [`super::replay`](mod@super::replay).

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::format::{
    FRAGMENT_HEADER_MAX, FRAGMENT_MAX, Fragment, FragmentSeed, HEADER_LEN, HeaderFound, Kind, SegmentHeader,
    parse_fragment, peek_fragment,
};
use crate::env::{FileSystem, ReadableFile};
use crate::error::{Corruption, Error, Result};
use crate::filename::wal_path;
use crate::version::FileNumber;

/// Longest fragment in bytes, header included.
const WINDOW_MAX: usize = FRAGMENT_HEADER_MAX + FRAGMENT_MAX;
/// Bytes read at once where no fragment asks for more.
const WINDOW_STEP: usize = 128 << 10;

/// Reads one segment.
pub(super) struct SegmentReader {
    path: PathBuf,
    file: Arc<dyn ReadableFile>,
    size: u64,
    seed: FragmentSeed,
    window: Vec<u8>,
    window_at: u64,
}

impl SegmentReader {
    pub(super) fn open(fs: &dyn FileSystem, dir: &Path, number: FileNumber, log_id: u64) -> Result<Self> {
        let path = wal_path(dir, number);
        let file = fs.open_readable(&path).map_err(|error| Error::io("open", &path, error))?;
        let size = file.size().map_err(|error| Error::io("measure", &path, error))?;
        let seed = FragmentSeed::new(log_id, number);
        Ok(Self { path, file, size, seed, window: Vec::new(), window_at: 0 })
    }

    pub(super) fn header(&mut self, number: FileNumber, log_id: u64) -> Result<HeaderFound> {
        let bytes = self.peek(0, HEADER_LEN)?;
        Ok(SegmentHeader::parse(bytes, number, log_id))
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The bytes at `offset`, as many as the file has of `len`.
    pub(super) fn peek(&mut self, offset: u64, len: usize) -> Result<&[u8]> {
        let there = self.size.saturating_sub(offset).min(len as u64) as usize;
        let held = usize::try_from(offset.wrapping_sub(self.window_at)).unwrap_or(usize::MAX);
        let end = held.saturating_add(there);
        if end <= self.window.len() {
            return Ok(self.window.get(held..end).unwrap_or_default());
        }
        let want = self.size.saturating_sub(offset).min(len.max(WINDOW_STEP) as u64) as usize;
        self.window.resize(want, 0);
        self.window_at = offset;
        let read = match self.file.read_at(&mut self.window, offset) {
            Ok(read) => read.min(want),
            Err(error) => {
                self.window.clear();
                return Err(Error::io("read", &self.path, error));
            }
        };
        self.window.truncate(read);
        Ok(self.window.get(..there.min(read)).unwrap_or_default())
    }

    /// The fragment at `offset`, not reaching beyond `end`.
    pub(super) fn fragment(&mut self, offset: u64, end: u64) -> Result<Result<Fragment<'_>, Corruption>> {
        let room = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = match peek_fragment(self.peek(offset, FRAGMENT_HEADER_MAX.min(room))?) {
            Some((_, synced, len)) => super::format::header_len(synced.is_some()) + len,
            None => FRAGMENT_HEADER_MAX,
        };
        let seed = self.seed.clone();
        let bytes = self.peek(offset, wanted.min(room).min(WINDOW_MAX))?;
        Ok(parse_fragment(&seed, offset, bytes))
    }

    /// Whether the file holds nothing but zeros from `offset` on.
    pub(super) fn is_zero_from(&mut self, mut offset: u64) -> Result<bool> {
        while offset < self.size {
            let bytes = self.peek(offset, WINDOW_STEP)?;
            if bytes.iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
            if bytes.is_empty() {
                break;
            }
            offset += bytes.len() as u64;
        }
        Ok(true)
    }

    /// The furthest stream position that a whole fragment somewhere from `offset` on claims to have been synced,
    /// if it is beyond `position`. `furthest` is the largest stream position that `offset` can be.
    ///
    /// Fragments may begin anywhere: the lengths in the damaged part are worth nothing. A claim is looked at only
    /// if it lies beyond `position` and not beyond the place that makes it, which old bytes and chance do not
    /// meet; the checksum, keyed by the database's log id, decides. Work is bounded, so that values made to look
    /// like claims cannot keep an open busy.
    pub(super) fn synced_claim(&mut self, offset: u64, position: u64, furthest: u64) -> Result<Option<u64>> {
        let mut best = None;
        let mut at = offset;
        let mut budget = self.size.saturating_mul(4);
        while at + FRAGMENT_HEADER_MAX as u64 <= self.size && budget > 0 {
            let bytes = self.peek(at, WINDOW_STEP)?;
            let starts = bytes.len().saturating_sub(FRAGMENT_HEADER_MAX - 1);
            if starts == 0 {
                break;
            }
            // The tail of a segment that was never written, often most of it. The last bytes are looked at again.
            if is_zero(bytes) {
                at += starts as u64;
                continue;
            }
            let claims = |window: &[u8], place: u64| {
                let synced = plausible_claim(window)?;
                let furthest = furthest.saturating_add(place - offset);
                (synced > position && synced <= furthest && best.is_none_or(|best| synced > best))
                    .then_some(synced)
            };
            let found = bytes.windows(FRAGMENT_HEADER_MAX).enumerate().find_map(|(i, window)| {
                let place = at + i as u64;
                claims(window, place).map(|synced| (place, synced))
            });
            let Some((place, synced)) = found else {
                at += starts as u64;
                continue;
            };
            if let Ok(fragment) = self.fragment(place, self.size)? {
                best = Some(synced);
                budget = budget.saturating_sub(fragment.len);
            } else {
                budget = budget.saturating_sub(WINDOW_STEP as u64);
            }
            at = place + 1;
        }
        Ok(best)
    }
}

/// Whether all bytes are 0, compared in pieces that the machine compares at once.
fn is_zero(bytes: &[u8]) -> bool {
    const ZEROS: [u8; 256] = [0; 256];
    bytes.chunks(ZEROS.len()).all(|piece| ZEROS.starts_with(piece))
}

/// The claim of a fragment that would begin `bytes`, its checksum not looked at.
#[inline]
fn plausible_claim(bytes: &[u8]) -> Option<u64> {
    match peek_fragment(bytes)? {
        (Kind::Full | Kind::First | Kind::End, Some(synced), _) => Some(synced),
        _ => None,
    }
}
