//! Memtable bytes charged to a block cache, in units of 256 KiB.
//!
//! The cache is known only as a [`MemtableCache`]: something that makes room and takes it back. What it caches is not
//! known here.

use crate::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::sync::Mutex;

/// Bytes of one unit of reservation: 256 KiB.
pub const CACHE_UNIT: u64 = 256 << 10;

/// A cache in which memtables take room.
///
/// Called while the manager brings its reservation up to date: do not call the manager back.
pub trait MemtableCache: Send + Sync {
    /// Takes up to `units` units of [`CACHE_UNIT`] bytes; returns how many it granted. Fewer means that it is full.
    fn reserve(&self, units: u64) -> u64;

    /// Gives `units` units back.
    fn release(&self, units: u64);
}

/// The reservation of one manager.
pub(crate) struct CostToCache {
    /// At or above this many resident bytes the reservation is to grow; `u64::MAX` without a cache.
    grow_at: AtomicU64,
    /// Below this many it is to shrink; 0 without a cache.
    shrink_below: AtomicU64,
    reservation: Mutex<Reservation>,
}

#[derive(Default)]
struct Reservation {
    cache: Option<Arc<dyn MemtableCache>>,
    units: u64,
    shortfall: u64,
}

/// What is reserved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CacheReport {
    pub(crate) reserved: u64,
    pub(crate) shortfall: u64,
}

impl CostToCache {
    pub(crate) fn new() -> Self {
        Self {
            grow_at: AtomicU64::new(u64::MAX),
            shrink_below: AtomicU64::new(0),
            reservation: Mutex::default(),
        }
    }

    /// Whether [`update`](Self::update) has something to do at `resident` bytes. Two loads.
    #[inline]
    pub(crate) fn is_stale(&self, resident: u64) -> bool {
        // Relaxed: a late or early look costs one more or one less call of `update`; the next movement looks again.
        resident >= self.grow_at.load(Ordering::Relaxed)
            || resident < self.shrink_below.load(Ordering::Relaxed)
    }

    /// Reserves up to the smallest number of units that covers `resident` bytes, or releases what is too much: nothing
    /// down to 3/4 of what is reserved, below that all but one spare unit.
    pub(crate) fn update(&self, resident: impl Fn() -> u64) {
        let mut reservation = self.reservation.lock();
        reservation.fit(resident());
        self.set_edges(&reservation);
    }

    /// Changes the cache, or takes it away. The old one gets everything back.
    pub(crate) fn replace(&self, cache: Option<Arc<dyn MemtableCache>>, resident: u64) {
        let mut reservation = self.reservation.lock();
        reservation.release_all();
        reservation.cache = cache;
        reservation.fit(resident);
        self.set_edges(&reservation);
    }

    fn set_edges(&self, reservation: &Reservation) {
        let reserved = reservation.units * CACHE_UNIT;
        let (grow_at, shrink_below) = match reservation.cache {
            None => (u64::MAX, 0),
            // A full cache is asked again one unit later, not at every charge.
            Some(_) if reservation.shortfall > 0 => {
                (reserved + reservation.shortfall + 1, reserved + reservation.shortfall)
            }
            Some(_) => (reserved + 1, reserved / 4 * 3),
        };
        self.grow_at.store(grow_at, Ordering::Relaxed);
        self.shrink_below.store(shrink_below, Ordering::Relaxed);
    }

    pub(crate) fn report(&self) -> CacheReport {
        let reservation = self.reservation.lock();
        CacheReport { reserved: reservation.units * CACHE_UNIT, shortfall: reservation.shortfall }
    }
}

impl Reservation {
    fn fit(&mut self, resident: u64) {
        let Some(cache) = &self.cache else { return };
        let target = resident.div_ceil(CACHE_UNIT);
        if target > self.units {
            self.units += cache.reserve(target - self.units).min(target - self.units);
        } else if resident < self.units * CACHE_UNIT / 4 * 3 {
            let keep = (resident + CACHE_UNIT).div_ceil(CACHE_UNIT) - 1;
            let spare = self.units.saturating_sub(keep.max(target));
            cache.release(spare);
            self.units -= spare;
        }
        self.shortfall = target.saturating_sub(self.units) * CACHE_UNIT;
    }

    fn release_all(&mut self) {
        if let Some(cache) = &self.cache {
            cache.release(self.units);
        }
        self.units = 0;
        self.shortfall = 0;
    }
}

impl Drop for CostToCache {
    fn drop(&mut self) {
        self.reservation.lock().release_all();
    }
}

impl std::fmt::Debug for CostToCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.report().fmt(f)
    }
}
