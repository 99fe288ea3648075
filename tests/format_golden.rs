//! Databases written by past formats still open, verify, take writes and reopen: `reliability R20`.
//!
//! `fixtures/<version>/` holds the files of a small database as that version wrote them: three tables, a log that was not
//! flushed, two column families, deletions. Trailing zeros are left out; `sizes.txt` says how long each file is. The
//! literal bytes of single structures are tested beside each format in the engine.
//!
//! A fixture is made once per format, by `cargo test -p sluicedb-tests --test format_golden -- --ignored`, and then never
//! changed: a change of format adds one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluicedb::{ColumnFamilyOptions, Db, DbOptions, ReadOptions};
use sluicedb_tests::model::{Map, read_family};
use sluicedb_tests::sim_fs::{CrashMode, FileKind, SimFs};

const DB: &str = "/db";
/// The format that this version writes.
const NEWEST: &str = "v1";

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

fn options(fs: &SimFs) -> DbOptions {
    let mut options = DbOptions::default();
    options.file_system = Arc::new(fs.clone());
    options.wal_segment_bytes = 64 << 10;
    options.column_family.disable_auto_compactions = true;
    options
}

/// Writes, round by round, what the fixture holds; a flush ends each round but the last.
fn write(db: &Db) {
    let mut family = ColumnFamilyOptions::default();
    family.disable_auto_compactions = true;
    let other = db.create_column_family("other", family).unwrap();
    for round in 0..4_u8 {
        for number in (round..40).step_by(usize::from(round) + 1) {
            let key = format!("key{number:02}");
            db.put(&key, format!("round {round} ").repeat(usize::from(number))).unwrap();
            db.put_cf(&other, [number, 0xff], [round; 3]).unwrap();
        }
        db.delete(format!("key{:02}", round * 7)).unwrap();
        db.put("", [round]).unwrap();
        if round < 3 {
            db.flush().unwrap();
        }
    }
    db.sync_wal().unwrap();
}

/// What [`write`] leaves in `default` and in `other`.
fn expected() -> [Map; 2] {
    let (mut default, mut other) = (Map::new(), Map::new());
    for round in 0..4_u8 {
        for number in (round..40).step_by(usize::from(round) + 1) {
            let value = format!("round {round} ").repeat(usize::from(number));
            default.insert(format!("key{number:02}").into_bytes(), value.into_bytes());
            other.insert(vec![number, 0xff], vec![round; 3]);
        }
        default.remove(format!("key{:02}", round * 7).as_bytes());
        default.insert(Vec::new(), vec![round]);
    }
    [default, other]
}

fn load(version: &str) -> SimFs {
    let fs = SimFs::new(1);
    let directory = fixtures().join(version);
    let sizes = fs::read_to_string(directory.join("sizes.txt")).expect("each fixture has its sizes");
    for line in sizes.lines() {
        let (name, size) = line.split_once(' ').expect("a name and a size");
        let mut bytes = fs::read(directory.join(name)).expect("the file is there");
        bytes.resize(size.parse().expect("a number"), 0);
        fs.put_bytes(&Path::new(DB).join(name), &bytes);
    }
    fs
}

fn check(db: &Db) {
    let [default, other] = expected();
    let found = read_family(db, &db.default_column_family(), &ReadOptions::default()).unwrap();
    assert_eq!(found, default);
    let family = db.column_family("other").expect("the family is there");
    assert_eq!(read_family(db, &family, &ReadOptions::default()).unwrap(), other);
    for (key, value) in &default {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]));
    }
}

/// Every fixture opens with all it holds, is compacted, written to, and reopened.
#[test]
fn past_formats_open() {
    let mut seen = 0;
    for entry in fs::read_dir(fixtures()).expect("fixtures are kept beside the tests") {
        let version = entry.unwrap().file_name().into_string().unwrap();
        let fs = load(&version);
        let db = Db::open(DB, options(&fs)).unwrap_or_else(|error| panic!("{version}: {error}"));
        check(&db);
        db.compact_range(None, None).unwrap();
        check(&db);
        db.put("new", "value").unwrap();
        db.close().unwrap();
        drop(db);
        let db = Db::open(DB, options(&fs)).unwrap_or_else(|error| panic!("{version}, reopened: {error}"));
        assert_eq!(db.get("new").unwrap().as_deref(), Some(&b"value"[..]));
        db.delete("new").unwrap();
        check(&db);
        seen += 1;
    }
    assert!(seen > 0, "no fixture was found");
}

/// Makes the fixture of the format that this version writes.
#[test]
#[ignore = "makes a fixture anew; see the head of this file"]
fn make_fixture() {
    let fs = SimFs::new(20);
    let db = Db::open(DB, options(&fs)).unwrap();
    write(&db);
    let image = fs.crash(CrashMode::DropUnsynced, 1);
    drop(db);
    let directory = fixtures().join(NEWEST);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    let mut sizes = String::new();
    for path in image.files(Path::new(DB)) {
        if matches!(FileKind::of(&path), FileKind::Log | FileKind::Lock) {
            continue;
        }
        let bytes = image.bytes(&path);
        let name = path.file_name().unwrap().to_str().unwrap();
        sizes.push_str(&format!("{name} {}\n", bytes.len()));
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        fs::write(directory.join(name), &bytes[..end]).unwrap();
    }
    fs::write(directory.join("sizes.txt"), sizes).unwrap();
}
