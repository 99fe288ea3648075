//! Every interleaving of threads that move bytes and publish. `pressure C11`, the publishing pair.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p sluicedb-wbm --release --lib loom`.

use std::sync::Arc as StdArc;

use loom::sync::Arc;
use loom::thread;
use sluicedb_controller::SystemClock;

use super::*;
use crate::sync::atomic::Ordering::SeqCst;

/// Keeps the last word.
#[derive(Default)]
struct Last(std::sync::atomic::AtomicU8);

impl PressureSink for Last {
    fn set_pressure(&self, _: SourceId, pressure: Pressure) {
        self.0.store(pressure.code(), SeqCst);
    }
}

struct Model {
    usage: Usage,
    signal: Signal,
}

impl Model {
    fn moved(&self) {
        if self.signal.is_stale(&self.usage, self.usage.used.load(SeqCst)) {
            self.signal.publish(&self.usage, &SystemClock);
        }
    }

    fn grow(&self, bytes: u64) {
        self.usage.used.fetch_add(bytes, SeqCst);
        self.moved();
    }

    fn give_back(&self, bytes: u64) {
        self.usage.used.fetch_sub(bytes, SeqCst);
        self.moved();
    }
}

fn check(start: u64, acts: [fn(&Model); 2]) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3); // without it the model of queued bytes takes more than ten minutes
    builder.check(move || {
        let quota = Quota::new(10, 70).unwrap();
        let source = SourceId::new(sluicedb_controller::SourceKind::WriteBufferManager);
        let model = Arc::new(Model { usage: Usage::default(), signal: Signal::new(source, quota, true, 0) });
        let sink = StdArc::new(Last::default());
        let told: StdArc<dyn PressureSink> = StdArc::clone(&sink) as _;
        model.signal.attach(&told);
        model.grow(start);
        let others = acts.map(|act| {
            let model = Arc::clone(&model);
            thread::spawn(move || act(&model))
        });
        others.into_iter().for_each(|other| other.join().unwrap());
        let expected = quota.pressure_at(model.usage.used.load(SeqCst));
        assert_eq!(model.signal.pressure(), expected);
        assert_eq!(sink.0.load(SeqCst), expected.code());
    });
}

/// A return ends the stop while a charge, which still sees the stop, begins it again.
#[test]
fn loom_a_stop_that_ends_and_begins() {
    check(10, [|model| model.give_back(1), |model| model.grow(1)]);
}

/// A charge begins the stop while a return, which still sees the delay, ends it.
#[test]
fn loom_a_stop_that_begins_and_ends() {
    check(9, [|model| model.grow(1), |model| model.give_back(1)]);
}

/// The last flush leaves no stale stop behind, whatever charges beside it.
#[test]
fn loom_the_last_flush_is_heard() {
    check(10, [|model| model.give_back(9), |model| model.grow(6)]);
}

/// Queued bytes turn into charged ones beside a return.
#[test]
fn loom_queued_bytes_are_seen() {
    check(
        5,
        [
            |model| {
                model.usage.queued.fetch_add(3, SeqCst);
                model.moved();
                model.usage.queued.fetch_sub(3, SeqCst);
                model.grow(3);
            },
            |model| model.give_back(1),
        ],
    );
}
