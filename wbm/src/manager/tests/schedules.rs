//! `pressure L13`: whole stalls under random schedules: writers, flush jobs, and somebody who changes what can be changed.
//!
//! Run: `RUSTFLAGS="--cfg shuttle" cargo test -p sluicedb-wbm --release --lib manager::tests::schedules`. A failure prints its schedule, which
//! `shuttle::replay` runs again. Time is virtual: it jumps when all writers wait.

use shuttle::rand::{Rng as _, thread_rng};
use shuttle::scheduler::RandomScheduler;
use shuttle::{Config, Runner, thread};
use sluicedb_controller::{Admission, Client, Wake};

use super::*;

const SCHEDULES: usize = 2_000;
const WRITES: u32 = 5;
const CHANGES: u32 = 6;
const QUOTA: u64 = 1_000;
/// 5,000 s. Seconds pass whenever all writers wait, though a flush job may be about to run.
const LIMIT: u64 = 5_000_000_000_000;

/// Three databases of one family each on one manager; the last two share a controller.
struct Stage {
    rig: Rig,
    databases: [Database; 3],
    families: [Attached; 3],
    clients: [Client; 3],
    /// Nobody writes any more.
    ended: AtomicBool,
}

impl Stage {
    fn new(initiate_flushes: bool) -> Self {
        let options = WbmOptions { initiate_flushes, ..WbmOptions::new(QUOTA) };
        let rig = Rig::on(ManualClock::new_virtual(0), options);
        let databases = ["db1", "db2", "db3"].map(|name| rig.database(name));
        let families = databases.each_ref().map(|db| rig.family(db, "cf", 0));
        let (own, shared) = (rig.controller(16 << 20), rig.controller(16 << 20));
        let clients = [&own, &shared, &shared].map(|controller| controller.register("db"));
        Self { rig, databases, families, clients, ended: AtomicBool::new(false) }
    }

    fn write(&self, at: usize) {
        let _counted = self.rig.clock.enter_thread();
        for _ in 0..WRITES {
            let bytes = thread_rng().gen_range(1..400);
            if let Admission::Wait(mut turn) = self.clients[at].admit(bytes) {
                while turn.wait(None).expect("nobody ends a wait") == Wake::Slice {
                    // A second each. Nobody looks around here, which would mend a request that was lost.
                    assert!(self.rig.clock.now_nanos() < LIMIT, "a stop that nothing ends");
                }
            }
            self.families[at].charge(bytes);
        }
    }

    /// Flushes what is asked for; one flush in four fails, and is tried again.
    fn flush(&self, at: usize) {
        let (family, database) = (&self.families[at], &self.databases[at]);
        loop {
            let seen = self.rig.bell.rings();
            if family.family.pending.load(Ordering::SeqCst) {
                family.queue(database);
                let picked = family.start();
                if thread_rng().gen_range(0..4) == 0 {
                    family.fail(picked);
                } else {
                    family.end(picked);
                }
            } else if self.ended.load(Ordering::SeqCst) {
                return;
            } else {
                self.rig.bell.wait_past(&self.rig.clock, seen, None);
            }
        }
    }

    /// Changes settings, lets a large batch in, lets a database fail and come back; in the end all is as it was.
    fn change(&self) {
        let manager = &self.rig.manager;
        for _ in 0..CHANGES {
            let at = thread_rng().gen_range(0..3);
            match thread_rng().gen_range(0..4) {
                0 => manager.set_quota_bytes([0, 500, 1_000, 2_000][thread_rng().gen_range(0..4)]),
                1 => manager.set_allow_stall(thread_rng().gen_range(0..2) == 0),
                2 => drop(self.databases[at].admit_alone(3_000)),
                _ => {
                    self.databases[at].set_failed();
                    thread::yield_now();
                    self.databases[at].resume();
                    manager.tick();
                }
            }
        }
        manager.set_quota_bytes(QUOTA);
        manager.set_allow_stall(true);
    }
}

fn explore(initiate_flushes: bool) {
    let mut config = Config::new();
    config.stack_size = 256 << 10;
    Runner::new(RandomScheduler::new(SCHEDULES / 2), config).run(move || {
        let stage = Arc::new(Stage::new(initiate_flushes));
        let sinks: Vec<_> = (0..3)
            .map(|at| stage.databases[at].attach_sink(Arc::clone(stage.clients[at].controller()) as _))
            .collect();
        let start = |job: fn(&Stage, usize), at: usize| {
            let stage = Arc::clone(&stage);
            thread::spawn(move || job(&stage, at))
        };
        let flushers: Vec<_> = (0..3).map(|at| start(Stage::flush, at)).collect();
        let writers: Vec<_> = (0..3).map(|at| start(Stage::write, at)).collect();
        let changer = start(|stage, _| stage.change(), 0);
        writers.into_iter().chain([changer]).for_each(|thread| thread.join().unwrap());
        stage.ended.store(true, Ordering::SeqCst);
        stage.rig.bell.ring();
        flushers.into_iter().for_each(|thread| thread.join().unwrap());

        drop(sinks);
        let Ok(Stage { rig, families, databases, .. }) = Arc::try_unwrap(stage) else {
            panic!("all have ended")
        };
        drop(families);
        assert_eq!(rig.manager.usage_report(), crate::UsageReport::default());
        drop(databases);
    });
}

/// No stop stands without a flush under way, and in the end nothing is charged; flushes asked for ahead of time.
#[test]
fn schedules_with_flushes_ahead() {
    explore(true);
}

/// The same where rule 1.4 and the stop itself ask.
#[test]
fn schedules_without_flushes_ahead() {
    explore(false);
}
