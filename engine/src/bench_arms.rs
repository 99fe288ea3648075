//! Baseline designs to measure and test against, chosen for the whole process. Feature `bench-arms`; no part of the API.
//!
//! | arm | baseline | ours |
//! |---|---|---|
//! | [`LockScope`] | a counted lock is kept while the leader appends to the log and syncs | no lock across I/O |

use std::sync::atomic::{AtomicBool, Ordering};

use crate::sync::{Mutex, MutexGuard};

/// Whether the leader of the commit queue keeps a lock across the log's I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockScope {
    /// It keeps one: the design that this store replaces.
    Held,
    /// It keeps none.
    Scoped,
}

static HELD: AtomicBool = AtomicBool::new(false);
static GUARD: Mutex<()> = Mutex::new(());

/// Chooses the scope from now on.
pub fn set_lock_scope(scope: LockScope) {
    HELD.store(scope == LockScope::Held, Ordering::Release);
}

/// The guard that the leader keeps, in the baseline.
pub(crate) fn guard_of_leader() -> Option<MutexGuard<'static, ()>> {
    HELD.load(Ordering::Acquire).then(|| GUARD.lock())
}
