//! [`TrackedFileSystem`]: what the engine wraps around the file system that it is given.
//!
//! Each call first checks that this thread holds no engine lock ([`forbid_held_locks`]),
//! so that the rule "no lock across I/O" is checked at the one door through which all I/O goes.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{FileLock, FileSystem, MappedFile, ReadableFile, WritableFile};
use crate::sync::{Mutex, forbid_held_locks};

/// Checks the lock rule, then passes each call on.
///
/// Syncs of directories are serialised, and the first that fails is kept: what a failed sync was to make durable may be
/// lost although a later one succeeds, so every later one is refused with the same error until the database is opened
/// again.
#[derive(Debug)]
pub(crate) struct TrackedFileSystem {
    inner: Arc<dyn FileSystem>,
    /// The first failed sync of a directory.
    failed_sync: Mutex<Option<io::Error>>,
}

impl TrackedFileSystem {
    pub(crate) fn new(inner: Arc<dyn FileSystem>) -> Self {
        Self { inner, failed_sync: Mutex::across_io(None) }
    }
}

impl TrackedFileSystem {
    /// Lets directories be synced again: everything that matters from here on is made anew.
    pub(crate) fn forget_failed_sync(&self) {
        *self.failed_sync.lock() = None;
    }
}

/// The same error once more.
fn again(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

impl FileSystem for TrackedFileSystem {
    fn create(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        forbid_held_locks("create a file");
        Ok(Box::new(TrackedWritable(self.inner.create(path)?)))
    }

    fn create_direct(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        forbid_held_locks("create a file");
        Ok(Box::new(TrackedWritable(self.inner.create_direct(path)?)))
    }

    fn open_writable(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        forbid_held_locks("open a file");
        Ok(Box::new(TrackedWritable(self.inner.open_writable(path)?)))
    }

    fn open_readable(&self, path: &Path) -> io::Result<Arc<dyn ReadableFile>> {
        forbid_held_locks("open a file");
        Ok(Arc::new(TrackedReadable(self.inner.open_readable(path)?)))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        forbid_held_locks("list a directory");
        self.inner.list(dir)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        forbid_held_locks("look for a file");
        self.inner.exists(path)
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        forbid_held_locks("look at a file");
        self.inner.size(path)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        forbid_held_locks("create a directory");
        self.inner.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        forbid_held_locks("rename a file");
        self.inner.rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        forbid_held_locks("link a file");
        self.inner.hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        forbid_held_locks("remove a file");
        self.inner.remove(path)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        forbid_held_locks("remove a directory");
        self.inner.remove_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        forbid_held_locks("sync a directory");
        let mut failed = self.failed_sync.lock();
        if let Some(error) = &*failed {
            return Err(again(error));
        }
        self.inner.sync_dir(dir).inspect_err(|error| *failed = Some(again(error)))
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn FileLock>>> {
        forbid_held_locks("lock a file");
        self.inner.lock(path)
    }

    fn unique_id(&self) -> u64 {
        self.inner.unique_id()
    }
}

#[derive(Debug)]
struct TrackedWritable(Box<dyn WritableFile>);

impl WritableFile for TrackedWritable {
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        forbid_held_locks("write");
        self.0.write_at(data, offset)
    }

    fn sync(&self) -> io::Result<()> {
        forbid_held_locks("sync");
        self.0.sync()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        forbid_held_locks("allocate");
        self.0.allocate(len)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        forbid_held_locks("set a length");
        self.0.set_len(len)
    }

    fn start_writeback(&self, offset: u64, len: u64) -> io::Result<()> {
        forbid_held_locks("start writeback");
        self.0.start_writeback(offset, len)
    }
}

#[derive(Debug)]
struct TrackedReadable(Arc<dyn ReadableFile>);

impl ReadableFile for TrackedReadable {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        forbid_held_locks("read");
        self.0.read_at(buf, offset)
    }

    fn size(&self) -> io::Result<u64> {
        forbid_held_locks("look at a file");
        self.0.size()
    }

    fn will_need(&self, offset: u64, len: u64) {
        forbid_held_locks("read ahead");
        self.0.will_need(offset, len);
    }

    fn map(&self) -> io::Result<Option<MappedFile>> {
        forbid_held_locks("map");
        self.0.map()
    }
}
