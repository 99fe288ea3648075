//! The meter of SluiceDB: bytes of all memtables against one quota, and the pressure that means.
//!
//! All memtables of all databases that share a [`WriteBufferManager`] owe it their bytes through a [`Charge`]. Their
//! sum, against one [`Quota`], is the [`Pressure`] that every attached [`PressureSink`] is told, if and only if it
//! changed. The manager also asks [`FlushTarget`]s for flushes, and never lets a stop stand without one under way.
//!
//! ```text
//!   memtables            the meter                                    the brake
//!   Charge::grow  --->   usage: mutable + sealed + flushing
//!   Charge::flushed      quota: usage -> Normal | step | Stopped ---> PressureSink::set_pressure
//!   FlushTarget  <---    flush policy, liveness
//! ```
//!
//! Keys, column families, SSTs, and how a delay is served, are not known in this crate. [`MemoryPool`] bounds bytes in
//! flight, such as those of a commit queue.
//!
//! # Locks
//!
//! Ranked below every lock of the engine and above those of the controller. No lock is held while a target or an
//! observer is called. Sinks are told under the publishing lock, and what they wake is woken under it: wakers mark and
//! wake, no more.
//!
//! | rank | lock                   | guards                                         | calls out to           |
//! |-----:|------------------------|------------------------------------------------|------------------------|
//! |    1 | `Charge` books         | how one charge's bytes are booked              |                        |
//! |    2 | `Signal::publisher`    | settings, sinks, what was published            | sinks, the clock       |
//! |    3 | leaves                 | registry, targets, charge lists, reservation   | the cache (reservation)|

mod charge;
mod cost_to_cache;
mod database;
mod flush_policy;
mod governor;
mod holder;
mod liveness;
mod manager;
mod observer;
mod options;
mod pool;
mod quota;
mod signal;
mod stats;
mod sync;
mod targets;
mod usage;

pub use charge::Charge;
pub use cost_to_cache::{CACHE_UNIT, MemtableCache};
pub use database::{Advance, Database, Queued, SinkGuard, TargetGuard};
pub use governor::{Governor, GovernorSignals};
pub use holder::{Holder, MemtableState, PinKind};
pub use liveness::Liveness;
pub use manager::WriteBufferManager;
pub use observer::{PressureChange, PressureObserver};
pub use options::{InvalidOption, WbmOptions};
pub use pool::{MemoryLease, MemoryPool, PoolAdmission, PoolStats, PoolTurn, PoolWaitEnded, TooLarge};
pub use quota::Quota;
pub use sluicedb_controller::{DelayStep, Pressure, PressureSink, SourceId, State};
pub use stats::{DatabaseReport, ManagerStats};
pub use targets::{FlushOutcome, FlushTarget, Reclaimable, TargetId};
pub use usage::UsageReport;
