//! Our own random numbers: xoshiro256++ seeded by splitmix64.
//!
//! A seed printed by a failure must mean the same operations for ever, so no package whose stream may change
//! with an upgrade is used here. Nothing in this file knows what its numbers are for.

/// One step of splitmix64: moves `state` and returns a well mixed number, so that neighbouring seeds do not
/// lead to similar streams.
pub fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A deterministic generator: xoshiro256++.
#[derive(Debug, Clone)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut mixer = seed;
        Self { state: std::array::from_fn(|_| splitmix64(&mut mixer)) }
    }

    /// A generator of its own, so that what draws from it does not shift what is drawn here.
    pub fn fork(&mut self) -> Self {
        Self::new(self.next_u64())
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let [s0, s1, s2, s3] = &mut self.state;
        let result = s0.wrapping_add(*s3).rotate_left(23).wrapping_add(*s0);
        let t = *s1 << 17;
        *s2 ^= *s0;
        *s3 ^= *s1;
        *s1 ^= *s2;
        *s0 ^= *s3;
        *s2 ^= t;
        *s3 = s3.rotate_left(45);
        result
    }

    /// A number in `0..bound`, each equally likely but for a bias below 2^-32 at the bounds used here.
    ///
    /// # Panics
    ///
    /// When `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below 0");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// An index into something of `len` elements.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A number in `low..=high`.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True `percent` times in a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of `choices`.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }

    /// A number in `0..=max`, small ones far more often: each power of two below `max` is equally likely.
    pub fn skewed(&mut self, max: u64) -> u64 {
        let bits = u64::from(64 - max.leading_zeros());
        let bound = 1_u64.checked_shl(self.below(bits + 1) as u32).unwrap_or(u64::MAX);
        self.below(bound).min(max)
    }

    /// `len` bytes. One buffer in two compresses well, so that both codecs of a block are met.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        if self.chance(50) {
            let word = self.next_u64().to_le_bytes();
            return word.iter().copied().cycle().take(len).collect();
        }
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.next_u64().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stream is frozen: a printed seed replays for ever.
    ///
    /// Method: the reference values of splitmix64 for seed 0, and of xoshiro256++ for the state 1, 2, 3, 4, as
    /// their authors publish them.
    #[test]
    fn the_streams_are_the_published_ones() {
        let mut state = 0;
        assert_eq!(splitmix64(&mut state), 0xe220_a839_7b1d_cdaf);
        assert_eq!(splitmix64(&mut state), 0x6e78_9e6a_a1b9_65f4);
        let mut rng = Rng { state: [1, 2, 3, 4] };
        assert_eq!(rng.next_u64(), 41_943_041);
        assert_eq!(rng.next_u64(), 58_720_359);
    }

    /// Helpers stay in their bounds and reach both ends.
    #[test]
    fn helpers_stay_in_bounds() {
        let mut rng = Rng::new(7);
        let mut seen = [false; 10];
        for _ in 0..1_000 {
            seen[rng.below(10) as usize] = true;
            assert!((3..=5).contains(&rng.range(3, 5)));
            assert!(rng.skewed(100) <= 100);
            assert_eq!(rng.bytes(13).len(), 13);
        }
        assert_eq!(seen, [true; 10]);
        assert_eq!(rng.skewed(0), 0);
    }
}
