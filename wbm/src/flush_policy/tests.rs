//! Thresholds and ranks on plain numbers.

use super::*;

fn policy(bytes: u64, percent: u32, parallel: u64) -> FlushPolicy {
    FlushPolicy { quota: Quota::new(bytes, percent).unwrap(), initiate: true, parallel }
}

fn thresholds(policy: &FlushPolicy) -> Vec<u64> {
    (0..policy.parallel).map(|pending| policy.threshold(pending)).collect()
}

/// The numbers of `pressure` section 5, and `W3`: the first flush starts before the delay for every N and P.
#[test]
fn thresholds_of_the_page() {
    let four = policy(10_000, 70, 4);
    assert_eq!(thresholds(&four), [2_000, 4_000, 6_000, 8_000]);
    assert_eq!((four.min_size(), four.step() / 2), (1_250, 1_000));
    let three = policy(10_000, 70, 3);
    assert_eq!(thresholds(&three), [2_666, 5_332, 7_998]);
    assert_eq!((three.min_size(), three.step() / 2), (1_666, 1_333));
    let large = policy(1 << 30, 70, 4);
    assert_eq!(thresholds(&large), [214_748_364, 429_496_728, 644_245_092, 858_993_456]);
    assert_eq!(large.min_size(), 64 << 20);
    assert_eq!((policy(1_000, 70, 1).threshold(0), policy(1_000, 10, 4).threshold(0)), (613, 88));
}

/// The edge is where charges alone first make a flush wanted.
///
/// Method: all usages of a small quota, both rules, some flights; the edge is compared with a scan.
#[test]
fn the_edge_is_the_first_usage_that_wants() {
    for initiate in [true, false] {
        for parallel in [1, 3, 4] {
            let policy = FlushPolicy { initiate, ..policy(1_000, 70, parallel) };
            for flushes in 0..=parallel {
                for (planned, planned_mutable) in [(0, 0), (100, 0), (300, 300), (700, 200)] {
                    for immutable in [planned - planned_mutable, 400 + planned - planned_mutable] {
                        check_edge(&policy, InFlight { flushes, planned, planned_mutable }, immutable);
                    }
                }
            }
        }
    }
}

fn check_edge(policy: &FlushPolicy, flight: InFlight, immutable: u64) {
    let wants = |used: u64| policy.wants(flight, used - immutable, used);
    let first = (immutable..4_000).find(|used| wants(*used));
    for used in immutable..first.unwrap_or(4_000) {
        let edge = policy.next_edge(flight, used - immutable, used);
        let expected = if flight.flushes >= policy.parallel { None } else { first };
        match expected {
            Some(first) => {
                assert!(used < edge && edge <= first, "{policy:?} {flight:?} at {used}: {edge}, {first}")
            }
            None => assert_eq!(edge, u64::MAX, "{policy:?} {flight:?} at {used}"),
        }
        if edge < 4_000 {
            assert!(policy.initiate || edge <= used + 1_000, "{edge}");
            assert!(!policy.initiate || wants(edge), "{policy:?} {flight:?} at {used}: {edge}");
        }
    }
}

/// Most bytes first, oldest among equals, the unknown age last.
#[test]
fn the_largest_comes_first() {
    let target = |bytes, oldest| Reclaimable { bytes, oldest, ..Reclaimable::default() };
    let mut targets = [target(30, Some(5)), target(10, Some(1)), target(30, None), target(30, Some(3))];
    targets.sort_by_key(rank);
    assert_eq!(
        targets.map(|t| (t.bytes, t.oldest)),
        [(30, Some(3)), (30, Some(5)), (30, None), (10, Some(1))]
    );
}
