//! [`Wal`]: the log open for writing; making it durable, failing, closing.
//!
//! One thread at a time appends (the leader of the commit queue); any thread may flush and sync meanwhile. A sync
//! that does not end a segment holds only `syncing`: it notes what was handed over, syncs the file, and advances to
//! the note, while the leader goes on appending. At a segment bound the leader syncs before it goes on.
//!
//! ```text
//!   Open --append or sync fails--> Failed(first error) --begin_anew .. reopen--> Open
//!    \--close--> Failed(ShutdownInProgress)
//! ```
//!
//! Lock order: `tail`, `syncing`, then the leaves of [`Segments`] and
//! [`Durability`]. A thread that holds `syncing` never asks for `tail`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::append::Tail;
use super::format::{FragmentHeader, Kind, ROOM_MIN, SegmentHeader};
use super::replay::ReplayEnd;
use super::segments::{LiveSegment, NextFileNumber, SegmentFile, Segments};
use super::{RecoveredEnd, SyncedPosition, WalEdit};
use crate::durability::{Durability, Position};
use crate::env::FileSystem;
use crate::error::{Error, Result};
use crate::key::SequenceNumber;
use crate::sync::{Mutex, Rank};
use crate::version::FileNumber;

/// How a log is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WalOptions {
    /// Bytes of the stream in a segment; `wal_segment_bytes`.
    pub(crate) segment_bytes: u64,
    /// Own buffer for [`Push::Buffer`](super::Push); `wal_buffer_bytes`.
    pub(crate) buffer_bytes: u64,
    /// Obsolete segments kept for recycling. 0 with [`RecoveryMode::Absolute`](crate::options::RecoveryMode),
    /// which must tell unwritten bytes from damage.
    pub(crate) spares: usize,
}

/// Counters of one log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct WalStats {
    /// Bytes handed to the kernel, headers included.
    pub(crate) bytes_written: u64,
    /// Writes that handed them over.
    pub(crate) writes: u64,
    /// Syncs of segments, those of preparing not counted.
    pub(crate) syncs: u64,
    /// Segments created on the write path because none was ready.
    pub(crate) inline_creations: u64,
}

/// The log, open for appending.
pub(crate) struct Wal {
    pub(super) log_id: u64,
    pub(super) buffer_bytes: usize,
    pub(super) segments: Segments,
    pub(super) durability: Durability,
    pub(super) tail: Mutex<Tail>,
    /// Held during a sync, so that of two syncs of one file the second sees whether the first failed: the operating
    /// system reports a lost page only once.
    pub(super) syncing: Mutex<()>,
    /// The segment that the written mark is in, or a later one. Set before the mark moves into it, and only after
    /// all segments before it were synced; so reading the mark first and this file second always names a file whose
    /// sync covers the mark.
    pub(super) written_file: Mutex<Arc<SegmentFile>>,
    /// Segments that ended without a sync, in a baseline design.
    #[cfg(feature = "bench-arms")]
    pub(super) unsynced: Mutex<Vec<Arc<SegmentFile>>>,
    /// What [`room`](Self::room) says.
    pub(super) room: AtomicU64,
    pub(super) counters: Counters,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) bytes_written: AtomicU64,
    pub(super) writes: AtomicU64,
    syncs: AtomicU64,
}

impl Wal {
    /// Opens the log for appending, behind what [`replay`](fn@super::replay) found: creates a fresh segment, in
    /// which nothing is written yet. [`ReplayEnd::edit`] with [`Wal::current_segment`] must be committed to the
    /// manifest before the first append is acknowledged.
    pub(crate) fn open(
        fs: Arc<dyn FileSystem>,
        dir: &Path,
        log_id: u64,
        options: WalOptions,
        next_number: NextFileNumber,
        end: &ReplayEnd,
        last_seq: SequenceNumber,
    ) -> Result<Self> {
        assert!(options.segment_bytes > 2 * ROOM_MIN, "a segment has room for fragments");
        let segments =
            Segments::new(fs, dir, options.segment_bytes, options.spares, next_number, end.live.clone());
        segments.prepare_next()?;
        let segment = segments.take()?;
        let start = Position { bytes: end.stream_bytes, seq: last_seq };
        let header = SegmentHeader {
            number: segment.number,
            log_id,
            previous: end.segment,
            start: start.bytes,
            synced: start.bytes,
            capacity: options.segment_bytes,
        };
        segments.begin(&segment, start.bytes);
        Ok(Self {
            log_id,
            buffer_bytes: usize::try_from(options.buffer_bytes).unwrap_or(usize::MAX),
            segments,
            durability: Durability::new(start),
            written_file: Mutex::new(Arc::clone(&segment)),
            tail: Mutex::across_io(Tail::begin(segment, &header, start, Vec::new())).ranked(Rank::Wal),
            syncing: Mutex::across_io(()).ranked(Rank::Wal),
            #[cfg(feature = "bench-arms")]
            unsynced: Mutex::default(),
            room: AtomicU64::new(0),
            counters: Counters::default(),
        })
    }

    /// The watermarks, and who waits for them.
    pub(crate) fn durability(&self) -> &Durability {
        &self.durability
    }

    /// The segment being written.
    pub(crate) fn current_segment(&self) -> FileNumber {
        self.written_file.lock().number
    }

    /// What can be recorded in the manifest as synced now.
    pub(crate) fn synced_position(&self) -> SyncedPosition {
        // The mark first, the file second: the segment named may be later than the one that the mark is in.
        let synced = self.durability.watermarks().synced;
        let live = self.segments.live();
        let holder = live.iter().rev().find(|segment| segment.start < synced.bytes);
        let segment = holder.map_or_else(|| self.current_segment(), |segment| segment.number);
        SyncedPosition { segment, stream_bytes: synced.bytes, seq: synced.seq }
    }

    /// The same, for the manifest's thread: none after a failure, when resuming decides what is recorded.
    pub(crate) fn position_to_record(&self) -> Option<SyncedPosition> {
        self.durability.failure().is_none().then(|| self.synced_position())
    }

    /// Segments that may still be needed, in stream order; the last one is being written.
    pub(crate) fn segments(&self) -> Vec<LiveSegment> {
        self.segments.live()
    }

    /// Bytes of the stream in live segments.
    pub(crate) fn live_bytes(&self) -> u64 {
        let start = self.segments.live().first().map_or(0, |segment| segment.start);
        self.durability.watermarks().appended.bytes.saturating_sub(start)
    }

    pub(crate) fn stats(&self) -> WalStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed); // statistics
        WalStats {
            bytes_written: read(&self.counters.bytes_written),
            writes: read(&self.counters.writes),
            syncs: read(&self.counters.syncs),
            inline_creations: self.segments.inline_creations(),
        }
    }

    /// Makes the next segment ready, off the write path. A failure is not sticky: try again later.
    pub(crate) fn prepare_next(&self) -> Result<()> {
        self.segments.prepare_next()
    }

    /// Whether [`prepare_next`](Self::prepare_next) has something to do.
    pub(crate) fn wants_segment(&self) -> bool {
        self.segments.ready() == 0
    }

    /// Makes the stream durable at least up to `at_least`, which was handed over, and up to all that was.
    pub(super) fn sync_written(&self, at_least: u64) -> Result<()> {
        let _turn = self.syncing.lock();
        let marks = self.durability.watermarks();
        if marks.synced.bytes >= at_least {
            return Ok(());
        }
        self.durability.check()?;
        debug_assert!(marks.written.bytes >= at_least);
        let segment = Arc::clone(&self.written_file.lock()); // the mark was read before: see `written_file`
        self.counters.syncs.fetch_add(1, Ordering::Relaxed); // statistics
        #[cfg(feature = "bench-arms")]
        for ended in std::mem::take(&mut *self.unsynced.lock()) {
            ended.sync().map_err(|error| self.durability.fail(error))?;
        }
        segment.sync().map_err(|error| self.durability.fail(error))?;
        self.durability.advance(marks.written);
        Ok(())
    }

    /// Hands the buffer to the kernel; with `sync`, makes everything appended before the call durable.
    pub(crate) fn flush(&self, sync: bool) -> Result<()> {
        let end = {
            let mut tail = self.tail.lock();
            self.durability.check()?;
            if tail.is_ahead() {
                self.hand_over(&mut tail).map_err(|error| self.durability.fail(error))?;
            }
            tail.stream_end()
        };
        if sync { self.sync_written(end) } else { Ok(()) }
    }

    /// Makes every logged batch durable that ends at or below `seq`; any thread, while others append. Holds the
    /// leader up only for as long as handing over the buffer takes, and only if such a batch is still in it.
    pub(crate) fn sync_through(&self, seq: SequenceNumber) -> Result<()> {
        let marks = self.durability.watermarks();
        if marks.synced.seq >= seq.min(marks.appended.seq) {
            return Ok(());
        }
        if marks.written.seq < seq.min(marks.appended.seq) {
            return self.flush(true);
        }
        self.sync_written(marks.written.bytes)
    }

    /// Makes durable what was appended before the call, for the ticker and the idle sync. Holds the leader up only for as
    /// long as handing over the buffer takes, if anything is in it.
    pub(crate) fn sync_in_background(&self) -> Result<()> {
        let marks = self.durability.watermarks();
        if marks.written.bytes < marks.appended.bytes { self.flush(true) } else { self.sync_handed_over() }
    }

    /// Makes durable what was handed over, without touching the leader.
    pub(crate) fn sync_handed_over(&self) -> Result<()> {
        self.sync_written(self.durability.watermarks().written.bytes)
    }

    /// Segments before `first_needed` are obsolete, by a manifest edit that is synced. Returns how many went.
    pub(crate) fn release_below(&self, first_needed: FileNumber) -> usize {
        self.segments.release_below(first_needed)
    }

    /// After a failure: sets the segment that failed aside and goes on in a fresh one. Appends are still refused;
    /// the caller brings all that was acknowledged into synced SSTs, commits `facts_anew` of the result to the
    /// manifest, and then calls [`reopen`](Self::reopen). Returns the segment set aside.
    pub(crate) fn begin_anew(&self) -> Result<FileNumber> {
        assert!(self.durability.failure().is_some(), "only a failed log begins anew");
        let mut tail = self.tail.lock();
        let _turn = self.syncing.lock();
        let next = self.segments.take()?;
        let bad = tail.segment.number;
        self.begin_segment(&mut tail, next, FileNumber(0), 0);
        self.segments.set_aside(bad);
        Ok(bad)
    }

    /// What the manifest must hold before [`reopen`](Self::reopen): the log starts in the fresh segment, `bad` is
    /// quarantined.
    pub(crate) fn facts_anew(&self, bad: FileNumber, seq: SequenceNumber) -> WalEdit {
        let (segment, stream_bytes) = {
            let tail = self.tail.lock();
            (tail.segment.number, tail.start)
        };
        WalEdit {
            log_id: None,
            first_needed: Some(segment),
            recovered: Some(RecoveredEnd { segment: FileNumber(0), stream_bytes, next_segment: segment }),
            synced: Some(SyncedPosition { segment, stream_bytes, seq }),
            quarantined: vec![bad],
        }
    }

    /// Clears the failure: everything up to `published` is safe outside the log.
    pub(crate) fn reopen(&self, published: SequenceNumber) {
        let mut tail = self.tail.lock();
        tail.appended = Position { bytes: tail.start, seq: published };
        self.durability.restart(tail.appended);
    }

    /// Hands over, marks the end, syncs, and refuses everything later. Files that were only prepared are removed.
    pub(crate) fn close(&self) -> Result<()> {
        let closed = {
            let mut tail = self.tail.lock();
            self.durability.check().and_then(|()| self.close_tail(&mut tail))
        };
        self.durability.fail(Error::ShutdownInProgress);
        self.segments.remove_unused();
        closed
    }

    fn close_tail(&self, tail: &mut Tail) -> Result<()> {
        if tail.is_ahead() {
            self.hand_over(tail)?;
        }
        self.sync_written(tail.stream_end())?;
        let begun = tail.stream_end() > tail.start;
        if begun && tail.room() >= ROOM_MIN {
            // Behind all marks: it says that nothing follows, and recovery does without it.
            let end =
                FragmentHeader::seal(&tail.seed, tail.offset(), Kind::End, Some(tail.stream_end()), [&[]; 2]);
            self.write(&tail.segment, end.as_bytes(), tail.offset())?;
            tail.segment.sync()?;
        }
        Ok(())
    }

    /// The file being written. For tests that damage it.
    #[cfg(test)]
    pub(super) fn current_path(&self) -> std::path::PathBuf {
        self.tail.lock().segment.path.clone()
    }
}
