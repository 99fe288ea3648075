//! Background work: named threads that are owned and joined, how they are woken, and what happens when one fails.
//!
//! [`Bell`] wakes, [`Workers`] owns the threads, [`Pool`] feeds workers through rings ([`ring`]; what lies in one is a
//! [`task`]), a long computation counts in [`Stride`]s, [`Slots`] say how many compute at once,
//! [`Failure`] keeps the first error that closes the database to writes. What the jobs do is not known here.

mod bell;
mod failure;
mod pool;
mod ring;
mod slots;
mod stride;
mod task;
#[cfg(test)]
mod tests;
mod workers;

pub(crate) use bell::Bell;
pub(crate) use failure::Failure;
pub(crate) use pool::{Pool, PoolOptions};
pub(crate) use ring::{RingStats, Stop};
pub(crate) use slots::{Slot, Slots};
pub(crate) use stride::Stride;
#[cfg(feature = "bench-arms")]
pub(crate) use task::BulkHandle;
pub(crate) use task::{JobError, JobHandle};
pub(crate) use workers::Workers;
