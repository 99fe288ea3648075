//! Values: windows into one buffer that compresses to the wanted ratio.
//!
//! Owns the buffer (the same in every run and thread, from a fixed seed) and the distribution of value sizes.
//! Taking a value costs a bounds check, no copy. Must not know keys.

use std::sync::Arc;

use rand_mt::Mt64;

use super::keys::unit;

/// How value sizes are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeDistribution {
    /// All the same.
    Fixed,
    /// Evenly between the bounds.
    Uniform,
    /// Around the middle, the standard deviation a sixth of the range, cut at the bounds.
    Normal,
}

impl SizeDistribution {
    /// Its name in the flag.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Uniform => "uniform",
            Self::Normal => "normal",
        }
    }
}

/// How large each value is.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// How sizes are spread.
    pub distribution: SizeDistribution,
    /// The fixed size.
    pub fixed: usize,
    /// Least and greatest size of the other distributions.
    pub range: (usize, usize),
}

impl Sizes {
    /// The greatest size that can occur.
    pub fn greatest(&self) -> usize {
        if self.distribution == SizeDistribution::Fixed { self.fixed } else { self.range.1 }
    }

    /// The size that the header block calculates with.
    pub fn average(&self) -> usize {
        if self.distribution == SizeDistribution::Fixed {
            self.fixed
        } else {
            self.range.0.midpoint(self.range.1)
        }
    }

    fn draw(&self, random: &mut Mt64) -> usize {
        let (least, most) = self.range;
        let span = (most - least) as f64;
        match self.distribution {
            SizeDistribution::Fixed => self.fixed,
            SizeDistribution::Uniform => least + (random.next_u64() % (span as u64 + 1)) as usize,
            SizeDistribution::Normal => {
                // Box and Muller's transform; 1 - u keeps the logarithm finite.
                let radius = (-2.0 * (1.0 - unit(random)).ln()).sqrt();
                let deviate = radius * (std::f64::consts::TAU * unit(random)).cos();
                let size = least as f64 + span / 2.0 + deviate * span / 6.0;
                size.round().clamp(least as f64, most as f64) as usize
            }
        }
    }
}

/// The bytes that all values are cut from.
#[derive(Debug, Clone)]
pub struct ValuePool {
    bytes: Arc<[u8]>,
}

/// Pieces of this length are made compressible one by one.
const PIECE: usize = 100;
const SEED: u64 = 301;

impl ValuePool {
    /// A pool of at least 1 MiB and `greatest` bytes, in which every piece shrinks to about `ratio`.
    pub fn new(ratio: f64, greatest: usize) -> Self {
        let mut random = Mt64::new(SEED);
        let unique = ((PIECE as f64 * ratio) as usize).clamp(1, PIECE);
        let least = greatest.max(1 << 20);
        let mut bytes = Vec::with_capacity(least + PIECE);
        while bytes.len() < least {
            let start = bytes.len();
            bytes.resize(start + unique, 0);
            random.fill_bytes(&mut bytes[start..]);
            while bytes.len() < start + PIECE {
                let part = (start + PIECE - bytes.len()).min(unique);
                bytes.extend_from_within(start..start + part);
            }
        }
        Self { bytes: bytes.into() }
    }
}

/// One thread's way through the pool.
#[derive(Debug)]
pub struct Values {
    pool: ValuePool,
    position: usize,
    sizes: Sizes,
    random: Mt64,
}

impl Values {
    /// Values of the given sizes; random sizes are drawn from a stream of their own, so that keys do not depend on them.
    pub fn new(pool: &ValuePool, sizes: Sizes, seed: u64) -> Self {
        Self { pool: pool.clone(), position: 0, sizes, random: Mt64::new(seed ^ 0x5157_4c55_4943_4521) }
    }

    /// The next value.
    #[inline]
    pub fn next_value(&mut self) -> &[u8] {
        let size = match self.sizes.distribution {
            SizeDistribution::Fixed => self.sizes.fixed,
            _ => self.sizes.draw(&mut self.random),
        };
        if self.position + size > self.pool.bytes.len() {
            self.position = 0;
        }
        let start = self.position;
        self.position += size;
        &self.pool.bytes[start..start + size]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows follow each other, wrap when they do not fit, and every piece repeats its unique part.
    #[test]
    fn values_are_windows_that_wrap() {
        let pool = ValuePool::new(0.5, 10);
        assert!(pool.bytes.len() >= 1 << 20);
        assert_eq!(pool.bytes[..50], pool.bytes[50..100]);
        let sizes = Sizes { distribution: SizeDistribution::Fixed, fixed: 400_000, range: (0, 0) };
        let mut values = Values::new(&pool, sizes, 1);
        let first = values.next_value().to_vec();
        assert_eq!(values.next_value(), &pool.bytes[400_000..800_000]);
        assert_eq!(values.next_value(), first);
    }

    /// Random sizes stay within their bounds and centre where they should.
    #[test]
    fn sizes_follow_their_distribution() {
        let mut random = Mt64::new(7);
        for distribution in [SizeDistribution::Uniform, SizeDistribution::Normal] {
            let sizes = Sizes { distribution, fixed: 1, range: (100, 300) };
            let drawn: Vec<usize> = (0..10_000).map(|_| sizes.draw(&mut random)).collect();
            assert!(drawn.iter().all(|size| (100..=300).contains(size)));
            let mean = drawn.iter().sum::<usize>() as f64 / drawn.len() as f64;
            assert!((mean - 200.0).abs() < 3.0, "{distribution:?}: {mean}");
        }
    }
}
