//! [`TrackedFileSystem`]: what the engine wraps around the file system that it is given.
//!
//! Each call first checks that this thread holds no engine lock ([`forbid_held_locks`](crate::sync::forbid_held_locks)),
//! so that the rule "no lock across I/O" is checked at the one door through which all I/O goes.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{FileLock, FileSystem, MappedFile, ReadableFile, WritableFile};
use crate::sync::forbid_held_locks;

/// Checks the lock rule, then passes each call on.
#[derive(Debug, Clone)]
pub(crate) struct TrackedFileSystem(pub(crate) Arc<dyn FileSystem>);

impl FileSystem for TrackedFileSystem {
    fn create(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        forbid_held_locks("create a file");
        Ok(Box::new(TrackedWritable(self.0.create(path)?)))
    }

    fn open_writable(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        forbid_held_locks("open a file");
        Ok(Box::new(TrackedWritable(self.0.open_writable(path)?)))
    }

    fn open_readable(&self, path: &Path) -> io::Result<Arc<dyn ReadableFile>> {
        forbid_held_locks("open a file");
        Ok(Arc::new(TrackedReadable(self.0.open_readable(path)?)))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        forbid_held_locks("list a directory");
        self.0.list(dir)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        forbid_held_locks("look for a file");
        self.0.exists(path)
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        forbid_held_locks("look at a file");
        self.0.size(path)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        forbid_held_locks("create a directory");
        self.0.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        forbid_held_locks("rename a file");
        self.0.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        forbid_held_locks("remove a file");
        self.0.remove(path)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        forbid_held_locks("remove a directory");
        self.0.remove_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        forbid_held_locks("sync a directory");
        self.0.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn FileLock>>> {
        forbid_held_locks("lock a file");
        self.0.lock(path)
    }

    fn unique_id(&self) -> u64 {
        self.0.unique_id()
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

    fn map(&self) -> io::Result<Option<MappedFile>> {
        forbid_held_locks("map");
        self.0.map()
    }
}
