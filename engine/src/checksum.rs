//! CRC-32 (IEEE, as crc32fast computes it) over several parts.
//!
//! A checksum covers the bytes *and* where they belong (segment number, file id, offset), so that bytes in the
//! wrong place fail like bytes that changed. Who uses one says in its `format` file which parts, in which order.

/// The CRC-32 of all parts in order.
#[inline]
pub(crate) fn crc32(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::crc32;

    /// The well-known check value of CRC-32/ISO-HDLC, whole and in parts.
    #[test]
    fn check_value() {
        assert_eq!(crc32(&[b"123456789"]), 0xcbf4_3926);
        assert_eq!(crc32(&[b"1234", b"", b"56789"]), 0xcbf4_3926);
    }
}
