//! What the disk costs: sequential writes in each mode, small appends, and syncs.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use memmap2::MmapMut;
use rustix::fs::OFlags;
use rustix::io::ReadWriteFlags;

use super::median;

const CHUNK: usize = 1 << 20;
const PAGE: usize = 4096;

/// How a file is written from start to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    /// `write(2)` of 1 MiB into the page cache.
    Buffered,
    /// The same, with a sync after each 8 MiB, so that little is left for the last one.
    BufferedSynced,
    /// `write(2)` of 1 MiB past the page cache.
    Direct,
    /// `pwritev2(2)` of 1 MiB that asks the kernel to drop the pages once they are written.
    DontCache,
    /// Stores into a shared mapping.
    Mapped,
}

impl WriteMode {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Buffered, Self::BufferedSynced, Self::Direct, Self::DontCache, Self::Mapped];

    /// As the table names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::BufferedSynced => "buffered, sync each 8 MiB",
            Self::Direct => "O_DIRECT",
            Self::DontCache => "RWF_DONTCACHE",
            Self::Mapped => "mmap stores",
        }
    }
}

/// What writing a file in one mode took, the sync at its end included.
#[derive(Debug, Clone, Copy)]
pub struct WriteCosts {
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Processor seconds of this process per 10^9 bytes.
    pub cpu_seconds_per_gb: f64,
    /// The longest call, in milliseconds.
    pub worst_call_ms: f64,
    /// The last sync, in milliseconds.
    pub last_sync_ms: f64,
}

/// Writes a new file of `bytes` in `directory` in this mode, then removes it.
///
/// # Errors
///
/// Those of the file system; `InvalidInput` or `Unsupported` where it knows no such mode.
pub fn sequential(directory: &Path, mode: WriteMode, bytes: usize) -> io::Result<WriteCosts> {
    let path = directory.join("limits.sequential");
    let outcome = write_file(&path, mode, bytes);
    let _ = std::fs::remove_file(&path);
    outcome
}

fn write_file(path: &Path, mode: WriteMode, bytes: usize) -> io::Result<WriteCosts> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    if mode == WriteMode::Direct {
        options.custom_flags(OFlags::DIRECT.bits() as i32);
    }
    let mut file = options.open(path)?;
    // An anonymous mapping begins at a page, as direct writes ask.
    let mut chunk = MmapMut::map_anon(CHUNK)?;
    chunk.fill(0xA5);
    let (cpu, start) = (cpu_seconds(), Instant::now());
    let mut worst: f64 = 0.0;
    let mut map = mapped(&file, mode, bytes)?;
    for at in (0..bytes).step_by(CHUNK) {
        let call = Instant::now();
        match (&mut map, mode) {
            (Some(map), _) => map[at..at + CHUNK].copy_from_slice(&chunk),
            (None, WriteMode::DontCache) => dont_cache(&file, &chunk, at)?,
            (None, _) => file.write_all(&chunk)?,
        }
        if mode == WriteMode::BufferedSynced && (at + CHUNK).is_multiple_of(8 * CHUNK) {
            file.sync_data()?;
        }
        worst = worst.max(call.elapsed().as_secs_f64());
    }
    let sync = Instant::now();
    if let Some(map) = &map {
        map.flush()?;
    }
    file.sync_data()?;
    let (last_sync, taken) = (sync.elapsed().as_secs_f64(), start.elapsed().as_secs_f64());
    Ok(WriteCosts {
        bytes_per_second: bytes as f64 / taken,
        cpu_seconds_per_gb: (cpu_seconds() - cpu) / (bytes as f64 / 1e9),
        worst_call_ms: worst * 1e3,
        last_sync_ms: last_sync * 1e3,
    })
}

fn mapped(file: &File, mode: WriteMode, bytes: usize) -> io::Result<Option<MmapMut>> {
    if mode != WriteMode::Mapped {
        return Ok(None);
    }
    file.set_len(bytes as u64)?;
    // SAFETY: the file was made by this process a moment ago; nobody else knows it, and it is not truncated while mapped.
    unsafe { MmapMut::map_mut(file) }.map(Some)
}

fn dont_cache(file: &File, chunk: &[u8], at: usize) -> io::Result<()> {
    // RWF_DONTCACHE, Linux 6.14: younger than rustix's list of flags.
    let flags = ReadWriteFlags::from_bits_retain(0x80);
    let written = rustix::io::pwritev2(file, &[IoSlice::new(chunk)], at as u64, flags)?;
    if written == chunk.len() { Ok(()) } else { file.write_all_at(&chunk[written..], (at + written) as u64) }
}

/// Processor time of this process, in seconds.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// What small writes and syncs cost.
#[derive(Debug, Clone, Copy)]
pub struct SmallCosts {
    /// Appending 140 bytes with one `write(2)`, in nanoseconds.
    pub append_140: f64,
    /// Appending 1040 bytes, in nanoseconds.
    pub append_1040: f64,
    /// Appending 64 KiB, in nanoseconds per byte.
    pub append_large: f64,
    /// Appending 4 KiB and `fdatasync`, in nanoseconds, the median.
    pub synced_append: f64,
    /// The same into a file whose blocks were written and synced before.
    pub synced_overwrite: f64,
}

/// Measures them in a file of its own in `directory`.
///
/// # Errors
///
/// Those of the file system.
pub fn small(directory: &Path) -> io::Result<SmallCosts> {
    let path = directory.join("limits.small");
    let outcome = small_in(&path);
    let _ = std::fs::remove_file(&path);
    outcome
}

fn small_in(path: &Path) -> io::Result<SmallCosts> {
    const SYNCS: usize = 300;
    Ok(SmallCosts {
        append_140: appends(path, 140, 100_000)?,
        append_1040: appends(path, 1040, 30_000)?,
        append_large: appends(path, 64 << 10, 500)? / f64::from(64 << 10),
        synced_append: syncs(&File::create(path)?, SYNCS)?,
        synced_overwrite: syncs(&OpenOptions::new().write(true).open(path)?, SYNCS)?,
    })
}

fn appends(path: &Path, bytes: usize, count: usize) -> io::Result<f64> {
    let mut file = File::create(path)?;
    let data = vec![3; bytes];
    let start = Instant::now();
    for _ in 0..count {
        file.write_all(&data)?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e9 / count as f64)
}

fn syncs(file: &File, count: usize) -> io::Result<f64> {
    let mut samples = Vec::with_capacity(count);
    for at in 0..count {
        let start = Instant::now();
        file.write_all_at(&[9; PAGE], (at * PAGE) as u64)?;
        file.sync_data()?;
        samples.push(start.elapsed().as_secs_f64() * 1e9);
    }
    Ok(median(&mut samples))
}
