//! [`PoolTurn`]: one wait for room in a [`MemoryPool`], by thread or as a `Future`.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use sluicedb_controller::{Parker, Woken};

use super::{MemoryLease, MemoryPool, PoolWaitEnded, Waiter};

/// A place in the FIFO of a pool. Dropping it gives the place, or what was granted, up.
#[derive(Debug)]
#[must_use = "dropping a turn gives the place in the queue up"]
pub struct PoolTurn {
    pool: MemoryPool,
    id: u64,
    done: bool,
}

impl PoolTurn {
    pub(super) fn new(pool: MemoryPool, id: u64) -> Self {
        Self { pool, id, done: false }
    }

    /// Waits until it is served, or until `deadline` (clock time in ns; `None`: for ever). Hold no lock.
    ///
    /// # Errors
    ///
    /// [`PoolWaitEnded`]. After [`PoolWaitEnded::TimedOut`] the place is kept: wait again, or drop the turn.
    pub fn wait(&mut self, deadline: Option<u64>) -> Result<MemoryLease, PoolWaitEnded> {
        loop {
            let parker = match self.look(None) {
                Ok(outcome) => return outcome,
                Err(parker) => parker,
            };
            if self.pool.shared.clock.park(&parker, deadline) == Woken::Deadline {
                return self.look(None).unwrap_or(Err(PoolWaitEnded::TimedOut));
            }
        }
    }

    /// The lease if it has been served, without waiting; `None` while the wait goes on.
    pub fn try_now(&mut self) -> Option<Result<MemoryLease, PoolWaitEnded>> {
        self.look(None).ok()
    }

    fn look(&mut self, waker: Option<&Waker>) -> Result<Result<MemoryLease, PoolWaitEnded>, Parker> {
        if self.done {
            return Ok(Err(PoolWaitEnded::Closed));
        }
        let mut queue = self.pool.shared.queue.lock();
        let Some(waiter) = queue.waiters.get_mut(&self.id) else {
            return Ok(Err(PoolWaitEnded::Closed));
        };
        let Some(outcome) = waiter.outcome else {
            waiter.waker = waker.cloned().or(waiter.waker.take());
            return Err(waiter.parker.clone());
        };
        let (bytes, passes) = (waiter.want.bytes(), waiter.passes);
        queue.waiters.remove(&self.id);
        drop(queue);
        self.done = true;
        Ok(outcome.map(|()| {
            let mut lease = MemoryLease::new(&self.pool, bytes);
            lease.place = passes.then_some(self.id);
            lease
        }))
    }
}

impl Future for PoolTurn {
    type Output = Result<MemoryLease, PoolWaitEnded>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.look(Some(context.waker())) {
            Ok(outcome) => Poll::Ready(outcome),
            Err(_) => Poll::Pending,
        }
    }
}

impl Drop for PoolTurn {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let mut queue = self.pool.shared.queue.lock();
        let gone = queue.waiters.remove(&self.id);
        drop(queue);
        match gone {
            // Granted, and not picked up.
            Some(Waiter { outcome: Some(Ok(())), want, passes, .. }) => {
                self.pool.give_back(want.bytes());
                if passes {
                    self.pool.pass_on();
                }
            }
            // Perhaps the head: whoever stood behind it may fit.
            Some(Waiter { outcome: None, .. }) => self.pool.serve(),
            _ => {}
        }
    }
}
