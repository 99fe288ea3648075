//! `pressure C` and what is published to whom: exactly when it changed, to each sink once.

use std::time::Duration;

use super::*;
use crate::{DelayStep, MemtableCache, PressureSink};

/// A sink that writes down what it is told, as codes.
#[derive(Default)]
struct Told(Lock<Vec<u8>>);

impl PressureSink for Told {
    fn set_pressure(&self, _: SourceId, pressure: Pressure) {
        self.0.lock().push(pressure.code());
    }
}

impl Told {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock())
    }
}

struct Endless;

impl MemtableCache for Endless {
    fn reserve(&self, units: u64) -> u64 {
        units
    }
    fn release(&self, _: u64) {}
}

/// A charge that is moved up and down.
fn charge(db: &Database) -> Charge {
    db.open_charge(&"cf".into())
}

fn move_to(charge: &Charge, bytes: u64) {
    let now = charge.bytes();
    charge.grow(bytes.saturating_sub(now));
    charge.give_back(now.saturating_sub(bytes));
}

/// pressure C1, pressure C2, pressure C3, pressure C4, pressure C5, for quota on and off, cache on and off, stall allowed and not.
#[test]
fn states_and_steps() {
    for enabled in [true, false] {
        for cached in [true, false] {
            for allow_stall in [true, false] {
                let quota = |bytes| if enabled { bytes } else { 0 };
                let rig = Rig::with(WbmOptions { allow_stall, ..WbmOptions::new(quota(10_000)) });
                rig.manager.set_cost_to_cache(cached.then(|| Arc::new(Endless) as Arc<dyn MemtableCache>));
                let db = rig.database("db");
                let charge = charge(&db);
                let check = |used, code| {
                    move_to(&charge, used);
                    assert_eq!(rig.code(), if enabled && allow_stall { code } else { 0 }, "at {used}");
                };
                for (used, code) in [(10_000, 100), (0, 0), (1_000, 0), (3_000, 0), (0, 0)] {
                    check(used, code); // C1, C2
                }
                let c3 = [(6_999, 0), (7_000, 1), (7_029, 1), (7_030, 1), (7_059, 1), (7_060, 2), (0, 0)];
                c3.into_iter().for_each(|(used, code)| check(used, code));
                check(10_000, 100); // C4
                rig.manager.set_quota_bytes(quota(20_000));
                check(10_000, 0);
                rig.manager.set_quota_bytes(quota(10_000));
                check(10_000, 100);
                [(9_999, 99), (9_969, 98), (9_970, 99)]
                    .into_iter()
                    .for_each(|(used, code)| check(used, code)); // C5
            }
        }
    }
}

/// `pressure C8`, live: the percentage moves the step in the same call.
#[test]
fn the_delay_start_is_live() {
    let rig = Rig::new(1_000);
    let db = rig.database("db");
    let charge = charge(&db);
    charge.grow(800);
    let mut codes = vec![rig.code()];
    for percent in [90, 70] {
        rig.manager.set_delay_start_percent(percent).unwrap();
        codes.push(rig.code());
    }
    assert_eq!(codes, [33, 0, 33]);
    let refused = rig.manager.set_delay_start_percent(100).unwrap_err();
    assert_eq!((refused.name, rig.code()), ("delay_start_percent", 33));
}

/// `pressure C12`: inside a slice nothing is published.
#[test]
fn movements_inside_a_slice_are_silent() {
    let rig = Rig::new(10_000);
    let db = rig.database("db");
    let charge = charge(&db);
    charge.grow(7_060);
    let before = rig.manager.stats().publications;
    [7_089, 7_060, 7_061].into_iter().for_each(|used| move_to(&charge, used));
    assert_eq!(rig.manager.stats().publications, before);
}

/// `pressure C11`: whatever the interleaving, at rest everybody agrees with the bytes.
///
/// Method: 8 threads charge and give back at random around the edges; then manager, sinks and controllers are compared
/// with the pure function of the final usage.
#[test]
fn at_rest_everybody_agrees() {
    for round in 1..=20_u64 {
        let rig = Rig::new(10_000);
        let db = rig.database("db");
        let controllers = [1_000_000, 16 << 20].map(|rate| rig.controller(rate));
        let _guards = controllers.each_ref().map(|controller| db.attach_sink(Arc::clone(controller) as _));
        let told = Arc::new(Told::default());
        let _told = db.attach_sink(Arc::clone(&told) as _);
        let base = charge(&db);
        base.grow(6_000);
        std::thread::scope(|scope| {
            for thread in 1..=8_u64 {
                let charge = charge(&db);
                scope.spawn(move || {
                    let mut state = round * 31 + thread;
                    for _ in 0..400 {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        move_to(&charge, (state >> 33) % 1_100);
                    }
                    std::mem::forget(charge); // its bytes stay
                });
            }
        });
        let expected = rig.manager.quota().pressure_at(rig.used());
        assert_eq!(rig.manager.pressure(), expected, "round {round} at {}", rig.used());
        let told = told.take();
        assert_eq!(told.last().copied(), Some(expected.code()), "round {round}");
        assert!(told.windows(2).all(|pair| pair[0] != pair[1]), "published twice: {told:?}");
        for controller in &controllers {
            assert_eq!(controller.requirement(rig.manager.source()), expected.into(), "round {round}");
        }
    }
}

/// `pressure V3`: byte by byte up and down, 100 publications and 2 transitions each way, in order.
#[test]
fn only_transitions_are_announced() {
    #[derive(Default)]
    struct Lines(Lock<Vec<String>>);
    impl PressureObserver for Lines {
        fn pressure_changed(&self, change: &PressureChange) {
            self.0.lock().push(format!("{} {change}", change.number));
        }
    }
    let rig = Rig::new(1_000);
    let lines = Arc::new(Lines::default());
    let db = rig.manager.register("db1", Some(Arc::downgrade(&lines) as Weak<dyn PressureObserver>));
    let charge = db.open_charge(&"cf3".into());
    (0..1_000).for_each(|_| charge.grow(1));
    let published = rig.manager.stats().publications;
    rig.clock.advance(Duration::from_micros(250));
    (0..1_000).for_each(|_| charge.give_back(1));
    assert_eq!((published, rig.manager.stats().publications), (100, 200));
    let source = rig.manager.source();
    let tail = |used, bytes| {
        let holder = if bytes > 0 { format!(", largest db1/cf3 {bytes}") } else { String::new() };
        format!("source {source}, usage {used} of 1000, pinned 0, flushes 0 running 0 queued{holder}")
    };
    let expected = [
        format!("1 pressure: normal -> delayed, {}", tail(700, 700)),
        format!("2 pressure: delayed -> stopped, {}", tail(1_000, 1_000)),
        format!("3 pressure: stopped -> delayed, {}, stopped for 250 us", tail(999, 999)),
        format!("4 pressure: delayed -> normal, {}", tail(699, 699)),
    ];
    assert_eq!(*lines.0.lock(), expected);
}

/// `pressure V6`, the manager's part: an observer may call the manager; records arrive in order, none lost.
#[test]
fn records_arrive_in_order() {
    struct Busy {
        manager: Weak<WriteBufferManager>,
        seen: Lock<Vec<(u64, u8, u8)>>,
    }
    impl PressureObserver for Busy {
        fn pressure_changed(&self, change: &PressureChange) {
            let manager = self.manager.upgrade().unwrap();
            manager.stats();
            manager.tick();
            let db = manager.register("within", None);
            let charge = db.open_charge(&"cf".into());
            charge.grow(1);
            self.seen.lock().push((change.number, change.previous.code(), change.current.code()));
        }
    }
    let rig = Rig::not_proactive(1_000);
    let manager = Arc::downgrade(&rig.manager);
    let busy = Arc::new(Busy { manager, seen: Lock::default() });
    let db = rig.manager.register("db", Some(Arc::downgrade(&busy) as Weak<dyn PressureObserver>));
    std::thread::scope(|scope| {
        for seed in 1..=4_u64 {
            let charge = charge(&db);
            scope.spawn(move || {
                let mut state = seed;
                for _ in 0..2_500 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    move_to(&charge, (state >> 33) % 600);
                }
                move_to(&charge, 0);
            });
        }
    });
    let seen = busy.seen.lock();
    let stats = rig.manager.stats();
    assert_eq!(seen.len() as u64, stats.times.transitions);
    assert!(seen.iter().enumerate().all(|(at, (number, _, _))| *number == at as u64 + 1), "in order");
    // Steps move silently in between; the state must follow on.
    let state = |code: u8| Pressure::from_code(code).unwrap().state();
    assert!(seen.windows(2).all(|pair| state(pair[0].2) == state(pair[1].1)), "none lost");
    assert_eq!(rig.code(), 0);
}

/// `pressure S7`: queued bytes move the step, and are never counted twice.
#[test]
fn queued_bytes_move_the_step() {
    let rig = Rig::new(1_000);
    let db = rig.database("db");
    let memtable = charge(&db);
    memtable.grow(650);
    let mut queued = db.queue(100);
    assert_eq!(rig.code(), 16);
    let before = rig.manager.stats().publications;
    memtable.grow_from_queue(&mut queued, 100);
    assert_eq!((rig.code(), rig.used(), queued.bytes()), (16, 750, 0));
    assert_eq!(rig.manager.stats().publications, before);
    memtable.grow(200);
    let queued = db.queue(100);
    assert_eq!(rig.code(), 99, "not stopped");
    drop(queued);
    memtable.grow(50);
    assert_eq!(rig.code(), 100);
    drop(memtable);
    let queued = db.queue(800);
    assert_eq!((rig.code(), rig.manager.usage_report().queued, db.usage().queued), (33, 800, 800));
    drop(queued);
    assert_eq!(rig.code(), 0);
}

/// `pressure E7`: through the quota and back, on a real controller.
#[test]
fn a_stop_replaces_the_delay_and_gives_way_to_it() {
    let rig = Rig::new(40 << 10);
    let (db0, db1) = (rig.database("db0"), rig.database("db1"));
    let controller = rig.controller(16 << 20);
    let _guards = [&db0, &db1].map(|db| db.attach_sink(Arc::clone(&controller) as _));
    let memtable = charge(&db0);
    let at = |used| {
        move_to(&memtable, used);
        (rig.code(), controller.rate(), controller.is_stopped())
    };
    assert_eq!(at(28 << 10), (1, 16_609_443, false));
    assert_eq!(at(34 << 10), (50, 8_388_608, false));
    assert_eq!(at((40 << 10) - 1), (99, 167_772, false));
    assert_eq!(at(40 << 10), (100, 0, true));
    assert_eq!((controller.stats().delay_rate, controller.actual_delayed_write_rate()), (16 << 20, 0));
    assert_eq!(at((40 << 10) - 1), (99, 167_772, false));
}

/// `pressure E11`: private controllers derive from their own maxima; one publication, one call each.
#[test]
fn private_controllers_derive_for_themselves() {
    let rig = Rig::new(1_000);
    let dbs = ["a", "b", "c"].map(|name| rig.database(name));
    let controllers = [1, 10, 100].map(|mb| rig.controller(mb * 1_000_000));
    let told = [(); 3].map(|()| Arc::new(Told::default()));
    let mut guards = Vec::new();
    for (at, db) in dbs.iter().enumerate() {
        guards.push((
            db.attach_sink(Arc::clone(&controllers[at]) as _),
            db.attach_sink(Arc::clone(&told[at]) as _),
        ));
    }
    let memtable = charge(&dbs[0]);
    memtable.grow(850);
    assert_eq!(controllers.each_ref().map(|c| c.rate()), [500_000, 5_000_000, 50_000_000]);
    assert_eq!(told.each_ref().map(|told| told.take()), [[0, 50], [0, 50], [0, 50]]);
    guards.remove(1);
    assert_eq!(controllers.each_ref().map(|c| c.rate()), [500_000, 10_000_000, 50_000_000]);
    assert_eq!(told.each_ref().map(|told| told.take()), [vec![], vec![0], vec![]]);
}

/// 2.3.3: many databases on one controller are one call per change; the last to leave withdraws.
#[test]
fn a_shared_sink_is_told_once() {
    let rig = Rig::new(1_000);
    let dbs: Vec<_> = (0..10).map(|n| rig.database(&format!("db{n}"))).collect();
    let told = Arc::new(Told::default());
    let mut guards: Vec<_> = dbs.iter().map(|db| db.attach_sink(Arc::clone(&told) as _)).collect();
    let memtable = charge(&dbs[0]);
    memtable.grow(700);
    memtable.grow(300);
    guards.truncate(1);
    assert_eq!((told.take(), rig.manager.stats().sinks), (vec![0, 1, 100], 1));
    guards.clear();
    assert_eq!((told.take(), rig.manager.stats().sinks), (vec![0], 0));
}

/// `pressure E12`, `pressure E13`: a newcomer is told at once; forbidding stalls frees everybody at once.
#[test]
fn newcomers_and_switches() {
    let rig = Rig::new(1_000);
    let db = rig.database("db");
    let memtable = charge(&db);
    memtable.grow(850);
    let controller = rig.controller(16 << 20);
    let client = controller.register("db");
    let _guard = db.attach_sink(Arc::clone(&controller) as _);
    let sluicedb_controller::Admission::Wait(mut turn) = client.admit(8_388_608) else { panic!("passed") };
    assert_eq!(turn.wake_at(), Some(1_000_000_000));
    rig.manager.set_allow_stall(false);
    assert_eq!((turn.try_now(), controller.rate()), (Some(Ok(())), 16 << 20));
    rig.manager.set_allow_stall(true);
    assert_eq!((controller.rate(), rig.code()), (8_388_608, 50));
}

/// `pressure L11`, `pressure M9`, `pressure L9`, the manager's part: every change of the quota is felt within the call.
#[test]
fn the_quota_is_live() {
    let rig = Rig::new(10_000);
    let db = rig.database("db");
    let family = rig.family(&db, "cf", 900);
    let controller = rig.controller(16 << 20);
    let client = controller.register("db");
    let _guard = db.attach_sink(Arc::clone(&controller) as _);
    rig.manager.set_quota_bytes(1_000);
    assert_eq!((rig.code(), rig.asked()), (66, "cf 900".into()));
    family.guard.flush_ended(FlushOutcome::Nothing);
    family.family.pending.store(false, Ordering::SeqCst);
    rig.asked();
    rig.manager.set_quota_bytes(900);
    assert_eq!((rig.code(), rig.manager.stats().flushes_queued), (100, 1));
    let park = || match client.admit(1) {
        sluicedb_controller::Admission::Passed => panic!("passed a stop"),
        sluicedb_controller::Admission::Wait(turn) => turn,
    };
    let mut turn = park();
    rig.manager.set_quota_bytes(2_000);
    assert_eq!((rig.code(), turn.try_now()), (0, Some(Ok(()))));
    rig.manager.set_quota_bytes(900);
    let mut turn = park();
    rig.manager.set_quota_bytes(0);
    assert_eq!((rig.code(), turn.try_now()), (0, Some(Ok(()))));
}

/// `pressure V1`, `pressure V4`, the manager's own clock and its rate at a controller.
#[test]
fn the_manager_keeps_time() {
    let rig = Rig::new(1_000);
    let db = rig.database("db");
    let memtable = charge(&db);
    let steps = [(2_000, 800), (3_000, 1_000), (1_000, 800), (500, 0)];
    for (millis, used) in steps {
        rig.clock.advance(Duration::from_millis(millis));
        move_to(&memtable, used);
    }
    rig.clock.advance(Duration::from_millis(3_500));
    let times = rig.manager.stats().times;
    assert_eq!(
        (times.normal_micros, times.delayed_micros, times.stopped_micros, times.longest_stop_micros),
        (5_500_000, 3_500_000, 1_000_000, 1_000_000)
    );
    assert_eq!((times.transitions, times.delay_episodes, times.stops), (4, 1, 1));
    assert_eq!(DelayStep::MAX.get(), 99);
}
