//! The real file system: [`DiskFileSystem`].
//!
//! Syncs are `fdatasync` for file contents (the size is metadata that `fdatasync` covers when it changed) and
//! `fsync` for directories. The LOCK file is locked with `flock`, and a table of this process's locks
//! refuses a second opener in the same process too, where `flock` on a new descriptor would already do so.

use std::ffi::{c_int, c_uint};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, FlockOperation};

use super::{FileLock, FileSystem, MappedFile, ReadableFile, WritableFile};

/// Files of the operating system.
#[derive(Debug, Default, Clone, Copy)]
pub struct DiskFileSystem;

#[derive(Debug)]
struct DiskFile {
    file: File,
}

#[derive(Debug)]
struct DiskLock {
    // Held for its descriptor: closing it releases the `flock`.
    _file: File,
}

impl FileLock for DiskLock {}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the FileSystem that the rest of the crate goes through"
)]
impl FileSystem for DiskFileSystem {
    fn create(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        Ok(Box::new(DiskFile { file }))
    }

    fn open_writable(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        let file = OpenOptions::new().write(true).open(path)?;
        Ok(Box::new(DiskFile { file }))
    }

    fn open_readable(&self, path: &Path) -> io::Result<Arc<dyn ReadableFile>> {
        Ok(Arc::new(DiskFile { file: File::open(path)? }))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        fs::exists(path)
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.len())
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn FileLock>>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Box::new(DiskLock { _file: file }))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn unique_id(&self) -> u64 {
        let mut bytes = [0; 8];
        loop {
            // The kernel's generator answers 8 bytes whole once it is seeded; an error or a short read is
            // tried again, since two files with one id would defeat the block checksums.
            if let Ok(8) = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
                let id = u64::from_le_bytes(bytes);
                if id != 0 {
                    return id;
                }
            }
        }
    }
}

impl WritableFile for DiskFile {
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, len) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                if self.file.metadata()?.len() < len { self.file.set_len(len) } else { Ok(()) }
            }
            Err(error) => Err(error.into()),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn start_writeback(&self, offset: u64, len: u64) -> io::Result<()> {
        let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else { return Ok(()) };
        // SAFETY: the call takes no pointer and an open descriptor; it changes nothing but when pages are written.
        let _ = unsafe { sync_file_range(self.file.as_raw_fd(), offset, len, SYNC_FILE_RANGE_WRITE) };
        Ok(()) // a hint: whether it was taken does not matter
    }
}

/// Start writing the dirty pages of the range that are not being written yet, and wait for nothing.
const SYNC_FILE_RANGE_WRITE: c_uint = 2;

unsafe extern "C" {
    /// `sync_file_range(2)`, which no dependency of ours offers.
    fn sync_file_range(fd: c_int, offset: i64, len: i64, flags: c_uint) -> c_int;
}

impl ReadableFile for DiskFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut read = 0;
        while read < buf.len() {
            match self.file.read_at(&mut buf[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(n) => read += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn map(&self) -> io::Result<Option<MappedFile>> {
        Ok(Some(MappedFile::new(&self.file)?))
    }
}
