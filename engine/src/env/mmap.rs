//! Mapping an SST into memory: the one place of the store that does.
//!
//! A map is sound only while nobody writes or cuts the file under it. SSTs are written once, synced, and only
//! then opened for reading; they are never written again and never truncated, only unlinked, which leaves the
//! mapped pages alive until the map is dropped. That rule is the reason why [`MappedFile`] can be made only
//! inside this crate's file system and is used for SSTs alone.

use std::fs::File;
use std::io;
use std::ops::Deref;

/// The bytes of a whole file, mapped read-only.
#[derive(Debug)]
pub struct MappedFile {
    map: memmap2::Mmap,
}

impl MappedFile {
    /// Maps all of `file`.
    pub(crate) fn new(file: &File) -> io::Result<Self> {
        // SAFETY: only finished SSTs are mapped (see the head of this file). They are immutable from then on:
        // no code of this crate writes or truncates them, and unlinking keeps mapped pages alive.
        let map = unsafe { memmap2::Mmap::map(file)? };
        Ok(Self { map })
    }

    /// A map of its own memory that holds a copy of `bytes`: for file systems that keep their files in memory.
    /// There must be at least one byte.
    pub fn copy_of(bytes: &[u8]) -> io::Result<Self> {
        let mut map = memmap2::MmapMut::map_anon(bytes.len())?;
        map.copy_from_slice(bytes);
        Ok(Self { map: map.make_read_only()? })
    }
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}
