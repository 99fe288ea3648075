//! [`CompactionFilter`]: a family's own word on which entries a compaction keeps, and [`Ttl`], one that lets values expire.
//!
//! Asked by [`job`](super::job) for the newest version of a key, and only if no snapshot sees it: what a snapshot shows
//! does not change while it lives. Must not know: files, levels' contents, when compactions run.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::env::Clock;

/// What becomes of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterDecision {
    /// It stays as it is.
    Keep,
    /// The key is deleted.
    Remove,
    /// The key gets this value. At most [`MAX_VALUE_LEN`](crate::MAX_VALUE_LEN) bytes.
    Change(Vec<u8>),
}

/// Decides during compactions which entries of a column family stay.
///
/// Set in [`ColumnFamilyOptions::compaction_filter`](crate::ColumnFamilyOptions::compaction_filter). It is asked for the
/// newest version of each key that a compaction reads, unless a snapshot sees it. An entry is seen sooner or later, not at a
/// known time, and perhaps several times: readers must live with entries that the filter has not met yet, and the answer
/// should depend on key and value alone, or on time. A snapshot that is taken while a compaction runs may see an entry
/// before the filter's decision takes effect and after it.
///
/// Called by several threads at once, with no lock held. A panic makes the database read-only.
pub trait CompactionFilter: Send + Sync + fmt::Debug {
    /// A name for the log.
    fn name(&self) -> &str;

    /// What becomes of `key` with `value`, which a compaction into `level` has read.
    fn filter(&self, level: u32, key: &[u8], value: &[u8]) -> FilterDecision;
}

/// Bytes that a stamp adds to a value.
const STAMP_LEN: usize = 8;

/// Values that expire: each carries the time at which it was written, and compactions remove it when its time to live is
/// over.
///
/// Values of the family must go through [`stamp`](Self::stamp) when written and through [`live`](Self::live) when read:
/// an expired value is there until a compaction meets it. Set
/// [`periodic_compaction_seconds`](crate::ColumnFamilyOptions::periodic_compaction_seconds) to bound how long that takes.
///
/// ```
/// # use std::{sync::Arc, time::Duration};
/// use sluicedb::{SystemClock, Ttl};
///
/// let ttl = Ttl::new(Duration::from_secs(3600), Arc::new(SystemClock));
/// let stored = ttl.stamp(b"red");
/// assert_eq!(ttl.live(&stored), Some(&b"red"[..]));
/// ```
#[derive(Debug, Clone)]
pub struct Ttl {
    time_to_live: Duration,
    clock: Arc<dyn Clock>,
}

impl Ttl {
    /// Values live for `time_to_live` by the wall time of `clock`, to the microsecond.
    pub fn new(time_to_live: Duration, clock: Arc<dyn Clock>) -> Self {
        Self { time_to_live, clock }
    }

    /// `value` with the time of now, as it is to be written: eight bytes longer.
    pub fn stamp(&self, value: &[u8]) -> Vec<u8> {
        [value, &self.clock.unix_micros().to_le_bytes()].concat()
    }

    /// The value that was stamped, or none if its time is over. Bytes too short for a stamp have no time and live on.
    pub fn live<'a>(&self, stored: &'a [u8]) -> Option<&'a [u8]> {
        let Some((value, stamp)) = stored.split_last_chunk::<STAMP_LEN>() else { return Some(stored) };
        let age = self.clock.unix_micros().saturating_sub(u64::from_le_bytes(*stamp));
        (Duration::from_micros(age) < self.time_to_live).then_some(value)
    }
}

impl CompactionFilter for Ttl {
    fn name(&self) -> &str {
        "ttl"
    }

    fn filter(&self, _level: u32, _key: &[u8], value: &[u8]) -> FilterDecision {
        if self.live(value).is_some() { FilterDecision::Keep } else { FilterDecision::Remove }
    }
}
