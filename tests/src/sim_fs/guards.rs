//! What is held until it is dropped: a LOCK file ([`SimLock`]) and a closed gate ([`Gate`]).

use std::path::PathBuf;
use std::sync::PoisonError;

use sluicedb::FileLock;

use super::{SimFs, lock};

/// Holds a path's lock until dropped.
#[derive(Debug)]
pub(super) struct SimLock {
    pub(super) fs: SimFs,
    pub(super) path: PathBuf,
}

impl FileLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        lock(&self.fs.inner.state).locks.remove(&self.path);
    }
}

/// Holds matching calls until it is opened or dropped.
#[derive(Debug)]
pub struct Gate {
    pub(super) fs: SimFs,
    pub(super) id: u64,
}

impl Gate {
    /// Lets all waiting and later calls pass.
    pub fn open(&self) {
        lock(&self.fs.inner.state).faults.open_gate(self.id);
        self.fs.inner.changed.notify_all();
    }

    /// Returns when a call waits here.
    pub fn wait_until_reached(&self) {
        let mut state = lock(&self.fs.inner.state);
        while state.held.get(&self.id).is_none_or(|held| *held == 0) {
            state = self.fs.inner.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}
