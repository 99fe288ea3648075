//! Opening: what is refused, what is repaired by leaving a torn tail out, and what is never believed.
//!
//! Damage to the log and to the directory; damage to tables is in `damage.rs`, crashes are in `crash.rs`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluicedb::{ColumnFamilyOptions, Db, DbOptions, DiskFileSystem, Error, WriteBatch};
use sluicedb_tests::cases::run_cases;
use sluicedb_tests::kinds::torn::{DB, FAMILIES, damage_synced, load, open, options, tear};
use sluicedb_tests::model::History;
use sluicedb_tests::rng::Rng;
use sluicedb_tests::sim_fs::{CrashMode, SimFs};

/// `reliability R3`: whatever lies behind the last synced byte of the log, the open succeeds with a prefix, at least up
/// to that byte; `Absolute` refuses when something was cut off.
///
/// Method: [`torn::tear`](sluicedb_tests::kinds::torn::tear).
#[test]
fn torn_tails_are_left_out() {
    let mut torn = 0;
    let mut cases = 0;
    run_cases("torn_tails_are_left_out", 0, 400, |seed| {
        cases += 1;
        torn += u32::from(tear(seed)?);
        Ok(())
    });
    assert!(cases < 100 || torn * 2 >= cases, "only {torn} of {cases} cases had anything to tear");
}

/// `reliability R11`: damage in front of the recorded synced end refuses the open and names the file; with the damage
/// undone, everything is there. `PointInTime` opens with a prefix.
///
/// Method: [`torn::damage_synced`](sluicedb_tests::kinds::torn::damage_synced).
#[test]
fn synced_damage_refuses_to_open() {
    let mut refused = 0;
    let mut cases = 0;
    run_cases("synced_damage_refuses_to_open", 0, 150, |seed| {
        cases += 1;
        refused += u32::from(damage_synced(seed)?);
        Ok(())
    });
    assert!(refused * 10 >= cases * 9, "only {refused} of {cases} flips were noticed");
}

/// A log segment that is missing in the middle refuses the open.
#[test]
fn a_missing_segment_refuses_to_open() {
    let fs = SimFs::new(9);
    let mut history = History::new(&FAMILIES);
    let (db, families) = open(options(&fs)).unwrap();
    load(&db, &families, &mut Rng::new(9), &mut history, 250, 2);
    db.close().unwrap();
    drop((db, families));
    let logs = fs.files_ending(Path::new(DB), ".log");
    let written: Vec<&PathBuf> = logs
        .iter()
        .filter(|path| fs.bytes(path).iter().filter(|byte| **byte != 0).count() > 30_000)
        .collect();
    assert!(written.len() >= 3, "{} segments hold data", written.len());
    for path in [written[0], written[1]] {
        let image = fs.crash(CrashMode::DropUnsynced, 1);
        image.unlink(path);
        match open(options(&image)) {
            Err(Error::Corruption { .. }) => {}
            other => panic!("without {}: {:?}", path.display(), other.map(drop)),
        }
    }
}

/// A second opener is refused while the first lives, in memory and on disk; the next is welcome after a close or drop.
#[test]
fn a_second_opener_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut on_disk = DbOptions::default();
    on_disk.file_system = Arc::new(DiskFileSystem);
    let cases = [(PathBuf::from(DB), options(&SimFs::new(1))), (directory.path().join("db"), on_disk)];
    for (path, options) in cases {
        let db = Db::open(&path, options.clone()).unwrap();
        db.put("k", "v").unwrap();
        match Db::open(&path, options.clone()) {
            Err(Error::Locked { path: lock }) => assert!(lock.starts_with(&path), "{}", lock.display()),
            other => panic!("{:?}", other.map(drop)),
        }
        assert!(db.get("k").unwrap().is_some(), "the refused opener disturbed the first");
        db.close().unwrap();
        let again =
            Db::open(&path, options.clone()).expect("a closed database is free, even while a handle lives");
        drop((db, again));
        assert!(Db::open(&path, options).unwrap().get("k").unwrap().is_some());
    }
}

/// A directory without a database is told apart from one with; nothing is made when nothing was asked for.
#[test]
fn a_directory_without_a_database_is_named() {
    let fs = SimFs::new(2);
    let mut careful = options(&fs);
    careful.create_if_missing = false;
    let not_a_database = |result: Result<Db, Error>| match result {
        Err(Error::NotADatabase { path, .. }) => assert_eq!(path, Path::new(DB)),
        other => panic!("{:?}", other.map(drop)),
    };
    not_a_database(Db::open(DB, careful.clone()));
    let notes = Path::new(DB).join("notes.txt");
    fs.put_bytes(&notes, b"mine");
    not_a_database(Db::open(DB, careful.clone()));
    not_a_database(Db::open(DB, options(&fs)));
    assert!(matches!(Db::destroy(DB, &careful), Err(Error::NotADatabase { .. })));
    assert_eq!(fs.bytes(&notes), b"mine");

    fs.unlink(&notes);
    let mut fresh = options(&fs);
    fresh.error_if_exists = true;
    Db::open(DB, fresh.clone()).unwrap().close().unwrap();
    assert!(matches!(Db::open(DB, fresh), Err(Error::InvalidArgument { .. })));
    fs.put_bytes(&notes, b"mine");
    Db::open(DB, careful).unwrap().close().unwrap();
    assert_eq!(fs.bytes(&notes), b"mine", "files of others are left alone");
}

/// Destroying removes what is ours and nothing else.
#[test]
fn destroy_removes_only_our_files() {
    let fs = SimFs::new(3);
    let db = Db::open(DB, options(&fs)).unwrap();
    db.put("k", "v").unwrap();
    db.flush().unwrap();
    assert!(matches!(Db::destroy(DB, &options(&fs)), Err(Error::Locked { .. })), "an open database");
    db.close().unwrap();
    drop(db);
    let notes = Path::new(DB).join("notes.txt");
    fs.put_bytes(&notes, b"mine");
    Db::destroy(DB, &options(&fs)).unwrap();
    assert_eq!(fs.files(Path::new(DB)), std::slice::from_ref(&notes));
    fs.unlink(&notes);
    Db::destroy("/nowhere", &options(&fs)).unwrap();
    assert!(Db::open(DB, options(&fs)).unwrap().get("k").unwrap().is_none());
}

/// Options outside their range are refused by name before anything is touched.
#[test]
fn bad_options_are_refused_by_name() {
    let fs = SimFs::new(4);
    let mut bad = options(&fs);
    bad.wal_segment_bytes = 1;
    match Db::open(DB, bad) {
        Err(Error::InvalidArgument { what, .. }) => assert_eq!(what, "wal_segment_bytes"),
        other => panic!("{:?}", other.map(drop)),
    }
    let mut family = ColumnFamilyOptions::default();
    family.block_size = 1;
    match Db::open_cf(DB, options(&fs), [("a", family)]) {
        Err(Error::InvalidArgument { what, .. }) => assert_eq!(what, "block_size"),
        other => panic!("{:?}", other.map(drop)),
    }
    assert_eq!(fs.mutations(), 0, "a refused open touched the disk");
}

/// Keys up to 64 KiB - 1 and empty keys and values are kept; longer keys and oversized batches are refused whole.
#[test]
fn sizes_are_kept_or_refused_whole() {
    let fs = SimFs::new(5);
    let mut small = options(&fs);
    small.max_batch_bytes = 200_000;
    let db = Db::open(DB, small.clone()).unwrap();
    let longest = vec![b'k'; (64 << 10) - 1];
    let refused = |result: Result<(), Error>| match result {
        Err(Error::InvalidArgument { .. } | Error::BatchTooLarge { .. }) => {}
        other => panic!("{other:?}"),
    };
    db.put(&longest, "long").unwrap();
    db.put("", "no key").unwrap();
    db.put("no value", "").unwrap();
    db.write(WriteBatch::new()).unwrap();
    refused(db.put(vec![b'k'; 64 << 10], "too long"));
    let mut batch = WriteBatch::new();
    batch.put("first", "1").put(vec![b'k'; 64 << 10], "too long");
    refused(db.write(batch));
    refused(db.put("huge", vec![0; 200_001]));
    let check = |db: &Db| {
        assert_eq!(db.get(&longest).unwrap().as_deref(), Some(&b"long"[..]));
        assert_eq!(db.get("").unwrap().as_deref(), Some(&b"no key"[..]));
        assert_eq!(db.get("no value").unwrap().as_deref(), Some(&b""[..]));
        assert!(db.get("first").unwrap().is_none() && db.get("huge").unwrap().is_none());
        let mut iter = db.iter().unwrap();
        iter.seek_to_first().unwrap();
        assert_eq!((iter.key(), iter.value()), (&b""[..], &b"no key"[..]));
    };
    check(&db);
    db.flush().unwrap();
    check(&db);
    db.compact_range(None, None).unwrap();
    check(&db);
    db.close().unwrap();
    drop(db);
    check(&Db::open(DB, small).unwrap());
}
