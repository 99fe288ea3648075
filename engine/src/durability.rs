//! How far the log is safe: the watermarks, and who waits for them.
//!
//! ```text
//!   stream   0 ........... synced ........... written ........... appended
//!            |  survives    |   in the        |   in our           |
//!            |  power loss  |   kernel        |   buffer           |
//! ```
//!
//! Bytes are kept apart from whole batches: a mark in bytes may lie inside a batch, and the sequence beside it is
//! the last whole batch at or below it ([`Position`]). Only the sequence at the synced mark is ever reported as
//! durable. Every cause of a sync ends in [`Durability::advance`], the only place that moves that mark.
//!
//! This module does no I/O and knows neither segments nor batches; [`crate::wal`] tells it where things stand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sluicedb_controller::{Event, Woken};

use crate::env::Clock;
use crate::error::{Error, Result};
use crate::key::SequenceNumber;
use crate::sync::{Condvar, Mutex};

/// A place in the log's byte stream, and the last whole batch at or below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Position {
    /// Bytes of the stream before this place. May lie inside a batch.
    pub(crate) bytes: u64,
    /// Last sequence of the last batch that ends at or below `bytes`.
    pub(crate) seq: SequenceNumber,
}

/// The three marks at one moment: `appended >= written >= synced`, in bytes and in sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Watermarks {
    /// End of what was appended, our own buffer included.
    pub(crate) appended: Position,
    /// End of what was handed to the kernel.
    pub(crate) written: Position,
    /// End of what survives a power failure. Its `seq` is the durable sequence.
    pub(crate) synced: Position,
}

/// Called with a durable sequence; see [`Durability::subscribe`].
pub(crate) type DurableCallback = Arc<dyn Fn(SequenceNumber) + Send + Sync>;

/// Names one subscription of [`Durability::subscribe`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SubscriptionId(u64);

/// The watermarks of one log and the threads that wait for them.
///
/// Invariant, durable-is-durable: the durable sequence never names a batch that a crash at that instant could
/// lose, never goes back, and never moves again after a failure until [`restart`](Self::restart). Whoever calls
/// [`advance`](Self::advance) has a sync behind it that covers the position.
pub(crate) struct Durability {
    /// Copy of the synced mark's sequence, for readers that take no lock.
    durable_seq: AtomicU64,
    /// Whether `State::failure` is set, for writers that take no lock.
    failed: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
    /// Rung with `changed`, for those who wait with a deadline.
    bell: Event,
}

struct State {
    marks: Watermarks,
    /// The first failure of an append or a sync. Sticky.
    failure: Option<Error>,
    /// Threads inside [`Durability::wait_durable`].
    waiting: usize,
    subscribers: Vec<(SubscriptionId, DurableCallback)>,
    next_subscription: u64,
    /// Durable sequence that subscribers were last told.
    delivered: SequenceNumber,
}

impl Durability {
    /// All marks at `start`: where recovery ended, or zero in a new database.
    pub(crate) fn new(start: Position) -> Self {
        let state = State {
            marks: Watermarks { appended: start, written: start, synced: start },
            failure: None,
            waiting: 0,
            subscribers: Vec::new(),
            next_subscription: 0,
            delivered: start.seq,
        };
        Self {
            durable_seq: AtomicU64::new(start.seq.get()),
            failed: AtomicBool::new(false),
            state: Mutex::new(state),
            changed: Condvar::new(),
            bell: Event::new(),
        }
    }

    /// The largest sequence whose batch survives a power failure now.
    pub(crate) fn durable_sequence(&self) -> SequenceNumber {
        // Written under the lock after the sync that covers it returned; acquire makes all that the syncing
        // thread did before visible to whoever acts on the number.
        SequenceNumber::new(self.durable_seq.load(Ordering::Acquire))
    }

    /// All marks, read together.
    pub(crate) fn watermarks(&self) -> Watermarks {
        self.state.lock().marks
    }

    /// Moves the appended and the written mark forward; the written one only where it was handed over.
    pub(crate) fn note(&self, appended: Position, written: Option<Position>) {
        let mut state = self.state.lock();
        debug_assert!(appended.bytes >= state.marks.appended.bytes);
        state.marks.appended = appended;
        if let Some(written) = written {
            debug_assert!(written.bytes >= state.marks.written.bytes && written.bytes <= appended.bytes);
            state.marks.written = written;
        }
    }

    /// A sync covered the stream up to `to`: moves the synced mark there and completes every waiter at or below.
    /// A position that was passed already, or that comes after a failure, changes nothing. Returns whether the
    /// durable sequence moved.
    pub(crate) fn advance(&self, to: Position) -> bool {
        let mut state = self.state.lock();
        if state.failure.is_some() || to.bytes <= state.marks.synced.bytes {
            return false;
        }
        debug_assert!(to.bytes <= state.marks.written.bytes && to.seq >= state.marks.synced.seq);
        let moved = to.seq > state.marks.synced.seq;
        state.marks.synced = to;
        if moved {
            self.durable_seq.store(to.seq.get(), Ordering::Release); // see `durable_sequence`
            self.wake(&state);
        }
        moved
    }

    /// Latches `error` unless an earlier one is there, and wakes every waiter. Returns the first failure.
    #[cold]
    pub(crate) fn fail(&self, error: Error) -> Error {
        let mut state = self.state.lock();
        let first = state.failure.get_or_insert(error).clone();
        // Writers look at this flag before they take a lock; one that misses the store sees the failure under
        // the state lock or at its own sync, and is not acknowledged as durable either way.
        self.failed.store(true, Ordering::Release);
        self.wake(&state);
        first
    }

    /// The first failure, if there was one.
    pub(crate) fn failure(&self) -> Option<Error> {
        if !self.failed.load(Ordering::Acquire) {
            return None; // see `fail`
        }
        self.state.lock().failure.clone()
    }

    /// Refuses with the first failure, if there was one.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        self.failure().map_or(Ok(()), Err)
    }

    /// Whether the batch of `seq` is durable: `Ok(false)` means not yet, an error means that it never will be
    /// known to be.
    #[cfg_attr(not(test), expect(dead_code, reason = "tickets of asynchronous writes will poll"))]
    pub(crate) fn poll_durable(&self, seq: SequenceNumber) -> Result<bool> {
        if self.durable_sequence() >= seq {
            return Ok(true);
        }
        let state = self.state.lock();
        Self::answer(&state, seq)
    }

    /// Waits until the batch of `seq` is durable. Asks for no sync; somebody else's completes it.
    ///
    /// # Errors
    ///
    /// The failure that froze the durable sequence below `seq`.
    pub(crate) fn wait_durable(&self, seq: SequenceNumber) -> Result<()> {
        if self.durable_sequence() >= seq {
            return Ok(());
        }
        let mut state = self.state.lock();
        state.waiting += 1;
        let result = loop {
            match Self::answer(&state, seq) {
                Ok(true) => break Ok(()),
                Ok(false) => self.changed.wait(&mut state),
                Err(error) => break Err(error),
            }
        };
        state.waiting -= 1;
        result
    }

    /// The same, until `deadline` of `clock` at most; whether it is durable.
    pub(crate) fn wait_durable_until(
        &self,
        seq: SequenceNumber,
        clock: &dyn Clock,
        deadline: u64,
    ) -> Result<bool> {
        loop {
            let seen = {
                let mut state = self.state.lock();
                if Self::answer(&state, seq)? {
                    return Ok(true);
                }
                state.waiting += 1;
                self.bell.rings()
            };
            crate::sync::forbid_held_locks("wait for a sync");
            let woken = self.bell.wait_past(clock, seen, Some(deadline));
            let mut state = self.state.lock();
            state.waiting -= 1;
            if woken == Woken::Deadline {
                return Self::answer(&state, seq);
            }
        }
    }

    fn answer(state: &State, seq: SequenceNumber) -> Result<bool> {
        if state.marks.synced.seq >= seq {
            return Ok(true);
        }
        state.failure.clone().map_or(Ok(false), Err)
    }

    fn wake(&self, state: &State) {
        if state.waiting > 0 {
            self.changed.notify_all();
            self.bell.ring();
        }
    }

    /// Whether [`deliver`](Self::deliver) would call somebody.
    pub(crate) fn has_news(&self) -> bool {
        let state = self.state.lock();
        !state.subscribers.is_empty() && state.marks.synced.seq > state.delivered
    }

    /// Asks to be told of the durable sequence whenever it has moved, by whoever runs [`deliver`](Self::deliver).
    pub(crate) fn subscribe(&self, callback: DurableCallback) -> SubscriptionId {
        let mut state = self.state.lock();
        let id = SubscriptionId(state.next_subscription);
        state.next_subscription += 1;
        state.subscribers.push((id, callback));
        id
    }

    /// Ends a subscription. A round that is running may still call it.
    pub(crate) fn unsubscribe(&self, id: SubscriptionId) {
        self.state.lock().subscribers.retain(|(other, _)| *other != id);
    }

    /// Tells the subscribers if the durable sequence moved since the last round, with no lock held. For a
    /// background job, never for the leader. Returns whether there was anything to tell.
    pub(crate) fn deliver(&self) -> bool {
        let (durable, callbacks) = {
            let mut state = self.state.lock();
            let durable = state.marks.synced.seq;
            if durable <= state.delivered {
                return false;
            }
            state.delivered = durable;
            (durable, state.subscribers.iter().map(|(_, callback)| Arc::clone(callback)).collect::<Vec<_>>())
        };
        for callback in callbacks {
            callback(durable);
        }
        true
    }

    /// Clears the failure and puts all marks at `at`: the last step of resuming, when everything up to `at` is
    /// safe by other means (in synced SSTs that a synced manifest names).
    pub(crate) fn restart(&self, at: Position) {
        let mut state = self.state.lock();
        debug_assert!(at.bytes >= state.marks.appended.bytes && at.seq >= state.marks.synced.seq);
        state.marks = Watermarks { appended: at, written: at, synced: at };
        state.failure = None;
        self.durable_seq.store(at.seq.get(), Ordering::Release); // see `durable_sequence`
        self.failed.store(false, Ordering::Release); // see `fail`
        self.wake(&state);
    }
}

impl std::fmt::Debug for Durability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Durability").field("marks", &state.marks).field("failure", &state.failure).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn at(bytes: u64, seq: u64) -> Position {
        Position { bytes, seq: SequenceNumber::new(seq) }
    }

    fn broken() -> Error {
        Error::io("sync", Path::new("000001.log"), std::io::Error::other("broken"))
    }

    /// The durable sequence follows syncs only, never goes back, and stands still after a failure.
    #[test]
    fn only_a_sync_makes_durable() {
        let durability = Durability::new(at(0, 0));
        durability.note(at(100, 1), None);
        durability.note(at(250, 2), Some(at(200, 1)));
        assert_eq!(durability.durable_sequence(), SequenceNumber::ZERO);
        assert!(durability.advance(at(200, 1)));
        assert!(!durability.advance(at(100, 1)), "a late, smaller sync");
        assert_eq!(durability.watermarks().synced, at(200, 1));
        durability.fail(broken());
        durability.note(at(250, 2), Some(at(250, 2)));
        assert!(!durability.advance(at(250, 2)), "a sync that ended after the failure");
        assert_eq!(durability.durable_sequence(), SequenceNumber::new(1));
        assert!(durability.wait_durable(SequenceNumber::new(1)).is_ok());
        assert!(durability.wait_durable(SequenceNumber::new(2)).is_err());
    }

    /// The first failure is kept and wakes whoever waits; a restart clears it.
    #[test]
    fn a_failure_wakes_waiters() {
        let durability = Durability::new(at(0, 0));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| durability.wait_durable(SequenceNumber::new(7)));
            while durability.state.lock().waiting == 0 {
                std::thread::yield_now();
            }
            durability.fail(broken());
            assert!(waiter.join().unwrap().unwrap_err().to_string().contains("broken"));
        });
        durability.fail(Error::ShutdownInProgress);
        assert!(durability.failure().unwrap().to_string().contains("broken"), "the first one is kept");
        durability.restart(at(500, 9));
        assert!(durability.check().is_ok());
        assert_eq!(durability.durable_sequence(), SequenceNumber::new(9));
    }

    /// Subscribers hear of the newest durable sequence once per round, however many syncs lie between.
    #[test]
    fn rounds_coalesce() {
        let durability = Durability::new(at(0, 0));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let ear = Arc::clone(&heard);
        let id = durability.subscribe(Arc::new(move |seq| ear.lock().push(seq.get())));
        durability.note(at(300, 3), Some(at(300, 3)));
        durability.advance(at(100, 1));
        durability.advance(at(200, 2));
        assert!(durability.deliver());
        assert!(!durability.deliver());
        durability.unsubscribe(id);
        durability.advance(at(300, 3));
        durability.deliver();
        assert_eq!(*heard.lock(), [2]);
    }
}
