//! [`ManualClock`]: time that tests set by hand, or that jumps when everybody waits.
//!
//! *Settable*: time stands still until [`advance`](ManualClock::advance) or [`set`](ManualClock::set); waits whose
//! deadline has come then end. *Virtual*: the same, and when every announced thread waits in [`Clock::park`], time
//! jumps to the earliest deadline. Threads that were not announced never hold time back.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Clock, Parker, ThreadGuard, ThreadTicket, Woken};
use crate::sync::atomic::{AtomicU64, Ordering};
#[cfg(shuttle)]
use crate::sync::thread_local;
use crate::sync::{Condvar, Mutex};

thread_local! {
    /// Address of the clock that counts this thread; 0 when none does.
    static COUNTED_BY: Cell<usize> = const { Cell::new(0) };
}

/// A clock for tests. Clones share the time.
#[derive(Debug, Clone)]
pub struct ManualClock {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    now: AtomicU64,
    jumps: bool,
    state: Mutex<State>,
    /// Somebody began to wait.
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: BTreeMap<u64, Waiting>,
    next: u64,
    /// Announced threads.
    threads: usize,
}

#[derive(Debug)]
struct Waiting {
    parker: Parker,
    deadline: Option<u64>,
    counted: bool,
    /// Its deadline has been called; it is about to run.
    due: bool,
}

impl ManualClock {
    /// A settable clock that shows `nanos`.
    pub fn new(nanos: u64) -> Self {
        Self::make(nanos, false)
    }

    /// A virtual clock that shows `nanos`.
    pub fn new_virtual(nanos: u64) -> Self {
        Self::make(nanos, true)
    }

    fn make(nanos: u64, jumps: bool) -> Self {
        let shared = Shared {
            now: AtomicU64::new(nanos),
            jumps,
            state: Mutex::default(),
            arrived: Condvar::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Moves time on by `by` and ends the waits whose deadline has come.
    pub fn advance(&self, by: Duration) {
        self.set(super::deadline_after(self.now_nanos(), by));
    }

    /// Moves time on to `nanos`; an earlier time changes nothing.
    pub fn set(&self, nanos: u64) {
        let mut state = self.shared.state.lock();
        self.shared.move_to(&mut state, nanos);
    }

    /// Threads that wait in [`Clock::park`] and have not been woken.
    pub fn waiting(&self) -> usize {
        self.shared.state.lock().asleep()
    }

    /// The earliest deadline of a waiting thread.
    pub fn next_deadline(&self) -> Option<u64> {
        self.shared.state.lock().earliest()
    }

    /// Blocks, in real time, until `count` threads wait and none of the waiting is about to run.
    pub fn wait_until_waiting(&self, count: usize) {
        let mut state = self.shared.state.lock();
        while state.asleep() != count || state.waiting.len() != count {
            self.shared.arrived.wait(&mut state);
        }
    }

    /// Announces and enters in one: the calling thread counts until the guard is dropped.
    pub fn enter_thread(&self) -> ThreadGuard {
        self.announce_thread().enter()
    }
}

impl Clock for ManualClock {
    fn now_nanos(&self) -> u64 {
        // Acquire: who sees the new time sees what was done before it was set.
        self.shared.now.load(Ordering::Acquire)
    }

    fn unix_micros(&self) -> u64 {
        1_700_000_000_000_000 + self.now_nanos() / 1_000
    }

    fn park(&self, parker: &Parker, deadline: Option<u64>) -> Woken {
        let counted = COUNTED_BY.with(Cell::get) == Arc::as_ptr(&self.shared).addr();
        let id = {
            let mut state = self.shared.state.lock();
            if parker.take_token() {
                return Woken::Unparked;
            }
            if deadline.is_some_and(|deadline| deadline <= self.now_nanos()) {
                return Woken::Deadline;
            }
            parker.clear_deadline();
            let id = state.next;
            state.next += 1;
            state.waiting.insert(id, Waiting { parker: parker.clone(), deadline, counted, due: false });
            self.shared.jump_if_all_wait(&mut state);
            self.shared.arrived.notify_all();
            id
        };
        parker.wait_for_signal();
        let mut state = self.shared.state.lock();
        let woken = if parker.take_token() { Woken::Unparked } else { Woken::Deadline };
        state.waiting.remove(&id);
        if !counted {
            self.shared.jump_if_all_wait(&mut state);
        }
        self.shared.arrived.notify_all();
        woken
    }

    fn announce_thread(&self) -> ThreadTicket {
        self.shared.state.lock().threads += 1;
        ThreadTicket {
            clock: Some(Membership { shared: Arc::clone(&self.shared), entered: Cell::new(false) }),
        }
    }
}

impl Shared {
    fn move_to(&self, state: &mut State, nanos: u64) {
        if nanos <= self.now.load(Ordering::Acquire) {
            return;
        }
        self.now.store(nanos, Ordering::Release);
        for waiting in state.waiting.values_mut() {
            if !waiting.due && waiting.deadline.is_some_and(|deadline| deadline <= nanos) {
                waiting.due = true;
                waiting.parker.call_deadline();
            }
        }
    }

    fn jump_if_all_wait(&self, state: &mut State) {
        let about_to_run = state.asleep() != state.waiting.len();
        let counted = state.waiting.values().filter(|waiting| waiting.counted).count();
        if !self.jumps || about_to_run || counted < state.threads {
            return;
        }
        if let Some(earliest) = state.earliest() {
            self.move_to(state, earliest);
        }
    }
}

impl State {
    fn asleep(&self) -> usize {
        self.waiting.values().filter(|waiting| !waiting.due && !waiting.parker.has_token()).count()
    }

    fn earliest(&self) -> Option<u64> {
        self.waiting.values().filter_map(|waiting| waiting.deadline).min()
    }
}

/// One announced thread of a clock.
#[derive(Debug)]
pub(super) struct Membership {
    shared: Arc<Shared>,
    entered: Cell<bool>,
}

impl Membership {
    pub(super) fn enter(&self) {
        COUNTED_BY.with(|by| by.set(Arc::as_ptr(&self.shared).addr()));
        self.entered.set(true);
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        if self.entered.get() {
            COUNTED_BY.with(|by| by.set(0));
        }
        let mut state = self.shared.state.lock();
        state.threads -= 1;
        self.shared.jump_if_all_wait(&mut state);
    }
}
