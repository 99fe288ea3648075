//! Locks of this crate: the one place that names parking_lot.
//!
//! Elsewhere `std` and `parking_lot` locks are refused by clippy, so that tests can count what is taken: in test
//! builds `locks_taken` says how many this thread has taken. What the locks guard is not known here.

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
        TAKEN.set(TAKEN.get() + 1);
        self.0.lock()
    }
}

pub(crate) use parking_lot::Condvar;

#[cfg(test)]
thread_local! {
    static TAKEN: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Locks of this crate that the calling thread has taken so far.
#[cfg(test)]
pub(crate) fn locks_taken() -> u64 {
    TAKEN.get()
}
