//! Tracked locks: the one place of the crate that names parking_lot.
//!
//! No engine lock may be held across I/O, a sleep or a wait on another thread. Every lock here counts itself
//! in a thread-local while it is held; [`forbid_held_locks`], called by each file operation and each long wait,
//! panics in debug builds and counts in release builds ([`io_under_lock`]) when that count is not zero.
//! A lock made with [`Mutex::across_io`] is exempt: only those of the WAL, of the manifest, and of changes of options are.
//!
//! How long locks are held is counted by rank ([`hold_times`]): every hold in debug builds, one of 64 in release builds,
//! so that a lock costs a look at a thread-local and no look at a clock.
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

use crate::env::{Clock, SystemClock};
use crate::histogram::{Histogram, Summary};

thread_local! {
    /// What the thread knows of its locks, in one word: counted ones that it holds, and in the upper half all that it has
    /// taken, to choose those that are timed.
    static LOCKS: Cell<u64> = const { Cell::new(0) };
}

const ONE_TAKEN: u64 = 1 << 32;

/// Counted locks that this thread holds.
#[inline]
fn held_locks() -> u64 {
    LOCKS.get() & (ONE_TAKEN - 1)
}

static IO_UNDER_LOCK: AtomicU64 = AtomicU64::new(0);

/// One hold of so many is timed.
const TIMED: u64 = if cfg!(debug_assertions) { 1 } else { 64 };

static HOLD_TIMES: [Histogram; Rank::ALL.len()] = [const { Histogram::new() }; Rank::ALL.len()];

/// The rows of the table above, for hold times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Rank {
    CommitQueue,
    Wal,
    Manifest,
    State,
    Asking,
    Pin,
    Leaf,
}

impl Rank {
    /// Every rank, top down.
    pub(crate) const ALL: [Self; 7] =
        [Self::CommitQueue, Self::Wal, Self::Manifest, Self::State, Self::Asking, Self::Pin, Self::Leaf];

    /// Its name in properties.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::CommitQueue => "commit_queue",
            Self::Wal => "wal",
            Self::Manifest => "manifest",
            Self::State => "state",
            Self::Asking => "asking",
            Self::Pin => "pin",
            Self::Leaf => "leaf",
        }
    }
}

/// How long locks of this rank were held, in nanoseconds of real time, in this process.
pub(crate) fn hold_times(rank: Rank) -> Summary {
    HOLD_TIMES[rank as usize].summary()
}

/// File operations and waits that began while an engine lock was held, in this process. Must stay 0.
pub(crate) fn io_under_lock() -> u64 {
    IO_UNDER_LOCK.load(Ordering::Relaxed) // statistics
}

/// Called where a thread is about to do I/O, sleep or wait for another: no engine lock may be held.
#[inline]
pub(crate) fn forbid_held_locks(doing: &str) {
    if held_locks() != 0 {
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
    rank: Rank,
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

#[expect(clippy::disallowed_types, reason = "this is the wrapper that the rest of the crate uses")]
impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { lock: parking_lot::Mutex::new(value), counted: true, rank: Rank::Leaf }
    }

    /// A lock that its holder keeps while doing I/O: the WAL's and the manifest's own tail.
    pub(crate) const fn across_io(value: T) -> Self {
        Self { lock: parking_lot::Mutex::new(value), counted: false, rank: Rank::Leaf }
    }

    /// The same lock, of this rank; a lock is a leaf unless it says otherwise.
    pub(crate) fn ranked(mut self, rank: Rank) -> Self {
        self.rank = rank;
        self
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let guard = self.lock.lock();
        let held = Held::begin(self.counted, self.rank);
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

/// Counts one held lock for as long as it lives, and times some.
struct Held {
    counted: bool,
    rank: Rank,
    /// When the hold began; 0 if it is not timed.
    since: u64,
}

impl Held {
    #[inline]
    fn begin(counted: bool, rank: Rank) -> Self {
        let locks = LOCKS.get().wrapping_add(ONE_TAKEN + u64::from(counted));
        LOCKS.set(locks);
        let is_timed = (locks / ONE_TAKEN).is_multiple_of(TIMED);
        Self { counted, rank, since: if is_timed { now() } else { 0 } }
    }

    /// The lock is free for a while: its holder waits for a condition.
    fn pause(&mut self) {
        if self.since != 0 {
            self.record();
        }
    }

    fn go_on(&mut self) {
        if self.since != 0 {
            self.since = now();
        }
    }

    #[cold]
    fn record(&self) {
        HOLD_TIMES[self.rank as usize].record(now().saturating_sub(self.since));
    }
}

/// Real time, also where tests own the clock: this is about how long other threads are kept out.
#[cold]
fn now() -> u64 {
    SystemClock.now_nanos()
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        LOCKS.set(LOCKS.get() - u64::from(self.counted));
        if self.since != 0 {
            self.record();
        }
    }
}

/// A lock that many readers share.
#[derive(Debug)]
#[expect(clippy::disallowed_types, reason = "this is the wrapper that the rest of the crate uses")]
pub(crate) struct RwLock<T> {
    lock: parking_lot::RwLock<T>,
    rank: Rank,
}

#[expect(clippy::disallowed_types, reason = "this is the wrapper that the rest of the crate uses")]
impl<T> RwLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { lock: parking_lot::RwLock::new(value), rank: Rank::Leaf }
    }

    /// The same lock, of this rank.
    pub(crate) fn ranked(mut self, rank: Rank) -> Self {
        self.rank = rank;
        self
    }

    #[inline]
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        RwLockReadGuard { guard: self.lock.read(), _held: Held::begin(true, self.rank) }
    }

    #[inline]
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        RwLockWriteGuard { guard: self.lock.write(), _held: Held::begin(true, self.rank) }
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
        guard.held.pause();
        self.condvar.wait(&mut guard.guard);
        guard.held.go_on();
    }

    pub(crate) fn notify_one(&self) {
        self.condvar.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.condvar.notify_all();
    }

    #[inline]
    fn check(&self, counted: bool) {
        if held_locks() > u64::from(counted) {
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

    /// Holds are timed by rank, waits for a condition not counted as a part of them.
    #[test]
    fn holds_are_timed() {
        let before = hold_times(Rank::Asking).count;
        let lock = Mutex::new(0).ranked(Rank::Asking);
        let turn = Condvar::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut value = lock.lock();
                while *value == 0 {
                    turn.wait(&mut value);
                }
            });
            for _ in 0..256 {
                *lock.lock() += 1;
            }
            turn.notify_all();
        });
        assert!(hold_times(Rank::Asking).count - before >= 256 / TIMED);
    }
}
