//! Damaged, exchanged and missing files: an error that names the file, never a wrong value.
//!
//! `reliability R9` and `R10` for tables, MANIFEST, CURRENT and OPTIONS; damage to the log is in `recovery.rs`.

use std::path::Path;

use sluicedb::{Db, Error, ReadOptions};
use sluicedb_tests::cases::run_cases;
use sluicedb_tests::kinds::damage::{DB, build, exchange, flip_manifest, flip_table, misplace, options};
use sluicedb_tests::model::read_family;
use sluicedb_tests::sim_fs::{CrashMode, Effect, Fault, FileKind, Op, Pattern};

/// `reliability R9`: a flipped bit in a table gives an error naming that table, or nothing at all when it is not needed;
/// a wrong value never.
///
/// Method: every 7th byte of every table of a small database, one bit each.
#[test]
fn a_flipped_bit_in_a_table_is_noticed() {
    let mut noticed = 0;
    let mut flips = 0;
    run_cases("a_flipped_bit_in_a_table_is_noticed", 0, 4, |seed| {
        let (fs, map) = build(seed, 2);
        for path in fs.files_ending(Path::new(DB), ".sst") {
            for at in (seed as usize..fs.bytes(&path).len()).step_by(7) {
                flips += 1;
                noticed += u32::from(flip_table(&fs, seed, &map, &path, at, 1 << (at % 8))?);
            }
        }
        Ok(())
    });
    assert!(flips > 0 && noticed * 10 >= flips * 9, "only {noticed} of {flips} flips were noticed");
}

/// `reliability R9`: a flipped bit in MANIFEST or CURRENT after a clean close refuses the open, or changes nothing.
#[test]
fn a_flipped_bit_in_the_manifest_is_noticed() {
    let mut refused = 0;
    let mut flips = 0;
    run_cases("a_flipped_bit_in_the_manifest_is_noticed", 0, 2, |seed| {
        let (fs, map) = build(seed, 2);
        let mut paths = fs.files(Path::new(DB));
        paths.retain(|path| matches!(FileKind::of(path), FileKind::Manifest | FileKind::Current));
        assert_eq!(paths.len(), 2);
        for path in paths {
            for at in 0..fs.bytes(&path).len() {
                flips += 1;
                refused += u32::from(flip_manifest(&fs, seed, &map, &path, at, 1 << (at % 8))?);
            }
        }
        Ok(())
    });
    assert!(flips > 0 && refused * 10 >= flips * 9, "only {refused} of {flips} flips were noticed");
}

/// `reliability R10`: two tables exchanged, a table of another database in place of ours, an older table, a table cut
/// short: an error naming a file that was touched.
#[test]
fn exchanged_tables_are_noticed() {
    run_cases("exchanged_tables_are_noticed", 0, 40, exchange);
}

/// A block copied over another of the same table fails its checksum: the offset is part of it.
#[test]
fn a_misplaced_block_is_noticed() {
    run_cases("a_misplaced_block_is_noticed", 0, 30, misplace);
}

/// A missing table refuses the open or the read by name, and extra files are removed or ignored, never believed.
#[test]
fn missing_and_extra_files() {
    let (fs, map) = build(1, 2);
    let path = fs.files_ending(Path::new(DB), ".sst")[0].clone();
    let copy = fs.crash(CrashMode::Kill, 1);
    copy.unlink(&path);
    match Db::open(DB, options(&copy, 1)) {
        Err(error @ Error::Corruption { .. }) => {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            assert!(error.to_string().contains(&name), "{error}");
        }
        other => panic!("{:?}", other.map(drop)),
    }

    let (other, _) = build(2, 1);
    let stranger = other.bytes(&other.files_ending(Path::new(DB), ".sst")[0]);
    for name in ["999990.sst", "CURRENT.tmp", "OPTIONS.tmp", "MANIFEST-000000"] {
        fs.put_bytes(&Path::new(DB).join(name), &stranger);
    }
    fs.put_bytes(&Path::new(DB).join("notes.txt"), b"mine");
    let db = Db::open(DB, options(&fs, 1)).unwrap();
    assert_eq!(read_family(&db, &db.default_column_family(), &ReadOptions::default()).unwrap(), map);
    db.put("new", "1").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    assert_eq!(fs.bytes(&Path::new(DB).join("notes.txt")), b"mine");
    for name in ["999990.sst", "CURRENT.tmp", "OPTIONS.tmp", "MANIFEST-000000"] {
        assert!(!fs.files(Path::new(DB)).contains(&Path::new(DB).join(name)), "{name} is still there");
    }
}

/// A bit that flips on the way from the disk gives that read an error naming file and offset; the next read is fine.
#[test]
fn a_bad_read_is_that_reads_error() {
    let (fs, map) = build(3, 2);
    let db = Db::open(DB, options(&fs, 3)).unwrap();
    let mut errors = 0;
    for (key, value) in &map {
        fs.inject(Fault::next(Pattern::op(Op::Read).on(FileKind::Sst), Effect::FlipBit));
        match db.get(key) {
            Ok(found) => assert_eq!(found.as_deref(), Some(&value[..])),
            Err(Error::Corruption { path, .. }) => {
                assert_eq!(FileKind::of(&path), FileKind::Sst);
                errors += 1;
            }
            Err(error) => panic!("{error}"),
        }
        fs.heal();
        assert_eq!(
            db.get(key).unwrap().as_deref(),
            Some(&value[..]),
            "the damage was in the read, not the file"
        );
    }
    assert!(errors > map.len() / 2, "only {errors} of {} flips reached a read", map.len());
}
