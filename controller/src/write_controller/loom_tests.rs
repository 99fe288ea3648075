//! Every interleaving of pacer, gate, source table and bell: writers, sources and interruptions, on a clock that stands.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p sluicedb-controller --release --lib loom`.
//!
//! A wait ends only when somebody ends it, so a wake-up that is lost is a deadlock, which loom reports. What takes time, and
//! schedules of many threads, are tried in `tests/models`.

use loom::thread;

use super::*;
use crate::{Admission, Event, Fraction, Parker, Turn, WaitEnded, Wake, Woken};

/// Time stands still; no deadline ever comes.
#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now_nanos(&self) -> u64 {
        1_000
    }

    fn unix_micros(&self) -> u64 {
        0
    }

    fn park(&self, parker: &Parker, _: Option<u64>) -> Woken {
        parker.wait_for_signal();
        parker.take_token();
        Woken::Unparked
    }
}

const MB: u64 = 1_000_000;

fn controller(max_rate: u64) -> Arc<WriteController> {
    WriteController::new(&ControllerOptions::with_rate(max_rate), Arc::new(Still)).unwrap()
}

fn part(of: u64) -> Requirement {
    Requirement::Delayed(Fraction::ratio(1, of).unwrap())
}

fn wait(mut turn: Turn) -> Result<(), WaitEnded> {
    loop {
        if turn.wait(None)? == Wake::Passed {
            return Ok(());
        }
    }
}

/// `pressure P8`: there is credit for one of two claims; never do both get it, and nothing is charged to the other.
#[test]
fn loom_two_claims_never_see_the_same_credit() {
    loom::model(|| {
        let controller = controller(10 * MB);
        let source = controller.source(SourceKind::Governor);
        source.require(Requirement::Delayed(Fraction::ONE));
        let others = [(); 2].map(|()| {
            let client = controller.register("db");
            thread::spawn(move || client.try_admit(600).is_ok())
        });
        let passed = others.map(|other| other.join().unwrap());
        assert_eq!(passed.iter().filter(|passed| **passed).count(), 1, "100 us of 10 MB/s are 1,000 bytes");
        assert_eq!(controller.stats().balance, -600);
    });
}

/// `pressure P8`: claims of those who wait are summed exactly, whoever comes first, and one that gives up takes only its own out.
#[test]
fn loom_claims_are_summed_exactly() {
    loom::model(|| {
        let controller = controller(10 * MB);
        let source = controller.source(SourceKind::Governor);
        source.require(Requirement::Delayed(Fraction::ONE));
        let client = controller.register("stays");
        let stays = thread::spawn(move || match client.admit(5_000) {
            Admission::Wait(turn) => Some((client, turn)),
            Admission::Passed => None,
        });
        let client = controller.register("goes");
        let goes = thread::spawn(move || drop(client.admit(7_000)));
        let stays = stays.join().unwrap().expect("more than 1,000 bytes do not pass");
        goes.join().unwrap();
        let stats = controller.stats();
        assert_eq!((stats.balance, stats.sleeping), (-5_000, 1));
        assert_eq!(stays.1.wake_at(), Some(1_000 + 500_000), "nobody is ahead of it any more");
    });
}

/// `pressure P4`, `pressure H2`: whoever waits, asleep or parked, hears that the last source has gone, wherever it is then.
#[test]
fn loom_the_release_is_heard() {
    for asks in [Requirement::Stopped, part(1_000)] {
        loom::model(move || {
            let controller = controller(MB);
            let source = controller.source(SourceKind::L0);
            source.require(asks);
            let client = controller.register("db");
            let writer = thread::spawn(move || match client.admit(MB) {
                Admission::Passed => Ok(()),
                Admission::Wait(turn) => wait(turn),
            });
            drop(source);
            assert_eq!(writer.join().unwrap(), Ok(()));
            let stats = controller.stats();
            assert_eq!((stats.balance, stats.sleeping, stats.parked), (0, 0, 0));
        });
    }
}

/// `pressure P5`: a sleeper that a stop moves to the gate, and that the stop's end moves back, hears the end of the delay.
#[test]
fn loom_a_sleeper_is_moved_and_heard() {
    loom::model(|| {
        let controller = controller(MB);
        let [delay, stop] = [SourceKind::Governor, SourceKind::L0].map(|kind| controller.source(kind));
        delay.require(part(1_000));
        let client = controller.register("db");
        let writer = thread::spawn(move || match client.admit(MB) {
            Admission::Passed => Ok(()),
            Admission::Wait(turn) => wait(turn),
        });
        stop.require(Requirement::Stopped);
        drop(stop);
        drop(delay);
        assert_eq!(writer.join().unwrap(), Ok(()));
        assert_eq!(controller.stats().balance, 0);
    });
}

/// `pressure I6`: a shutdown ends a wait that goes on and one that begins; of two clients the other one waits on.
#[test]
fn loom_an_interruption_is_heard() {
    loom::model(|| {
        let controller = controller(MB);
        let source = controller.source(SourceKind::L0);
        source.require(Requirement::Stopped);
        let [one, other] = ["one", "other"].map(|name| Arc::new(controller.register(name)));
        let Admission::Wait(mut others) = other.admit(1) else { panic!("a stop lets nobody pass") };
        let writer = {
            let one = Arc::clone(&one);
            thread::spawn(move || match one.admit(1) {
                Admission::Passed => Ok(()),
                Admission::Wait(turn) => wait(turn),
            })
        };
        one.interrupt(Interrupt::Shutdown);
        assert_eq!(writer.join().unwrap(), Err(WaitEnded::Shutdown));
        assert_eq!(others.try_now(), None);
    });
}

/// `pressure S4`: a requirement is replaced in one step: nobody sees an instant of Normal, or a rate of neither.
#[test]
fn loom_a_replaced_requirement_does_not_flicker() {
    loom::model(|| {
        let controller = controller(64 * MB);
        let source = controller.source(SourceKind::Governor);
        source.require(part(2));
        let seen = {
            let controller = Arc::clone(&controller);
            thread::spawn(move || {
                [(); 2].map(|()| (controller.is_holding(), controller.is_stopped(), controller.rate()))
            })
        };
        source.require(part(4));
        for (holding, stopped, rate) in seen.join().unwrap() {
            assert!(holding && !stopped && [32 * MB, 16 * MB].contains(&rate), "{holding} {stopped} {rate}");
        }
    });
}

/// `pressure S1`, `pressure C11` at the controller: sources that change at once leave what the last word of each means, in the
/// table, in the word that writers read, and in the rate.
#[test]
fn loom_the_strictest_of_two_wins() {
    loom::model(|| {
        let controller = controller(64 * MB);
        let [one, other] =
            [SourceKind::WriteBufferManager, SourceKind::L0].map(|kind| controller.source(kind));
        let first = thread::spawn(move || {
            one.require(Requirement::Stopped);
            one.require(part(2));
            one
        });
        let second = thread::spawn(move || {
            other.require(part(4));
            other
        });
        let (one, other) = (first.join().unwrap(), second.join().unwrap());
        assert_eq!(
            (controller.is_holding(), controller.is_stopped(), controller.rate()),
            (true, false, 16 * MB)
        );
        assert_eq!(controller.stats().sources.len(), 2);
        drop(other);
        assert_eq!((controller.is_stopped(), controller.rate()), (false, 32 * MB));
        drop(one);
        assert_eq!((controller.is_holding(), controller.rate()), (false, 64 * MB));
    });
}

/// `pressure S3`: a top rate that changes beside a source leaves the source's part of the new one.
#[test]
fn loom_the_top_rate_and_a_source() {
    loom::model(|| {
        let controller = controller(64 * MB);
        let source = controller.source(SourceKind::Governor);
        let setter = {
            let controller = Arc::clone(&controller);
            thread::spawn(move || controller.set_max_rate(8 * MB))
        };
        source.require(part(2));
        setter.join().unwrap();
        assert_eq!((controller.rate(), controller.stats().delay_rate), (4 * MB, 4 * MB));
    });
}

/// A ring between the look and the wait is not lost, nor is an unpark before the park.
#[test]
fn loom_a_ring_is_heard() {
    loom::model(|| {
        let event = Arc::new(Event::new());
        let ready = Arc::new(AtomicU64::new(0));
        let waiter = {
            let (event, ready) = (Arc::clone(&event), Arc::clone(&ready));
            thread::spawn(move || {
                loop {
                    let seen = event.rings();
                    if ready.load(Ordering::Acquire) == 1 {
                        return;
                    }
                    event.wait_past(&Still, seen, None);
                }
            })
        };
        ready.store(1, Ordering::Release);
        event.ring();
        waiter.join().unwrap();
    });
}
