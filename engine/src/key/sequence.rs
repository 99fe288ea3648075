//! [`SequenceNumber`]: the order of writes.

/// The place of a write in the order of all writes of a database.
///
/// Every entry of every batch takes one; 0 means "before the first write". At most 2^56 - 1, so that it fits
/// into the trailer of an internal key beside the value type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SequenceNumber(u64);

impl SequenceNumber {
    /// Before the first write.
    pub const ZERO: Self = Self(0);
    /// The largest that fits: 2^56 - 1. Reads with it see everything.
    pub const MAX: Self = Self((1 << 56) - 1);

    /// The sequence of this number; numbers past [`MAX`](Self::MAX) are cut to it.
    pub const fn new(number: u64) -> Self {
        if number > Self::MAX.0 { Self::MAX } else { Self(number) }
    }

    /// The plain number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The sequence `count` places later.
    pub(crate) const fn after(self, count: u64) -> Self {
        Self::new(self.0.saturating_add(count))
    }
}

impl std::fmt::Display for SequenceNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
