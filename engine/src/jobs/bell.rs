//! [`Bell`]: wakes threads that look for work. Level-triggered: "look again", never a message that could be lost.

use std::sync::Arc;

use sluicedb_controller::Event;

use crate::env::Clock;

/// Counts rings; a thread that has seen fewer of them looks again instead of waiting.
///
/// ```text
///   loop { let seen = bell.rings();  look for work;  if none { bell.wait_past(seen) } }
/// ```
///
/// A ring between the look and the wait is not lost: the count has moved on. May be rung with any lock held. Waits go
/// through the [`Clock`], so that a clock of the tests knows who waits.
#[derive(Debug)]
pub(crate) struct Bell {
    event: Event,
    clock: Arc<dyn Clock>,
}

impl Bell {
    pub(crate) fn new(clock: &Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { event: Event::new(), clock: Arc::clone(clock) })
    }

    /// Another bell on the same clock.
    pub(crate) fn another(&self) -> Arc<Self> {
        Self::new(&self.clock)
    }

    pub(crate) fn now_nanos(&self) -> u64 {
        self.clock.now_nanos()
    }

    pub(crate) fn rings(&self) -> u64 {
        self.event.rings()
    }

    pub(crate) fn ring(&self) {
        self.event.ring();
    }

    /// Returns once there have been more than `seen` rings.
    pub(crate) fn wait_past(&self, seen: u64) {
        crate::sync::forbid_held_locks("wait for work");
        self.event.wait_past(&*self.clock, seen, None);
    }

    /// The same, until `deadline` at most.
    pub(crate) fn wait_past_until(&self, seen: u64, deadline: u64) {
        crate::sync::forbid_held_locks("wait for work");
        self.event.wait_past(&*self.clock, seen, Some(deadline));
    }
}
