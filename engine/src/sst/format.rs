//! How an SST lies on disk: file layout, block trailer, block handle, footer.
//!
//! Integers are little-endian. What is *inside* a block: data and index blocks in [`block`](super::block),
//! the filter in [`filter`](super::filter), properties in [`properties`](super::properties). This file knows
//! bytes and checksums, not how they are read, cached or searched.
//!
//! ```text
//!   data block, trailer | data block, trailer | ...
//!   zeros up to a multiple of 64 | filter, trailer        (no filter: neither)
//!   index block, trailer | properties, trailer | footer
//! ```
//!
//! # Block trailer
//!
//! Follows every block.
//!
//! | bytes | field     | meaning                                                             |
//! |-------|-----------|---------------------------------------------------------------------|
//! | 0     | `codec`   | 0 stored, 1 LZ4 block; others are corruption                        |
//! | 1..5  | `raw_len` | length before compression; trusted only after `crc`                 |
//! | 5..9  | `crc`     | CRC-32 (IEEE) of the block as stored, `codec`, `raw_len`, then the  |
//! |       |           | file's unique id and the block's offset (u64 each, not stored here) |
//!
//! # Block handle
//!
//! The value of an index entry: varint offset, varint length as stored (without trailer), then one byte
//! `codec`, equal to the trailer's, so that a reader knows what it needs before it touches the block.
//!
//! # Footer
//!
//! The last [`FOOTER_LEN`] bytes of the file. `magic` and `version` stay where they are in every version; all
//! other fields are trusted only after `crc`. A length of 0 says that there is no filter.
//!
//! | bytes  | field        | meaning                                                           |
//! |--------|--------------|-------------------------------------------------------------------|
//! | 0..8   | `magic`      | `sluiceST`                                                        |
//! | 8..12  | `version`    | [`FORMAT_VERSION`]; larger ones are from a newer program          |
//! | 12..20 | `unique_id`  | the file's random id, also in the manifest                        |
//! | 20..28 | `file_size`  | bytes of the whole file                                           |
//! | 28..40 | `index`      | offset u64, length u32 as stored, without trailer                 |
//! | 40..52 | `filter`     | the same                                                          |
//! | 52..64 | `properties` | the same                                                          |
//! | 64..68 | `crc`        | CRC-32 (IEEE) of all bytes before it                              |

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

use std::ops::Range;

use crate::checksum::crc32;
use crate::coding::{Cursor, put_varint};
use crate::error::Corruption;

const CODEC: Range<usize> = 0..1;
const RAW_LEN: Range<usize> = CODEC.end..CODEC.end + 4;
const CRC: Range<usize> = RAW_LEN.end..RAW_LEN.end + 4;
/// Bytes of the trailer behind each block.
pub(crate) const TRAILER_LEN: usize = 9;
const _: () = assert!(CRC.end == TRAILER_LEN);

const MAGIC_AT: Range<usize> = 0..8;
const VERSION_AT: Range<usize> = MAGIC_AT.end..MAGIC_AT.end + 4;
const UNIQUE_ID_AT: Range<usize> = VERSION_AT.end..VERSION_AT.end + 8;
const FILE_SIZE_AT: Range<usize> = UNIQUE_ID_AT.end..UNIQUE_ID_AT.end + 8;
const INDEX_AT: Range<usize> = FILE_SIZE_AT.end..FILE_SIZE_AT.end + EXTENT_LEN;
const FILTER_AT: Range<usize> = INDEX_AT.end..INDEX_AT.end + EXTENT_LEN;
const PROPERTIES_AT: Range<usize> = FILTER_AT.end..FILTER_AT.end + EXTENT_LEN;
const FOOTER_CRC_AT: Range<usize> = PROPERTIES_AT.end..PROPERTIES_AT.end + 4;
const EXTENT_LEN: usize = 12;
/// Bytes of the footer.
pub(crate) const FOOTER_LEN: usize = 68;
const _: () = assert!(FOOTER_CRC_AT.end == FOOTER_LEN);

const MAGIC: [u8; 8] = *b"sluiceST";
/// The version that this program writes, and the newest that it reads.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// How a block is stored. The numbers are on disk and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Codec {
    /// As it is.
    Stored = 0,
    /// As one LZ4 block, without any framing.
    Lz4 = 1,
}

impl Codec {
    fn from_u8(number: u8) -> Result<Self, Corruption> {
        match number {
            0 => Ok(Self::Stored),
            1 => Ok(Self::Lz4),
            other => Err(Corruption::bad("block codec", "0 or 1", other)),
        }
    }
}

/// Where a block belongs; its checksum covers this, so a block anywhere else fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockPlace {
    pub(crate) file_id: u64,
    pub(crate) offset: u64,
}

/// The trailer of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trailer {
    codec: Codec,
    raw_len: u32,
    crc: u32,
}

impl Trailer {
    /// The trailer of a block stored as `stored`.
    pub(crate) fn seal(stored: &[u8], codec: Codec, raw_len: u32, place: BlockPlace) -> Self {
        Self { codec, raw_len, crc: block_crc(stored, codec as u8, raw_len, place) }
    }

    pub(crate) fn encode(self) -> [u8; TRAILER_LEN] {
        let mut out = [0; TRAILER_LEN];
        put(&mut out, CODEC, &[self.codec as u8]);
        put(&mut out, RAW_LEN, &self.raw_len.to_le_bytes());
        put(&mut out, CRC, &self.crc.to_le_bytes());
        out
    }
}

fn block_crc(stored: &[u8], codec: u8, raw_len: u32, place: BlockPlace) -> u32 {
    const LEN: usize = RAW_LEN.end + 16;
    let mut tail = [0; LEN];
    put(&mut tail, CODEC, &[codec]);
    put(&mut tail, RAW_LEN, &raw_len.to_le_bytes());
    put(&mut tail, RAW_LEN.end..RAW_LEN.end + 8, &place.file_id.to_le_bytes());
    put(&mut tail, RAW_LEN.end + 8..LEN, &place.offset.to_le_bytes());
    crc32(&[stored, &tail])
}

/// A block taken apart from its trailer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unsealed<'a> {
    pub(crate) stored: &'a [u8],
    pub(crate) codec: Codec,
    /// Length after decompression. When the checksum was not verified this is a claim.
    pub(crate) raw_len: usize,
}

/// Splits a block from its trailer, and checks that it is whole and in its place if `verify` says so.
#[inline]
pub(crate) fn unseal(bytes: &[u8], place: BlockPlace, verify: bool) -> Result<Unsealed<'_>, Corruption> {
    let truncated =
        || Corruption::Truncated { what: "block", expected: TRAILER_LEN as u64, found: bytes.len() as u64 };
    let (stored, trailer) = bytes.split_last_chunk::<TRAILER_LEN>().ok_or_else(truncated)?;
    let [codec, rest @ ..] = *trailer;
    let (raw_len, expected) = (u32_at(&rest, 0..4), u32_at(&rest, 4..8));
    if verify {
        let found = block_crc(stored, codec, raw_len, place);
        if found != expected {
            return Err(Corruption::Checksum { what: "block", expected, found });
        }
    }
    let codec = Codec::from_u8(codec)?;
    if codec == Codec::Stored && raw_len as usize != stored.len() {
        return Err(Corruption::bad("raw length of a stored block", stored.len().to_string(), raw_len));
    }
    Ok(Unsealed { stored, codec, raw_len: raw_len as usize })
}

/// A block's bytes in its file, trailer not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Extent {
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

impl Extent {
    /// The first byte behind the block's trailer; `None` when no file is that long.
    pub(crate) fn end(self) -> Option<u64> {
        self.offset.checked_add(u64::from(self.len) + TRAILER_LEN as u64)
    }

    fn encode(self) -> [u8; EXTENT_LEN] {
        let mut out = [0; EXTENT_LEN];
        put(&mut out, 0..8, &self.offset.to_le_bytes());
        put(&mut out, 8..12, &self.len.to_le_bytes());
        out
    }
}

/// What an index entry says about its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockHandle {
    pub(crate) extent: Extent,
    pub(crate) codec: Codec,
}

impl BlockHandle {
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        put_varint(out, self.extent.offset);
        put_varint(out, u64::from(self.extent.len));
        out.push(self.codec as u8);
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        let extent = Extent { offset: cursor.varint()?, len: cursor.varint32()? };
        let codec = Codec::from_u8(cursor.u8()?).ok()?;
        cursor.is_empty().then_some(Self { extent, codec })
    }
}

/// The end of the file, from which everything else is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) unique_id: u64,
    pub(crate) file_size: u64,
    pub(crate) index: Extent,
    /// Length 0: no filter.
    pub(crate) filter: Extent,
    pub(crate) properties: Extent,
}

impl Footer {
    pub(crate) fn encode(&self) -> [u8; FOOTER_LEN] {
        let mut out = [0; FOOTER_LEN];
        put(&mut out, MAGIC_AT, &MAGIC);
        put(&mut out, VERSION_AT, &FORMAT_VERSION.to_le_bytes());
        put(&mut out, UNIQUE_ID_AT, &self.unique_id.to_le_bytes());
        put(&mut out, FILE_SIZE_AT, &self.file_size.to_le_bytes());
        put(&mut out, INDEX_AT, &self.index.encode());
        put(&mut out, FILTER_AT, &self.filter.encode());
        put(&mut out, PROPERTIES_AT, &self.properties.encode());
        let crc = footer_crc(&out);
        put(&mut out, FOOTER_CRC_AT, &crc.to_le_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8; FOOTER_LEN]) -> Result<Self, Corruption> {
        let magic = bytes.get(MAGIC_AT).unwrap_or_default();
        if magic != MAGIC {
            return Err(Corruption::bad("magic of the footer", "sluiceST", magic.escape_ascii()));
        }
        let version = u32_at(bytes, VERSION_AT);
        if version != FORMAT_VERSION {
            return Err(Corruption::bad("format version of the table", FORMAT_VERSION.to_string(), version));
        }
        let (expected, found) = (u32_at(bytes, FOOTER_CRC_AT), footer_crc(bytes));
        if expected != found {
            return Err(Corruption::Checksum { what: "footer", expected, found });
        }
        let extent = |at: Range<usize>| Extent {
            offset: u64_at(bytes, at.start..at.start + 8),
            len: u32_at(bytes, at.start + 8..at.end),
        };
        Ok(Self {
            unique_id: u64_at(bytes, UNIQUE_ID_AT),
            file_size: u64_at(bytes, FILE_SIZE_AT),
            index: extent(INDEX_AT),
            filter: extent(FILTER_AT),
            properties: extent(PROPERTIES_AT),
        })
    }
}

fn footer_crc(bytes: &[u8; FOOTER_LEN]) -> u32 {
    crc32(&[bytes.get(..FOOTER_CRC_AT.start).unwrap_or_default()])
}

/// Writes `bytes` into the field `at`, which the constants above place inside `out`.
#[inline]
fn put(out: &mut [u8], at: Range<usize>, bytes: &[u8]) {
    if let Some(field) = out.get_mut(at) {
        field.copy_from_slice(bytes);
    }
}

/// The field `at`, which the constants above place inside `bytes`.
#[inline]
fn u32_at(bytes: &[u8], at: Range<usize>) -> u32 {
    bytes.get(at).and_then(|field| field.try_into().ok()).map_or(0, u32::from_le_bytes)
}

#[inline]
fn u64_at(bytes: &[u8], at: Range<usize>) -> u64 {
    bytes.get(at).and_then(|field| field.try_into().ok()).map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests;
