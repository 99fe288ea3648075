//! [`State`]: what the background work shares, under one lock.
//!
//! The lock is rank 4 of [`crate::sync`]. It is held for bookkeeping only: super versions are replaced, compactions
//! picked and files marked under it; no I/O, no wait.

use std::collections::HashMap;

use crate::compaction::Running;
use crate::compaction::leveled::Cursors;

/// What the background work shares.
#[derive(Debug, Default)]
pub(super) struct State {
    /// By family id.
    pub(super) jobs: HashMap<u32, FamilyJobs>,
    /// Compactions that run now.
    pub(super) running_compactions: u32,
    /// Flushes that run now.
    pub(super) running_flushes: u32,
    /// Manual compactions that wait for their turn or run; automatic ones start only while there is none.
    pub(super) manual_compactions: u32,
}

/// The running compactions of one family, and where picking goes on.
#[derive(Debug, Default)]
pub(super) struct FamilyJobs {
    pub(super) cursors: Cursors,
    pub(super) running: Vec<Running>,
}
