//! [`Failure`]: the first background failure, which closes the database to writes until it is resumed or reopened.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};
use crate::sync::Mutex;

/// The first failure that made the database read-only. Sticky: later ones are logged and change nothing.
#[derive(Debug, Default)]
pub(crate) struct Failure {
    failed: AtomicBool,
    first: Mutex<Option<Arc<Error>>>,
}

impl Failure {
    /// Keeps `error` if it is the first, or the first that is not a full disk; says whether it was the first.
    /// `on_first` is called in turn with the `then` of [`clear`](Self::clear): it marks, no more.
    pub(crate) fn latch(&self, error: &Error, on_first: impl FnOnce()) -> bool {
        let mut first = self.first.lock();
        let is_first = first.is_none();
        // A full disk is gone over by itself; anything else that happens meanwhile must not be.
        let is_worse = first.as_deref().is_some_and(is_no_space) && !is_no_space(error);
        if is_first || is_worse {
            *first = Some(Arc::new(error.clone()));
            // Written under the lock, read without it: who reads true finds the cause under the lock.
            self.failed.store(true, Ordering::Release);
        }
        if is_first {
            on_first();
        }
        is_first
    }

    /// `Ok` while there has been none, else [`Error::ReadOnly`] with the first; [`Error::NoSpace`] while that is all.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.failed.load(Ordering::Acquire) { self.refusal() } else { Ok(()) }
    }

    /// Forgets the failure: the database takes writes again. `then` is called before a later failure can be latched.
    pub(crate) fn clear(&self, then: impl FnOnce()) {
        let mut first = self.first.lock();
        *first = None;
        self.failed.store(false, Ordering::Release);
        then();
    }

    /// Whether a full disk is all that keeps the database from taking writes.
    pub(crate) fn is_no_space(&self) -> bool {
        self.has_failed() && self.first.lock().as_deref().is_some_and(is_no_space)
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    #[cold]
    fn refusal(&self) -> Result<()> {
        let first = self.first.lock().clone();
        match first {
            None => Ok(()), // it was cleared since
            Some(first) if is_no_space(&first) || is_read_only_open(&first) => Err((*first).clone()),
            Some(first) => Err(Error::ReadOnly { first }),
        }
    }
}

fn is_no_space(error: &Error) -> bool {
    matches!(error, Error::NoSpace { .. })
}

/// Not a failure at all, but refuses writes in the same places.
fn is_read_only_open(error: &Error) -> bool {
    matches!(error, Error::OpenedReadOnly { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first failure stays; the refusal names it.
    #[test]
    fn the_first_failure_stays() {
        let failure = Failure::default();
        let mut told = 0;
        failure.check().unwrap();
        assert!(failure.latch(&Error::invalid("first", "a"), || told += 1));
        assert!(!failure.latch(&Error::invalid("second", "b"), || told += 1));
        let refused = failure.check().unwrap_err().to_string();
        assert!(refused.contains("invalid first: a"), "{refused}");
        assert_eq!(told, 1);
    }
}
