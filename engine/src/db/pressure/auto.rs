//! The top rate that the database measures itself, for [`DelayedWriteRate::Auto`]: twice what flushes take out of memory.
//!
//! Looked at where a flush ends, and before the first has ended, where the housekeeping looks. The law is
//! [`AutoRate`]'s; nothing of it runs in a writer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sluicedb_controller::{AutoRate, WriteController};

use crate::options::{DbOptions, DelayedWriteRate};
use crate::sync::Mutex;

/// What was measured so far, and whether the brake follows it.
#[derive(Debug)]
pub(super) struct AutoTop {
    /// Changed under the lock of `measured` alone, as the brake's top rate is by this file.
    follows: AtomicBool,
    flushers: u32,
    measured: Mutex<Measured>,
}

#[derive(Debug)]
struct Measured {
    law: AutoRate,
    /// A flush has ended that tells something.
    drained: bool,
    /// When arrivals were looked at last, in nanoseconds, and how many bytes had arrived by then.
    looked: u64,
    arrived: u64,
}

impl AutoTop {
    /// Nothing measured yet. A shared controller keeps the rate that it was made with.
    pub(super) fn new(options: &DbOptions) -> Self {
        let follows = options.write_controller.is_none() && is_auto(options);
        let now = options.clock.now_nanos();
        Self {
            follows: AtomicBool::new(follows),
            flushers: options.max_background_flushes,
            measured: Mutex::new(Measured { law: AutoRate::new(), drained: false, looked: now, arrived: 0 }),
        }
    }

    /// Whether arrivals are to be looked at: they stand in until a flush has ended.
    pub(super) fn wants_arrivals(&self) -> bool {
        self.follows.load(Ordering::Relaxed) && !self.measured.lock().drained
    }

    /// Writers have brought `arrived` bytes in all until `now`.
    pub(super) fn arrived(&self, arrived: u64, now: u64, controller: &WriteController) {
        let mut measured = self.measured.lock();
        let time = now.saturating_sub(measured.looked);
        if time > 0 {
            let bytes = arrived.saturating_sub(measured.arrived);
            measured.law.arrived(bytes, Duration::from_nanos(time));
            (measured.looked, measured.arrived) = (now, arrived);
            self.apply(&measured, controller);
        }
    }

    /// A flush that was busy for `busy` took `bytes` out of memory.
    pub(super) fn drained(&self, bytes: u64, busy: Duration, controller: &WriteController) {
        let mut measured = self.measured.lock();
        measured.law.flushed(bytes, busy);
        measured.drained |= !busy.is_zero();
        self.apply(&measured, controller);
    }

    /// The options changed: follows what is measured from now on, or what they say.
    pub(super) fn change(&self, options: &DbOptions, controller: &WriteController) {
        let measured = self.measured.lock();
        self.follows.store(is_auto(options), Ordering::Relaxed);
        if is_auto(options) {
            self.apply(&measured, controller);
        } else {
            controller.set_max_rate(options.delayed_bytes_per_second());
        }
    }

    /// Under the lock, so that the latest measure has the last word.
    fn apply(&self, measured: &Measured, controller: &WriteController) {
        // A rate of 0 means that nothing has arrived yet: that says nothing of what could be drained.
        let rate = measured.law.max_rate(self.flushers).filter(|rate| *rate > 0);
        if let Some(rate) = rate
            && self.follows.load(Ordering::Relaxed)
        {
            controller.set_max_rate(rate);
        }
    }
}

fn is_auto(options: &DbOptions) -> bool {
    options.delayed_write_rate == DelayedWriteRate::Auto
}
