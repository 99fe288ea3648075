//! The write-ahead log: a byte stream over segments of fixed size.
//!
//! ```text
//!   stream  |---- 000004.log ----|---- 000007.log ----|---- 000009.log ....|
//!   records [ a ][ b ][   c    ] [ d ][     e          ] [ f ]
//! ```
//!
//! A record is one encoded batch, opaque here. It is cut into fragments that are checksummed one by one
//! ([`format`](mod@format)) and may straddle segments. [`Wal`] appends ([`append`]) and syncs ([`writer`]), [`segments`] creates and
//! recycles files off the write path, [`replay`](fn@replay) reads the stream back and tells a torn tail from
//! damage ([`chain`] finds its segments, [`reader`] reads one). When it is synced in the background: [`ticker`]. How far the stream is safe: [`crate::durability`].
//!
//! The log knows nothing of memtables, families or sequence order; it is told the last sequence of each record.

mod append;
mod chain;
mod copy;
mod facts;
mod format;
mod read_only;
mod reader;
mod replay;
mod scan;
mod segments;
#[cfg(test)]
pub(crate) mod test_fs;
#[cfg(test)]
mod tests;
mod ticker;
mod writer;

pub(crate) use append::{FRAMING, LogRecord, Push};
pub(crate) use copy::SegmentPart;
pub(crate) use facts::{RecoveredEnd, SyncedPosition, WalEdit, WalFacts};
pub(crate) use format::{HeaderFound, SegmentHeader};
pub(crate) use replay::{ReplayEnd, ReplayRequest, replay};
pub(crate) use scan::{RecordPlace, Scanned, damage_at, read_header, scan, segment_numbers, stream_position};
pub(crate) use segments::NextFileNumber;
pub(crate) use ticker::SyncTicker;
pub(crate) use writer::{Wal, WalOptions};
