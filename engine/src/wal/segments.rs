//! The files of the log: prepared ahead, in use, spare for recycling.
//!
//! ```text
//!   prepare_next --> ready --take--> live --release_below--> spare --prepare_next--> ready ...
//!                                                       \--> removed (beyond the few that are kept)
//! ```
//!
//! A file is created at full size, synced, and its directory synced, under its final name, before anybody writes to
//! it, so that a full disk shows here and a later sync carries no change of size. A creation that fails removes its
//! target. Numbers are handed out while `creating` is held, so segments are used in the order of their numbers.
//!
//! This file knows what a segment file is for and how long it lives, not what is written into it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::format::HEADER_LEN;
use crate::env::{FileSystem, WritableFile};
use crate::error::{Error, Result};
use crate::filename::wal_path;
use crate::sync::{Mutex, Rank};
use crate::version::FileNumber;

/// Hands out the next number of the database's file counter.
pub(crate) type NextFileNumber = Arc<dyn Fn() -> FileNumber + Send + Sync>;

/// A segment file open for writing.
#[derive(Debug)]
pub(super) struct SegmentFile {
    pub(super) number: FileNumber,
    pub(super) path: PathBuf,
    pub(super) file: Box<dyn WritableFile>,
}

impl SegmentFile {
    pub(super) fn write_at(&self, data: &[u8], offset: u64) -> Result<()> {
        self.file.write_at(data, offset).map_err(|error| Error::io("write", &self.path, error))
    }

    /// Hints that this part should start its way to the device, so that the sync at the segment's end is short.
    pub(super) fn start_writeback(&self, part: std::ops::Range<u64>) {
        let _ = self.file.start_writeback(part.start, part.end - part.start);
    }

    pub(super) fn sync(&self) -> Result<()> {
        self.file.sync().map_err(|error| Error::io("sync", &self.path, error))
    }
}

/// A segment that holds a part of the stream which may still be needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LiveSegment {
    pub(crate) number: FileNumber,
    /// Bytes of the stream before it.
    pub(crate) start: u64,
    /// Bytes of the stream that it can hold.
    pub(crate) capacity: u64,
}

/// Creates, hands out, recycles and removes the segments of one log.
pub(super) struct Segments {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    capacity: u64,
    spares_max: usize,
    next_number: NextFileNumber,
    /// Held while a segment is being made, by a background job or, when none is ready, by the leader.
    creating: Mutex<()>,
    lists: Mutex<Lists>,
    /// Segments made by the leader because none was ready. Statistics.
    inline_creations: AtomicU64,
}

#[derive(Default)]
struct Lists {
    ready: VecDeque<Arc<SegmentFile>>,
    spares: Vec<FileNumber>,
    /// In stream order; the last one is being written.
    live: Vec<LiveSegment>,
}

/// Segments kept ready beside the one in use.
const READY_MAX: usize = 1;

impl Segments {
    pub(super) fn new(
        fs: Arc<dyn FileSystem>,
        dir: &Path,
        capacity: u64,
        spares_max: usize,
        next_number: NextFileNumber,
        live: Vec<LiveSegment>,
    ) -> Self {
        Self {
            fs,
            dir: dir.to_owned(),
            capacity,
            spares_max,
            next_number,
            creating: Mutex::across_io(()).ranked(Rank::Wal),
            lists: Mutex::new(Lists { live, ..Lists::default() }),
            inline_creations: AtomicU64::new(0),
        }
    }

    pub(super) fn ready(&self) -> usize {
        self.lists.lock().ready.len()
    }

    pub(super) fn inline_creations(&self) -> u64 {
        self.inline_creations.load(Ordering::Relaxed) // statistics
    }

    /// Makes one segment ready unless enough are. For a background job.
    pub(super) fn prepare_next(&self) -> Result<()> {
        let _creating = self.creating.lock();
        if self.ready() < READY_MAX {
            self.make_one()?;
        }
        Ok(())
    }

    /// Makes segments until `count` are ready: the leader's way, counted.
    pub(super) fn prepare_inline(&self, count: usize) -> Result<()> {
        while self.ready() < count {
            let _creating = self.creating.lock();
            if self.ready() < count {
                self.make_one()?;
                self.inline_creations.fetch_add(1, Ordering::Relaxed); // statistics
            }
        }
        Ok(())
    }

    /// A ready segment, made now if there is none.
    pub(super) fn take(&self) -> Result<Arc<SegmentFile>> {
        loop {
            if let Some(segment) = self.lists.lock().ready.pop_front() {
                return Ok(segment);
            }
            self.prepare_inline(1)?;
        }
    }

    /// Makes the next segment ready. The caller holds `creating`.
    fn make_one(&self) -> Result<()> {
        let spare = self.lists.lock().spares.pop();
        let number = (self.next_number)();
        let path = wal_path(&self.dir, number);
        let made = match spare {
            Some(old) => self.recycle(&wal_path(&self.dir, old), &path),
            None => self.create(&path),
        };
        match made {
            Ok(file) => {
                self.lists.lock().ready.push_back(Arc::new(SegmentFile { number, path, file }));
                Ok(())
            }
            Err(error) => {
                // The target may exist without being durable; nobody may find it. What cannot be removed now is
                // not named by the manifest and goes at the next open.
                if let Some(old) = spare {
                    let _ = self.fs.remove(&wal_path(&self.dir, old));
                }
                let _ = self.fs.remove(&path);
                Err(error)
            }
        }
    }

    fn file_len(&self) -> u64 {
        HEADER_LEN as u64 + self.capacity
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let file = self.fs.create(path).map_err(|error| Error::io("create", path, error))?;
        file.allocate(self.file_len()).map_err(|error| Error::io("allocate", path, error))?;
        file.sync().map_err(|error| Error::io("sync", path, error))?;
        self.sync_dir()?;
        Ok(file)
    }

    /// A segment that became obsolete has its full size, and was synced before it did: only its name is new.
    fn recycle(&self, old: &Path, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.fs.rename(old, path).map_err(|error| Error::io("rename", old, error))?;
        let file = self.fs.open_writable(path).map_err(|error| Error::io("open", path, error))?;
        self.sync_dir()?;
        Ok(file)
    }

    fn sync_dir(&self) -> Result<()> {
        self.fs.sync_dir(&self.dir).map_err(|error| Error::io("sync", &self.dir, error))
    }

    /// The stream goes on in `segment` from `start` on.
    pub(super) fn begin(&self, segment: &SegmentFile, start: u64) {
        let live = LiveSegment { number: segment.number, start, capacity: self.capacity };
        self.lists.lock().live.push(live);
    }

    /// Segments that may still be needed, in stream order; the last one is being written.
    pub(super) fn live(&self) -> Vec<LiveSegment> {
        self.lists.lock().live.clone()
    }

    /// Takes `number` off the live list without recycling or removing it.
    pub(super) fn set_aside(&self, number: FileNumber) {
        self.lists.lock().live.retain(|segment| segment.number != number);
    }

    /// Segments before `first_needed` are obsolete: a few become spares, the others are removed. The segment being
    /// written stays. Returns how many went.
    pub(super) fn release_below(&self, first_needed: FileNumber) -> usize {
        let mut remove = Vec::new();
        let released = {
            let mut lists = self.lists.lock();
            let current = lists.live.last().map(|segment| segment.number);
            let is_needed =
                |segment: &LiveSegment| segment.number >= first_needed || Some(segment.number) == current;
            let (keep, go): (Vec<_>, Vec<_>) = lists.live.drain(..).partition(is_needed);
            lists.live = keep;
            for segment in &go {
                if segment.capacity == self.capacity && lists.spares.len() < self.spares_max {
                    lists.spares.push(segment.number);
                } else {
                    remove.push(segment.number);
                }
            }
            go.len()
        };
        self.remove(&remove);
        released
    }

    /// Removes what is ready or spare: the last step of closing.
    pub(super) fn remove_unused(&self) {
        let _creating = self.creating.lock();
        let (ready, spares) = {
            let mut lists = self.lists.lock();
            (std::mem::take(&mut lists.ready), std::mem::take(&mut lists.spares))
        };
        let numbers: Vec<_> = ready.iter().map(|segment| segment.number).chain(spares).collect();
        drop(ready);
        self.remove(&numbers);
    }

    fn remove(&self, numbers: &[FileNumber]) {
        for number in numbers {
            let path = wal_path(&self.dir, *number);
            if let Err(error) = self.fs.remove(&path) {
                // Harmless: the manifest no longer needs it, and the next open tries again.
                log::warn!("could not remove obsolete {}: {error}", path.display());
            }
        }
    }
}
