//! The log of a database that is open for reading only: it was replayed, and takes nothing.

use std::path::Path;
use std::sync::Arc;

use super::append::Tail;
use super::format::{ROOM_MIN, SegmentHeader};
use super::replay::ReplayEnd;
use super::segments::{SegmentFile, Segments};
use super::writer::{Counters, Wal};
use crate::durability::{Durability, Position};
use crate::env::{FileSystem, RefusingFile};
use crate::error::Error;
use crate::filename::wal_path;
use crate::key::SequenceNumber;
use crate::sync::Mutex;

impl Wal {
    /// The log as replay left it. Every append, flush and sync is refused with `refusal`; no file is made or touched.
    pub(crate) fn read_only(
        fs: Arc<dyn FileSystem>,
        dir: &Path,
        log_id: u64,
        end: &ReplayEnd,
        last_seq: SequenceNumber,
        refusal: Error,
    ) -> Self {
        let capacity = 2 * ROOM_MIN + 1; // of a segment that nothing is written to
        let number = end.segment;
        let no_numbers = Arc::new(move || number);
        let segments = Segments::new(fs, dir, capacity, 0, no_numbers, end.live.clone());
        let segment =
            Arc::new(SegmentFile { number, path: wal_path(dir, number), file: Box::new(RefusingFile) });
        let start = Position { bytes: end.stream_bytes, seq: last_seq };
        let header = SegmentHeader {
            number,
            log_id,
            previous: number,
            start: start.bytes,
            synced: start.bytes,
            capacity,
        };
        let durability = Durability::new(start);
        durability.fail(refusal);
        Self {
            log_id,
            buffer_bytes: 0,
            segments,
            durability,
            written_file: Mutex::new(Arc::clone(&segment)),
            tail: Mutex::across_io(Tail::begin(segment, &header, start, Vec::new())),
            syncing: Mutex::across_io(()),
            #[cfg(feature = "bench-arms")]
            unsynced: Mutex::default(),
            room: std::sync::atomic::AtomicU64::new(0),
            counters: Counters::default(),
        }
    }
}
