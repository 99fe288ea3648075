//! [`SkipListRep`]: entries in crossbeam's concurrent skip list. The first rep, and the oracle of any other.
//!
//! An entry is one allocation, `internal key | value`, and a node of the list that holds the allocation and the
//! first eight bytes of the user key, so that most comparisons of a search stay inside the nodes.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use crossbeam_skiplist::SkipSet;
use crossbeam_skiplist::set;

use super::{MemtableRep, RepIter, key_prefix};
use crate::error::Result;
use crate::iter::InternalIterator;
use crate::key::{TRAILER_LEN, compare_parts, split_internal};

/// One entry. Ordered by its internal key alone.
#[derive(Debug)]
struct Entry {
    /// First eight bytes of the user key, big-endian, padded with zeros: orders as the keys do, where it differs.
    prefix: u64,
    /// Length of the internal key at the front of `bytes`.
    key_len: usize,
    bytes: Box<[u8]>,
}

impl Entry {
    fn new(user_key: &[u8], trailer: u64, value: &[u8]) -> Self {
        let key_len = user_key.len() + TRAILER_LEN;
        let mut bytes = Vec::with_capacity(key_len + value.len());
        bytes.extend_from_slice(user_key);
        bytes.extend_from_slice(&trailer.to_le_bytes());
        bytes.extend_from_slice(value);
        Self { prefix: key_prefix(user_key), key_len, bytes: bytes.into_boxed_slice() }
    }

    fn internal_key(&self) -> &[u8] {
        &self.bytes[..self.key_len]
    }

    fn value(&self) -> &[u8] {
        &self.bytes[self.key_len..]
    }
}

/// What an [`Entry`] is ordered by, so that a search needs no allocation.
trait Place {
    fn prefix(&self) -> u64;
    fn parts(&self) -> (&[u8], u64);
}

impl Place for Entry {
    #[inline]
    fn prefix(&self) -> u64 {
        self.prefix
    }
    #[inline]
    fn parts(&self) -> (&[u8], u64) {
        split_internal(self.internal_key())
    }
}

/// A place to search for.
struct Target<'a> {
    prefix: u64,
    user_key: &'a [u8],
    trailer: u64,
}

impl Place for Target<'_> {
    #[inline]
    fn prefix(&self) -> u64 {
        self.prefix
    }
    #[inline]
    fn parts(&self) -> (&[u8], u64) {
        (self.user_key, self.trailer)
    }
}

#[inline]
fn compare(a: &(impl Place + ?Sized), b: &(impl Place + ?Sized)) -> Ordering {
    a.prefix().cmp(&b.prefix()).then_with(|| compare_parts(a.parts(), b.parts()))
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        compare(self, other).is_eq()
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self, other)
    }
}

impl PartialEq for dyn Place + '_ {
    fn eq(&self, other: &Self) -> bool {
        compare(self, other).is_eq()
    }
}
impl Eq for dyn Place + '_ {}
impl PartialOrd for dyn Place + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for dyn Place + '_ {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self, other)
    }
}

impl<'a> Borrow<dyn Place + 'a> for Entry {
    fn borrow(&self) -> &(dyn Place + 'a) {
        self
    }
}

/// Bytes of a list node beside the entry: value slot, height and reference count, and a tower of two links in
/// the mean (heights are geometric with one half), rounded as the allocator rounds.
const NODE_OVERHEAD: u64 = 8 + 16;

/// Entries in crossbeam's concurrent skip list.
#[derive(Debug, Default)]
pub(crate) struct SkipListRep {
    set: SkipSet<Entry>,
}

impl MemtableRep for SkipListRep {
    fn insert(&self, user_key: &[u8], trailer: u64, value: &[u8], charge: &mut dyn FnMut(u64)) {
        charge((user_key.len() + TRAILER_LEN + value.len() + size_of::<Entry>()) as u64 + NODE_OVERHEAD);
        self.set.get_or_insert(Entry::new(user_key, trailer, value));
    }

    fn get(&self, user_key: &[u8], trailer: u64, found: &mut dyn FnMut(u64, &[u8])) {
        let target = Target { prefix: key_prefix(user_key), user_key, trailer };
        if let Some(entry) = self.set.lower_bound(Bound::Included(&target as &dyn Place)) {
            let (user, trailer) = entry.value().parts();
            if user == user_key {
                found(trailer, entry.value().value());
            }
        }
    }

    fn iter(self: Arc<Self>) -> RepIter {
        Box::new(SkipListIter { at: None, rep: self })
    }
}

/// Iterates over a [`SkipListRep`] that it keeps alive.
struct SkipListIter {
    /// Declared before `rep`, so dropped before it: it borrows from it.
    at: Option<set::Entry<'static, Entry>>,
    rep: Arc<SkipListRep>,
}

impl SkipListIter {
    /// Stands on `entry` of this iterator's own list.
    fn stand_on(&mut self, entry: Option<set::Entry<'_, Entry>>) -> Result<()> {
        // SAFETY: the lifetime only says that the list lives as long as the entry. `rep` keeps the list alive, it is
        // never replaced while the iterator lives, and `at` is dropped first (field order).
        self.at = unsafe {
            std::mem::transmute::<Option<set::Entry<'_, Entry>>, Option<set::Entry<'static, Entry>>>(entry)
        };
        Ok(())
    }

    fn here(&self) -> &Entry {
        self.at.as_ref().expect("only while valid").value()
    }
}

impl InternalIterator for SkipListIter {
    fn valid(&self) -> bool {
        self.at.is_some()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        let rep = Arc::clone(&self.rep);
        self.stand_on(rep.set.front())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        let rep = Arc::clone(&self.rep);
        self.stand_on(rep.set.back())
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        let (user_key, trailer) = split_internal(target);
        let target = Target { prefix: key_prefix(user_key), user_key, trailer };
        let rep = Arc::clone(&self.rep);
        self.stand_on(rep.set.lower_bound(Bound::Included(&target as &dyn Place)))
    }

    fn seek_for_prev(&mut self, target: &[u8]) -> Result<()> {
        let (user_key, trailer) = split_internal(target);
        let target = Target { prefix: key_prefix(user_key), user_key, trailer };
        let rep = Arc::clone(&self.rep);
        self.stand_on(rep.set.upper_bound(Bound::Included(&target as &dyn Place)))
    }

    fn next(&mut self) -> Result<()> {
        if self.at.as_mut().is_some_and(|at| !at.move_next()) {
            self.at = None;
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        if self.at.as_mut().is_some_and(|at| !at.move_prev()) {
            self.at = None;
        }
        Ok(())
    }

    fn key(&self) -> &[u8] {
        self.here().internal_key()
    }

    fn value(&self) -> &[u8] {
        self.here().value()
    }
}
