//! [`SstReader`]: one open table; point reads, and blocks for its iterators.
//!
//! Index and filter stay resident while a table is open; their checksums were verified when it was opened.
//! A data block is used in place when it is stored and the file is mapped, else it comes from the block
//! cache, which one thread fills for all that miss. Which tables to ask, and in which order, is the affair
//! of versions.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::block::find;
use super::bytes::BlockBytes;
use super::filter::{self, Filter};
use super::format::{BlockHandle, Codec, Extent, Footer};
use super::index::TableIndex;
use super::iter::SstIter;
use super::properties::SstProperties;
use super::source::TableFile;
use crate::cache::{BlockCache, BlockKey};
use crate::env::{FileSystem, MappedFile};
use crate::error::{Corruption, Error, Result};
use crate::key::{SequenceNumber, ValueType, split_internal, unpack_trailer};
use crate::options::ReadMode;
use crate::slice::PinnedSlice;
use crate::version::FileNumber;

/// How a read gets its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockRead {
    /// Checksums are verified when a block is loaded (mapped blocks: when first used). What goes to the
    /// cache is verified always, for other readers trust it.
    pub(crate) verify: bool,
    /// Blocks that had to be loaded stay in the block cache.
    pub(crate) fill_cache: bool,
    /// Iterators ask for what lies ahead before they come to it.
    pub(crate) read_ahead: bool,
}

impl BlockRead {
    /// For what users read, unless they say otherwise.
    #[cfg(test)]
    pub(crate) const USER: Self = Self { verify: true, fill_cache: true, read_ahead: false };
    /// For compactions: reads everything once and keeps nothing.
    pub(crate) const BACKGROUND: Self = Self { verify: true, fill_cache: false, read_ahead: true };
}

/// An open table.
#[derive(Debug)]
pub(crate) struct SstReader {
    file: TableFile,
    number: FileNumber,
    index: TableIndex,
    filter: Option<Filter>,
    properties: SstProperties,
    cache: Option<Arc<BlockCache>>,
    /// A bit for each data block: its checksum was verified in the map. Mapped bytes never change, so once
    /// does.
    verified: Box<[AtomicU64]>,
}

impl SstReader {
    /// Opens a table and checks that it is the one meant: size and unique id as the manifest has them.
    ///
    /// # Errors
    ///
    /// [`Error::Corruption`] naming file and offset; [`Error::Io`] when it is not there or cannot be read.
    pub(crate) fn open(
        fs: &dyn FileSystem,
        path: PathBuf,
        number: FileNumber,
        unique_id: u64,
        size: u64,
        mode: ReadMode,
        cache: Option<Arc<BlockCache>>,
    ) -> Result<Arc<Self>> {
        let file = TableFile::open(fs, path, mode, Some(size))?;
        file.check_unique_id(unique_id)?;
        Self::with_file(file, number, cache)
    }

    /// Opens a table of which nothing is known: for repair and inspection.
    pub(crate) fn open_unlisted(fs: &dyn FileSystem, path: PathBuf, number: FileNumber) -> Result<Arc<Self>> {
        Self::with_file(TableFile::open(fs, path, ReadMode::Pread, None)?, number, None)
    }

    fn with_file(file: TableFile, number: FileNumber, cache: Option<Arc<BlockCache>>) -> Result<Arc<Self>> {
        let Footer { index, filter, properties, .. } = *file.footer();
        // Data blocks end where the filter begins, or the index if there is none.
        let data_end = if filter.len == 0 { index.offset } else { filter.offset };
        let wrong = |extent: Extent| move |found: Corruption| (extent, found);
        let parts = || {
            let bytes = file.load(index, true)?;
            let decoded = TableIndex::decode(bytes, data_end).map_err(wrong(index));
            let bytes = file.load(properties, true)?;
            let listed = SstProperties::decode(&bytes).map_err(wrong(properties));
            let filtered = if filter.len == 0 {
                Ok(None)
            } else {
                Filter::new(file.load(filter, true)?).map(Some).map_err(wrong(filter))
            };
            let all = decoded.and_then(|index| Ok((index, filtered?, listed?)));
            all.map_err(|(extent, found)| file.corrupt(extent, found))
        };
        let (index, filter, properties) = parts()?;
        let verified = (0..index.len().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Ok(Arc::new(Self { file, number, index, filter, properties, cache, verified }))
    }

    /// The newest entry of the user key of `target` at or below the sequence of `target` (an internal key).
    ///
    /// Allocates nothing beyond a block that was not in memory.
    pub(crate) fn get(
        &self,
        target: &[u8],
        how: BlockRead,
    ) -> Result<Option<(SequenceNumber, ValueType, PinnedSlice)>> {
        let Some(ordinal) = self.locate(target) else { return Ok(None) };
        let block = self.block(ordinal, how)?;
        self.find_in(ordinal, block, target)
    }

    /// The data block in which the answer to [`get`](Self::get) is, if there is one: what filter and index leave.
    #[inline]
    pub(crate) fn locate(&self, target: &[u8]) -> Option<usize> {
        let (user_key, trailer) = split_internal(target);
        if let Some(filter) = &self.filter
            && !filter.may_contain(filter::hash(user_key))
        {
            return None;
        }
        // The bound of a block never has the user key of the block behind, unless it is that block's exact
        // last key; so what is not in this block is not in the table.
        let ordinal = self.index.find(user_key, trailer);
        (ordinal < self.index.len()).then_some(ordinal)
    }

    /// The answer to [`get`](Self::get) from `block`, which is the data block `ordinal`.
    #[inline]
    pub(crate) fn find_in(
        &self,
        ordinal: usize,
        block: BlockBytes,
        target: &[u8],
    ) -> Result<Option<(SequenceNumber, ValueType, PinnedSlice)>> {
        let (user_key, trailer) = split_internal(target);
        match find(&block, user_key, trailer) {
            Ok(None) => Ok(None),
            Ok(Some(found)) => match unpack_trailer(found.trailer) {
                Some((seq, value_type)) => {
                    Ok(Some((seq, value_type, PinnedSlice::in_block(block, found.value))))
                }
                None => Err(self.bad_block(ordinal)),
            },
            Err(_) => Err(self.bad_block(ordinal)),
        }
    }

    /// Whether the data block `ordinal` can be had without reading or decompressing anything.
    pub(crate) fn is_at_hand(&self, ordinal: usize) -> bool {
        let handle = self.index.handle(ordinal);
        if handle.codec == Codec::Stored && self.file.map().is_some() {
            let bit = 1 << (ordinal % 64);
            return self.verified[ordinal / 64].load(Ordering::Relaxed) & bit != 0; // only a hint
        }
        let key = BlockKey { file_id: self.file.footer().unique_id, offset: handle.extent.offset };
        self.cache.as_ref().is_some_and(|cache| cache.contains(key))
    }

    /// An iterator over all entries.
    pub(crate) fn iter(self: &Arc<Self>, how: BlockRead) -> SstIter {
        SstIter::new(self.clone(), how)
    }

    pub(crate) fn properties(&self) -> &SstProperties {
        &self.properties
    }

    #[cfg_attr(not(test), expect(dead_code, reason = "for inspection"))]
    pub(crate) fn number(&self) -> FileNumber {
        self.number
    }

    pub(crate) fn footer(&self) -> &Footer {
        self.file.footer()
    }

    /// About how many bytes of the file lie before the internal key `target`.
    #[cfg_attr(not(test), expect(dead_code, reason = "for inspection"))]
    pub(crate) fn approximate_offset(&self, target: &[u8]) -> u64 {
        let (user_key, trailer) = split_internal(target);
        match self.index.find(user_key, trailer) {
            ordinal if ordinal < self.index.len() => self.index.handle(ordinal).extent.offset,
            _ => self.file.footer().file_size,
        }
    }

    /// Data blocks that are stored compressed.
    pub(crate) fn compressed_blocks(&self) -> u64 {
        let is_compressed = |ordinal: &usize| self.index.handle(*ordinal).codec != Codec::Stored;
        (0..self.index.len()).filter(is_compressed).count() as u64
    }

    /// Heap memory that the open table keeps (index, and the filter unless it is mapped), in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.index.heap_bytes() + self.filter.as_ref().map_or(0, Filter::heap_bytes) + self.verified.len() * 8
    }

    pub(super) fn index(&self) -> &TableIndex {
        &self.index
    }

    /// Reads ahead of the data block `ordinal`, as [`TableFile::read_ahead`].
    pub(super) fn read_ahead(&self, asked: u64, ordinal: usize) -> u64 {
        self.file.read_ahead(asked, self.index.handle(ordinal).extent.offset)
    }

    /// The data block `ordinal`, which must exist.
    #[inline]
    pub(crate) fn block(&self, ordinal: usize, how: BlockRead) -> Result<BlockBytes> {
        let handle = self.index.handle(ordinal);
        if handle.codec == Codec::Stored
            && let Some(map) = self.file.map()
        {
            return self.block_in_place(map, ordinal, handle, how);
        }
        let Some(cache) = &self.cache else { return self.load(handle, how.verify) };
        let key = BlockKey { file_id: self.file.footer().unique_id, offset: handle.extent.offset };
        if how.fill_cache {
            cache.get_or_load(key, || self.load(handle, true))
        } else {
            cache.get(key).map_or_else(|| self.load(handle, how.verify), Ok)
        }
    }

    #[inline]
    fn block_in_place(
        &self,
        map: &Arc<MappedFile>,
        ordinal: usize,
        handle: BlockHandle,
        how: BlockRead,
    ) -> Result<BlockBytes> {
        let (word, bit) = (&self.verified[ordinal / 64], 1 << (ordinal % 64));
        // Relaxed: a reader that does not see the bit yet verifies once more, and the bytes are immutable.
        if how.verify && word.load(Ordering::Relaxed) & bit == 0 {
            self.load(handle, true)?;
            word.fetch_or(bit, Ordering::Relaxed); // as above
        }
        self.file.in_place(map, handle.extent)
    }

    fn load(&self, handle: BlockHandle, verify: bool) -> Result<BlockBytes> {
        self.file.load(handle.extent, verify)
    }

    /// The block `ordinal` is no block although its checksum, if verified, said so.
    #[cold]
    pub(super) fn bad_block(&self, ordinal: usize) -> Error {
        let found = Corruption::bad("data block", "ascending entries and restarts", "something else");
        self.file.corrupt(self.index.handle(ordinal).extent, found)
    }
}
