//! Tests of the log, through [`Wal`] and [`replay`](fn@replay) on a file system in memory.
//!
//! [`Log`] is a log with the facts that a manifest would keep of it, so that a test can append, crash and reopen
//! like an engine. A payload is its number and a filling made of it, so that a wrong or torn one shows.

mod damage;
mod formats;
mod life;
mod watermark;

use super::append::Appended;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::format::{FRAGMENT_HEADER_LEN, FRAGMENT_HEADER_MAX};
use super::test_fs::TestFs;
use super::*;
use crate::error::{Corruption, Error, Result};
use crate::key::SequenceNumber;
use crate::options::RecoveryMode;
use crate::version::FileNumber;

pub(super) const DIR: &str = "/db";

/// A log and the facts that its manifest keeps.
pub(super) struct Log {
    pub(super) fs: TestFs,
    pub(super) wal: Wal,
    pub(super) facts: WalFacts,
    pub(super) options: WalOptions,
    next_number: Arc<AtomicU64>,
    /// Sequence of the last record appended.
    pub(super) last: u64,
}

pub(super) fn options(segment_bytes: u64) -> WalOptions {
    WalOptions { segment_bytes, buffer_bytes: 64 << 10, spares: 2 }
}

pub(super) fn seq(number: u64) -> SequenceNumber {
    SequenceNumber::new(number)
}

/// The payload of record `number`, `len` bytes.
pub(super) fn payload(number: u64, len: usize) -> Vec<u8> {
    let pattern = number.to_le_bytes();
    (0..len).map(|i| if i < 8 { pattern[i] } else { pattern[i % 8] ^ (i / 8) as u8 ^ 0xa5 }).collect()
}

/// A payload whose record takes `framed` bytes as a group of its own that does not straddle.
pub(super) fn framed(number: u64, framed: usize) -> Vec<u8> {
    payload(number, framed - FRAGMENT_HEADER_MAX)
}

pub(super) fn record(payload: &[u8], number: u64) -> LogRecord<'_> {
    let (head, body) = payload.split_at(payload.len().min(12));
    LogRecord { head, body, last_seq: seq(number) }
}

impl Log {
    pub(super) fn create(options: WalOptions) -> Self {
        let fs = TestFs::new();
        let facts = WalFacts { log_id: 0x5a5a, ..WalFacts::default() };
        Self::open_at(fs, facts, options, &ReplayEnd::default(), Arc::new(AtomicU64::new(1)), 0).unwrap()
    }

    fn open_at(
        fs: TestFs,
        mut facts: WalFacts,
        options: WalOptions,
        end: &ReplayEnd,
        next_number: Arc<AtomicU64>,
        last: u64,
    ) -> Result<Self> {
        let counter = Arc::clone(&next_number);
        let next: NextFileNumber = Arc::new(move || FileNumber(counter.fetch_add(1, Ordering::Relaxed)));
        let files = Arc::new(fs.clone());
        let wal = Wal::open(files, Path::new(DIR), facts.log_id, options, next, end, seq(last))?;
        facts.apply(&end.edit(wal.current_segment(), seq(last)));
        Ok(Self { fs, wal, facts, options, next_number, last })
    }

    /// Appends one record of `len` bytes as a group of its own.
    pub(super) fn append(&mut self, len: usize, push: Push) -> Result<Appended> {
        self.append_payload(&payload(self.last + 1, len), push)
    }

    pub(super) fn append_payload(&mut self, payload: &[u8], push: Push) -> Result<Appended> {
        self.last += 1;
        self.wal.append(std::iter::once(record(payload, self.last)), push)
    }

    pub(super) fn durable(&self) -> u64 {
        self.wal.durability().durable_sequence().get()
    }

    pub(super) fn synced_bytes(&self) -> u64 {
        self.wal.durability().watermarks().synced.bytes
    }

    /// Opens the log again on `fs`, as an engine does; the facts are those of this log.
    pub(super) fn reopen(&self, fs: &TestFs, mode: RecoveryMode) -> Result<(Vec<u64>, Self)> {
        let (numbers, end) = read(fs, &self.facts, mode)?;
        let last = numbers.last().copied().unwrap_or(self.facts.synced.map_or(0, |synced| synced.seq.get()));
        let next = Arc::new(AtomicU64::new(self.next_number.load(Ordering::Relaxed) + 1));
        let log = Self::open_at(fs.clone(), self.facts.clone(), self.options, &end, next, last)?;
        Ok((numbers, log))
    }
}

/// The numbers of the records that replay finds, each checked to the byte, and where it ended.
pub(super) fn read(fs: &TestFs, facts: &WalFacts, mode: RecoveryMode) -> Result<(Vec<u64>, ReplayEnd)> {
    let request = ReplayRequest { fs, dir: Path::new(DIR), facts, mode, read_only: false };
    let mut numbers = Vec::new();
    let end = replay(&request, |_, bytes| {
        let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert!(
            bytes == payload(number, bytes.len()),
            "record {number} of {} bytes is not as written",
            bytes.len()
        );
        numbers.push(number);
        Ok(())
    })?;
    assert_eq!(end.records, numbers.len() as u64);
    Ok((numbers, end))
}

/// Whether `numbers` are 1, 2, 3, ... in order.
pub(super) fn is_prefix(numbers: &[u64]) -> bool {
    numbers.iter().zip(1..).all(|(number, expected)| *number == expected)
}

pub(super) fn segment_path(number: u64) -> PathBuf {
    crate::filename::wal_path(Path::new(DIR), FileNumber(number))
}

/// A small generator with a seed: splitmix64.
pub(super) struct Rng(pub(super) u64);

impl Rng {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
