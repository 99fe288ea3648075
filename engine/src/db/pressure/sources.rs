//! What one column family asks of the brake: three requirements, pure functions of its present state.
//!
//! No memory of earlier episodes, no rate, no clock: the same state always asks for the same. Who asks, and when, is
//! `families.rs`; what a requirement does to a writer is the controller's affair.

use sluicedb_controller::{Fraction, Requirement};

use crate::options::ColumnFamilyOptions;

/// What is left of the rate while the last memtable but one fills up: a tenth.
const LAST_MEMTABLE: (u64, u64) = (1, 10);

/// `unflushed` sealed memtables against `max_write_buffer_number`.
pub(in crate::db) fn memtable_count(options: &ColumnFamilyOptions, unflushed: u32) -> Requirement {
    let most = options.max_write_buffer_number;
    let merges = options.min_write_buffer_number_to_merge;
    if unflushed >= most {
        Requirement::Stopped
    } else if most > 3 && unflushed >= most - 1 && unflushed > merges {
        delayed(LAST_MEMTABLE.0, LAST_MEMTABLE.1)
    } else {
        Requirement::Normal
    }
}

/// L0 files on top of one another against the triggers: linear from the first to the stop.
pub(in crate::db) fn l0(options: &ColumnFamilyOptions, depth: u32) -> Requirement {
    let (slowdown, stop) = (options.level0_slowdown_writes_trigger, options.level0_stop_writes_trigger);
    if options.disable_auto_compactions || depth < slowdown.min(stop) {
        Requirement::Normal
    } else if depth >= stop {
        Requirement::Stopped
    } else {
        delayed(u64::from(stop - depth), u64::from(stop - slowdown))
    }
}

/// Bytes that wait for compaction against the limits: linear in 99 steps from the soft to the hard one.
pub(in crate::db) fn pending_bytes(options: &ColumnFamilyOptions, pending: u64) -> Requirement {
    let (soft, hard) =
        (options.soft_pending_compaction_bytes_limit, options.hard_pending_compaction_bytes_limit);
    if options.disable_auto_compactions {
        Requirement::Normal
    } else if hard > 0 && pending >= hard {
        Requirement::Stopped
    } else if soft > 0 && pending >= soft {
        // Without a hard limit the slope is as if it were four times the soft one.
        let span =
            u128::from(if hard > 0 { hard } else { soft.saturating_mul(4) }).saturating_sub(u128::from(soft));
        let past = u128::from(pending - soft) * 100;
        let taken = past.checked_div(span).map_or(99, |taken| taken.min(99)) as u64;
        delayed(100 - taken, 100)
    } else {
        Requirement::Normal
    }
}

/// How near the nearest of the three is to holding writers, in percent: 0 is healthy, 100 is where a delay or, without one,
/// the stop begins. L0 is healthy up to the compaction trigger, one sealed memtable is as well.
pub(in crate::db) fn proximity(
    options: &ColumnFamilyOptions,
    unflushed: u32,
    depth: u32,
    pending: u64,
) -> u32 {
    let most = options.max_write_buffer_number;
    let delayed = (1..most).find(|&count| memtable_count(options, count) != Requirement::Normal);
    let mut nearest = percent(u64::from(unflushed), 1, u64::from(delayed.unwrap_or(most)));
    if !options.disable_auto_compactions {
        let (trigger, slowdown) =
            (options.level0_file_num_compaction_trigger, options.level0_slowdown_writes_trigger);
        nearest = nearest.max(percent(u64::from(depth), u64::from(trigger), u64::from(slowdown)));
        let limits =
            [options.soft_pending_compaction_bytes_limit, options.hard_pending_compaction_bytes_limit];
        if let Some(limit) = limits.into_iter().find(|limit| *limit > 0) {
            nearest = nearest.max(percent(pending, 0, limit));
        }
    }
    nearest
}

/// 0 up to `healthy`, then linear to 100 at `threshold`, and on as a multiple of it.
fn percent(value: u64, healthy: u64, threshold: u64) -> u32 {
    let (part, whole) = if value >= threshold {
        (value, threshold.max(1))
    } else {
        (value.saturating_sub(healthy), threshold.saturating_sub(healthy).max(1))
    };
    u32::try_from(u128::from(part) * 100 / u128::from(whole)).unwrap_or(u32::MAX)
}

fn delayed(part: u64, whole: u64) -> Requirement {
    Fraction::ratio(part, whole).map_or(Requirement::Stopped, Requirement::Delayed)
}

#[cfg(test)]
mod tests {
    use sluicedb_controller::derived_rate;

    use super::*;

    fn rate(ask: Requirement, max: u64) -> Option<u64> {
        match ask {
            Requirement::Delayed(fraction) => Some(derived_rate(fraction, max)),
            _ => None,
        }
    }

    /// pressure F1, pressure F2, pressure F3, as far as one source goes: soft 200 GiB, hard 2,000 GiB, M = 800,000.
    #[test]
    fn pending_bytes_slope() {
        let options = ColumnFamilyOptions {
            soft_pending_compaction_bytes_limit: 200 << 30,
            hard_pending_compaction_bytes_limit: 2000 << 30,
            ..ColumnFamilyOptions::default()
        };
        let at = |gib: u64| pending_bytes(&options, gib << 30);
        for (gib, expected) in [
            (50, None),
            (198, None),
            (200, Some(800_000)),
            (201, Some(800_000)),
            (205, Some(800_000)),
            (390, Some(720_000)),
            (399, Some(712_000)),
            (400, Some(712_000)),
            (450, Some(696_000)),
            (500, Some(672_000)),
            (599, Some(624_000)),
        ] {
            assert_eq!(rate(at(gib), 800_000), expected, "{gib} GiB");
        }
        assert_eq!(at(2001), Requirement::Stopped);
        assert_eq!(at(3001), Requirement::Stopped);
    }

    /// pressure F4 and pressure F5: L0 of 100 and 101 files, slowdown 20, stop 10,000; nothing without automatic compactions.
    #[test]
    fn l0_slope() {
        let mut options =
            ColumnFamilyOptions { level0_stop_writes_trigger: 10_000, ..ColumnFamilyOptions::default() };
        assert_eq!(l0(&options, 19), Requirement::Normal);
        assert_eq!(rate(l0(&options, 20), 800_000), Some(800_000));
        assert_eq!(rate(l0(&options, 100), 800_000), Some(793_587));
        assert_eq!(rate(l0(&options, 101), 800_000), Some(793_507));
        assert_eq!(l0(&options, 10_000), Requirement::Stopped);
        options.disable_auto_compactions = true;
        assert_eq!(l0(&options, 10_000), Requirement::Normal);
        assert_eq!(pending_bytes(&options, u64::MAX), Requirement::Normal);
        options.disable_auto_compactions = false;
        options.level0_slowdown_writes_trigger = 10_000;
        assert_eq!(l0(&options, 9_999), Requirement::Normal);
        assert_eq!(l0(&options, 10_000), Requirement::Stopped);
    }

    /// The warning before a stall: healthy at 0, 100 exactly where each source begins to hold writers.
    #[test]
    fn proximity_is_100_where_holding_begins() {
        let mut options =
            ColumnFamilyOptions { max_write_buffer_number: 4, ..ColumnFamilyOptions::default() };
        assert_eq!(proximity(&options, 1, 4, 0), 0);
        assert_eq!((proximity(&options, 0, 12, 0), proximity(&options, 0, 19, 0)), (50, 93));
        assert_eq!((proximity(&options, 0, 20, 0), proximity(&options, 0, 30, 0)), (100, 150));
        assert_eq!((proximity(&options, 2, 0, 0), proximity(&options, 3, 0, 0)), (50, 100));
        assert_eq!((proximity(&options, 0, 0, 16 << 30), proximity(&options, 0, 0, 64 << 30)), (25, 100));
        options.max_write_buffer_number = 2;
        assert_eq!((proximity(&options, 1, 0, 0), proximity(&options, 2, 0, 0)), (0, 100));
        options.disable_auto_compactions = true;
        assert_eq!(proximity(&options, 0, 1_000, u64::MAX), 0);
        assert_eq!((percent(3, 3, 3), percent(2, 3, 3), percent(u64::MAX, 0, 1)), (100, 0, u32::MAX));
    }

    /// pressure F10: the fourth of four memtables is entered at a tenth of the rate, and not below 16 KiB/s.
    #[test]
    fn the_last_memtable_is_entered_slowly() {
        let mut options =
            ColumnFamilyOptions { max_write_buffer_number: 4, ..ColumnFamilyOptions::default() };
        assert_eq!(memtable_count(&options, 2), Requirement::Normal);
        assert_eq!(rate(memtable_count(&options, 3), 20_000), Some(16_384));
        assert_eq!(rate(memtable_count(&options, 3), 1_000_000), Some(100_000));
        assert_eq!(memtable_count(&options, 4), Requirement::Stopped);
        options.max_write_buffer_number = 2;
        assert_eq!(memtable_count(&options, 1), Requirement::Normal);
        assert_eq!(memtable_count(&options, 2), Requirement::Stopped);
    }
}
