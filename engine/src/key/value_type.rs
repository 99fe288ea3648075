//! [`ValueType`]: what an entry says about its key. The numbers are on disk and never reused.

/// What an entry says about its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(crate) enum ValueType {
    /// A tombstone: the key is not there.
    Delete = 0,
    /// The key has this value.
    Put = 1,
}

impl ValueType {
    /// The largest number in use: the one to seek with, since newer and larger come first.
    pub(crate) const MAX: Self = Self::Put;

    /// The type of this number, if there is one.
    #[inline]
    pub(crate) const fn from_u8(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Delete),
            1 => Some(Self::Put),
            _ => None,
        }
    }
}
