//! Files that no version needs any more: when each may go, and who is told.
//!
//! A compaction dooms its inputs once the edit that removes them is durable. A doomed SST is deleted when the last
//! version that holds it is gone, which a long reader may delay; whoever lets a super version go rings the bell of
//! the thread that deletes. Why files died is not known here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::jobs::Bell;
use crate::sync::Mutex;
use crate::version::{FileMeta, FileNumber};

/// SSTs on their way out.
#[derive(Debug)]
pub(crate) struct ObsoleteFiles {
    doomed: Mutex<Vec<(FileNumber, u64, Weak<FileMeta>)>>,
    /// Length of `doomed`, readable without the lock.
    waiting: AtomicU64,
    bell: Arc<Bell>,
}

impl ObsoleteFiles {
    pub(crate) fn new(bell: Arc<Bell>) -> Arc<Self> {
        Arc::new(Self { doomed: Mutex::default(), waiting: AtomicU64::new(0), bell })
    }

    /// Dooms files that the durable manifest no longer names.
    pub(crate) fn doom(&self, files: impl IntoIterator<Item = Arc<FileMeta>>) {
        let mut doomed = self.doomed.lock();
        doomed.extend(files.into_iter().map(|file| (file.number, file.size, Arc::downgrade(&file))));
        // Read without the lock as a hint only; the bell below, and every later reader's, makes it seen.
        self.waiting.store(doomed.len() as u64, Ordering::Release);
        drop(doomed);
        self.bell.ring();
    }

    /// Takes the files that nobody holds any more: they may be deleted now.
    pub(crate) fn take_free(&self) -> Vec<FileNumber> {
        let mut doomed = self.doomed.lock();
        let mut free = Vec::new();
        doomed.retain(|(number, _, file)| {
            let held = file.strong_count() > 0;
            if !held {
                free.push(*number);
            }
            held
        });
        self.waiting.store(doomed.len() as u64, Ordering::Release);
        free
    }

    /// Whether files wait for their last reader, or for another attempt.
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// A file could not be deleted: it is tried again with the next ring, and at the next open.
    pub(crate) fn put_back(&self, number: FileNumber) {
        let mut doomed = self.doomed.lock();
        doomed.push((number, 0, Weak::new()));
        self.waiting.store(doomed.len() as u64, Ordering::Release); // as in `doom`
    }

    /// Bytes of doomed files that readers still hold.
    pub(crate) fn bytes_pinned_by_readers(&self) -> u64 {
        self.doomed.lock().iter().map(|(_, size, _)| size).sum()
    }
}

/// Rings when a super version goes while files wait for that.
#[derive(Debug, Clone)]
pub(crate) struct ReaderGone(pub(crate) Arc<ObsoleteFiles>);

impl Drop for ReaderGone {
    fn drop(&mut self) {
        if self.0.waiting.load(Ordering::Acquire) > 0 {
            self.0.bell.ring();
        }
    }
}
