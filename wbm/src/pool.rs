//! [`MemoryPool`] and [`MemoryLease`]: bounded bytes in flight, such as those of a commit queue.
//!
//! Admission is one compare-and-swap that needs one byte of room, whatever the size of the unit; so at most one unit
//! is overdrawn at a time, for any number of threads. Who finds no room waits in one FIFO, as a thread or as a task;
//! while anybody waits, newcomers are refused or queue behind. The word of `used` carries the bit "somebody waits".
//! An owner with a further bound can hold the FIFO, whatever room there is (`hold.rs`). Who queues what is not known here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;

use sluicedb_controller::{Clock, Parker};

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};
use hold::Hold;

mod hold;
mod lease;
mod turn;

pub use lease::MemoryLease;
pub use turn::PoolTurn;

/// The lowest bit of the word: somebody waits. The rest is `used`.
const WAITERS: u64 = 1;
/// One byte in the word.
const BYTE: u64 = 2;
/// The capacity that stands for "unlimited".
const UNLIMITED: u64 = u64::MAX;

/// A bound of bytes, shared by all who take of it. Cheap to clone; the clones are the same pool.
#[derive(Debug, Clone)]
pub struct MemoryPool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// `used * BYTE + WAITERS if somebody waits`.
    word: AtomicU64,
    capacity: AtomicU64,
    queue: Mutex<Queue>,
    clock: Arc<dyn Clock>,
    peak: AtomicU64,
    admitted: AtomicU64,
    refused: AtomicU64,
}

#[derive(Debug, Default)]
struct Queue {
    waiters: BTreeMap<u64, Waiter>,
    next: u64,
    /// The next place before all that wait, and before [`LATER`].
    next_early: u64,
    closed: bool,
    hold: Hold,
}

/// Places from here on are behind those of [`Queue::next_early`].
const LATER: u64 = 1 << 63;

#[derive(Debug)]
struct Waiter {
    want: Want,
    parker: Parker,
    waker: Option<Waker>,
    /// Its wait is over.
    outcome: Option<Result<(), PoolWaitEnded>>,
    /// It was let through a hold.
    passes: bool,
}

/// What somebody takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Want {
    /// This many bytes, for one byte of room.
    Admission(u64),
    /// This many bytes, all within the capacity.
    Reservation(u64),
    /// Nothing: to know that there is room.
    Room,
}

/// Why a wait for room ended without any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PoolWaitEnded {
    /// The deadline has passed.
    #[error("no room before the deadline")]
    TimedOut,
    /// The pool was closed.
    #[error("the pool is closed")]
    Closed,
    /// More bytes than the pool will ever have.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

/// A reservation of more bytes than the capacity. It would wait for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes do not fit a pool of {capacity}")]
pub struct TooLarge {
    /// What was asked for.
    pub bytes: u64,
    /// What the pool has.
    pub capacity: u64,
}

/// What [`MemoryPool::start_admit`] answers.
#[derive(Debug)]
#[must_use]
pub enum PoolAdmission {
    /// Room at once.
    Admitted(MemoryLease),
    /// A place in the FIFO.
    Wait(PoolTurn),
}

/// A pool at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Bytes leased; 0 when unlimited.
    pub used: u64,
    /// The bound; 0 when unlimited.
    pub capacity: u64,
    /// Bytes beyond the bound.
    pub overdraft: u64,
    /// Most bytes leased at once so far.
    pub peak: u64,
    /// Admissions and reservations so far.
    pub admitted: u64,
    /// Attempts refused for want of room so far.
    pub refused: u64,
    /// Threads and tasks that wait.
    pub waiting: usize,
}

impl MemoryPool {
    /// A pool of `capacity` bytes, at least 1; `u64::MAX` is unlimited. Waits go through `clock`.
    pub fn new(capacity: u64, clock: Arc<dyn Clock>) -> Self {
        let shared = Shared {
            word: AtomicU64::new(0),
            capacity: AtomicU64::new(capacity.max(1)),
            queue: Mutex::default(),
            clock,
            peak: AtomicU64::new(0),
            admitted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// A pool without a bound: it tracks nothing.
    pub fn unlimited(clock: Arc<dyn Clock>) -> Self {
        Self::new(UNLIMITED, clock)
    }

    /// Admits a unit of `bytes` if there is at least one byte of room and nobody waits. One atomic step.
    pub fn try_admit(&self, bytes: u64) -> Option<MemoryLease> {
        self.try_take(Want::Admission(bytes)).map(|bytes| MemoryLease::new(self, bytes))
    }

    /// Takes `bytes` if all of them fit the capacity and nobody waits. 0 bytes always succeed.
    pub fn try_reserve(&self, bytes: u64) -> Option<MemoryLease> {
        self.try_take(Want::Reservation(bytes)).map(|bytes| MemoryLease::new(self, bytes))
    }

    /// Takes `bytes` without a look at the capacity, even if the pool is closed. For what must never wait.
    ///
    /// # Panics
    ///
    /// If the sum of all leases overflows 2^63 bytes.
    pub fn force_reserve(&self, bytes: u64) -> MemoryLease {
        self.force(bytes);
        MemoryLease::new(self, bytes)
    }

    /// Like [`try_admit`](Self::try_admit), waiting in the FIFO until `deadline` (clock time in ns; `None`: for ever).
    ///
    /// # Errors
    ///
    /// [`PoolWaitEnded`]; nothing is taken.
    pub fn admit(&self, bytes: u64, deadline: Option<u64>) -> Result<MemoryLease, PoolWaitEnded> {
        match self.start_admit(bytes) {
            PoolAdmission::Admitted(lease) => Ok(lease),
            PoolAdmission::Wait(mut turn) => turn.wait(deadline),
        }
    }

    /// Admits at once, or takes a place in the FIFO that a thread or a task can wait at.
    pub fn start_admit(&self, bytes: u64) -> PoolAdmission {
        match self.try_admit(bytes) {
            Some(lease) => PoolAdmission::Admitted(lease),
            None => PoolAdmission::Wait(self.join(Want::Admission(bytes))),
        }
    }

    /// Like [`try_reserve`](Self::try_reserve), waiting in the FIFO.
    ///
    /// # Errors
    ///
    /// [`PoolWaitEnded`]; more than the capacity is [`PoolWaitEnded::TooLarge`] at once.
    pub fn reserve(&self, bytes: u64, deadline: Option<u64>) -> Result<MemoryLease, PoolWaitEnded> {
        let capacity = self.shared.capacity.load(Ordering::SeqCst);
        if bytes > capacity {
            return Err(TooLarge { bytes, capacity }.into());
        }
        match self.try_reserve(bytes) {
            Some(lease) => Ok(lease),
            None => self.join(Want::Reservation(bytes)).wait(deadline),
        }
    }

    /// Waits, in the FIFO, until there is room. Takes nothing and promises nothing.
    ///
    /// # Errors
    ///
    /// [`PoolWaitEnded`].
    pub fn wait_until_available(&self, deadline: Option<u64>) -> Result<(), PoolWaitEnded> {
        if self.try_take(Want::Room).is_some() {
            return Ok(());
        }
        self.join(Want::Room).wait(deadline).map(drop)
    }

    /// Bytes of room; the largest number when unlimited.
    pub fn available(&self) -> u64 {
        match self.shared.capacity.load(Ordering::SeqCst) {
            UNLIMITED => u64::MAX,
            capacity => capacity.saturating_sub(self.shared.used()),
        }
    }

    /// Bytes beyond the capacity; 0 when unlimited.
    pub fn overdraft(&self) -> u64 {
        self.shared.used().saturating_sub(self.shared.capacity.load(Ordering::SeqCst))
    }

    /// Bytes leased; 0 when unlimited.
    pub fn used(&self) -> u64 {
        self.shared.used()
    }

    /// The bound, in bytes; 0 when unlimited.
    pub fn capacity(&self) -> u64 {
        match self.shared.capacity.load(Ordering::SeqCst) {
            UNLIMITED => 0,
            capacity => capacity,
        }
    }

    /// Changes the bound, to at least 1 byte. More wakes whoever fits now; less leaves leases valid and admits nobody
    /// until enough is returned. A pool made unlimited stays so, and a bounded one bounded.
    pub fn set_capacity(&self, capacity: u64) {
        if self.is_unlimited() {
            return;
        }
        self.shared.capacity.store(capacity.clamp(1, UNLIMITED - 1), Ordering::SeqCst);
        self.serve();
    }

    /// Ends all waits, and those that begin until [`reopen`](Self::reopen), with [`PoolWaitEnded::Closed`]; attempts
    /// are refused. Leases stay valid.
    pub fn close(&self) {
        let mut queue = self.shared.queue.lock();
        queue.closed = true;
        // Closed and empty, the queue still sends every attempt to the lock.
        self.shared.word.fetch_or(WAITERS, Ordering::SeqCst);
        let ended = queue.end_all();
        drop(queue);
        wake_all(ended);
    }

    /// Ends [`close`](Self::close).
    pub fn reopen(&self) {
        self.shared.queue.lock().closed = false;
        self.serve();
    }

    /// Whether it is closed.
    pub fn is_closed(&self) -> bool {
        self.shared.queue.lock().closed
    }

    /// Everything there is to see.
    pub fn stats(&self) -> PoolStats {
        PoolStats {
            used: self.used(),
            capacity: self.capacity(),
            overdraft: self.overdraft(),
            peak: self.shared.peak.load(Ordering::Relaxed), // statistics
            admitted: self.shared.admitted.load(Ordering::Relaxed), // statistics
            refused: self.shared.refused.load(Ordering::Relaxed), // statistics
            waiting: self
                .shared
                .queue
                .lock()
                .waiters
                .values()
                .filter(|waiter| waiter.outcome.is_none())
                .count(),
        }
    }

    fn is_unlimited(&self) -> bool {
        self.shared.capacity.load(Ordering::SeqCst) == UNLIMITED
    }

    /// Takes what is wanted unless somebody waits; returns the bytes taken.
    fn try_take(&self, want: Want) -> Option<u64> {
        let shared = &*self.shared;
        let mut word = shared.word.load(Ordering::SeqCst);
        loop {
            if word & WAITERS != 0 && want != Want::Reservation(0) {
                break;
            }
            let Some(bytes) = shared.grant(want, word / BYTE) else { break };
            match shared.word.compare_exchange_weak(
                word,
                word + bytes * BYTE,
                Ordering::SeqCst,
                Ordering::SeqCst,
            ) {
                Ok(_) => {
                    shared.count_admission(word / BYTE + bytes, want);
                    return Some(bytes);
                }
                Err(now) => word = now,
            }
        }
        shared.refused.fetch_add(1, Ordering::Relaxed); // statistics
        None
    }

    fn force(&self, bytes: u64) {
        if self.is_unlimited() {
            return;
        }
        let shared = &*self.shared;
        let add = |word: u64| bytes.checked_mul(BYTE).and_then(|bytes| word.checked_add(bytes));
        match shared.word.try_update(Ordering::SeqCst, Ordering::SeqCst, add) {
            Ok(before) => shared.count_admission(before / BYTE + bytes, Want::Reservation(bytes)),
            Err(word) => panic!("leases of {} and {bytes} bytes overflow a memory pool", word / BYTE),
        }
    }

    /// Returns `bytes` and lets the head of the FIFO look.
    fn give_back(&self, bytes: u64) {
        if self.is_unlimited() || bytes == 0 {
            return;
        }
        let before = self.shared.word.fetch_sub(bytes * BYTE, Ordering::SeqCst);
        if before & WAITERS != 0 {
            self.serve();
        }
    }

    /// A place at the end of the FIFO. Registers first, then looks: no return between the two is missed.
    fn join(&self, want: Want) -> PoolTurn {
        let mut queue = self.shared.queue.lock();
        let id = LATER + queue.next;
        queue.next += 1;
        self.join_at(queue, id, want)
    }

    fn join_at(&self, mut queue: MutexGuard<'_, Queue>, id: u64, want: Want) -> PoolTurn {
        let outcome = queue.closed.then_some(Err(PoolWaitEnded::Closed));
        let waiter = Waiter { want, parker: Parker::new(), waker: None, outcome, passes: false };
        queue.waiters.insert(id, waiter);
        self.shared.word.fetch_or(WAITERS, Ordering::SeqCst);
        let served = self.shared.serve(&mut queue);
        drop(queue);
        wake_all(served);
        PoolTurn::new(self.clone(), id)
    }

    /// Lets waiters have what there is, in order, until one does not fit.
    fn serve(&self) {
        let mut queue = self.shared.queue.lock();
        let served = self.shared.serve(&mut queue);
        drop(queue);
        wake_all(served);
    }
}

impl Shared {
    fn used(&self) -> u64 {
        self.word.load(Ordering::SeqCst) / BYTE
    }

    /// The bytes that `want` would take at `used`; `None` without room.
    fn grant(&self, want: Want, used: u64) -> Option<u64> {
        let capacity = self.capacity.load(Ordering::SeqCst);
        if capacity == UNLIMITED {
            return Some(0);
        }
        match want {
            Want::Admission(bytes) => (used < capacity).then_some(bytes),
            Want::Reservation(0) => Some(0),
            Want::Reservation(bytes) => {
                used.checked_add(bytes).is_some_and(|sum| sum <= capacity).then_some(bytes)
            }
            Want::Room => (used < capacity).then_some(0),
        }
    }

    fn count_admission(&self, used: u64, want: Want) {
        if want != Want::Room {
            self.admitted.fetch_add(1, Ordering::Relaxed); // statistics
        }
        if used > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(used, Ordering::Relaxed); // statistics
        }
    }

    /// Grants from the head on; clears the bit when nobody waits any more. Returns whom to wake. Under a hold only a head
    /// that may pass is granted anything.
    fn serve(&self, queue: &mut MutexGuard<'_, Queue>) -> Vec<Waiter> {
        let mut served = Vec::new();
        let Queue { waiters, hold, closed, .. } = &mut **queue;
        if *hold == Hold::Shut || *hold == Hold::Passing {
            return served;
        }
        for waiter in waiters.values_mut().filter(|waiter| waiter.outcome.is_none()) {
            if !self.take_for(waiter.want) {
                return served;
            }
            waiter.outcome = Some(Ok(()));
            waiter.passes = *hold == Hold::Ajar;
            served.push(waiter.call_up());
            if waiter.passes {
                *hold = Hold::Passing;
                return served;
            }
        }
        *hold = Hold::Open;
        if !*closed {
            self.word.fetch_and(!WAITERS, Ordering::SeqCst);
        }
        served
    }

    /// Takes what is wanted, whoever waits; whether there was room.
    fn take_for(&self, want: Want) -> bool {
        let mut word = self.word.load(Ordering::SeqCst);
        loop {
            let Some(bytes) = self.grant(want, word / BYTE) else { return false };
            match self.word.compare_exchange(word, word + bytes * BYTE, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => {
                    self.count_admission(word / BYTE + bytes, want);
                    return true;
                }
                Err(now) => word = now,
            }
        }
    }
}

impl Queue {
    fn end_all(&mut self) -> Vec<Waiter> {
        let waiting = self.waiters.values_mut().filter(|waiter| waiter.outcome.is_none());
        let end = |waiter: &mut Waiter| {
            waiter.outcome = Some(Err(PoolWaitEnded::Closed));
            waiter.call_up()
        };
        waiting.map(end).collect()
    }
}

impl Waiter {
    /// A copy that carries who is to be woken once the lock is released.
    fn call_up(&mut self) -> Self {
        let (want, parker) = (self.want, self.parker.clone());
        Self { want, parker, waker: self.waker.take(), outcome: None, passes: false }
    }
}

fn wake_all(served: Vec<Waiter>) {
    for waiter in served {
        waiter.parker.unpark();
        if let Some(waker) = waiter.waker {
            waker.wake();
        }
    }
}

impl Want {
    fn bytes(self) -> u64 {
        match self {
            Self::Admission(bytes) | Self::Reservation(bytes) => bytes,
            Self::Room => 0,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
