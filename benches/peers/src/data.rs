//! Keys and values, the same for every engine in the same order.

use crate::engine::Key;

/// A stream of pseudo-random numbers (xorshift64).
#[derive(Debug, Clone)]
pub struct Numbers(u64);

impl Numbers {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// The key of this number, as `db_bench` makes it: big-endian, then `'0'`s.
pub fn key(number: u64) -> Key {
    let mut key = [b'0'; 16];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

/// A permutation of the numbers below `count`: every key once, in no order.
#[derive(Debug, Clone, Copy)]
pub struct Shuffle {
    count: u64,
    half_bits: u32,
}

impl Shuffle {
    /// That of so many numbers.
    pub fn new(count: u64) -> Self {
        let bits = u64::BITS - count.max(2).leading_zeros();
        Self { count, half_bits: bits.div_ceil(2) }
    }

    /// Where number `index` goes: a Feistel network, walked until it falls below the count.
    pub fn at(&self, index: u64) -> u64 {
        let mut number = index;
        loop {
            number = self.mixed(number);
            if number < self.count {
                return number;
            }
        }
    }

    fn mixed(&self, number: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for round in 1..=4_u64 {
            let hash = (right ^ (round << 40)).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 32;
            (left, right) = (right, left ^ (hash & mask));
        }
        (left << self.half_bits) | right
    }
}

/// Values of one size, of which half compresses away.
#[derive(Debug, Clone)]
pub struct Values {
    pool: Vec<u8>,
    size: usize,
    at: usize,
}

impl Values {
    /// Values of so many bytes.
    pub fn new(size: usize) -> Self {
        let mut numbers = Numbers::new(301);
        let mut pool = Vec::with_capacity(1 << 20);
        while pool.len() < 1 << 20 {
            let half: Vec<u8> = (0..50).map(|_| numbers.below(256) as u8).collect();
            pool.extend_from_slice(&half);
            pool.extend_from_slice(&half);
        }
        Self { pool, size, at: 0 }
    }

    /// The next one.
    pub fn next(&mut self) -> &[u8] {
        if self.at + self.size > self.pool.len() {
            self.at = 0;
        }
        let value = &self.pool[self.at..self.at + self.size];
        self.at += self.size;
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_visits_every_number_once() {
        for count in [1, 2, 3, 1_000, 4_096, 4_097] {
            let shuffle = Shuffle::new(count);
            let mut seen: Vec<u64> = (0..count).map(|index| shuffle.at(index)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..count), "{count}");
        }
    }

    #[test]
    fn values_have_their_size_past_the_end_of_the_pool() {
        let mut values = Values::new(1_000);
        assert!((0..3_000).all(|_| values.next().len() == 1_000));
    }
}
