//! The real file system: [`DiskFileSystem`].
//!
//! Syncs are `fdatasync` for file contents (the size is metadata that `fdatasync` covers when it changed) and
//! `fsync` for directories. The LOCK file is locked with `flock`, and a table of this process's locks
//! refuses a second opener in the same process too, where `flock` on a new descriptor would already do so.

use std::ffi::{c_int, c_uint};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Advice, FallocateFlags, FlockOperation, OFlags};

use super::{DIRECT_ALIGNMENT, FileLock, FileSystem, MappedFile, ReadableFile, WritableFile};

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

    fn create_direct(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        let direct = OFlags::DIRECT.bits() as i32;
        match OpenOptions::new().write(true).create(true).truncate(true).custom_flags(direct).open(path) {
            Ok(file) => Ok(Box::new(DirectFile { file, is_direct: AtomicBool::new(true) })),
            // Not every file system can do it; tmpfs for one.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => self.create(path),
            Err(error) => Err(error),
        }
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

/// A file whose aligned writes go past the page cache.
#[derive(Debug)]
struct DirectFile {
    file: File,
    /// Until the first write that is not aligned: from then on the descriptor is an ordinary one.
    is_direct: AtomicBool,
}

impl DirectFile {
    fn is_aligned(data: &[u8], offset: u64) -> bool {
        offset.is_multiple_of(DIRECT_ALIGNMENT as u64)
            && data.as_ptr().addr().is_multiple_of(DIRECT_ALIGNMENT)
    }

    fn leave_direct(&self) -> io::Result<()> {
        if self.is_direct.swap(false, Ordering::Relaxed) {
            let flags = rustix::fs::fcntl_getfl(&self.file)?;
            rustix::fs::fcntl_setfl(&self.file, flags - OFlags::DIRECT)?;
        }
        Ok(())
    }
}

impl WritableFile for DirectFile {
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let whole = data.len() - data.len() % DIRECT_ALIGNMENT;
        if !self.is_direct.load(Ordering::Relaxed) || whole == 0 || !Self::is_aligned(data, offset) {
            self.leave_direct()?;
            return self.file.write_all_at(data, offset);
        }
        let (whole, rest) = data.split_at(whole);
        match self.file.write_all_at(whole, offset) {
            // A device with larger blocks than any that we know.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                self.leave_direct()?;
                self.file.write_all_at(whole, offset)?;
            }
            outcome => outcome?,
        }
        if rest.is_empty() { Ok(()) } else { self.write_at(rest, offset + whole.len() as u64) }
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        allocate(&self.file, len)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
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
        allocate(&self.file, len)
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

fn allocate(file: &File, len: u64) -> io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
            if file.metadata()?.len() < len {
                file.set_len(len)
            } else {
                Ok(())
            }
        }
        Err(error) => Err(error.into()),
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

    fn will_need(&self, offset: u64, len: u64) {
        // The pages come into the page cache, so a map of the file has them, too.
        let _ = rustix::fs::fadvise(&self.file, offset, NonZeroU64::new(len), Advice::WillNeed); // a hint
    }

    fn map(&self) -> io::Result<Option<MappedFile>> {
        Ok(Some(MappedFile::new(&self.file)?))
    }
}
