//! Targets, scores, debt and pressure, as numbers of small versions.

use super::*;
use crate::compaction::stub::version_of;

fn options(dynamic: bool, base: u64) -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        max_bytes_for_level_base: base,
        level_compaction_dynamic_level_bytes: dynamic,
        ..ColumnFamilyOptions::default()
    }
}

/// Base level and targets as text, such as `base L5: 100 250`.
fn targets(levels: usize, options: &ColumnFamilyOptions, version: &str) -> String {
    let targets = LevelTargets::new(&version_of(levels, version), options);
    let bytes: Vec<_> =
        (targets.base_level()..levels).map(|level| targets.bytes(level).to_string()).collect();
    format!("base L{}: {}", targets.base_level(), bytes.join(" "))
}

/// Fixed targets grow by the multiplier from L1 on, whatever there is.
#[test]
fn fixed_targets_start_at_l1() {
    assert_eq!(targets(4, &options(false, 100), "L3 1[a-b]*9999"), "base L1: 100 1000 10000");
}

/// Dynamic targets follow from the largest level upwards; no target is below the base size.
#[test]
fn dynamic_targets_follow_the_largest_level() {
    let base_of = |version| targets(7, &options(true, 100), version);
    assert_eq!(base_of("L0 1[a-b]*500"), format!("base L6: {}", u64::MAX));
    assert_eq!(base_of("L6 1[a-b]*100"), "base L6: 100");
    assert_eq!(base_of("L6 1[a-b]*101"), "base L5: 100 100");
    assert_eq!(base_of("L6 1[a-b]*250"), "base L5: 100 250");
    assert_eq!(base_of("L6 1[a-b]*100000"), "base L3: 100 1000 10000 100000");
    // Used levels keep a target even when the last one has shrunk.
    assert_eq!(base_of("L4 1[a-b]*50 | L6 2[a-b]*200"), "base L4: 100 100 1000");
    // More data than the levels can hold within the base size: targets are cut there.
    assert_eq!(targets(2, &options(true, 100), "L1 1[a-b]*5000"), "base L1: 100");
}

/// The depth of L0 is the most files that share a key; touching at one key is sharing.
#[test]
fn l0_depth_counts_overlap() {
    let depth_of = |version| l0_depth(&version_of(3, version));
    assert_eq!(depth_of(""), 0);
    assert_eq!(depth_of("L0 1[a-b]"), 1);
    assert_eq!(depth_of("L0 4[g-h] 3[e-f] 2[c-d] 1[a-b]"), 1);
    assert_eq!(depth_of("L0 3[c-e] 2[b-c] 1[a-b]"), 2);
    assert_eq!(depth_of("L0 4[c-c] 3[a-z] 2[b-d] 1[a-c]"), 4);
    assert_eq!(depth_of("L0 4[a-z]! 3[a-z]! 2[b-d] 1[a-c]"), 4);
}

/// Depth equals a count at every boundary key, on random files.
#[test]
fn l0_depth_equals_a_count_per_key() {
    let mut rng = crate::iter::stub::Rng(5);
    for _ in 0..300 {
        let mut ranges = Vec::new();
        let mut text = String::from("L0");
        for number in 0..rng.below(9) {
            let from = b'a' + rng.below(20) as u8;
            let to = from + rng.below(6) as u8;
            ranges.push((from, to));
            text += &format!(" {}[{}-{}]", number + 1, from as char, to as char);
        }
        let at = |key: u8| ranges.iter().filter(|&&(from, to)| from <= key && key <= to).count();
        let most = (b'a'..=b'z').map(at).max().unwrap();
        assert_eq!(l0_depth(&version_of(2, &text)), most as u32, "{text}");
    }
}

/// A level is due at its target, L0 at its trigger by depth, or by bytes, or by very many files; files being
/// compacted do not count.
#[test]
fn scores_say_what_is_due() {
    let score = |version| Score::new(&version_of(4, version), &options(false, 1000));
    let of = |version, level| score(version).of_level(level);
    assert_eq!(of("L0 2[a-c] 1[b-d]", 0), 0.5);
    assert_eq!(of("L0 4[a-c] 3[b-d] 2[c-e] 1[c-f]", 0), 1.0);
    assert_eq!(of("L0 4[a-c]! 3[b-d] 2[c-e] 1[c-f]", 0), 0.75);
    assert_eq!(of("L0 2[a-b]*1500 1[c-d]*500", 0), 2.0);
    assert_eq!(of("L0 4[a-b] 3[c-d] 2[e-f] 1[g-h]", 0), 0.4);
    assert_eq!(of("L1 1[a-b]*700 2[c-d]*800", 1), 1.5);
    assert_eq!(of("L1 1[a-b]*700! 2[c-d]*800", 1), 0.8);
    assert_eq!(of("L2 1[a-b]*20000", 2), 2.0);
    assert_eq!(of("L3 1[a-b]*9000000", 3), 0.0);
    assert_eq!(
        score("L0 4[a-c] 3[b-d] 2[c-e] 1[c-f] | L1 1[a-b]*2500 | L2 2[a-b]*10000").due_levels(),
        [2, 1, 0] // urgencies 1, 2.5, 1 at costs of 1 + 25/4, 1 + 4, 1
    );
    assert!(!score("L0 2[a-c] 1[b-d] | L1 1[a-b]*999").is_due());
}

/// Sixteen files side by side are due as well (four times the trigger).
#[test]
fn very_many_disjoint_files_are_due() {
    let text: Vec<_> = (0..16u8).map(|n| format!("{0}[{1}-{1}]*1", 20 - n, (b'a' + n) as char)).collect();
    let version = version_of(2, &format!("L0 {}", text.join(" ")));
    assert_eq!(Score::new(&version, &options(false, 1000)).of_level(0), 1.0);
}

/// The debt of `pressure` 3.2, with the numbers of `pressure F12`: (90-50)*(1+360/90) = 200.
#[test]
fn debt_is_excess_times_fan_out() {
    let debt = |version| Score::new(&version_of(7, version), &options(false, 50_000)).pending_bytes();
    assert_eq!(debt("L1 1[a-m]*40000 2[n-z]*50000 | L2 3[a-z]*360000"), 200_000);
    assert_eq!(debt("L1 1[a-m]*40000 | L2 3[a-z]*360000"), 0);
    assert_eq!(debt("L1 1[a-m]*60000"), 10_000);
    // Levels add up: 10,000 * (1 + 10) and 100,000 * 1.
    assert_eq!(debt("L1 1[a-m]*60000 | L2 3[a-z]*600000"), 10_000 * 11 + 100_000);
    // L0 has no target: nothing before it is due, then all of it and what it meets.
    assert_eq!(debt("L0 3[a-z] 2[a-z] 1[a-z] | L1 7[a-z]*700"), 0);
    assert_eq!(debt("L0 4[a-z] 3[a-z] 2[a-z] 1[a-z] | L1 7[a-z]*700"), 400 + 700);
    assert_eq!(debt("L0 1[a-z]*50000"), 50_000);
    // The last level owes nothing.
    assert_eq!(debt("L6 1[a-m]*999999999999999"), 0);
}

/// `pressure F8`: trigger 4, slowdown 36 or 16, soft limit 200.
#[test]
fn compaction_pressure_speeds_up() {
    let under_pressure = |l0_depth, pending_bytes, slowdown, soft| {
        let options = ColumnFamilyOptions {
            level0_slowdown_writes_trigger: slowdown,
            soft_pending_compaction_bytes_limit: soft,
            ..ColumnFamilyOptions::default()
        };
        let calm = Score::new(&version_of(7, ""), &options);
        Score { l0_depth, pending_bytes, ..calm }.compaction_pressure(&options)
    };
    for (pending, expected) in [(40, false), (50, true), (300, true), (45, false)] {
        assert_eq!(under_pressure(0, pending, 36, 200), expected, "pending {pending}");
    }
    for (l0, expected) in [(7, false), (9, true), (6, false), (8, true)] {
        assert_eq!(under_pressure(l0, 0, 36, 200), expected, "L0 {l0}");
    }
    for (l0, expected) in [(5, false), (7, true), (3, false)] {
        assert_eq!(under_pressure(l0, 0, 16, 200), expected, "L0 {l0}");
    }
    assert!(under_pressure(0, 0, 36, 0), "without a soft limit: always");
}
