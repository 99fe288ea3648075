//! [`Turn`]: one writer's wait, by thread or as a `Future`.
//!
//! A thread waits in slices of at most one second, after each of which its caller looks around. A task is woken by
//! events; that time passes is somebody's job: see [`WriteController::wake_due`]. A waker is called with no lock of
//! this crate held, but perhaps with a meter's publishing lock: it must mark and wake, no more. How the wait is priced
//! is the lane's affair.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::gate::{WaitEnded, Waited, WaiterId};
use crate::lane::Look;
use crate::write_controller::LaneId;
use crate::{WriteController, deadline_after};

/// The longest that one [`Turn::wait`] keeps its caller.
pub(crate) const SLICE: Duration = Duration::from_secs(1);

/// How one call of [`Turn::wait`] went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// The writer may write. The turn is used up.
    Passed,
    /// A slice of one second is over, or [`Client::look_again`](crate::Client::look_again) was called, and the wait is not
    /// over: look around, then wait again.
    Slice,
}

/// A writer's place in the pacer or at the gate. Dropping it gives the place up, and its bytes back.
#[derive(Debug)]
#[must_use = "dropping a turn gives the admission up"]
pub struct Turn {
    controller: Arc<WriteController>,
    lane: LaneId,
    id: WaiterId,
    /// When it was asked for, ns.
    began: u64,
    /// How it ended.
    over: Option<(Result<(), WaitEnded>, Waited)>,
}

impl Turn {
    pub(crate) fn new(controller: Arc<WriteController>, lane: LaneId, id: WaiterId, began: u64) -> Self {
        Self { controller, lane, id, began, over: None }
    }

    /// Waits until the writer may write, for one slice of at most 1 s.
    ///
    /// `limit` bounds the whole wait, counted from the admission and not from this call. Hold no lock.
    ///
    /// # Errors
    ///
    /// Why the wait is over without the right to write; the bytes are not charged, and further calls repeat the
    /// error.
    pub fn wait(&mut self, limit: Option<Duration>) -> Result<Wake, WaitEnded> {
        let clock = Arc::clone(self.controller.clock());
        let last = limit.map(|limit| deadline_after(self.began, limit));
        let slice_end = deadline_after(clock.now_nanos(), SLICE);
        loop {
            let now = clock.now_nanos();
            let (again, parker, nudged) = match self.look(now) {
                Ok(outcome) => return outcome.map(|()| Wake::Passed),
                Err(again) => again,
            };
            if last.is_some_and(|last| now >= last) {
                self.give_up(WaitEnded::TimedOut, now);
                return Err(WaitEnded::TimedOut);
            }
            if nudged || now >= slice_end {
                return Ok(Wake::Slice);
            }
            let until = [again, last].into_iter().flatten().fold(slice_end, u64::min);
            clock.park(&parker, Some(until));
        }
    }

    /// How it stands now, without waiting: `None` while the wait goes on.
    pub fn try_now(&mut self) -> Option<Result<(), WaitEnded>> {
        let now = self.controller.clock().now_nanos();
        self.look(now).ok()
    }

    /// When the wait will end by itself at the present rate, as a clock time in ns; `None` at the gate, and once over.
    pub fn wake_at(&self) -> Option<u64> {
        self.controller.with_core(|core| core.lane(self.lane).due_at(self.id))
    }

    /// How long it has waited so far, and where.
    pub fn waited(&self) -> Waited {
        if let Some((_, waited)) = self.over {
            return waited;
        }
        let now = self.controller.clock().now_nanos();
        self.controller.with_core(|core| {
            core.lane(self.lane).settle_all(now);
            core.lane(self.lane).gate.get(self.id).map_or_else(Waited::default, |waiter| waiter.waited)
        })
    }

    /// Takes the turn from any thread while another waits for it.
    pub fn cancel_handle(&self) -> CancelHandle {
        CancelHandle { controller: Arc::clone(&self.controller), lane: self.lane, id: self.id }
    }

    /// The outcome; or when and on what to wait, and whether the caller is to look around first.
    fn look(&mut self, now: u64) -> Result<Result<(), WaitEnded>, (Option<u64>, crate::Parker, bool)> {
        if let Some((outcome, _)) = self.over {
            return Ok(outcome);
        }
        let look = self.controller.with_core(|core| {
            let lane = core.lane(self.lane);
            match lane.look(self.id, now) {
                Look::Over(outcome, waited) => Ok((outcome, waited)),
                Look::Again(again) => {
                    let take = |waiter: &mut crate::gate::Waiter| {
                        (waiter.parker.clone(), std::mem::take(&mut waiter.nudged))
                    };
                    let (parker, nudged) = lane.gate.get_mut(self.id).map(take).unwrap_or_default();
                    Err((again, parker, nudged))
                }
            }
        });
        look.map(|(outcome, waited)| {
            self.over = Some((outcome, waited));
            outcome
        })
    }

    fn give_up(&mut self, why: WaitEnded, now: u64) {
        let waited = self.controller.with_core(|core| core.lane(self.lane).withdraw(self.id, why, now));
        self.over = Some((Err(why), waited));
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.over.is_none() {
            let now = self.controller.clock().now_nanos();
            self.give_up(WaitEnded::Cancelled, now);
        }
    }
}

impl Future for Turn {
    type Output = Result<Waited, WaitEnded>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let now = self.controller.clock().now_nanos();
        let (lane, id) = (self.lane, self.id);
        // The waker is in place before the look, so that no event falls between the two.
        self.controller.with_core(|core| {
            if let Some(waiter) = core.lane(lane).gate.get_mut(id) {
                waiter.waker = Some(context.waker().clone());
            }
        });
        match self.look(now) {
            Ok(outcome) => Poll::Ready(outcome.map(|()| self.waited())),
            Err(_) => Poll::Pending,
        }
    }
}

/// Ends the wait of a [`Turn`] with [`WaitEnded::Cancelled`].
#[derive(Debug, Clone)]
pub struct CancelHandle {
    controller: Arc<WriteController>,
    lane: LaneId,
    id: WaiterId,
}

impl CancelHandle {
    /// Wakes the waiter, which then finds itself cancelled. Without effect once the wait is over.
    pub fn cancel(&self) {
        let now = self.controller.clock().now_nanos();
        self.controller.with_core(|core| core.lane(self.lane).refuse(self.id, WaitEnded::Cancelled, now));
    }
}
