//! [`Event`]: a bell for any number of waiting threads. Level-triggered: "look again", never a message that is lost.

use super::{Clock, Parker, Woken};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Counts rings; a thread that has seen fewer of them looks again instead of waiting.
///
/// ```text
///   loop { let seen = event.rings();  look for work;  if none { event.wait_past(&clock, seen, deadline); } }
/// ```
///
/// A ring between the look and the wait is not lost: the count has moved on. May be rung with any lock held.
#[derive(Debug, Default)]
pub struct Event {
    rings: AtomicU64,
    waiting: Mutex<Vec<Parker>>,
}

impl Event {
    /// An event that has never rung.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self { rings: AtomicU64::new(0), waiting: Mutex::new(Vec::new()) }
    }

    /// An event that has never rung. Loom's locks are not made at compile time.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self::default()
    }

    /// How often it has rung.
    pub fn rings(&self) -> u64 {
        // Acquire: who sees a ring sees what was done before it.
        self.rings.load(Ordering::Acquire)
    }

    /// Wakes everybody who waits.
    pub fn ring(&self) {
        let waiting = {
            let mut waiting = self.waiting.lock();
            // Under the lock, so that a waiter either sees the new count or is in the list.
            self.rings.fetch_add(1, Ordering::Release);
            std::mem::take(&mut *waiting)
        };
        waiting.iter().for_each(Parker::unpark);
    }

    /// Returns once it has rung more than `seen` times, or at `deadline`.
    pub fn wait_past(&self, clock: &dyn Clock, seen: u64, deadline: Option<u64>) -> Woken {
        let parker = Parker::new();
        {
            let mut waiting = self.waiting.lock();
            if self.rings.load(Ordering::Acquire) > seen {
                return Woken::Unparked;
            }
            waiting.push(parker.clone());
        }
        let woken = clock.park(&parker, deadline);
        if woken == Woken::Deadline {
            self.waiting.lock().retain(|other| !other.is_same(&parker));
        }
        woken
    }
}

impl Parker {
    /// Whether both are clones of one parker.
    fn is_same(&self, other: &Self) -> bool {
        std::sync::Arc::ptr_eq(&self.0, &other.0)
    }
}
