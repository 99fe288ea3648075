//! Locks and atomics of this crate: the one place that names parking_lot, loom and shuttle.
//!
//! Elsewhere `std` and `parking_lot` locks are refused by clippy, so that tests can count what is taken: in test
//! builds `locks_taken` says how many this thread has taken. Built with `--cfg loom` or `--cfg shuttle`, theirs take
//! the place of the real ones, so that models try other interleavings. What the locks guard is not known here.

#[cfg(loom)]
pub(crate) use loom::sync::atomic;
#[cfg(shuttle)]
pub(crate) use shuttle::{sync::atomic, thread_local};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::sync::atomic;

#[cfg(not(any(loom, shuttle)))]
mod lock {
    pub(crate) use parking_lot::Condvar;

    /// Mutual exclusion. Never held across a wait; see the rank table of the crate.
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
            #[cfg(test)]
            super::TAKEN.set(super::TAKEN.get() + 1);
            self.0.lock()
        }
    }
}

#[cfg(any(loom, shuttle))]
mod lock {
    use std::ops::{Deref, DerefMut};
    use std::sync::PoisonError;
    use std::time::Instant;

    #[cfg(loom)]
    use loom::sync as model;
    #[cfg(shuttle)]
    use shuttle::sync as model;

    /// Mutual exclusion. Never held across a wait; see the rank table of the crate.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(model::Mutex<T>);

    /// The right to use what a [`Mutex`] guards; empty only within [`Condvar::wait`].
    pub(crate) struct MutexGuard<'a, T>(Option<model::MutexGuard<'a, T>>);

    impl<T> Mutex<T> {
        #[cfg(loom)]
        pub(crate) fn new(value: T) -> Self {
            Self(model::Mutex::new(value))
        }

        #[cfg(shuttle)]
        pub(crate) const fn new(value: T) -> Self {
            Self(model::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().expect("a guard in use holds its lock")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("a guard in use holds its lock")
        }
    }

    /// Where threads wait for a change of what a [`Mutex`] guards.
    #[derive(Debug, Default)]
    pub(crate) struct Condvar(model::Condvar);

    impl Condvar {
        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let held = guard.0.take().expect("a guard in use holds its lock");
            guard.0 = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
        }

        /// A model has no real time: the same without an end.
        pub(crate) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _: Instant) {
            self.wait(guard);
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        #[cfg(any(test, feature = "manual-clock"))]
        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

pub(crate) use lock::{Condvar, Mutex};

#[cfg(all(test, not(loom)))]
std::thread_local! {
    static TAKEN: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Locks of this crate that the calling thread has taken so far.
#[cfg(all(test, not(loom)))]
pub(crate) fn locks_taken() -> u64 {
    TAKEN.get()
}
