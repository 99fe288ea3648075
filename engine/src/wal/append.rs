//! Appending: cutting records into fragments, and moving through the segments.
//!
//! ```text
//!   records --cut--> fragments --seal--> buffer --hand over--> kernel
//!                                          large payloads ------^
//! ```
//!
//! A group is handed over with one write if it is small, in pieces if it is large. With the last byte that a segment
//! can hold it is synced, before the first byte of the next; the next file is taken only when there is something
//! to put into it.
//!
//! Everything here runs with [`Tail`] locked, on the leader's thread. Syncing and failing are [`super::writer`]'s.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::format::{
    FRAGMENT_HEADER_LEN, FRAGMENT_HEADER_MAX, FRAGMENT_MAX, FragmentHeader, FragmentSeed, HEADER_LEN, Kind,
    ROOM_MIN, SegmentHeader, header_len,
};
use super::segments::SegmentFile;
use super::writer::Wal;
use crate::durability::Position;
use crate::env::writeback_due;
use crate::error::Result;
use crate::key::SequenceNumber;
use crate::version::FileNumber;

/// Bytes after which a group is handed over in pieces: the buffer stays small and warm.
const HAND_OVER_CHUNK: usize = 256 << 10;

/// Bytes that the log adds to a record in one fragment.
pub(crate) const FRAMING: u64 = FRAGMENT_HEADER_LEN as u64;

/// One encoded batch, in two parts so that a header made by the leader needs no copy of the rest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogRecord<'a> {
    pub(crate) head: &'a [u8],
    pub(crate) body: &'a [u8],
    /// The last sequence that the batch takes.
    pub(crate) last_seq: SequenceNumber,
}

/// How far an append pushes its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Push {
    /// Into the log's own buffer.
    Buffer,
    /// To the kernel.
    HandOver,
    /// To the device.
    Sync,
}

/// What an append did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Appended {
    /// The segment in which the group begins: memtables that hold its entries need the log from there on.
    pub(crate) first_segment: FileNumber,
    /// The durable sequence moved: a background job should run
    /// [`deliver`](crate::durability::Durability::deliver).
    pub(crate) durable_moved: bool,
    /// No segment is ready: a background job should run [`Wal::prepare_next`].
    pub(crate) wants_segment: bool,
}

/// The open segment and what is on its way into it.
pub(super) struct Tail {
    pub(super) segment: Arc<SegmentFile>,
    pub(super) seed: FragmentSeed,
    /// Stream bytes before the segment, and those that it can hold.
    pub(super) start: u64,
    capacity: u64,
    /// Appended and not handed over; belongs at `buffer_at` of the file.
    buffer: Vec<u8>,
    buffer_at: u64,
    /// Stream bytes up to the written mark.
    handed_over: u64,
    /// End of the last whole record.
    pub(super) appended: Position,
}

impl Tail {
    /// A tail at the beginning of `segment`, whose header waits in the buffer.
    pub(super) fn begin(
        segment: Arc<SegmentFile>,
        header: &SegmentHeader,
        appended: Position,
        mut buffer: Vec<u8>,
    ) -> Self {
        buffer.clear();
        buffer.extend_from_slice(&header.encode());
        let seed = FragmentSeed::new(header.log_id, header.number);
        let (start, capacity) = (header.start, header.capacity);
        Self { segment, seed, start, capacity, buffer, buffer_at: 0, handed_over: start, appended }
    }

    /// Offset in the file of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.buffer_at + self.buffer.len() as u64
    }

    /// Stream bytes up to the next byte.
    pub(super) fn stream_end(&self) -> u64 {
        self.start + self.offset() - HEADER_LEN as u64
    }

    pub(super) fn room(&self) -> u64 {
        self.start + self.capacity - self.stream_end()
    }

    /// The end of the stream as appended, and the last whole record.
    fn position(&self) -> Position {
        Position { bytes: self.stream_end(), seq: self.appended.seq }
    }

    /// Whether there is anything, but a segment header, behind the written mark.
    pub(super) fn is_ahead(&self) -> bool {
        self.stream_end() > self.handed_over
    }
}

impl Wal {
    /// Makes sure that segments for `records` records of `bytes` payload in all are there, so that an append of
    /// them cannot fail for want of space to create one. For the leader, before it takes its group. A record is
    /// taken to have at least [`ROOM_MIN`] bytes framed. A failure is not sticky and leaves nothing behind.
    pub(crate) fn reserve(&self, records: u64, bytes: u64) -> Result<()> {
        self.durability.check()?;
        self.reserve_from(&self.tail.lock(), records, bytes)
    }

    /// Payload that fits the open segment with certainty, whatever it is cut into. Known to the leader; others may see an
    /// older figure.
    #[inline]
    pub(crate) fn room(&self) -> u64 {
        self.room.load(Ordering::Relaxed) // written by the leader, for the leader
    }

    fn note_room(&self, tail: &Tail) {
        // Half of it for framing: a record has at least as many bytes as its fragment's header.
        self.room.store(tail.room() / 2, Ordering::Relaxed); // see `room`
    }

    fn reserve_from(&self, tail: &Tail, records: u64, bytes: u64) -> Result<()> {
        let framing = records * FRAGMENT_HEADER_LEN as u64
            + (bytes / FRAGMENT_MAX as u64) * FRAGMENT_HEADER_LEN as u64
            + (FRAGMENT_HEADER_MAX - FRAGMENT_HEADER_LEN) as u64;
        let (need, room) = (bytes + framing, tail.room());
        if need <= room {
            return Ok(());
        }
        let beyond = need + ROOM_MIN + FRAGMENT_HEADER_LEN as u64 - room;
        // Each further segment loses a fragment header to the cut and less than ROOM_MIN to padding.
        let usable = tail.capacity - ROOM_MIN - FRAGMENT_HEADER_LEN as u64;
        self.segments.prepare_inline(usize::try_from(beyond.div_ceil(usable)).unwrap_or(usize::MAX))
    }

    /// Appends a group of records in order and pushes it as far as `push` says. For the leader alone.
    ///
    /// # Errors
    ///
    /// Failing to create a segment leaves the group unwritten and the log open. Any other error is sticky: the
    /// group may or may not be found after a reopen, and everything later is refused with the same error until
    /// [`begin_anew`](Self::begin_anew) and [`reopen`](Self::reopen).
    pub(crate) fn append<'a, I>(&self, records: I, push: Push) -> Result<Appended>
    where
        I: Iterator<Item = LogRecord<'a>> + Clone,
    {
        #[cfg(feature = "bench-arms")]
        let _held = crate::bench_arms::guard_of_leader();
        let durable_before = self.durability.durable_sequence();
        let mut tail = self.tail.lock();
        self.durability.check()?;
        let (mut count, mut bytes) = (0, 0);
        for record in records.clone() {
            count += 1;
            bytes += (record.head.len() + record.body.len()) as u64;
        }
        self.reserve_from(&tail, count, bytes)?;
        let appended = self.append_all(&mut tail, records, push);
        self.note_room(&tail);
        let first_segment = appended.map_err(|error| self.durability.fail(error))?;
        let end = tail.stream_end();
        drop(tail);
        if push == Push::Sync {
            self.sync_written(end)?;
        } else {
            // Another thread's sync may have failed meanwhile: nothing is acknowledged behind it.
            self.durability.check()?;
        }
        Ok(Appended {
            first_segment,
            durable_moved: self.durability.durable_sequence() > durable_before,
            wants_segment: self.wants_segment(),
        })
    }

    fn append_all<'a>(
        &self,
        tail: &mut Tail,
        records: impl Iterator<Item = LogRecord<'a>>,
        push: Push,
    ) -> Result<FileNumber> {
        let mut synced = Some(self.durability.watermarks().synced.bytes);
        let mut first_segment = None;
        let limit =
            if push == Push::Buffer { self.buffer_bytes } else { self.buffer_bytes.max(HAND_OVER_CHUNK) };
        for record in records {
            self.append_record(tail, record, &mut synced, &mut first_segment, limit)?;
        }
        if push > Push::Buffer && tail.is_ahead() {
            self.hand_over(tail)?;
        } else {
            self.durability.note(tail.position(), None);
        }
        Ok(first_segment.unwrap_or(tail.segment.number))
    }

    /// Cuts one record into fragments. `synced` goes out with the first fragment of the group.
    #[inline]
    fn append_record(
        &self,
        tail: &mut Tail,
        record: LogRecord<'_>,
        synced: &mut Option<u64>,
        first_segment: &mut Option<FileNumber>,
        limit: usize,
    ) -> Result<()> {
        let total = record.head.len() + record.body.len();
        let mut done = 0;
        loop {
            if tail.room() < ROOM_MIN {
                self.switch_segment(tail)?;
            }
            first_segment.get_or_insert(tail.segment.number);
            let synced = synced.take();
            let space = tail.room() as usize - header_len(synced.is_some());
            let take = (total - done).min(space).min(FRAGMENT_MAX);
            let payload =
                [part_of(record.head, 0, done, take), part_of(record.body, record.head.len(), done, take)];
            let kind = Kind::of_piece(done == 0, done + take == total);
            self.put_fragment(tail, kind, synced, payload)?;
            done += take;
            let is_whole = done == total;
            if is_whole {
                tail.appended = Position { bytes: tail.stream_end(), seq: record.last_seq };
            }
            if tail.room() < ROOM_MIN {
                self.end_segment(tail)?;
            } else if tail.buffer.len() > limit {
                self.hand_over(tail)?;
            }
            if is_whole {
                return Ok(());
            }
        }
    }

    /// Seals one fragment into the buffer; the payload of a large one goes to the kernel without a copy.
    #[inline]
    fn put_fragment(
        &self,
        tail: &mut Tail,
        kind: Kind,
        synced: Option<u64>,
        payload: [&[u8]; 2],
    ) -> Result<()> {
        let header = FragmentHeader::seal(&tail.seed, tail.offset(), kind, synced, payload);
        tail.buffer.extend_from_slice(header.as_bytes());
        for part in payload {
            if part.len() < HAND_OVER_CHUNK {
                tail.buffer.extend_from_slice(part);
                continue;
            }
            self.write_buffer(tail)?;
            self.write(&tail.segment, part, tail.buffer_at)?;
            tail.buffer_at += part.len() as u64;
        }
        Ok(())
    }

    pub(super) fn write(&self, segment: &SegmentFile, data: &[u8], offset: u64) -> Result<()> {
        segment.write_at(data, offset)?;
        if let Some(due) = writeback_due(offset, offset + data.len() as u64) {
            segment.start_writeback(due);
        }
        self.counters.bytes_written.fetch_add(data.len() as u64, Ordering::Relaxed); // statistics
        self.counters.writes.fetch_add(1, Ordering::Relaxed); // statistics
        Ok(())
    }

    fn write_buffer(&self, tail: &mut Tail) -> Result<()> {
        if !tail.buffer.is_empty() {
            self.write(&tail.segment, &tail.buffer, tail.buffer_at)?;
            tail.buffer_at += tail.buffer.len() as u64;
            tail.buffer.clear();
        }
        Ok(())
    }

    /// Hands the buffer to the kernel and moves the written mark to the end of the stream.
    pub(super) fn hand_over(&self, tail: &mut Tail) -> Result<()> {
        self.write_buffer(tail)?;
        tail.handed_over = tail.stream_end();
        self.durability.note(tail.position(), Some(tail.position()));
        Ok(())
    }

    /// The segment holds no further fragment: hands over, syncs it and advances the synced mark to its end.
    #[cold]
    fn end_segment(&self, tail: &mut Tail) -> Result<()> {
        let padding = tail.room() as usize;
        tail.buffer.resize(tail.buffer.len() + padding, 0);
        self.hand_over(tail)?;
        #[cfg(feature = "bench-arms")]
        if crate::bench_arms::acks_on_ticker() {
            self.unsynced.lock().push(Arc::clone(&tail.segment));
            return Ok(());
        }
        self.sync_written(tail.stream_end())
    }

    /// Goes on in the next segment; the one before is full and synced.
    #[cold]
    fn switch_segment(&self, tail: &mut Tail) -> Result<()> {
        let next = self.segments.take()?;
        let previous = tail.segment.number;
        self.begin_segment(tail, next, previous, self.durability.watermarks().synced.bytes);
        Ok(())
    }

    pub(super) fn begin_segment(
        &self,
        tail: &mut Tail,
        next: Arc<SegmentFile>,
        previous: FileNumber,
        synced: u64,
    ) {
        let header = SegmentHeader {
            number: next.number,
            log_id: self.log_id,
            previous,
            start: tail.stream_end(),
            synced,
            capacity: tail.capacity,
        };
        self.segments.begin(&next, header.start);
        *self.written_file.lock() = Arc::clone(&next);
        *tail = Tail::begin(next, &header, tail.appended, std::mem::take(&mut tail.buffer));
    }
}

/// The bytes of `part`, which begins at `at` of its record, that lie in `from..from + len` of the record.
#[inline]
fn part_of(part: &[u8], at: usize, from: usize, len: usize) -> &[u8] {
    let begin = from.saturating_sub(at).min(part.len());
    let end = (from + len).saturating_sub(at).min(part.len());
    &part[begin..end]
}
