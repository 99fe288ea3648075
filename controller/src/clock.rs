//! [`Clock`]: the only way to time, for this crate and everything above it.
//!
//! A clock tells the time and *waits*: a thread that sleeps, or waits for another with or without a deadline, does so
//! with [`Clock::park`] on a [`Parker`], so that tests own every passing second. [`SystemClock`] is the real one,
//! `ManualClock` (feature `manual-clock`) the one that tests set. [`Event`] is a bell for any number of waiters on
//! top of it. What anybody waits for is not known here.

use std::fmt::Debug;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use crate::sync::{Condvar, Mutex};

mod event;
#[cfg(any(test, feature = "manual-clock"))]
mod manual;

pub use event::Event;
#[cfg(any(test, feature = "manual-clock"))]
pub use manual::ManualClock;

/// Tells the time, and waits.
///
/// All deadlines are [`now_nanos`](Self::now_nanos) values of the same clock.
pub trait Clock: Send + Sync + Debug + 'static {
    /// Monotonic time in nanoseconds since an arbitrary start.
    fn now_nanos(&self) -> u64;

    /// Wall-clock time in microseconds since 1970-01-01 UTC. May jump; for people, never for a wait.
    fn unix_micros(&self) -> u64;

    /// Blocks until `parker` is unparked, or until `deadline` (`None`: for ever), whichever is first.
    ///
    /// An [`unpark`](Parker::unpark) before the call is not lost: it makes the call return at once. Never returns
    /// for no reason. Hold no lock: whoever is to unpark may need it.
    ///
    /// ```
    /// # use sluicedb_controller::{Clock, Parker, SystemClock, Woken};
    /// let (clock, parker) = (SystemClock::default(), Parker::new());
    /// parker.unpark();
    /// assert_eq!(clock.park(&parker, None), Woken::Unparked);
    /// assert_eq!(clock.park(&parker, Some(clock.now_nanos())), Woken::Deadline);
    /// ```
    fn park(&self, parker: &Parker, deadline: Option<u64>) -> Woken;

    /// Announces a thread that is about to start, so that a virtual clock does not move time on without it. The
    /// spawner calls it; the thread then calls [`ThreadTicket::enter`]. Real clocks do nothing.
    fn announce_thread(&self) -> ThreadTicket {
        ThreadTicket::none()
    }

    /// Blocks for `limit`. A convenience over [`park`](Self::park).
    fn sleep(&self, limit: Duration) {
        self.park(&Parker::new(), Some(deadline_after(self.now_nanos(), limit)));
    }
}

/// `now` plus `limit`, saturating, in nanoseconds.
pub fn deadline_after(now: u64, limit: Duration) -> u64 {
    now.saturating_add(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX))
}

/// Why [`Clock::park`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// [`Parker::unpark`] was called. Also when the deadline has passed as well.
    Unparked,
    /// The deadline has come.
    Deadline,
}

/// Where one thread waits and any other wakes it. Cheap to clone; the clones are the same parker.
///
/// One thread waits at a time. Waking is a token, not a pulse: [`unpark`](Self::unpark) before the wait ends it at
/// once, and several count as one.
#[derive(Debug, Clone, Default)]
pub struct Parker(Arc<Slot>);

#[derive(Debug, Default)]
struct Slot {
    state: Mutex<SlotState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SlotState {
    unparked: bool,
    due: bool,
}

impl Parker {
    /// A parker that nobody has unparked.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the wait in progress, or the next one. May be called with any lock held.
    pub fn unpark(&self) {
        self.0.state.lock().unparked = true;
        self.0.changed.notify_one();
    }

    /// For implementations of [`Clock::park`]: takes the token, if [`unpark`](Self::unpark) has left one.
    pub fn take_token(&self) -> bool {
        std::mem::take(&mut self.0.state.lock().unparked)
    }

    /// For implementations of [`Clock::park`]: whether a token is there.
    pub fn has_token(&self) -> bool {
        self.0.state.lock().unparked
    }

    /// For implementations of [`Clock::park`]: ends the wait in progress with [`Woken::Deadline`].
    pub fn call_deadline(&self) {
        self.0.state.lock().due = true;
        self.0.changed.notify_one();
    }

    /// For implementations of [`Clock::park`]: forgets a [`call_deadline`](Self::call_deadline) of an earlier wait.
    pub fn clear_deadline(&self) {
        self.0.state.lock().due = false;
    }

    /// For implementations of [`Clock::park`]: blocks until there is a token or the deadline was called, and leaves
    /// both in place: a clock that watches its waiters takes them under its own lock, so that none is ever seen asleep
    /// that is about to run.
    pub fn wait_for_signal(&self) {
        let mut state = self.0.state.lock();
        while !state.unparked && !state.due {
            self.0.changed.wait(&mut state);
        }
    }

    /// For implementations of [`Clock::park`]: blocks, at most `limit` of real time.
    #[expect(clippy::disallowed_methods, reason = "the real clock's only wait")]
    pub fn wait(&self, limit: Option<Duration>) -> Woken {
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut state = self.0.state.lock();
        loop {
            if std::mem::take(&mut state.unparked) {
                state.due = false;
                return Woken::Unparked;
            }
            if std::mem::take(&mut state.due) {
                return Woken::Deadline;
            }
            match until {
                Some(until) if Instant::now() >= until => return Woken::Deadline,
                Some(until) => {
                    self.0.changed.wait_until(&mut state, until);
                }
                None => self.0.changed.wait(&mut state),
            }
        }
    }
}

/// A thread that a clock counts on, announced and not yet begun. Dropping it takes the announcement back.
#[derive(Debug)]
pub struct ThreadTicket {
    #[cfg(any(test, feature = "manual-clock"))]
    clock: Option<manual::Membership>,
}

impl ThreadTicket {
    /// The ticket of a clock that counts nobody.
    pub fn none() -> Self {
        Self {
            #[cfg(any(test, feature = "manual-clock"))]
            clock: None,
        }
    }

    /// The calling thread is the one that was announced; it counts until the guard is dropped.
    pub fn enter(self) -> ThreadGuard {
        #[cfg(any(test, feature = "manual-clock"))]
        if let Some(membership) = &self.clock {
            membership.enter();
        }
        ThreadGuard { _ticket: self, _not_send: std::marker::PhantomData }
    }
}

/// The calling thread counts for the clock; see [`Clock::announce_thread`]. Drop it before joining other threads.
#[derive(Debug)]
pub struct ThreadGuard {
    _ticket: ThreadTicket,
    _not_send: std::marker::PhantomData<*const ()>,
}

/// The machine's clock. All instances of a process agree.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the real clock")]
    fn now_nanos(&self) -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        // One nanosecond is added so that 0 is free to mean "never" where somebody wants that.
        let start = *START.get_or_init(Instant::now);
        u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX - 1) + 1
    }

    #[expect(clippy::disallowed_methods, reason = "the real clock")]
    fn unix_micros(&self) -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }

    fn park(&self, parker: &Parker, deadline: Option<u64>) -> Woken {
        let limit = deadline.map(|deadline| Duration::from_nanos(deadline.saturating_sub(self.now_nanos())));
        parker.wait(limit)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
