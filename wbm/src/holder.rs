//! [`Holder`]: who holds how many bytes, in which state, since when; for reports and errors.
//!
//! The words for the states of a memtable live here. What moves a memtable from one to the next is the
//! [`Charge`](crate::Charge)'s affair.

use std::sync::Arc;
use std::time::Duration;

/// Where a memtable is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MemtableState {
    /// It takes writes.
    Mutable = 0,
    /// Switched out of service, its flush not begun.
    Sealed = 1,
    /// A flush job has picked it.
    Flushing = 2,
    /// No flush can free it any more, but something still holds it.
    Pinned = 3,
}

impl MemtableState {
    /// `mutable`, `sealed`, `flushing` or `pinned`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mutable => "mutable",
            Self::Sealed => "sealed",
            Self::Flushing => "flushing",
            Self::Pinned => "pinned",
        }
    }
}

/// Who keeps pinned bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PinKind {
    /// An iterator, a pinned slice, a super version.
    Reader,
    /// Kept on purpose after its flush.
    History,
    /// Its database refuses writes after an error; a flush can free it after `resume()`.
    FailedDatabase,
    /// Its database is read-only.
    ReadOnlyDatabase,
}

impl PinKind {
    /// `reader`, `history`, `failed database` or `read-only database`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::History => "history",
            Self::FailedDatabase => "failed database",
            Self::ReadOnlyDatabase => "read-only database",
        }
    }
}

/// Bytes that somebody holds, for reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Name of the database.
    pub database: Arc<str>,
    /// Name of the column family, as given to [`Database::open_charge`](crate::Database::open_charge).
    pub family: Arc<str>,
    /// State of the memtable.
    pub state: MemtableState,
    /// Who pins it, if it is pinned.
    pub pinned_by: Option<PinKind>,
    /// How many bytes.
    pub bytes: u64,
    /// How long it has been in that state.
    pub age: Duration,
}
