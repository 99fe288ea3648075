//! Versions: which SSTs make up a column family at one moment.
//!
//! [`FileMeta`] is one SST's facts, [`Version`] an immutable arrangement of them into levels,
//! [`builder`] makes the next version from one and an edit, [`set`] holds the current ones and installs new ones,
//! [`writer`] makes edits durable on a thread of its own, and [`super_version`] is what a reader pins.

pub(crate) mod builder;
mod file_meta;
pub(crate) mod set;
pub(crate) mod super_version;
#[expect(clippy::module_inception, reason = "the module owns the type of its name")]
mod version;
pub(crate) mod writer;

pub(crate) use file_meta::{FileMeta, FileNumber};
pub(crate) use version::Version;

/// Levels that a column family may have at most.
pub(crate) const MAX_LEVELS: usize = 12;
