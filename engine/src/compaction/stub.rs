//! For tests: versions written as text, file facts made from entries, and tables kept in memory.
//!
//! A version reads `L0 9[a-m] 8[c-d] | L1 3[a-f] 4[g-k]`: file numbers, smallest and largest user key. Behind
//! a file, `*700` is its size (100 otherwise), `~2` its tombstones, and `!` marks it as being compacted.
//! L0 is given newest first; a larger number is newer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::output::{OutputFactory, OutputTable};
use crate::error::{Error, Result};
use crate::iter::stub::{Entries, StubIter, entry};
use crate::key::{SequenceNumber, split_internal};
use crate::sst::SstSummary;
use crate::sync::Mutex;
use crate::version::{FileMeta, FileNumber, Version};

fn summary(entries: &Entries) -> SstSummary {
    let trailers = || entries.iter().map(|(key, _)| split_internal(key).1);
    let seqs = || trailers().map(|trailer| SequenceNumber::new(trailer >> 8));
    let bytes = entries.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() as u64;
    SstSummary {
        size: bytes,
        unique_id: 1,
        smallest: entries.first().unwrap().0.clone().into(),
        largest: entries.last().unwrap().0.clone().into(),
        smallest_seq: seqs().min().unwrap(),
        largest_seq: seqs().max().unwrap(),
        entries: entries.len() as u64,
        tombstones: trailers().filter(|trailer| trailer & 0xff == 0).count() as u64,
        raw_bytes: bytes,
    }
}

/// The facts of a file that holds these entries.
pub(crate) fn file_of(number: u64, entries: &Entries) -> Arc<FileMeta> {
    let made = summary(entries);
    Arc::new(FileMeta {
        number: FileNumber(number),
        unique_id: made.unique_id,
        size: made.size,
        smallest: made.smallest,
        largest: made.largest,
        smallest_seq: made.smallest_seq,
        largest_seq: made.largest_seq,
        entries: made.entries,
        tombstones: made.tombstones,
        created_micros: 0,
        being_compacted: AtomicBool::new(false),
    })
}

fn parse_file(text: &str) -> Arc<FileMeta> {
    let (number, rest) = text.split_once('[').unwrap();
    let (range, marks) = rest.split_once(']').unwrap();
    let (from, to) = range.split_once('-').unwrap();
    let number: u64 = number.parse().unwrap();
    let mark = |sign: char| {
        let digits = marks.split_once(sign)?.1;
        digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    let (from, to) = (entry(from.as_bytes(), number, Some("")), entry(to.as_bytes(), number, Some("")));
    let mut file = Arc::into_inner(file_of(number, &vec![from, to])).unwrap();
    file.size = mark('*').unwrap_or(100);
    file.entries = 10;
    file.tombstones = mark('~').unwrap_or(0);
    file.set_being_compacted(marks.contains('!'));
    Arc::new(file)
}

/// The version of this text, with `levels` levels.
pub(crate) fn version_of(levels: usize, text: &str) -> Arc<Version> {
    let mut files = vec![Vec::new(); levels];
    for line in text.split('|').map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.split_whitespace();
        let level: usize = words.next().unwrap()[1..].parse().unwrap();
        files[level] = words.map(parse_file).collect();
    }
    Arc::new(Version::from_levels(files))
}

/// Tables in memory.
#[derive(Default)]
pub(crate) struct MemTables {
    pub(crate) tables: Arc<Mutex<BTreeMap<FileNumber, Entries>>>,
    pub(crate) created: AtomicU64,
    pub(crate) removed: AtomicU64,
    pub(crate) synced: AtomicU64,
    /// The table of this number cannot be finished.
    pub(crate) fail_finish: Option<u64>,
}

impl MemTables {
    /// Numbers of new tables begin at 1000.
    pub(crate) const FIRST: u64 = 1000;

    pub(crate) fn insert(&self, number: u64, entries: Entries) -> Arc<FileMeta> {
        let file = file_of(number, &entries);
        self.tables.lock().insert(FileNumber(number), entries);
        file
    }

    pub(crate) fn entries(&self, number: FileNumber) -> Entries {
        self.tables.lock()[&number].clone()
    }

    pub(crate) fn open(&self, file: &FileMeta) -> Result<StubIter> {
        Ok(StubIter::in_order(self.entries(file.number)))
    }
}

pub(crate) struct MemTable {
    number: FileNumber,
    entries: Entries,
    bytes: u64,
    tables: Arc<Mutex<BTreeMap<FileNumber, Entries>>>,
    fails: bool,
}

impl OutputTable for MemTable {
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.bytes += (key.len() + value.len()) as u64;
        self.entries.push((key.to_vec(), value.to_vec()));
        Ok(())
    }
    fn file_size(&self) -> u64 {
        self.bytes
    }
    fn finish(self) -> Result<SstSummary> {
        if self.fails {
            return Err(Error::Cancelled { what: "a stub" });
        }
        let made = summary(&self.entries);
        self.tables.lock().insert(self.number, self.entries);
        Ok(made)
    }
}

impl OutputFactory for MemTables {
    type Table = MemTable;

    fn create(&self) -> Result<(FileNumber, MemTable)> {
        let number = FileNumber(Self::FIRST + self.created.fetch_add(1, Ordering::Relaxed));
        let fails = self.fail_finish == Some(number.0);
        let tables = Arc::clone(&self.tables);
        Ok((number, MemTable { number, entries: Entries::new(), bytes: 0, tables, fails }))
    }
    fn remove(&self, number: FileNumber) {
        self.removed.fetch_add(1, Ordering::Relaxed);
        self.tables.lock().remove(&number);
    }
    fn sync_names(&self) -> Result<()> {
        self.synced.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
    fn now_micros(&self) -> u64 {
        7
    }
}
