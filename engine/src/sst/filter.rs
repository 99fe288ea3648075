//! The filter of a table: says of most absent user keys that they are absent, without reading a block.
//!
//! A Bloom filter cut into lines of 512 bits, one cache line each: a key chooses one line and sets or tests
//! all its bits there, so that a probe costs one memory access. The hash is XXH3 (64 bits) of the user key.
//!
//! | bytes      | field    | meaning                                                     |
//! |------------|----------|-------------------------------------------------------------|
//! | 0..64*n    | `lines`  | n lines; bit `b` of a line is bit `b % 8` of byte `b / 8`   |
//! | 64*n       | `probes` | bits tested for each key, 1 to [`PROBES_MAX`]               |
//!
//! Line of a hash `h`: `(h >> 32) * n >> 32`. Its bits: the nine-bit groups, from the top, of `h` multiplied
//! by [`MIX`]; after every seven groups the product is rotated by 32 bits and multiplied again.
//!
//! This file knows no file and no block; whoever reads it has verified its checksum.

use xxhash_rust::xxh3::xxh3_64;

use super::bytes::BlockBytes;
use crate::error::Corruption;

/// Bytes of a line, the unit of one probe.
pub(crate) const LINE_LEN: usize = 64;
const LINE_BITS: u32 = 9;
const _: () = assert!(1 << LINE_BITS == LINE_LEN * 8);
/// Most bits that a key sets.
const PROBES_MAX: u8 = 14;
/// Groups of [`LINE_BITS`] that one product holds.
const PROBES_PER_MIX: u8 = 7;
/// Odd, so that multiplying loses nothing: 2^64 divided by the golden ratio.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash of a user key by which the filter knows it.
#[inline]
pub(crate) fn hash(user_key: &[u8]) -> u64 {
    xxh3_64(user_key)
}

#[inline]
fn line_of(hash: u64, lines: u32) -> usize {
    (((hash >> 32) * u64::from(lines)) >> 32) as usize
}

/// Calls `visit` with each bit of a hash in its line, in the order of probing, as long as that says true.
/// Whether it did to the end.
#[inline]
fn all_bits(hash: u64, probes: u8, mut visit: impl FnMut(usize) -> bool) -> bool {
    let (mut mixed, mut left) = (hash.wrapping_mul(MIX), probes);
    loop {
        let mut groups = mixed;
        for _ in 0..left.min(PROBES_PER_MIX) {
            if !visit((groups >> (64 - LINE_BITS)) as usize) {
                return false;
            }
            groups <<= LINE_BITS;
        }
        if left <= PROBES_PER_MIX {
            return true;
        }
        left -= PROBES_PER_MIX;
        mixed = mixed.rotate_left(32).wrapping_mul(MIX);
    }
}

/// Builds the filter of these key hashes; empty when `bits_per_key` says that there is none.
pub(crate) fn build(hashes: &[u64], bits_per_key: f64) -> Vec<u8> {
    if bits_per_key <= 0.0 || hashes.is_empty() {
        return Vec::new();
    }
    let lines = (hashes.len() as f64 * bits_per_key / (LINE_LEN * 8) as f64)
        .ceil()
        .clamp(1.0, (1 << 25) as f64) as u32;
    let probes = probes_for(bits_per_key);
    let mut filter = vec![0; lines as usize * LINE_LEN + 1];
    for &hash in hashes {
        let at = line_of(hash, lines) * LINE_LEN;
        let line = &mut filter[at..at + LINE_LEN];
        all_bits(hash, probes, |bit| {
            line[bit / 8] |= 1 << (bit % 8);
            true
        });
    }
    filter[lines as usize * LINE_LEN] = probes;
    filter
}

/// The number of probes with the fewest false positives: bits per key times ln 2, rounded down because lines
/// fill unevenly.
fn probes_for(bits_per_key: f64) -> u8 {
    (bits_per_key * std::f64::consts::LN_2).clamp(1.0, f64::from(PROBES_MAX)) as u8
}

/// A filter as a reader uses it.
#[derive(Debug)]
pub(crate) struct Filter {
    bytes: BlockBytes,
    lines: u32,
    probes: u8,
}

impl Filter {
    /// The filter in these bytes, whose checksum was verified.
    pub(crate) fn new(bytes: BlockBytes) -> Result<Self, Corruption> {
        let (lines, probes) = match bytes.split_last() {
            Some((&probes, lines)) if !lines.is_empty() && lines.len().is_multiple_of(LINE_LEN) => {
                (lines.len() / LINE_LEN, probes)
            }
            _ => return Err(Corruption::bad("length of the filter", "64 for each line and 1", bytes.len())),
        };
        if !(1..=PROBES_MAX).contains(&probes) {
            return Err(Corruption::bad("probes of the filter", format!("1 to {PROBES_MAX}"), probes));
        }
        let lines =
            u32::try_from(lines).map_err(|_| Corruption::bad("lines of the filter", "a u32", lines))?;
        Ok(Self { bytes, lines, probes })
    }

    /// Whether the key of this hash may be in the table. False is certain.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        let at = line_of(hash, self.lines) * LINE_LEN;
        let Some(line) = self.bytes.get(at..).and_then(<[u8]>::first_chunk::<LINE_LEN>) else { return true };
        all_bits(hash, self.probes, |bit| line[bit / 8] & 1 << (bit % 8) != 0)
    }

    /// Heap memory that it keeps, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.bytes.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter_of(bytes: Vec<u8>) -> Filter {
        let len = bytes.len();
        Filter::new(BlockBytes::heap(bytes.into(), len)).unwrap()
    }

    /// The bytes of a filter are frozen.
    #[test]
    fn filter_bytes_are_frozen() {
        let filter = build(&[hash(b"a"), hash(b"b")], 10.0);
        let set: Vec<usize> = (0..512).filter(|bit| filter[bit / 8] & 1 << (bit % 8) != 0).collect();
        assert_eq!((set.as_slice(), filter.len(), filter[64]), (&GOLDEN_BITS[..], 65, 6));
    }

    const GOLDEN_BITS: [usize; 12] = [1, 27, 32, 48, 91, 105, 196, 205, 282, 351, 452, 471];

    /// No key is missed, and few absent ones pass, at every size of filter.
    #[test]
    fn false_positives_are_few() {
        const KEYS: u64 = 100_000;
        let hash_of = |number: u64| hash(format!("key{number:013}").as_bytes());
        let hashes: Vec<u64> = (0..KEYS).map(hash_of).collect();
        for (bits_per_key, percent) in [(2.0, 42.0), (5.0, 11.0), (10.0, 1.5), (16.0, 0.25), (24.0, 0.1)] {
            let filter = filter_of(build(&hashes, bits_per_key));
            assert!(
                hashes.iter().all(|&hash| filter.may_contain(hash)),
                "{bits_per_key} bits: a key is missed"
            );
            let passed = (KEYS..2 * KEYS).filter(|&number| filter.may_contain(hash_of(number))).count();
            let rate = passed as f64 * 100.0 / KEYS as f64;
            println!("{bits_per_key} bits: {rate} %");
            assert!(rate < percent, "{bits_per_key} bits: {rate} % pass");
        }
    }

    /// No bits or no keys make no filter; bytes of another length or with silly probes are refused.
    #[test]
    fn odd_filters() {
        assert!(build(&[1], 0.0).is_empty());
        assert!(build(&[], 10.0).is_empty());
        assert!(filter_of(build(&[1], 0.1)).may_contain(1));
        for bad in [vec![], vec![6], vec![0; 64], vec![0; 66], vec![0; 65], vec![99; 65]] {
            let len = bad.len();
            assert!(Filter::new(BlockBytes::heap(bad.into(), len)).is_err(), "{len} bytes");
        }
    }
}
