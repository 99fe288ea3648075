//! From a fraction and a maximum to bytes per second: one of the two homes of the law.
//!
//! [`Fraction`] is what a source leaves of the maximum rate, in parts per million; [`derived_rate`] turns it into a
//! rate with a floor of [`MIN_RATE`]. Integers only. Clocks and callers are not known here.

use std::fmt;
use std::num::NonZeroU32;

use crate::DelayStep;

/// No fraction of a larger maximum goes below this: 16 KiB/s.
pub const MIN_RATE: u64 = 16 << 10;

/// The maximum rate where none is given: 16 MiB/s.
pub const DEFAULT_MAX_RATE: u64 = 16 << 20;

/// What is left of the maximum rate, in parts per million: 1..=1,000,000.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fraction(NonZeroU32);

impl Fraction {
    /// The whole maximum.
    pub const ONE: Self = match Self::from_ppm(1_000_000) {
        Some(one) => one,
        None => unreachable!(),
    };

    /// `ppm` parts per million; `None` for 0 and above 1,000,000.
    pub const fn from_ppm(ppm: u32) -> Option<Self> {
        match NonZeroU32::new(ppm) {
            Some(ppm) if ppm.get() <= 1_000_000 => Some(Self(ppm)),
            _ => None,
        }
    }

    /// `part / whole`, rounded to the nearest part per million and at least one; `None` for 0 and above 1.
    pub const fn ratio(part: u64, whole: u64) -> Option<Self> {
        if part == 0 || part > whole {
            return None;
        }
        let whole = whole as u128;
        let ppm = (part as u128 * 1_000_000 + whole / 2) / whole;
        Self::from_ppm(if ppm == 0 { 1 } else { ppm as u32 })
    }

    /// Parts per million.
    pub const fn ppm(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Debug for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ppm", self.0)
    }
}

impl From<DelayStep> for Fraction {
    /// Step s leaves (100 - s) percent.
    fn from(step: DelayStep) -> Self {
        Self::ratio(100 - u64::from(step.get()), 100).unwrap_or(Self::ONE)
    }
}

/// Bytes per second that `fraction` of `max_rate` means. A maximum below [`MIN_RATE`] is left alone.
///
/// ```
/// # use sluicedb_controller::{derived_rate, DelayStep};
/// let step = DelayStep::new(66).unwrap();
/// assert_eq!(derived_rate(step.into(), 16 << 20), 5_704_253);
/// assert_eq!(derived_rate(step.into(), 10_000), 10_000);
/// ```
pub const fn derived_rate(fraction: Fraction, max_rate: u64) -> u64 {
    if max_rate < MIN_RATE {
        return max_rate;
    }
    let rate = (max_rate as u128 * fraction.ppm() as u128 / 1_000_000) as u64;
    if rate < MIN_RATE { MIN_RATE } else { rate }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_step(step: u8, max_rate: u64) -> u64 {
        derived_rate(DelayStep::new(step).unwrap().into(), max_rate)
    }

    /// `pressure C6`, the rate columns: every row of the table.
    #[test]
    fn the_table_of_rates() {
        let table = [
            (1, 16_609_443, 990_000),
            (2, 16_441_671, 980_000),
            (3, 16_273_899, 970_000),
            (5, 15_938_355, 950_000),
            (10, 15_099_494, 900_000),
            (16, 14_092_861, 840_000),
            (25, 12_582_912, 750_000),
            (33, 11_240_734, 670_000),
            (50, 8_388_608, 500_000),
            (66, 5_704_253, 340_000),
            (75, 4_194_304, 250_000),
            (83, 2_852_126, 170_000),
            (90, 1_677_721, 100_000),
            (95, 838_860, 50_000),
            (96, 671_088, 40_000),
            (98, 335_544, 20_000),
            (99, 167_772, 16_384),
        ];
        for (step, of_16_mib, of_a_million) in table {
            assert_eq!(
                (at_step(step, 16_777_216), at_step(step, 1_000_000)),
                (of_16_mib, of_a_million),
                "{step}"
            );
        }
    }

    /// `pressure C10`: the floor, and maxima at and below it.
    #[test]
    fn the_floor_leaves_small_maxima_alone() {
        assert!((1..=99).all(|step| at_step(step, 10_000) == 10_000 && at_step(step, 16_384) == 16_384));
        assert_eq!((at_step(10, 20_000), at_step(50, 20_000)), (18_000, 16_384));
        assert_eq!(at_step(99, 1), 1);
        assert_eq!(at_step(1, u64::MAX), (u128::from(u64::MAX) * 99 / 100) as u64);
    }

    /// `pressure S6`: rounding, the least fraction, the largest terms, and what cannot be made.
    #[test]
    fn ratios_round_to_the_nearest() {
        let ppm = |part, whole| Fraction::ratio(part, whole).map(Fraction::ppm);
        assert_eq!(ppm(9_899, 9_980), Some(991_884));
        assert_eq!(ppm(99, 100), Some(990_000));
        assert_eq!((ppm(1, 3), ppm(2, 3)), (Some(333_333), Some(666_667)));
        assert_eq!(ppm(1, 3_000_000), Some(1));
        assert_eq!((ppm(u64::MAX, u64::MAX), ppm(u64::MAX / 2, u64::MAX)), (Some(1_000_000), Some(500_000)));
        assert_eq!((ppm(0, 5), ppm(6, 5), ppm(0, 0)), (None, None, None));
        assert_eq!((Fraction::from_ppm(0), Fraction::from_ppm(1_000_001)), (None, None));
    }
}
