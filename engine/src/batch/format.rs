//! # A write batch as it lies in memory and in the log
//!
//! | bytes  | field      | meaning                                                   |
//! |--------|------------|-----------------------------------------------------------|
//! | 0..8   | `sequence` | u64: sequence of the first entry; each further one is + 1 |
//! | 8..12  | `count`    | u32: entries                                              |
//! | 12..   | entries    | one after the other, without gaps                         |
//!
//! An entry:
//!
//! | field      | meaning                                                             |
//! |------------|---------------------------------------------------------------------|
//! | `type`     | u8: [`ValueType`]; others are corruption                            |
//! | `family`   | varint u32: id of the column family                                 |
//! | `key`      | varint length (at most [`MAX_KEY_LEN`]), bytes                      |
//! | `value`    | puts only: varint length (at most [`MAX_VALUE_LEN`]), bytes         |
//!
//! Integers are little-endian. The log's fragments carry the checksum. Lengths are bounded by the bytes at hand.

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

use crate::coding::{Cursor, put_bytes, put_varint};
use crate::error::Corruption;
use crate::key::{MAX_KEY_LEN, MAX_VALUE_LEN, SequenceNumber, ValueType};

/// Bytes before the first entry.
pub(crate) const HEADER_LEN: usize = 12;

/// Writes the header over the first [`HEADER_LEN`] bytes.
pub(crate) fn write_header(bytes: &mut [u8], first: SequenceNumber, count: u32) {
    if let Some(header) = bytes.first_chunk_mut::<HEADER_LEN>() {
        let (sequence, entries) = header.split_at_mut(8);
        sequence.copy_from_slice(&first.get().to_le_bytes());
        entries.copy_from_slice(&count.to_le_bytes());
    }
}

/// The sequence in the header.
pub(crate) fn first_sequence(bytes: &[u8]) -> SequenceNumber {
    SequenceNumber::new(bytes.first_chunk::<8>().map_or(0, |sequence| u64::from_le_bytes(*sequence)))
}

/// Appends one entry.
#[inline]
pub(crate) fn push_entry(out: &mut Vec<u8>, value_type: ValueType, family: u32, key: &[u8], value: &[u8]) {
    out.push(value_type as u8);
    put_varint(out, u64::from(family));
    put_bytes(out, key);
    if value_type == ValueType::Put {
        put_bytes(out, value);
    }
}

/// One entry of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) value_type: ValueType,
    pub(crate) family: u32,
    pub(crate) key: &'a [u8],
    /// Empty for a delete.
    pub(crate) value: &'a [u8],
}

/// Reads a batch: its first sequence, its count, and entry by entry. Bytes that break the format end with an error.
#[derive(Debug)]
pub(crate) struct BatchReader<'a> {
    pub(crate) first: SequenceNumber,
    pub(crate) count: u32,
    left: u32,
    cursor: Cursor<'a>,
}

impl<'a> BatchReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, Corruption> {
        let mut cursor = Cursor::new(bytes);
        let (Some(first), Some(count)) = (cursor.u64(), cursor.u32()) else {
            return Err(Corruption::Truncated {
                what: "batch header",
                expected: HEADER_LEN as u64,
                found: bytes.len() as u64,
            });
        };
        if first > SequenceNumber::MAX.get() - u64::from(count) {
            return Err(Corruption::bad("batch sequence", "at most 2^56 - 1 with all entries", first));
        }
        Ok(Self { first: SequenceNumber::new(first), count, left: count, cursor })
    }

    /// The next entry; `None` after the last. Bytes behind the last entry are an error.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Entry<'a>>, Corruption> {
        if self.left == 0 {
            return match self.cursor.rest().len() {
                0 => Ok(None),
                extra => {
                    Err(Corruption::bad("batch", "nothing behind its last entry", format!("{extra} bytes")))
                }
            };
        }
        self.left -= 1;
        self.entry().map(Some)
    }

    #[inline]
    fn entry(&mut self) -> Result<Entry<'a>, Corruption> {
        let cut = |what| Corruption::bad(what, "whole inside its batch", "the end of the batch");
        let number = self.cursor.u8().ok_or_else(|| cut("entry type"))?;
        let value_type = ValueType::from_u8(number)
            .ok_or_else(|| Corruption::bad("entry type", "0 (delete) or 1 (put)", number))?;
        let family = self.cursor.varint32().ok_or_else(|| cut("column family id"))?;
        let key = self.cursor.bytes().ok_or_else(|| cut("key"))?;
        if key.len() > MAX_KEY_LEN {
            return Err(Corruption::bad("key length", "at most 65535", key.len()));
        }
        let value = match value_type {
            ValueType::Put => self.cursor.bytes().ok_or_else(|| cut("value"))?,
            ValueType::Delete => &[],
        };
        if value.len() as u64 > MAX_VALUE_LEN {
            return Err(Corruption::bad("value length", "at most 4293918720", value.len()));
        }
        Ok(Entry { value_type, family, key, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut bytes = vec![0; HEADER_LEN];
        push_entry(&mut bytes, ValueType::Put, 0, b"k", b"vv");
        push_entry(&mut bytes, ValueType::Delete, 300, b"gone", b"");
        write_header(&mut bytes, SequenceNumber::new(0x0102), 2);
        bytes
    }

    /// The bytes of a batch are frozen.
    #[test]
    fn bytes_are_frozen() {
        #[rustfmt::skip]
        let golden = [
            2, 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0,
            1, 0, 1, b'k', 2, b'v', b'v',
            0, 0xac, 2, 4, b'g', b'o', b'n', b'e',
        ];
        assert_eq!(sample(), golden);
    }

    /// A batch reads back as it was written; cut anywhere it is an error and never a panic; so is a byte too many.
    #[test]
    fn reads_back_whole_or_not_at_all() {
        let bytes = sample();
        let read = |bytes: &[u8]| -> Result<Vec<(u32, Vec<u8>)>, Corruption> {
            let mut reader = BatchReader::new(bytes)?;
            let mut entries = Vec::new();
            while let Some(entry) = reader.next()? {
                entries.push((entry.family, entry.key.to_vec()));
            }
            Ok(entries)
        };
        assert_eq!(read(&bytes).unwrap(), [(0, b"k".to_vec()), (300, b"gone".to_vec())]);
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(read(&longer).is_err());
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                let _ = read(&flipped); // any answer but a panic
            }
        }
    }
}
