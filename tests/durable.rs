//! The durable watermark and the manifest's thread, at the level of a database: `write-path D5` to `D15`.
//!
//! The clock stands still unless a case moves it, so a sync that nobody asked for has a cause that the case knows.
//! D1 to D4, D8, D12 and the first half of D14 are tested at the level of the log, beside its code.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sluicedb::{Db, DbOptions, Durability, Error, ManualClock, WriteOptions};
use sluicedb_tests::cases::eventually;
use sluicedb_tests::pressure::case;
use sluicedb_tests::sim_fs::{CrashMode, Effect, Fault, FileKind, Op, Pattern, SimFs};

const SEGMENT: u64 = 64 << 10;

/// Small segments, and nothing that syncs or saves by itself.
fn options(fs: &SimFs, clock: &ManualClock) -> DbOptions {
    let mut options = DbOptions::default();
    options.file_system = Arc::new(fs.clone());
    options.clock = Arc::new(clock.clone());
    options.wal_segment_bytes = SEGMENT;
    options.wal_sync_interval = Duration::ZERO;
    options.manifest_save_interval = Duration::MAX;
    options
}

fn open(options: DbOptions) -> Db {
    Db::open("/db", options).expect("the database opens")
}

fn reopen(fs: &SimFs) -> Db {
    open(options(fs, &ManualClock::new(1)))
}

fn key(number: u64) -> String {
    format!("key{number:08}")
}

fn put(db: &Db, number: u64, len: usize, durability: Durability) -> sluicedb::Result<()> {
    let mut options = WriteOptions::default();
    options.durability = durability;
    db.put_opt(key(number), vec![number as u8; len], &options)
}

/// How many writes are there; they must be the first ones.
fn prefix(db: &Db, written: u64) -> u64 {
    let there = |number: &u64| db.get(key(*number)).expect("a read").is_some();
    let found = (1..=written).take_while(there).count() as u64;
    assert!(!(found + 1..=written).any(|number| there(&number)), "a hole behind write {found}");
    found
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    eventually(|| if is_so() { Ok(()) } else { Err(what.to_owned()) }).expect("it comes about");
}

fn number(db: &Db, property: &str) -> u64 {
    db.property_int(&format!("sluicedb.{property}")).expect("a property that is a number")
}

/// Writes that fill one segment after the other, one each.
fn fill_segments(db: &Db, from: u64, count: u64) {
    for number in from..from + count {
        put(db, number, SEGMENT as usize - 100, Durability::Os).expect("a write");
    }
}

/// write-path D5: what triggers a sync: an empty queue, the ticker, bytes, a call.
#[test]
fn d5_triggers() {
    case("d5_triggers", |clock| {
        let mut idle = options(&SimFs::new(1), clock);
        idle.wal_sync_on_idle = true;
        let db = open(idle);
        db.put("k", "v").unwrap();
        db.wait_durable(db.latest_sequence()).unwrap();

        let mut ticking = options(&SimFs::new(2), clock);
        ticking.wal_sync_interval = Duration::from_secs(1);
        let db = open(ticking);
        for number in 1..=100 {
            assert_eq!(db.durable_sequence().get(), 0, "before write {number}");
            put(&db, number, 100, Durability::Os).unwrap();
            if number < 100 {
                clock.advance(Duration::from_millis(10));
            }
        }
        assert!(!db.wait_durable_for(db.latest_sequence(), Duration::ZERO).unwrap());
        clock.advance(Duration::from_millis(10));
        db.wait_durable(db.latest_sequence()).unwrap();
        assert_eq!(db.durable_sequence().get(), 100);
        db.set_wal_sync_interval(Duration::ZERO);
        put(&db, 101, 100, Durability::Os).unwrap();
        clock.advance(Duration::from_secs(10));
        assert_eq!(db.durable_sequence().get(), 100, "the ticker is off");
        db.sync_wal().unwrap();
        assert_eq!(db.durable_sequence().get(), 101);

        let mut counting = options(&SimFs::new(3), clock);
        counting.wal_sync_bytes = 1_000;
        let db = open(counting);
        (1..=10).for_each(|number| put(&db, number, 200, Durability::Os).unwrap());
        until("synced by bytes", || db.durable_sequence().get() >= 4);
    });
}

/// write-path D5 with `Buffered` writes: the ticker hands them over, and a callback hears of it from a background thread.
#[test]
fn d5_the_ticker_hands_buffers_over() {
    case("d5_the_ticker_hands_buffers_over", |clock| {
        let mut ticking = options(&SimFs::new(1), clock);
        ticking.wal_sync_interval = Duration::from_secs(1);
        let db = open(ticking);
        let (sender, heard) = std::sync::mpsc::channel();
        let _told = db.subscribe_durable(move |seq| {
            let thread = std::thread::current().name().unwrap_or_default().to_owned();
            sender.send((seq.get(), thread)).expect("the test listens");
        });
        put(&db, 1, 100, Durability::Buffered).unwrap();
        assert_eq!(number(&db, "wal.written"), 0);
        clock.advance(Duration::from_secs(1));
        let (seq, thread) = heard.recv().unwrap();
        assert_eq!(seq, 1);
        assert!(thread.starts_with("sluice-wal-"), "{thread}");
        assert!(number(&db, "wal.written") > 100 && number(&db, "wal.synced") == number(&db, "wal.written"));
    });
}

/// write-path D6: 64 segments in about a second cost at most five saves of the position, none of them made by a writer; and
/// a manifest that hangs stalls nobody.
#[test]
fn d6_the_manifest_is_off_the_path() {
    case("d6_the_manifest_is_off_the_path", |clock| {
        let fs = SimFs::new(1);
        let db = open(options(&fs, clock));
        let before = fs.syncs_by_thread(FileKind::Manifest);
        for segment in 0..64 {
            fill_segments(&db, 1 + segment, 1);
            clock.advance(Duration::from_millis(15));
        }
        until("saved", || number(&db, "manifest.position_saves") >= 1);
        let mut after = fs.syncs_by_thread(FileKind::Manifest);
        let saves = after.remove("sluice-mani-0").expect("the manifest's thread syncs");
        assert!(saves <= 5, "{saves} saves");
        assert_eq!(after, before, "nobody else syncs the manifest");

        let gate = fs.gate(Pattern::op(Op::Sync).on(FileKind::Manifest));
        fill_segments(&db, 65, 1);
        clock.advance(Duration::from_millis(300));
        gate.wait_until_reached();
        fill_segments(&db, 66, 20);
        clock.advance(Duration::from_secs(2));
        assert!(number(&db, "manifest.lag_segments") >= 20);
        gate.open();
        until("caught up", || {
            clock.advance(Duration::from_millis(300));
            number(&db, "manifest.lag_segments") == 0
        });
        db.close().unwrap();
        assert_eq!(prefix(&reopen(&fs), 85), 85);
    });
}

/// write-path D7: the manifest lags behind the log when power fails. What was reported durable is back, found by the scan;
/// without a segment in the middle the open is refused, and names it.
#[test]
fn d7_the_manifest_lags() {
    case("d7_the_manifest_lags", |clock| {
        let fs = SimFs::new(1);
        let db = open(options(&fs, clock));
        fill_segments(&db, 1, 8);
        clock.advance(Duration::from_millis(300));
        until("saved", || number(&db, "manifest.lag_segments") == 0);
        let _gate = fs.gate(Pattern::op(Op::Sync).on(FileKind::Manifest));
        fill_segments(&db, 9, 3);
        let durable = db.durable_sequence().get();
        assert!(durable >= 9, "{durable}");
        let crashed = fs.crash(CrashMode::DropUnsynced, 7);
        let segments = crashed.files_ending(Path::new("/db"), ".log");
        let missing = fs.crash(CrashMode::DropUnsynced, 7);
        missing.unlink(&segments[6]);
        let error = Db::open("/db", options(&missing, clock)).unwrap_err().to_string();
        assert!(error.contains(&segments[6].display().to_string()), "{error}");
        assert!(prefix(&reopen(&crashed), 11) >= durable);
    });
}

/// write-path D9: a failed sync of a record that held only a position costs nothing but a new manifest.
#[test]
fn d9_a_failed_position_is_saved_anew() {
    case("d9_a_failed_position_is_saved_anew", |clock| {
        let fs = SimFs::new(1);
        let db = open(options(&fs, clock));
        let manifests = || {
            let mut files = fs.files(Path::new("/db"));
            files.retain(|path| path.to_string_lossy().contains("MANIFEST-"));
            files
        };
        let before = manifests();
        let fails = Pattern::op(Op::Sync).on(FileKind::Manifest);
        fs.inject(Fault::next(fails, Effect::Fail(std::io::ErrorKind::Other)));
        fill_segments(&db, 1, 2);
        clock.advance(Duration::from_millis(300));
        until("saved anew", || number(&db, "manifest.position_saves") == 1);
        assert_eq!(number(&db, "manifest.position_failures"), 1);
        assert_eq!(fs.fired().get(Op::Sync, FileKind::Manifest), 1);
        until("one manifest is left", || manifests().len() == 1 && manifests() != before);
        fill_segments(&db, 3, 2);
        db.flush().unwrap();
        assert_eq!(number(&db, "wal.durable_seq"), 4);
        let crashed = fs.crash(CrashMode::DropUnsynced, 1);
        assert_eq!(prefix(&reopen(&crashed), 4), 4);
        db.close().unwrap();
        assert_eq!(prefix(&reopen(&fs), 4), 4);
    });
}

/// write-path D10: no space for the next segment refuses writes and nothing else, and ends without reopening.
#[test]
fn d10_no_space_comes_and_goes() {
    case("d10_no_space_comes_and_goes", |clock| {
        let fs = SimFs::new(1);
        let db = open(options(&fs, clock));
        fs.set_budget(Some(fs.used()));
        let mut written = 0;
        let error = loop {
            match put(&db, written + 1, 10_000, Durability::Os) {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::NoSpace { .. }), "{error}");
        assert!(written >= 6, "the segment is used up first: {written}");
        assert_eq!(prefix(&db, written + 1), written, "nothing is half applied");
        fs.set_budget(None);
        until("writes go on", || {
            clock.advance(Duration::from_secs(1));
            put(&db, written + 1, 10, Durability::Sync).is_ok()
        });
        assert_eq!(prefix(&db, written + 1), written + 1);
    });
}

/// write-path D11: dropping the database is a clean close; killing it leaves a prefix.
#[test]
fn d11_drop_is_a_clean_close() {
    case("d11_drop_is_a_clean_close", |clock| {
        for durability in [Durability::Buffered, Durability::Os] {
            let fs = SimFs::new(1);
            let db = open(options(&fs, clock));
            (1..=50).for_each(|number| put(&db, number, 100, durability).unwrap());
            let killed = fs.crash(CrashMode::Kill, 1);
            drop(db);
            assert_eq!(prefix(&reopen(&fs.crash(CrashMode::DropUnsynced, 1)), 50), 50);
            let found = prefix(&reopen(&killed), 50);
            assert!(found == 50 || durability == Durability::Buffered, "{found}");
        }
    });
}

/// write-path D13: with one write a second the position is saved every ten seconds, not ever more often.
#[test]
fn d13_the_interval_restarts_with_each_save() {
    case("d13_the_interval_restarts_with_each_save", |clock| {
        let fs = SimFs::new(1);
        let mut slow = options(&fs, clock);
        slow.manifest_save_interval = Duration::from_secs(10);
        let db = open(slow);
        for second in 1..=40 {
            put(&db, second, 10, Durability::Sync).unwrap();
            clock.advance(Duration::from_secs(1));
            until("saved in time", || number(&db, "manifest.position_saves") == second / 10);
        }
        assert_eq!(fs.syncs_by_thread(FileKind::Manifest)["sluice-mani-0"], 4);
    });
}

/// write-path D14: a write for the kernel does not wait for a background sync that hangs.
#[test]
fn d14_a_hanging_sync_stalls_no_writer() {
    case("d14_a_hanging_sync_stalls_no_writer", |clock| {
        let fs = SimFs::new(1);
        let mut ticking = options(&fs, clock);
        ticking.wal_sync_interval = Duration::from_secs(1);
        let db = open(ticking);
        until("a segment is ready", || fs.calls().get(Op::Sync, FileKind::Wal) == 2);
        let gate = fs.gate(Pattern::op(Op::Sync).on(FileKind::Wal));
        put(&db, 1, 100, Durability::Os).unwrap();
        clock.advance(Duration::from_secs(1));
        gate.wait_until_reached();
        put(&db, 2, 100, Durability::Os).unwrap();
        clock.advance(Duration::from_secs(2));
        assert_eq!(db.durable_sequence().get(), 0);
        gate.open();
        db.wait_durable(sluicedb::SequenceNumber::new(1)).unwrap();
        until("the next tick", || {
            clock.advance(Duration::from_secs(1));
            db.durable_sequence().get() == 2
        });
    });
}

/// write-path D15: what each level keeps when the process is killed, and when power fails.
#[test]
fn d15_levels() {
    case("d15_levels", |clock| {
        for durability in [Durability::None, Durability::Buffered, Durability::Os, Durability::Sync] {
            let fs = SimFs::new(1);
            let db = open(options(&fs, clock));
            (1..=100).for_each(|number| put(&db, number, 100, durability).unwrap());
            let found = |mode| prefix(&reopen(&fs.crash(mode, 1)), 100);
            let (killed, failed) = (found(CrashMode::Kill), found(CrashMode::DropUnsynced));
            match durability {
                Durability::None => assert_eq!((killed, failed), (0, 0)),
                Durability::Buffered => assert_eq!((killed, failed), (0, 0), "100 writes fit the buffer"),
                Durability::Os => assert_eq!((killed, failed), (100, 0), "nothing passed the watermark"),
                _ => assert_eq!((killed, failed), (100, 100)),
            }
            match durability {
                Durability::None => db.flush().unwrap(),
                _ => db.sync_wal().unwrap(),
            }
            assert_eq!(prefix(&reopen(&fs.crash(CrashMode::DropUnsynced, 1)), 100), 100);
        }
    });
}
