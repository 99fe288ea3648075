//! One controller on a clock that stands still until told: sources, rates, claims.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::*;
use crate::{Fraction, ManualClock, Parker, Turn, Wake, Woken};

mod rates;
mod waits;

const MB: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// A controller, one client, and the turns that it has not picked up.
struct Rig {
    clock: ManualClock,
    controller: Arc<WriteController>,
    client: Client,
    turns: Vec<Turn>,
}

impl Rig {
    fn new(max_rate: u64) -> Self {
        let clock = ManualClock::new(6_666_000);
        let options = ControllerOptions::with_rate(max_rate);
        let controller = WriteController::new(&options, Arc::new(clock.clone())).unwrap();
        let client = controller.register("db");
        Self { clock, controller, client, turns: Vec::new() }
    }

    /// A source that asks for `part` of `whole`.
    fn delay(&self, part: u64, whole: u64) -> Source {
        let source = self.controller.source(SourceKind::L0);
        source.require(Requirement::Delayed(Fraction::ratio(part, whole).unwrap()));
        source
    }

    fn stop(&self) -> Source {
        let source = self.controller.source(SourceKind::WriteBufferManager);
        source.require(Requirement::Stopped);
        source
    }

    /// Claims `bytes`; returns the wait in ns.
    fn claim(&mut self, bytes: u64) -> u64 {
        match self.client.admit(bytes) {
            Admission::Passed => 0,
            Admission::Wait(turn) => {
                let wait = turn.try_wait_nanos(&self.clock);
                self.turns.push(turn);
                wait
            }
        }
    }

    /// Claims `bytes` and lets the wait pass.
    fn pay(&mut self, bytes: u64) -> u64 {
        let wait = self.claim(bytes);
        self.pass(wait);
        assert!(self.turns.drain(..).all(|mut turn| turn.try_now() == Some(Ok(()))), "{bytes} still waits");
        wait
    }

    fn pass(&self, nanos: u64) {
        self.clock.advance(Duration::from_nanos(nanos));
    }

    fn stats(&self) -> ControllerStats {
        self.controller.stats()
    }
}

trait TurnExt {
    fn try_wait_nanos(&self, clock: &ManualClock) -> u64;
}

impl TurnExt for Turn {
    /// How long the wait will be at the present rate; panics at the gate.
    fn try_wait_nanos(&self, clock: &ManualClock) -> u64 {
        self.wake_at().expect("asleep, not parked") - clock.now_nanos()
    }
}
