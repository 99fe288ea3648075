//! `pressure P` and its kin: who sleeps, parks, moves up, and when each passes.

use super::*;
use crate::{Interrupt, MIN_RATE, WaitEnded};

/// Says at which second each of `turns` passes, moving the clock in tenths.
fn seconds_of_passing(rig: &Rig, turns: &mut [Turn], until: u64) -> Vec<Option<u64>> {
    let start = rig.clock.now_nanos();
    let mut passed = vec![None; turns.len()];
    for tenth in 0..=until * 10 {
        rig.clock.set(start + tenth * SECOND / 10);
        for (turn, passed) in turns.iter_mut().zip(&mut passed) {
            if passed.is_none() && turn.try_now() == Some(Ok(())) {
                *passed = Some(tenth);
            }
        }
    }
    passed.into_iter().map(|tenth| tenth.map(|tenth| tenth / 10)).collect()
}

fn sleeper(rig: &Rig, bytes: u64) -> Turn {
    match rig.client.admit(bytes) {
        Admission::Passed => panic!("{bytes} bytes passed"),
        Admission::Wait(turn) => turn,
    }
}

/// `pressure P3`: a rise wakes and shortens, a fall lengthens.
#[test]
fn a_change_of_rate_re_prices_sleepers() {
    for (ppm, seconds) in [(400_000, 2), (50_000, 16)] {
        let rig = Rig::new(10 * MB);
        let source = rig.delay(1, 10);
        let mut turn = sleeper(&rig, 10 * MB);
        assert_eq!(turn.try_wait_nanos(&rig.clock), 10 * SECOND);
        rig.pass(2 * SECOND);
        source.require(Requirement::Delayed(Fraction::from_ppm(ppm).unwrap()));
        assert_eq!(turn.try_wait_nanos(&rig.clock), seconds * SECOND);
        rig.pass(seconds * SECOND - 1);
        assert_eq!(turn.try_now(), None);
        rig.pass(1);
        assert_eq!(turn.try_now(), Some(Ok(())));
    }
}

/// `pressure P4`: the end of the delay lets sleepers pass and forgets the debt.
#[test]
fn the_end_of_a_delay_frees_sleepers() {
    let mut rig = Rig::new(10 * MB);
    let source = rig.delay(1, 10);
    let mut turn = sleeper(&rig, 10 * MB);
    rig.pass(2 * SECOND);
    source.require(Requirement::Normal);
    assert_eq!((turn.try_now(), rig.stats().balance), (Some(Ok(())), 0));
    source.require(Requirement::Delayed(Fraction::ratio(1, 10).unwrap()));
    assert_eq!(rig.claim(MB), SECOND);
}

/// `pressure P5`, `pressure V2`: a stop freezes the debt; delay 10 s, stop 5 s, booked to the source of each moment.
#[test]
fn a_stop_freezes_a_sleeper() {
    let rig = Rig::new(10 * MB);
    let source = rig.delay(1, 10);
    let mut turn = sleeper(&rig, 10 * MB);
    rig.pass(2 * SECOND);
    let stop = rig.stop();
    assert_eq!((turn.wake_at(), rig.stats().parked, rig.stats().balance), (None, 1, -8 * i128::from(MB)));
    rig.pass(5 * SECOND);
    assert_eq!((turn.try_now(), rig.stats().balance), (None, -8 * i128::from(MB)));
    drop(stop);
    assert_eq!(turn.try_wait_nanos(&rig.clock), 8 * SECOND);
    rig.pass(8 * SECOND);
    assert_eq!(turn.try_now(), Some(Ok(())));
    let waited = turn.waited();
    assert_eq!((waited.delayed, waited.stopped), (Duration::from_secs(10), Duration::from_secs(5)));
    let tally = rig.client.tally();
    assert_eq!(tally.cause(SourceKind::L0).delayed_nanos, 10 * SECOND);
    assert_eq!(tally.cause(SourceKind::WriteBufferManager).stopped_nanos, 5 * SECOND);
    assert_eq!((tally.total().delays, tally.total().stops), (2, 1), "asleep, parked, asleep again");
    drop(source);
}

/// `pressure P5` with one source that turns from delay to stop and back, as a manager does.
#[test]
fn a_manager_that_stops_and_delays_again_keeps_the_debt() {
    let rig = Rig::new(10 * MB);
    let source = rig.delay(1, 10);
    let tenth = Requirement::Delayed(Fraction::ratio(1, 10).unwrap());
    let turn = sleeper(&rig, 10 * MB);
    rig.pass(2 * SECOND);
    source.require(Requirement::Stopped);
    rig.pass(5 * SECOND);
    source.require(tenth);
    assert_eq!(turn.try_wait_nanos(&rig.clock), 8 * SECOND);
}

/// `pressure P6`: who leaves moves those behind it up, and nobody else.
#[test]
fn a_leaver_moves_up_those_behind() {
    for (leaves_at, passes) in [(1, [Some(10), Some(15)]), (15, [Some(10), Some(15)])] {
        let rig = Rig::new(10 * MB);
        let _source = rig.delay(1, 10);
        let (a, b, c) = (sleeper(&rig, 10 * MB), sleeper(&rig, 10 * MB), sleeper(&rig, 5 * MB));
        let wait = |turn: &Turn| turn.try_wait_nanos(&rig.clock) / SECOND;
        assert_eq!((wait(&a), wait(&b), wait(&c)), (10, 20, 25));
        let start = rig.clock.now_nanos();
        let mut turns = [a, c];
        let mut passed = seconds_of_passing(&rig, &mut turns, leaves_at);
        let cancel = b.cancel_handle();
        cancel.cancel();
        let rest = seconds_of_passing(&rig, &mut turns, 30 - leaves_at);
        for (passed, rest) in passed.iter_mut().zip(rest) {
            *passed = passed.or(rest.map(|second| second + leaves_at));
        }
        assert_eq!(passed, passes, "b leaves at {leaves_at} s");
        assert_eq!(rig.clock.now_nanos() - start, 30 * SECOND);
    }
}

/// `pressure P7`, `pressure I6`: failure and shutdown end the waits of one client at once, asleep or parked; others wait on.
#[test]
fn an_interrupt_reaches_one_client_only() {
    for (why, ended) in [(Interrupt::Failed, WaitEnded::Failed), (Interrupt::Shutdown, WaitEnded::Shutdown)] {
        for stopped in [false, true] {
            let rig = Rig::new(10 * MB);
            let other = rig.controller.register("db2");
            let source = rig.delay(1, 10);
            if stopped {
                source.require(Requirement::Stopped);
            }
            let mut mine = sleeper(&rig, 64 * MB);
            let Admission::Wait(mut theirs) = other.admit(MB) else { panic!("passed") };
            rig.pass(2 * SECOND);
            rig.client.interrupt(why);
            assert_eq!(mine.try_now(), Some(Err(ended)));
            let moved_up = (!stopped).then_some(Ok(()));
            assert_eq!(theirs.try_now(), moved_up, "db2's megabyte is earned once db1's are gone");
            // Sticky, until cleared; what needs no wait still passes.
            assert_eq!(matches!(rig.client.admit(1), Admission::Passed), !stopped);
            let mut late = sleeper(&rig, 64 * MB);
            assert_eq!(late.try_now(), Some(Err(ended)));
            rig.client.clear();
            assert_eq!(sleeper(&rig, 64 * MB).try_now(), None);
        }
    }
}

/// `pressure P9`: in state Normal a million admissions read no clock and take no lock.
#[test]
fn unhindered_admission_is_one_load() {
    #[derive(Debug, Default)]
    struct CountingClock(AtomicU64);
    impl Clock for CountingClock {
        fn now_nanos(&self) -> u64 {
            self.0.fetch_add(1, Ordering::Relaxed)
        }
        fn unix_micros(&self) -> u64 {
            0
        }
        fn park(&self, _: &Parker, _: Option<u64>) -> Woken {
            panic!("nobody waits here")
        }
    }
    let clock = Arc::new(CountingClock::default());
    let controller = WriteController::new(&ControllerOptions::default(), clock.clone()).unwrap();
    let client = controller.register("db");
    let before = (clock.0.load(Ordering::Relaxed), crate::sync::locks_taken());
    for _ in 0..1_000_000 {
        assert!(matches!(client.admit(100), Admission::Passed));
        assert_eq!(client.try_admit(100), Ok(()));
        assert!(!client.is_stopped());
    }
    assert_eq!((clock.0.load(Ordering::Relaxed), crate::sync::locks_taken()), before);
}

/// `pressure P11`: a stop ends into the delay: writers pass one by one, in arrival order.
#[test]
fn a_stop_ends_into_the_delay() {
    let rig = Rig::new(16 << 20);
    let source = rig.stop();
    let mut turns: Vec<Turn> = (0..16).map(|_| sleeper(&rig, 4_096)).collect();
    assert_eq!((rig.stats().parked, rig.stats().balance), (16, 0));
    source.require(Requirement::Delayed(crate::DelayStep::MAX.into()));
    assert_eq!(rig.controller.rate(), 167_772);
    let start = rig.clock.now_nanos();
    for (nth, turn) in turns.iter_mut().enumerate() {
        let bytes = 4_096 * (nth as u64 + 1);
        let due = (bytes * SECOND).div_ceil(167_772);
        assert_eq!(turn.wake_at(), Some(start + due));
        rig.clock.set(start + due - 1);
        assert_eq!(turn.try_now(), None);
        rig.clock.set(start + due);
        assert_eq!(turn.try_now(), Some(Ok(())));
    }
}

/// `pressure P12`, `pressure I4`, the controller's part: a batch that paid and met a stop waits without paying again.
#[test]
fn a_returning_batch_pays_once() {
    let mut rig = Rig::new(10 * MB);
    let _source = rig.delay(1, 10);
    assert_eq!(rig.pay(MB), SECOND);
    let stop = rig.stop();
    let Admission::Wait(mut returned) = rig.client.admit_again(MB) else { panic!("passed a stop") };
    let mut fresh = sleeper(&rig, MB);
    drop(stop);
    assert_eq!((returned.try_now(), fresh.try_now()), (Some(Ok(())), None));
    assert_eq!(fresh.try_wait_nanos(&rig.clock), SECOND);
    assert!(matches!(rig.client.admit_again(MB), Admission::Passed));
}

/// `pressure I1`, `pressure I2`, the controller's part: who will not wait is refused uncharged; the rest pass in turn.
#[test]
fn waiting_and_unwilling_writers_mix() {
    let mut rig = Rig::new(1);
    let source = rig.delay(1, 1);
    assert_eq!(rig.client.try_admit(1_024), Err(NotNow::Delayed(source.id())));
    rig.controller.set_max_rate(MB);
    assert_eq!(rig.pay(1_024), 1_024_000);

    let mut turns = [MB, 100_000, 100_000].map(|bytes| sleeper(&rig, bytes));
    assert!(rig.client.try_admit(1).is_err() && rig.client.try_admit(1).is_err());
    let waits = turns.each_ref().map(|turn| turn.try_wait_nanos(&rig.clock) / 1_000_000);
    assert_eq!(waits, [1_000, 1_100, 1_200]);
    rig.pass(1_200_000_000);
    assert!(turns.iter_mut().all(|turn| turn.try_now() == Some(Ok(()))));
    assert_eq!(rig.client.try_admit(100), Ok(()));
}

/// `pressure I7`, `pressure I8`: a WAL lock holds its own database only, and its end frees at once.
#[test]
fn a_wal_lock_is_scoped_to_its_database() {
    let rig = Rig::new(10 * MB);
    let other = rig.controller.register("db2");
    let lock = rig.client.lock_wal();
    assert!(rig.client.is_stopped() && !other.is_stopped() && !rig.controller.is_stopped());
    let mut parked = sleeper(&rig, 100);
    assert_eq!(rig.client.try_admit(1), Err(NotNow::Stopped(lock.id())));
    assert!(matches!(other.admit(100), Admission::Passed));
    assert_eq!(other.try_admit(100), Ok(()));
    drop(lock);
    assert_eq!((rig.client.try_admit(1), parked.try_now()), (Ok(()), Some(Ok(()))));

    // Another stop in force: unlocking returns, and the writers wait for that one.
    let stop = rig.stop();
    let lock = rig.client.lock_wal();
    let mut parked = sleeper(&rig, 100);
    drop(lock);
    assert_eq!(parked.try_now(), None);
    drop(stop);
    assert_eq!(parked.try_now(), Some(Ok(())));
}

/// A sleeper caught by its own database's WAL lock keeps its claim; its debt is not frozen for others.
#[test]
fn a_wal_lock_keeps_claims() {
    let rig = Rig::new(10 * MB);
    let _source = rig.delay(1, 10);
    let mut turn = sleeper(&rig, 10 * MB);
    rig.pass(2 * SECOND);
    let lock = rig.client.lock_wal();
    rig.pass(3 * SECOND);
    assert_eq!(turn.try_now(), None);
    drop(lock);
    assert_eq!(turn.try_wait_nanos(&rig.clock), 5 * SECOND);
    let waited = turn.waited();
    assert_eq!((waited.delayed.as_secs(), waited.stopped.as_secs()), (2, 3));
}

/// `pressure L7`, the controller's part: the limit bounds delay plus stop, in slices of a second.
#[test]
fn a_limit_bounds_delay_plus_stop() {
    // Alone on a virtual clock: each wait jumps to its deadline.
    let clock = ManualClock::new_virtual(0);
    let options = ControllerOptions::with_rate(MIN_RATE);
    let controller = WriteController::new(&options, Arc::new(clock.clone())).unwrap();
    let client = controller.register("db");
    let source = controller.source(SourceKind::WriteBufferManager);
    let limit = Some(Duration::from_secs(5));
    let wait = |change_at: Option<u64>| {
        let Admission::Wait(mut turn) = client.admit(1 << 20) else { panic!("passed") };
        let began = clock.now_nanos();
        let mut slices = 0;
        loop {
            match turn.wait(limit) {
                Ok(Wake::Slice) => slices += 1,
                Ok(Wake::Passed) => panic!("passed"),
                Err(ended) => {
                    let waited = turn.waited();
                    let (delayed, stopped) = (waited.delayed.as_secs(), waited.stopped.as_secs());
                    return (ended, clock.now_nanos() - began, slices, delayed, stopped);
                }
            }
            if change_at == Some(slices) {
                source.require(Requirement::Stopped);
            }
        }
    };
    let delayed = Requirement::Delayed(Fraction::ONE);
    source.require(Requirement::Stopped);
    assert_eq!(wait(None), (WaitEnded::TimedOut, 5 * SECOND, 4, 0, 5));
    source.require(Requirement::Normal);
    source.require(delayed);
    assert_eq!(wait(None), (WaitEnded::TimedOut, 5 * SECOND, 4, 5, 0));
    assert_eq!(wait(Some(3)), (WaitEnded::TimedOut, 5 * SECOND, 4, 3, 2));
    source.require(Requirement::Normal);
    assert_eq!((controller.stats().balance, controller.stats().parked), (0, 0));
}

/// The last resort lets the first parked writer through, if no other source stops it.
#[test]
fn a_rescue_lets_one_through() {
    let rig = Rig::new(10 * MB);
    let stop = rig.stop();
    let [mut first, mut second] = [(); 2].map(|()| sleeper(&rig, MB));
    let another = rig.controller.source(SourceKind::L0);
    another.require(Requirement::Stopped);
    assert!(!rig.controller.rescue_one(stop.id()), "L0 stops as well");
    drop(another);
    assert!(rig.controller.rescue_one(stop.id()));
    assert_eq!((first.try_now(), first.waited().rescued, second.try_now()), (Some(Ok(())), true, None));
}

/// `pressure I11`, the controller's part: the low-priority pacer runs at 1 MiB/s beside everything else.
#[test]
fn low_priority_has_a_pacer_of_its_own() {
    let rig = Rig::new(10 * MB);
    let low = |bytes| match rig.client.admit_low_priority(bytes) {
        Admission::Passed => None,
        Admission::Wait(turn) => Some(turn),
    };
    let mut turn = low(1 << 20).expect("asleep");
    assert_eq!(turn.try_wait_nanos(&rig.clock), SECOND);
    assert!(matches!(rig.client.admit(MB), Admission::Passed));
    rig.pass(SECOND);
    assert_eq!((turn.try_now(), rig.client.tally().low_priority_nanos), (Some(Ok(())), SECOND));
}

/// A task is woken by events, and by whoever asks when time has come.
#[test]
fn a_task_waits_without_a_thread() {
    use std::future::Future;
    use std::task::{Context, Poll, Wake as TaskWake, Waker};

    #[derive(Default)]
    struct Count(AtomicU64);
    impl TaskWake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let rig = Rig::new(10 * MB);
    let source = rig.delay(1, 10);
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    let mut context = Context::from_waker(&waker);
    let mut turn = Box::pin(sleeper(&rig, 10 * MB));
    assert!(turn.as_mut().poll(&mut context).is_pending());
    let start = rig.clock.now_nanos();
    assert_eq!(rig.controller.wake_due(), Some(start + 10 * SECOND));
    source.require(Requirement::Delayed(Fraction::ONE));
    assert_eq!(count.0.load(Ordering::Relaxed), 1, "woken by the rise");
    assert!(turn.as_mut().poll(&mut context).is_pending());
    assert_eq!(rig.controller.wake_due(), Some(start + SECOND));
    rig.pass(SECOND);
    assert_eq!((rig.controller.wake_due(), count.0.load(Ordering::Relaxed)), (None, 2));
    let Poll::Ready(Ok(waited)) = turn.as_mut().poll(&mut context) else { panic!("still pending") };
    assert_eq!(waited.delayed, Duration::from_secs(1));
}

/// `pressure P2`: never more than rate times time plus a quantum; busy writers get all of it but a batch each.
///
/// Method: threads on the virtual clock write batches of random size for 20 s, the rate changing every second.
#[test]
fn the_envelope_holds() {
    for threads in [1_u64, 4, 16] {
        let clock = ManualClock::new_virtual(0);
        let options = ControllerOptions::with_rate(1_000 * MB);
        let controller = WriteController::new(&options, Arc::new(clock.clone())).unwrap();
        let client = controller.register("db");
        let source = controller.source(SourceKind::L0);
        let rates: Vec<u64> = (0..20).map(|second| MIN_RATE << (second * 7 % 12)).collect();
        let ask =
            |rate: u64| source.require(Requirement::Delayed(Fraction::ratio(rate, 1_000 * MB).unwrap()));
        let admitted: Vec<AtomicU64> = (0..20).map(|_| AtomicU64::new(0)).collect();
        let derived = AtomicU64::new(0);
        ask(rates[0]);
        let tickets: Vec<_> = (0..=threads).map(|_| clock.announce_thread()).collect();
        std::thread::scope(|scope| {
            for (seed, ticket) in tickets.into_iter().enumerate() {
                let (clock, client, controller) = (&clock, &client, &controller);
                let (rates, admitted, derived, ask) = (&rates, &admitted, &derived, &ask);
                scope.spawn(move || {
                    let _counted = ticket.enter();
                    if seed == 0 {
                        for rate in rates {
                            ask(*rate);
                            derived.fetch_add(controller.rate(), Ordering::Relaxed);
                            clock.sleep(Duration::from_secs(1));
                        }
                        client.interrupt(Interrupt::Shutdown);
                        return;
                    }
                    let mut state = seed as u64;
                    loop {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99_991);
                        let bytes = 1_024 + (state >> 33) % (63 << 10);
                        match client.admit(bytes) {
                            Admission::Passed => {}
                            Admission::Wait(mut turn) => loop {
                                match turn.wait(None) {
                                    Ok(Wake::Passed) => break,
                                    Ok(Wake::Slice) => {}
                                    Err(_) => return,
                                }
                            },
                        }
                        let second = (clock.now_nanos() / SECOND) as usize;
                        if let Some(total) = admitted.get(second) {
                            total.fetch_add(bytes, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        let (admitted, earned) = (sum(&admitted), derived.load(Ordering::Relaxed));
        let largest = rates.iter().max().unwrap() * 2;
        assert!(admitted <= earned + largest / 10_000, "{threads} threads: {admitted} of {earned}");
        let batches = threads * (64 << 10);
        assert!(admitted + batches >= earned, "{threads} threads: {admitted} of {earned}");
    }
}

fn sum(parts: &[AtomicU64]) -> u64 {
    parts.iter().map(|part| part.load(Ordering::Relaxed)).sum()
}
