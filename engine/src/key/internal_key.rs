//! The internal key: how user key, sequence and type lie in bytes, and how two of them compare.
//!
//! | bytes          | field     | meaning                                              |
//! |----------------|-----------|------------------------------------------------------|
//! | 0..n           | user key  | as the user gave it, at most `MAX_KEY_LEN` bytes     |
//! | n..n+8         | trailer   | u64 little-endian: `sequence << 8 \| value type`     |

use std::cmp::Ordering;

use super::{SequenceNumber, ValueType};

/// Length of the trailer behind the user key.
pub(crate) const TRAILER_LEN: usize = 8;

/// Sequence and type in one number; larger means newer.
#[inline]
pub(crate) const fn pack_trailer(seq: SequenceNumber, value_type: ValueType) -> u64 {
    seq.get() << 8 | value_type as u64
}

/// The sequence and type of a trailer; `None` for a type that does not exist.
#[inline]
pub(crate) const fn unpack_trailer(trailer: u64) -> Option<(SequenceNumber, ValueType)> {
    match ValueType::from_u8(trailer as u8) {
        Some(value_type) => Some((SequenceNumber::new(trailer >> 8), value_type)),
        None => None,
    }
}

/// Appends the internal key to `out`.
#[inline]
pub(crate) fn make_internal(out: &mut Vec<u8>, user_key: &[u8], seq: SequenceNumber, value_type: ValueType) {
    out.reserve(user_key.len() + TRAILER_LEN);
    out.extend_from_slice(user_key);
    out.extend_from_slice(&pack_trailer(seq, value_type).to_le_bytes());
}

/// The internal key to seek with in order to find the newest entry of `user_key` at or below `seq`.
pub(crate) fn seek_key(user_key: &[u8], seq: SequenceNumber) -> Vec<u8> {
    let mut key = Vec::new();
    make_internal(&mut key, user_key, seq, ValueType::MAX);
    key
}

/// User key and trailer of an internal key. Shorter than a trailer (only possible in damaged bytes that a
/// checksum did not cover): everything is trailer-less user key with trailer 0.
#[inline]
pub(crate) fn split_internal(key: &[u8]) -> (&[u8], u64) {
    match key.split_last_chunk::<TRAILER_LEN>() {
        Some((user, trailer)) => (user, u64::from_le_bytes(*trailer)),
        None => (key, 0),
    }
}

/// The user key of an internal key.
#[inline]
pub(crate) fn user_key(key: &[u8]) -> &[u8] {
    split_internal(key).0
}

/// The order of internal keys given in parts.
#[inline]
pub(crate) fn compare_parts(a: (&[u8], u64), b: (&[u8], u64)) -> Ordering {
    a.0.cmp(b.0).then_with(|| b.1.cmp(&a.1))
}

/// The order of internal keys: user key ascending, then newest first.
#[inline]
pub(crate) fn compare_internal(a: &[u8], b: &[u8]) -> Ordering {
    compare_parts(split_internal(a), split_internal(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(user: &str, seq: u64, value_type: ValueType) -> Vec<u8> {
        let mut out = Vec::new();
        make_internal(&mut out, user.as_bytes(), SequenceNumber::new(seq), value_type);
        out
    }

    /// The bytes of an internal key are frozen.
    #[test]
    fn bytes_are_frozen() {
        assert_eq!(key("ab", 0x0102, ValueType::Put), [b'a', b'b', 1, 2, 1, 0, 0, 0, 0, 0]);
    }

    /// User keys ascend, of one key the newest comes first; a prefix sorts before what it begins.
    #[test]
    fn order_is_user_key_then_newest() {
        let sorted = [
            key("", 9, ValueType::Put),
            key("a", 7, ValueType::Put),
            key("a", 7, ValueType::Delete),
            key("a", 6, ValueType::Put),
            key("aa", 9, ValueType::Put),
            key("b", 1, ValueType::Put),
        ];
        for (i, a) in sorted.iter().enumerate() {
            for (j, b) in sorted.iter().enumerate() {
                assert_eq!(compare_internal(a, b), i.cmp(&j), "{i} against {j}");
            }
        }
    }

    /// Seeking with a snapshot's sequence lands on the newest entry that it may see.
    #[test]
    fn seek_key_stands_before_what_it_may_see() {
        let seek = seek_key(b"a", SequenceNumber::new(7));
        assert_eq!(compare_internal(&seek, &key("a", 8, ValueType::Put)), Ordering::Greater);
        assert_ne!(compare_internal(&seek, &key("a", 7, ValueType::Put)), Ordering::Greater);
        assert_eq!(unpack_trailer(split_internal(&seek).1), Some((SequenceNumber::new(7), ValueType::Put)));
    }
}
