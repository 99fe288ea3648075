//! Column families come, go, and stay apart; batches over several are whole.

use std::path::Path;
use std::sync::Arc;

use sluicedb::{ColumnFamilyOptions, Compression, Db, DbOptions, Error, ReadOptions, WriteBatch};
use sluicedb_tests::cases::with_watchdog;
use sluicedb_tests::sim_fs::{CrashMode, FileKind, Op, Pattern, SimFs};

const DB: &str = "/db";

fn options(fs: &SimFs) -> DbOptions {
    let mut options = DbOptions::default();
    options.file_system = Arc::new(fs.clone());
    options.wal_segment_bytes = 64 << 10;
    options
}

fn names(db: &Db) -> Vec<String> {
    db.column_families().iter().map(|family| family.name().to_owned()).collect()
}

fn get(db: &Db, family: &str, key: &str) -> Option<String> {
    let family = db.column_family(family).unwrap_or_else(|| panic!("no family {family}"));
    let found = db.get_cf(&family, key).unwrap();
    found.map(|value| String::from_utf8_lossy(&value).into_owned())
}

#[track_caller]
fn no_such_family(result: Result<(), Error>) {
    assert!(matches!(result, Err(Error::NoSuchColumnFamily { .. })), "{result:?}");
}

#[track_caller]
fn invalid(result: Result<(), Error>) {
    assert!(matches!(result, Err(Error::InvalidArgument { .. })), "{result:?}");
}

/// A new database holds `default` alone; families are listed by id, the default one first.
#[test]
fn families_are_listed_by_id() {
    let fs = SimFs::new(1);
    let db = Db::open(DB, options(&fs)).unwrap();
    assert_eq!(names(&db), ["default"]);
    let zebra = db.create_column_family("zebra", ColumnFamilyOptions::default()).unwrap();
    let ant = db.create_column_family("ant", ColumnFamilyOptions::default()).unwrap();
    assert_eq!(names(&db), ["default", "zebra", "ant"]);
    assert!(db.default_column_family().id() < zebra.id() && zebra.id() < ant.id());
    db.close().unwrap();
    drop(db);
    let mut listed = Db::list_column_families(DB, &options(&fs)).unwrap();
    listed.sort();
    assert_eq!(listed, ["ant", "default", "zebra"]);
}

/// The same key lives in each family on its own, in memory, in tables, and after reopening.
#[test]
fn families_are_apart() {
    let fs = SimFs::new(2);
    let db = Db::open(DB, options(&fs)).unwrap();
    let other = db.create_column_family("other", ColumnFamilyOptions::default()).unwrap();
    db.put("k", "in default").unwrap();
    db.put_cf(&other, "k", "in other").unwrap();
    db.delete_cf(&other, "only default").unwrap();
    db.put("only default", "here").unwrap();
    let check = |db: &Db| {
        assert_eq!(get(db, "default", "k").as_deref(), Some("in default"));
        assert_eq!(get(db, "other", "k").as_deref(), Some("in other"));
        assert_eq!(get(db, "other", "only default"), None);
        assert_eq!(get(db, "default", "only default").as_deref(), Some("here"));
    };
    check(&db);
    db.flush_cf(&other).unwrap();
    check(&db);
    db.flush().unwrap();
    check(&db);
    db.close().unwrap();
    drop((db, other));
    check(&Db::open(DB, options(&fs)).unwrap());
}

/// A batch over several families is there as a whole or not at all, whatever part of the log survives.
///
/// Method: batches that write one number to three families; a power failure that keeps half of the unsynced sectors;
/// the three numbers agree.
#[test]
fn batches_over_families_are_whole() {
    for seed in 0..50 {
        let fs = SimFs::new(seed);
        let db = Db::open(DB, options(&fs)).unwrap();
        let families = ["default", "b", "c"].map(|name| {
            let made = || db.create_column_family(name, ColumnFamilyOptions::default()).unwrap();
            db.column_family(name).unwrap_or_else(made)
        });
        for number in 0..40_u32 {
            let mut batch = WriteBatch::new();
            for family in &families {
                batch.put_cf(family, "number", number.to_string());
                batch.put_cf(family, "filler", vec![b'x'; 300]);
            }
            db.write(batch).unwrap();
            if number == 20 {
                db.flush_cf(&families[1]).unwrap();
            }
        }
        let image = fs.crash(CrashMode::Keep { percent: 50 }, seed);
        drop((db, families));
        let db = Db::open(DB, options(&image)).unwrap();
        let found = ["default", "b", "c"].map(|name| get(&db, name, "number"));
        assert!(found.iter().all(|number| *number == found[0]), "seed {seed}: {found:?}");
        let at_least = found[0].as_deref().map_or(0, |number| number.parse::<u32>().unwrap());
        assert!(at_least >= 20, "seed {seed}: the flush made 20 durable, {at_least} is there");
    }
}

/// A dropped family takes its data along, refuses its handle by name, and its name can be used anew, empty.
#[test]
fn a_dropped_family_is_gone() {
    let fs = SimFs::new(3);
    let db = Db::open(DB, options(&fs)).unwrap();
    let gone = db.create_column_family("gone", ColumnFamilyOptions::default()).unwrap();
    db.put_cf(&gone, "k", "flushed").unwrap();
    db.flush_cf(&gone).unwrap();
    db.put_cf(&gone, "k2", "in memory").unwrap();
    db.put("kept", "1").unwrap();
    db.drop_column_family(&gone).unwrap();

    no_such_family(db.put_cf(&gone, "k", "v"));
    no_such_family(db.delete_cf(&gone, "k"));
    no_such_family(db.get_cf(&gone, "k").map(drop));
    no_such_family(db.iter_cf(&gone).map(drop));
    no_such_family(db.flush_cf(&gone));
    no_such_family(db.drop_column_family(&gone));
    let mut batch = WriteBatch::new();
    batch.put("half", "1").put_cf(&gone, "half", "1");
    no_such_family(db.write(batch));
    assert_eq!(get(&db, "default", "half"), None, "a refused batch leaves no part");
    assert_eq!(names(&db), ["default"]);
    assert!(db.column_family("gone").is_none());

    let again = db.create_column_family("gone", ColumnFamilyOptions::default()).unwrap();
    assert_ne!(again.id(), gone.id(), "ids are never used twice");
    no_such_family(db.put_cf(&gone, "k", "v"));
    assert_eq!(get(&db, "gone", "k"), None);
    db.put_cf(&again, "new", "2").unwrap();
    db.close().unwrap();
    drop((db, gone, again));
    let db = Db::open(DB, options(&fs)).unwrap();
    assert_eq!(names(&db), ["default", "gone"]);
    assert_eq!((get(&db, "gone", "k"), get(&db, "gone", "k2")), (None, None));
    assert_eq!(get(&db, "gone", "new").as_deref(), Some("2"));
    assert_eq!(get(&db, "default", "kept").as_deref(), Some("1"));
}

/// Creating and dropping are durable when they return.
#[test]
fn creating_and_dropping_outlive_a_power_failure() {
    let fs = SimFs::new(4);
    let db = Db::open(DB, options(&fs)).unwrap();
    db.create_column_family("stays", ColumnFamilyOptions::default()).unwrap();
    let goes = db.create_column_family("goes", ColumnFamilyOptions::default()).unwrap();
    let image = fs.crash(CrashMode::DropUnsynced, 1);
    assert_eq!(names(&Db::open(DB, options(&image)).unwrap()), ["default", "stays", "goes"]);
    db.drop_column_family(&goes).unwrap();
    let image = fs.crash(CrashMode::DropUnsynced, 2);
    assert_eq!(names(&Db::open(DB, options(&image)).unwrap()), ["default", "stays"]);
}

/// The default family cannot be dropped, no two families share a name, and a refusal changes nothing.
#[test]
fn impossible_requests_are_refused() {
    let fs = SimFs::new(5);
    let db = Db::open(DB, options(&fs)).unwrap();
    invalid(db.drop_column_family(&db.default_column_family()));
    db.create_column_family("one", ColumnFamilyOptions::default()).unwrap();
    invalid(db.create_column_family("one", ColumnFamilyOptions::default()).map(drop));
    invalid(db.create_column_family("default", ColumnFamilyOptions::default()).map(drop));
    let mut bad = ColumnFamilyOptions::default();
    bad.num_levels = 1;
    invalid(db.create_column_family("two", bad).map(drop));
    assert_eq!(names(&db), ["default", "one"]);
    db.put("k", "v").unwrap();
}

/// Families keep options of their own; a handle of another database is refused.
#[test]
fn families_keep_their_options() {
    let fs = SimFs::new(6);
    let db = Db::open(DB, options(&fs)).unwrap();
    let mut small = ColumnFamilyOptions::default();
    small.write_buffer_size = 64 << 10;
    small.compression = Compression::None;
    let family = db.create_column_family("small", small).unwrap();
    assert_eq!(family.options().write_buffer_size, 64 << 10);
    assert_eq!(db.default_column_family().options().write_buffer_size, 64 << 20);
    for number in 0..3_000_u32 {
        db.put_cf(&family, number.to_be_bytes(), [7; 100]).unwrap();
        db.put(number.to_be_bytes(), [7; 100]).unwrap();
    }
    db.wait_for_background_work().unwrap();
    let files = |family| db.level_stats(family).unwrap().iter().map(|level| level.files).sum::<u64>();
    assert!(files(&family) > 0, "300 KB in memtables of 64 KiB were never flushed");
    assert_eq!(files(&db.default_column_family()), 0, "300 KB in a memtable of 64 MiB were flushed");

    let other = Db::open(Path::new("/other"), options(&fs)).unwrap();
    let stranger = other.create_column_family("small", ColumnFamilyOptions::default()).unwrap();
    assert!(db.put_cf(&stranger, "k", "v").is_err(), "a handle of another database");
}

/// Families named at open are made if allowed; one that is missing and may not be made refuses the open by name.
#[test]
fn missing_families_are_made_or_refused() {
    let fs = SimFs::new(7);
    let mut careful = options(&fs);
    careful.create_missing_column_families = false;
    Db::open(DB, careful.clone()).unwrap().close().unwrap();
    let named = [("missing", ColumnFamilyOptions::default())];
    match Db::open_cf(DB, careful, named.clone()) {
        Err(Error::NoSuchColumnFamily { name }) => assert_eq!(name, "missing"),
        other => panic!("{:?}", other.map(|db| names(&db))),
    }
    let db = Db::open_cf(DB, options(&fs), named).unwrap();
    assert_eq!(names(&db), ["default", "missing"]);
}

/// An iterator and a snapshot taken before a family is dropped do not disturb the others, and a family made after a
/// snapshot is empty in it.
#[test]
fn snapshots_and_families() {
    let fs = SimFs::new(8);
    let db = Db::open(DB, options(&fs)).unwrap();
    let gone = db.create_column_family("gone", ColumnFamilyOptions::default()).unwrap();
    db.put_cf(&gone, "a", "1").unwrap();
    db.flush().unwrap();
    let snapshot = db.snapshot();
    let mut iter = db.iter_cf(&gone).unwrap();
    iter.seek_to_first().unwrap();
    db.drop_column_family(&gone).unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!((iter.key(), iter.value()), (&b"a"[..], &b"1"[..]), "an open iterator keeps what it pinned");
    iter.next().unwrap();
    assert!(!iter.valid());
    let later = db.create_column_family("later", ColumnFamilyOptions::default()).unwrap();
    db.put_cf(&later, "b", "2").unwrap();
    assert!(db.get_cf_opt(&later, "b", &ReadOptions::at(&snapshot)).unwrap().is_none());
    assert_eq!(get(&db, "later", "b").as_deref(), Some("2"));
}

/// While one flush waits for the device, the next one computes, though by default only one may compute at once.
#[test]
fn a_flush_does_not_wait_for_the_sync_of_another() {
    with_watchdog(60, "a_flush_does_not_wait_for_the_sync_of_another", || {
        let fs = SimFs::new(9);
        let db = Db::open(DB, options(&fs)).unwrap();
        let other = db.create_column_family("other", ColumnFamilyOptions::default()).unwrap();
        db.put("k", "in default").unwrap();
        db.put_cf(&other, "k", "in other").unwrap();
        let gate = fs.gate_next(Pattern::op(Op::Sync).on(FileKind::Sst));
        std::thread::scope(|scope| {
            let first = scope.spawn(|| db.flush());
            gate.wait_until_reached();
            db.flush_cf(&other).unwrap();
            assert_eq!(db.property_int("rocksdb.num-running-flushes"), Some(1));
            gate.open();
            first.join().unwrap().unwrap();
        });
        drop(db);
        let db = Db::open(DB, options(&fs)).unwrap();
        assert_eq!(get(&db, "default", "k").as_deref(), Some("in default"));
        assert_eq!(get(&db, "other", "k").as_deref(), Some("in other"));
    });
}
