//! One manager with databases, families that can be flushed by hand, and sinks that write down what they are told.

use std::sync::atomic::AtomicU64 as Counter;

use sluicedb_controller::{ControllerOptions, ManualClock, WriteController};

use super::*;
use crate::sync::Mutex as Lock;
use crate::{Charge, Database, FlushOutcome, FlushTarget, MemtableState, Reclaimable, TargetGuard};

mod accounting;
mod flushes;
mod liveness;
mod publishing;

/// A manager on a clock that is moved by hand.
struct Rig {
    clock: ManualClock,
    manager: Arc<WriteBufferManager>,
    /// Who was asked, and for how many bytes, in order.
    asked: Arc<Lock<Vec<(String, u64)>>>,
    created: Counter,
}

impl Rig {
    fn with(options: WbmOptions) -> Self {
        let clock = ManualClock::new(0);
        let manager = WriteBufferManager::new(options, Arc::new(clock.clone())).unwrap();
        Self { clock, manager, asked: Arc::default(), created: Counter::new(0) }
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
        family.charge(bytes);
        Attached { family, guard }
    }

    fn loose_family(&self, database: &Database, name: &str) -> Arc<Family> {
        let name: Arc<str> = name.into();
        Arc::new(Family {
            memtables: Lock::new(vec![database.open_charge(&name)]),
            accepts: AtomicBool::new(true),
            hidden: AtomicBool::new(false),
            pending: AtomicBool::new(false),
            created: self.created.fetch_add(1, Ordering::Relaxed),
            asked: Arc::clone(&self.asked),
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
    memtables: Lock<Vec<Charge>>,
    accepts: AtomicBool,
    /// Claims to hold nothing.
    hidden: AtomicBool,
    pending: AtomicBool,
    created: u64,
    asked: Arc<Lock<Vec<(String, u64)>>>,
}

impl Family {
    fn charge(&self, bytes: u64) {
        // Growing may ask this very family, which looks at its memtables.
        let mutable = self.memtables.lock().pop().unwrap();
        self.memtables.lock().push(mutable);
        let grow: *const Charge = std::ptr::null();
        let _ = grow;
        self.with_mutable(|mutable| mutable.grow(bytes));
    }

    fn with_mutable(&self, act: impl FnOnce(&Charge)) {
        let memtables = self.memtables.lock();
        act(memtables.last().unwrap());
    }
}
