//! [`Slots`]: how many jobs of a kind compute at once, whatever the number of threads that they run on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::Bell;

/// A number of rights to compute. A job that only waits for the device gives its [`Slot`] back, so that another computes
/// meanwhile.
#[derive(Debug)]
pub(crate) struct Slots {
    free: AtomicU32,
    /// Rung when a slot comes free.
    bell: Arc<Bell>,
}

impl Slots {
    pub(crate) fn new(slots: u32, bell: Arc<Bell>) -> Self {
        Self { free: AtomicU32::new(slots), bell }
    }

    /// A slot, unless all are taken: then the bell rings when one comes free.
    pub(crate) fn take(&self) -> Option<Slot<'_>> {
        let taken = self.free.fetch_update(Ordering::AcqRel, Ordering::Acquire, |free| free.checked_sub(1));
        taken.ok().map(|_| Slot(self))
    }
}

/// The right to compute, given back when dropped.
#[derive(Debug)]
pub(crate) struct Slot<'a>(&'a Slots);

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.free.fetch_add(1, Ordering::AcqRel);
        self.0.bell.ring();
    }
}

#[cfg(test)]
mod tests {
    use sluicedb_controller::ManualClock;

    use super::*;
    use crate::env::Clock;

    #[test]
    fn a_slot_that_comes_free_rings() {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(0));
        let bell = Bell::new(&clock);
        let slots = Slots::new(2, Arc::clone(&bell));
        let (first, second) = (slots.take().unwrap(), slots.take().unwrap());
        assert!(slots.take().is_none());
        let before = bell.rings();
        drop(first);
        assert!(bell.rings() > before);
        let third = slots.take().unwrap();
        assert!(slots.take().is_none());
        drop((second, third));
        assert!(slots.take().is_some());
    }
}
