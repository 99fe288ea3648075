//! Holding the FIFO of a pool, for an owner that has a bound beside the bytes.
//!
//! The owner refuses a unit that was admitted by bytes: it [holds](MemoryPool::hold) the FIFO, and the unit
//! [goes back](MemoryLease::go_back) to its place there, before all that came after it. When the owner has room it lets
//! the head pass, one at a time: the next once that one has [settled](MemoryLease::settle) or has given up. What the bound
//! counts is not known here.

use std::sync::atomic::Ordering;

use super::{LATER, MemoryLease, MemoryPool, PoolTurn, WAITERS, Want, wake_all};

/// Whether the FIFO is held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Hold {
    /// It is not.
    #[default]
    Open,
    /// Nobody passes.
    Shut,
    /// The head passes as soon as its bytes fit.
    Ajar,
    /// One has been let through and has not settled; nobody else passes.
    Passing,
}

impl MemoryPool {
    /// From now on nobody is admitted, whatever room there is: newcomers are refused or wait, and who waits waits on.
    pub fn hold(&self) {
        let mut queue = self.shared.queue.lock();
        queue.hold = Hold::Shut;
        // Held and empty, the queue still sends every attempt to the lock.
        self.shared.word.fetch_or(WAITERS, Ordering::SeqCst);
    }

    /// Lets the head of a held FIFO pass, unless one is on its way. Without anybody who waits the hold ends; whether it
    /// goes on.
    pub fn let_one_pass(&self) -> bool {
        let mut queue = self.shared.queue.lock();
        if queue.hold == Hold::Shut {
            queue.hold = Hold::Ajar;
        }
        let served = self.shared.serve(&mut queue);
        let is_held = queue.hold != Hold::Open;
        drop(queue);
        wake_all(served);
        is_held
    }

    /// One that was let through has given up: the next may pass.
    pub(super) fn pass_on(&self) {
        let mut queue = self.shared.queue.lock();
        if queue.hold == Hold::Passing {
            queue.hold = Hold::Ajar;
        }
        let served = self.shared.serve(&mut queue);
        drop(queue);
        wake_all(served);
    }
}

impl MemoryLease {
    /// The owner has taken what the lease stands for. Whether it was let through a hold: then the next has to be
    /// [let pass](MemoryPool::let_one_pass), if there is room for it.
    pub fn settle(&mut self) -> bool {
        if self.place.take().is_none() {
            return false;
        }
        let mut queue = self.pool.shared.queue.lock();
        if queue.hold == Hold::Passing {
            queue.hold = Hold::Shut;
        }
        true
    }

    /// The owner has refused what the lease stands for: its bytes return, and it waits for `bytes` where it stood, or
    /// before all that wait if it never did.
    pub fn go_back(mut self, bytes: u64) -> PoolTurn {
        let pool = self.pool.clone();
        let place = self.place.take();
        pool.give_back(std::mem::take(&mut self.bytes));
        let mut queue = pool.shared.queue.lock();
        let id = place.unwrap_or_else(|| {
            queue.next_early += 1;
            queue.next_early - 1
        });
        debug_assert!(place.is_some() || id < LATER);
        if place.is_some() && queue.hold == Hold::Passing {
            queue.hold = Hold::Shut;
        }
        pool.join_at(queue, id, Want::Admission(bytes))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use sluicedb_controller::ManualClock;

    use super::*;

    fn pool() -> MemoryPool {
        MemoryPool::new(1_000, Arc::new(ManualClock::new(0)))
    }

    /// One passes at a time, in the order in which they came; one that is refused again keeps its place.
    #[test]
    fn one_passes_at_a_time() {
        let pool = pool();
        let refused = pool.try_admit(10).unwrap();
        pool.hold();
        assert!(pool.try_admit(1).is_none());
        let mut second = pool.join(Want::Admission(20));
        let mut first = refused.go_back(10);
        assert!(first.try_now().is_none() && second.try_now().is_none());
        assert!(pool.let_one_pass() && pool.let_one_pass());
        let passed = first.try_now().unwrap().unwrap();
        assert!(second.try_now().is_none(), "the first has not settled");
        pool.hold();
        let mut first = passed.go_back(10);
        assert!(pool.let_one_pass());
        let mut passed = first.try_now().unwrap().unwrap();
        assert!(passed.settle() && !passed.settle());
        assert!(second.try_now().is_none(), "nobody has let it pass");
        assert!(pool.let_one_pass());
        let mut second = second.try_now().unwrap().unwrap();
        assert!(second.settle());
        assert!(!pool.let_one_pass(), "nobody waits");
        assert_eq!(pool.used(), 30);
        assert!(pool.try_admit(1).is_some());
    }

    /// Whoever is let through and gives up lets the next pass, with the lease in hand or before it was picked up.
    #[test]
    fn who_gives_up_lets_the_next_pass() {
        let pool = pool();
        pool.hold();
        let mut turns: Vec<PoolTurn> = (0..3).map(|_| pool.join(Want::Admission(1))).collect();
        assert!(pool.let_one_pass());
        drop(turns.remove(0));
        let second = turns[0].try_now().unwrap().unwrap();
        assert!(turns[1].try_now().is_none());
        drop(second);
        assert!(turns[1].try_now().unwrap().unwrap().settle());
        assert_eq!((pool.let_one_pass(), pool.used()), (false, 0));
    }

    /// A head that may pass and finds no bytes passes when they return.
    #[test]
    fn the_bytes_bound_a_held_queue_too() {
        let pool = pool();
        let full = pool.try_admit(1_000).unwrap();
        pool.hold();
        let mut turn = pool.join(Want::Admission(1));
        assert!(pool.let_one_pass() && turn.try_now().is_none());
        drop(full);
        assert!(turn.try_now().unwrap().is_ok());
    }
}
