//! One charge through its life, in order and out of order, alone and raced.

use std::sync::Arc;

use sluicedb_controller::ManualClock;

use super::*;
use crate::{Database, Pressure, UsageReport, WbmOptions};

fn database(quota: u64) -> Database {
    let options = WbmOptions { initiate_flushes: false, ..WbmOptions::new(quota) };
    let manager = WriteBufferManager::new(options, Arc::new(ManualClock::new(0))).unwrap();
    manager.register("db1", None)
}

fn charge(database: &Database, bytes: u64) -> Charge {
    let charge = database.open_charge(&"cf".into());
    charge.grow(bytes);
    charge
}

fn counters(database: &Database) -> [u64; 5] {
    let usage = database.manager().usage_report();
    assert_eq!(usage, UsageReport { queued: usage.queued, ..database.usage() }, "total and per database");
    [usage.used, usage.mutable, usage.sealed, usage.flushing, usage.pinned]
}

/// `pressure M1`: through all states, with and without a reader.
#[test]
fn a_life_from_mutable_to_freed() {
    let db = database(1_000);
    let memtable = charge(&db, 800);
    assert_eq!((counters(&db), db.manager().pressure().step()), ([800, 800, 0, 0, 0], 33));
    memtable.seal();
    assert_eq!(counters(&db), [800, 0, 800, 0, 0]);
    memtable.flush_started();
    assert_eq!(counters(&db), [800, 0, 0, 800, 0]);
    memtable.flushed();
    assert_eq!((counters(&db), db.manager().pressure()), ([0, 0, 0, 0, 800], Pressure::Normal));
    drop(memtable);
    assert_eq!(counters(&db), [0; 5]);

    let unread = charge(&db, 800);
    unread.flush_started();
    drop(unread);
    assert_eq!(counters(&db), [0; 5]);
}

/// `pressure M2`: pinned bytes neither delay nor stop.
#[test]
fn pinned_bytes_hold_nobody() {
    let db = database(1_000);
    let pinned = charge(&db, 5_000);
    pinned.flushed();
    let memtable = charge(&db, 500);
    assert_eq!(db.manager().pressure(), Pressure::Normal);
    memtable.grow(499);
    assert_eq!(db.manager().pressure().step(), 99);
    memtable.grow(1);
    assert_eq!(db.manager().pressure(), Pressure::Stopped);
    memtable.flushed();
    assert_eq!((db.manager().pressure(), counters(&db)[4]), (Pressure::Normal, 6_000));
}

/// `pressure M3`, `pressure A12`: a flush that fails, or is aborted, and is picked again.
#[test]
fn a_failed_flush_returns_to_sealed() {
    let db = database(1_000);
    let memtable = charge(&db, 800);
    memtable.flush_failed(); // had not started: a no-op
    assert_eq!(counters(&db), [800, 800, 0, 0, 0]);
    memtable.flush_started();
    memtable.flush_failed();
    assert_eq!(counters(&db), [800, 0, 800, 0, 0]);
    memtable.flush_failed();
    memtable.flush_started();
    assert_eq!(counters(&db), [800, 0, 0, 800, 0]);
    memtable.flushed();
    drop(memtable);
    assert_eq!(counters(&db), [0; 5]);
}

/// Every call twice, and late calls, change nothing more.
#[test]
fn transitions_are_idempotent() {
    let db = database(1_000);
    let memtable = charge(&db, 100);
    memtable.seal();
    memtable.seal();
    memtable.flush_started();
    memtable.flush_started();
    memtable.seal();
    assert_eq!(counters(&db), [100, 0, 0, 100, 0]);
    memtable.flushed();
    memtable.flushed();
    memtable.flush_started();
    memtable.flush_failed();
    assert_eq!(counters(&db), [0, 0, 0, 0, 100]);
}

/// Growing late is booked where the memtable is by then.
#[test]
fn late_growth_is_booked_by_state() {
    let db = database(1_000);
    let memtable = charge(&db, 10);
    memtable.seal();
    memtable.grow(1);
    assert_eq!(counters(&db), [11, 0, 11, 0, 0]);
    memtable.flushed();
    memtable.grow(1);
    assert_eq!(counters(&db), [0, 0, 0, 0, 12]);
    drop(memtable);
    assert_eq!(counters(&db), [0; 5]);
}

/// `pressure L4`, the manager's part: a failed database holds up nobody; `resume` brings its bytes back.
#[test]
fn a_failed_database_leaves_the_pressure() {
    let db1 = database(1_000);
    let db2 = db1.manager().register("db2", None);
    let (one, other) = (charge(&db1, 900), charge(&db2, 100));
    let flushing = charge(&db1, 50);
    flushing.flush_started();
    let manager = db1.manager();
    assert_eq!(manager.pressure(), Pressure::Stopped);
    db1.set_failed();
    let usage = manager.usage_report();
    assert_eq!((usage.used, usage.pinned, manager.pressure()), (100, 950, Pressure::Normal));
    assert_eq!(db1.holders()[0].pinned_by, Some(PinKind::FailedDatabase));
    one.grow(5);
    assert_eq!((db1.usage().pinned, db1.usage().used), (955, 0));
    db1.resume();
    let usage = manager.usage_report();
    assert_eq!(
        (usage.used, usage.pinned, usage.sealed, manager.pressure()),
        (1_055, 0, 50, Pressure::Stopped)
    );
    one.grow(1);
    drop((one, other, flushing));
    assert_eq!(manager.usage_report(), UsageReport::default());
}

/// `pressure K4`, the manager's part: a read-only database's bytes are pinned, whenever they are taken.
#[test]
fn a_read_only_database_is_pinned() {
    let db = database(1_000);
    let early = charge(&db, 500);
    db.set_read_only();
    let late = charge(&db, 5_000);
    assert_eq!((counters(&db), db.manager().pressure()), ([0, 0, 0, 0, 5_500], Pressure::Normal));
    drop((early, late));
    assert_eq!(counters(&db), [0; 5]);
}

/// `pressure M7`: what empty memtables cost is reported and presses nobody.
#[test]
fn overhead_is_no_pressure() {
    let db = database(1);
    let empty: Vec<Charge> = (0..1_000).map(|_| charge(&db, 0)).collect();
    empty.iter().for_each(|charge| charge.set_overhead(500));
    empty[0].set_overhead(400);
    assert_eq!((db.usage().overhead, db.usage().used), (499_900, 0));
    assert_eq!(db.manager().pressure(), Pressure::Normal);
    drop(empty);
    assert_eq!(db.manager().usage_report(), UsageReport::default());
}

/// `pressure M10`: what failed batches took comes back, exactly.
#[test]
fn failed_batches_leave_no_trace() {
    let db = database(1 << 40);
    let memtable = charge(&db, 0);
    std::thread::scope(|scope| {
        for seed in 1..=8_u64 {
            let memtable = &memtable;
            scope.spawn(move || {
                let mut state = seed;
                for _ in 0..10_000 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let bytes = state >> 50;
                    memtable.grow(bytes);
                    memtable.give_back(bytes);
                }
            });
        }
    });
    assert_eq!((memtable.bytes(), counters(&db)), (0, [0; 5]));
    memtable.give_back(5);
    assert_eq!(counters(&db), [0; 5]);
    memtable.grow(10);
    memtable.flushed();
    memtable.give_back(4);
    assert_eq!(counters(&db), [0, 0, 0, 0, 6]);
}

/// Growing while the memtable is sealed, flushed, set aside and brought back loses and doubles nothing.
#[test]
fn racing_transitions_lose_nothing() {
    for round in 0..50_u64 {
        let db = database(10_000);
        let memtable = charge(&db, 0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..1_000).for_each(|n| memtable.grow(n % 7)));
            }
            scope.spawn(|| {
                if round % 2 == 0 {
                    db.set_failed();
                    db.resume();
                }
                memtable.seal();
                memtable.flush_started();
                memtable.flush_failed();
                if round % 3 == 0 {
                    memtable.flushed();
                }
            });
        });
        let taken = 3 * (0..1_000).map(|n| n % 7).sum::<u64>();
        assert_eq!(memtable.bytes(), taken);
        memtable.grow(0); // books whatever the last racing growth left
        let [used, mutable, sealed, flushing, pinned] = counters(&db);
        let expected = if round % 3 == 0 { [0, 0, 0, 0, taken] } else { [taken, 0, taken, 0, 0] };
        assert_eq!([used, mutable, sealed, flushing, pinned], expected, "round {round}");
        assert_eq!(db.manager().pressure(), db.manager().quota().pressure_at(used));
        drop(memtable);
        assert_eq!(counters(&db), [0; 5]);
    }
}

/// `pressure X1`: the step follows what is not written yet, the stop does not.
#[test]
fn flush_progress_counts_towards_the_step_only() {
    let options = WbmOptions { flush_progress_credit: true, ..WbmOptions::new(1_000) };
    let manager = WriteBufferManager::new(options, Arc::new(ManualClock::new(0))).unwrap();
    let db = manager.register("db1", None);
    let (flushing, mutable) = (charge(&db, 500), charge(&db, 450));
    flushing.flush_started();
    assert_eq!(manager.pressure().step(), 83);
    flushing.flush_progress(200);
    assert_eq!(manager.pressure().step(), 16);
    flushing.flush_progress(300);
    mutable.grow(50);
    assert_eq!(manager.pressure(), Pressure::Stopped);
    mutable.give_back(50);
    flushing.flush_failed();
    assert_eq!(manager.pressure().step(), 83);
    drop((flushing, mutable));
    assert_eq!(manager.pressure(), Pressure::Normal);
}
