//! Which bytes of which segments a copy of the log consists of.

use super::format::HEADER_LEN;
use super::writer::Wal;
use crate::version::FileNumber;

/// The first bytes of one segment's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentPart {
    pub(crate) number: FileNumber,
    /// Bytes from the start of the file, its header included.
    pub(crate) bytes: u64,
}

impl Wal {
    /// The log from segment `first_needed` on, as far as it was handed to the kernel. Only while nobody appends.
    pub(crate) fn written_parts(&self, first_needed: FileNumber) -> Vec<SegmentPart> {
        let written = self.durability().watermarks().written.bytes;
        let live = self.segments();
        let part = |(i, segment): (usize, &super::segments::LiveSegment)| {
            let next = live.get(i + 1).map_or(written, |next| next.start);
            let end = next.min(segment.start.saturating_add(segment.capacity));
            SegmentPart {
                number: segment.number,
                bytes: HEADER_LEN as u64 + end.saturating_sub(segment.start),
            }
        };
        live.iter().enumerate().map(part).filter(|part| part.number >= first_needed).collect()
    }
}
