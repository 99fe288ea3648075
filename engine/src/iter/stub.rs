//! For tests: an iterator over a vector, a seeded random number source, and a random walk of two iterators
//! side by side.
//!
//! Knows [`InternalIterator`] and keys, nothing of tables or files.

use std::cell::Cell;
use std::path::Path;

use super::InternalIterator;
use crate::error::{Corruption, Error, Result};
use crate::key::{SequenceNumber, ValueType, compare_internal, make_internal};

/// Internal keys and values.
pub(crate) type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// xorshift64: seeded, so that a failure can be repeated.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        if self.0 < 1 << 32 {
            self.0 = self.0.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        }
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % limit.max(1)
    }
}

/// A put of `value`, or a tombstone.
pub(crate) fn entry(user: &[u8], seq: u64, value: Option<&str>) -> (Vec<u8>, Vec<u8>) {
    let mut key = Vec::new();
    let value_type = if value.is_some() { ValueType::Put } else { ValueType::Delete };
    make_internal(&mut key, user, SequenceNumber::new(seq), value_type);
    (key, value.unwrap_or_default().into())
}

/// An iterator over a vector of entries.
pub(crate) struct StubIter {
    entries: Entries,
    at: Option<usize>,
    /// Standing on this entry fails.
    pub(crate) fail_at: Option<usize>,
    pub(crate) keys_asked: Cell<u64>,
    pub(crate) seeks: Cell<u64>,
}

impl StubIter {
    pub(crate) fn sorted(mut entries: Entries) -> Self {
        entries.sort_by(|a, b| compare_internal(&a.0, &b.0));
        Self::in_order(entries)
    }

    pub(crate) fn in_order(entries: Entries) -> Self {
        Self { entries, at: None, fail_at: None, keys_asked: Cell::new(0), seeks: Cell::new(0) }
    }

    fn to(&mut self, at: Option<usize>) -> Result<()> {
        self.at = at.filter(|&at| at < self.entries.len());
        if self.at.is_some() && self.at == self.fail_at {
            self.at = None;
            return Err(Error::corrupt(Path::new("stub"), 0, Corruption::bad("entry", "one", "none")));
        }
        Ok(())
    }
}

impl InternalIterator for StubIter {
    fn valid(&self) -> bool {
        self.at.is_some()
    }
    fn seek_to_first(&mut self) -> Result<()> {
        self.to(Some(0))
    }
    fn seek_to_last(&mut self) -> Result<()> {
        self.to(self.entries.len().checked_sub(1))
    }
    fn seek(&mut self, target: &[u8]) -> Result<()> {
        self.seeks.set(self.seeks.get() + 1);
        self.to(Some(self.entries.partition_point(|e| compare_internal(&e.0, target).is_lt())))
    }
    fn seek_for_prev(&mut self, target: &[u8]) -> Result<()> {
        self.seeks.set(self.seeks.get() + 1);
        self.to(self.entries.partition_point(|e| compare_internal(&e.0, target).is_le()).checked_sub(1))
    }
    fn next(&mut self) -> Result<()> {
        self.to(Some(self.at.unwrap() + 1))
    }
    fn prev(&mut self) -> Result<()> {
        self.to(self.at.unwrap().checked_sub(1))
    }
    fn key(&self) -> &[u8] {
        self.keys_asked.set(self.keys_asked.get() + 1);
        &self.entries[self.at.unwrap()].0
    }
    fn value(&self) -> &[u8] {
        &self.entries[self.at.unwrap()].1
    }
}

/// Moves both iterators the same random way and compares where they stand.
pub(crate) fn walk(
    mut it: impl InternalIterator,
    mut model: StubIter,
    rng: &mut Rng,
    moves: usize,
    context: &str,
) {
    for step in 0..moves {
        let random = rng.below(model.entries.len() as u64) as usize;
        let mut target = model.entries.get(random).map_or_else(|| entry(b"x", 1, None).0, |e| e.0.clone());
        match rng.below(4) {
            0 => target[0] = target[0].wrapping_add(1),
            1 => target.insert(0, b'j' + rng.below(4) as u8),
            _ => {}
        }
        let choice = rng.below(if model.valid() { 40 } else { 4 });
        let (a, b) = match choice {
            0 => (it.seek_to_first(), model.seek_to_first()),
            1 => (it.seek_to_last(), model.seek_to_last()),
            2 => (it.seek(&target), model.seek(&target)),
            3 => (it.seek_for_prev(&target), model.seek_for_prev(&target)),
            4..=23 => (it.next(), model.next()),
            _ => (it.prev(), model.prev()),
        };
        a.unwrap();
        b.unwrap();
        assert_eq!(it.valid(), model.valid(), "{context}, step {step}, move {choice}");
        if model.valid() {
            let (here, there) = ((it.key(), it.value()), (model.key(), model.value()));
            assert_eq!(here, there, "{context}, step {step}, move {choice}");
        }
    }
}
