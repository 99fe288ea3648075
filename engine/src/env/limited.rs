//! [`LimitedFileSystem`]: what background jobs create their files through, when their output is limited.
//!
//! Every write asks the limiter first, at the priority that holds at that moment. Which job writes, and why it is urgent,
//! is not known here.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{Clock, FileLock, FileSystem, ReadableFile, WritableFile};
use crate::rate_limiter::{IoPriority, RateLimiter};

/// The priority of a write that is about to be made.
pub(crate) type Priority = Arc<dyn Fn() -> IoPriority + Send + Sync>;

/// Passes each call on; what is written to files that are created through it is limited.
pub(crate) struct LimitedFileSystem {
    inner: Arc<dyn FileSystem>,
    limit: Arc<Limit>,
}

struct Limit {
    limiter: Arc<RateLimiter>,
    clock: Arc<dyn Clock>,
    priority: Priority,
}

impl LimitedFileSystem {
    pub(crate) fn new(
        inner: Arc<dyn FileSystem>,
        limiter: Arc<RateLimiter>,
        clock: Arc<dyn Clock>,
        priority: Priority,
    ) -> Self {
        Self { inner, limit: Arc::new(Limit { limiter, clock, priority }) }
    }

    fn limited(&self, file: Box<dyn WritableFile>) -> Box<dyn WritableFile> {
        Box::new(LimitedFile { file, limit: Arc::clone(&self.limit) })
    }
}

impl FileSystem for LimitedFileSystem {
    fn create(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        Ok(self.limited(self.inner.create(path)?))
    }

    fn create_direct(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        Ok(self.limited(self.inner.create_direct(path)?))
    }

    fn open_writable(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        Ok(self.limited(self.inner.open_writable(path)?))
    }

    fn open_readable(&self, path: &Path) -> io::Result<Arc<dyn ReadableFile>> {
        self.inner.open_readable(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        self.inner.size(path)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.inner.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.remove_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn FileLock>>> {
        self.inner.lock(path)
    }

    fn unique_id(&self) -> u64 {
        self.inner.unique_id()
    }
}

impl fmt::Debug for LimitedFileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedFileSystem").field("limiter", &self.limit.limiter).finish_non_exhaustive()
    }
}

struct LimitedFile {
    file: Box<dyn WritableFile>,
    limit: Arc<Limit>,
}

impl fmt::Debug for LimitedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

impl WritableFile for LimitedFile {
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let Limit { limiter, clock, priority } = &*self.limit;
        limiter.request(&**clock, data.len() as u64, priority());
        self.file.write_at(data, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn start_writeback(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.start_writeback(offset, len)
    }
}
