//! [`SstWriter`]: makes one table file from ascending internal keys.
//!
//! Entries fill a block; a full block is compressed, sealed and appended to an output buffer that goes to the
//! file in large pieces. The index entry of a block is written when the next key is known, so that it can be
//! shorter than a key. At the end come filter, index, properties and footer (see
//! [`format`](super::format)), and a sync of the file. Syncing the directory, naming the file in a
//! manifest, and removing it after an error are the caller's affair.

use std::path::PathBuf;

use super::block_builder::BlockBuilder;
use super::compression::Compressor;
use super::format::{BlockHandle, BlockPlace, Codec, Extent, FOOTER_LEN, Footer, TRAILER_LEN, Trailer};
use super::properties::SstProperties;
use super::{SstOptions, common_prefix, filter};
use crate::env::{DIRECT_ALIGNMENT, FileSystem, WritableFile, writeback_due};
use crate::error::{Error, Result};
use crate::key::{SequenceNumber, ValueType, pack_trailer, split_internal, unpack_trailer};
use crate::sync::forbid_held_locks;

/// The output goes to the file in pieces of this many bytes. Direct: the size from which the device's speed is reached.
const DIRECT_CHUNK_LEN: usize = 1 << 20;
/// Through the page cache: a copy that no other thread waits long for, since the kernel may not let go of the processor within.
const BUFFERED_CHUNK_LEN: usize = 128 << 10;
/// Most bytes of one entry: with them and its overhead a block stays below 4 GiB.
const ENTRY_LEN_MAX: u64 = (4 << 30) - (64 << 10);
/// The index is read as a whole, so long runs cost nothing.
const INDEX_RESTART_INTERVAL: u32 = 64;

/// What a finished table holds: what the manifest will remember of it, and the size of what went in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SstSummary {
    /// Bytes of the file.
    pub(crate) size: u64,
    pub(crate) unique_id: u64,
    /// Smallest and largest internal key.
    pub(crate) smallest: Box<[u8]>,
    pub(crate) largest: Box<[u8]>,
    pub(crate) smallest_seq: SequenceNumber,
    pub(crate) largest_seq: SequenceNumber,
    /// Entries, tombstones included.
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
    /// Internal keys and values before compression.
    pub(crate) raw_bytes: u64,
}

/// A table file in the making.
pub(crate) struct SstWriter {
    output: Output,
    options: SstOptions,
    block: BlockBuilder,
    index: BlockBuilder,
    /// The block that was written last and has no index entry yet.
    unindexed: Option<BlockHandle>,
    compressor: Compressor,
    /// Hashes of the distinct user keys, for the filter.
    hashes: Vec<u64>,
    properties: SstProperties,
}

impl SstWriter {
    /// Creates the file `path`; an existing one is emptied. `unique_id` is a fresh
    /// [`FileSystem::unique_id`].
    pub(crate) fn create(
        fs: &dyn FileSystem,
        path: PathBuf,
        unique_id: u64,
        options: SstOptions,
    ) -> Result<Self> {
        forbid_held_locks("create a table");
        let made = if options.direct { fs.create_direct(&path) } else { fs.create(&path) };
        let file = made.map_err(|error| Error::io("create", &path, error))?;
        let chunk = Chunk::new(if options.direct { DIRECT_CHUNK_LEN } else { BUFFERED_CHUNK_LEN });
        let output = Output { file, path, unique_id, chunk, written: 0 };
        Ok(Self {
            output,
            block: BlockBuilder::new(options.restart_interval),
            index: BlockBuilder::new(INDEX_RESTART_INTERVAL),
            unindexed: None,
            compressor: Compressor::new(options.compression),
            hashes: Vec::new(),
            properties: SstProperties { smallest_seq: SequenceNumber::MAX, ..SstProperties::default() },
            options,
        })
    }

    /// Makes the table say that it is of this column family.
    pub(crate) fn of_family(mut self, id: u32, name: &str) -> Self {
        self.properties.family = Some((id, name.into()));
        self
    }

    /// Adds an entry behind all others.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for an entry that no block can hold (4 GiB less a little); failures to
    /// write.
    ///
    /// # Panics
    ///
    /// When the key is no internal key or does not belong behind the one added last.
    #[inline]
    pub(crate) fn add(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        let (user_key, trailer) = split_internal(internal_key);
        let (seq, value_type) = unpack_trailer(trailer).expect("a key that is added has a known type");
        if self.block.len_with(user_key.len(), value.len()) as u64 > self.options.block_size {
            if internal_key.len() as u64 + value.len() as u64 > ENTRY_LEN_MAX {
                return Err(Error::invalid("value", "key and value are too long for a block of a table"));
            }
            if !self.block.is_empty() {
                self.finish_block()?;
            }
        }
        if let Some(handle) = self.unindexed.take() {
            self.add_index_entry(handle, user_key);
        }
        let is_new_key = self.block.add(user_key, trailer, value);
        if is_new_key && self.options.bloom_bits_per_key > 0.0 {
            self.hashes.push(filter::hash(user_key));
        }
        let properties = &mut self.properties;
        if properties.entries == 0 {
            properties.smallest = internal_key.into();
        }
        properties.entries += 1;
        properties.tombstones += u64::from(value_type == ValueType::Delete);
        properties.raw_key_bytes += internal_key.len() as u64;
        properties.raw_value_bytes += value.len() as u64;
        properties.smallest_seq = properties.smallest_seq.min(seq);
        properties.largest_seq = properties.largest_seq.max(seq);
        Ok(())
    }

    /// Bytes of the file so far, those that are still buffered included; filter and index not.
    pub(crate) fn file_size(&self) -> u64 {
        let block = if self.block.is_empty() { 0 } else { self.block.len() };
        self.output.position() + block as u64
    }

    /// Writes what is left, then filter, index, properties and footer, and syncs the file.
    ///
    /// # Panics
    ///
    /// When no entry was added.
    pub(crate) fn finish(self) -> Result<SstSummary> {
        self.write_rest()?.sync()
    }

    /// Writes what [`SstWriter::finish`] writes; the sync is left to the caller, who may have something to do before it waits.
    ///
    /// # Panics
    ///
    /// When no entry was added.
    pub(crate) fn write_rest(mut self) -> Result<UnsyncedSst> {
        assert!(self.properties.entries > 0, "a table holds at least one entry");
        // 1. The last data block and its index entry.
        if !self.block.is_empty() {
            self.finish_block()?;
        }
        let (user_key, trailer) = self.block.last_key();
        let mut largest = Vec::new();
        largest.extend_from_slice(user_key);
        largest.extend_from_slice(&trailer.to_le_bytes());
        self.properties.largest = largest.into();
        if let Some(handle) = self.unindexed.take() {
            let (user_key, trailer) = self.block.last_key();
            add_to_index(&mut self.index, user_key, trailer, handle);
        }
        // 2. The filter, in lines as the processor has them.
        let mut filter_extent = Extent::default();
        let filter = filter::build(&self.hashes, self.options.bloom_bits_per_key);
        if !filter.is_empty() {
            self.properties.filter_keys = self.hashes.len() as u64;
            self.output.pad_to(filter::LINE_LEN as u64)?;
            filter_extent = self.output.append_block(Codec::Stored, &filter, filter.len())?;
        }
        // 3. Index and properties.
        let raw = self.index.finish();
        let (codec, stored) = self.compressor.compress(raw);
        let index_extent = self.output.append_block(codec, stored, raw.len())?;
        let properties = self.properties.encode();
        let properties_extent = self.output.append_block(Codec::Stored, &properties, properties.len())?;
        // 4. The footer.
        let footer = Footer {
            unique_id: self.output.unique_id,
            file_size: self.output.position() + FOOTER_LEN as u64,
            index: index_extent,
            filter: filter_extent,
            properties: properties_extent,
        };
        self.output.append(&footer.encode())?;
        self.output.write_out()?;
        let properties = self.properties;
        let summary = SstSummary {
            size: footer.file_size,
            unique_id: footer.unique_id,
            smallest: properties.smallest,
            largest: properties.largest,
            smallest_seq: properties.smallest_seq,
            largest_seq: properties.largest_seq,
            entries: properties.entries,
            tombstones: properties.tombstones,
            raw_bytes: properties.raw_key_bytes + properties.raw_value_bytes,
        };
        Ok(UnsyncedSst { output: self.output, summary })
    }

    /// Writes the current block out and leaves it for the index.
    fn finish_block(&mut self) -> Result<()> {
        let raw = self.block.finish();
        let (codec, stored) = self.compressor.compress(raw);
        let extent = self.output.append_block(codec, stored, raw.len())?;
        self.unindexed = Some(BlockHandle { extent, codec });
        self.properties.data_blocks += 1;
        self.properties.data_bytes += stored.len() as u64 + TRAILER_LEN as u64;
        self.block.clear();
        Ok(())
    }

    /// Adds the index entry of the block that ends at the last key; the next one begins with `next`.
    fn add_index_entry(&mut self, handle: BlockHandle, next: &[u8]) {
        let (last, trailer) = self.block.last_key();
        let common = common_prefix(last, next);
        if common == last.len() && common == next.len() {
            // One user key in both blocks: only its whole internal key tells them apart.
            add_to_index(&mut self.index, last, trailer, handle);
        } else if common + 1 < next.len() {
            // The shortest key behind all of `last`, yet before `next`.
            add_to_index(&mut self.index, &next[..=common], BEHIND_ALL, handle);
        } else {
            add_to_index(&mut self.index, last, BEHIND_ALL, handle);
        }
    }
}

/// A table that is written as a whole and not on the device yet.
#[must_use = "a table counts once it is synced"]
pub(crate) struct UnsyncedSst {
    output: Output,
    summary: SstSummary,
}

impl UnsyncedSst {
    /// Waits until all of it is on the device.
    pub(crate) fn sync(self) -> Result<SstSummary> {
        self.output.sync()?;
        Ok(self.summary)
    }
}

/// The trailer behind all others of its user key.
const BEHIND_ALL: u64 = pack_trailer(SequenceNumber::ZERO, ValueType::Delete);

fn add_to_index(index: &mut BlockBuilder, user_key: &[u8], trailer: u64, handle: BlockHandle) {
    // A handle takes at most 10 + 5 + 1 bytes.
    let mut value = Vec::with_capacity(16);
    handle.encode(&mut value);
    index.add(user_key, trailer, &value);
}

/// The file and what it has not been given yet.
struct Output {
    file: Box<dyn WritableFile>,
    path: PathBuf,
    unique_id: u64,
    chunk: Chunk,
    /// Bytes handed to the file: where the chunk belongs.
    written: u64,
}

impl Output {
    fn position(&self) -> u64 {
        self.written + self.chunk.bytes().len() as u64
    }

    /// Appends zeros up to a multiple of `alignment`.
    fn pad_to(&mut self, alignment: u64) -> Result<()> {
        let missing = self.position().next_multiple_of(alignment) - self.position();
        self.append(&vec![0; missing as usize])
    }

    /// Appends a block with its trailer.
    fn append_block(&mut self, codec: Codec, stored: &[u8], raw_len: usize) -> Result<Extent> {
        let place = BlockPlace { file_id: self.unique_id, offset: self.position() };
        let (Ok(len), Ok(raw_len)) = (u32::try_from(stored.len()), u32::try_from(raw_len)) else {
            return Err(Error::invalid("table", "its filter or index would pass 4 GiB"));
        };
        let trailer = Trailer::seal(stored, codec, raw_len, place);
        self.append(stored)?;
        self.append(&trailer.encode())?;
        Ok(Extent { offset: place.offset, len })
    }

    /// Appends bytes; each time that the chunk is full, it goes to the file.
    fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        loop {
            bytes = self.chunk.fill(bytes);
            if !self.chunk.is_full() {
                return Ok(());
            }
            self.write_out()?;
        }
    }

    fn write_out(&mut self) -> Result<()> {
        forbid_held_locks("write a table");
        let bytes = self.chunk.bytes();
        let wrote = self.file.write_at(bytes, self.written);
        wrote.map_err(|error| Error::io("write", &self.path, error))?;
        let before = self.written;
        self.written += bytes.len() as u64;
        if let Some(due) = writeback_due(before, self.written) {
            let _ = self.file.start_writeback(due.start, due.end - due.start); // a hint
        }
        self.chunk.clear();
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        forbid_held_locks("sync a table");
        self.file.sync().map_err(|error| Error::io("sync", &self.path, error))
    }
}

/// Bytes for one write, at an address that direct writes may begin at.
struct Chunk {
    /// What lies before the aligned address, then the bytes. It never grows beyond its first capacity, so it never moves.
    memory: Vec<u8>,
    begin: usize,
    /// Bytes that it takes.
    len: usize,
}

impl Chunk {
    fn new(len: usize) -> Self {
        let mut memory = Vec::<u8>::with_capacity(len + DIRECT_ALIGNMENT);
        let begin = memory.as_ptr().align_offset(DIRECT_ALIGNMENT);
        memory.resize(begin, 0);
        Self { memory, begin, len }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.begin..]
    }

    fn is_full(&self) -> bool {
        self.bytes().len() == self.len
    }

    /// Takes as many of the bytes as fit; the others come back.
    fn fill<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (fitting, others) = bytes.split_at(bytes.len().min(self.len - self.bytes().len()));
        self.memory.extend_from_slice(fitting);
        others
    }

    fn clear(&mut self) {
        self.memory.truncate(self.begin);
    }
}
