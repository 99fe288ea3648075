//! Every interleaving of threads that charge, flush and decide at one manager: its words agree with each other.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p sluicedb-wbm --release --lib loom`. The publishing pair has models of its own, in
//! `signal/loom_tests.rs`; schedules of many threads are tried in `tests/models`.

use loom::thread;
use sluicedb_controller::{SystemClock, Woken};

use super::*;
use crate::{Charge, FlushOutcome, FlushTarget, MemoryPool, Reclaimable, TargetGuard};

/// A column family with one memtable; counts how often it was asked.
struct Family {
    charge: Charge,
    asked: AtomicU64,
}

impl FlushTarget for Family {
    fn reclaimable(&self) -> Reclaimable {
        let (bytes, pending) = (self.charge.bytes(), self.asked.load(Ordering::SeqCst) > 0);
        Reclaimable { bytes, mutable: bytes, oldest: Some(1), pending }
    }

    fn request_flush(&self) -> bool {
        self.asked.fetch_add(1, Ordering::SeqCst);
        true
    }
}

fn manager(initiate_flushes: bool) -> Arc<WriteBufferManager> {
    let options = WbmOptions { initiate_flushes, ..WbmOptions::new(1_000) };
    WriteBufferManager::new(options, Arc::new(SystemClock)).unwrap()
}

fn family(database: &Database) -> (Arc<Family>, TargetGuard) {
    let family = Family { charge: database.open_charge(&"cf".into()), asked: AtomicU64::new(0) };
    let family = Arc::new(family);
    let guard = database.attach_target(Arc::downgrade(&family) as Weak<dyn FlushTarget>);
    (family, guard)
}

/// Interleavings with up to so many switches away from a thread that could go on.
fn explore(switches: Option<usize>, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = switches;
    builder.check(body);
}

/// Two charges reach the flush threshold together, neither alone: one of them asks, and only once.
#[test]
fn loom_the_flush_edge_is_seen() {
    explore(Some(2), || {
        let manager = manager(true);
        let database = manager.register("db", None);
        let (family, _guard) = family(&database);
        let other = {
            let family = Arc::clone(&family);
            thread::spawn(move || family.charge.grow(150))
        };
        family.charge.grow(150);
        other.join().unwrap();
        assert_eq!(family.asked.load(Ordering::SeqCst), 1, "300 of a first threshold of 200");
    });
}

/// A flush ends beside a charge that only then reaches the threshold: whoever is later asks for the next flush.
#[test]
fn loom_the_edge_moves_beside_a_charge() {
    explore(Some(2), || {
        let manager = manager(true);
        let database = manager.register("db", None);
        let (flushed, first) = family(&database);
        let (full, _second) = family(&database);
        flushed.charge.grow(250);
        flushed.charge.seal();
        first.flush_queued(250);
        first.flush_started(250);
        flushed.charge.flush_started();
        let other = {
            let full = Arc::clone(&full);
            thread::spawn(move || full.charge.grow(220))
        };
        flushed.charge.flushed();
        first.flush_ended(FlushOutcome::Done);
        other.join().unwrap();
        assert_eq!(full.asked.load(Ordering::SeqCst), 1);
    });
}

/// `pressure L6`: of two oversized batches one enters; the other finds the quota taken and leaves nothing behind.
#[test]
fn loom_oversized_batches_enter_alone() {
    explore(Some(3), || {
        let manager = manager(false);
        let [one, other] = ["one", "other"].map(|name| manager.register(name, None));
        let other = thread::spawn(move || {
            let advance = other.admit_alone(3_000);
            (other, advance)
        });
        let mine = one.admit_alone(3_000);
        let (_other, theirs) = other.join().unwrap();
        assert_eq!(u8::from(mine.is_some()) + u8::from(theirs.is_some()), 1);
        assert_eq!(manager.advances().load(Ordering::SeqCst), 3_000);
        assert_eq!((manager.usage_report().used, manager.pressure()), (3_000, Pressure::Stopped));
        drop((mine, theirs));
        assert_eq!((manager.usage_report().used, manager.pressure()), (0, Pressure::Normal));
    });
}

/// `pressure M1`, `pressure A12`: a memtable goes through its life beside a writer that still charges it: the bytes in the pressure
/// never fall below 0, none is lost, and all are gone at the end.
#[test]
fn loom_a_charge_is_booked_beside_its_writer() {
    explore(Some(3), || {
        let manager = manager(false);
        let database = manager.register("db", None);
        let charge = Arc::new(database.open_charge(&"cf".into()));
        charge.grow(5);
        let writer = {
            let (charge, manager) = (Arc::clone(&charge), Arc::clone(&manager));
            thread::spawn(move || {
                charge.grow(7);
                assert!(manager.usage.used.load(Ordering::SeqCst) <= 12, "below 0");
            })
        };
        charge.seal();
        charge.flush_started();
        charge.flushed();
        assert!(manager.usage.used.load(Ordering::SeqCst) <= 12, "below 0");
        writer.join().unwrap();
        let usage = manager.usage_report();
        assert_eq!((charge.bytes(), usage.used + usage.pinned), (12, 12));
        drop(charge);
        assert_eq!(manager.usage_report(), UsageReport::default());
    });
}

/// `pressure L1`: the stop that a charge begins has a flush asked for, whether or not somebody detaches beside it.
#[test]
fn loom_a_stop_has_work_under_way() {
    explore(Some(2), || {
        let manager = manager(false);
        let database = manager.register("db", None);
        let (stays, _guard) = family(&database);
        let (_goes, guard) = family(&database);
        stays.charge.grow(600);
        stays.charge.seal();
        let other = thread::spawn(move || drop(guard));
        stays.charge.grow(400);
        other.join().unwrap();
        assert_eq!((manager.pressure(), stays.asked.load(Ordering::SeqCst)), (Pressure::Stopped, 1));
    });
}

/// Time stands still; no deadline ever comes.
#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now_nanos(&self) -> u64 {
        1_000
    }

    fn unix_micros(&self) -> u64 {
        0
    }

    fn park(&self, parker: &sluicedb_controller::Parker, _: Option<u64>) -> Woken {
        parker.wait_for_signal();
        parker.take_token();
        Woken::Unparked
    }
}

/// `pressure P12`, the room: whoever waits for room hears that a unit has left, and at most one is overdrawn.
#[test]
fn loom_room_is_heard() {
    explore(Some(3), || {
        let pool = MemoryPool::new(10, Arc::new(Still));
        let held = pool.admit(8, None).unwrap();
        let waits = {
            let pool = pool.clone();
            thread::spawn(move || drop(pool.admit(20, None).unwrap()))
        };
        let mine = pool.admit(20, None);
        drop(held);
        drop(mine);
        waits.join().unwrap();
        assert_eq!(pool.stats().used, 0);
    });
}
