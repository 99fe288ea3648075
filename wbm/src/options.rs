//! [`WbmOptions`]: the settings of one manager, and their ranges.
//!
//! Settings are values; the cache that memtables are charged to, the clock and the sinks are handed in separately.

pub use sluicedb_controller::InvalidOption;

use crate::Quota;

/// Settings of a [`WriteBufferManager`](crate::WriteBufferManager).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WbmOptions {
    /// The limit of the bytes that a flush can free, over all databases of the manager.
    ///
    /// Unit: bytes. Default: none, it must be said. 0 = off: counts, and neither delays, stops nor asks for flushes.
    /// Changeable live: yes. More: larger L0 files and a later delay, but a longer replay after a crash.
    pub quota_bytes: u64,
    /// Whether writers are delayed from the delay start on and stopped at the quota.
    ///
    /// Default: true. Changeable live: yes. False: neither; the quota only triggers flushes and is soft.
    pub allow_stall: bool,
    /// Share of the quota at which the delay begins.
    ///
    /// Unit: percent. Default: 70. Range: 1 to 99. Changeable live: yes. More: full speed for longer, then a steeper
    /// brake.
    pub delay_start_percent: u32,
    /// Whether flushes are asked for before the delay begins.
    ///
    /// Default: true. Changeable live: no. False: only when mutable memtables fill the quota.
    pub initiate_flushes: bool,
    /// Flushes wanted at once, over all databases, whoever asked for them.
    ///
    /// Unit: flushes. Default: 4. Range: 1 to 64. Changeable live: no. More: earlier, smaller flushes.
    pub max_parallel_flushes: u32,
    /// Whether the delay step is computed without the bytes that running flushes have written already.
    ///
    /// Default: false. Changeable live: no. The stop is computed from all bytes in any case.
    pub flush_progress_credit: bool,
}

impl WbmOptions {
    /// The defaults with a quota, in bytes.
    pub const fn new(quota_bytes: u64) -> Self {
        Self {
            quota_bytes,
            allow_stall: true,
            delay_start_percent: 70,
            initiate_flushes: true,
            max_parallel_flushes: 4,
            flush_progress_credit: false,
        }
    }

    /// Checks every range above; the error names the first option outside its range. Changes nothing.
    ///
    /// # Errors
    ///
    /// [`InvalidOption`] as said.
    pub fn validate(&self) -> Result<(), InvalidOption> {
        Quota::new(self.quota_bytes, self.delay_start_percent)?;
        if !(1..=64).contains(&self.max_parallel_flushes) {
            let given = self.max_parallel_flushes.to_string();
            return Err(InvalidOption { name: "max_parallel_flushes", range: "1 to 64", given });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `pressure O1`, `pressure O2`, `pressure G10`, the manager's part: defaults; range ends accepted, one beyond refused by name.
    #[test]
    fn ranges_hold_at_their_ends() {
        let defaults = WbmOptions::new(1);
        assert_eq!(defaults.validate(), Ok(()));
        assert!(defaults.allow_stall && defaults.initiate_flushes && !defaults.flush_progress_credit);
        assert_eq!((defaults.delay_start_percent, defaults.max_parallel_flushes), (70, 4));

        let flushes = |n| WbmOptions { max_parallel_flushes: n, ..defaults }.validate().map_err(|e| e.name);
        assert_eq!((flushes(1), flushes(64)), (Ok(()), Ok(())));
        assert_eq!((flushes(0), flushes(65)), (Err("max_parallel_flushes"), Err("max_parallel_flushes")));
    }

    /// `pressure C8`, the ranges: 0, 100, 150 and 65,535 are refused with the option named.
    #[test]
    fn a_percentage_outside_1_to_99_is_refused() {
        for percent in [0, 100, 150, 65_535] {
            let options = WbmOptions { delay_start_percent: percent, ..WbmOptions::new(1_000) };
            let refused = options.validate().unwrap_err();
            assert_eq!(
                refused.to_string(),
                format!("invalid option delay_start_percent: {percent} is outside 1 to 99")
            );
        }
        for percent in [1, 99] {
            assert_eq!(
                WbmOptions { delay_start_percent: percent, ..WbmOptions::new(1_000) }.validate(),
                Ok(())
            );
        }
    }
}
