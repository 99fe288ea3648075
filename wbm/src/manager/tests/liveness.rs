//! `pressure L`: a stop stands only while a flush that frees memory is under way.

use std::time::Duration;

use sluicedb_controller::{Admission, Client, Turn, WriteController};

use super::*;
use crate::{Advance, Liveness, SinkGuard};

/// A controller that one database's writers ask.
struct Brake {
    controller: Arc<WriteController>,
    client: Client,
    _guard: SinkGuard,
}

fn brake(rig: &Rig, db: &Database) -> Brake {
    let controller = rig.controller(16 << 20);
    let client = controller.register("db");
    let guard = db.attach_sink(Arc::clone(&controller) as _);
    Brake { controller, client, _guard: guard }
}

fn park(brake: &Brake) -> Turn {
    match brake.client.admit(1) {
        Admission::Passed => panic!("passed"),
        Admission::Wait(turn) => turn,
    }
}

fn rescues(rig: &Rig) -> u64 {
    rig.manager.stats().liveness_rescues
}

/// `pressure L1`: rule 1.4 is false, and yet the sealed majority is asked when the stop begins.
#[test]
fn l1_the_stop_itself_asks() {
    let rig = Rig::not_proactive(1_000);
    let db = rig.database("db");
    let a = rig.family(&db, "a", 700);
    a.seal(&db);
    let _b = rig.family(&db, "b", 300);
    assert!(!rig.manager.flush_wanted());
    assert_eq!((rig.code(), rig.asked()), (100, "a 700".into()));
    a.flush(&db);
    assert_eq!((rig.used(), rig.code(), rescues(&rig)), (300, 0, 0));
}

/// `pressure L2`, `pressure H11`: idle databases hold the quota; one of them is flushed for the busy one.
#[test]
fn l2_an_idle_database_is_asked() {
    const MB: u64 = 1_000_000;
    let rig = Rig::not_proactive(0);
    let dbs: Vec<_> = (0..100).map(|n| rig.database(&format!("db{n}"))).collect();
    let families: Vec<_> = dbs.iter().map(|db| rig.family(db, "idle", 5 * MB)).collect();
    for (family, db) in families.iter().zip(&dbs).take(99) {
        family.seal(db);
    }
    let brake = brake(&rig, &dbs[99]);
    rig.manager.set_quota_bytes(500 * MB);
    assert_eq!((rig.code(), rig.asked()), (100, format!("idle {}", 5 * MB)));
    let mut turn = park(&brake);
    assert_eq!(rig.manager.check_liveness(), Liveness::UnderWay);
    families[0].queue(&dbs[0]);
    let job = families[0].start();
    families[0].end(job);
    assert_eq!((rig.code(), turn.try_now(), rescues(&rig)), (96, Some(Ok(())), 0));

    // H11: 19 idle ones of 512 KiB and a busy one; the first flush at 10 MiB ends at step 83.
    let rig = Rig::not_proactive(0);
    let db = rig.database("db");
    let families: Vec<_> = (0..20).map(|_| rig.family(&db, "cf", 512 << 10)).collect();
    for family in families.iter().take(19) {
        family.seal(&db);
    }
    rig.manager.set_quota_bytes(10 << 20);
    assert_eq!((rig.code(), rig.asked()), (100, format!("cf {}", 512 << 10)));
    families[0].flush(&db);
    assert_eq!(rig.code(), 83);
}

/// `pressure L3`: a failed flush: its retry will do if nobody else can be asked; else somebody else is.
#[test]
fn l3_after_a_failure() {
    for with_second in [false, true] {
        let rig = Rig::not_proactive(1_000);
        let db = rig.database("db");
        let a = rig.family(&db, "a", 0);
        let second = with_second.then(|| rig.family(&db, "second", 10));
        let brake = brake(&rig, &db);
        a.charge(1_000);
        assert_eq!(rig.asked(), "a 1000");
        let mut turn = park(&brake);
        a.queue(&db);
        let job = a.start();
        a.fail(job);
        let expected = if with_second { "second 10" } else { "" };
        assert_eq!((rig.asked(), rig.manager.stats().flushes_retrying), (expected.into(), 1));
        let found = if with_second { Liveness::UnderWay } else { Liveness::Retrying };
        assert_eq!((rig.manager.check_liveness(), turn.try_now()), (found, None));
        rig.clock.advance(Duration::from_secs(1));
        a.guard.flush_queued(1_000);
        let job = a.start();
        a.end(job);
        assert_eq!((turn.try_now(), rescues(&rig)), (Some(Ok(())), 0));
        drop(second);
    }
}

/// `pressure L5`: a lost request is made again after a slice; with nobody to ask one writer is let through.
#[test]
fn l5_lost_requests_and_the_last_resort() {
    let rig = Rig::not_proactive(1_000);
    let db = rig.database("db");
    let a = rig.family(&db, "a", 0);
    let brake = brake(&rig, &db);
    a.charge(1_000);
    assert_eq!(rig.asked(), "a 1000");
    a.family.pending.store(false, Ordering::SeqCst); // forgotten
    let mut turn = park(&brake);
    assert_eq!(rig.manager.check_liveness(), Liveness::UnderWay);
    rig.clock.advance(Duration::from_secs(1));
    assert_eq!((rig.manager.check_liveness(), rig.asked()), (Liveness::Asked, "a 1000".into()));
    assert_eq!(rig.manager.stats().flushes_lost, 1);
    a.flush(&db);
    assert_eq!((turn.try_now(), rescues(&rig)), (Some(Ok(())), 0));

    a.family.hidden.store(true, Ordering::SeqCst);
    a.charge(1_000);
    assert_eq!((rig.asked(), rig.manager.check_liveness()), ("".into(), Liveness::Stuck), "nobody waits");
    let [mut first, mut second] = [park(&brake), park(&brake)];
    assert_eq!(rig.manager.check_liveness(), Liveness::Rescued);
    assert_eq!((first.try_now(), second.try_now(), rescues(&rig)), (Some(Ok(())), None, 1));
    assert!(first.waited().rescued && !second.waited().rescued);
}

/// `pressure L6`: an oversized batch enters alone.
#[test]
fn l6_oversized_batches_enter_alone() {
    const MIB: u64 = 1 << 20;
    let rig = Rig::not_proactive(MIB);
    let db = rig.database("db");
    let a = rig.family(&db, "a", 1_000_000);
    rig.asked();
    let enter = || db.is_oversized(3 * MIB).then(|| db.admit_alone(3 * MIB)).flatten();
    assert!(!db.is_oversized(MIB));
    let mut one: Advance = enter().expect("below the quota");
    assert_eq!((rig.used(), rig.code()), (4_145_728, 100));
    assert!(enter().is_none(), "the other goes back to the gate");
    assert_eq!(rig.used(), 4_145_728);
    // Its insertion hands the bytes over and looks again.
    a.family.mutable().grow_from_advance(&mut one, 3 * MIB);
    assert_eq!((one.bytes(), rig.used(), a.family.mutable().bytes()), (0, 4_145_728, 4_145_728));
    drop(one);
    assert_eq!(rig.manager.stats().flushes_queued, 1);
    a.flush(&db);
    let other = enter().expect("now the other enters");
    assert_eq!((rig.used(), db.usage().used), (3 * MIB, 3 * MIB));
    drop(other);
    assert_eq!((rig.used(), rig.code(), rescues(&rig)), (0, 0, 0), "as if its append had failed");
}

/// `pressure L8`: one thread over several databases: the oldest of equals is asked, and nobody else.
#[test]
fn l8_one_thread_many_databases() {
    const MIB: u64 = 1 << 20;
    let rig = Rig::not_proactive(10 * MIB);
    let dbs = ["db1", "db2", "db3"].map(|name| rig.database(name));
    let families = dbs.each_ref().map(|db| rig.family(db, "cf", 0));
    families.iter().for_each(|family| family.charge(4 * MIB));
    assert_eq!((rig.used(), rig.code(), rig.asked()), (12 * MIB, 100, format!("cf {}", 4 * MIB)));
    assert!(families[0].family.pending.load(Ordering::SeqCst));
    families[0].flush(&dbs[0]);
    assert_eq!((rig.used(), rig.code(), rig.asked()), (8 * MIB, 33, "".into()));
}

/// `pressure L10`: a thousand nearly empty families: the oldest goes first, and one is enough.
#[test]
fn l10_nearly_empty_families_are_flushed_too() {
    let rig = Rig::new(0);
    let db = rig.database("db");
    let families: Vec<_> = (0..1_000).map(|n| rig.family(&db, &format!("{n}"), 1_024)).collect();
    rig.manager.set_quota_bytes(1_024_000);
    assert_eq!(rig.code(), 100);
    assert!(rig.asked().starts_with("0 1024"));
    families[0].flush(&db);
    assert_eq!((rig.used(), rig.code()), (1_022_976, 99));
}

/// `pressure H8`, the manager's part: quota 1, an oversized batch, and the switch of stalls.
#[test]
fn h8_the_switch_frees_and_stops() {
    let rig = Rig::not_proactive(1);
    let db = rig.database("db");
    let a = rig.family(&db, "a", 0);
    let brake = brake(&rig, &db);
    assert!(db.is_oversized(10_000));
    let mut advance = db.admit_alone(10_000).unwrap();
    a.family.mutable().grow_from_advance(&mut advance, 10_000);
    assert!(brake.client.try_admit(1).is_err());
    let mut parked = park(&brake);
    rig.manager.set_allow_stall(false);
    assert_eq!((parked.try_now(), brake.client.try_admit(1)), (Some(Ok(())), Ok(())));
    assert!(!db.is_oversized(10_000));
    rig.manager.set_allow_stall(true);
    assert!(brake.client.try_admit(1).is_err() && brake.controller.is_stopped());
}

/// `pressure H12`, `pressure L9`, the manager's part: closing the holder releases the writer of another database.
#[test]
fn h12_closing_the_holder_releases() {
    let rig = Rig::not_proactive(1_000);
    let (db1, db2) = (rig.database("db1"), rig.database("db2"));
    let holder = rig.family(&db1, "holder", 0);
    let brake = brake(&rig, &db2);
    holder.accepts(false);
    holder.charge(1_000);
    let mut turn = park(&brake);
    let Attached { family, guard } = holder;
    drop(guard);
    assert_eq!((turn.try_now(), rig.code()), (None, 100));
    drop((family, db1));
    assert_eq!((turn.try_now(), rig.code(), rescues(&rig)), (Some(Ok(())), 0, 0));
}

/// `pressure L13`, at this level: random lives of three databases; at rest nobody waits for nothing.
///
/// Method: seeded schedules of charges, seals, flushes that succeed and fail, failures and resumptions, and changes of
/// the settings; after each step a stop must have work under way, at the end all counters are 0.
#[test]
fn l13_random_schedules_keep_the_invariant() {
    for seed in 0..400_u64 {
        let initiate_flushes = seed % 2 == 0;
        let rig = Rig::with(WbmOptions { initiate_flushes, ..WbmOptions::new(1_000) });
        let dbs = ["db1", "db2", "db3"].map(|name| rig.database(name));
        let families = dbs.each_ref().map(|db| rig.family(db, "cf", 0));
        let mut jobs = [const { None::<Picked> }; 3];
        let mut advances = Vec::new();
        let mut failed = [false; 3];
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for step in 0..120 {
            let at = random(3) as usize;
            match random(12) {
                0..=4 => families[at].charge(random(200)),
                5 => {
                    // What was asked for, or full: the engine seals and queues it.
                    if jobs[at].is_none() && !failed[at] {
                        families[at].queue(&dbs[at]);
                        jobs[at] = Some(families[at].start());
                    }
                }
                6 | 7 => {
                    if let Some(job) = jobs[at].take() {
                        families[at].end(job);
                    }
                }
                8 => {
                    if let Some(job) = jobs[at].take() {
                        families[at].fail(job);
                    }
                }
                9 => {
                    rig.manager.set_quota_bytes([0, 500, 1_000, 2_000][random(4) as usize]);
                }
                10 => {
                    advances.clear();
                    advances.extend(dbs[at].is_oversized(3_000).then(|| dbs[at].admit_alone(3_000)));
                }
                _ => {
                    failed[at] = !failed[at] && jobs[at].is_none();
                    families[at].accepts(!failed[at]);
                    if failed[at] {
                        dbs[at].set_failed()
                    } else {
                        dbs[at].resume()
                    }
                    rig.manager.tick();
                }
            }
            let live = rig.manager.stats();
            let under_way = live.planned > 0 || live.flushes_retrying > 0 || !advances.is_empty();
            assert!(rig.code() < 100 || under_way, "seed {seed}, step {step}: {live:?}");
        }
        assert_eq!(rescues(&rig), 0, "seed {seed}");
        drop((jobs, advances, families));
        assert_eq!(rig.manager.usage_report(), crate::UsageReport::default(), "seed {seed}");
        assert_eq!(rig.code(), 0, "seed {seed}");
    }
}
