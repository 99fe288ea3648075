//! [`PinnedSlice`]: a value as a read returns it, without a copy where it can be had without one.

use std::fmt;
use std::ops::{Deref, Range};

use crate::sst::BlockBytes;

/// A value that was read. Derefs to `[u8]`.
///
/// A value from a block of an SST keeps that block alive (in the block cache or as a mapped file) instead of
/// being copied out; a value from a memtable is copied. Keep one only as long as you need it: what it pins is not
/// freed meanwhile.
#[derive(Clone)]
pub struct PinnedSlice {
    bytes: Bytes,
}

#[derive(Clone)]
enum Bytes {
    Owned(Box<[u8]>),
    Block(BlockBytes),
}

impl PinnedSlice {
    /// A value of its own bytes.
    pub(crate) fn owned(bytes: impl Into<Box<[u8]>>) -> Self {
        Self { bytes: Bytes::Owned(bytes.into()) }
    }

    /// The part `range` of a block. The range must lie inside the block.
    #[inline]
    pub(crate) fn in_block(block: BlockBytes, range: Range<usize>) -> Self {
        Self { bytes: Bytes::Block(block.slice(range)) }
    }
}

impl Deref for PinnedSlice {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Owned(bytes) => bytes,
            Bytes::Block(part) => part,
        }
    }
}

impl AsRef<[u8]> for PinnedSlice {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for PinnedSlice {
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}

impl fmt::Debug for PinnedSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}
