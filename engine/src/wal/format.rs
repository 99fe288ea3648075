//! How the log lies on disk. Integers are little-endian.
//!
//! # Segment header
//!
//! Begins every segment. It is written with the segment's first fragment, not when the file is prepared: a file
//! without a valid header *for its own number* has not been begun (it is zero, or was another segment before).
//!
//! | bytes  | field      | meaning                                                                  |
//! |--------|------------|--------------------------------------------------------------------------|
//! | 0..8   | `magic`    | `SLUICWAL`                                                               |
//! | 8..12  | `version`  | 1                                                                        |
//! | 12..16 | `crc`      | CRC-32 of all other bytes of the header                                  |
//! | 16..24 | `number`   | the segment's number, as in its file name                                |
//! | 24..32 | `log_id`   | the database's random log id                                             |
//! | 32..40 | `previous` | number of the segment before it in the stream, 0 = none                  |
//! | 40..48 | `start`    | bytes of the stream before this segment                                  |
//! | 48..56 | `synced`   | bytes of the stream that were synced when this segment was begun         |
//! | 56..64 | `capacity` | bytes for fragments behind the header; the stream counts only these      |
//!
//! # Fragment
//!
//! | bytes  | field      | meaning                                                                  |
//! |--------|------------|--------------------------------------------------------------------------|
//! | 0..4   | `crc`      | CRC-32 of `log_id`, segment number, offset of the fragment in the file   |
//! |        |            | (u64 each, not stored here), then all that follows                       |
//! | 4..8   | `tag`      | length of the payload in the low 24 bits, kind in the high 8             |
//! | 8..16  | `synced`   | only with [`SYNCED_FLAG`]: bytes of the stream synced so far             |
//! | ..     | payload    | at most [`FRAGMENT_MAX`] bytes                                           |
//!
//! Kinds: 1 full, 2 first, 3 middle, 4 last piece of a record, 5 end of a log that was closed; plus
//! [`SYNCED_FLAG`], set on the first fragment of each group and on the end. Kind 0 does not exist, so zeros are no
//! fragment. A rest of fewer than [`ROOM_MIN`] bytes at the end of a segment is zero and counts as stream.

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

use std::ops::Range;

use crate::checksum::crc32;
use crate::coding::Cursor;
use crate::error::Corruption;
use crate::version::FileNumber;

const MAGIC: [u8; 8] = *b"SLUICWAL";
const VERSION: u32 = 1;

const H_MAGIC: Range<usize> = 0..8;
const H_VERSION: Range<usize> = H_MAGIC.end..H_MAGIC.end + 4;
const H_CRC: Range<usize> = H_VERSION.end..H_VERSION.end + 4;
const H_NUMBER: Range<usize> = H_CRC.end..H_CRC.end + 8;
const H_LOG_ID: Range<usize> = H_NUMBER.end..H_NUMBER.end + 8;
const H_PREVIOUS: Range<usize> = H_LOG_ID.end..H_LOG_ID.end + 8;
const H_START: Range<usize> = H_PREVIOUS.end..H_PREVIOUS.end + 8;
const H_SYNCED: Range<usize> = H_START.end..H_START.end + 8;
const H_CAPACITY: Range<usize> = H_SYNCED.end..H_SYNCED.end + 8;
/// Length of the segment header.
pub(super) const HEADER_LEN: usize = 64;
const _: () = assert!(H_CAPACITY.end == HEADER_LEN);

const F_CRC: Range<usize> = 0..4;
const F_TAG: Range<usize> = F_CRC.end..F_CRC.end + 4;
const F_SYNCED: Range<usize> = F_TAG.end..F_TAG.end + 8;
/// Length of a fragment's header without and with `synced`.
pub(super) const FRAGMENT_HEADER_LEN: usize = 8;
pub(super) const FRAGMENT_HEADER_MAX: usize = 16;
const _: () = assert!(F_TAG.end == FRAGMENT_HEADER_LEN && F_SYNCED.end == FRAGMENT_HEADER_MAX);

/// Longest payload of a fragment: what a reader must hold before it can believe the length.
pub(super) const FRAGMENT_MAX: usize = 1 << 20;
const _: () = assert!(FRAGMENT_MAX < 1 << 24);
/// Least room in which a fragment is begun: the longer header and one byte.
pub(super) const ROOM_MIN: u64 = FRAGMENT_HEADER_MAX as u64 + 1;
/// Set in the kind of a fragment that carries `synced`.
pub(super) const SYNCED_FLAG: u8 = 0x10;

/// Which piece of a record a fragment holds. The numbers are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Full = 1,
    First = 2,
    Middle = 3,
    Last = 4,
    /// The log was closed here; nothing follows.
    End = 5,
}

impl Kind {
    /// The kind of a piece that does or does not begin and end its record.
    pub(super) fn of_piece(begins: bool, ends: bool) -> Self {
        match (begins, ends) {
            (true, true) => Self::Full,
            (true, false) => Self::First,
            (false, false) => Self::Middle,
            (false, true) => Self::Last,
        }
    }

    fn from_u8(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Full,
            2 => Self::First,
            3 => Self::Middle,
            4 => Self::Last,
            5 => Self::End,
            _ => return None,
        })
    }
}

/// What a segment says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) number: FileNumber,
    pub(crate) log_id: u64,
    pub(crate) previous: FileNumber,
    pub(crate) start: u64,
    pub(crate) synced: u64,
    pub(crate) capacity: u64,
}

/// What the first bytes of a segment file are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HeaderFound {
    /// The header of the segment that the file name names.
    Begun(SegmentHeader),
    /// Zeros, or the header of what the file was before it was recycled: prepared and not begun.
    Prepared,
    /// Something else: a torn or damaged header.
    Bad(Corruption),
}

impl SegmentHeader {
    pub(super) fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        let fields: [(Range<usize>, &[u8]); 8] = [
            (H_MAGIC, &MAGIC),
            (H_VERSION, &VERSION.to_le_bytes()),
            (H_NUMBER, &self.number.0.to_le_bytes()),
            (H_LOG_ID, &self.log_id.to_le_bytes()),
            (H_PREVIOUS, &self.previous.0.to_le_bytes()),
            (H_START, &self.start.to_le_bytes()),
            (H_SYNCED, &self.synced.to_le_bytes()),
            (H_CAPACITY, &self.capacity.to_le_bytes()),
        ];
        for (place, bytes) in fields {
            put(&mut out, place, bytes);
        }
        let crc = header_crc(&out);
        put(&mut out, H_CRC, &crc.to_le_bytes());
        out
    }

    /// Stream bytes at the end of this segment when it is full; `None` for absurd numbers.
    pub(super) fn end(&self) -> Option<u64> {
        self.start.checked_add(self.capacity)
    }

    /// The same, of whatever log the file says that it is.
    pub(super) fn parse_own(bytes: &[u8], number: FileNumber) -> HeaderFound {
        let head = bytes.first_chunk::<HEADER_LEN>().and_then(decode_header);
        Self::parse(bytes, number, head.map_or(0, |(_, _, header)| header.log_id))
    }

    /// What `bytes`, the first of the file of segment `number`, are.
    pub(super) fn parse(bytes: &[u8], number: FileNumber, log_id: u64) -> HeaderFound {
        let Some(bytes) = bytes.first_chunk::<HEADER_LEN>() else {
            let found = bytes.len() as u64;
            return HeaderFound::Bad(Corruption::Truncated {
                what: "segment header",
                expected: HEADER_LEN as u64,
                found,
            });
        };
        if bytes.iter().all(|byte| *byte == 0) {
            return HeaderFound::Prepared;
        }
        let Some((version, stored, header)) = decode_header(bytes) else {
            return HeaderFound::Bad(Corruption::bad("segment magic", "SLUICWAL", "other bytes"));
        };
        let found = header_crc(bytes);
        if stored != found {
            return HeaderFound::Bad(Corruption::Checksum {
                what: "segment header",
                expected: stored,
                found,
            });
        }
        if version != VERSION {
            return HeaderFound::Bad(Corruption::bad("segment version", VERSION.to_string(), version));
        }
        if header.log_id != log_id {
            return HeaderFound::Bad(Corruption::bad(
                "log id",
                format!("{log_id:#x}"),
                format!("{:#x}", header.log_id),
            ));
        }
        if header.number != number {
            return HeaderFound::Prepared;
        }
        let sane = header.synced <= header.start && header.end().is_some() && header.previous < number;
        if sane {
            HeaderFound::Begun(header)
        } else {
            HeaderFound::Bad(Corruption::bad("segment header", "ordered positions", format!("{header:?}")))
        }
    }
}

fn put(out: &mut [u8], place: Range<usize>, bytes: &[u8]) {
    if let Some(place) = out.get_mut(place) {
        place.copy_from_slice(bytes);
    }
}

fn decode_header(bytes: &[u8; HEADER_LEN]) -> Option<(u32, u32, SegmentHeader)> {
    let mut cursor = Cursor::new(bytes);
    if cursor.take(MAGIC.len())? != MAGIC {
        return None;
    }
    let (version, crc) = (cursor.u32()?, cursor.u32()?);
    let header = SegmentHeader {
        number: FileNumber(cursor.u64()?),
        log_id: cursor.u64()?,
        previous: FileNumber(cursor.u64()?),
        start: cursor.u64()?,
        synced: cursor.u64()?,
        capacity: cursor.u64()?,
    };
    Some((version, crc, header))
}

fn header_crc(bytes: &[u8; HEADER_LEN]) -> u32 {
    crc32(&[bytes.get(..H_CRC.start).unwrap_or_default(), bytes.get(H_CRC.end..).unwrap_or_default()])
}

/// The checksum of one segment's fragments, begun with what makes bytes of any other segment fail.
#[derive(Debug, Clone)]
pub(super) struct FragmentSeed {
    hasher: crc32fast::Hasher,
}

impl FragmentSeed {
    pub(super) fn new(log_id: u64, number: FileNumber) -> Self {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&log_id.to_le_bytes());
        hasher.update(&number.0.to_le_bytes());
        Self { hasher }
    }

    #[inline]
    fn crc(&self, offset: u64, parts: &[&[u8]]) -> u32 {
        let mut hasher = self.hasher.clone();
        hasher.update(&offset.to_le_bytes());
        for part in parts {
            hasher.update(part);
        }
        hasher.finalize()
    }
}

/// The header of a fragment, ready to be written before its payload.
pub(super) struct FragmentHeader {
    bytes: [u8; FRAGMENT_HEADER_MAX],
    len: usize,
}

impl FragmentHeader {
    /// Seals a fragment at `offset` of its segment's file. The payload, in two parts, is at most
    /// [`FRAGMENT_MAX`] bytes.
    #[inline]
    pub(super) fn seal(
        seed: &FragmentSeed,
        offset: u64,
        kind: Kind,
        synced: Option<u64>,
        payload: [&[u8]; 2],
    ) -> Self {
        let len = payload.iter().map(|part| part.len()).sum::<usize>();
        assert!(len <= FRAGMENT_MAX, "a fragment of {len} bytes would not be readable");
        let flag = if synced.is_some() { SYNCED_FLAG } else { 0 };
        let tag = len as u32 | u32::from(kind as u8 | flag) << 24;
        let mut bytes = [0; FRAGMENT_HEADER_MAX];
        put(&mut bytes, F_TAG, &tag.to_le_bytes());
        if let Some(synced) = synced {
            put(&mut bytes, F_SYNCED, &synced.to_le_bytes());
        }
        let len = header_len(synced.is_some());
        let covered = bytes.get(F_TAG.start..len).unwrap_or_default();
        let crc = seed.crc(offset, &[covered, payload[0], payload[1]]);
        put(&mut bytes, F_CRC, &crc.to_le_bytes());
        Self { bytes, len }
    }

    #[inline]
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// Length of a fragment's header.
#[inline]
pub(super) fn header_len(with_synced: bool) -> usize {
    if with_synced { FRAGMENT_HEADER_MAX } else { FRAGMENT_HEADER_LEN }
}

/// A fragment whose checksum holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fragment<'a> {
    pub(super) kind: Kind,
    /// Bytes of the stream that were synced when it was written.
    pub(super) synced: Option<u64>,
    pub(super) payload: &'a [u8],
    /// Bytes that it takes in the segment.
    pub(super) len: u64,
}

/// The lengths in a fragment's header, not yet believed; `None` where there can be no fragment.
pub(super) fn peek_fragment(bytes: &[u8]) -> Option<(Kind, Option<u64>, usize)> {
    let mut cursor = Cursor::new(bytes);
    cursor.take(F_CRC.len())?;
    let tag = cursor.u32()?;
    let kind_byte = (tag >> 24) as u8;
    let kind = Kind::from_u8(kind_byte & !SYNCED_FLAG)?;
    let synced = if kind_byte & SYNCED_FLAG != 0 { Some(cursor.u64()?) } else { None };
    let len = (tag & 0x00ff_ffff) as usize;
    (len <= FRAGMENT_MAX).then_some((kind, synced, len))
}

/// The fragment that begins `bytes`, which lie at `offset` of the segment's file. `bytes` are as many as there are,
/// [`FRAGMENT_HEADER_MAX`] + [`FRAGMENT_MAX`] at most.
pub(super) fn parse_fragment<'a>(
    seed: &FragmentSeed,
    offset: u64,
    bytes: &'a [u8],
) -> Result<Fragment<'a>, Corruption> {
    let truncated = |expected: usize| Corruption::Truncated {
        what: "fragment",
        expected: expected as u64,
        found: bytes.len() as u64,
    };
    let mut cursor = Cursor::new(bytes);
    let stored = cursor.u32().ok_or_else(|| truncated(FRAGMENT_HEADER_LEN))?;
    let tag = cursor.u32().ok_or_else(|| truncated(FRAGMENT_HEADER_LEN))?;
    let Some((kind, synced, len)) = peek_fragment(bytes) else {
        return Err(Corruption::bad("fragment tag", "kind 1 to 5 and at most 1 MiB", format!("{tag:#010x}")));
    };
    let header = header_len(synced.is_some());
    let covered = bytes.get(F_TAG.start..header + len).ok_or_else(|| truncated(header + len))?;
    let found = seed.crc(offset, &[covered]);
    if stored != found {
        return Err(Corruption::Checksum { what: "fragment", expected: stored, found });
    }
    let payload = bytes.get(header..header + len).unwrap_or_default();
    Ok(Fragment { kind, synced, payload, len: (header + len) as u64 })
}
