//! The bucket alone, on plain numbers: no clock, no thread.

use super::*;

const MB: u64 = 1_000_000;
const QUANTUM: u64 = 100_000;
const CREDIT: u64 = 10_000_000;
const SECOND: u64 = 1_000_000_000;

fn pacer(rate: u64) -> Pacer {
    Pacer::new(rate, QUANTUM, CREDIT, 0)
}

fn wait(pacer: &mut Pacer, bytes: u64, now: u64) -> u64 {
    match pacer.claim(bytes, now) {
        Claimed::Passed => 0,
        Claimed::At(position) => pacer.earned_at(position).unwrap() - now,
    }
}

/// The examples of `pressure` 3.4, from an empty pacer.
#[test]
fn waits_are_exact_from_empty() {
    assert_eq!(wait(&mut pacer(10 * MB), 20 * MB, 0), 2 * SECOND);
    assert_eq!(wait(&mut pacer(16_384), 1 << 20, 0), 64 * SECOND);
    assert_eq!(wait(&mut pacer(8_388_608), 1 << 20, 0), 125_000_000);
    assert_eq!(wait(&mut pacer(16_609_443), 1 << 20, 0), 63_131_317);
    let mut four = pacer(10 * MB);
    assert_eq!([256; 4].map(|bytes| wait(&mut four, bytes, 0)), [0, 0, 0, 102_400]);
}

/// `pressure R13`: nothing waits for 1 to 100 us; one byte more than a quantum is slept in full.
#[test]
fn there_is_no_minimum_but_the_quantum() {
    let mut slow = pacer(MB);
    assert_eq!((wait(&mut slow, 100, 0), slow.balance()), (0, -100));
    assert_eq!(wait(&mut slow, 1, 0), 101_000);
    assert_eq!(wait(&mut pacer(MB), 101, 0), 101_000);
    for bytes in 1..2_000 {
        let wait = wait(&mut pacer(7 * MB), bytes, 0);
        assert!(wait == 0 || wait > QUANTUM, "{bytes} bytes wait {wait} ns");
    }
}

/// `pressure P1`: exactly 100 us is not slept; 256 B again and again sleep every fourth time.
#[test]
fn a_quantum_is_let_pass() {
    let mut edge = pacer(10 * MB);
    assert_eq!((wait(&mut edge, 1_000, 0), wait(&mut edge, 1, 0)), (0, 100_100));

    let mut pacer = pacer(10 * MB);
    let (mut now, mut admitted, mut sleeps) = (0, 0, 0);
    loop {
        let wait = wait(&mut pacer, 256, now);
        now += wait;
        if now > SECOND {
            break;
        }
        admitted += 256;
        sleeps += u64::from(wait > 0);
        assert!(wait == 0 || wait == 102_400, "{wait}");
    }
    // The last sleep that ends within the second ends at 9,765 * 102,400 ns; three more claims pass on the quantum.
    assert_eq!((sleeps, admitted), (9_765, 9_765 * 1_024 + 3 * 256));
}

/// `pressure P8`: many claims, passing and refused in turn, leave exact totals.
#[test]
fn the_books_balance() {
    let mut pacer = pacer(MB);
    let mut state = 7_u64;
    let mut claimed = 0_i128;
    for _ in 0..10_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let bytes = state >> 48;
        if state & 1 == 0 {
            pacer.claim(bytes, 0);
            claimed += i128::from(bytes);
        } else if pacer.try_claim(bytes, 0) {
            claimed += i128::from(bytes);
        }
    }
    assert_eq!(pacer.balance(), -claimed);
}

/// `pressure R12`, the bound: idle time beyond it is cut off and counted; a lower rate cuts deeper.
#[test]
fn credit_is_bounded_and_what_is_cut_off_is_counted() {
    let mut pacer = pacer(MB);
    pacer.accrue(1_000 * SECOND);
    assert_eq!((pacer.balance(), pacer.lost_bytes()), (10_000, 1_000 * MB - 10_000));
    pacer.set(10 * MB, false, 1_000 * SECOND);
    assert_eq!(pacer.balance(), 10_000);
    pacer.accrue(1_000 * SECOND + 9_000_000);
    assert_eq!(pacer.balance(), 100_000);
    pacer.set(MB, false, 1_000 * SECOND + 9_000_000);
    assert_eq!(pacer.balance(), 10_000);
}

/// A stop freezes debt; a claim taken out moves the rest up.
#[test]
fn frozen_books_stand_still() {
    let mut pacer = pacer(MB);
    assert_eq!(wait(&mut pacer, 10 * MB, 0), 10 * SECOND);
    pacer.set(MB, true, 2 * SECOND);
    pacer.accrue(7 * SECOND);
    assert_eq!(pacer.balance(), -8 * i128::from(MB));
    pacer.set(MB, false, 7 * SECOND);
    pacer.withdraw(3 * MB, 8 * SECOND);
    assert_eq!(pacer.balance(), -4 * i128::from(MB));
}

/// The largest numbers do not overflow.
#[test]
fn extremes_do_not_overflow() {
    let mut pacer = pacer(u64::MAX);
    pacer.accrue(u64::MAX);
    pacer.claim(u64::MAX, u64::MAX);
    pacer.set(1, false, u64::MAX);
    let Claimed::At(position) = pacer.claim(u64::MAX, u64::MAX) else { panic!("passed") };
    assert_eq!(pacer.earned_at(position), Some(u64::MAX));
}

/// Who read the clock before another and comes after it does not turn it back.
#[test]
fn a_stale_time_is_overtaken() {
    let mut pacer = pacer(1_000_000);
    assert_eq!(pacer.accrue(5 * SECOND), 5 * SECOND);
    assert_eq!(pacer.accrue(2 * SECOND), 5 * SECOND);
}
