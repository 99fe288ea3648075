//! The law on plain numbers.

use super::*;

fn quota(bytes: u64, percent: u32) -> Quota {
    Quota::new(bytes, percent).unwrap()
}

fn step(quota: Quota, used: u64) -> u8 {
    quota.pressure_at(used).step()
}

/// `pressure C6`: every row of the table of 2.2, and the traps of floating point.
#[test]
fn the_table_of_steps() {
    let q = quota(1_000, 70);
    let rows = [
        (0, 0),
        (500, 0),
        (699, 0),
        (700, 1),
        (702, 1),
        (705, 1),
        (706, 2),
        (709, 3),
        (715, 5),
        (730, 10),
        (750, 16),
        (775, 25),
        (787, 29),
        (800, 33),
        (850, 50),
        (871, 57),
        (874, 58),
        (900, 66),
        (925, 75),
        (950, 83),
        (970, 90),
        (985, 95),
        (990, 96),
        (996, 98),
        (997, 99),
        (998, 99),
        (999, 99),
    ];
    for (used, expected) in rows {
        assert_eq!(q.pressure_at(used).code(), expected, "{used}");
    }
    for used in [1_000, 1_001, u64::MAX] {
        assert_eq!(q.pressure_at(used), Pressure::Stopped);
    }
    assert_eq!(quota(100, 29).delay_start(), 29);
}

/// `pressure C3`, `pressure C5`, the law's part: quota 10,000, a slice of 30 bytes.
#[test]
fn slices_of_a_larger_quota() {
    let q = quota(10_000, 70);
    let rows = [(6_999, 0), (7_000, 1), (7_029, 1), (7_030, 1), (7_059, 1), (7_060, 2)];
    for (used, expected) in rows.into_iter().chain([(9_969, 98), (9_970, 99), (9_999, 99)]) {
        assert_eq!(step(q, used), expected, "{used}");
    }
}

/// The 99 steps tile the span from the delay start to the quota: no gap, no overlap. `pressure C7`.
///
/// Method: a quota small enough to try every byte; the step may stay or rise by one.
#[test]
fn steps_tile_the_delay_span() {
    let q = quota(1_000, 70);
    let mut last = 0;
    for used in 700..1_000 {
        let step = step(q, used);
        assert!(step == last || step == last + 1, "{used} bytes: {last} to {step}");
        last = step;
    }
    assert_eq!(last, DelayStep::MAX.get());
}

/// `pressure C8`: late and early starts of the delay.
#[test]
fn other_percentages() {
    let late = quota(1_000, 99);
    assert_eq!(late.delay_start(), 990);
    let steps: Vec<u8> = (990..1_000).map(|used| step(late, used)).collect();
    assert_eq!(steps, [1, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
    let early = quota(1_000, 1);
    assert_eq!((early.pressure_at(9), step(early, 10)), (Pressure::Normal, 1));
}

/// `pressure C9`: ranges below 100 bytes, down to a quota of 1; quota 0 is off.
#[test]
fn tiny_quotas() {
    let q = quota(100, 70);
    assert_eq!([69, 70, 85, 99].map(|used| step(q, used)), [0, 1, 50, 96]);
    let one = quota(1, 70);
    assert_eq!((one.pressure_at(0), one.pressure_at(1)), (Pressure::Normal, Pressure::Stopped));
    assert_eq!(quota(0, 70).pressure_at(u64::MAX), Pressure::Normal);
    // 40 KiB and 1 GiB, the numbers under the table.
    let q = quota(40_960, 70);
    assert_eq!([28_672, 34_816, 38_912, 40_959].map(|used| step(q, used)), [1, 50, 83, 99]);
    assert_eq!(q.pressure_at(40_960), Pressure::Stopped);
    let q = quota(1 << 30, 70);
    assert_eq!(q.delay_start(), 751_619_276);
    assert_eq!(
        [751_619_276, 912_680_550, 812_646_400, (1 << 30) - 1].map(|used| step(q, used)),
        [1, 50, 18, 99]
    );
}

/// `pressure S7`, the law's part: queued bytes move the step and never stop.
#[test]
fn load_moves_the_step_and_usage_stops() {
    let q = quota(1_000, 70);
    assert_eq!(q.pressure(650, 750).step(), 16);
    assert_eq!(q.pressure(950, 1_050).step(), 99);
    assert_eq!(q.pressure(0, 800).step(), 33);
    assert_eq!(q.pressure(1_000, 0), Pressure::Stopped);
}

/// The ranges in which a pressure is said to stay true are exactly those in which it does.
///
/// Method: every usage and every load of small quotas, and seeded large ones near their edges.
#[test]
fn edges_are_where_the_pressure_changes() {
    let holds = |q: Quota, used: u64, load: u64, pressure| {
        let edges = q.edges_of(pressure);
        let within = |(from, to): (u64, u64), at| from <= at && at < to;
        within(edges.used, used) && within(edges.load, load)
    };
    for (bytes, percent) in [(1, 70), (2, 50), (7, 99), (30, 1), (100, 70), (137, 33), (299, 99)] {
        let q = quota(bytes, percent);
        for used in 0..bytes + 3 {
            for load in (0..bytes + 5).step_by(1 + bytes as usize / 40) {
                let now = q.pressure(used, load);
                for code in 0..=100 {
                    let other = Pressure::from_code(code).unwrap();
                    let claimed = holds(q, used, load, other);
                    if other == now || other != Pressure::Stopped || used < bytes {
                        assert!(
                            !claimed || other == now || q.edges_of(other).load.0 >= q.edges_of(other).load.1,
                            "{bytes}/{percent}: {used}, {load} is {now:?}, {other:?} claims it"
                        );
                    }
                    assert!(
                        claimed || other != now,
                        "{bytes}/{percent}: {used}, {load} is {now:?}, unclaimed"
                    );
                }
            }
        }
    }
    let q = quota(u64::MAX - 1, 70);
    for used in [0, q.delay_start() - 1, q.delay_start(), q.delay_start() + (1 << 60), u64::MAX - 2] {
        assert!(holds(q, used, used, q.pressure_at(used)), "{used}");
    }
}

/// pressure A1, pressure A2, pressure A3, pressure A4, pressure A5, pressure A6, pressure A7, pressure A8, pressure A9, pressure A10, pressure A11, the rule alone, in MiB.
#[test]
fn flush_wanted_by_the_rule() {
    let mib = |n: u64| n << 20;
    let ten = |mutable, used| quota(mib(10), 70).flush_wanted(mib(mutable), mib(used));
    assert_eq!([ten(8, 8), ten(9, 9), ten(8, 9), ten(10, 11)], [false, true, false, true]);
    assert_eq!([ten(6, 11), ten(4, 11), ten(8, 15), ten(8, 8)], [true, false, true, false]);
    let eight = |mutable, used| quota(mib(8), 70).flush_wanted(mib(mutable), mib(used));
    assert_eq!([eight(8, 8), eight(6, 8), eight(6, 6), eight(7, 7)], [true, true, false, false]);
    assert!(!quota(0, 70).flush_wanted(u64::MAX, u64::MAX));
}

/// `pressure M8`: the charge unit, and that one unit moves the step by at most 1.
#[test]
fn a_charge_unit_is_at_most_half_a_step() {
    let unit = |bytes| quota(bytes, 70).charge_unit();
    assert_eq!(
        [40 << 10, 8 << 20, 64 << 20, 256 << 20, 1 << 30].map(unit),
        [4_096, 8_192, 65_536, 262_144, 262_144]
    );
    for bytes in [8 << 20, 64 << 20, 256 << 20] {
        let (q, unit) = (quota(bytes, 70), unit(bytes));
        let mut used = 0;
        while used + unit < bytes {
            assert!(step(q, used + unit) <= step(q, used) + 1, "{bytes}: at {used}");
            used += unit / 3;
        }
    }
}
