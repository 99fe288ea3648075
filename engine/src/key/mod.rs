//! Stored keys: [`SequenceNumber`], [`ValueType`], and the internal key that joins them to a user key.
//!
//! ```text
//!   internal key = user key bytes, then 8 bytes little-endian: sequence << 8 | value type
//! ```
//!
//! Order: user keys ascending by bytes; of one user key the newest first (larger sequence, then larger type).

mod internal_key;
mod sequence;
mod value_type;

pub(crate) use internal_key::{
    TRAILER_LEN, compare_internal, compare_parts, make_internal, pack_trailer, seek_key, split_internal,
    unpack_trailer, user_key,
};
pub use sequence::SequenceNumber;
pub(crate) use value_type::ValueType;

/// Longest user key in bytes: 64 KiB - 1.
pub const MAX_KEY_LEN: usize = (64 << 10) - 1;
/// Longest value in bytes: 4 GiB - 1 MiB, so that a block with one such entry and its key stays below 4 GiB.
pub const MAX_VALUE_LEN: u64 = (4 << 30) - (1 << 20);
