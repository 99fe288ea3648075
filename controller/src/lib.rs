//! The brake of SluiceDB: how hard writers are held back now, and how long each must wait.
//!
//! A [`WriteController`] keeps one [`Requirement`] per source and enforces the strictest. Meters tell it through
//! [`PressureSink`], in the vocabulary of [`Pressure`]; column families and others hold a [`Source`]. Before each
//! write a database asks [`Client::admit`] for the bytes of its own batch, and waits for its [`Turn`] there, holding
//! nothing: no lock, no place in a queue.
//!
//! ```text
//!   meters, column families        the brake                        writers
//!   set_pressure, require  --->    strictest fraction of the
//!                                  maximum -> rate -> pacer   <---  admit(bytes)
//!                                  stopped -> gate            --->  pass, sleep or park
//! ```
//!
//! What memory, quotas, memtables and files are is not known in this crate. All time comes from a [`Clock`].
//!
//! # Locks
//!
//! One lock, `WriteController::core`, guards sources, pacers and gate. It ranks below every lock of its callers,
//! is never held while anybody waits, and nothing is called with it held. While nothing holds writers back,
//! `admit` takes no lock and reads no clock.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use sluicedb_controller::{Admission, ControllerOptions, SystemClock, Wake, WriteController};
//!
//! let controller = WriteController::new(&ControllerOptions::default(), Arc::new(SystemClock)).unwrap();
//! let client = controller.register("db1");
//! if let Admission::Wait(mut turn) = client.admit(4_096) {
//!     while turn.wait(None).expect("not shut down") == Wake::Slice {
//!         // One second has passed: check that something is under way which ends the wait.
//!     }
//! }
//! ```

mod auto_rate;
mod clock;
mod gate;
mod lane;
mod pacer;
mod pressure;
mod rate;
mod requirements;
mod sink;
mod stats;
mod sync;
mod turn;
mod write_controller;

pub use auto_rate::AutoRate;
#[cfg(any(test, feature = "manual-clock"))]
pub use clock::ManualClock;
pub use clock::{Clock, Event, Parker, SystemClock, ThreadGuard, ThreadTicket, Woken, deadline_after};
pub use gate::{WaitEnded, Waited};
pub use pressure::{DelayStep, Pressure, State};
pub use rate::{DEFAULT_MAX_RATE, Fraction, MIN_RATE, derived_rate};
pub use requirements::Requirement;
pub use sink::{PressureSink, SourceId, SourceKind};
pub use stats::{CauseTally, ControllerStats, SourceReport, StateReport, StateTimes, Tally};
pub use turn::{CancelHandle, Turn, Wake};
pub use write_controller::{
    Admission, Client, ClientId, ControllerOptions, Interrupt, InvalidOption, NotNow, Source, WriteController,
};
