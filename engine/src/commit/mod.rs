//! The commit queue: one thread at a time commits, for itself and for those that wait behind it.
//!
//! | module | owns |
//! |---|---|
//! | [`roster`] | the order of units, who leads, who leads next: pure bookkeeping |
//! | [`queue`] | the threads: joining, leading, handing on |
//! | [`group`] | the units of one append, who waits for each, and inserting them side by side |
//! | [`runs`] | the runs of units that the queue is bounded by, beside its bytes |
//! | [`seat`] | where one thread waits |
//! | [`ticket`] | what stands for a write that no thread waits for |
//!
//! What a write holds and how a group is committed is [`crate::db`]'s `write.rs`.

mod group;
mod queue;
mod roster;
mod runs;
mod seat;
mod ticket;

pub(crate) use group::Group;
pub(crate) use queue::{CommitQueue, Leadership, Outcome, Refusal, Turn, Unit};
pub(crate) use roster::GroupLimits;
pub(crate) use runs::QueueGroupLimits;
pub(crate) use ticket::{Callbacks, TicketCell, Told};
