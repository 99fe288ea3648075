//! Recovery honours the quota: it flushes inline, never waits, and asks other databases that hold more.
//!
//! `pressure` group K of section 10. A log is written once under a wide quota and then replayed under narrow ones.

use std::sync::Arc;

use sluicedb::{Db, ManualClock, WriteBufferManager};
use sluicedb_tests::pressure::*;
use sluicedb_tests::sim_fs::{CrashMode, SimFs};

const ENTRY: usize = 50 << 10;

/// A file system that holds a database whose `entries` are in the log only.
fn logged(entries: u32, len: usize, clock: &ManualClock) -> SimFs {
    let fs = SimFs::new(1);
    let mut options = options(&fs, clock);
    options.db_write_buffer_size = 0;
    let db = Db::open("/db", options).unwrap();
    for number in 0..entries {
        db.put(number.to_be_bytes(), vec![1; len]).unwrap();
    }
    let image = fs.crash(CrashMode::Kill, 1);
    assert_eq!(files(&db), 0);
    image
}

/// Opens it on this manager.
fn open(fs: &SimFs, clock: &ManualClock, manager: &Arc<WriteBufferManager>, enforce: bool) -> Db {
    let mut options = options(fs, clock);
    options.write_buffer_manager = Some(Arc::clone(manager));
    options.write_controller = Some(controller(UNFELT, clock));
    options.enforce_write_buffer_manager_during_recovery = enforce;
    Db::open("/db", options).unwrap()
}

/// pressure K1: 50 entries of 50 KiB under a quota of 1 MiB: none flushed without enforcement, three files with it.
#[test]
fn replay_flushes_within_the_quota() {
    case("replay_flushes_within_the_quota", |clock| {
        let image = logged(50, ENTRY, clock);
        for enforce in [false, true] {
            let copy = image.crash(CrashMode::Kill, 1);
            // Without enforcement the flush comes after the open, like that of any other database.
            let gate = (!enforce).then(|| hold_flushes(&copy));
            let db = open(&copy, clock, &passive_manager(1 << 20, clock), enforce);
            if let Some(gate) = gate {
                assert!(used(&db) > 1 << 20, "{} used", used(&db));
                assert_eq!(files(&db), 0);
                gate.open();
            } else {
                db.wait_for_background_work().unwrap();
                assert_eq!(files(&db), 3);
                assert!(used(&db) < 1 << 20, "{} used", used(&db));
            }
            for number in 0..50_u32 {
                let found = db.get(number.to_be_bytes()).unwrap();
                assert_eq!(found.map(|value| value.len()), Some(ENTRY), "entry {number}");
            }
        }
    });
}

/// pressure K2: the database that holds more is asked while another replays, and replay never waits for it.
#[test]
fn replay_asks_the_larger_holder() {
    case("replay_asks_the_larger_holder", |clock| {
        let image = logged(50, ENTRY, clock);
        let manager = passive_manager(4 << 20, clock);
        let (one, two) = (image.crash(CrashMode::Kill, 1), image.crash(CrashMode::Kill, 1));
        let first = open(&one, clock, &manager, true);
        assert_eq!(files(&first), 0, "2.5 MiB alone are within the quota");
        let second = open(&two, clock, &manager, true);
        for db in [&first, &second] {
            db.wait_for_background_work().unwrap();
            assert!(db.get(49_u32.to_be_bytes()).unwrap().is_some());
        }
        assert_eq!(files(&first), 1, "it held more");
        assert!(manager.usage_report().used < 4 << 20);
        assert_eq!(first.write_controller().stats().tally.total().stops, 0);
    });
}

/// pressure K3: a family over both its own limit and the quota is flushed once for it.
#[test]
fn over_both_limits_is_flushed_once() {
    case("over_both_limits_is_flushed_once", |clock| {
        let image = logged(200, 1_000, clock);
        let copy = image.crash(CrashMode::Kill, 1);
        let mut options = options(&copy, clock);
        options.write_buffer_manager = Some(passive_manager(128 << 10, clock));
        options.column_family.write_buffer_size = 64 << 10;
        let db = Db::open("/db", options).unwrap();
        db.wait_for_background_work().unwrap();
        assert!((3..=4).contains(&files(&db)), "{} files", files(&db));
        assert!(used(&db) < 128 << 10);
        for number in 0..200_u32 {
            assert!(db.get(number.to_be_bytes()).unwrap().is_some(), "entry {number}");
        }
    });
}
