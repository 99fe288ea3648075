//! Tracked locks: the one place of the crate that names parking_lot.
//!
//! No engine lock may be held across I/O, a sleep or a wait on another thread. Every lock here counts itself
//! in a thread-local while it is held; [`forbid_held_locks`], called by each file operation and each long wait,
//! panics in debug builds and counts in release builds ([`io_under_lock`]) when that count is not zero.
//! A lock made with [`Mutex::across_io`] is exempt: only the WAL's and the manifest's own are.
//!
//! # Lock order
//!
//! Take from the top down; skip freely; never climb. Ranks follow the crate arrows.
//!
//! | rank | lock                        | guards                                | across I/O |
//! |-----:|-----------------------------|---------------------------------------|------------|
//! |    1 | `CommitQueue::waiting`      | queued units, who leads               | no         |
//! |    2 | `Wal::tail`, then `syncing`, `Segments::creating` | the open segment; syncs and creations of segments | yes |
//! |    3 | `ManifestLog::tail`         | the manifest's tail                   | yes        |
//! |    4 | `Shared::told_job_pressure`, then `state` | what listeners know; families, versions, jobs | no |
//! |    5 | `FamilyData::asking`        | what a family asks of the brake       | no         |
//! |    6 | `FamilyData::pin`           | the super version that readers clone  | no         |
//! |    7 | leaves                      | caches, snapshots, statistics, the failure; last the events that wait to be told | no |

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static HELD: Cell<u32> = const { Cell::new(0) };
}

static IO_UNDER_LOCK: AtomicU64 = AtomicU64::new(0);

/// File operations and waits that began while an engine lock was held, in this process. Must stay 0.
pub(crate) fn io_under_lock() -> u64 {
    IO_UNDER_LOCK.load(Ordering::Relaxed) // statistics
}

/// Called where a thread is about to do I/O, sleep or wait for another: no engine lock may be held.
#[inline]
pub(crate) fn forbid_held_locks(doing: &str) {
    if HELD.get() != 0 {
        report_held_locks(doing);
    }
}

#[cold]
fn report_held_locks(doing: &str) {
    IO_UNDER_LOCK.fetch_add(1, Ordering::Relaxed); // statistics
    if cfg!(debug_assertions) && !std::thread::panicking() {
        panic!("an engine lock is held while this thread would {doing}");
    }
}

/// A mutual exclusion lock that knows whether it may be held across I/O.
#[derive(Debug)]
#[expect(clippy::disallowed_types, reason = "this is the wrapper that the rest of the crate uses")]
pub(crate) struct Mutex<T> {
    lock: parking_lot::Mutex<T>,
    counted: bool,
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

#[expect(clippy::disallowed_types, reason = "this is the wrapper that the rest of the crate uses")]
impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { lock: parking_lot::Mutex::new(value), counted: true }
    }

    /// A lock that its holder keeps while doing I/O: the WAL's and the manifest's own tail.
    pub(crate) const fn across_io(value: T) -> Self {
        Self { lock: parking_lot::Mutex::new(value), counted: false }
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let guard = self.lock.lock();
        let held = Held::begin(self.counted);
        MutexGuard { guard, held }
    }
}

/// The right to use what a [`Mutex`] guards.
pub(crate) struct MutexGuard<'a, T> {
    guard: parking_lot::MutexGuard<'a, T>,
    held: Held,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// Counts one held lock for as long as it lives.
struct Held {
    counted: bool,
}

impl Held {
    #[inline]
    fn begin(counted: bool) -> Self {
        if counted {
            HELD.set(HELD.get() + 1);
        }
        Self { counted }
    }
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        if self.counted {
            HELD.set(HELD.get() - 1);
        }
    }
}

/// A lock that many readers share.
#[derive(Debug)]
#[expect(clippy::disallowed_types, reason = "this is the wrapper that the rest of the crate uses")]
pub(crate) struct RwLock<T> {
    lock: parking_lot::RwLock<T>,
}

#[expect(clippy::disallowed_types, reason = "this is the wrapper that the rest of the crate uses")]
impl<T> RwLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { lock: parking_lot::RwLock::new(value) }
    }

    #[inline]
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        RwLockReadGuard { guard: self.lock.read(), _held: Held::begin(true) }
    }

    #[inline]
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        RwLockWriteGuard { guard: self.lock.write(), _held: Held::begin(true) }
    }
}

/// The right to read what a [`RwLock`] guards.
pub(crate) struct RwLockReadGuard<'a, T> {
    guard: parking_lot::RwLockReadGuard<'a, T>,
    _held: Held,
}

impl<T> Deref for RwLockReadGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

/// The right to change what a [`RwLock`] guards.
pub(crate) struct RwLockWriteGuard<'a, T> {
    guard: parking_lot::RwLockWriteGuard<'a, T>,
    _held: Held,
}

impl<T> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// Lets threads wait for a change of what a [`Mutex`] guards. The lock waited with is free while waiting, so
/// no other counted lock may be held.
#[derive(Debug, Default)]
pub(crate) struct Condvar {
    condvar: parking_lot::Condvar,
}

impl Condvar {
    pub(crate) const fn new() -> Self {
        Self { condvar: parking_lot::Condvar::new() }
    }

    /// Waits until notified; may also wake for no reason.
    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        self.check(guard.held.counted);
        self.condvar.wait(&mut guard.guard);
    }

    pub(crate) fn notify_one(&self) {
        self.condvar.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.condvar.notify_all();
    }

    #[inline]
    fn check(&self, counted: bool) {
        if HELD.get() > u32::from(counted) {
            report_held_locks("wait");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A held lock is noticed, a released or exempt one is not.
    #[test]
    fn held_locks_are_noticed() {
        let (plain, exempt) = (Mutex::new(()), Mutex::across_io(()));
        let guard = exempt.lock();
        forbid_held_locks("write");
        drop(guard);
        drop(plain.lock());
        forbid_held_locks("write");
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _guard = plain.lock();
            forbid_held_locks("write");
        }));
        assert_eq!(caught.is_err(), cfg!(debug_assertions));
        forbid_held_locks("write");
    }
}
