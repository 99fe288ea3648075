//! One manager with databases, families that can be flushed by hand, and sinks that write down what they are told.

use std::sync::atomic::AtomicU64 as Counter;

use sluicedb_controller::{ControllerOptions, Event, ManualClock, WriteController};

use super::*;
use crate::sync::Mutex as Lock;
use crate::sync::atomic::AtomicBool;
use crate::{Charge, Database, FlushOutcome, FlushTarget, MemtableState, Reclaimable, TargetGuard};

mod accounting;
mod flushes;
mod liveness;
mod publishing;
#[cfg(shuttle)]
mod schedules;

/// A manager on a clock that is moved by hand.
struct Rig {
    clock: ManualClock,
    manager: Arc<WriteBufferManager>,
    /// Who was asked, and for how many bytes, in order.
    asked: Arc<Lock<Vec<(String, u64)>>>,
    /// Rung when somebody is asked.
    bell: Arc<Event>,
    created: Counter,
}

impl Rig {
    fn with(options: WbmOptions) -> Self {
        Self::on(ManualClock::new(0), options)
    }

    fn on(clock: ManualClock, options: WbmOptions) -> Self {
        let manager = WriteBufferManager::new(options, Arc::new(clock.clone())).unwrap();
        Self { clock, manager, asked: Arc::default(), bell: Arc::default(), created: Counter::new(0) }
    }

    /// Flushes are asked for ahead of time.
    fn new(quota: u64) -> Self {
        Self::with(WbmOptions::new(quota))
    }

    /// Rule 1.4 instead.
    fn not_proactive(quota: u64) -> Self {
        Self::with(WbmOptions { initiate_flushes: false, ..WbmOptions::new(quota) })
    }

    fn database(&self, name: &str) -> Database {
        self.manager.register(name, None)
    }

    fn controller(&self, max_rate: u64) -> Arc<WriteController> {
        WriteController::new(&ControllerOptions::with_rate(max_rate), Arc::new(self.clock.clone())).unwrap()
    }

    /// A family of `database`, attached as a target, holding `bytes` in its mutable memtable.
    fn family(&self, database: &Database, name: &str, bytes: u64) -> Attached {
        let family = self.loose_family(database, name);
        let guard = database.attach_target(Arc::downgrade(&family) as Weak<dyn FlushTarget>);
        let attached = Attached { family, guard };
        attached.charge(bytes);
        attached
    }

    fn loose_family(&self, database: &Database, name: &str) -> Arc<Family> {
        let name: Arc<str> = name.into();
        Arc::new(Family {
            memtables: Lock::new(vec![Arc::new(database.open_charge(&name))]),
            accepts: AtomicBool::new(true),
            hidden: AtomicBool::new(false),
            pending: AtomicBool::new(false),
            created: self.created.fetch_add(1, Ordering::Relaxed),
            asked: Arc::clone(&self.asked),
            bell: Arc::clone(&self.bell),
            name,
        })
    }

    /// Who was asked since the last call, as `name bytes, name bytes`.
    fn asked(&self) -> String {
        let asked = std::mem::take(&mut *self.asked.lock());
        asked.iter().map(|(name, bytes)| format!("{name} {bytes}")).collect::<Vec<_>>().join(", ")
    }

    fn used(&self) -> u64 {
        self.manager.usage_report().used
    }

    /// The published code: 0, 1..=99, 100.
    fn code(&self) -> u8 {
        self.manager.pressure().code()
    }
}

/// A column family as far as flushing goes: memtables of which the last is mutable.
struct Family {
    name: Arc<str>,
    memtables: Lock<Vec<Arc<Charge>>>,
    accepts: AtomicBool,
    /// Claims to hold nothing.
    hidden: AtomicBool,
    pending: AtomicBool,
    created: u64,
    asked: Arc<Lock<Vec<(String, u64)>>>,
    bell: Arc<Event>,
}

impl Family {
    fn mutable(&self) -> Arc<Charge> {
        Arc::clone(self.memtables.lock().last().unwrap())
    }

    fn accepts(&self, accepts: bool) {
        self.accepts.store(accepts, Ordering::SeqCst);
    }
}

impl FlushTarget for Family {
    fn reclaimable(&self) -> Reclaimable {
        let memtables = self.memtables.lock();
        let free = memtables.iter().filter(|charge| charge.state() < MemtableState::Flushing);
        let bytes =
            if self.hidden.load(Ordering::SeqCst) { 0 } else { free.map(|charge| charge.bytes()).sum() };
        let mutable = memtables.last().map_or(0, |charge| charge.bytes()).min(bytes);
        let pending = self.pending.load(Ordering::SeqCst);
        Reclaimable { bytes, mutable, oldest: Some(self.created), pending }
    }

    fn request_flush(&self) -> bool {
        self.asked.lock().push((self.name.to_string(), self.reclaimable().bytes));
        let accepts = self.accepts.load(Ordering::SeqCst);
        self.pending.store(accepts, Ordering::SeqCst);
        self.bell.ring();
        accepts
    }
}

/// A family and the guard of its target.
struct Attached {
    family: Arc<Family>,
    guard: TargetGuard,
}

/// What a flush job has picked.
struct Picked(Vec<Arc<Charge>>);

impl Attached {
    fn charge(&self, bytes: u64) {
        self.family.mutable().grow(bytes);
    }

    fn accepts(&self, accepts: bool) {
        self.family.accepts(accepts);
    }

    /// Seals the mutable memtable and opens the next; returns the bytes of all sealed ones.
    fn seal(&self, database: &Database) -> u64 {
        let next = Arc::new(database.open_charge(&self.family.name));
        let mut memtables = self.family.memtables.lock();
        memtables.push(next);
        let sealed = memtables.split_last().unwrap().1.to_vec();
        drop(memtables);
        sealed.iter().for_each(|charge| charge.seal());
        sealed
            .iter()
            .filter(|charge| charge.state() == MemtableState::Sealed)
            .map(|charge| charge.bytes())
            .sum()
    }

    /// Seals, and reports a flush as queued, whoever asked for it.
    fn queue(&self, database: &Database) {
        let bytes = self.seal(database);
        self.family.pending.store(true, Ordering::SeqCst);
        self.guard.flush_queued(bytes);
    }

    /// The job picks all sealed memtables.
    fn start(&self) -> Picked {
        let sealed = |charge: &&Arc<Charge>| charge.state() == MemtableState::Sealed;
        let picked: Vec<_> = self.family.memtables.lock().iter().filter(sealed).map(Arc::clone).collect();
        self.guard.flush_started(picked.iter().map(|charge| charge.bytes()).sum());
        picked.iter().for_each(|charge| charge.flush_started());
        Picked(picked)
    }

    /// Its SST is installed, and nobody reads the memtables.
    fn end(&self, picked: Picked) {
        let gone = |charge: &mut Arc<Charge>| picked.0.iter().any(|other| Arc::ptr_eq(charge, other));
        let removed: Vec<_> = self.family.memtables.lock().extract_if(.., gone).collect();
        picked.0.iter().for_each(|charge| charge.flushed());
        drop((picked, removed));
        self.family.pending.store(false, Ordering::SeqCst);
        self.guard.flush_ended(FlushOutcome::Done);
    }

    fn fail(&self, picked: Picked) {
        picked.0.iter().for_each(|charge| charge.flush_failed());
        self.guard.flush_ended(FlushOutcome::Failed);
    }

    /// A whole flush.
    fn flush(&self, database: &Database) {
        self.queue(database);
        let picked = self.start();
        self.end(picked);
    }
}
