//! [`WriteController`]: composes sources, rate, pacer and gate into one question, `admit`.
//!
//! Databases register as a [`Client`]; sources that are not meters hold a [`Source`]. Bytes of memory, and what a
//! database is, are not known here.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use crate::gate::{Cause, Place};
use crate::lane::{Hold, Lane};
use crate::pacer::Pacer;
use crate::requirements::{Requirements, Verdict};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use crate::{
    Clock, ControllerStats, DEFAULT_MAX_RATE, Pressure, PressureSink, Requirement, SourceId, SourceKind,
    SourceReport, State, StateTimes, Tally, derived_rate,
};

mod client;
mod options;

pub use client::{Admission, Client, ClientId, Interrupt, NotNow};
pub use options::{ControllerOptions, InvalidOption};

/// Rate of the low-priority pacer: 1 MiB/s.
const LOW_PRIORITY_RATE: u64 = 1 << 20;

/// Bits of [`WriteController::held`].
const DELAYED: u8 = 1;
const STOPPED: u8 = 2;
const LOCKED: u8 = 4;

/// The brake that any number of databases share.
///
/// One pacer and one rate hold for the sum of all clients, and any source delays or stops all of them, but for a
/// [`Client::lock_wal`], which stops its own client only.
#[derive(Debug)]
pub struct WriteController {
    /// Which of the bits hold; 0 = writers pass unasked.
    ///
    /// `SeqCst`: a writer charges its queue bytes, then reads this; a stop sets this, then reads what is charged. One
    /// order of both is needed, or a batch could slip past a stop that in turn does not see it.
    held: AtomicU8,
    rate: AtomicU64,
    clock: Arc<dyn Clock>,
    core: Mutex<Core>,
}

/// Everything that [`WriteController::core`] guards.
#[derive(Debug)]
pub(crate) struct Core {
    requirements: Requirements,
    verdict: Verdict,
    max_rate: u64,
    main: Lane,
    low: Lane,
    clients: BTreeMap<ClientId, ClientEntry>,
    last_client: u64,
    tally: Tally,
    times: StateTimes,
    publications: u64,
}

#[derive(Debug)]
struct ClientEntry {
    name: String,
    interrupt: Option<Interrupt>,
    tally: Tally,
}

/// Which pacer a waiter waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaneId {
    Main,
    LowPriority,
}

impl Core {
    pub(crate) fn lane(&mut self, lane: LaneId) -> &mut Lane {
        match lane {
            LaneId::Main => &mut self.main,
            LaneId::LowPriority => &mut self.low,
        }
    }

    fn delay_rate(&self) -> u64 {
        self.verdict.fraction.map_or(self.max_rate, |fraction| derived_rate(fraction, self.max_rate))
    }

    fn state(&self) -> State {
        match self.verdict {
            Verdict { stopped: true, .. } => State::Stopped,
            Verdict { fraction: Some(_), .. } => State::Delayed,
            _ => State::Normal,
        }
    }

    /// Brings pacer, gate and books in line with the sources and the maximum. Says whether the strictest changed.
    fn apply(&mut self, now: u64) -> bool {
        let verdict = self.requirements.verdict();
        let changed = (verdict.stopped, verdict.fraction) != (self.verdict.stopped, self.verdict.fraction);
        self.verdict = verdict;
        let hold = Hold {
            stopped: verdict.stopped,
            rate: verdict.fraction.map(|_| self.delay_rate()),
            locked: self.requirements.locked_clients(),
            cause: verdict.strictest.map(|source| Cause::Source(source.kind())),
        };
        if changed {
            self.publications += 1;
            self.times.enter(self.state(), now);
        }
        // While stopped the state is not Normal, so debt survives although nobody delays.
        let hold = match hold {
            Hold { stopped: true, rate: None, .. } => Hold { rate: Some(self.max_rate), ..hold },
            hold => hold,
        };
        if hold != self.main.hold {
            self.main.set_hold(hold, self.max_rate, now);
        }
        changed
    }

    /// Moves what the lanes noted to the books of the clients.
    fn book(&mut self) {
        for lane in [&mut self.main, &mut self.low] {
            for (client, place, nanos, cause) in lane.bookings.drain(..) {
                self.tally.book(cause, place, nanos);
                if let Some(entry) = self.clients.get_mut(&client) {
                    entry.tally.book(cause, place, nanos);
                }
            }
            for (client, place, cause) in lane.held.drain(..) {
                self.tally.count_hold(cause, place);
                if let Some(entry) = self.clients.get_mut(&client) {
                    entry.tally.count_hold(cause, place);
                }
            }
        }
    }

    fn interrupt_of(&self, client: ClientId) -> Option<Interrupt> {
        self.clients.get(&client).map_or(Some(Interrupt::Shutdown), |entry| entry.interrupt)
    }
}

impl WriteController {
    /// A controller without clients and sources.
    ///
    /// # Errors
    ///
    /// The first option outside its range.
    pub fn new(options: &ControllerOptions, clock: Arc<dyn Clock>) -> Result<Arc<Self>, InvalidOption> {
        options.validate()?;
        let now = clock.now_nanos();
        let max_rate = match options.delayed_write_rate {
            0 => DEFAULT_MAX_RATE,
            rate => rate,
        };
        let [quantum, credit] =
            [options.delay_quantum, options.delay_credit].map(|time| time.as_nanos() as u64);
        let low_rate = Some(LOW_PRIORITY_RATE);
        let core = Core {
            requirements: Requirements::default(),
            verdict: Verdict::default(),
            max_rate,
            main: Lane::new(Pacer::new(max_rate, quantum, credit, now).frozen(), None, None),
            low: Lane::new(
                Pacer::new(LOW_PRIORITY_RATE, quantum, credit, now),
                low_rate,
                Some(Cause::LowPriority),
            ),
            clients: BTreeMap::new(),
            last_client: 0,
            tally: Tally::default(),
            times: StateTimes::new(now),
            publications: 0,
        };
        Ok(Arc::new(Self {
            held: AtomicU8::new(0),
            rate: AtomicU64::new(max_rate),
            clock,
            core: Mutex::new(core),
        }))
    }

    /// A database (or any other writer) that will ask this controller. Ids start at 1 and are never reused.
    pub fn register(self: &Arc<Self>, name: impl Into<String>) -> Client {
        let id = self.with_core(|core| {
            core.last_client += 1;
            let id = ClientId(NonZeroU64::new(core.last_client).unwrap_or(NonZeroU64::MIN));
            let entry = ClientEntry { name: name.into(), interrupt: None, tally: Tally::default() };
            core.clients.insert(id, entry);
            id
        });
        Client::new(Arc::clone(self), id)
    }

    /// A new source that holds all clients; it asks for nothing yet.
    pub fn source(self: &Arc<Self>, kind: SourceKind) -> Source {
        Source { controller: Arc::clone(self), id: SourceId::new(kind), scope: None }
    }

    /// Replaces what `source` asks for; returns what it asked for before. [`Requirement::Normal`] withdraws it; for
    /// an unknown source that is a no-op.
    pub fn require(&self, source: SourceId, ask: Requirement) -> Requirement {
        self.require_for(source, None, ask)
    }

    fn require_for(&self, source: SourceId, scope: Option<ClientId>, ask: Requirement) -> Requirement {
        let now = self.clock.now_nanos();
        self.with_core(|core| {
            let before = core.requirements.set(source, scope, ask, now);
            if before != ask {
                core.apply(now);
                self.publish(core);
            }
            before
        })
    }

    /// Changes the maximum rate, in bytes per second. 0 becomes 1. Every source is re-derived from its fraction and
    /// sleepers are re-priced at once. On a shared controller it holds for all.
    pub fn set_max_rate(&self, bytes_per_second: u64) {
        let now = self.clock.now_nanos();
        self.with_core(|core| {
            let max_rate = bytes_per_second.max(1);
            if max_rate != core.max_rate {
                core.max_rate = max_rate;
                if !core.apply(now) {
                    core.publications += 1;
                }
                self.publish(core);
            }
        });
    }

    /// The maximum rate, in bytes per second.
    pub fn max_rate(&self) -> u64 {
        self.with_core(|core| core.max_rate)
    }

    /// Bytes per second that writers get now: 0 while stopped, the maximum while nobody delays. One atomic load.
    pub fn rate(&self) -> u64 {
        self.rate.load(Ordering::Relaxed) // statistics
    }

    /// The delayed rate under RocksDB's name `actual-delayed-write-rate`: 0 when nobody delays.
    pub fn actual_delayed_write_rate(&self) -> u64 {
        self.with_core(|core| core.verdict.fraction.map_or(0, |_| core.delay_rate()))
    }

    /// Whether a source stops all clients. One atomic load.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.held.load(Ordering::SeqCst) & STOPPED != 0
    }

    /// Whether anything slows or stops all clients. One atomic load. Then background output is urgent.
    #[inline]
    pub fn is_holding(&self) -> bool {
        self.held.load(Ordering::SeqCst) & (STOPPED | DELAYED) != 0
    }

    /// What `source` asks for at present.
    pub fn requirement(&self, source: SourceId) -> Requirement {
        self.with_core(|core| core.requirements.get(source))
    }

    /// Ends the waits of *tasks* (polled [`Turn`](crate::Turn)s) whose bytes are earned, and says when to call again: the clock
    /// time, in ns, of the earliest such wait still going on. Threads need no such help.
    pub fn wake_due(&self) -> Option<u64> {
        let now = self.clock.now_nanos();
        self.with_core(|core| {
            [LaneId::Main, LaneId::LowPriority].into_iter().fold(None, |earliest: Option<u64>, lane| {
                let lane = core.lane(lane);
                lane.pass_earned(now);
                let next = lane.next_task();
                [earliest, next].into_iter().flatten().min()
            })
        })
    }

    /// Everything there is to see. Takes the lock that waiting writers take, for the time of a copy; writers that
    /// nothing holds back are not disturbed.
    pub fn stats(&self) -> ControllerStats {
        let now = self.clock.now_nanos();
        self.with_core(|core| {
            core.main.settle_all(now);
            core.low.settle_all(now);
            core.main.pacer.accrue(now);
            core.book();
            let (sleeping, parked) = core.main.gate.counts();
            let sources = core.requirements.iter().map(|(source, entry)| SourceReport {
                source,
                requirement: entry.requirement,
                rate: match entry.requirement {
                    Requirement::Normal => core.max_rate,
                    Requirement::Delayed(fraction) => derived_rate(fraction, core.max_rate),
                    Requirement::Stopped => 0,
                },
                scope: entry.scope,
                age: Duration::from_nanos(now.saturating_sub(entry.since)),
            });
            ControllerStats {
                state: core.state(),
                rate: if core.verdict.stopped { 0 } else { core.delay_rate() },
                delay_rate: core.delay_rate(),
                max_rate: core.max_rate,
                strictest: core.verdict.strictest,
                sources: sources.collect(),
                times: core.times.report(now),
                publications: core.publications,
                sleeping,
                parked,
                low_priority_sleeping: core.low.gate.counts().0,
                balance: core.main.pacer.balance(),
                pacer_lost_bytes: core.main.pacer.lost_bytes(),
                tally: core.tally,
            }
        })
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Runs `work` under the lock, keeps the books, and wakes whoever is to be woken once the lock is released.
    pub(crate) fn with_core<R>(&self, work: impl FnOnce(&mut Core) -> R) -> R {
        let mut core = self.core.lock();
        let result = work(&mut core);
        core.book();
        let mut wakeups = std::mem::take(&mut core.main.wakeups);
        wakeups.append(&mut core.low.wakeups);
        drop(core);
        wakeups.into_iter().for_each(crate::gate::WakeUp::wake);
        result
    }

    /// Shows the state to writers that do not take the lock.
    fn publish(&self, core: &Core) {
        let bit = |holds: bool, bit: u8| if holds { bit } else { 0 };
        let held = bit(core.verdict.fraction.is_some(), DELAYED)
            | bit(core.verdict.stopped, STOPPED)
            | bit(!core.main.hold.locked.is_empty(), LOCKED);
        self.held.store(held, Ordering::SeqCst);
        let rate = if core.verdict.stopped { 0 } else { core.delay_rate() };
        self.rate.store(rate, Ordering::Relaxed); // statistics
    }
}

impl PressureSink for WriteController {
    fn set_pressure(&self, source: SourceId, pressure: Pressure) {
        self.require(source, pressure.into());
    }

    fn rescue_one(&self, source: SourceId) -> bool {
        let now = self.clock.now_nanos();
        self.with_core(|core| core.requirements.alone_stops(source) && core.main.rescue_first(now))
    }
}

/// A source of pressure that is not a meter. Dropping it withdraws what it asked for.
#[derive(Debug)]
pub struct Source {
    controller: Arc<WriteController>,
    id: SourceId,
    scope: Option<ClientId>,
}

impl Source {
    /// Its identity.
    pub fn id(&self) -> SourceId {
        self.id
    }

    /// Replaces what it asks for; returns what it asked for before.
    pub fn require(&self, ask: Requirement) -> Requirement {
        self.controller.require_for(self.id, self.scope, ask)
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.require(Requirement::Normal);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests;
