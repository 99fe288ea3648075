//! [`ManagerStats`]: a manager at one moment. Formatting, and who reads it, is not known here.

use std::sync::Arc;

use sluicedb_controller::{Pressure, SourceId, StateReport};

use crate::{Quota, UsageReport};

/// A manager at one moment. Taken without a lock that a writer needs below an edge of the pressure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagerStats {
    /// Its identity as a source of pressure.
    pub source: SourceId,
    /// The quota and where the delay starts.
    pub quota: Quota,
    /// Whether it may delay and stop writers.
    pub allow_stall: bool,
    /// The published pressure.
    pub pressure: Pressure,
    /// Bytes by state.
    pub usage: UsageReport,
    /// The same per registered database, by name.
    pub databases: Vec<DatabaseReport>,
    /// Times in each state.
    pub times: StateReport,
    /// Changes of the published pressure.
    pub publications: u64,
    /// Distinct sinks that are told.
    pub sinks: usize,
    /// Attached flush targets.
    pub targets: usize,
    /// Flushes asked for or queued.
    pub flushes_queued: u64,
    /// Flushes running.
    pub flushes_running: u64,
    /// Failed flushes that wait for their retry.
    pub flushes_retrying: u64,
    /// Bytes of the flushes queued and running.
    pub planned: u64,
    /// A flush is wanted and every target refused.
    pub unserved: bool,
    /// Requests made.
    pub flushes_requested: u64,
    /// Requests refused.
    pub flushes_refused: u64,
    /// Requests accepted and then forgotten by their target.
    pub flushes_lost: u64,
    /// Writers let through because nothing would have ended their stop. A defect if not 0.
    pub liveness_rescues: u64,
    /// Bytes reserved in the cache.
    pub cache_reserved: u64,
    /// Bytes that the cache refused.
    pub cache_shortfall: u64,
}

/// One database of a manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseReport {
    /// Its number within the manager.
    pub id: u64,
    /// Its name.
    pub name: Arc<str>,
    /// Its bytes by state.
    pub usage: UsageReport,
}
