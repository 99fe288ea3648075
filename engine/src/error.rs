//! Why an operation failed, sorted by what the caller can do about it.
//!
//! One [`Error`] for the whole store. Bytes that break a format are [`Error::Corruption`] and name file and
//! offset; a refusal of the operating system is [`Error::Io`] and keeps its source; a promise of our own
//! that we broke is a panic, never an error.
//!
//! This file knows no module that raises errors, only how a raised one reads.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The result of every fallible call of the store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed, by what the caller can do about it.
///
/// Cheap to clone: a background failure is kept once and handed to every writer that it refuses.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request cannot be served as asked. Nothing changed; correct it and try again.
    #[error("invalid {what}: {why}")]
    InvalidArgument {
        /// The argument or option, by its public name.
        what: &'static str,
        /// What is wrong with it and what would be right.
        why: String,
    },
    /// No column family of this name (or it has been dropped). Nothing changed.
    #[error("there is no column family '{name}' in this database")]
    NoSuchColumnFamily {
        /// The name, or `#id` where only the id is known.
        name: String,
    },
    /// The directory holds no database (there is no CURRENT file) and creating one was not asked for.
    #[error("{} is not a database: {why}", .path.display())]
    NotADatabase {
        /// The directory.
        path: PathBuf,
        /// What was looked for, and what to do.
        why: String,
    },
    /// Another process, or another handle in this one, has the database open.
    #[error("{} is held by another opener; close it first", .path.display())]
    Locked {
        /// The LOCK file.
        path: PathBuf,
    },
    /// A file does not hold what its format promises. Retrying reads the same bytes; restore the file.
    #[error("{} is corrupt at byte {offset}: {found}", .path.display())]
    Corruption {
        /// The damaged file.
        path: PathBuf,
        /// Where the damaged part begins, in bytes from the start of the file.
        offset: u64,
        /// What was expected there and what was found.
        found: Corruption,
    },
    /// The operating system refused. Reads may go on; whether a retry helps depends on `source`.
    #[error("could not {doing} {}: {source}", .path.display())]
    Io {
        /// The action, as a verb: "write", "sync", "open".
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's answer.
        source: Arc<io::Error>,
    },
    /// The disk is full. Reads go on; writes are refused until there is space again.
    #[error("no space left to {doing} {}", .path.display())]
    NoSpace {
        /// The action, as a verb.
        doing: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// The write was not admitted and left no trace. `holders` says who keeps the memory.
    #[error("write stalled for {waited:?} by {cause}; memory is held by {holders}")]
    Stalled {
        /// What refused it: `delay`, `stop`, `low priority` or `timeout`, with the strictest source.
        cause: String,
        /// How long it had waited.
        waited: Duration,
        /// The largest holders of memtable memory, largest first.
        holders: String,
    },
    /// A batch is larger than the database takes. Nothing of it was queued; split it, or raise the option.
    #[error("a batch of {bytes} bytes is larger than max_batch_bytes, {limit}; split it or raise the option")]
    BatchTooLarge {
        /// Encoded size of the batch.
        bytes: u64,
        /// The option.
        limit: u64,
    },
    /// The commit queue has no room now, and the write was not to wait for any. It left no trace; try again.
    #[error("the commit queue has no room for {bytes} bytes now: {used} of {capacity} bytes are taken")]
    QueueFull {
        /// Size of the refused write.
        bytes: u64,
        /// Bytes in the queue, or waiting for it.
        used: u64,
        /// The bound.
        capacity: u64,
    },
    /// The commit queue had no room within `write_timeout`. The write left no trace; try again.
    #[error("the commit queue had no room for {bytes} bytes within {waited:?}")]
    QueueWaitTimeout {
        /// Encoded size of the refused batch.
        bytes: u64,
        /// How long it had waited.
        waited: Duration,
    },
    /// An earlier failure closed the database to writes. Reads still work; `first` is that failure.
    /// Reopening tries again.
    #[error("the database is read-only since an earlier failure: {first}")]
    ReadOnly {
        /// The failure that closed it.
        #[source]
        first: Arc<Error>,
    },
    /// The database was opened for reading only. Nothing changed; close it and open it with
    /// [`Db::open`](crate::Db::open) to write.
    #[error("{} is open for reading only", .path.display())]
    OpenedReadOnly {
        /// The directory.
        path: PathBuf,
    },
    /// The database is closing or closed. The operation left no trace.
    #[error("the database is shutting down")]
    ShutdownInProgress,
    /// A manual compaction or another long call was cancelled by its caller.
    #[error("{what} was cancelled")]
    Cancelled {
        /// The call.
        what: &'static str,
    },
}

/// What a damaged place was expected to hold, and what it holds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Corruption {
    /// A checksum does not match its bytes.
    #[error("the checksum of this {what} is {found:#010x}, expected {expected:#010x}")]
    Checksum {
        /// The damaged unit: "block", "fragment", "record", "footer".
        what: &'static str,
        /// The checksum that is stored.
        expected: u32,
        /// The checksum of the bytes that are there.
        found: u32,
    },
    /// The file ends before the unit does.
    #[error("the {what} is cut short: {expected} bytes expected, {found} there")]
    Truncated {
        /// The unit.
        what: &'static str,
        /// Bytes that it should have.
        expected: u64,
        /// Bytes that it has.
        found: u64,
    },
    /// A field holds a value that its format does not allow.
    #[error("{what}: expected {expected}, found {found}")]
    BadValue {
        /// The field.
        what: &'static str,
        /// What would be right.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A file that the manifest names is not there.
    #[error("the file is missing; {named_by} names it")]
    Missing {
        /// Who names it.
        named_by: String,
    },
}

impl Error {
    /// An operating system error while `doing` something to `path`; a full disk becomes [`Error::NoSpace`].
    #[cold]
    pub fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            return Self::NoSpace { doing, path: path.to_owned() };
        }
        Self::Io { doing, path: path.to_owned(), source: Arc::new(source) }
    }

    /// Damage in `path` at `offset`.
    #[cold]
    pub(crate) fn corrupt(path: &Path, offset: u64, found: Corruption) -> Self {
        Self::Corruption { path: path.to_owned(), offset, found }
    }

    /// An argument or option that cannot be used.
    #[cold]
    pub(crate) fn invalid(what: &'static str, why: impl Into<String>) -> Self {
        Self::InvalidArgument { what, why: why.into() }
    }

    /// The option `what` is outside its range.
    #[cold]
    pub(crate) fn out_of_range(what: &'static str, range: &str, given: impl std::fmt::Display) -> Self {
        Self::InvalidArgument { what, why: format!("{given} is outside its range, {range}") }
    }
}

impl Corruption {
    /// A field whose value its format does not allow.
    #[cold]
    pub(crate) fn bad(
        what: &'static str,
        expected: impl Into<String>,
        found: impl std::fmt::Display,
    ) -> Self {
        Self::BadValue { what, expected: expected.into(), found: found.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full disk is told apart from every other refusal, by kind and never by text.
    #[test]
    fn a_full_disk_is_no_space() {
        let full = Error::io("write", Path::new("x"), io::Error::from(io::ErrorKind::StorageFull));
        assert!(matches!(full, Error::NoSpace { .. }), "{full}");
        let other = Error::io("write", Path::new("x"), io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(matches!(other, Error::Io { .. }), "{other}");
    }

    /// Errors read as sentences that name file, offset, expected and found.
    #[test]
    fn errors_read_as_sentences() {
        let found = Corruption::Checksum { what: "block", expected: 1, found: 2 };
        let error = Error::corrupt(Path::new("db/000007.sst"), 4096, found);
        assert_eq!(
            error.to_string(),
            "db/000007.sst is corrupt at byte 4096: the checksum of this block is 0x00000002, expected 0x00000001"
        );
    }
}
