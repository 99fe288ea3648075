//! What memory costs: a large copy, the first touch of a page, a load that waits for the one before.

use std::hint::black_box;
use std::io;

use memmap2::MmapMut;

use super::{nanos_each, seconds};
use crate::Numbers;

/// What memory costs here.
#[derive(Debug, Clone, Copy)]
pub struct MemoryCosts {
    /// A large `memcpy`, in nanoseconds per byte copied.
    pub copy: f64,
    /// The first store into a 4 KiB page of fresh anonymous memory, in nanoseconds.
    pub first_touch: f64,
    /// The second, in nanoseconds.
    pub second_touch: f64,
    /// A load whose address is the one before's result, in a set of 64 MiB, in nanoseconds.
    pub dependent_load: f64,
}

/// Measures them; takes about a second.
///
/// # Errors
///
/// If the kernel gives no memory.
pub fn measure() -> io::Result<MemoryCosts> {
    let (first_touch, second_touch) = touches()?;
    Ok(MemoryCosts { copy: copy(), first_touch, second_touch, dependent_load: dependent_load() })
}

fn copy() -> f64 {
    const BYTES: usize = 64 << 20;
    let from = vec![1_u8; BYTES];
    let mut to = vec![2_u8; BYTES];
    nanos_each(BYTES, || {
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
    })
}

fn touches() -> io::Result<(f64, f64)> {
    const PAGES: usize = 32 << 10;
    const PAGE: usize = 4096;
    let mut memory = MmapMut::map_anon(PAGES * PAGE)?;
    let mut touch_all = |byte| {
        let taken = seconds(|| {
            for page in memory.chunks_mut(PAGE) {
                page[0] = byte;
            }
            black_box(&mut memory);
        });
        taken * 1e9 / PAGES as f64
    };
    Ok((touch_all(1), touch_all(2)))
}

fn dependent_load() -> f64 {
    const SLOTS: usize = 16 << 20;
    const LOADS: usize = 2 << 20;
    let next = one_cycle(SLOTS);
    let mut at = 0;
    nanos_each(LOADS, || {
        for _ in 0..LOADS {
            at = next[at as usize];
        }
        black_box(at);
    })
}

/// A random permutation of one cycle (Sattolo): following it from any slot visits all.
fn one_cycle(slots: usize) -> Vec<u32> {
    let mut next: Vec<u32> = (0..slots as u32).collect();
    let mut numbers = Numbers::new(7);
    for slot in (1..slots).rev() {
        next.swap(slot, numbers.below(slot as u64) as usize);
    }
    next
}

#[cfg(test)]
mod tests {
    use super::one_cycle;

    #[test]
    fn the_permutation_is_one_cycle() {
        let next = one_cycle(1_000);
        let mut at = 0;
        let mut steps = 0;
        loop {
            at = next[at as usize];
            steps += 1;
            if at == 0 {
                break;
            }
        }
        assert_eq!(steps, 1_000);
    }
}
