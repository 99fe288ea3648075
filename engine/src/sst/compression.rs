//! Compressing a block and getting it back.
//!
//! [`Compressor`] belongs to one writer and reuses its table and buffer; [`decompress`] writes straight into
//! the buffer that will be cached. Which codecs exist is [`Codec`]'s affair; this file knows no trailer and
//! no file.

use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};

use super::format::Codec;
use crate::error::Corruption;
use crate::options::Compression;

/// Longest block that LZ4 takes; longer ones are stored.
const LZ4_LEN_MAX: usize = 0x7e00_0000;
/// No LZ4 block grows by more than this factor, so a longer claim is damage and is never allocated.
const LZ4_EXPANSION_MAX: usize = 255;

/// Compresses blocks one after the other.
pub(crate) struct Compressor {
    compression: Compression,
    table: CompressTable,
    // Only ever grows; what lies behind the compressed bytes is left over from earlier blocks.
    buffer: Vec<u8>,
}

impl Compressor {
    pub(crate) fn new(compression: Compression) -> Self {
        Self { compression, table: CompressTable::default(), buffer: Vec::new() }
    }

    /// The bytes to store for `raw`, and how they are encoded. What does not shrink by an eighth is stored:
    /// reading it back then costs nothing.
    pub(crate) fn compress<'a>(&'a mut self, raw: &'a [u8]) -> (Codec, &'a [u8]) {
        if self.compression == Compression::None || raw.len() > LZ4_LEN_MAX {
            return (Codec::Stored, raw);
        }
        let room = get_maximum_output_size(raw.len());
        if self.buffer.len() < room {
            self.buffer.resize(room, 0);
        }
        match compress_into_with_table(raw, &mut self.buffer, &mut self.table) {
            Ok(len) if len <= raw.len() - raw.len() / 8 => (Codec::Lz4, &self.buffer[..len]),
            _ => (Codec::Stored, raw),
        }
    }
}

/// Whether an LZ4 block of `stored` bytes can hold `raw` bytes: to be asked before they are allocated.
pub(crate) fn check_raw_len(stored: usize, raw: usize) -> Result<(), Corruption> {
    let most = stored.saturating_mul(LZ4_EXPANSION_MAX);
    if raw <= most {
        return Ok(());
    }
    Err(Corruption::bad("raw length of an LZ4 block", format!("at most {most}"), raw))
}

/// Decompresses the LZ4 block `stored`, which must fill `raw` exactly.
pub(crate) fn decompress(stored: &[u8], raw: &mut [u8]) -> Result<(), Corruption> {
    match decompress_into(stored, raw) {
        Ok(len) if len == raw.len() => Ok(()),
        Ok(len) => Err(Corruption::bad("length of a decompressed block", raw.len().to_string(), len)),
        Err(error) => Err(Corruption::bad("LZ4 block", "one that can be decompressed", error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What shrinks is compressed and comes back; what does not is stored; off means stored.
    #[test]
    fn only_what_shrinks_is_compressed() {
        let even = [7_u8; 4096];
        let mut state = 1_u64;
        let noise: Vec<u8> = (0..4096)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 56) as u8
            })
            .collect();
        let mut lz4 = Compressor::new(Compression::Lz4);
        let (codec, stored) = lz4.compress(&even);
        assert_eq!(codec, Codec::Lz4);
        let mut back = [0; 4096];
        decompress(stored, &mut back).unwrap();
        assert_eq!(back, even);
        check_raw_len(stored.len(), even.len()).unwrap();

        assert_eq!(lz4.compress(&noise), (Codec::Stored, &noise[..]));
        assert_eq!(lz4.compress(b""), (Codec::Stored, &b""[..]));
        assert_eq!(Compressor::new(Compression::None).compress(&even), (Codec::Stored, &even[..]));
    }

    /// A wrong length or cut bytes are errors, never a panic; an impossible length is refused before it is
    /// allocated.
    #[test]
    fn damage_is_an_error() {
        let raw: Vec<u8> = (0..1000_u32).flat_map(|i| (i / 9).to_le_bytes()).collect();
        let mut lz4 = Compressor::new(Compression::Lz4);
        let stored = lz4.compress(&raw).1.to_vec();
        for len in [0, 1, raw.len() - 1, raw.len() + 1, raw.len() + 100] {
            assert!(decompress(&stored, &mut vec![0; len]).is_err(), "{len} bytes");
        }
        for cut in 0..stored.len() {
            assert!(decompress(&stored[..cut], &mut vec![0; raw.len()]).is_err(), "cut at {cut}");
        }
        assert!(check_raw_len(10, 10 * 255 + 1).is_err());
    }
}
