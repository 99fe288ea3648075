//! [`Seat`]: where one thread waits for a leader, and how it is called.

use std::sync::atomic::{AtomicBool, Ordering};

use super::group::Errand;
use super::queue::{Desk, Outcome, QueueCounts};
use crate::sync::{Condvar, Mutex};

/// Turns of the loop in which a thread waits before it parks: about 2 us, a fraction of what parking costs.
const SPINS: u32 = 50;

/// What a waiting thread is called for.
#[derive(Debug)]
pub(super) enum Call<W, S> {
    /// To lead.
    Lead(Box<Desk<W, S>>),
    /// To insert its own unit, for a leader that waits.
    Insert(Errand<W>),
    /// Its unit is done.
    Done(Outcome),
}

/// Where one thread waits.
#[derive(Debug)]
pub(super) struct Seat<W, S> {
    state: Mutex<State<W, S>>,
    changed: Condvar,
    /// Whether there is a call, for the thread that spins.
    called: AtomicBool,
}

#[derive(Debug)]
struct State<W, S> {
    call: Option<Call<W, S>>,
    parked: bool,
}

impl<W, S> Seat<W, S> {
    pub(super) fn new() -> Self {
        let state = State { call: None, parked: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), called: AtomicBool::new(false) }
    }

    /// Calls the thread. There is one call at a time: a leader's.
    pub(super) fn call(&self, call: Call<W, S>, counts: &QueueCounts) {
        let mut state = self.state.lock();
        debug_assert!(state.call.is_none(), "one call at a time");
        state.call = Some(call);
        // Only a hint to look under the lock.
        self.called.store(true, Ordering::Relaxed);
        if state.parked {
            counts.wake_ups.add(1);
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Waits for the next call.
    pub(super) fn wait(&self, counts: &QueueCounts) -> Call<W, S> {
        for _ in 0..SPINS {
            if self.called.load(Ordering::Relaxed) {
                break;
            }
            std::hint::spin_loop();
        }
        let mut state = self.state.lock();
        loop {
            if let Some(call) = state.call.take() {
                state.parked = false;
                self.called.store(false, Ordering::Relaxed);
                return call;
            }
            if !std::mem::replace(&mut state.parked, true) {
                counts.parks.add(1);
            }
            self.changed.wait(&mut state);
        }
    }
}
