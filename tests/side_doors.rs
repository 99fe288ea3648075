//! Opening for reading only, and checkpoints.
//!
//! `reliability V5`, and what `db.checkpoint` promises; the seeded cases are in [`sluicedb_tests::kinds::side_doors`].

use std::path::Path;
use std::sync::Arc;

use sluicedb::{Db, DbOptions, Error, ReadOptions};
use sluicedb_tests::cases::run_cases;
use sluicedb_tests::kinds::side_doors;
use sluicedb_tests::model::read_family;
use sluicedb_tests::sim_fs::{Effect, Fault, FileKind, Op, Pattern, SimFs};

fn options(fs: &SimFs) -> DbOptions {
    let mut options = DbOptions::default();
    options.file_system = Arc::new(fs.clone());
    options.wal_segment_bytes = 64 << 10;
    options.column_family.write_buffer_size = 64 << 10;
    options
}

/// `reliability V5`: after a crash at any operation, a read-only open writes nothing and finds what the next ordinary open
/// finds; beside the holder it finds a prefix with all that was handed over.
#[test]
fn a_read_only_open_writes_nothing_and_finds_the_same() {
    run_cases("a_read_only_open_writes_nothing_and_finds_the_same", 0, 700, side_doors::read_only);
}

/// A checkpoint is whole or no database, whenever the crash comes, and its own database afterwards.
#[test]
fn a_checkpoint_is_whole_or_none() {
    let (mut cut, mut cases) = (0, 0);
    run_cases("a_checkpoint_is_whole_or_none", 0, 300, |seed| {
        cases += 1;
        cut += u32::from(side_doors::checkpoint(seed)?);
        Ok(())
    });
    assert!(cases < 50 || cut * 5 >= cases, "only {cut} of {cases} checkpoints were cut short");
}

/// Where there is no database a read-only open says so and makes nothing, whatever `create_if_missing` says.
#[test]
fn a_read_only_open_makes_nothing() {
    let fs = SimFs::new(1);
    let refused = Db::open_read_only("/db", options(&fs)).map(drop);
    assert!(matches!(refused, Err(Error::NotADatabase { .. })), "{refused:?}");
    assert_eq!(fs.mutations(), 0);
    let mut writable = options(&fs);
    writable.error_if_exists = true;
    Db::open("/db", writable.clone()).unwrap().put("a", "1").unwrap();
    let db = Db::open_read_only("/db", writable).unwrap();
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]), "error_if_exists means nothing here");
}

/// A reader that holds no lock goes on reading what it opened while the holder writes, flushes, compacts, and deletes the
/// files under it; a later open sees the new state.
#[test]
fn a_reader_outlives_the_holders_compactions() {
    let fs = SimFs::new(2);
    let holder = Db::open("/db", options(&fs)).unwrap();
    for round in 0..4 {
        for key in 0..50 {
            holder.put(format!("key{key:02}"), format!("{round} {}", "x".repeat(200))).unwrap();
        }
        holder.flush().unwrap();
    }
    holder.put("in the log", "1").unwrap();
    let reader = Db::open_read_only("/db", options(&fs)).unwrap();
    let family = reader.default_column_family();
    let names = fs.files_ending(Path::new("/db"), ".sst");
    for key in 0..50 {
        holder.put(format!("key{key:02}"), "later").unwrap();
    }
    holder.compact_range(None, None).unwrap();
    sluicedb_tests::cases::eventually(|| {
        let left = fs.files_ending(Path::new("/db"), ".sst");
        if names.iter().any(|name| left.contains(name)) { Err(format!("{left:?}")) } else { Ok(()) }
    })
    .unwrap();
    let seen = read_family(&reader, &family, &ReadOptions::default()).unwrap();
    assert_eq!(seen.len(), 51);
    assert!(seen.iter().all(|(key, value)| key == b"in the log" || value.starts_with(b"3 ")), "{seen:?}");
    let again = Db::open_read_only("/db", options(&fs)).unwrap();
    assert_eq!(again.get("key07").unwrap().as_deref(), Some(&b"later"[..]));
    assert_eq!(again.property_int("rocksdb.background-errors"), Some(0));
    again.wait_for_background_work().unwrap();
}

/// Readers open again and again beside a holder that writes all the time; each finds at least what was acknowledged before
/// it began, and no two keys of one batch apart.
#[test]
fn readers_beside_a_busy_holder() {
    let fs = SimFs::new(3);
    let holder = Db::open("/db", options(&fs)).unwrap();
    let acknowledged = std::sync::atomic::AtomicU64::new(0);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0_u64;
            while !done.load(std::sync::atomic::Ordering::Acquire) {
                number += 1;
                let value = [&number.to_be_bytes()[..], &[7; 3000]].concat();
                let mut batch = sluicedb::WriteBatch::new();
                batch.put("one", &value).put("two", &value).put(number.to_be_bytes(), &value);
                holder.write(batch).unwrap();
                acknowledged.store(number, std::sync::atomic::Ordering::Release);
                if number.is_multiple_of(500) {
                    holder.flush().unwrap();
                }
            }
        });
        for _ in 0..60 {
            let owed = acknowledged.load(std::sync::atomic::Ordering::Acquire);
            let reader = Db::open_read_only("/db", options(&fs)).unwrap();
            let number = |key: &str| {
                let value = reader.get(key).unwrap();
                value.map_or(0, |value| u64::from_be_bytes(value[..8].try_into().unwrap()))
            };
            let (one, two) = (number("one"), number("two"));
            assert_eq!(one, two, "a batch in part");
            assert!(one >= owed, "found batch {one}, but {owed} was acknowledged");
        }
        done.store(true, std::sync::atomic::Ordering::Release);
    });
}

/// A checkpoint that cannot be made is removed, says why, and leaves the database as it was; a directory with something in
/// it is refused untouched; and a file system without hard links gets copies.
#[test]
fn checkpoints_that_cannot_be_made() {
    let fs = SimFs::new(4);
    let db = Db::open("/db", options(&fs)).unwrap();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    fs.put_bytes(Path::new("/full/notes.txt"), b"mine");
    let refused = db.checkpoint("/full").unwrap_err();
    assert!(refused.to_string().contains("notes.txt"), "{refused}");
    assert_eq!(fs.files(Path::new("/full")).len(), 1);

    for (op, kind) in [
        (Op::HardLink, FileKind::Sst),
        (Op::Create, FileKind::Manifest),
        (Op::OpenReadable, FileKind::Wal),
        (Op::Sync, FileKind::Current),
        (Op::Rename, FileKind::Current),
    ] {
        fs.inject(Fault::next(Pattern::op(op).on(kind), Effect::Fail(std::io::ErrorKind::Other)));
        let refused = db.checkpoint("/copy").unwrap_err();
        assert!(matches!(refused, Error::Io { .. }), "{refused}");
        assert!(fs.files(Path::new("/copy")).is_empty(), "{op:?} {:?}", fs.files(Path::new("/copy")));
        db.put("b", "2").unwrap();
    }
    let unsupported = Effect::Fail(std::io::ErrorKind::Unsupported);
    fs.inject(Fault::next(Pattern::op(Op::HardLink), unsupported));
    db.checkpoint("/copy").unwrap();
    let copy = Db::open("/copy", options(&fs)).unwrap();
    assert_eq!(copy.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(copy.get("b").unwrap().as_deref(), Some(&b"2"[..]));
}
