//! Meter and brake together under load: many databases, threads on a virtual clock, flushes that take their time.
//!
//! What an engine does with the two crates, in small: admission in slices, room in a queue, the stop tested again,
//! charges before inserts, flush threads. No database is needed; every second passes on the clock alone.

#![expect(clippy::disallowed_types, reason = "a test program has no lock wrapper of its own")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use sluicedb_controller::{
    Admission, Client, Clock, ControllerOptions, Event, ManualClock, Wake, WriteController, deadline_after,
};
use sluicedb_wbm::{
    Charge, Database, FlushOutcome, FlushTarget, MemoryPool, MemtableState, Reclaimable, TargetGuard,
    WbmOptions, WriteBufferManager,
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// One database with one family.
struct Store {
    database: Database,
    client: Client,
    pool: MemoryPool,
    family: Arc<Family>,
    target: TargetGuard,
}

struct Family {
    memtables: Mutex<Vec<Arc<Charge>>>,
    wanted: AtomicBool,
    bell: Arc<Event>,
    created: u64,
}

impl FlushTarget for Family {
    fn reclaimable(&self) -> Reclaimable {
        let memtables = self.memtables.lock().unwrap();
        let free = memtables.iter().filter(|charge| charge.state() < MemtableState::Flushing);
        let bytes = free.map(|charge| charge.bytes()).sum();
        let mutable = memtables.last().map_or(0, |charge| charge.bytes());
        Reclaimable { bytes, mutable, oldest: Some(self.created), pending: self.wanted.load(SeqCst) }
    }

    fn request_flush(&self) -> bool {
        self.wanted.store(true, SeqCst);
        self.bell.ring();
        true
    }
}

impl Store {
    /// Writes one batch of `bytes`, as an engine would.
    fn write(&self, bytes: u64) {
        let mut paid = false;
        let _room = loop {
            let ask = if paid { self.client.admit_again(bytes) } else { self.client.admit(bytes) };
            let mut rescued = false;
            if let Admission::Wait(mut turn) = ask {
                loop {
                    if self.client.is_stopped() {
                        self.database.manager().check_liveness();
                    }
                    if turn.wait(None).expect("nobody shuts down") == Wake::Passed {
                        rescued = turn.waited().rescued;
                        break;
                    }
                }
            }
            paid = true;
            let room = self.pool.admit(bytes, None).expect("open");
            if !self.client.is_stopped() || rescued {
                break room;
            }
        };
        let mut queued = self.database.queue(bytes);
        let memtable = Arc::clone(self.family.memtables.lock().unwrap().last().unwrap());
        memtable.grow_from_queue(&mut queued, bytes);
    }

    /// Flushes the family if that is wanted. `None`: nothing to do; else whether it succeeded.
    fn flush(&self, clock: &ManualClock, bytes_per_second: u64, fails: bool) -> Option<bool> {
        if !self.family.wanted.load(SeqCst) {
            return None;
        }
        let next = Arc::new(self.database.open_charge(&"cf".into()));
        let sealed: Vec<_> = {
            let mut memtables = self.family.memtables.lock().unwrap();
            memtables.push(next);
            memtables.split_last().unwrap().1.to_vec()
        };
        sealed.iter().for_each(|charge| charge.seal());
        let bytes = sealed.iter().map(|charge| charge.bytes()).sum();
        self.target.flush_queued(bytes);
        self.target.flush_started(bytes);
        sealed.iter().for_each(|charge| charge.flush_started());
        clock.sleep(Duration::from_nanos(bytes * 1_000_000_000 / bytes_per_second));
        if fails {
            sealed.iter().for_each(|charge| charge.flush_failed());
            self.target.flush_ended(FlushOutcome::Failed);
            clock.sleep(Duration::from_secs(1));
            return Some(false);
        }
        let gone = |charge: &mut Arc<Charge>| sealed.iter().any(|other| Arc::ptr_eq(charge, other));
        let removed: Vec<_> = self.family.memtables.lock().unwrap().extract_if(.., gone).collect();
        sealed.iter().for_each(|charge| charge.flushed());
        self.family.wanted.store(false, SeqCst);
        drop((sealed, removed));
        self.target.flush_ended(FlushOutcome::Done);
        Some(true)
    }
}

struct Load {
    options: WbmOptions,
    databases: usize,
    writers: usize,
    total: u64,
    batch: u64,
    flushers: usize,
    /// Every n-th flush fails; 0: none.
    fail_every: u64,
}

/// Runs the load; returns the highest usage seen, and the manager to look at.
fn run(load: &Load) -> (u64, Arc<WriteBufferManager>, ManualClock) {
    let clock = ManualClock::new_virtual(1);
    let shared: Arc<dyn Clock> = Arc::new(clock.clone());
    let manager = WriteBufferManager::new(load.options, Arc::clone(&shared)).unwrap();
    let controller = WriteController::new(&ControllerOptions::default(), Arc::clone(&shared)).unwrap();
    let bell = Arc::new(Event::new());
    let mut sinks = Vec::new();
    let stores: Vec<Store> = (0..load.databases)
        .map(|at| {
            let name = format!("db{at}");
            let database = manager.register(name.as_str(), None);
            sinks.push(database.attach_sink(Arc::clone(&controller) as _));
            let memtables = Mutex::new(vec![Arc::new(database.open_charge(&"cf".into()))]);
            let (wanted, bell) = (AtomicBool::new(false), Arc::clone(&bell));
            let family = Arc::new(Family { memtables, wanted, bell, created: at as u64 });
            let target = database.attach_target(Arc::downgrade(&family) as Weak<dyn FlushTarget>);
            let pool = MemoryPool::new(256 * KIB, Arc::clone(&shared));
            Store { database, client: controller.register(name), pool, family, target }
        })
        .collect();
    let (left, highest, flushes) = (AtomicU64::new(load.total), AtomicU64::new(0), AtomicU64::new(0));
    let done = AtomicBool::new(false);
    let busy: Vec<AtomicBool> = stores.iter().map(|_| AtomicBool::new(false)).collect();
    let tickets: Vec<_> = (0..load.writers + load.flushers).map(|_| clock.announce_thread()).collect();
    std::thread::scope(|scope| {
        let (stores, clock, bell, manager) = (&stores, &clock, &bell, &manager);
        let (left, highest, flushes, done, busy) = (&left, &highest, &flushes, &done, &busy);
        let mut writers = Vec::new();
        for (at, ticket) in tickets.into_iter().enumerate() {
            if at < load.flushers {
                scope.spawn(move || {
                    let _counted = ticket.enter();
                    loop {
                        let seen = bell.rings();
                        let mut worked = false;
                        for (store, busy) in stores.iter().zip(busy) {
                            if busy.swap(true, SeqCst) {
                                continue;
                            }
                            let nth = flushes.fetch_add(1, SeqCst);
                            let fails = load.fail_every > 0 && nth % load.fail_every == 0;
                            worked |= store.flush(clock, 20_000_000, fails).is_some();
                            busy.store(false, SeqCst);
                        }
                        if done.load(SeqCst) {
                            return;
                        }
                        if !worked {
                            bell.wait_past(
                                clock,
                                seen,
                                Some(deadline_after(clock.now_nanos(), Duration::from_secs(1))),
                            );
                        }
                    }
                });
            } else {
                writers.push(scope.spawn(move || {
                    let _counted = ticket.enter();
                    let store = &stores[at % stores.len()];
                    let mut state = at as u64;
                    loop {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99_991);
                        let bytes = 1 + (state >> 33) % load.batch;
                        let took = left.try_update(SeqCst, SeqCst, |left| left.checked_sub(bytes));
                        if took.is_err() {
                            return;
                        }
                        store.write(bytes);
                        highest.fetch_max(manager.usage_report().used, SeqCst);
                    }
                }));
            }
        }
        writers.into_iter().for_each(|writer| writer.join().expect("no writer panics"));
        done.store(true, SeqCst);
        bell.ring();
    });
    drop((sinks, stores));
    (highest.load(SeqCst), manager, clock)
}

fn check(load: &Load) {
    let (highest, manager, clock) = run(load);
    let stats = manager.stats();
    let bound = load.options.quota_bytes - 1 + load.writers as u64 * load.batch;
    assert!(highest <= bound, "{highest} of {bound}");
    assert_eq!((stats.liveness_rescues, stats.usage.used, stats.usage.pinned), (0, 0, 0));
    assert_eq!(stats.databases.len(), 0);
    let times = stats.times;
    let sum = times.normal_micros + times.delayed_micros + times.stopped_micros;
    assert!(sum.abs_diff(clock.now_nanos() / 1_000) <= 2, "time is in one state each");
    assert!(stats.publications > 0 && times.delay_episodes > 0, "{stats:?}");
}

/// `pressure E10`, `pressure P10`, `pressure P12`, at this level: 8 databases, 16 writers, 200 MiB through a quota of 10 MiB: it ends,
/// within the overshoot bound, and nobody had to be rescued.
#[test]
fn many_databases_share_ten_mebibytes() {
    for initiate_flushes in [true, false] {
        let mut options = WbmOptions::new(10 * MIB);
        options.initiate_flushes = initiate_flushes;
        let load = Load {
            options,
            databases: 8,
            writers: 16,
            total: 200 * MIB,
            batch: 64 * KIB,
            flushers: 2,
            fail_every: 0,
        };
        check(&load);
    }
}

/// The same with flushes that fail now and then, and a quota that stops again and again.
#[test]
fn failing_flushes_end_in_no_hang() {
    for initiate_flushes in [true, false] {
        let mut options = WbmOptions::new(512 * KIB);
        options.initiate_flushes = initiate_flushes;
        let load = Load {
            options,
            databases: 3,
            writers: 6,
            total: 8 * MIB,
            batch: 100 * KIB,
            flushers: 2,
            fail_every: 7,
        };
        check(&load);
    }
}
