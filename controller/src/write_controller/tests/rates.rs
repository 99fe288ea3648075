//! `pressure R` and `pressure S`: rates of sources, and what a claim then waits.

use super::*;
use crate::MIN_RATE;

/// pressure R1, pressure R2, pressure R3, pressure R4, pressure R5, pressure R6, pressure R7, one after the other; the clock advances by each wait.
#[test]
fn the_strictest_source_sets_the_rate() {
    let mut rig = Rig::new(40 * MB);
    // R1
    assert_eq!((rig.controller.rate(), rig.stats().state), (40 * MB, State::Normal));
    assert_eq!(rig.pay(100 * MB), 0);
    rig.controller.set_max_rate(20 * MB);
    assert_eq!((rig.controller.rate(), rig.pay(100 * MB)), (20 * MB, 0));
    rig.controller.set_max_rate(40 * MB);
    // R2
    let ten = rig.delay(10, 40);
    assert_eq!(rig.controller.rate(), 10 * MB);
    assert_eq!(rig.pay(20 * MB), 2 * SECOND);
    // R3
    let two = rig.delay(2, 40);
    assert_eq!(rig.pay(20 * MB), 10 * SECOND);
    let one = rig.delay(1, 40);
    assert_eq!(rig.pay(20 * MB), 20 * SECOND);
    // R4, R5
    let twenty = rig.delay(20, 40);
    assert_eq!((rig.controller.rate(), rig.pay(20 * MB)), (MB, 20 * SECOND));
    let full = rig.delay(40, 40);
    assert_eq!((rig.controller.rate(), rig.pay(20 * MB)), (MB, 20 * SECOND));
    assert!(Fraction::ratio(300, 1).is_none() && Fraction::ratio(0, 1).is_none());
    // R6
    let (stop, another) = (rig.stop(), rig.stop());
    assert!(rig.controller.is_stopped());
    assert_eq!(rig.controller.rate(), 0);
    assert!(matches!(rig.client.try_admit(1), Err(NotNow::Stopped(source)) if source == stop.id()));
    let Admission::Wait(mut parked) = rig.client.admit(20 * MB) else { panic!("passed a stop") };
    assert_eq!((rig.stats().parked, rig.stats().balance), (1, 0));
    drop(stop);
    assert!(rig.controller.is_stopped());
    drop(another);
    assert!(!rig.controller.is_stopped());
    assert_eq!(rig.stats().delay_rate, MB);
    assert_eq!(parked.try_wait_nanos(&rig.clock), 20 * SECOND);
    rig.pass(20 * SECOND);
    assert_eq!(parked.try_now(), Some(Ok(())));
    // R7
    assert_eq!(rig.claim(40 * MB), 40 * SECOND);
    drop((ten, two, one, twenty, full));
    assert_eq!((rig.stats().state, rig.pay(100 * MB)), (State::Normal, 0));
}

/// `pressure R8`: from empty; small claims pass on the quantum, then on credit.
#[test]
fn small_claims_pass_on_quantum_and_credit() {
    let mut rig = Rig::new(40 * MB);
    let _source = rig.delay(10, 40);
    assert_eq!((rig.claim(400), rig.claim(400), rig.stats().balance), (0, 0, -800));
    rig.pass(1_000_000);
    assert_eq!((rig.claim(2_000), rig.claim(2_000), rig.stats().balance), (0, 0, 5_200));
    assert_eq!(rig.claim(10 * MB), 999_480_000);
}

/// `pressure R9`: the whole debt waits at the rate in force.
#[test]
fn debt_is_bytes_not_time() {
    let mut rig = Rig::new(10 * MB);
    let mut sources = Vec::new();
    let waits = (1..=10).rev().map(|rate| {
        sources.push(rig.delay(rate, 10));
        rig.claim(63 * MB) / 1_000_000
    });
    let waits: Vec<u64> = waits.collect();
    let expected = [6_300, 14_000, 23_625, 36_000, 52_500, 75_600, 110_250, 168_000, 283_500, 630_000];
    assert_eq!(waits, expected);
    rig.pass(630 * SECOND);
    assert_eq!(rig.claim(100), 0);
}

/// `pressure R10`: the same, half of each wait paid before the next.
#[test]
fn a_falling_rate_stretches_what_is_left() {
    let mut rig = Rig::new(10 * MB);
    let mut sources = Vec::new();
    let expected: [u64; 10] = [
        6_300_000_000,
        10_500_000_000,
        13_781_250_000,
        16_875_000_000,
        20_343_750_000,
        24_806_250_000,
        31_253_906_250,
        41_835_937_500,
        62_876_953_125,
        125_876_953_126,
    ];
    for (rate, expected) in (1..=10).rev().zip(expected) {
        sources.push(rig.delay(rate, 10));
        let wait = rig.claim(63 * MB);
        assert!(wait.abs_diff(expected) <= 1, "at {rate} MB/s: {wait}, not {expected}");
        rig.pass(wait / 2);
    }
}

/// `pressure R11`: releasing all sources wipes the debt, without time passing.
#[test]
fn no_debt_outlives_the_delay() {
    let mut rig = Rig::new(10 * MB);
    let source = rig.delay(1, 10);
    assert_eq!(rig.claim(630 * MB), 630 * SECOND);
    drop(source);
    let _source = rig.delay(1, 10);
    assert_eq!(rig.claim(100), 0);
}

/// `pressure R12`: credit is bounded at the present rate, and does not outlive the delay.
#[test]
fn idle_time_buys_ten_milliseconds() {
    let idle = || {
        let rig = Rig::new(10 * MB);
        let source = rig.delay(1, 10);
        rig.pass(1_000 * SECOND);
        (rig, source)
    };
    let (mut rig, _source) = idle();
    assert_eq!((rig.claim(10_000), rig.claim(10 * MB)), (0, 10 * SECOND));

    let (rig, source) = idle();
    let rate = |rate| source.require(Requirement::Delayed(Fraction::ratio(rate, 10).unwrap()));
    rate(10);
    assert_eq!(rig.stats().balance, 10_000);
    rig.pass(9_000_000);
    assert_eq!(rig.stats().balance, 100_000);
    rig.pass(SECOND);
    assert_eq!(rig.stats().balance, 100_000);
    rate(1);
    assert_eq!(rig.stats().balance, 10_000);

    let (mut rig, source) = idle();
    for k in 1..=10 {
        source.require(Requirement::Delayed(Fraction::ratio(k, 10).unwrap()));
        let missing = k * 63 * MB - 10_000;
        assert_eq!(rig.claim(63 * MB), (missing * 1_000).div_ceil(k), "at {k} MB/s");
    }
    drop(source);
    let _source = rig.delay(1, 10);
    assert_eq!(rig.claim(10 * MB), 10 * SECOND);
}

/// A delay begins with neither debt nor credit, however long nothing delayed before.
#[test]
fn a_delay_begins_empty() {
    let mut rig = Rig::new(10 * MB);
    rig.pass(1_000 * SECOND);
    for _ in 0..2 {
        let source = rig.delay(1, 10);
        assert_eq!((rig.claim(10 * MB), rig.stats().pacer_lost_bytes), (10 * SECOND, 0));
        drop(source);
        rig.pass(1_000 * SECOND);
        assert_eq!((rig.stats().balance, rig.stats().pacer_lost_bytes), (0, 0));
    }
}

/// `pressure R14`: a maximum of 0 is 1 byte per second.
#[test]
fn a_maximum_of_zero_is_one_byte_per_second() {
    let mut rig = Rig::new(40 * MB);
    rig.controller.set_max_rate(0);
    assert_eq!(rig.controller.max_rate(), 1);
    let _source = rig.delay(1, 1);
    assert_eq!(rig.claim(1), SECOND);
}

/// `pressure R15`: withdrawing what nobody asked for changes nothing.
#[test]
fn withdrawing_an_unknown_source_is_a_no_op() {
    let rig = Rig::new(40 * MB);
    let _source = rig.delay(1, 2);
    let before = rig.stats();
    assert_eq!(
        rig.controller.require(SourceId::new(SourceKind::L0), Requirement::Normal),
        Requirement::Normal
    );
    rig.controller.set_pressure(SourceId::new(SourceKind::WriteBufferManager), Pressure::Normal);
    assert_eq!(rig.stats(), before);
}

/// `pressure R16`: everything follows the maximum at once; the same maximum publishes nothing.
#[test]
fn the_maximum_re_derives_all_sources() {
    let rig = Rig::new(8 * MB);
    let (a, _b) = (rig.delay(1, 8), rig.delay(1, 2));
    a.require(Requirement::Delayed(Fraction::ONE));
    assert_eq!(rig.controller.rate(), 4 * MB);
    rig.controller.set_max_rate(16 * MB);
    let rates: Vec<u64> = rig.stats().sources.iter().map(|source| source.rate).collect();
    assert_eq!((rates, rig.controller.rate()), (vec![16 * MB, 8 * MB], 8 * MB));
    a.require(Requirement::Delayed(Fraction::ratio(5, 8).unwrap()));
    assert_eq!(rig.controller.rate(), 8 * MB);
    let before = rig.stats().publications;
    rig.controller.set_max_rate(16 * MB);
    assert_eq!(rig.stats().publications, before);
}

/// `pressure R17`: a refused attempt is not charged.
#[test]
fn refusals_are_free() {
    let mut rig = Rig::new(MIN_RATE);
    let source = rig.delay(1, 2);
    assert_eq!(rig.controller.rate(), 16_384);
    for _ in 0..100 {
        assert_eq!(rig.client.try_admit(1 << 20), Err(NotNow::Delayed(source.id())));
    }
    assert_eq!(rig.claim(1 << 20), 64 * SECOND);
    assert_eq!((rig.client.tally().rejected, rig.client.tally().cause(SourceKind::L0).delays), (100, 101));
}

/// `pressure S1`, `pressure V5`: the strictest of four; each drop gives way to the next.
#[test]
fn four_sources_give_way_in_order() {
    let rig = Rig::new(16 << 20);
    let source = |kind, ask| {
        let source = rig.controller.source(kind);
        source.require(ask);
        source
    };
    let ratio = |part, whole| Requirement::Delayed(Fraction::ratio(part, whole).unwrap());
    let step = |step| Requirement::Delayed(crate::DelayStep::new(step).unwrap().into());
    let manager = source(SourceKind::WriteBufferManager, step(50));
    let l0 = source(SourceKind::L0, ratio(4, 5));
    let pending = source(SourceKind::PendingCompactionBytes, ratio(19, 20));
    let memtables = source(SourceKind::MemtableCount, ratio(1, 10));
    assert_eq!((rig.controller.rate(), rig.stats().strictest), (1_677_721, Some(memtables.id())));
    let derived: Vec<_> = rig.stats().sources.iter().map(|entry| (entry.source, entry.rate)).collect();
    let expected = vec![
        (manager.id(), 8_388_608),
        (l0.id(), 13_421_772),
        (pending.id(), 15_938_355),
        (memtables.id(), 1_677_721),
    ];
    assert_eq!(derived, expected);
    drop(memtables);
    assert_eq!(rig.controller.rate(), 8_388_608);
    drop(manager);
    assert_eq!(rig.controller.rate(), 13_421_772);
    drop(l0);
    assert_eq!(rig.controller.rate(), 15_938_355);
    drop(pending);
    assert_eq!((rig.controller.rate(), rig.stats().state), (16 << 20, State::Normal));
}

/// `pressure S2`: two managers constrain one controller, each for itself.
#[test]
fn two_managers_are_two_sources() {
    let rig = Rig::new(16 << 20);
    let [one, two] = [(); 2].map(|()| SourceId::new(SourceKind::WriteBufferManager));
    let delayed = |step| Pressure::Delayed(crate::DelayStep::new(step).unwrap());
    rig.controller.set_pressure(one, delayed(60));
    rig.controller.set_pressure(two, delayed(30));
    assert_eq!(rig.controller.rate(), 6_710_886);
    rig.controller.set_pressure(one, Pressure::Normal);
    assert_eq!(rig.controller.rate(), 11_744_051);
    rig.controller.set_pressure(two, Pressure::Normal);
    assert_eq!(rig.stats().state, State::Normal);
}

/// `pressure S3`, `pressure I9`: a changed maximum, above and below the floor, without asking any source again.
#[test]
fn fractions_outlive_changes_of_the_maximum() {
    let rig = Rig::new(16 << 20);
    let (_half, _quarter) = (rig.delay(1, 2), rig.delay(1, 4));
    assert_eq!(rig.controller.rate(), 4_194_304);
    for (max_rate, rate) in [(MB, 250_000), (10_000, 10_000), (16 << 20, 4_194_304), (20_000, 16_384)] {
        rig.controller.set_max_rate(max_rate);
        assert_eq!(rig.controller.rate(), rate, "of {max_rate}");
    }
}

/// `pressure S4`: an equal requirement is no news; a replacement is one change.
#[test]
fn equal_requirements_publish_nothing() {
    let rig = Rig::new(16 << 20);
    let source = rig.delay(1, 2);
    let Admission::Wait(sleeper) = rig.client.admit(8 << 20) else { panic!("passed") };
    let before = (rig.stats().publications, sleeper.wake_at());
    let half = Requirement::Delayed(Fraction::ratio(1, 2).unwrap());
    for _ in 0..1_000 {
        assert_eq!(source.require(half), half);
    }
    assert_eq!((rig.stats().publications, sleeper.wake_at()), before);
    source.require(Requirement::Delayed(Fraction::ratio(1, 4).unwrap()));
    assert_eq!(rig.stats().publications, before.0 + 1);
    assert_eq!(rig.stats().times.transitions, 1, "never Normal in between");
}

/// `pressure S5`: a source dropped by unwinding opens the gate.
#[test]
fn a_panicking_holder_opens_the_gate() {
    let rig = Rig::new(16 << 20);
    let stop = rig.stop();
    let Admission::Wait(mut parked) = rig.client.admit(1) else { panic!("passed") };
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _held = stop;
        panic!("on purpose");
    }));
    assert!(unwound.is_err());
    assert_eq!((rig.controller.is_stopped(), parked.try_now()), (false, Some(Ok(()))));
}

/// `pressure E1`, `pressure E3`, `pressure E8`, `pressure E9`, the controller's part: several databases' sources on one controller.
#[test]
fn sources_of_several_databases_hold_all() {
    let rig = Rig::new(16 << 20);
    let l0 = |files: u64| match files {
        20.. => Requirement::Stopped,
        10..20 => Requirement::Delayed(Fraction::ratio(20 - files, 10).unwrap()),
        _ => Requirement::Normal,
    };
    let [db0, db1] = [(); 2].map(|()| rig.controller.source(SourceKind::L0));
    let manager = rig.controller.source(SourceKind::WriteBufferManager);
    let rate = || rig.controller.rate();

    // E1
    db0.require(l0(10));
    assert_eq!((rate(), rig.stats().state), (16_777_216, State::Delayed));
    db1.require(l0(15));
    assert_eq!(rate(), 8_388_608);
    db0.require(l0(15));
    assert_eq!(rate(), 8_388_608);
    db0.require(l0(9));
    db1.require(l0(9));
    assert_eq!((rate(), rig.stats().state), (16_777_216, State::Normal));
    // E3
    let state = || rig.stats().state;
    let steps =
        [(0, 10, State::Delayed), (0, 5, State::Normal), (1, 15, State::Delayed), (0, 20, State::Stopped)];
    for (database, files, expected) in
        steps.into_iter().chain([(0, 9, State::Delayed), (1, 9, State::Normal)])
    {
        [&db0, &db1][database].require(l0(files));
        assert_eq!(state(), expected, "db{database} at {files} files");
    }
    // E8, E9
    let step = |step| Requirement::Delayed(crate::DelayStep::new(step).unwrap().into());
    manager.require(step(50));
    assert_eq!((rate(), rig.stats().sources.len()), (8_388_608, 1));
    db0.require(l0(12));
    assert_eq!((rate(), rig.stats().sources.len()), (8_388_608, 2));
    db1.require(l0(16));
    assert_eq!((rate(), rig.stats().sources.len()), (6_710_886, 3));
    manager.require(step(83));
    assert_eq!(rate(), 2_852_126);
    manager.require(Requirement::Normal);
    assert_eq!((rate(), rig.stats().sources.len()), (6_710_886, 2));
    db1.require(l0(5));
    assert_eq!((rate(), rig.stats().sources.len()), (13_421_772, 1));
    db0.require(l0(5));
    assert_eq!((rate(), rig.stats().sources.len()), (16_777_216, 0));
}

/// `pressure F14`: 12 flushes raise L0 from 10 to 21; 100,000 bytes wait after each.
#[test]
fn rates_are_a_pure_function_of_the_present() {
    let mut rig = Rig::new(1_600_000);
    let source = rig.controller.source(SourceKind::L0);
    let l0 = |files: u64| source.require(Requirement::Delayed(Fraction::ratio(26 - files, 16).unwrap()));
    let mut total = 0;
    for files in 10..=21 {
        l0(files);
        assert_eq!(rig.controller.rate(), (26 - files) * 100_000);
        total += rig.pay(100_000);
    }
    assert!(total.abs_diff(1_297_395_660) <= 12, "{total}");
    for (files, rate) in [(14, 1_200_000), (18, 800_000), (14, 1_200_000)] {
        l0(files);
        assert_eq!(rig.controller.rate(), rate);
    }
}

/// `pressure X2`: the governor is one more source; it only ever lowers the rate.
#[test]
fn a_governor_only_lowers_the_rate() {
    let rig = Rig::new(16 << 20);
    let _manager = rig.delay(1, 2);
    let governor = rig.controller.source(SourceKind::Governor);
    let ask = |part| governor.require(Requirement::Delayed(Fraction::ratio(part, 4).unwrap()));
    ask(1);
    assert_eq!(rig.controller.rate(), 4_194_304);
    governor.require(Requirement::Normal);
    assert_eq!(rig.controller.rate(), 8_388_608);
    ask(3);
    assert_eq!(rig.controller.rate(), 8_388_608);
}

/// `pressure V1`: time in each state, on a clock that is moved by hand.
#[test]
fn every_microsecond_is_in_one_state() {
    let rig = Rig::new(16 << 20);
    let source = rig.controller.source(SourceKind::WriteBufferManager);
    let half = Requirement::Delayed(Fraction::ratio(1, 2).unwrap());
    let steps = [(2_000, half), (3_000, Requirement::Stopped), (1_000, half), (500, Requirement::Normal)];
    for (millis, ask) in steps {
        rig.pass(millis * 1_000_000);
        source.require(ask);
    }
    rig.pass(3_500_000_000);
    let times = rig.stats().times;
    assert_eq!(
        (times.normal_micros, times.delayed_micros, times.stopped_micros),
        (5_500_000, 3_500_000, 1_000_000)
    );
    assert_eq!((times.transitions, times.delay_episodes, times.stops), (4, 1, 1));
    assert_eq!((times.longest_stop_micros, times.current_stop_micros), (1_000_000, 0));
}
