//! Locks and atomics of this crate: the one place that names parking_lot, loom and shuttle.
//!
//! Elsewhere `std` and `parking_lot` locks are refused by clippy. Built with `--cfg loom` or `--cfg shuttle`, theirs take
//! their place, so that models try other interleavings. What the locks guard is not known here; their ranks are in the crate's
//! documentation.

#[cfg(loom)]
pub(crate) use loom::sync::atomic;
#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic;
#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::sync::atomic;

/// Between a SeqCst access and the next. Loom takes those for acquire and release alone; with it they are what they are.
#[inline(always)]
pub(crate) fn fence_of_models() {
    #[cfg(loom)]
    loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
}

#[cfg(not(any(loom, shuttle)))]
mod lock {
    /// Mutual exclusion. Never held across a wait.
    #[derive(Debug, Default)]
    #[expect(clippy::disallowed_types, reason = "this is the wrapper that the rest of the crate uses")]
    pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

    /// The right to use what a [`Mutex`] guards.
    pub(crate) type MutexGuard<'a, T> = parking_lot::MutexGuard<'a, T>;

    #[expect(clippy::disallowed_types, reason = "this is the wrapper that the rest of the crate uses")]
    impl<T> Mutex<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(parking_lot::Mutex::new(value))
        }

        #[inline]
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock()
        }
    }
}

#[cfg(any(loom, shuttle))]
mod lock {
    #[cfg(loom)]
    use loom::sync as model;
    #[cfg(shuttle)]
    use shuttle::sync as model;

    /// Mutual exclusion. Never held across a wait.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(model::Mutex<T>);

    /// The right to use what a [`Mutex`] guards.
    pub(crate) type MutexGuard<'a, T> = model::MutexGuard<'a, T>;

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(model::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }
}

pub(crate) use lock::{Mutex, MutexGuard};

/// Changes `value` in one atomic step, or leaves it if `next` says `None`. Says whether it was changed.
pub(crate) fn try_update(value: &atomic::AtomicU64, next: impl Fn(u64) -> Option<u64>) -> bool {
    use atomic::Ordering::SeqCst;
    let mut now = value.load(SeqCst);
    loop {
        let Some(wanted) = next(now) else { return false };
        match value.compare_exchange(now, wanted, SeqCst, SeqCst) {
            Ok(_) => return true,
            Err(other) => now = other,
        }
    }
}
