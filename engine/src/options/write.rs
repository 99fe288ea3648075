//! [`WriteOptions`] and [`Durability`]: what a write waits for before it is acknowledged.

use std::time::Duration;

/// What a write waits for before it is acknowledged, and so what its acknowledgement is worth.
///
/// | level | acknowledged when | killed process | power failure |
/// |---|---|---|---|
/// | `None` | inserted and published; no WAL bytes | lost until its memtable is flushed | same |
/// | `Buffered` | in the store's WAL buffer | may be lost | may be lost |
/// | `Os` (default) | handed to the kernel | kept | kept once the durable watermark has passed it |
/// | `Sync` | synced to the device | kept | kept |
///
/// Logged writes of all levels share one stream, so a sync covers every logged write before it, and after a crash
/// the logged writes that are found are a prefix of the commit order over all column families. `None` writes are
/// outside that promise: a `None` batch that spans column families may come back in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Durability {
    /// Not logged.
    None,
    /// Logged into the store's own buffer.
    Buffered,
    /// Logged and handed to the kernel.
    #[default]
    Os,
    /// Logged and synced.
    Sync,
}

/// How one write behaves.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WriteOptions {
    /// What the write waits for. Default: [`Durability::Os`].
    pub durability: Durability,
    /// Return [`Error::Stalled`](crate::Error::Stalled) at once instead of waiting for a delay or a stop. A refused
    /// write is not charged. Default: false.
    pub no_slowdown: bool,
    /// Throttled first when compaction falls behind. Default: false.
    pub low_pri: bool,
    /// Longest time spent delayed and stopped before the write returns [`Error::Stalled`](crate::Error::Stalled).
    ///
    /// Default: none, the database's `stall_timeout`. Least: 1 ms.
    pub stall_timeout: Option<Duration>,
}

impl WriteOptions {
    /// The default options with this durability.
    pub fn durability(durability: Durability) -> Self {
        Self { durability, ..Self::default() }
    }
}
