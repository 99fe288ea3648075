//! The only way to disk and to the clock.
//!
//! Everything that the store reads, writes, renames or deletes goes through one [`FileSystem`], and every
//! look at a clock through one [`Clock`]; tests hand in their own of both. The real ones are
//! [`DiskFileSystem`] and [`SystemClock`].
//!
//! This module knows no engine type and no file format. Errors are plain [`io::Error`]; callers add what
//! they were doing and to which file with [`Error::io`](crate::Error::io).

mod copy;
mod disk;
mod limited;
#[cfg(test)]
pub(crate) mod mem;
mod mmap;
mod read_only;
mod tracked;

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

pub(crate) use copy::{copy_file, link_or_copy};
pub use disk::DiskFileSystem;
pub(crate) use limited::LimitedFileSystem;
pub use mmap::MappedFile;
pub(crate) use read_only::{ReadOnlyFileSystem, RefusingFile};
pub use sluicedb_controller::{Clock, SystemClock};
pub(crate) use tracked::TrackedFileSystem;

/// The file system as the store needs it.
///
/// # Durability
///
/// A file's bytes survive a power failure once [`WritableFile::sync`] has returned; its *name* survives once
/// [`sync_dir`](FileSystem::sync_dir) of its directory has returned, and the same holds for a rename or a
/// removal. Implementations may keep more than that, never less.
pub trait FileSystem: Send + Sync + Debug + 'static {
    /// Creates `path` for writing; an existing file of that name is emptied.
    fn create(&self, path: &Path) -> io::Result<Box<dyn WritableFile>>;

    /// The same for a large file that is written once, front to back, and should not fill the page cache: writes go straight to
    /// the device where the file system can do that. Best are writes of multiples of 4096 bytes at such offsets, from
    /// memory so aligned; any other write works, too.
    fn create_direct(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        self.create(path)
    }

    /// Opens the existing `path` for writing without emptying it (recycled WAL segments).
    fn open_writable(&self, path: &Path) -> io::Result<Box<dyn WritableFile>>;

    /// Opens the existing `path` for reading at any offset.
    fn open_readable(&self, path: &Path) -> io::Result<Arc<dyn ReadableFile>>;

    /// The names (not paths) of all entries of the directory `dir`, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Whether something of that name is there.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Size of the file in bytes.
    fn size(&self, path: &Path) -> io::Result<u64>;

    /// Creates the directory and its parents; one that is there already is no error.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Renames a file, replacing `to`. Durable after [`sync_dir`](FileSystem::sync_dir).
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Makes `to` a second name of the file `from`, on which nothing may be written any more. Durable after
    /// [`sync_dir`](FileSystem::sync_dir) of `to`'s directory.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::Unsupported`] where there is no such thing, which is what this default answers;
    /// [`io::ErrorKind::AlreadyExists`] when `to` is there.
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _ = (from, to);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Removes a file. Durable after [`sync_dir`](FileSystem::sync_dir).
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, dir: &Path) -> io::Result<()>;

    /// Makes the directory's entries durable: names created, renamed and removed before the call.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Creates `path` if needed and takes an exclusive lock on it, held until the guard is dropped.
    /// `None` when somebody else, in this process or another, holds it.
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn FileLock>>>;

    /// A number that no other file of this or another database has: random, never 0.
    fn unique_id(&self) -> u64;
}

/// A file open for writing at given offsets.
///
/// All calls take `&self`: one thread may sync while another writes further bytes, which that sync may or may
/// not cover.
pub trait WritableFile: Send + Sync + Debug {
    /// Hands all of `data` to the operating system at `offset`, growing the file if needed.
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()>;

    /// Makes everything durable that was handed over before the call.
    fn sync(&self) -> io::Result<()>;

    /// Reserves space so that writes below `len` need no more of it, and sets the size to at least `len`;
    /// bytes never written read as 0.
    fn allocate(&self, len: u64) -> io::Result<()>;

    /// Cuts or grows the file to exactly `len` bytes.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// A hint that the range written lately should start its way to the device now. May do nothing.
    fn start_writeback(&self, offset: u64, len: u64) -> io::Result<()> {
        let _ = (offset, len);
        Ok(())
    }
}

/// A file open for reading at any offset.
pub trait ReadableFile: Send + Sync + Debug {
    /// Fills as much of `buf` as the file holds from `offset` on; less than asked only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Size of the file in bytes.
    fn size(&self) -> io::Result<u64>;

    /// A hint that the range will be read soon: the system may begin to bring it in. Waits for nothing; may do nothing.
    fn will_need(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// The whole file mapped into memory, where the file system can do that. The file is never written or cut
    /// while a map of it lives: only SSTs are mapped, and those are immutable until they are deleted.
    fn map(&self) -> io::Result<Option<MappedFile>> {
        Ok(None)
    }
}

/// Proof that the LOCK file is held; dropping it lets go.
pub trait FileLock: Send + Sync + Debug {}

/// What offsets, lengths and addresses of direct writes are multiples of, in bytes: the largest logical block in use.
pub(crate) const DIRECT_ALIGNMENT: usize = 4096;

/// Bytes between two hints that what was written should start its way to the device.
const WRITEBACK_STEP: u64 = 1 << 20;

/// What of a file to hint at ([`WritableFile::start_writeback`]) after a write from `from` to `to` that continues earlier ones:
/// the steps that are full now. The sync at the end then has little left to wait for.
#[inline]
pub(crate) fn writeback_due(from: u64, to: u64) -> Option<Range<u64>> {
    let (full_before, full_now) = (from / WRITEBACK_STEP, to / WRITEBACK_STEP);
    (full_now > full_before).then(|| full_before * WRITEBACK_STEP..full_now * WRITEBACK_STEP)
}

/// Reads the whole of `path`. For small files (CURRENT, MANIFEST, OPTIONS) only.
pub(crate) fn read_all(fs: &dyn FileSystem, path: &Path) -> io::Result<Vec<u8>> {
    let file = fs.open_readable(path)?;
    let size = file.size()?;
    let mut bytes = vec![0; usize::try_from(size).map_err(|_| io::ErrorKind::FileTooLarge)?];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Reads `len` bytes of `path` from `offset` on, or what there is of them.
pub(crate) fn read_range(fs: &dyn FileSystem, path: &Path, offset: u64, len: u64) -> io::Result<Vec<u8>> {
    let file = fs.open_readable(path)?;
    let len = len.min(file.size()?.saturating_sub(offset));
    let mut bytes = vec![0; usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?];
    let read = file.read_at(&mut bytes, offset)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Processor time that the calling thread has used, in microseconds. For statistics only; no clock to wait by.
pub(crate) fn thread_cpu_micros() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
}

/// Memory of the machine, in bytes.
pub(crate) fn total_memory() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit))
}

/// Makes the calling thread give way to others when processors are short: its niceness (0: none, 19: the most) is set. A
/// hint: where the system refuses, nothing changes.
pub(crate) fn lower_thread_priority(nice: i32) {
    // For Linux a thread is a process to this call.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), nice);
}
