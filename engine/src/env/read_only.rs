//! [`ReadOnlyFileSystem`]: a file system through which nothing can be changed.
//!
//! What a read-only open wraps around the file system that it is given: looking is passed on, every other call is refused
//! before it reaches the disk. So "writes nothing" holds by construction and not by care.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{FileLock, FileSystem, ReadableFile, WritableFile};

/// Passes on what looks, refuses what changes.
#[derive(Debug)]
pub(crate) struct ReadOnlyFileSystem(Arc<dyn FileSystem>);

impl ReadOnlyFileSystem {
    pub(crate) fn new(inner: Arc<dyn FileSystem>) -> Self {
        Self(inner)
    }
}

fn refused() -> io::Error {
    io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "the database was opened for reading only")
}

impl FileSystem for ReadOnlyFileSystem {
    fn create(&self, _: &Path) -> io::Result<Box<dyn WritableFile>> {
        Err(refused())
    }

    fn open_writable(&self, _: &Path) -> io::Result<Box<dyn WritableFile>> {
        Err(refused())
    }

    fn open_readable(&self, path: &Path) -> io::Result<Arc<dyn ReadableFile>> {
        self.0.open_readable(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.0.list(dir)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.0.exists(path)
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        self.0.size(path)
    }

    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn remove_dir(&self, _: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Err(refused())
    }

    fn lock(&self, _: &Path) -> io::Result<Option<Box<dyn FileLock>>> {
        Err(refused())
    }

    fn unique_id(&self) -> u64 {
        self.0.unique_id()
    }
}

/// The file behind a log or a manifest that is open for reading only.
#[derive(Debug)]
pub(crate) struct RefusingFile;

impl WritableFile for RefusingFile {
    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(refused())
    }

    fn sync(&self) -> io::Result<()> {
        Err(refused())
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        Err(refused())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(refused())
    }
}
