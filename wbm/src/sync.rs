//! Locks of this crate: the one place that names parking_lot.
//!
//! Elsewhere `std` and `parking_lot` locks are refused by clippy. What the locks guard is not known here; their ranks
//! are in the crate's documentation.

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
