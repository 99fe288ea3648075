//! Clocks and bells: tokens that are not lost, deadlines that are met, time that jumps only when all wait.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

/// A token left before the wait ends it at once, also on a clock that stands still; a past deadline likewise.
#[test]
fn a_wake_up_before_the_wait_is_not_lost() {
    let clocks: [&dyn Clock; 3] = [&SystemClock, &ManualClock::new(5), &ManualClock::new_virtual(5)];
    for clock in clocks {
        let parker = Parker::new();
        parker.unpark();
        parker.unpark();
        assert_eq!(clock.park(&parker, None), Woken::Unparked, "{clock:?}");
        let now = clock.now_nanos();
        assert_eq!(clock.park(&parker, Some(now)), Woken::Deadline, "one token for two: {clock:?}");
    }
}

/// A settable clock ends exactly the waits whose deadline has come.
#[test]
fn setting_the_time_ends_due_waits() {
    let clock = ManualClock::new(0);
    std::thread::scope(|scope| {
        let waits = [10, 20].map(|deadline| {
            let clock = &clock;
            scope.spawn(move || (clock.park(&Parker::new(), Some(deadline)), clock.now_nanos()))
        });
        clock.wait_until_waiting(2);
        assert_eq!(clock.next_deadline(), Some(10));
        clock.set(15);
        clock.wait_until_waiting(1);
        clock.set(3);
        assert_eq!(clock.now_nanos(), 15, "never back");
        clock.advance(Duration::from_nanos(6));
        let ends = waits.map(|wait| wait.join().unwrap());
        assert_eq!(ends.map(|(woken, _)| woken), [Woken::Deadline; 2]);
    });
}

/// A virtual clock moves from deadline to deadline, and not while an announced thread works.
///
/// Method: two threads sleep by turns of 3 and 5; each sees exactly its own multiples.
#[test]
fn virtual_time_jumps_when_all_wait() {
    let clock = ManualClock::new_virtual(0);
    let tickets = [3, 5].map(|period| (period, clock.announce_thread()));
    std::thread::scope(|scope| {
        for (period, ticket) in tickets {
            let clock = &clock;
            scope.spawn(move || {
                let _counted = ticket.enter();
                for nth in 1..=1_000 {
                    clock.sleep(Duration::from_nanos(period));
                    assert_eq!(clock.now_nanos(), nth * period);
                }
            });
        }
    });
    assert_eq!(clock.now_nanos(), 5_000);
}

/// A thread that was woken counts as working from that instant, before it has run at all.
#[test]
fn no_jump_while_a_woken_thread_has_not_run() {
    let clock = ManualClock::new_virtual(0);
    let (ball, back) = (Parker::new(), Parker::new());
    let tickets = [clock.announce_thread(), clock.announce_thread()];
    let [here, there] = tickets;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _counted = there.enter();
            for _ in 0..1_000 {
                assert_eq!(clock.park(&ball, Some(1_000)), Woken::Unparked);
                back.unpark();
            }
        });
        let _counted = here.enter();
        for _ in 0..1_000 {
            ball.unpark();
            assert_eq!(clock.park(&back, Some(1_000)), Woken::Unparked);
        }
    });
    assert_eq!(clock.now_nanos(), 0);
}

/// Everybody who waits for an event sees it; a ring between look and wait is not missed.
#[test]
fn an_event_wakes_all() {
    let clock = ManualClock::new(0);
    let (event, woken) = (Event::new(), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                assert_eq!(event.wait_past(&clock, 0, None), Woken::Unparked);
                woken.fetch_add(1, Ordering::Relaxed);
            });
        }
        clock.wait_until_waiting(4);
        event.ring();
    });
    assert_eq!((woken.load(Ordering::Relaxed), event.rings()), (4, 1));
    assert_eq!(event.wait_past(&clock, 0, None), Woken::Unparked);
    assert_eq!(event.wait_past(&clock, 1, Some(0)), Woken::Deadline);
}
