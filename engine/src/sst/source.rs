//! [`TableFile`]: the bytes of one table file, mapped or read, and how a checked block is made of them.
//!
//! Opening reads the footer and compares it with what the manifest says: size and unique id. Loading a block
//! checks its trailer and decompresses it. What blocks mean, and which of them are kept, is not known here.

use std::path::PathBuf;
use std::sync::Arc;

use super::bytes::BlockBytes;
use super::compression::{check_raw_len, decompress};
use super::format::{BlockPlace, Codec, Extent, FOOTER_LEN, Footer, TRAILER_LEN, unseal};
use crate::env::{FileSystem, MappedFile, ReadableFile};
use crate::error::{Corruption, Error, Result};
use crate::options::ReadMode;
use crate::sync::forbid_held_locks;

/// How far a reader that goes through a whole table is ahead of itself, in bytes: a few large requests to the device are
/// under way while earlier ones are worked on.
const READ_AHEAD: u64 = 2 << 20;

/// An open table file.
#[derive(Debug)]
pub(crate) struct TableFile {
    path: PathBuf,
    file: Arc<dyn ReadableFile>,
    map: Option<Arc<MappedFile>>,
    footer: Footer,
}

impl TableFile {
    /// Opens `path` and checks its footer, and its size if that is known. `mode` is a wish: a file system
    /// that cannot map is read from.
    pub(crate) fn open(
        fs: &dyn FileSystem,
        path: PathBuf,
        mode: ReadMode,
        known_size: Option<u64>,
    ) -> Result<Self> {
        forbid_held_locks("open a table");
        let file = fs.open_readable(&path).map_err(|error| Error::io("open", &path, error))?;
        let size = file.size().map_err(|error| Error::io("read the size of", &path, error))?;
        let least = known_size.unwrap_or(FOOTER_LEN as u64).max(FOOTER_LEN as u64);
        if size < least {
            let found = Corruption::Truncated { what: "table", expected: least, found: size };
            return Err(Error::corrupt(&path, size, found));
        }
        if let Some(known) = known_size
            && size != known
        {
            return Err(Error::corrupt(
                &path,
                known,
                Corruption::bad("size of the table", known.to_string(), size),
            ));
        }
        let footer_at = size - FOOTER_LEN as u64;
        let mut bytes = [0; FOOTER_LEN];
        let read = file.read_at(&mut bytes, footer_at).map_err(|error| Error::io("read", &path, error))?;
        if read < FOOTER_LEN {
            let found =
                Corruption::Truncated { what: "footer", expected: FOOTER_LEN as u64, found: read as u64 };
            return Err(Error::corrupt(&path, footer_at, found));
        }
        let footer = Footer::decode(&bytes).map_err(|found| Error::corrupt(&path, footer_at, found))?;
        if footer.file_size != size {
            let found = Corruption::bad("size of the table", footer.file_size.to_string(), size);
            return Err(Error::corrupt(&path, footer_at, found));
        }
        for extent in [footer.index, footer.filter, footer.properties] {
            if extent.end().is_none_or(|end| end > footer_at) {
                let found = Corruption::bad("place of a block", "before the footer", format!("{extent:?}"));
                return Err(Error::corrupt(&path, footer_at, found));
            }
        }
        let map = match mode {
            ReadMode::Mmap => file.map().map_err(|error| Error::io("map", &path, error))?.map(Arc::new),
            ReadMode::Pread => None,
        };
        if let Some(map) = &map
            && (map.len() as u64) < size
        {
            let found =
                Corruption::Truncated { what: "map of the table", expected: size, found: map.len() as u64 };
            return Err(Error::corrupt(&path, 0, found));
        }
        Ok(Self { path, file, map, footer })
    }

    /// Fails unless the file is the one of this id.
    pub(crate) fn check_unique_id(&self, unique_id: u64) -> Result<()> {
        if self.footer.unique_id == unique_id {
            return Ok(());
        }
        let (expected, found) = (format!("{unique_id:#018x}"), format!("{:#018x}", self.footer.unique_id));
        let at = self.footer.file_size - FOOTER_LEN as u64;
        Err(Error::corrupt(&self.path, at, Corruption::bad("unique id of the table", expected, found)))
    }

    pub(crate) fn footer(&self) -> &Footer {
        &self.footer
    }

    #[inline]
    pub(crate) fn map(&self) -> Option<&Arc<MappedFile>> {
        self.map.as_ref()
    }

    /// Damage in the block at `extent`.
    #[cold]
    pub(crate) fn corrupt(&self, extent: Extent, found: Corruption) -> Error {
        Error::corrupt(&self.path, extent.offset, found)
    }

    /// The block at `extent`: in place if it is stored and the file is mapped, else on the heap.
    pub(crate) fn load(&self, extent: Extent, verify: bool) -> Result<BlockBytes> {
        let sealed_len = extent.len as usize + TRAILER_LEN;
        let Some(map) = &self.map else { return self.read(extent, sealed_len, verify) };
        let begin = extent.offset as usize;
        let sealed = map.get(begin..begin + sealed_len).ok_or_else(|| self.cut_short(extent, 0))?;
        match unseal(sealed, self.place(extent), verify).and_then(|block| match block.codec {
            Codec::Stored => Ok(None),
            Codec::Lz4 => expand(block.stored, block.raw_len).map(Some),
        }) {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Ok(BlockBytes::mapped(map.clone(), begin..begin + extent.len as usize)),
            Err(found) => Err(self.corrupt(extent, found)),
        }
    }

    /// The same with a positioned read.
    fn read(&self, extent: Extent, sealed_len: usize, verify: bool) -> Result<BlockBytes> {
        forbid_held_locks("read a block");
        let mut sealed = zeroed(sealed_len);
        let bytes = exclusive(&mut sealed);
        let read =
            self.file.read_at(bytes, extent.offset).map_err(|error| Error::io("read", &self.path, error))?;
        if read < sealed_len {
            return Err(self.cut_short(extent, read as u64));
        }
        let expanded = unseal(bytes, self.place(extent), verify).and_then(|block| match block.codec {
            Codec::Stored => Ok(None),
            Codec::Lz4 => expand(block.stored, block.raw_len).map(Some),
        });
        match expanded {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Ok(BlockBytes::heap(sealed, extent.len as usize)),
            Err(found) => Err(self.corrupt(extent, found)),
        }
    }

    /// The stored block at `extent` of the mapped file, where it lies.
    #[inline]
    pub(crate) fn in_place(&self, map: &Arc<MappedFile>, extent: Extent) -> Result<BlockBytes> {
        let begin = extent.offset as usize;
        let end = begin + extent.len as usize;
        if end > map.len() {
            return Err(self.cut_short(extent, 0));
        }
        Ok(BlockBytes::mapped(map.clone(), begin..end))
    }

    /// Asks the system to bring in what lies behind the offset `at`, unless enough of it was `asked` for already; how far
    /// it has been asked for now comes back.
    pub(crate) fn read_ahead(&self, asked: u64, at: u64) -> u64 {
        let (from, to) = (asked.max(at), at + READ_AHEAD);
        if from + READ_AHEAD / 2 > to {
            return asked;
        }
        self.file.will_need(from, to - from);
        to
    }

    fn place(&self, extent: Extent) -> BlockPlace {
        BlockPlace { file_id: self.footer.unique_id, offset: extent.offset }
    }

    #[cold]
    fn cut_short(&self, extent: Extent, found: u64) -> Error {
        let expected = u64::from(extent.len) + TRAILER_LEN as u64;
        self.corrupt(extent, Corruption::Truncated { what: "block", expected, found })
    }
}

/// The contents of an LZ4 block, decompressed straight into the memory where they stay.
fn expand(stored: &[u8], raw_len: usize) -> Result<BlockBytes, Corruption> {
    check_raw_len(stored.len(), raw_len)?;
    let mut raw = zeroed(raw_len);
    decompress(stored, exclusive(&mut raw))?;
    Ok(BlockBytes::heap(raw, raw_len))
}

/// Memory for a block in one allocation with its reference counts.
fn zeroed(len: usize) -> Arc<[u8]> {
    std::iter::repeat_n(0, len).collect()
}

fn exclusive(bytes: &mut Arc<[u8]>) -> &mut [u8] {
    Arc::get_mut(bytes).expect("new memory has one owner")
}
