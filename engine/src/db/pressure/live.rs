//! What a change of options means to the brake and the meter; each change is felt by writers that wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sluicedb_wbm::MemtableCache;

use super::Pressure;
use crate::cache::BlockCache;
use crate::options::DbOptions;

/// How long writers wait, in nanoseconds. Relaxed: a writer that just misses a change waits by the old limit.
#[derive(Debug)]
pub(super) struct Timeouts {
    /// 0: without a limit.
    stall: AtomicU64,
    write: AtomicU64,
}

impl Timeouts {
    pub(super) fn new(options: &DbOptions) -> Self {
        let timeouts = Self { stall: AtomicU64::new(0), write: AtomicU64::new(0) };
        timeouts.set(options);
        timeouts
    }

    fn set(&self, options: &DbOptions) {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.stall.store(options.stall_timeout.map_or(0, nanos), Ordering::Relaxed);
        self.write.store(nanos(options.write_timeout), Ordering::Relaxed);
    }

    /// Longest time that a write spends delayed and stopped.
    #[inline]
    pub(super) fn stall(&self) -> Option<Duration> {
        match self.stall.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    /// Longest wait for room in the commit queue.
    pub(super) fn write(&self) -> Duration {
        Duration::from_nanos(self.write.load(Ordering::Relaxed))
    }
}

impl Pressure {
    /// Brings what hangs on the options in line with them; `given` says which ones were named.
    pub(in crate::db) fn change(
        &self,
        options: &DbOptions,
        given: &dyn Fn(&str) -> bool,
        cache: Option<&Arc<BlockCache>>,
    ) {
        self.timeouts.set(options);
        if given("stall_timeout") {
            self.client.look_again(); // who waits reads its limit anew
        }
        if given("delayed_write_rate") {
            self.auto.change(options, &self.controller);
        }
        if given("delay_start_percent") {
            // In range: the options were checked.
            let _ = self.manager.set_delay_start_percent(options.delay_start_percent);
        }
        if given("allow_stall") {
            self.manager.set_allow_stall(options.allow_stall);
        }
        if given("cost_write_buffer_to_cache") {
            self.charge_to_cache(cache.filter(|_| options.cost_write_buffer_to_cache));
        }
    }

    /// Lets the manager's memtables take room in `cache`, or in none.
    pub(in crate::db) fn charge_to_cache(&self, cache: Option<&Arc<BlockCache>>) {
        self.manager.set_cost_to_cache(cache.map(|cache| Arc::clone(cache) as Arc<dyn MemtableCache>));
    }
}
