//! Column families at the manager and the controller: whom the manager may ask to flush, what each family asks of the
//! brake, and the reports of their flushes.
//!
//! What a family asks for is a pure function of its state ([`sources`]). How flushes run is not known here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use sluicedb_controller::{Requirement, Source, SourceKind};
use sluicedb_wbm::{FlushOutcome, FlushTarget, State, TargetGuard};

use super::Pressure;
use super::sources;
use crate::column_family::FamilyData;
use crate::compaction::score::Score;
use crate::memtable::Memtable;

/// What a column family has at the manager and at the controller. Dropping it takes all of it away.
#[derive(Debug)]
pub(crate) struct FamilyPressure {
    target: TargetGuard,
    memtable_count: SourceOf,
    l0: SourceOf,
    pending: SourceOf,
    /// Entries of `l0` into its states while a compaction of the family ran.
    l0_while_compacting: [AtomicU64; 2],
}

impl FamilyPressure {
    /// How often each of its sources began to delay and to stop, by name of the cause.
    pub(super) fn counts(&self) -> [(SourceKind, (u64, u64)); 3] {
        [
            (SourceKind::L0, self.l0.counts()),
            (SourceKind::MemtableCount, self.memtable_count.counts()),
            (SourceKind::PendingCompactionBytes, self.pending.counts()),
        ]
    }

    /// The same for L0, while a compaction of the family ran.
    pub(super) fn l0_counts_while_compacting(&self) -> (u64, u64) {
        let count = |which: usize| self.l0_while_compacting[which].load(Ordering::Relaxed); // statistics
        (count(0), count(1))
    }
}

/// One source, and how often it began to delay and to stop.
#[derive(Debug)]
struct SourceOf {
    source: Source,
    delays: AtomicU64,
    stops: AtomicU64,
}

/// Column families.
impl Pressure {
    /// From now on the manager may ask the family for flushes, and the family may ask for delays.
    pub(in crate::db) fn register_family(&self, family: &Arc<FamilyData>) {
        let target: Weak<dyn FlushTarget> = Arc::downgrade(&(Arc::clone(family) as Arc<dyn FlushTarget>));
        let source = |kind| SourceOf {
            source: self.controller.source(kind),
            delays: AtomicU64::new(0),
            stops: AtomicU64::new(0),
        };
        let pressure = FamilyPressure {
            target: self.database.attach_target(target),
            memtable_count: source(SourceKind::MemtableCount),
            l0: source(SourceKind::L0),
            pending: source(SourceKind::PendingCompactionBytes),
            l0_while_compacting: [AtomicU64::new(0), AtomicU64::new(0)],
        };
        family.set_pressure(Some(Arc::new(pressure)));
    }

    /// Withdraws all that the family asked for; it is asked for no more flushes.
    pub(in crate::db) fn forget_family(&self, family: &FamilyData) {
        family.set_pressure(None);
    }

    /// Brings what the family asks for in line with its present state.
    pub(in crate::db) fn update_family(
        &self,
        family: &FamilyData,
        score: &Score,
        unflushed: u32,
        compacting: bool,
    ) {
        let Some(pressure) = family.pressure() else { return };
        let options = &family.options;
        pressure.memtable_count.ask(sources::memtable_count(options, unflushed));
        pressure.pending.ask(sources::pending_bytes(options, score.pending_bytes()));
        if let Some(state) = pressure.l0.ask(sources::l0(options, score.l0_depth()))
            && compacting
        {
            let entered = usize::from(state == State::Stopped);
            pressure.l0_while_compacting[entered].fetch_add(1, Ordering::Relaxed); // statistics
        }
    }

    /// A flush of `bytes` is queued: its memtables are sealed.
    pub(in crate::db) fn flush_queued(&self, family: &FamilyData, bytes: u64) {
        if let Some(pressure) = family.pressure() {
            pressure.target.flush_queued(bytes);
        }
    }

    /// A job has picked these memtables. Counted before it does any work.
    pub(in crate::db) fn flush_started(&self, family: &FamilyData, memtables: &[Arc<Memtable>]) {
        if let Some(pressure) = family.pressure() {
            pressure.target.flush_started(memtables.iter().map(|memtable| memtable.bytes()).sum());
        }
        for memtable in memtables {
            memtable.charge().flush_started();
        }
    }

    /// The flush of these memtables is over.
    pub(in crate::db) fn flush_ended(&self, family: &FamilyData, memtables: &[Arc<Memtable>], done: bool) {
        for memtable in memtables {
            if done {
                memtable.charge().flushed();
            } else {
                memtable.charge().flush_failed();
            }
        }
        let outcome = match done {
            true if memtables.is_empty() => FlushOutcome::Nothing,
            true => FlushOutcome::Done,
            false => FlushOutcome::Failed,
        };
        if let Some(pressure) = family.pressure() {
            pressure.target.flush_ended(outcome);
        }
    }
}

impl SourceOf {
    /// Asks for `ask`; the state that the source enters by it, if it is a new one that holds writers.
    fn ask(&self, ask: Requirement) -> Option<State> {
        let state = |requirement: &Requirement| match requirement {
            Requirement::Normal => State::Normal,
            Requirement::Delayed(_) => State::Delayed,
            Requirement::Stopped => State::Stopped,
        };
        let (before, now) = (state(&self.source.require(ask)), state(&ask));
        if before == now {
            return None;
        }
        match now {
            State::Normal => return None,
            State::Delayed => self.delays.fetch_add(1, Ordering::Relaxed), // statistics
            State::Stopped => self.stops.fetch_add(1, Ordering::Relaxed),  // statistics
        };
        Some(now)
    }

    fn counts(&self) -> (u64, u64) {
        (self.delays.load(Ordering::Relaxed), self.stops.load(Ordering::Relaxed)) // statistics
    }
}
