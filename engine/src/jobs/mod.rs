//! Background work: named threads that are owned and joined, how they are woken, and what happens when one fails.
//!
//! [`Bell`] wakes, [`Workers`] owns the threads, [`Failure`] keeps the first error that closes the database to
//! writes. What the jobs do is not known here.

mod bell;
mod failure;
mod workers;

pub(crate) use bell::Bell;
pub(crate) use failure::Failure;
pub(crate) use workers::Workers;
