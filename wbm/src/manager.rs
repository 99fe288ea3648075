//! [`WriteBufferManager`]: composes counters, signal, flush policy, liveness and cache cost; what databases attach to.
//!
//! The hot path is `add` and `look`: one addition and a few loads. Everything else happens when an edge is crossed, or when
//! somebody attaches, ends a flush or changes a setting. Column families, and formatting, are not known here.

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::fence_of_models;
use std::sync::{Arc, Weak};

use sluicedb_controller::{Clock, InvalidOption, Pressure, PressureSink, SourceId, SourceKind, State};

use crate::cost_to_cache::CostToCache;
use crate::database::{AdvanceBytes, Database, DatabaseShared, SinkGuard};
use crate::flush_policy::FlushPolicy;
use crate::liveness::LivenessCounters;
use crate::signal::Signal;
use crate::stats::DatabaseReport;
use crate::sync::{Mutex, try_update};
use crate::targets::Targets;
use crate::usage::Usage;
use crate::{
    Holder, ManagerStats, MemtableCache, PressureChange, PressureObserver, Quota, UsageReport, WbmOptions,
};

mod flushing;

/// The meter that any number of databases share: bytes of all memtables against one quota.
#[derive(Debug)]
pub struct WriteBufferManager {
    usage: Usage,
    signal: Signal,
    /// Usage from which on a charge must look whether a flush is wanted; `u64::MAX` while none can be.
    flush_edge: AtomicU64,
    /// The quota for whoever needs it without the publishing lock; 0 while writers are not stopped.
    stop_at: AtomicU64,
    cost: CostToCache,
    targets: Targets,
    liveness: LivenessCounters,
    /// Bytes of oversized batches that are not in a memtable yet.
    advances: AdvanceBytes,
    options: WbmOptions,
    clock: Arc<dyn Clock>,
    registry: Mutex<Registry>,
    /// Usage at which a flush was wanted last and nobody was left to ask; 0 unless that is so.
    unserved_at: AtomicU64,
    requested: AtomicU64,
    refused: AtomicU64,
    /// Somebody delivers transitions to the observers.
    delivering: Mutex<bool>,
}

#[derive(Debug, Default)]
struct Registry {
    databases: Vec<Arc<DatabaseShared>>,
    last: u64,
}

impl WriteBufferManager {
    /// A manager without databases. It counts from now on.
    ///
    /// # Errors
    ///
    /// The first option outside its range.
    pub fn new(options: WbmOptions, clock: Arc<dyn Clock>) -> Result<Arc<Self>, InvalidOption> {
        options.validate()?;
        let quota = Quota::new(options.quota_bytes, options.delay_start_percent)?;
        let source = SourceId::new(SourceKind::WriteBufferManager);
        let manager = Self {
            usage: Usage::default(),
            signal: Signal::new(source, quota, options.allow_stall, clock.now_nanos()),
            flush_edge: AtomicU64::new(0),
            stop_at: AtomicU64::new(if options.allow_stall { quota.bytes() } else { 0 }),
            cost: CostToCache::new(),
            targets: Targets::default(),
            liveness: LivenessCounters::default(),
            advances: AdvanceBytes::default(),
            options,
            clock,
            registry: Mutex::default(),
            unserved_at: AtomicU64::new(0),
            requested: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            delivering: Mutex::new(false),
        };
        manager.evaluate();
        Ok(Arc::new(manager))
    }

    /// Registers a database. `observer` is told of changes of state for as long as it lives.
    pub fn register(
        self: &Arc<Self>,
        name: impl Into<Arc<str>>,
        observer: Option<Weak<dyn PressureObserver>>,
    ) -> Database {
        let mut registry = self.registry.lock();
        registry.last += 1;
        let database = Database::new(Arc::clone(self), registry.last, name.into(), observer);
        registry.databases.push(Arc::clone(database.shared()));
        database
    }

    pub(crate) fn deregister(&self, id: u64) {
        let gone: Vec<_> =
            self.registry.lock().databases.extract_if(.., |database| database.id == id).collect();
        drop(gone);
    }

    /// See [`Database::attach_sink`].
    pub fn attach_sink(self: &Arc<Self>, sink: Arc<dyn PressureSink>) -> SinkGuard {
        self.signal.attach(&sink);
        SinkGuard { manager: Arc::clone(self), sink }
    }

    /// Its identity as a source of pressure.
    pub fn source(&self) -> SourceId {
        self.signal.source()
    }

    /// The settings that it was made with; the live ones may have changed since.
    pub fn options(&self) -> &WbmOptions {
        &self.options
    }

    /// The published pressure. One atomic load.
    #[inline]
    pub fn pressure(&self) -> Pressure {
        self.signal.pressure()
    }

    /// Bytes by state.
    pub fn usage_report(&self) -> UsageReport {
        self.usage.report()
    }

    /// The quota, in bytes; 0 = off.
    pub fn quota_bytes(&self) -> u64 {
        self.quota().bytes()
    }

    /// The quota and where the delay starts.
    pub fn quota(&self) -> Quota {
        self.signal.report(0).quota
    }

    /// Changes the quota, in bytes; 0 = off: nobody is delayed, stopped or asked, but bytes are counted on. Pressure,
    /// gates, flush decisions and liveness follow within the call. Never blocks, whoever is parked.
    pub fn set_quota_bytes(&self, bytes: u64) {
        self.change(|settings| {
            let percent = settings.quota.delay_start_percent();
            settings.quota = Quota::new(bytes, percent).unwrap_or(settings.quota);
        });
    }

    /// Allows or forbids delays and stops; writers are held or let go within the call.
    pub fn set_allow_stall(&self, allow: bool) {
        self.change(|settings| settings.allow_stall = allow);
    }

    /// Changes where the delay starts, 1 to 99 percent of the quota; published within the call.
    ///
    /// # Errors
    ///
    /// [`InvalidOption`] outside the range; nothing changes.
    pub fn set_delay_start_percent(&self, percent: u32) -> Result<(), InvalidOption> {
        Quota::new(1, percent)?;
        self.change(|settings| {
            settings.quota = Quota::new(settings.quota.bytes(), percent).unwrap_or(settings.quota);
        });
        Ok(())
    }

    fn change(&self, change: impl FnOnce(&mut crate::signal::Publisher)) {
        self.signal.change(&self.usage, &*self.clock, |publisher| {
            change(publisher);
            let stop_at = if publisher.allow_stall { publisher.quota.bytes() } else { 0 };
            self.stop_at.store(stop_at, Ordering::SeqCst);
        });
        self.deliver();
        self.evaluate();
        self.check_flushes();
    }

    /// Charges memtables to `cache`, or to none. The reservation is made, or given back, within the call.
    pub fn set_cost_to_cache(&self, cache: Option<Arc<dyn MemtableCache>>) {
        self.cost.replace(cache, self.resident());
    }

    /// Whether the rule of "not proactive" (`Quota::flush_wanted`) holds at present, without what is on its way.
    pub fn flush_wanted(&self) -> bool {
        let policy = FlushPolicy { initiate: false, parallel: u64::MAX, ..self.policy() };
        let usage = self.usage.report();
        policy.wants(self.targets.in_flight(), usage.mutable, usage.used)
    }

    /// Housekeeping, to be called about once a second: tries again what every target refused, and checks liveness.
    pub fn tick(&self) {
        self.evaluate();
        self.check_flushes();
    }

    /// Who holds memory, largest first.
    pub fn holders(&self) -> Vec<Holder> {
        let now = self.now();
        let databases = self.registry.lock().databases.clone();
        let mut holders: Vec<_> = databases.iter().flat_map(|database| database.holders(now)).collect();
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.bytes));
        holders
    }

    /// Everything there is to see.
    pub fn stats(&self) -> ManagerStats {
        let signal = self.signal.report(self.now());
        let flights = self.targets.report();
        let cache = self.cost.report();
        let databases = self.registry.lock().databases.clone();
        let of = |database: &Arc<DatabaseShared>| DatabaseReport {
            id: database.id,
            name: Arc::clone(&database.name),
            usage: database.usage(),
        };
        ManagerStats {
            source: self.source(),
            quota: signal.quota,
            allow_stall: signal.allow_stall,
            pressure: signal.pressure,
            usage: self.usage.report(),
            databases: databases.iter().map(of).collect(),
            times: signal.times,
            publications: signal.publications,
            sinks: signal.sinks,
            targets: self.targets.len(),
            flushes_queued: flights.queued,
            flushes_running: flights.running,
            flushes_retrying: flights.retrying,
            planned: flights.planned,
            unserved: self.unserved_at.load(Ordering::Relaxed) > 0, // statistics
            flushes_requested: self.requested.load(Ordering::Relaxed), // statistics
            flushes_refused: self.refused.load(Ordering::Relaxed),  // statistics
            flushes_lost: self.liveness.lost_requests.load(Ordering::Relaxed), // statistics
            liveness_rescues: self.liveness.rescues.load(Ordering::Relaxed), // statistics
            cache_reserved: cache.reserved,
            cache_shortfall: cache.shortfall,
        }
    }

    // ---- for charges, databases and liveness ----

    pub(crate) fn usage(&self) -> &Usage {
        &self.usage
    }

    pub(crate) fn signal(&self) -> &Signal {
        &self.signal
    }

    pub(crate) fn targets(&self) -> &Targets {
        &self.targets
    }

    pub(crate) fn liveness(&self) -> &LivenessCounters {
        &self.liveness
    }

    pub(crate) fn advances(&self) -> &AdvanceBytes {
        &self.advances
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.now_nanos()
    }

    pub(crate) fn credits_flush_progress(&self) -> bool {
        self.options.flush_progress_credit
    }

    /// Adds bytes to the pressure; returns the usage then. Call [`look`](Self::look) with it.
    #[inline]
    pub(crate) fn add(&self, bytes: u64) -> u64 {
        // SeqCst: written before the published ranges are read, see `Signal`.
        self.usage.used.fetch_add(bytes, Ordering::SeqCst) + bytes
    }

    /// Looks whether the addition that led to `used` crossed an edge: the hot path.
    #[inline]
    pub(crate) fn look(&self, used: u64) {
        // Whoever found nobody to ask may have counted this charge's bytes in the usage, and not yet in its memtable.
        fence_of_models();
        let unserved_at = self.unserved_at.load(Ordering::SeqCst);
        if unserved_at > 0 && self.usage.used.load(Ordering::SeqCst) <= unserved_at {
            return self.freed();
        }
        // The edge is read after `used` is written, and `evaluate` reads `used` after it wrote the edge: one of the two
        // sees the other, as with the published ranges.
        if self.signal.is_stale(&self.usage, used)
            || used >= self.flush_edge.load(Ordering::SeqCst)
            || self.cost.is_stale(used + self.usage.pinned.load(Ordering::Relaxed))
        {
            self.moved();
        }
    }

    /// Bytes moved: brings pressure, reservation and flush requests up to date where an edge was crossed.
    pub(crate) fn moved(&self) {
        let used = self.usage.used.load(Ordering::SeqCst);
        if self.signal.is_stale(&self.usage, used) {
            self.publish();
        }
        if self.cost.is_stale(self.resident()) {
            self.cost.update(|| self.resident());
        }
        if used >= self.flush_edge.load(Ordering::SeqCst) {
            self.evaluate();
        }
    }

    /// Bytes left the pressure, or a request was missed: the same, and the flush decision runs in any case.
    pub(crate) fn freed(&self) {
        self.moved();
        self.evaluate();
    }

    fn publish(&self) {
        let stop_began = self.signal.publish(&self.usage, &*self.clock);
        self.deliver();
        if stop_began {
            // The flush decision first: it may find by its own rule what liveness would have to ask for.
            self.evaluate();
            self.check_flushes();
        }
    }

    fn resident(&self) -> u64 {
        self.usage.used.load(Ordering::SeqCst) + self.usage.pinned.load(Ordering::SeqCst)
    }

    pub(crate) fn is_oversized(&self, bytes: u64) -> bool {
        let stop_at = self.stop_at.load(Ordering::SeqCst);
        stop_at > 0 && bytes > stop_at
    }

    /// Adds `bytes` in one step if usage is below the quota.
    pub(crate) fn take_alone(&self, bytes: u64) -> Option<()> {
        // Counted before it is taken, so that no check sees a stop without the batch that caused it.
        self.advances.fetch_add(bytes, Ordering::SeqCst);
        let stop_at = self.stop_at.load(Ordering::SeqCst);
        let fits = |used| stop_at == 0 || used < stop_at;
        let taken = try_update(&self.usage.used, |used| fits(used).then_some(used + bytes));
        if !taken {
            self.advances.fetch_sub(bytes, Ordering::SeqCst);
            self.advance_used_up();
        }
        taken.then_some(())
    }

    /// An oversized batch is in its memtable, or gave up: from now on a flush must end its stop.
    pub(crate) fn advance_used_up(&self) {
        self.check_flushes();
    }

    pub(crate) fn observers(&self) -> Vec<Arc<dyn PressureObserver>> {
        let databases = self.registry.lock().databases.clone();
        databases.iter().filter_map(|database| database.observer.as_ref()?.upgrade()).collect()
    }

    /// Tells the observers what was noted, in order, with no lock held. One thread at a time delivers; others leave
    /// what they noted to it.
    fn deliver(&self) {
        while self.signal.has_transitions() {
            if std::mem::replace(&mut *self.delivering.lock(), true) {
                return;
            }
            let delivering = Delivering(&self.delivering);
            while let Some(transition) = self.signal.take_transition() {
                let flights = self.targets.report();
                let change = PressureChange {
                    number: transition.number,
                    source: self.source(),
                    previous: transition.previous,
                    current: transition.current,
                    used: transition.used,
                    quota: transition.quota,
                    pinned: self.usage.pinned.load(Ordering::SeqCst),
                    flushes_running: flights.running,
                    flushes_queued: flights.queued,
                    largest: self.holders().into_iter().next(),
                    lasted: transition.lasted,
                };
                let urgent = change.current.state() == State::Stopped;
                let level = if urgent { log::Level::Warn } else { log::Level::Info };
                log::log!(target: "sluicedb::pressure", level, "{change}");
                for observer in self.observers() {
                    observer.pressure_changed(&change);
                }
            }
            drop(delivering);
            // Noted between the last look and the line above: nobody else saw it.
        }
    }
}

/// The right to deliver, given up even if an observer panics.
struct Delivering<'a>(&'a Mutex<bool>);

impl Drop for Delivering<'_> {
    fn drop(&mut self) {
        *self.0.lock() = false;
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests;
