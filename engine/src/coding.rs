//! Fixed and variable-length integers as they lie on disk.
//!
//! Fixed integers are little-endian. A varint holds seven bits a byte, least significant first, the top bit set
//! on all but the last byte; at most 5 bytes for `u32`, 10 for `u64`. [`Cursor`] reads them from bytes that
//! nobody has checked yet: it never panics and never reads past the end.
//!
//! This file knows no format; who uses an integer says what it means.

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

/// Appends `value` as a varint.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that [`put_varint`] takes for `value`.
#[inline]
pub(crate) fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Appends a length as a varint, then the bytes.
#[inline]
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads integers and byte strings from unchecked bytes. Every method returns `None` where the bytes end too
/// early or a varint is too long; the cursor then stays where it was.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes consumed so far.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Bytes not yet consumed.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    #[inline]
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(len)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let start = self.at;
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let Some(byte) = self.u8() else { break };
            if shift == 63 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        self.at = start;
        None
    }

    /// A varint that must fit `u32`.
    #[inline]
    pub(crate) fn varint32(&mut self) -> Option<u32> {
        let start = self.at;
        let value = self.varint().and_then(|value| u32::try_from(value).ok());
        if value.is_none() {
            self.at = start;
        }
        value
    }

    /// A byte string with its length in front.
    #[inline]
    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        let bytes = self.varint().and_then(|len| usize::try_from(len).ok()).and_then(|len| self.take(len));
        if bytes.is_none() {
            self.at = start;
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Varints come back as they went in, and their length is known beforehand, at every boundary of seven bits.
    #[test]
    fn varints_round_trip() {
        for shift in 0..64 {
            for value in [(1_u64 << shift) - 1, 1 << shift, (1 << shift) | 1] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                assert_eq!(out.len(), varint_len(value), "{value}");
                let mut cursor = Cursor::new(&out);
                assert_eq!(cursor.varint(), Some(value));
                assert!(cursor.is_empty());
                for cut in 0..out.len() {
                    assert_eq!(Cursor::new(&out[..cut]).varint(), None);
                }
            }
        }
        let mut out = Vec::new();
        put_varint(&mut out, u64::MAX);
        assert_eq!(Cursor::new(&out).varint(), Some(u64::MAX));
        assert_eq!(Cursor::new(&[0xff; 11]).varint(), None, "a varint longer than ten bytes");
        assert_eq!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 0x1f]).varint32(), None, "does not fit u32");
    }

    /// A byte string whose length lies past the end is refused and leaves the cursor where it was.
    #[test]
    fn byte_strings_never_pass_the_end() {
        let mut out = Vec::new();
        put_bytes(&mut out, b"abc");
        assert_eq!(Cursor::new(&out).bytes(), Some(&b"abc"[..]));
        let mut cursor = Cursor::new(&out[..3]);
        assert_eq!(cursor.bytes(), None);
        assert_eq!(cursor.position(), 0);
    }
}
