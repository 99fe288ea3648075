//! [`Failure`]: the first background failure, which closes the database to writes until it is opened again.

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
    /// Keeps `error` if it is the first; says whether it was.
    pub(crate) fn latch(&self, error: &Error) -> bool {
        let mut first = self.first.lock();
        let is_first = first.is_none();
        if is_first {
            *first = Some(Arc::new(error.clone()));
            // Written under the lock, read without it: who reads true finds the cause under the lock.
            self.failed.store(true, Ordering::Release);
        }
        is_first
    }

    /// `Ok` while there has been none, else [`Error::ReadOnly`] with the first.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.failed.load(Ordering::Acquire) { Err(self.refusal()) } else { Ok(()) }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    #[cold]
    fn refusal(&self) -> Error {
        let first = self.first.lock().clone();
        first.map_or(Error::ShutdownInProgress, |first| Error::ReadOnly { first })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first failure stays; the refusal names it.
    #[test]
    fn the_first_failure_stays() {
        let failure = Failure::default();
        failure.check().unwrap();
        assert!(failure.latch(&Error::invalid("first", "a")));
        assert!(!failure.latch(&Error::invalid("second", "b")));
        let refused = failure.check().unwrap_err().to_string();
        assert!(refused.contains("invalid first: a"), "{refused}");
    }
}
