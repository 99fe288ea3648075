//! [`CancelToken`]: ends a long call from another thread.
//!
//! Whoever makes the call waits on bells; the token rings them, so that no wait outlasts the wish. What is cancelled, and
//! what that leaves behind, is the call's to say.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use crate::error::{Error, Result};
use crate::jobs::Bell;
use crate::sync::Mutex;

/// Cancels the calls that it was given to. Clones are one token; a cancelled token stays so.
#[derive(Debug, Clone, Default)]
pub struct CancelToken {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    cancelled: AtomicBool,
    /// Rung when it is cancelled: what the calls wait on.
    bells: Mutex<Vec<Weak<Bell>>>,
}

impl CancelToken {
    /// A token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels: running calls end soon, later ones at once, with [`Error::Cancelled`].
    pub fn cancel(&self) {
        self.inner.cancelled.store(true, Ordering::Release);
        let bells = std::mem::take(&mut *self.inner.bells.lock());
        bells.iter().filter_map(Weak::upgrade).for_each(|bell| bell.ring());
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.inner.cancelled.load(Ordering::Acquire)
    }

    /// From now on `bell` is rung when it is cancelled. To be called before the first [`check`](Self::check).
    pub(crate) fn ring_on_cancel(&self, bell: &Arc<Bell>) {
        let mut bells = self.inner.bells.lock();
        bells.retain(|bell| bell.strong_count() > 0);
        if !bells.iter().any(|other| std::ptr::eq(other.as_ptr(), Arc::as_ptr(bell))) {
            bells.push(Arc::downgrade(bell));
        }
    }

    /// The error of a cancelled call, `what`.
    pub(crate) fn check(&self, what: &'static str) -> Result<()> {
        if self.is_cancelled() { Err(Error::Cancelled { what }) } else { Ok(()) }
    }
}
