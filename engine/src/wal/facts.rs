//! What the manifest remembers of the log: [`WalFacts`], changed by [`WalEdit`]s.
//!
//! The facts say where replay starts, where an earlier recovery ended, and how much was synced for certain, so that
//! every reopen gives the same answer and damage inside synced bytes is told from a torn tail.
//!
//! Plain values; how they lie on disk is [`crate::manifest`]'s, what they are used for is
//! [`replay`](fn@super::replay)'s.

use crate::key::SequenceNumber;
use crate::version::FileNumber;

/// Where a recovery ended. What lies behind `stream_bytes` in `segment`, and every segment between it and
/// `next_segment`, is not part of the log, whatever it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecoveredEnd {
    /// The segment that holds the end; 0 when the log was empty.
    pub(crate) segment: FileNumber,
    /// Bytes of the stream that were recovered.
    pub(crate) stream_bytes: u64,
    /// The fresh segment in which the stream goes on.
    pub(crate) next_segment: FileNumber,
}

/// A part of the stream that was synced for certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SyncedPosition {
    /// The segment that holds the last synced byte.
    pub(crate) segment: FileNumber,
    /// Bytes of the stream that were synced.
    pub(crate) stream_bytes: u64,
    /// Last sequence that is whole within them.
    pub(crate) seq: SequenceNumber,
}

/// What the manifest knows of the log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct WalFacts {
    /// Random id of this database's log, mixed into every checksum of it. 0: there is no log yet.
    pub(crate) log_id: u64,
    /// Replay starts in this segment; smaller ones are obsolete. 0: there is no log yet.
    pub(crate) first_needed: FileNumber,
    /// Where the last recovery ended, if there was one.
    pub(crate) recovered: Option<RecoveredEnd>,
    /// What is known to be synced, if anything.
    pub(crate) synced: Option<SyncedPosition>,
    /// Segments set aside by resuming after a failure: never replayed, recycled or removed.
    pub(crate) quarantined: Vec<FileNumber>,
}

/// A change of the facts; what is `None` stays.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct WalEdit {
    /// Set once, when the database is created.
    pub(crate) log_id: Option<u64>,
    /// See [`WalFacts::first_needed`].
    pub(crate) first_needed: Option<FileNumber>,
    /// See [`WalFacts::recovered`].
    pub(crate) recovered: Option<RecoveredEnd>,
    /// See [`WalFacts::synced`]. Replaces an earlier one even if that was larger.
    pub(crate) synced: Option<SyncedPosition>,
    /// Added to [`WalFacts::quarantined`].
    pub(crate) quarantined: Vec<FileNumber>,
}

impl WalFacts {
    /// Takes over what `edit` says.
    pub(crate) fn apply(&mut self, edit: &WalEdit) {
        if let Some(log_id) = edit.log_id {
            self.log_id = log_id;
        }
        if let Some(first_needed) = edit.first_needed {
            // Jobs that end side by side may record what they found in either order.
            self.first_needed = self.first_needed.max(first_needed);
        }
        self.recovered = edit.recovered.or(self.recovered);
        self.synced = edit.synced.or(self.synced);
        self.quarantined.extend_from_slice(&edit.quarantined);
    }

    /// The edit that makes these facts of none: a new manifest is written from full state.
    pub(crate) fn to_edit(&self) -> WalEdit {
        WalEdit {
            log_id: (self.log_id != 0).then_some(self.log_id),
            first_needed: (self.first_needed.0 != 0).then_some(self.first_needed),
            recovered: self.recovered,
            synced: self.synced,
            quarantined: self.quarantined.clone(),
        }
    }
}
