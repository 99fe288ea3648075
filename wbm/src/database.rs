//! [`Database`]: one database as the manager sees it: a name, counters of its own, its charges, targets and sinks.
//!
//! Everything that a database attaches is a guard; dropping it takes it away. What a database is otherwise is not
//! known here.

use crate::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use sluicedb_controller::PressureSink;

use crate::charge::ChargeShared;
use crate::sync::Mutex;
use crate::targets::{FlushOutcome, FlushTarget, TargetId};
use crate::{Charge, Holder, PinKind, PressureObserver, UsageReport, WriteBufferManager};

/// A database that is registered with a manager; dropping it deregisters. It keeps the manager alive.
#[derive(Debug)]
pub struct Database {
    shared: Arc<DatabaseShared>,
    manager: Arc<WriteBufferManager>,
}

/// What a database's charges and targets keep of it.
pub(crate) struct DatabaseShared {
    /// 1, 2, 3 ... never reused.
    pub(crate) id: u64,
    pub(crate) name: Arc<str>,
    /// Bytes that wait for commit.
    queued: AtomicU64,
    /// Bytes of oversized batches that are not in a memtable yet.
    advanced: AtomicU64,
    pub(crate) observer: Option<Weak<dyn PressureObserver>>,
    charges: Mutex<Charges>,
}

#[derive(Default)]
struct Charges {
    live: BTreeMap<u64, Weak<ChargeShared>>,
    last: u64,
    /// Why the bytes of this database are out of the pressure.
    aside: Option<PinKind>,
}

impl Database {
    pub(crate) fn new(
        manager: Arc<WriteBufferManager>,
        id: u64,
        name: Arc<str>,
        observer: Option<Weak<dyn PressureObserver>>,
    ) -> Self {
        let (queued, advanced) = (AtomicU64::new(0), AtomicU64::new(0));
        let shared = DatabaseShared { id, name, queued, advanced, observer, charges: Mutex::default() };
        let shared = Arc::new(shared);
        Self { shared, manager }
    }

    pub(crate) fn shared(&self) -> &Arc<DatabaseShared> {
        &self.shared
    }

    /// Its number within the manager: 1, 2, 3 ... never reused.
    pub fn id(&self) -> u64 {
        self.shared.id
    }

    /// The manager that it is registered with.
    pub fn manager(&self) -> &Arc<WriteBufferManager> {
        &self.manager
    }

    /// Its own bytes by state: the sum over its memtables, so that writers have one counter less to share.
    pub fn usage(&self) -> UsageReport {
        self.shared.usage()
    }

    /// Opens the charge of a new memtable of the column family `family` (a name for reports).
    pub fn open_charge(&self, family: &Arc<str>) -> Charge {
        let now = self.manager.now();
        let mut charges = self.shared.charges.lock();
        charges.last += 1;
        let (id, aside) = (charges.last, charges.aside);
        let (manager, database) = (Arc::clone(&self.manager), Arc::clone(&self.shared));
        let charge = Charge::open(manager, database, id, Arc::clone(family), aside, now);
        charges.live.insert(id, Arc::downgrade(charge.shared()));
        charge
    }

    /// Tells `sink` of the pressure, now and at every change, until the guard is dropped. Several databases may attach
    /// the same sink: it is told once per change, and the requirement is withdrawn with the last guard.
    pub fn attach_sink(&self, sink: Arc<dyn PressureSink>) -> SinkGuard {
        self.manager.attach_sink(sink)
    }

    /// Makes `target` one that the manager may ask for a flush, until the guard is dropped. If a flush is wanted it
    /// may be asked within this call.
    pub fn attach_target(&self, target: Weak<dyn FlushTarget>) -> TargetGuard {
        let id = self.manager.targets().attach(Arc::clone(&self.shared), target);
        self.manager.evaluate();
        self.manager.check_flushes();
        TargetGuard { manager: Arc::clone(&self.manager), id }
    }

    /// Counts `bytes` that wait for commit: in the delay step, never in the stop, until they are charged with
    /// [`Charge::grow_from_queue`] or the token is dropped.
    pub fn queue(&self, bytes: u64) -> Queued {
        self.shared.queued.fetch_add(bytes, Ordering::Relaxed); // statistics
        self.manager.usage().queued.fetch_add(bytes, Ordering::SeqCst);
        self.manager.moved();
        Queued { database: Arc::clone(&self.shared), manager: Arc::clone(&self.manager), bytes }
    }

    /// Whether a batch that will be charged `bytes` must be [admitted alone](Self::admit_alone): it is larger than the
    /// quota, and the manager may stop writers.
    pub fn is_oversized(&self, bytes: u64) -> bool {
        self.manager.is_oversized(bytes)
    }

    /// Takes the whole charge of an oversized batch ahead of its memtable, in one step that succeeds only below the
    /// quota. Afterwards nobody else gets in until flushes have freed enough; the batch itself is not held by its own
    /// charge: do not test the stop again for it. `None`: go back to the gate, keeping what was paid.
    pub fn admit_alone(&self, bytes: u64) -> Option<Advance> {
        self.manager.take_alone(bytes)?;
        self.shared.advanced.fetch_add(bytes, Ordering::Relaxed); // statistics
        self.manager.moved();
        Some(Advance { database: Arc::clone(&self.shared), manager: Arc::clone(&self.manager), bytes })
    }

    /// The database refuses writes after an error, or because its disk is full: what it holds no flush can free until
    /// [`resume`](Self::resume), so it leaves the pressure and is reported as pinned.
    pub fn set_failed(&self) {
        self.set_aside(Some(PinKind::FailedDatabase));
    }

    /// The database is open for reading only: nothing that it holds will ever be flushed.
    pub fn set_read_only(&self) {
        self.set_aside(Some(PinKind::ReadOnlyDatabase));
    }

    /// Ends [`set_failed`](Self::set_failed): what it holds counts again.
    pub fn resume(&self) {
        self.set_aside(None);
    }

    fn set_aside(&self, aside: Option<PinKind>) {
        let now = self.manager.now();
        let charges: Vec<_> = {
            let mut charges = self.shared.charges.lock();
            charges.aside = aside;
            charges.live.values().filter_map(Weak::upgrade).collect()
        };
        charges.iter().for_each(|charge| charge.set_aside(aside, now));
        self.manager.freed();
    }

    /// Its charges, largest first.
    pub fn holders(&self) -> Vec<Holder> {
        let mut holders = self.shared.holders(self.manager.now());
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.bytes));
        holders
    }

    /// Its attached targets.
    pub fn targets(&self) -> usize {
        self.manager.targets().of_database(self.shared.id)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.manager.deregister(self.shared.id);
    }
}

impl DatabaseShared {
    pub(crate) fn forget_charge(&self, id: u64) {
        self.charges.lock().live.remove(&id);
    }

    /// Its bytes by state.
    pub(crate) fn usage(&self) -> UsageReport {
        let advanced = self.advanced.load(Ordering::Relaxed); // statistics
        let queued = self.queued.load(Ordering::Relaxed); // statistics
        let mut report = UsageReport { used: advanced, mutable: advanced, queued, ..UsageReport::default() };
        self.live().iter().for_each(|charge| charge.add_to(&mut report));
        report
    }

    fn live(&self) -> Vec<Arc<ChargeShared>> {
        self.charges.lock().live.values().filter_map(Weak::upgrade).collect()
    }

    /// Every charge that holds bytes.
    pub(crate) fn holders(&self, now: u64) -> Vec<Holder> {
        self.live().iter().map(|charge| charge.holder(now)).filter(|holder| holder.bytes > 0).collect()
    }
}

impl std::fmt::Debug for DatabaseShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}

/// Bytes of one batch that wait for commit.
#[derive(Debug)]
pub struct Queued {
    database: Arc<DatabaseShared>,
    manager: Arc<WriteBufferManager>,
    bytes: u64,
}

impl Queued {
    /// Bytes that still count as queued.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes up to `bytes` out without looking at the pressure: the caller adds them elsewhere and looks then.
    pub(crate) fn take(&mut self, bytes: u64) -> u64 {
        let taken = bytes.min(self.bytes);
        self.bytes -= taken;
        self.database.queued.fetch_sub(taken, Ordering::Relaxed); // statistics
        self.manager.usage().queued.fetch_sub(taken, Ordering::SeqCst);
        taken
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        if self.take(self.bytes) > 0 {
            self.manager.moved();
        }
    }
}

/// The whole charge of an oversized batch that is not in a memtable yet. Dropping it returns what is left.
#[derive(Debug)]
pub struct Advance {
    database: Arc<DatabaseShared>,
    manager: Arc<WriteBufferManager>,
    bytes: u64,
}

impl Advance {
    /// Bytes not handed to a memtable yet.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Hands up to `bytes` over to a charge; they stay in the pressure.
    pub(crate) fn take(&mut self, bytes: u64) -> u64 {
        let taken = bytes.min(self.bytes);
        self.bytes -= taken;
        self.database.advanced.fetch_sub(taken, Ordering::Relaxed); // statistics
        self.manager.advances().fetch_sub(taken, Ordering::SeqCst);
        taken
    }
}

impl Drop for Advance {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.database.advanced.fetch_sub(self.bytes, Ordering::Relaxed); // statistics
            self.manager.usage().used.fetch_sub(self.bytes, Ordering::SeqCst);
            self.manager.advances().fetch_sub(self.bytes, Ordering::SeqCst);
            self.manager.freed();
            self.manager.advance_used_up();
        }
    }
}

/// A sink that is told of the pressure. Dropping it withdraws what the manager asked of it.
pub struct SinkGuard {
    pub(crate) manager: Arc<WriteBufferManager>,
    pub(crate) sink: Arc<dyn PressureSink>,
}

impl Drop for SinkGuard {
    fn drop(&mut self) {
        self.manager.signal().detach(&self.sink);
    }
}

impl std::fmt::Debug for SinkGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SinkGuard").finish_non_exhaustive()
    }
}

/// A flush target that is attached, and where its engine reports its flushes, whoever asked for them. Dropping it
/// detaches: what was on its way for it counts no more.
///
/// All reports may be called with an engine lock held that [`FlushTarget::reclaimable`] and
/// [`FlushTarget::request_flush`] do not take: other targets may be asked within the call.
#[derive(Debug)]
pub struct TargetGuard {
    manager: Arc<WriteBufferManager>,
    id: TargetId,
}

impl TargetGuard {
    /// The target's identity.
    pub fn id(&self) -> TargetId {
        self.id
    }

    /// A flush of `bytes` is queued: its memtables are sealed. Also a failed one that is tried again. It takes one of
    /// the parallel flushes from now on.
    pub fn flush_queued(&self, bytes: u64) {
        self.manager.targets().queued(self.id, bytes);
        self.manager.evaluate();
    }

    /// A job has picked what is queued; `bytes` is what it will free. Call [`Charge::flush_started`] too.
    pub fn flush_started(&self, bytes: u64) {
        self.manager.targets().started(self.id, bytes);
        self.manager.evaluate();
    }

    /// The flush is over. Call [`Charge::flushed`] or [`Charge::flush_failed`] *before*, so that the pressure is that
    /// of the bytes left. Asks for further flushes, and checks liveness.
    pub fn flush_ended(&self, outcome: FlushOutcome) {
        self.manager.targets().ended(self.id, outcome);
        self.manager.evaluate();
        self.manager.check_flushes();
    }
}

impl Drop for TargetGuard {
    fn drop(&mut self) {
        self.manager.targets().detach(self.id);
        self.manager.evaluate();
        self.manager.check_flushes();
    }
}

/// For the type of [`WriteBufferManager`]'s counter of advances.
pub(crate) type AdvanceBytes = AtomicU64;
