//! `pressure G` and `pressure W`: who is asked for a flush, when, and in which order.

use super::*;

fn pending(rig: &Rig) -> (u64, u64) {
    let stats = rig.manager.stats();
    (stats.flushes_queued + stats.flushes_running, stats.planned)
}

/// `pressure G1`: one request; it ends, and nobody else is asked.
#[test]
fn g1_one_family() {
    let rig = Rig::new(10_000);
    let db = rig.database("db");
    let a = rig.family(&db, "a", 0);
    a.charge(2_500);
    assert_eq!((rig.asked(), pending(&rig)), ("a 2500".into(), (1, 2_500)));
    a.flush(&db);
    assert_eq!((rig.asked(), pending(&rig), rig.used()), ("".into(), (0, 0), 0));
}

/// `pressure G2`: flushes that others started count.
#[test]
fn g2_foreign_flushes_count() {
    let rig = Rig::new(10_000);
    let db = rig.database("db");
    let foreign = rig.family(&db, "foreign", 100);
    foreign.queue(&db);
    let job = foreign.start();
    let a = rig.family(&db, "a", 2_400);
    assert_eq!((rig.asked(), rig.used()), ("".into(), 2_500));
    foreign.end(job);
    assert_eq!((rig.asked(), a.family.mutable().bytes()), ("a 2400".into(), 2_400));
}

/// `pressure G3`: N = 3, more memtables than slots.
#[test]
fn g3_slots_are_limited() {
    let rig = Rig::with(WbmOptions { max_parallel_flushes: 3, ..WbmOptions::new(10_000) });
    let db = rig.database("db");
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let families = names.map(|name| rig.family(&db, name, 0));
    let mut jobs: Vec<_> = families[..3]
        .iter()
        .map(|family| {
            // Charged and queued in one breath, so that no request comes between.
            family.accepts(false);
            family.charge(3_333);
            family.queue(&db);
            Some(family.start())
        })
        .collect();
    rig.asked();
    assert_eq!((rig.used(), pending(&rig)), (9_999, (3, 9_999)));
    families[3].charge(3_333);
    families[4].charge(3_333);
    families[3].queue(&db);
    jobs.push(Some(families[3].start()));
    assert_eq!((rig.asked(), rig.used()), ("".into(), 16_665));
    families[0].end(jobs[0].take().unwrap());
    assert_eq!((rig.asked(), pending(&rig).0), ("".into(), 3));
    families[1].end(jobs[1].take().unwrap());
    assert_eq!((rig.asked(), rig.used()), ("e 3333".into(), 9_999));
    families[5].charge(3_333);
    families[6].charge(3_333);
    assert_eq!((rig.asked(), rig.used()), ("".into(), 16_665));
    families[4].queue(&db);
    let ours = families[4].start();
    families[4].end(ours);
    assert_eq!((rig.asked(), rig.used()), ("f 3333".into(), 13_332));
}

/// `pressure G4`: a jump is one request; four at once are four, from one evaluation.
#[test]
fn g4_as_many_as_are_needed() {
    let rig = Rig::new(10_000);
    let db = rig.database("db");
    let one = rig.family(&db, "one", 0);
    one.charge(10_000);
    assert_eq!((rig.asked(), pending(&rig)), ("one 10000".into(), (1, 10_000)));

    // Off while they are charged, so that one evaluation sees all four.
    let rig = Rig::new(0);
    let db = rig.database("db");
    let _four = ["a", "b", "c", "d"].map(|name| rig.family(&db, name, 2_500));
    assert_eq!(rig.asked(), "");
    rig.manager.set_quota_bytes(10_000);
    assert_eq!(rig.asked(), "a 2500, b 2500, c 2500, d 2500");
}

/// `pressure G5`: refusals are remembered, and tried again in the same order.
#[test]
fn g5_refusals_are_tried_again() {
    let rig = Rig::new(10_000);
    let db = rig.database("db");
    let (a, b) = (rig.family(&db, "a", 1_500), rig.family(&db, "b", 0));
    a.accepts(false);
    b.accepts(false);
    b.charge(1_000);
    assert_eq!((rig.asked(), rig.manager.stats().unserved), ("a 1500, b 1000".into(), true));
    rig.manager.tick();
    assert_eq!((rig.asked(), rig.manager.stats().unserved), ("a 1500, b 1000".into(), true));
    b.accepts(true);
    rig.manager.tick();
    assert_eq!((rig.asked(), pending(&rig)), ("a 1500, b 1000".into(), (1, 1_000)));
    assert!(!rig.manager.stats().unserved);
    assert_eq!((rig.manager.stats().flushes_requested, rig.manager.stats().flushes_refused), (6, 5));
}

/// `pressure G6`, `pressure G11`: a target that attaches is asked at once.
#[test]
fn g6_attaching_is_an_event() {
    let rig = Rig::new(10_000);
    let db = rig.database("db");
    let a = rig.family(&db, "a", 0);
    a.accepts(false);
    a.charge(2_500);
    assert_eq!(rig.asked(), "a 2500");
    let Attached { family, guard } = a;
    drop(guard);
    let b = rig.loose_family(&db, "b");
    b.mutable().grow(1_300);
    assert_eq!(rig.asked(), "");
    let _guard = db.attach_target(Arc::downgrade(&b) as Weak<dyn FlushTarget>);
    assert_eq!((rig.asked(), family.mutable().bytes()), ("b 1300".into(), 2_500));

    let rig = Rig::new(10_000);
    let db = rig.database("db");
    let early = rig.loose_family(&db, "early");
    early.mutable().grow(2_500);
    assert!(rig.manager.stats().unserved);
    let _guard = db.attach_target(Arc::downgrade(&early) as Weak<dyn FlushTarget>);
    assert_eq!((rig.asked(), rig.manager.stats().unserved), ("early 2500".into(), false));
}

/// `pressure G7`: the largest that is not pending, not the next in turn.
#[test]
fn g7_largest_not_round_robin() {
    let rig = Rig::new(10_000);
    let db = rig.database("db");
    let (a, b) = (rig.family(&db, "a", 0), rig.family(&db, "b", 0));
    a.charge(2_500);
    assert_eq!(rig.asked(), "a 2500");
    b.charge(2_500);
    assert_eq!(rig.asked(), "b 2500");
}

/// `pressure G8`: over all databases, in order of size; a new event starts again at the top.
#[test]
fn g8_the_order_over_databases() {
    let rig = Rig::new(0);
    let (one, two) = (rig.database("one"), rig.database("two"));
    let a1 = rig.family(&one, "a1", 1_400);
    let b1 = rig.family(&two, "b1", 1_300);
    let a2 = rig.family(&one, "a2", 600);
    let _b2 = rig.family(&two, "b2", 500);
    [&a1, &b1, &a2].into_iter().for_each(|family| family.accepts(false));
    rig.manager.set_quota_bytes(10_000);
    assert_eq!((rig.asked(), pending(&rig)), ("a1 1400, b1 1300, a2 600, b2 500".into(), (1, 500)));
    a1.accepts(true);
    a1.charge(200);
    assert_eq!((rig.asked(), rig.used()), ("a1 1600".into(), 4_000));
}

/// `pressure G9`: who is gone is not asked; who stays is not disturbed.
#[test]
fn g9_the_departed_are_not_asked() {
    let rig = Rig::new(0);
    let db = rig.database("db");
    let a = rig.family(&db, "a", 1_000);
    let b = rig.family(&db, "b", 2_000);
    let Attached { family: _kept, guard } = b;
    drop(guard);
    rig.manager.set_quota_bytes(10_000);
    assert_eq!((rig.asked(), pending(&rig)), ("a 1000".into(), (1, 1_000)));
    let c = rig.family(&db, "c", 0);
    drop(c);
    assert_eq!(pending(&rig), (1, 1_000));
    // A target that died without detaching.
    let Attached { family, guard } = rig.family(&db, "dead", 1);
    drop(family);
    let before = rig.manager.stats().targets;
    a.charge(5_000);
    assert_eq!((before - rig.manager.stats().targets, rig.asked()), (1, "".into()));
    drop(guard);
}

/// `pressure G12`, `pressure G13`: asked at the thresholds, and at no other bytes.
#[test]
fn g12_at_the_thresholds_only() {
    let rig = Rig::new(10_000);
    let db = rig.database("db");
    let families: Vec<_> = (0..12).map(|n| rig.family(&db, &format!("{n}"), 0)).collect();
    let mut asked_at = Vec::new();
    for family in &families {
        family.charge(1_000);
        if !rig.asked().is_empty() {
            asked_at.push(rig.used());
        }
    }
    assert_eq!((asked_at, rig.used()), (vec![2_000, 4_000, 6_000, 8_000], 12_000));

    let rig = Rig::new(100_000);
    let db = rig.database("db");
    let a = rig.family(&db, "a", 12_500);
    assert_eq!(rig.asked(), "");
    a.charge(12_500);
    assert_eq!(rig.asked(), "a 25000");
}

/// `pressure G` with quota 0, and D25: nobody is ever asked, and nothing is evaluated at a charge.
#[test]
fn without_a_quota_nobody_is_asked() {
    let rig = Rig::new(0);
    let db = rig.database("db");
    let a = rig.family(&db, "a", u64::MAX >> 2);
    a.charge(1);
    rig.manager.tick();
    assert_eq!((rig.asked(), rig.manager.flush_edge.load(Ordering::SeqCst)), ("".into(), u64::MAX));
}

/// `pressure W1`: equal sizes by age, over databases; never twice for one family.
#[test]
fn w1_ties_go_to_the_oldest() {
    const MIB: u64 = 1 << 20;
    let rig = Rig::new(0);
    let dbs = ["db1", "db2", "db3"].map(|name| rig.database(name));
    let older = rig.family(&dbs[1], "db2/a", 30 * MIB);
    let all = [
        rig.family(&dbs[0], "db1/a", 10 * MIB),
        rig.family(&dbs[0], "db1/b", 30 * MIB),
        rig.family(&dbs[2], "db3/a", 20 * MIB),
    ];
    rig.manager.set_quota_bytes(90 * MIB);
    let order = |asked: String| {
        asked.split(", ").map(|who| who.split(' ').next().unwrap().into()).collect::<Vec<String>>()
    };
    // Three plans leave less than half a step unplanned of 90; more pressure brings the last.
    let mut asked = order(rig.asked());
    older.charge(10 * MIB);
    asked.extend(order(rig.asked()).into_iter().filter(|name| !name.is_empty()));
    assert_eq!(asked, ["db2/a", "db1/b", "db3/a", "db1/a"]);
    assert_eq!(pending(&rig).0, 4);
    drop(all);
}

/// `pressure W2`: useful sizes first, then the nearly empty, oldest first, until one accepts.
#[test]
fn w2_nearly_empty_ones_last() {
    const MIB: u64 = 1 << 20;
    let rig = Rig::new(0);
    let db = rig.database("db");
    let middle = rig.family(&db, "middle", 63 * MIB);
    let large = rig.family(&db, "large", 65 * MIB);
    let small: Vec<_> = (0..80).map(|n| rig.family(&db, &format!("small{n}"), MIB)).collect();
    [&large, &middle, &small[0]].into_iter().for_each(|family| family.accepts(false));
    assert_eq!(rig.used(), 218_103_808);
    rig.manager.set_quota_bytes(1 << 30);
    let expected = format!("large {}, middle {}, small0 {MIB}, small1 {MIB}", 65 * MIB, 63 * MIB);
    assert_eq!((rig.asked(), pending(&rig)), (expected, (1, MIB)));
}

/// `pressure W3`: the first flush starts before the delay.
#[test]
fn w3_flushing_starts_before_the_delay() {
    for (percent, parallel, first) in [(70, 1, 613), (10, 4, 88)] {
        let options = WbmOptions {
            delay_start_percent: percent,
            max_parallel_flushes: parallel,
            ..WbmOptions::new(1_000)
        };
        let rig = Rig::with(options);
        let db = rig.database("db");
        let a = rig.family(&db, "a", 0);
        while rig.asked().is_empty() {
            assert_eq!(rig.code(), 0, "before the delay");
            a.charge(1);
        }
        let half_step = 1_000 * 80 / 100 / u64::from(parallel) / 2;
        assert_eq!(rig.used(), first.max(half_step));
    }
}

/// `pressure W4`: many families under a small quota are not flushed in crumbs.
#[test]
fn w4_no_flush_for_nothing() {
    const MIB: u64 = 1 << 20;
    let rig = Rig::new(32 * MIB);
    let db = rig.database("db");
    let families: Vec<_> = (0..16).map(|n| rig.family(&db, &format!("{n}"), 0)).collect();
    let mut flushes = 0;
    for turn in 0..1_600 * 16_u64 {
        families[(turn % 16) as usize].charge(MIB / 16);
        for (name, bytes) in std::mem::take(&mut *rig.asked.lock()) {
            assert!(bytes >= 3_276 * 1_024 / 16, "{name}: {bytes}");
            families[name.parse::<usize>().unwrap()].flush(&db);
            flushes += 1;
        }
    }
    assert!(flushes <= 8_000, "{flushes}");
}

/// `pressure W5`: a target that calls the manager, or is slow, holds up nobody.
#[test]
fn w5_no_lock_is_held_while_asking() {
    struct Slow {
        manager: Weak<WriteBufferManager>,
        entered: std::sync::Barrier,
        go_on: std::sync::Barrier,
        asked: AtomicBool,
    }
    impl FlushTarget for Slow {
        fn reclaimable(&self) -> Reclaimable {
            let pending = self.asked.load(Ordering::SeqCst);
            Reclaimable { bytes: 9_000, mutable: 9_000, oldest: None, pending }
        }
        fn request_flush(&self) -> bool {
            let manager = self.manager.upgrade().unwrap();
            manager.stats();
            manager.tick();
            manager.holders();
            self.asked.store(true, Ordering::SeqCst);
            self.entered.wait();
            self.go_on.wait();
            true
        }
    }
    let rig = Rig::new(10_000);
    let db = rig.database("db");
    let slow = Arc::new(Slow {
        manager: Arc::downgrade(&rig.manager),
        entered: std::sync::Barrier::new(2),
        go_on: std::sync::Barrier::new(2),
        asked: AtomicBool::new(false),
    });
    let _guard = db.attach_target(Arc::downgrade(&slow) as Weak<dyn FlushTarget>);
    let memtable = db.open_charge(&"cf".into());
    std::thread::scope(|scope| {
        scope.spawn(|| memtable.grow(2_500));
        slow.entered.wait();
        // Meanwhile: another database opens, charges, is asked, flushes and closes.
        let other = rig.database("other");
        let family = rig.family(&other, "other", 8_000);
        assert_eq!(rig.asked(), "other 8000");
        family.flush(&other);
        drop((family, other));
        slow.go_on.wait();
    });
    assert_eq!(pending(&rig).0, 1);
}

/// `pressure W6`: flushes for other reasons count from the moment they are queued.
#[test]
fn w6_queued_flushes_fill_the_slots() {
    let rig = Rig::new(0);
    let db = rig.database("db");
    let full: Vec<_> = ["a", "b", "c", "d"].map(|name| rig.family(&db, name, 100)).into();
    full.iter().for_each(|family| family.queue(&db));
    rig.manager.set_quota_bytes(1_000);
    let e = rig.family(&db, "e", 0);
    e.charge(599);
    assert_eq!((rig.asked(), rig.used(), pending(&rig)), ("".into(), 999, (4, 400)));
}

/// `pressure H7`, the manager's part: a target is not asked again while it is pending, whoever writes.
#[test]
fn h7_never_twice_in_a_row() {
    const KIB: u64 = 1 << 10;
    let options = WbmOptions { allow_stall: false, initiate_flushes: false, ..WbmOptions::new(512 * KIB) };
    let rig = Rig::with(options);
    let (db1, db2) = (rig.database("db1"), rig.database("db2"));
    let (one, two) = (rig.family(&db1, "db1", 256 * KIB), rig.family(&db2, "db2", 0));
    assert_eq!(rig.asked(), "");
    one.charge(256 * KIB);
    assert_eq!(rig.asked(), format!("db1 {}", 512 * KIB));
    one.queue(&db1);
    (0..3).for_each(|_| two.charge(1));
    assert_eq!((rig.asked(), pending(&rig)), ("".into(), (1, 512 * KIB)));
}

/// `pressure H9`, `pressure H10`, the manager's part: the rule of 1.4, largest first over all databases.
#[test]
fn h9_largest_holder_whoever_writes() {
    let options =
        |quota| WbmOptions { allow_stall: false, initiate_flushes: false, ..WbmOptions::new(quota) };
    let rig = Rig::with(options(114_285));
    let db = rig.database("db");
    let cf: Vec<_> = (0..4).map(|n| rig.family(&db, &format!("cf{n}"), 0)).collect();
    cf[3].charge(30_000);
    cf[0].charge(60_000);
    cf[2].charge(1);
    assert_eq!(rig.asked(), "");
    cf[3].charge(30_001);
    assert_eq!(rig.asked(), "cf3 60001");
    cf[1].charge(60_000);
    assert_eq!(rig.asked(), "cf0 60000");

    let rig = Rig::with(options(120_000));
    let (db1, db2) = (rig.database("db1"), rig.database("db2"));
    let (cf2, cf0) = (rig.family(&db1, "db1/cf2", 70_000), rig.family(&db1, "db1/cf0", 20_000));
    let other = rig.family(&db2, "db2", 20_000);
    assert_eq!(rig.asked(), "db1/cf2 70000");
    cf2.flush(&db1);
    other.charge(70_000);
    assert_eq!(rig.asked(), "db2 90000");
    other.flush(&db2);
    other.charge(40_000);
    other.charge(50_000);
    assert_eq!((rig.asked(), cf0.family.mutable().bytes()), ("db2 90000".into(), 20_000));
}

/// `pressure O4`, the manager's part: a private manager of 1 MiB.
#[test]
fn o4_a_private_manager_delays_and_flushes() {
    let rig = Rig::new(1 << 20);
    let db = rig.database("db");
    let a = rig.family(&db, "a", 209_714);
    assert_eq!(rig.asked(), "");
    a.charge(1);
    assert_eq!(rig.asked(), "a 209715");
    a.charge(734_002 - 209_715);
    assert_eq!(rig.code(), 0);
    a.charge(1);
    assert_eq!(rig.code(), 1);
}
