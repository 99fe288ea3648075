//! [`Table`]: one SST, by itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::InternalKey;
use crate::env::FileSystem;
use crate::error::{Error, Result};
use crate::filename::{FileKind, parse};
use crate::iter::InternalIterator;
use crate::sst::{BlockRead, SstReader, check};
use crate::version::FileNumber;

/// What a table says of itself.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TableProperties {
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Random id of the file.
    pub unique_id: u64,
    /// Entries, tombstones included.
    pub entries: u64,
    /// Tombstones among them.
    pub tombstones: u64,
    /// Keys before compression, in bytes, with eight for each one's sequence and kind.
    pub raw_key_bytes: u64,
    /// Values before compression, in bytes.
    pub raw_value_bytes: u64,
    /// Data blocks.
    pub data_blocks: u64,
    /// Data blocks as stored, in bytes.
    pub data_bytes: u64,
    /// The index as stored, in bytes.
    pub index_bytes: u64,
    /// The filter as stored, in bytes; 0 without one.
    pub filter_bytes: u64,
    /// Distinct keys in the filter; 0 without one.
    pub filter_keys: u64,
    /// Blocks that are stored compressed.
    pub compressed_blocks: u64,
    /// Smallest key.
    pub smallest: InternalKey,
    /// Largest key.
    pub largest: InternalKey,
    /// Id and name of the column family that it was made for; `None` in tables that do not say.
    pub family: Option<(u32, String)>,
}

/// An SST, opened by itself: what no manifest says is not checked.
#[derive(Debug)]
pub struct Table {
    path: PathBuf,
    reader: Arc<SstReader>,
}

impl Table {
    /// Opens the table in `path`.
    ///
    /// # Errors
    ///
    /// [`Error::Corruption`] when its footer, index, filter or properties are damaged; [`Error::Io`] when it cannot be read.
    pub fn open(fs: &dyn FileSystem, path: &Path) -> Result<Self> {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let number = match parse(&name) {
            Some(FileKind::Sst(number)) => number,
            _ => FileNumber(0), // any file may hold a table
        };
        let reader = SstReader::open_unlisted(fs, path.to_owned(), number)?;
        Ok(Self { path: path.to_owned(), reader })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the table says of itself.
    pub fn properties(&self) -> TableProperties {
        let (said, footer) = (self.reader.properties(), self.reader.footer());
        TableProperties {
            file_bytes: footer.file_size,
            unique_id: footer.unique_id,
            entries: said.entries,
            tombstones: said.tombstones,
            raw_key_bytes: said.raw_key_bytes,
            raw_value_bytes: said.raw_value_bytes,
            data_blocks: said.data_blocks,
            data_bytes: said.data_bytes,
            index_bytes: u64::from(footer.index.len),
            filter_bytes: u64::from(footer.filter.len),
            filter_keys: said.filter_keys,
            compressed_blocks: self.reader.compressed_blocks(),
            smallest: InternalKey::decode(&said.smallest),
            largest: InternalKey::decode(&said.largest),
            family: said.family.as_ref().map(|(id, name)| (*id, name.to_string())),
        }
    }

    /// Hands every entry from the user key `from` on to `visit`, in order, until it says false. Checksums are verified.
    ///
    /// # Errors
    ///
    /// [`Error::Corruption`] at the first damaged block; what `visit` returns.
    pub fn for_each(
        &self,
        from: Option<&[u8]>,
        mut visit: impl FnMut(&InternalKey, &[u8]) -> Result<bool>,
    ) -> Result<()> {
        let mut entries = self.reader.iter(BlockRead::BACKGROUND);
        match from {
            Some(from) => entries.seek(&crate::key::seek_key(from, crate::key::SequenceNumber::MAX))?,
            None => entries.seek_to_first()?,
        }
        while entries.valid() && visit(&InternalKey::decode(entries.key()), entries.value())? {
            entries.next()?;
        }
        Ok(())
    }

    /// Checks every byte of the table in `path`: what is wrong comes back, nothing when all is well.
    pub fn verify(fs: &dyn FileSystem, path: &Path) -> Vec<Error> {
        let mut findings = Vec::new();
        check(fs, path, None, &mut findings);
        findings
    }
}
