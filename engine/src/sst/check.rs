//! Checking every byte of one table, and saving what is left of a damaged one.
//!
//! [`check`] goes on after what it finds: footer, index, filter and properties are looked at one by one, then every block,
//! every key, what lies between the blocks, and whether it all says the same as the properties and the manifest do.
//! [`salvage`] hands out the entries of every block that is whole.

use std::path::{Path, PathBuf};

use super::block::BlockCursor;
use super::bytes::BlockBytes;
use super::filter::{self, Filter};
use super::format::{Extent, FOOTER_LEN, Footer};
use super::index::TableIndex;
use super::properties::SstProperties;
use super::source::TableFile;
use crate::env::{FileSystem, read_range};
use crate::error::{Corruption, Error, Result};
use crate::key::{
    SequenceNumber, TRAILER_LEN, ValueType, compare_internal, split_internal, unpack_trailer, user_key,
};
use crate::options::ReadMode;
use crate::version::FileMeta;

/// Checks every byte of the table in `path`, against what the manifest says of it if that is known. Each finding names the
/// file and an offset; the bytes of the file come back.
///
/// # Errors
///
/// None: a refusal of the operating system is a finding, too.
pub(crate) fn check(
    fs: &dyn FileSystem,
    path: &Path,
    listed: Option<&FileMeta>,
    findings: &mut Vec<Error>,
) -> u64 {
    let file = match TableFile::open(fs, path.to_owned(), ReadMode::Pread, listed.map(|file| file.size)) {
        Ok(file) => file,
        Err(error) => {
            findings.push(named_missing(error));
            return 0;
        }
    };
    if let Some(listed) = listed
        && let Err(error) = file.check_unique_id(listed.unique_id)
    {
        findings.push(error);
    }
    let mut check =
        Check { fs, path, file: &file, footer: *file.footer(), findings, counted: Counted::default() };
    check.run(listed);
    file.footer().file_size
}

/// A table that is not there is named by the manifest: no refusal of the system, but damage.
fn named_missing(error: Error) -> Error {
    match error {
        Error::Io { path, source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Error::corrupt(&path, 0, Corruption::Missing { named_by: "the manifest".to_owned() })
        }
        other => other,
    }
}

/// What the entries themselves say.
#[derive(Default)]
struct Counted {
    properties: SstProperties,
    distinct_keys: u64,
    /// Some block could not be read, so the counts are not those of the table.
    incomplete: bool,
    last: Vec<u8>,
}

struct Check<'a> {
    fs: &'a dyn FileSystem,
    path: &'a Path,
    file: &'a TableFile,
    footer: Footer,
    findings: &'a mut Vec<Error>,
    counted: Counted,
}

impl Check<'_> {
    fn run(&mut self, listed: Option<&FileMeta>) {
        let Footer { index, filter, properties, .. } = self.footer;
        let data_end = if filter.len == 0 { index.offset } else { filter.offset };
        let index_of = |bytes| TableIndex::decode(bytes, data_end);
        let table_index = self.part(index, index_of);
        let table_filter = if filter.len == 0 { None } else { self.part(filter, Filter::new) };
        let said = self.part(properties, |bytes: BlockBytes| SstProperties::decode(&bytes));
        self.check_between(index.end(), properties.offset, "properties");
        self.check_between(properties.end(), self.footer.file_size - FOOTER_LEN as u64, "the footer");
        if filter.len != 0 {
            self.check_between(filter.end(), index.offset, "the index");
        }
        let Some(table_index) = table_index else { return };
        let mut at = 0;
        for ordinal in 0..table_index.len() {
            let extent = table_index.handle(ordinal).extent;
            if extent.offset != at {
                let expected = at.to_string();
                self.found(extent.offset, Corruption::bad("offset of a block", expected, extent.offset));
            }
            at = extent.end().unwrap_or(u64::MAX);
            self.block(extent, table_filter.as_ref());
        }
        self.padding(at, data_end);
        if !self.counted.incomplete {
            if let Some(said) = said {
                self.compare_properties(&said, table_index.len() as u64, table_filter.is_some(), at);
            }
            if let Some(listed) = listed {
                self.compare_listed(listed);
            }
        }
    }

    fn found(&mut self, offset: u64, found: Corruption) {
        self.findings.push(Error::corrupt(self.path, offset, found));
    }

    /// The part at `extent`, decoded; `None` when it is damaged, which has been reported then.
    fn part<T>(
        &mut self,
        extent: Extent,
        decode: impl FnOnce(BlockBytes) -> Result<T, Corruption>,
    ) -> Option<T> {
        let loaded = self.file.load(extent, true);
        let decoded =
            loaded.and_then(|bytes| decode(bytes).map_err(|found| self.file.corrupt(extent, found)));
        decoded.map_err(|error| self.findings.push(error)).ok()
    }

    /// One part ends where the next begins.
    fn check_between(&mut self, end: Option<u64>, next: u64, what: &'static str) {
        if end != Some(next) {
            let expected = format!("{what} at byte {next}");
            self.found(next, Corruption::bad("end of the part before", expected, format!("{end:?}")));
        }
    }

    /// What lies between the last block and the filter is zero, and less than a line of the filter.
    fn padding(&mut self, from: u64, to: u64) {
        let len = to.saturating_sub(from);
        if from > to || len >= filter::LINE_LEN as u64 {
            let expected = format!("just before byte {to}");
            return self.found(to, Corruption::bad("end of the last block", expected, from));
        }
        match read_range(self.fs, self.path, from, len) {
            Ok(bytes) => {
                if let Some(at) = bytes.iter().position(|byte| *byte != 0) {
                    let found = bytes[at];
                    self.found(from + at as u64, Corruption::bad("padding before the filter", "0", found));
                }
            }
            Err(error) => self.findings.push(Error::io("read", self.path, error)),
        }
    }

    /// Every entry of the block at `extent`.
    fn block(&mut self, extent: Extent, filter: Option<&Filter>) {
        let entries = self.file.load(extent, true).and_then(|bytes| {
            let mut cursor = BlockCursor::new(bytes).map_err(|_| bad_block(self.file, extent))?;
            cursor.first().map_err(|_| bad_block(self.file, extent))?;
            while cursor.valid() {
                if let Some(found) = self.counted.entry(cursor.key(), cursor.value(), filter) {
                    return Err(self.file.corrupt(extent, found));
                }
                cursor.next().map_err(|_| bad_block(self.file, extent))?;
            }
            Ok(())
        });
        if let Err(error) = entries {
            self.counted.incomplete = true;
            self.findings.push(error);
        }
    }

    fn compare_properties(&mut self, said: &SstProperties, blocks: u64, filtered: bool, data_bytes: u64) {
        let counted = &self.counted.properties;
        let keys = if filtered { self.counted.distinct_keys } else { 0 };
        let pairs = [
            ("entries", said.entries, counted.entries),
            ("tombstones", said.tombstones, counted.tombstones),
            ("bytes of keys", said.raw_key_bytes, counted.raw_key_bytes),
            ("bytes of values", said.raw_value_bytes, counted.raw_value_bytes),
            ("data blocks", said.data_blocks, blocks),
            ("bytes of data blocks", said.data_bytes, data_bytes),
            ("keys in the filter", said.filter_keys, keys),
            ("smallest sequence", said.smallest_seq.get(), counted.smallest_seq.get()),
            ("largest sequence", said.largest_seq.get(), counted.largest_seq.get()),
        ];
        let wrong: Vec<_> = pairs.into_iter().filter(|(_, said, counted)| said != counted).collect();
        let bounds = said.smallest == counted.smallest && said.largest == counted.largest;
        for (what, said, counted) in wrong {
            let said = format!("{said}, as the properties say");
            self.found(self.footer.properties.offset, Corruption::bad(what, said, counted));
        }
        if !bounds {
            let found = Corruption::bad("key range", "that of the properties", "another one");
            self.found(self.footer.properties.offset, found);
        }
    }

    fn compare_listed(&mut self, listed: &FileMeta) {
        let counted = &self.counted.properties;
        let same = listed.entries == counted.entries
            && listed.tombstones == counted.tombstones
            && (listed.smallest_seq, listed.largest_seq) == (counted.smallest_seq, counted.largest_seq)
            && listed.smallest == counted.smallest
            && listed.largest == counted.largest;
        if !same {
            let found = format!(
                "{} entries, sequences {} to {}",
                counted.entries, counted.smallest_seq, counted.largest_seq
            );
            let expected = format!(
                "{} entries, sequences {} to {} and its key range, as the manifest says",
                listed.entries, listed.smallest_seq, listed.largest_seq
            );
            self.found(0, Corruption::bad("what the table holds", expected, found));
        }
    }
}

impl Counted {
    /// Takes the next entry; says what is wrong with it.
    fn entry(&mut self, key: &[u8], value: &[u8], filter: Option<&Filter>) -> Option<Corruption> {
        if key.len() < TRAILER_LEN {
            return Some(Corruption::bad("internal key", "8 bytes at least", key.len()));
        }
        let (user, trailer) = split_internal(key);
        let Some((seq, value_type)) = unpack_trailer(trailer) else {
            return Some(Corruption::bad("value type of an entry", "0 or 1", trailer as u8));
        };
        let is_first = self.properties.entries == 0;
        if !is_first && compare_internal(&self.last, key).is_ge() {
            return Some(Corruption::bad("order of keys", "ascending", user.escape_ascii()));
        }
        if filter.is_some_and(|filter| !filter.may_contain(filter::hash(user))) {
            return Some(Corruption::bad("filter", "to know every key", user.escape_ascii()));
        }
        if is_first {
            self.properties.smallest = key.into();
            self.properties.smallest_seq = SequenceNumber::MAX;
        }
        self.distinct_keys += u64::from(is_first || user_key(&self.last) != user);
        let properties = &mut self.properties;
        properties.entries += 1;
        properties.tombstones += u64::from(value_type == ValueType::Delete);
        properties.raw_key_bytes += key.len() as u64;
        properties.raw_value_bytes += value.len() as u64;
        properties.smallest_seq = properties.smallest_seq.min(seq);
        properties.largest_seq = properties.largest_seq.max(seq);
        self.last.clear();
        self.last.extend_from_slice(key);
        properties.largest = key.into();
        None
    }
}

fn bad_block(file: &TableFile, extent: Extent) -> Error {
    file.corrupt(extent, Corruption::bad("data block", "ascending entries and restarts", "something else"))
}

/// What [`salvage`] could and could not read.
#[derive(Debug, Default)]
pub(crate) struct Salvaged {
    pub(crate) entries: u64,
    pub(crate) lost_blocks: u64,
    pub(crate) blocks: u64,
}

/// Takes an internal key and its value.
pub(crate) type EntrySink<'a> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'a;

/// Hands every entry of every whole block to `sink`, in order. Blocks that cannot be read are counted and passed over.
///
/// # Errors
///
/// A footer or an index that is damaged: nothing can be found then. What `sink` returns.
pub(crate) fn salvage(fs: &dyn FileSystem, path: PathBuf, sink: &mut EntrySink<'_>) -> Result<Salvaged> {
    let file = TableFile::open(fs, path, ReadMode::Pread, None)?;
    let Footer { index, filter, .. } = *file.footer();
    let data_end = if filter.len == 0 { index.offset } else { filter.offset };
    let decoded = TableIndex::decode(file.load(index, true)?, data_end);
    let table_index = decoded.map_err(|found| file.corrupt(index, found))?;
    let mut salvaged = Salvaged { blocks: table_index.len() as u64, ..Salvaged::default() };
    let mut counted = Counted::default();
    for ordinal in 0..table_index.len() {
        let extent = table_index.handle(ordinal).extent;
        let whole = file.load(extent, true).and_then(|bytes| {
            let mut cursor = BlockCursor::new(bytes.clone()).map_err(|_| bad_block(&file, extent))?;
            let mut last = Counted { last: counted.last.clone(), ..Counted::default() };
            last.properties.entries = counted.properties.entries;
            cursor.first().map_err(|_| bad_block(&file, extent))?;
            while cursor.valid() {
                if let Some(found) = last.entry(cursor.key(), cursor.value(), None) {
                    return Err(file.corrupt(extent, found));
                }
                cursor.next().map_err(|_| bad_block(&file, extent))?;
            }
            counted = last;
            Ok(bytes)
        });
        match whole {
            Ok(bytes) => {
                let mut cursor = BlockCursor::new(bytes).map_err(|_| bad_block(&file, extent))?;
                cursor.first().map_err(|_| bad_block(&file, extent))?;
                while cursor.valid() {
                    sink(cursor.key(), cursor.value())?;
                    salvaged.entries += 1;
                    cursor.next().map_err(|_| bad_block(&file, extent))?;
                }
            }
            Err(_) => salvaged.lost_blocks += 1, // `check` has said what is wrong
        }
    }
    Ok(salvaged)
}
