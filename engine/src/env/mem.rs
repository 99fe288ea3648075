//! [`MemFileSystem`]: files in memory, for unit tests of this crate.
//!
//! Keeps no record of what was synced and fails only where a real file system would; the simulated file
//! system of `sluicedb-tests` does the rest. Directories exist by being named.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{FileLock, FileSystem, MappedFile, ReadableFile, WritableFile};
use crate::sync::{Mutex, forbid_held_locks};

/// Files in memory.
#[derive(Debug, Clone)]
pub(crate) struct MemFileSystem {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    files: Mutex<BTreeMap<PathBuf, Arc<MemFile>>>,
    opened: AtomicU64,
    ids: AtomicU64,
}

#[derive(Debug)]
struct MemFile {
    bytes: Mutex<Vec<u8>>,
    reads: AtomicU64,
    syncs: AtomicU64,
}

impl MemFileSystem {
    pub(crate) fn new() -> Self {
        let (files, opened, ids) = (Mutex::new(BTreeMap::new()), AtomicU64::new(0), AtomicU64::new(0));
        Self { shared: Arc::new(Shared { files, opened, ids }) }
    }

    /// What the file holds now.
    ///
    /// # Panics
    ///
    /// When there is no such file.
    pub(crate) fn contents(&self, path: &Path) -> Vec<u8> {
        self.file(path).expect("the file is there").bytes.lock().clone()
    }

    /// Makes the file hold these bytes, creating it if needed.
    pub(crate) fn put(&self, path: &Path, bytes: Vec<u8>) {
        self.shared.files.lock().insert(path.to_owned(), Arc::new(MemFile::holding(bytes)));
    }

    /// Files opened for reading so far.
    pub(crate) fn opened(&self) -> u64 {
        self.shared.opened.load(Ordering::Relaxed) // statistics
    }

    /// Reads of this file so far.
    pub(crate) fn reads(&self, path: &Path) -> u64 {
        self.file(path).map_or(0, |file| file.reads.load(Ordering::Relaxed)) // statistics
    }

    /// Syncs of this file so far.
    pub(crate) fn syncs(&self, path: &Path) -> u64 {
        self.file(path).map_or(0, |file| file.syncs.load(Ordering::Relaxed)) // statistics
    }

    fn file(&self, path: &Path) -> io::Result<Arc<MemFile>> {
        self.shared.files.lock().get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl MemFile {
    fn holding(bytes: Vec<u8>) -> Self {
        Self { bytes: Mutex::new(bytes), reads: AtomicU64::new(0), syncs: AtomicU64::new(0) }
    }
}

#[derive(Debug)]
struct Open(Arc<MemFile>);

#[derive(Debug)]
struct MemLock {
    file_system: MemFileSystem,
    path: PathBuf,
}

impl FileLock for MemLock {}

impl Drop for MemLock {
    fn drop(&mut self) {
        self.file_system.shared.files.lock().remove(&self.path);
    }
}

impl FileSystem for MemFileSystem {
    fn create(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        forbid_held_locks("create");
        let file = Arc::new(MemFile::holding(Vec::new()));
        self.shared.files.lock().insert(path.to_owned(), file.clone());
        Ok(Box::new(Open(file)))
    }

    fn open_writable(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        Ok(Box::new(Open(self.file(path)?)))
    }

    fn open_readable(&self, path: &Path) -> io::Result<Arc<dyn ReadableFile>> {
        forbid_held_locks("open");
        self.shared.opened.fetch_add(1, Ordering::Relaxed); // statistics
        Ok(Arc::new(Open(self.file(path)?)))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let files = self.shared.files.lock();
        let inside = files.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.file(path).is_ok())
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        Ok(self.file(path)?.bytes.lock().len() as u64)
    }

    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = self.shared.files.lock();
        let file = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.shared.files.lock().remove(path).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn remove_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        forbid_held_locks("sync a directory");
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn FileLock>>> {
        let mut files = self.shared.files.lock();
        if files.contains_key(path) {
            return Ok(None);
        }
        files.insert(path.to_owned(), Arc::new(MemFile::holding(Vec::new())));
        Ok(Some(Box::new(MemLock { file_system: self.clone(), path: path.to_owned() })))
    }

    fn unique_id(&self) -> u64 {
        // Unlike the real one no two runs differ, so that a failing test fails again.
        let number = self.shared.ids.fetch_add(1, Ordering::Relaxed) + 1; // only has to be unique
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl WritableFile for Open {
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        forbid_held_locks("write");
        let mut bytes = self.0.bytes.lock();
        let (begin, end) = (offset as usize, offset as usize + data.len());
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[begin..end].copy_from_slice(data);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        forbid_held_locks("sync");
        self.0.syncs.fetch_add(1, Ordering::Relaxed); // statistics
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let mut bytes = self.0.bytes.lock();
        let len = bytes.len().max(len as usize);
        bytes.resize(len, 0);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.bytes.lock().resize(len as usize, 0);
        Ok(())
    }
}

impl ReadableFile for Open {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        forbid_held_locks("read");
        self.0.reads.fetch_add(1, Ordering::Relaxed); // statistics
        let bytes = self.0.bytes.lock();
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.bytes.lock().len() as u64)
    }

    fn map(&self) -> io::Result<Option<MappedFile>> {
        MappedFile::copy_of(&self.0.bytes.lock()).map(Some)
    }
}
