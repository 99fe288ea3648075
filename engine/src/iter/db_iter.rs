//! The user's view of internal entries: [`DbIterator`].
//!
//! Of each user key it shows the newest version at or below its sequence, unless that is a tombstone, and only
//! keys inside its bounds. Forward, the iterator stands on the very entry that it shows, and key and value are
//! borrowed from there. Backward, versions come oldest first, so the one to show is copied out and the inner
//! iterator stands before all versions of its key.
//!
//! A key with very many versions is not stepped through: after [`STEPS_BEFORE_SEEK`] of them the iterator seeks.
//!
//! Must not know: what it iterates over, or what the pin keeps alive.

use std::fmt;
use std::path::Path;

use super::InternalIterator;
use crate::error::{Corruption, Error, Result};
use crate::key::{SequenceNumber, ValueType, make_internal, split_internal, unpack_trailer, user_key};

/// Hidden versions of one user key that are stepped over before a seek is cheaper.
const STEPS_BEFORE_SEEK: u32 = 8;

/// A copied key and value.
type Entry = (Box<[u8]>, Box<[u8]>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// Not positioned yet.
    New,
    /// Past an end, or after an error.
    Off,
    /// `inner` stands on the entry shown; `user` is its user key.
    OnEntry,
    /// `user` and `value` are what is shown; `inner` stands before all versions of `user`.
    Behind,
}

/// An iterator over the keys and values of one column family, as they were at one moment.
///
/// New, it stands nowhere: position it with one of the seeks. After each move look at [`valid`](Self::valid);
/// a move that fails leaves it not valid. It holds on to memtables and files that would otherwise be freed, so
/// keep it only as long as you need it.
///
/// ```no_run
/// # fn show(mut it: sluicedb::DbIterator) -> sluicedb::Result<()> {
/// it.seek("user/")?;
/// while it.valid() && it.key().starts_with(b"user/") {
///     println!("{} -> {} bytes", it.key().escape_ascii(), it.value().len());
///     it.next()?;
/// }
/// # Ok(())
/// # }
/// ```
pub struct DbIterator {
    // Before `pin`: fields are dropped in this order.
    inner: Box<dyn InternalIterator>,
    sequence: SequenceNumber,
    lower: Option<Box<[u8]>>,
    upper: Option<Box<[u8]>>,
    position: Position,
    /// The user key shown, or considered last.
    user: Vec<u8>,
    /// The value shown while the position is `Behind`.
    value: Vec<u8>,
    /// Seek targets; reused.
    target: Vec<u8>,
    _pin: Box<dyn Send>,
}

impl DbIterator {
    /// The view of `inner` at `sequence`, of keys at or after `lower` and before `upper`. `pin` is kept until
    /// the iterator is dropped.
    pub(crate) fn new(
        inner: Box<dyn InternalIterator>,
        sequence: SequenceNumber,
        lower: Option<Box<[u8]>>,
        upper: Option<Box<[u8]>>,
        pin: Box<dyn Send>,
    ) -> Self {
        let (user, value, target) = (Vec::new(), Vec::new(), Vec::new());
        Self { inner, sequence, lower, upper, position: Position::New, user, value, target, _pin: pin }
    }

    /// Whether the iterator stands on a key.
    #[inline]
    pub fn valid(&self) -> bool {
        matches!(self.position, Position::OnEntry | Position::Behind)
    }

    /// The key here.
    ///
    /// # Panics
    ///
    /// If the iterator is not [`valid`](Self::valid).
    #[inline]
    pub fn key(&self) -> &[u8] {
        assert!(self.valid(), "the iterator stands on no key");
        &self.user
    }

    /// The value here.
    ///
    /// # Panics
    ///
    /// If the iterator is not [`valid`](Self::valid).
    #[inline]
    pub fn value(&self) -> &[u8] {
        match self.position {
            Position::OnEntry => self.inner.value(),
            Position::Behind => &self.value,
            Position::New | Position::Off => panic!("the iterator stands on no key"),
        }
    }

    /// To the first key.
    ///
    /// # Errors
    ///
    /// As every move: what went wrong with reading, [`Error::Corruption`] or [`Error::Io`].
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.position = Position::Off;
        match &self.lower {
            Some(lower) => {
                set_target(&mut self.target, lower, self.sequence, ValueType::MAX);
                self.inner.seek(&self.target)?;
            }
            None => self.inner.seek_to_first()?,
        }
        self.find_forward(None)
    }

    /// To the last key.
    ///
    /// # Errors
    ///
    /// As every move: what went wrong with reading, [`Error::Corruption`] or [`Error::Io`].
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.position = Position::Off;
        match &self.upper {
            Some(upper) => {
                set_target(&mut self.target, upper, SequenceNumber::MAX, ValueType::MAX);
                self.inner.seek_for_prev(&self.target)?;
                // Only an entry of the bound itself with the largest sequence can be in the way.
                while self.inner.valid() && user_key(self.inner.key()) >= &**upper {
                    self.inner.prev()?;
                }
            }
            None => self.inner.seek_to_last()?,
        }
        self.find_backward()
    }

    /// To the first key at or after `key`.
    ///
    /// # Errors
    ///
    /// As every move: what went wrong with reading, [`Error::Corruption`] or [`Error::Io`].
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        if self.lower.as_ref().is_some_and(|lower| key < &**lower) {
            return self.seek_to_first();
        }
        self.position = Position::Off;
        if self.upper.as_ref().is_some_and(|upper| key >= &**upper) {
            return Ok(());
        }
        set_target(&mut self.target, key, self.sequence, ValueType::MAX);
        self.inner.seek(&self.target)?;
        self.find_forward(None)
    }

    /// To the last key at or before `key`.
    ///
    /// # Errors
    ///
    /// As every move: what went wrong with reading, [`Error::Corruption`] or [`Error::Io`].
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        if self.upper.as_ref().is_some_and(|upper| key >= &**upper) {
            return self.seek_to_last();
        }
        self.position = Position::Off;
        set_target(&mut self.target, key, SequenceNumber::ZERO, ValueType::Delete);
        self.inner.seek_for_prev(&self.target)?;
        self.find_backward()
    }

    /// To the next key. Does nothing when the iterator is not valid.
    ///
    /// # Errors
    ///
    /// As every move: what went wrong with reading, [`Error::Corruption`] or [`Error::Io`].
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "a move that can fail, as all others; see `forward`")]
    pub fn next(&mut self) -> Result<()> {
        let was = std::mem::replace(&mut self.position, Position::Off);
        match was {
            Position::OnEntry => self.inner.next()?,
            Position::Behind => {
                set_target(&mut self.target, &self.user, SequenceNumber::ZERO, ValueType::Delete);
                self.inner.seek(&self.target)?;
            }
            Position::New | Position::Off => {
                self.position = was;
                return Ok(());
            }
        }
        self.find_forward(Some(Hidden))
    }

    /// To the key before. Does nothing when the iterator is not valid.
    ///
    /// # Errors
    ///
    /// As every move: what went wrong with reading, [`Error::Corruption`] or [`Error::Io`].
    pub fn prev(&mut self) -> Result<()> {
        let was = std::mem::replace(&mut self.position, Position::Off);
        match was {
            Position::OnEntry => self.leave_user_backward()?,
            Position::Behind => {}
            Position::New | Position::Off => {
                self.position = was;
                return Ok(());
            }
        }
        self.find_backward()
    }

    /// Copies of all entries from here on (from the first one, if the iterator was never positioned), ascending.
    /// Ends after an error.
    pub fn forward(mut self) -> impl Iterator<Item = Result<Entry>> {
        let mut moved = if self.position == Position::New { self.seek_to_first() } else { Ok(()) };
        std::iter::from_fn(move || self.take_entry(&mut moved, Self::next))
    }

    /// Copies of all entries from here back (from the last one, if the iterator was never positioned), descending.
    /// Ends after an error.
    pub fn backward(mut self) -> impl Iterator<Item = Result<Entry>> {
        let mut moved = if self.position == Position::New { self.seek_to_last() } else { Ok(()) };
        std::iter::from_fn(move || self.take_entry(&mut moved, Self::prev))
    }

    /// The entry here, after the move that led here; then one step on.
    fn take_entry(
        &mut self,
        moved: &mut Result<()>,
        step: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Option<Result<Entry>> {
        if let Err(error) = std::mem::replace(moved, Ok(())) {
            return Some(Err(error));
        }
        if !self.valid() {
            return None;
        }
        let entry = (self.key().into(), self.value().into());
        *moved = step(self);
        Some(Ok(entry))
    }

    /// From where `inner` stands, forward to the next entry to show. With [`Hidden`], further versions of
    /// `user` are not shown.
    #[inline]
    fn find_forward(&mut self, hidden: Option<Hidden>) -> Result<()> {
        let mut same_user = hidden.is_some(); // `user` means something
        let mut hide = hidden.is_some(); // the version of `user` that counts has been seen
        let mut steps = 0;
        while self.inner.valid() {
            let (user, trailer) = split_internal(self.inner.key());
            if same_user && user == self.user {
                steps += 1;
            } else {
                if self.upper.as_ref().is_some_and(|upper| user >= &**upper) {
                    break;
                }
                self.user.clear();
                self.user.extend_from_slice(user);
                (same_user, hide, steps) = (true, false, 0);
            }
            if !hide && trailer >> 8 <= self.sequence.get() {
                match kind(trailer)? {
                    ValueType::Put => {
                        self.position = Position::OnEntry;
                        return Ok(());
                    }
                    ValueType::Delete => hide = true,
                }
            }
            if steps < STEPS_BEFORE_SEEK {
                self.inner.next()?;
            } else {
                steps = 0;
                let oldest = (SequenceNumber::ZERO, ValueType::Delete);
                let (seq, value_type) = if hide { oldest } else { (self.sequence, ValueType::MAX) };
                set_target(&mut self.target, &self.user, seq, value_type);
                if self.inner.key() == self.target {
                    self.inner.next()?;
                } else {
                    self.inner.seek(&self.target)?;
                }
            }
        }
        Ok(())
    }

    /// From the last version of some user key, where `inner` stands, back to the next entry to show.
    fn find_backward(&mut self) -> Result<()> {
        while self.inner.valid() {
            let user = user_key(self.inner.key());
            if self.lower.as_ref().is_some_and(|lower| user < &**lower) {
                break;
            }
            self.user.clear();
            self.user.extend_from_slice(user);
            if self.collect_backward()? {
                self.position = Position::Behind;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Walks back over all versions of `user`, keeps the value of the newest visible one, and says whether
    /// there is one to show.
    fn collect_backward(&mut self) -> Result<bool> {
        let mut show = false;
        for _ in 0..STEPS_BEFORE_SEEK {
            if !self.inner.valid() {
                return Ok(show);
            }
            let (user, trailer) = split_internal(self.inner.key());
            if user != self.user {
                return Ok(show);
            }
            if trailer >> 8 > self.sequence.get() {
                // This one and all that are left of this key are too new.
                self.leave_user_backward()?;
                return Ok(show);
            }
            show = kind(trailer)? == ValueType::Put;
            if show {
                self.value.clear();
                self.value.extend_from_slice(self.inner.value());
            }
            self.inner.prev()?;
        }
        if !self.inner.valid() || user_key(self.inner.key()) != self.user {
            return Ok(show);
        }
        set_target(&mut self.target, &self.user, self.sequence, ValueType::MAX);
        self.inner.seek(&self.target)?;
        if self.inner.valid() {
            let (user, trailer) = split_internal(self.inner.key());
            if user == self.user {
                show = kind(trailer)? == ValueType::Put;
                if show {
                    self.value.clear();
                    self.value.extend_from_slice(self.inner.value());
                }
            }
        }
        self.leave_user_backward()?;
        Ok(show)
    }

    /// Moves `inner` before all versions of `user`.
    fn leave_user_backward(&mut self) -> Result<()> {
        set_target(&mut self.target, &self.user, SequenceNumber::MAX, ValueType::MAX);
        self.inner.seek_for_prev(&self.target)?;
        while self.inner.valid() && user_key(self.inner.key()) == self.user {
            self.inner.prev()?;
        }
        Ok(())
    }
}

/// Marks that further versions of the key considered last are hidden.
struct Hidden;

fn set_target(target: &mut Vec<u8>, user: &[u8], seq: SequenceNumber, value_type: ValueType) {
    target.clear();
    make_internal(target, user, seq, value_type);
}

#[inline]
fn kind(trailer: u64) -> Result<ValueType> {
    match unpack_trailer(trailer) {
        Some((_, value_type)) => Ok(value_type),
        None => Err(unknown_kind(trailer)),
    }
}

#[cold]
fn unknown_kind(trailer: u64) -> Error {
    let found = Corruption::bad("value type of an entry", "0 or 1", trailer as u8);
    Error::corrupt(Path::new("(a memtable or table)"), 0, found)
}

impl fmt::Debug for DbIterator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DbIterator")
            .field("sequence", &self.sequence)
            .field("position", &self.position)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
