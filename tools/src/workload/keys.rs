//! Keys: the bytes of key number v, and the random streams that draw v.
//!
//! Owns the encoding (big-endian number, padded with `0`), the 64-bit Mersenne twister of each thread, and the
//! shuffle for unique keys. Sorted byte order is numeric order. Must not know databases or column families.

use rand_mt::Mt64;

/// One key, rewritten in place.
#[derive(Debug)]
pub struct KeyBuffer {
    bytes: Vec<u8>,
}

impl KeyBuffer {
    /// A buffer for keys of `size` bytes.
    pub fn new(size: usize) -> Self {
        Self { bytes: vec![b'0'; size] }
    }

    /// The bytes of key `number`; for keys shorter than 8 bytes, its low ones.
    #[inline]
    pub fn encode(&mut self, number: u64) -> &[u8] {
        let digits = number.to_be_bytes();
        if let Some(head) = self.bytes.first_chunk_mut::<8>() {
            *head = digits;
        } else {
            let size = self.bytes.len();
            self.bytes.copy_from_slice(&digits[8 - size..]);
        }
        &self.bytes
    }

    /// The bytes of the last encoded key.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Thread `index` (1, 2, ... over a whole process) draws from the generator seeded with `seed + index`.
pub fn stream(seed: u64, index: u64) -> Mt64 {
    Mt64::new(seed.wrapping_add(index))
}

/// A draw in `[0, 1)`.
#[inline]
pub fn unit(random: &mut Mt64) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// A key to read: uniform, or with `exp_range` > 0 skewed to few keys that are scattered over the whole space.
#[inline]
pub fn draw_for_read(random: &mut Mt64, num: u64, exp_range: f64) -> u64 {
    if exp_range <= 0.0 {
        return random.next_u64() % num;
    }
    const SCATTER: u128 = 0x5bd1_e995;
    let rank = (num as f64 * (-unit(random) * exp_range).exp()) as u64;
    (u128::from(rank) * SCATTER % u128::from(num)) as u64
}

/// Most keys that are shuffled in memory (4 bytes each).
pub const MAX_UNIQUE: u64 = 1 << 32;

/// The numbers `0..num` in random order. `num` is at most [`MAX_UNIQUE`].
pub fn shuffled(num: u64, random: &mut Mt64) -> Vec<u32> {
    let mut keys: Vec<u32> = (0..num).map(|key| key as u32).collect();
    for last in (1..keys.len()).rev() {
        keys.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the format, short keys, and byte order against numeric order.
    #[test]
    fn keys_are_big_endian_and_padded() {
        assert_eq!(KeyBuffer::new(16).encode(1), b"\0\0\0\0\0\0\0\x0100000000");
        assert_eq!(KeyBuffer::new(3).encode(0x01_02_03_04), [2, 3, 4]);
        assert_eq!(KeyBuffer::new(8).encode(u64::MAX), [0xff; 8]);
        let (mut low, mut high) = (KeyBuffer::new(16), KeyBuffer::new(16));
        assert!(low.encode(255) < high.encode(256));
    }

    /// The generator is the standard one: its 10,000th output from the seed 5489 is known.
    #[test]
    fn the_generator_is_the_standard_one() {
        let mut random = stream(5488, 1);
        let tenth_thousand = (0..10_000).map(|_| random.next_u64()).last().unwrap();
        assert_eq!(tenth_thousand, 9_981_545_732_273_789_042);
    }

    /// A shuffle keeps every key; skewed reads stay in range.
    #[test]
    fn draws_stay_in_the_key_space() {
        let mut random = stream(1, 1);
        let mut keys = shuffled(1000, &mut random);
        keys.sort_unstable();
        assert!(keys.iter().copied().eq(0..1000));
        assert!((0..1000).all(|_| draw_for_read(&mut random, 77, 15.0) < 77));
    }
}
