//! [`PressureObserver`]: who is told of changes of state, for LOG lines and listeners, and what they are told.
//!
//! Records are numbered, and delivered in order with no lock held; an observer may call the manager, and the database.

use std::fmt;
use std::time::Duration;

use sluicedb_controller::{Pressure, SourceId, State};

use crate::Holder;

/// Somebody who wants to know, one per database.
pub trait PressureObserver: Send + Sync {
    /// The state (not only the step) changed. Called once per change, in order, one call at a time.
    fn pressure_changed(&self, change: &PressureChange);

    /// A stop was found that nothing would end, and one writer was let through. A defect; `holders` names who keeps
    /// the memory.
    fn liveness_rescued(&self, source: SourceId, holders: &[Holder]) {
        let _ = (source, holders);
    }
}

/// One change of state.
///
/// Shown as the one LOG line of the change:
/// `pressure: delayed -> stopped, source wbm#1, usage 1000 of 1000, pinned 0, flushes 2 running 1 queued, largest db1/cf3 700`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PressureChange {
    /// 1, 2, 3 ... of this manager.
    pub number: u64,
    /// The manager.
    pub source: SourceId,
    /// Before.
    pub previous: Pressure,
    /// After.
    pub current: Pressure,
    /// Usage at the change, bytes.
    pub used: u64,
    /// Quota at the change, bytes.
    pub quota: u64,
    /// Pinned bytes, when the record was delivered.
    pub pinned: u64,
    /// Flushes running, when the record was delivered.
    pub flushes_running: u64,
    /// Flushes queued, when the record was delivered.
    pub flushes_queued: u64,
    /// Who holds most, when the record was delivered.
    pub largest: Option<Holder>,
    /// How long the previous state had lasted.
    pub lasted: Duration,
}

impl fmt::Display for PressureChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "pressure: {} -> {}, source {}, usage {} of {}, pinned {}, flushes {} running {} queued",
            self.previous.state(),
            self.current.state(),
            self.source,
            self.used,
            self.quota,
            self.pinned,
            self.flushes_running,
            self.flushes_queued
        )?;
        if let Some(largest) = &self.largest {
            write!(f, ", largest {}/{} {}", largest.database, largest.family, largest.bytes)?;
        }
        if self.previous.state() == State::Stopped {
            write!(f, ", stopped for {} us", self.lasted.as_micros())?;
        }
        Ok(())
    }
}
