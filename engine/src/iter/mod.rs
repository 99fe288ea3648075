//! Iterating over internal keys: the trait that all sources share.
//!
//! Sources (memtable, SST, level) implement [`InternalIterator`]; [`merging`] makes one of many; [`db_iter`]
//! turns internal entries into what a user sees. Only [`db_iter`] knows about visibility.

pub(crate) mod db_iter;
pub(crate) mod level;
pub(crate) mod merging;
#[cfg(test)]
pub(crate) mod stub;

use crate::error::Result;

/// A position in a sorted run of internal keys (see [`crate::key`]).
///
/// A new iterator is not valid until it is positioned. A move that returns an error leaves the iterator not
/// valid; the error is the reason, and `Ok` with [`valid`](Self::valid) false means the end was reached.
pub(crate) trait InternalIterator: Send {
    /// Whether the iterator stands on an entry.
    fn valid(&self) -> bool;

    /// To the first entry.
    fn seek_to_first(&mut self) -> Result<()>;

    /// To the last entry.
    fn seek_to_last(&mut self) -> Result<()>;

    /// To the first entry at or after the internal key `target`.
    fn seek(&mut self, target: &[u8]) -> Result<()>;

    /// To the last entry at or before the internal key `target`.
    fn seek_for_prev(&mut self, target: &[u8]) -> Result<()>;

    /// To the next entry. Only while valid.
    fn next(&mut self) -> Result<()>;

    /// To the entry before. Only while valid.
    fn prev(&mut self) -> Result<()>;

    /// The internal key here. Only while valid; good until the next move.
    fn key(&self) -> &[u8];

    /// The value here. Only while valid; good until the next move.
    fn value(&self) -> &[u8];
}

impl<T: InternalIterator + ?Sized> InternalIterator for Box<T> {
    fn valid(&self) -> bool {
        (**self).valid()
    }
    fn seek_to_first(&mut self) -> Result<()> {
        (**self).seek_to_first()
    }
    fn seek_to_last(&mut self) -> Result<()> {
        (**self).seek_to_last()
    }
    fn seek(&mut self, target: &[u8]) -> Result<()> {
        (**self).seek(target)
    }
    fn seek_for_prev(&mut self, target: &[u8]) -> Result<()> {
        (**self).seek_for_prev(target)
    }
    fn next(&mut self) -> Result<()> {
        (**self).next()
    }
    fn prev(&mut self) -> Result<()> {
        (**self).prev()
    }
    fn key(&self) -> &[u8] {
        (**self).key()
    }
    fn value(&self) -> &[u8] {
        (**self).value()
    }
}
