//! [`Signal`]: notices that the pressure changed, and tells every sink, once and in order.
//!
//! Whoever moves bytes calls [`Signal::is_stale`]: a few loads and compares, no lock and no division, because the
//! ranges in which the published pressure stays true lie ready. If it has become untrue, [`Signal::publish`] computes
//! it anew under the publishing lock and tells the sinks, until it agrees with the bytes.
//!
//! # Ordering
//!
//! A thread that moves bytes writes a counter, then reads the published ranges; a publisher writes the ranges, then
//! reads the counters again. Each must not miss the other's write, which is the one pattern that acquire and release
//! do not give: both could read the old value, and a stale `Stopped` would stay out after the last flush, a stall
//! that nothing ends. `SeqCst` on all of them puts them in one order, so at least one side sees the other. The ranges
//! are several words; a torn read of them implies that their writer reads the counters later still.
//!
//! How sinks react is not known here.

use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use sluicedb_controller::{Clock, Pressure, PressureSink, SourceId, State, StateReport, StateTimes};

use crate::Quota;
use crate::quota::Edges;
use crate::sync::Mutex;
use crate::usage::Usage;

/// What the publisher decides by, and whom it tells.
pub(crate) struct Publisher {
    pub(crate) quota: Quota,
    pub(crate) allow_stall: bool,
    sinks: Vec<SinkEntry>,
    published: Pressure,
    publications: u64,
    times: StateTimes,
}

struct SinkEntry {
    sink: Arc<dyn PressureSink>,
    /// Databases that attached it.
    holders: usize,
}

/// A change of state, noted under the publishing lock, to be told after it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transition {
    /// 1, 2, 3 ... of this manager.
    pub(crate) number: u64,
    pub(crate) previous: Pressure,
    pub(crate) current: Pressure,
    pub(crate) used: u64,
    pub(crate) quota: u64,
    /// How long the previous state had lasted.
    pub(crate) lasted: Duration,
}

/// Who told what to whom.
pub(crate) struct Signal {
    source: SourceId,
    published: AtomicU8,
    used_from: AtomicU64,
    used_to: AtomicU64,
    load_from: AtomicU64,
    load_to: AtomicU64,
    publisher: Mutex<Publisher>,
    transitions: Mutex<VecDeque<Transition>>,
}

/// What [`Signal`] counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SignalReport {
    pub(crate) quota: Quota,
    pub(crate) allow_stall: bool,
    pub(crate) pressure: Pressure,
    pub(crate) publications: u64,
    pub(crate) times: StateReport,
    pub(crate) sinks: usize,
}

impl Signal {
    pub(crate) fn new(source: SourceId, quota: Quota, allow_stall: bool, now: u64) -> Self {
        let publisher = Publisher {
            quota,
            allow_stall,
            sinks: Vec::new(),
            published: Pressure::Normal,
            publications: 0,
            times: StateTimes::new(now),
        };
        let signal = Self {
            source,
            published: AtomicU8::new(Pressure::Normal.code()),
            used_from: AtomicU64::new(0),
            used_to: AtomicU64::new(u64::MAX),
            load_from: AtomicU64::new(0),
            load_to: AtomicU64::new(u64::MAX),
            publisher: Mutex::new(publisher),
            transitions: Mutex::default(),
        };
        let edges = signal.publisher.lock().edges(Pressure::Normal);
        signal.show(edges);
        signal
    }

    pub(crate) fn source(&self) -> SourceId {
        self.source
    }

    /// The published pressure. One atomic load.
    #[inline]
    pub(crate) fn pressure(&self) -> Pressure {
        Pressure::from_code(self.published.load(Ordering::SeqCst)).unwrap_or_default()
    }

    /// Whether `used` bytes, with what the usage adds to them, have left the ranges of the published pressure.
    #[inline]
    pub(crate) fn is_stale(&self, usage: &Usage, used: u64) -> bool {
        let load = usage.load_of(used);
        used >= self.used_to.load(Ordering::SeqCst)
            || load >= self.load_to.load(Ordering::SeqCst)
            || load < self.load_from.load(Ordering::SeqCst)
            || used < self.used_from.load(Ordering::SeqCst)
    }

    /// Publishes until the published pressure agrees with the bytes. Says whether a stop began.
    pub(crate) fn publish(&self, usage: &Usage, clock: &dyn Clock) -> bool {
        self.change(usage, clock, |_| ())
    }

    /// Changes what the publisher decides by, and publishes the outcome in the same breath.
    pub(crate) fn change(
        &self,
        usage: &Usage,
        clock: &dyn Clock,
        change: impl FnOnce(&mut Publisher),
    ) -> bool {
        let mut stop_began = false;
        let mut change = Some(change);
        loop {
            {
                let mut publisher = self.publisher.lock();
                if let Some(change) = change.take() {
                    change(&mut publisher);
                }
                stop_began |= self.publish_locked(&mut publisher, usage, clock);
            }
            // Bytes may have moved after the last look under the lock, by a thread that still saw the old ranges.
            if !self.is_stale(usage, usage.used.load(Ordering::SeqCst)) {
                return stop_began;
            }
        }
    }

    fn publish_locked(&self, publisher: &mut Publisher, usage: &Usage, clock: &dyn Clock) -> bool {
        let mut stop_began = false;
        loop {
            let used = usage.used.load(Ordering::SeqCst);
            let wanted = publisher.pressure(used, usage.load_of(used));
            let edges = publisher.edges(wanted);
            let stops = wanted == Pressure::Stopped;
            self.published.store(wanted.code(), Ordering::SeqCst);
            if !stops {
                self.show(edges);
            }
            if wanted != publisher.published {
                stop_began |= stops;
                self.tell(publisher, wanted, used, clock);
            }
            if stops {
                // Not before every sink is told: until then whoever charges must find the ranges left and wait for the lock, or
                // writers behind a sink that is told late would pass the quota without bound.
                self.show(edges);
            }
            if !self.is_stale(usage, usage.used.load(Ordering::SeqCst)) {
                return stop_began;
            }
        }
    }

    fn tell(&self, publisher: &mut Publisher, wanted: Pressure, used: u64, clock: &dyn Clock) {
        let previous = std::mem::replace(&mut publisher.published, wanted);
        publisher.publications += 1;
        for entry in &publisher.sinks {
            entry.sink.set_pressure(self.source, wanted);
        }
        if previous.state() != wanted.state() {
            let now = clock.now_nanos();
            let lasted = publisher.times.enter(wanted.state(), now).unwrap_or_default();
            let number = publisher.times.report(now).transitions;
            let quota = publisher.quota.bytes();
            let transition = Transition { number, previous, current: wanted, used, quota, lasted };
            self.transitions.lock().push_back(transition);
        }
    }

    /// Shows the ranges of the published pressure to whoever moves bytes.
    fn show(&self, edges: Edges) {
        self.used_from.store(edges.used.0, Ordering::SeqCst);
        self.used_to.store(edges.used.1, Ordering::SeqCst);
        self.load_from.store(edges.load.0, Ordering::SeqCst);
        self.load_to.store(edges.load.1, Ordering::SeqCst);
    }

    /// The next change of state that nobody was told of. Empty: see [`has_transitions`](Self::has_transitions).
    pub(crate) fn take_transition(&self) -> Option<Transition> {
        self.transitions.lock().pop_front()
    }

    pub(crate) fn has_transitions(&self) -> bool {
        !self.transitions.lock().is_empty()
    }

    /// Adds a sink, or one more holder of it, and tells it the present pressure.
    pub(crate) fn attach(&self, sink: &Arc<dyn PressureSink>) {
        let mut publisher = self.publisher.lock();
        match publisher.sinks.iter_mut().find(|entry| is_same(&entry.sink, sink)) {
            Some(entry) => entry.holders += 1,
            None => {
                sink.set_pressure(self.source, publisher.published);
                publisher.sinks.push(SinkEntry { sink: Arc::clone(sink), holders: 1 });
            }
        }
    }

    /// Takes one holder of a sink away; with the last one the requirement is withdrawn.
    pub(crate) fn detach(&self, sink: &Arc<dyn PressureSink>) {
        let mut publisher = self.publisher.lock();
        let Some(at) = publisher.sinks.iter().position(|entry| is_same(&entry.sink, sink)) else { return };
        publisher.sinks[at].holders -= 1;
        if publisher.sinks[at].holders == 0 {
            publisher.sinks.remove(at);
            sink.set_pressure(self.source, Pressure::Normal);
        }
    }

    /// All distinct sinks, to be called without the lock.
    pub(crate) fn sinks(&self) -> Vec<Arc<dyn PressureSink>> {
        self.publisher.lock().sinks.iter().map(|entry| Arc::clone(&entry.sink)).collect()
    }

    pub(crate) fn report(&self, now: u64) -> SignalReport {
        let publisher = self.publisher.lock();
        SignalReport {
            quota: publisher.quota,
            allow_stall: publisher.allow_stall,
            pressure: publisher.published,
            publications: publisher.publications,
            times: publisher.times.report(now),
            sinks: publisher.sinks.len(),
        }
    }
}

impl Publisher {
    fn pressure(&self, used: u64, load: u64) -> Pressure {
        if self.allow_stall { self.quota.pressure(used, load) } else { Pressure::Normal }
    }

    fn edges(&self, pressure: Pressure) -> Edges {
        if self.allow_stall { self.quota.edges_of(pressure) } else { Quota::no_edges() }
    }
}

/// Whether both are the same object.
fn is_same(one: &Arc<dyn PressureSink>, other: &Arc<dyn PressureSink>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
}

impl std::fmt::Debug for Signal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state: State = self.pressure().state();
        f.debug_struct("Signal").field("source", &self.source).field("state", &state).finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
