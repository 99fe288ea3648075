//! Column families at the manager and the controller: whom the manager may ask to flush, what each family asks of the
//! brake, and the reports of their flushes.
//!
//! What a family asks for is a pure function of its state ([`sources`]). How flushes run is not known here.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use sluicedb_controller::{Requirement, Source, SourceKind};
use sluicedb_wbm::{FlushOutcome, FlushTarget, State, TargetGuard};

use super::Pressure;
use super::sources;
use super::transitions::{Reason, Transition, state_of};
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
    /// So much of it waits for compaction that more of them should run.
    behind: AtomicBool,
    /// How near it is to holding writers, in percent.
    proximity: AtomicU32,
}

impl FamilyPressure {
    /// Whether compaction is behind with the family: low-priority writes give way.
    pub(in crate::db) fn is_behind(&self) -> bool {
        self.behind.load(Ordering::Relaxed) // advice
    }

    /// How near it is to holding writers: 0 healthy, 100 where that begins, more beyond.
    pub(in crate::db) fn proximity(&self) -> u32 {
        self.proximity.load(Ordering::Relaxed) // advice
    }

    /// How often each of its sources began to delay and to stop, by name of the cause.
    pub(super) fn counts(&self) -> [(SourceKind, (u64, u64)); 3] {
        [
            (SourceKind::L0, self.l0.counts()),
            (SourceKind::MemtableCount, self.memtable_count.counts()),
            (SourceKind::PendingCompactionBytes, self.pending.counts()),
        ]
    }

    /// Sets all of these counts back to 0.
    pub(super) fn forget_counts(&self) {
        for source in [&self.l0, &self.memtable_count, &self.pending] {
            source.delays.store(0, Ordering::Relaxed); // statistics, here and below
            source.stops.store(0, Ordering::Relaxed);
        }
        self.l0_while_compacting.iter().for_each(|count| count.store(0, Ordering::Relaxed));
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
    /// When it went to its present state, on the database's clock. Used in the family's turn to ask only.
    since: AtomicU64,
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
            since: AtomicU64::new(self.clock.now_nanos()),
            delays: AtomicU64::new(0),
            stops: AtomicU64::new(0),
        };
        let pressure = FamilyPressure {
            target: self.database.attach_target(target),
            memtable_count: source(SourceKind::MemtableCount),
            l0: source(SourceKind::L0),
            pending: source(SourceKind::PendingCompactionBytes),
            l0_while_compacting: [AtomicU64::new(0), AtomicU64::new(0)],
            behind: AtomicBool::new(false),
            proximity: AtomicU32::new(0),
        };
        drop(family.set_pressure(Some(Arc::new(pressure))));
    }

    /// Withdraws all that the family asked for; it is asked for no more flushes.
    pub(in crate::db) fn forget_family(&self, family: &FamilyData) {
        let Some(gone) = family.set_pressure(None) else { return };
        {
            let _turn = family.asking.lock();
            let nothing = Requirement::Normal;
            self.ask(family, &gone.memtable_count, nothing, Reason::Memtables { unflushed: 0, most: 0 });
            self.ask(family, &gone.pending, nothing, Reason::Pending { bytes: 0 });
            self.ask(family, &gone.l0, nothing, Reason::L0 { files: 0 });
        }
        self.tell();
        drop(gone);
    }

    /// Brings what the family asks for in line with its present state. The caller has the family's turn to ask, and calls
    /// [`tell`](Self::tell) when it has given it back.
    pub(in crate::db) fn update_family(
        &self,
        family: &FamilyData,
        score: &Score,
        unflushed: u32,
        compacting: bool,
    ) {
        let Some(pressure) = family.pressure() else { return };
        let options = &*family.options();
        let most = options.max_write_buffer_number;
        self.ask(
            family,
            &pressure.memtable_count,
            sources::memtable_count(options, unflushed),
            Reason::Memtables { unflushed, most },
        );
        let behind = !options.disable_auto_compactions && score.compaction_pressure(options);
        pressure.behind.store(behind, Ordering::Relaxed); // advice
        let (bytes, files) = (score.pending_bytes(), score.l0_depth());
        let proximity = sources::proximity(options, unflushed, files, bytes);
        pressure.proximity.store(proximity, Ordering::Relaxed); // advice
        self.ask(
            family,
            &pressure.pending,
            sources::pending_bytes(options, bytes),
            Reason::Pending { bytes },
        );
        let entered = self.ask(family, &pressure.l0, sources::l0(options, files), Reason::L0 { files });
        if let Some(state) = entered
            && compacting
        {
            let entered = usize::from(state == State::Stopped);
            pressure.l0_while_compacting[entered].fetch_add(1, Ordering::Relaxed); // statistics
        }
    }

    /// Asks for `asks`, and notes a change of state; the state that the source enters by it, if it is a new one that
    /// holds writers.
    fn ask(&self, family: &FamilyData, of: &SourceOf, asks: Requirement, reason: Reason) -> Option<State> {
        let (previous, current) = (state_of(&of.source.require(asks)), state_of(&asks));
        if previous == current {
            return None;
        }
        let now = self.clock.now_nanos();
        let since = of.since.swap(now, Ordering::Relaxed); // the turn to ask orders it
        self.transitions.note(&Transition {
            family: &family.name,
            source: of.source.id(),
            previous,
            asks,
            reason,
            max_rate: self.controller.max_rate(),
            lasted: Duration::from_nanos(now.saturating_sub(since)),
        });
        match current {
            State::Normal => return None,
            State::Delayed => of.delays.fetch_add(1, Ordering::Relaxed), // statistics
            State::Stopped => of.stops.fetch_add(1, Ordering::Relaxed),  // statistics
        };
        Some(current)
    }

    /// Writes the changes that were noted into LOG; with no lock held.
    pub(in crate::db) fn tell(&self) {
        self.transitions.write();
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
        family.leave_flight(); // first: the manager may ask this very family for the next flush
        if let Some(pressure) = family.pressure() {
            pressure.target.flush_ended(outcome);
        }
    }
}

impl SourceOf {
    fn counts(&self) -> (u64, u64) {
        (self.delays.load(Ordering::Relaxed), self.stops.load(Ordering::Relaxed)) // statistics
    }
}
