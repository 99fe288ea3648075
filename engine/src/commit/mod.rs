//! The commit queue: one thread at a time commits, for itself and for those that wait behind it.
//!
//! [`queue`] decides who leads and which writes make a group. What a write holds and how a group is committed is
//! [`crate::db`]'s `write.rs`.

mod queue;

pub(crate) use queue::{CommitQueue, Leadership, Turn};
