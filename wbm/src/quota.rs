//! [`Quota`]: the law `bytes -> pressure`, pure and in integers; one of its two homes.
//!
//! ```text
//!   usage   0 %              70 %                                  100 %
//!           |--- Normal -----|--- Delayed(1) ... Delayed(99) ------|--- Stopped
//! ```
//!
//! The other home, step to rate, is [`derived_rate`](sluicedb_controller::derived_rate). Atomics and threads are not
//! known here.

use sluicedb_controller::{DelayStep, InvalidOption, Pressure};

/// A quota and where the delay begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    bytes: u64,
    percent: u32,
}

/// Where the published pressure stops being true: usage must be in the first range and load in the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edges {
    pub(crate) used: (u64, u64),
    pub(crate) load: (u64, u64),
}

/// From 0 to beyond every number of bytes.
const ALL: (u64, u64) = (0, u64::MAX);

impl Quota {
    /// A quota of `bytes` (0 = off) whose delay starts at `delay_start_percent` of it, 1 to 99.
    ///
    /// # Errors
    ///
    /// [`InvalidOption`] for a percentage outside its range.
    pub fn new(bytes: u64, delay_start_percent: u32) -> Result<Self, InvalidOption> {
        if !(1..=99).contains(&delay_start_percent) {
            let given = delay_start_percent.to_string();
            return Err(InvalidOption { name: "delay_start_percent", range: "1 to 99", given });
        }
        Ok(Self { bytes, percent: delay_start_percent })
    }

    /// The quota, in bytes; 0 = off.
    pub const fn bytes(self) -> u64 {
        self.bytes
    }

    /// Where the delay starts, in percent.
    pub const fn delay_start_percent(self) -> u32 {
        self.percent
    }

    /// Where the delay starts, in bytes: T = Q*P/100.
    pub const fn delay_start(self) -> u64 {
        (self.bytes as u128 * self.percent as u128 / 100) as u64
    }

    /// The pressure of `used` bytes.
    ///
    /// ```
    /// # use sluicedb_wbm::{DelayStep, Pressure, Quota};
    /// let quota = Quota::new(1_000, 70).unwrap();
    /// assert_eq!(quota.pressure_at(699), Pressure::Normal);
    /// assert_eq!(quota.pressure_at(750), Pressure::Delayed(DelayStep::new(16).unwrap()));
    /// assert_eq!(quota.pressure_at(1_000), Pressure::Stopped);
    /// ```
    pub const fn pressure_at(self, used: u64) -> Pressure {
        self.pressure(used, used)
    }

    /// The pressure of `used` bytes that a flush can free, when the step is to follow `load` instead: usage plus what
    /// waits for commit, less what running flushes have written. Only `used` can stop.
    pub const fn pressure(self, used: u64, load: u64) -> Pressure {
        let start = self.delay_start();
        if self.bytes == 0 {
            Pressure::Normal
        } else if used >= self.bytes {
            Pressure::Stopped
        } else if load == 0 || load < start {
            Pressure::Normal
        } else {
            let (above, span) = ((load - start) as u128, (self.bytes - start) as u128);
            let step = above * 100 / span;
            Pressure::Delayed(DelayStep::clamped(if step > 99 { 99 } else { step as u64 }))
        }
    }

    /// The least load of step `step` or above, for a step of 1..=100.
    const fn first_load_of(self, step: u8) -> u64 {
        let start = self.delay_start();
        if step <= 1 {
            return if start == 0 { 1 } else { start };
        }
        let above = (step as u128 * (self.bytes - start) as u128).div_ceil(100);
        start + above as u64
    }

    /// In which ranges of usage and load `pressure`, computed by [`pressure`](Self::pressure), stays true.
    pub(crate) fn edges_of(self, pressure: Pressure) -> Edges {
        let used = (0, self.bytes);
        match pressure {
            _ if self.bytes == 0 => Edges { used: ALL, load: ALL },
            Pressure::Stopped => Edges { used: (self.bytes, u64::MAX), load: ALL },
            Pressure::Normal => Edges { used, load: (0, self.first_load_of(1)) },
            Pressure::Delayed(DelayStep::MAX) => Edges { used, load: (self.first_load_of(99), u64::MAX) },
            Pressure::Delayed(step) => {
                Edges { used, load: (self.first_load_of(step.get()), self.first_load_of(step.get() + 1)) }
            }
        }
    }

    /// Whether a flush is wanted where flushes are not asked for ahead of time: more than 7/8 of the quota is mutable,
    /// or the quota is reached and half of it is mutable. Both without the bytes of flushes on their way.
    pub const fn flush_wanted(self, mutable: u64, used: u64) -> bool {
        self.bytes != 0
            && (mutable > self.mutable_limit() || (used >= self.bytes && mutable >= self.bytes / 2))
    }

    /// 7/8 of the quota.
    pub(crate) const fn mutable_limit(self) -> u64 {
        (self.bytes as u128 * 7 / 8) as u64
    }

    /// What an arena-backed memtable takes and charges at once: the largest power of two of at most (Q-T)/200, within
    /// 4 KiB to 256 KiB, so that one unit moves the step by at most 1.
    pub const fn charge_unit(self) -> u64 {
        let most = (self.bytes - self.delay_start()) / 200;
        if most < 4 << 10 {
            4 << 10
        } else if most >= 256 << 10 {
            256 << 10
        } else {
            1 << most.ilog2()
        }
    }

    /// The edges while writers are never held.
    pub(crate) const fn no_edges() -> Edges {
        Edges { used: ALL, load: ALL }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
