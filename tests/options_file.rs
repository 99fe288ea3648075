//! The file OPTIONS: written at open and at each change, whole at any time, read back, and needed by nobody.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sluicedb::{ColumnFamilyOptions, Db, DbOptions, Error, StoredOptions};
use sluicedb_tests::sim_fs::{CrashMode, Effect, Fault, FileKind, Op, Pattern, SimFs};

const DB: &str = "/db";

fn options(fs: &SimFs) -> DbOptions {
    let mut options = DbOptions::default();
    options.file_system = Arc::new(fs.clone());
    options.wal_segment_bytes = 64 << 10;
    options.wal_sync_interval = Duration::ZERO;
    options
}

fn stored(fs: &SimFs) -> StoredOptions {
    Db::load_options(DB, &options(fs)).expect("OPTIONS is there and readable")
}

fn family(stored: &StoredOptions, name: &str) -> ColumnFamilyOptions {
    let found = stored.families.iter().find(|(named, _)| named == name);
    found.unwrap_or_else(|| panic!("no family {name}")).1.clone()
}

/// What was opened with, made, changed and dropped stands in the file at once; opening with what was read changes nothing.
#[test]
fn options_in_force_are_read_back() {
    let fs = SimFs::new(1);
    let mut first = options(&fs);
    first.max_open_files = 77;
    let db = Db::open(DB, first).expect("a new database");
    assert_eq!((stored(&fs).db.max_open_files, stored(&fs).families.len()), (77, 1));

    let mut of_its_own = ColumnFamilyOptions::default();
    of_its_own.num_levels = 4;
    let other = db.create_column_family("other \"one\"", of_its_own).expect("a family");
    assert_eq!(family(&stored(&fs), "other \"one\"").num_levels, 4);
    db.set_options(&other, &[("write_buffer_size", "1M"), ("compression", "none")]).expect("a change");
    db.set_db_options(&[("delay_start_percent", "40")]).expect("a change");
    db.set_wal_sync_interval(Duration::from_micros(1_234_567));
    db.set_commit_queue_bytes(1 << 20).expect("a change");
    db.set_options(&other, &[("write_buffer_size", "x")]).expect_err("no number");
    let now = stored(&fs);
    assert_eq!(family(&now, "other \"one\"").write_buffer_size, 1 << 20);
    assert_eq!(family(&now, "default").write_buffer_size, ColumnFamilyOptions::default().write_buffer_size);
    assert_eq!((now.db.delay_start_percent, now.db.commit_queue_bytes), (40, 1 << 20));
    assert_eq!(now.db.wal_sync_interval, Duration::from_micros(1_234_567));
    db.close().expect("it closes");
    drop((db, other));

    let text = String::from_utf8(fs.bytes(&Path::new(DB).join("OPTIONS"))).expect("text");
    let db = Db::open_cf(DB, now.db, now.families).expect("it opens as it was open last");
    assert_eq!(String::from_utf8(fs.bytes(&Path::new(DB).join("OPTIONS"))).expect("text"), text);
    let other = db.column_family("other \"one\"").expect("the family");
    db.drop_column_family(&other).expect("it is dropped");
    assert_eq!(stored(&fs).families.len(), 1);
    db.close().expect("it closes");
}

/// After a power failure at any moment of a change OPTIONS is the old one or the new one, whole, and the database opens.
///
/// Method: the run is repeated with a power failure before the first call that changes the disk, before the second, and so
/// on until the change needs no more; each is looked at as it may be found.
#[test]
fn a_crash_leaves_the_old_or_the_new_one() {
    let (mut old, mut new) = (0, 0);
    for call in 1..100 {
        let fs = SimFs::new(7);
        let db = Db::open(DB, options(&fs)).expect("a new database");
        fs.crash_at(call, CrashMode::Keep { percent: 50 }, call);
        db.set_db_options(&[("delay_start_percent", "40")]).expect("a change");
        let image = fs.take_image();
        let found = image.clone().unwrap_or_else(|| fs.crash(CrashMode::DropUnsynced, call));
        let percent = stored(&found).db.delay_start_percent;
        assert!([70, 40].contains(&percent), "{percent} before call {call}");
        if percent == 70 {
            old += 1
        } else {
            new += 1
        }
        let again = Db::open(DB, options(&found)).expect("it opens whatever OPTIONS says");
        assert_eq!(stored(&found).db.delay_start_percent, 70, "what it was opened with");
        again.close().expect("it closes");
        db.close().expect("it closes");
        if image.is_none() {
            assert_eq!(percent, 40, "the change has returned, so it is on disk");
            break;
        }
    }
    assert!(old >= 2 && new >= 1, "{old} times the old one, {new} times the new one");
}

/// Nothing depends on it: unwritable, damaged or gone, the database opens, changes and keeps its data; damage is told with
/// file and line to whoever reads it.
#[test]
fn nothing_depends_on_it() {
    let fs = SimFs::new(3);
    let pattern = Pattern::op(Op::Write).on(FileKind::Options);
    fs.inject(Fault::always(pattern, Effect::Fail(std::io::ErrorKind::StorageFull)));
    let db = Db::open(DB, options(&fs)).expect("a new database without OPTIONS");
    db.put("key", "value").expect("a write");
    db.set_db_options(&[("delay_start_percent", "40")]).expect("the change itself is fine");
    assert_eq!(db.db_options().delay_start_percent, 40);
    db.close().expect("it closes");
    let missing = Db::load_options(DB, &options(&fs)).expect_err("there is none");
    assert!(matches!(missing, Error::Io { .. }), "{missing}");

    let fs = SimFs::new(4);
    let db = Db::open(DB, options(&fs)).expect("a new database");
    db.put("key", "value").expect("a write");
    db.close().expect("it closes");
    drop(db);
    let path = Path::new(DB).join("OPTIONS");
    let mut bytes = fs.bytes(&path);
    let at = bytes.windows(11).position(|window| window == b"allow_stall").expect("the option");
    bytes[at] = b'A';
    fs.put_bytes(&path, &bytes);
    let told = Db::load_options(DB, &options(&fs)).expect_err("no such option").to_string();
    let line = bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
    assert!(
        told.contains(&format!("/db/OPTIONS, line {line}: there is none called 'Allow_stall'")),
        "{told}"
    );
    fs.put_bytes(&path, &[0xff, b'\n']);
    let told = Db::load_options(DB, &options(&fs)).expect_err("no text").to_string();
    assert!(told.contains("/db/OPTIONS, line 1: not UTF-8 at offset 0"), "{told}");
    let db = Db::open(DB, options(&fs)).expect("it opens and mends OPTIONS");
    assert_eq!(db.get("key").expect("a read").as_deref(), Some(&b"value"[..]));
    assert!(stored(&fs).db.allow_stall);
    db.close().expect("it closes");
}
