//! The manifest: what the database is made of, as a log of edits.
//!
//! A [`VersionEdit`] is a plain value that says what changed ([`edit`]); [`format`](mod@format) says how edits and
//! their records lie on disk; [`ManifestLog`] ([`log`]) appends and syncs them, and goes over to a new file written
//! from full state when the old one grew large or failed. `CURRENT` names the live file ([`current`]). When the log's position
//! is recorded: [`position`].
//!
//! Nothing here knows what edits mean: [`crate::version::builder`] applies the files, the version set the rest.

mod current;
mod edit;
mod format;
mod log;
mod position;
mod recover;
mod survey;
#[cfg(test)]
mod tests;

pub(crate) use current::Current;
pub(crate) use edit::{FamilyEdit, VersionEdit};
pub(crate) use log::{ManifestGuard, ManifestLog};
pub(crate) use position::{PositionOptions, PositionPlan};
pub(crate) use recover::{RecoveredManifest, recover};
pub(crate) use survey::{SurveyedManifest, SurveyedRecord, survey};
