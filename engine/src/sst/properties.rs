//! [`SstProperties`]: what a table says of itself, so that it can be understood, or a manifest rebuilt,
//! from the file alone.
//!
//! A list of fields, each a varint tag and a byte string with its length in front; numbers are varints
//! inside that string. A tag that is not known is skipped, so fields can be added without a new format
//! version. Tags are never reused.
//!
//! | tag | field             | tag | field           | tag | field              |
//! |----:|-------------------|----:|-----------------|----:|--------------------|
//! | 1   | `entries`         | 5   | `data_blocks`   | 9   | `largest_seq`      |
//! | 2   | `tombstones`      | 6   | `data_bytes`    | 10  | `smallest`         |
//! | 3   | `raw_key_bytes`   | 7   | `filter_keys`   | 11  | `largest`          |
//! | 4   | `raw_value_bytes` | 8   | `smallest_seq`  | 12  | `family_id`        |
//! |     |                   |     |                 | 13  | `family_name`      |

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

use crate::coding::{Cursor, put_bytes, put_varint, varint_len};
use crate::error::Corruption;
use crate::key::SequenceNumber;

/// What a table says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SstProperties {
    /// Entries, tombstones included.
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
    /// Internal keys and values before compression.
    pub(crate) raw_key_bytes: u64,
    pub(crate) raw_value_bytes: u64,
    pub(crate) data_blocks: u64,
    /// Data blocks as stored, with their trailers.
    pub(crate) data_bytes: u64,
    /// Distinct user keys in the filter; 0 without one.
    pub(crate) filter_keys: u64,
    pub(crate) smallest_seq: SequenceNumber,
    pub(crate) largest_seq: SequenceNumber,
    /// Smallest and largest internal key.
    pub(crate) smallest: Box<[u8]>,
    pub(crate) largest: Box<[u8]>,
    /// The column family that it was made for, id and name; `None` in tables that do not say so.
    pub(crate) family: Option<(u32, Box<str>)>,
}

impl SstProperties {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let numbers = [
            (1, self.entries),
            (2, self.tombstones),
            (3, self.raw_key_bytes),
            (4, self.raw_value_bytes),
            (5, self.data_blocks),
            (6, self.data_bytes),
            (7, self.filter_keys),
            (8, self.smallest_seq.get()),
            (9, self.largest_seq.get()),
        ];
        for (tag, number) in numbers {
            put_varint(&mut out, tag);
            put_varint(&mut out, varint_len(number) as u64);
            put_varint(&mut out, number);
        }
        for (tag, bytes) in [(10, &self.smallest), (11, &self.largest)] {
            put_varint(&mut out, tag);
            put_bytes(&mut out, bytes);
        }
        if let Some((id, name)) = &self.family {
            put_varint(&mut out, 12);
            put_varint(&mut out, varint_len(u64::from(*id)) as u64);
            put_varint(&mut out, u64::from(*id));
            put_varint(&mut out, 13);
            put_bytes(&mut out, name.as_bytes());
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        let damaged = || Corruption::bad("properties block", "tags with their fields", "something else");
        let mut properties = Self::default();
        let (mut family_id, mut family_name) = (None, None);
        let mut cursor = Cursor::new(bytes);
        while !cursor.is_empty() {
            let tag = cursor.varint().ok_or_else(damaged)?;
            let field = cursor.bytes().ok_or_else(damaged)?;
            let number = || Cursor::new(field).varint().ok_or_else(damaged);
            match tag {
                1 => properties.entries = number()?,
                2 => properties.tombstones = number()?,
                3 => properties.raw_key_bytes = number()?,
                4 => properties.raw_value_bytes = number()?,
                5 => properties.data_blocks = number()?,
                6 => properties.data_bytes = number()?,
                7 => properties.filter_keys = number()?,
                8 => properties.smallest_seq = SequenceNumber::new(number()?),
                9 => properties.largest_seq = SequenceNumber::new(number()?),
                10 => properties.smallest = field.into(),
                11 => properties.largest = field.into(),
                12 => family_id = Some(u32::try_from(number()?).map_err(|_| damaged())?),
                13 => family_name = Some(std::str::from_utf8(field).map_err(|_| damaged())?),
                _ => {}
            }
        }
        properties.family = family_id.zip(family_name).map(|(id, name)| (id, name.into()));
        Ok(properties)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of properties are frozen, they come back, an unknown tag is skipped, and no cut panics.
    #[test]
    fn properties_bytes_are_frozen() {
        let properties = SstProperties {
            entries: 300,
            tombstones: 2,
            raw_key_bytes: 3,
            raw_value_bytes: 4,
            data_blocks: 5,
            data_bytes: 6,
            filter_keys: 7,
            smallest_seq: SequenceNumber::new(8),
            largest_seq: SequenceNumber::new(9),
            smallest: (*b"a").into(),
            largest: (*b"zz").into(),
            family: None,
        };
        let mut bytes = properties.encode();
        let golden = [
            1, 2, 0xac, 2, 2, 1, 2, 3, 1, 3, 4, 1, 4, 5, 1, 5, 6, 1, 6, 7, 1, 7, 8, 1, 8, 9, 1, 9, 10, 1,
            b'a', 11, 2, b'z', b'z',
        ];
        assert_eq!(bytes, golden);
        bytes.extend([99, 3, 1, 2, 3]);
        assert_eq!(SstProperties::decode(&bytes), Ok(properties));
        for cut in 0..bytes.len() {
            let _ = SstProperties::decode(bytes.get(..cut).unwrap_or_default());
        }
        assert!(SstProperties::decode(&[1, 9, 1]).is_err());

        let of_family = SstProperties { family: Some((300, "alpha".into())), ..SstProperties::default() };
        let bytes = of_family.encode();
        assert!(bytes.ends_with(&[12, 2, 0xac, 2, 13, 5, b'a', b'l', b'p', b'h', b'a']), "{bytes:?}");
        assert_eq!(SstProperties::decode(&bytes), Ok(of_family));
    }
}
