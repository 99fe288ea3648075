//! The seam through which pressure arrives: [`PressureSink`], and who sends it: [`SourceId`].
//!
//! A meter knows only this trait; which brake stands behind it, and how it is served, is not known here.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Pressure;

/// What kind of thing holds writers back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceKind {
    /// Memtable bytes against the quota of a write buffer manager.
    WriteBufferManager,
    /// L0 depth of a column family.
    L0,
    /// Bytes that wait for compaction in a column family.
    PendingCompactionBytes,
    /// Sealed, unflushed memtables of a column family.
    MemtableCount,
    /// The low-pass governor.
    Governor,
    /// A held WAL lock; it holds the writers of one database only.
    LockWal,
}

impl SourceKind {
    /// Every kind, in the order of [`index`](Self::index).
    pub const ALL: [Self; 6] = [
        Self::WriteBufferManager,
        Self::L0,
        Self::PendingCompactionBytes,
        Self::MemtableCount,
        Self::Governor,
        Self::LockWal,
    ];

    /// Place in [`ALL`](Self::ALL), for tables by cause.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The word used before `#` in a source's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WriteBufferManager => "wbm",
            Self::L0 => "l0",
            Self::PendingCompactionBytes => "pending-compaction-bytes",
            Self::MemtableCount => "memtable-count",
            Self::Governor => "governor",
            Self::LockWal => "lock-wal",
        }
    }

    /// The cause under RocksDB's name, as in the stall statistics.
    pub const fn cause(self) -> &'static str {
        match self {
            Self::WriteBufferManager => "write-buffer-manager-limit",
            Self::L0 => "l0-file-count-limit",
            Self::PendingCompactionBytes => "pending-compaction-bytes",
            Self::MemtableCount => "memtable-limit",
            Self::Governor => "governor",
            Self::LockWal => "lock-wal",
        }
    }
}

/// One source of pressure, unique in the process and never reused. Shown as `wbm#1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId {
    kind: SourceKind,
    number: u64,
}

impl SourceId {
    /// A source that nobody else has.
    pub fn new(kind: SourceKind) -> Self {
        static NEXT: [AtomicU64; SourceKind::ALL.len()] =
            [const { AtomicU64::new(1) }; SourceKind::ALL.len()];
        // Relaxed: only uniqueness is asked of it.
        Self { kind, number: NEXT[kind.index()].fetch_add(1, Ordering::Relaxed) }
    }

    /// What kind of source it is.
    pub const fn kind(self) -> SourceKind {
        self.kind
    }

    /// Its number among the sources of its kind, from 1.
    pub const fn number(self) -> u64 {
        self.number
    }
}

impl fmt::Display for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.kind.name(), self.number)
    }
}

/// Somebody who holds writers back when told to: the brake, as its meter sees it.
pub trait PressureSink: Send + Sync {
    /// Replaces what `source` last asked for; [`Pressure::Normal`] withdraws it. Marks and wakes; never blocks.
    ///
    /// Called with the meter's publishing lock held: an implementation must not call the meter.
    fn set_pressure(&self, source: SourceId, pressure: Pressure);

    /// Lets the first writer pass that only `source` stops, although it asks for a stop; says whether there was one.
    /// The last resort of a meter that finds no work which could end its stop.
    fn rescue_one(&self, source: SourceId) -> bool {
        let _ = source;
        false
    }
}
