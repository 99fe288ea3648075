//! Verification: every flipped bit is found, with its file; nothing is found where nothing is wrong; nothing is written.
//!
//! `reliability R9` and `R10` for all kinds of files, by [`Db::verify`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluicedb::{Db, DbOptions, Durability, Error, VerifyReport, WriteOptions, inspect};
use sluicedb_tests::cases::run_cases;
use sluicedb_tests::kinds::damage::{DB, build, options};
use sluicedb_tests::rng::Rng;
use sluicedb_tests::sim_fs::{CrashMode, FileKind, SimFs};

/// What verification says, and that it wrote nothing.
fn verify(fs: &SimFs) -> VerifyReport {
    let mutations = fs.mutations();
    let report = Db::verify(DB, &options(fs, 0)).unwrap();
    assert_eq!(fs.mutations(), mutations, "verification writes");
    report
}

/// A closed database of two tables and a log with batches in it.
fn database(seed: u64) -> SimFs {
    let (fs, _) = build(seed, 2);
    let db = Db::open(DB, options(&fs, seed)).unwrap();
    let alpha = db.create_column_family("alpha", options(&fs, seed).column_family).unwrap();
    for number in 0..30 {
        db.put_cf_opt(
            &alpha,
            format!("k{number}"),
            vec![b'v'; 40],
            &WriteOptions::durability(Durability::Sync),
        )
        .unwrap();
    }
    db.close().unwrap();
    drop((alpha, db));
    fs.crash(CrashMode::DropUnsynced, seed)
}

fn places(report: &VerifyReport) -> Vec<(PathBuf, u64)> {
    let place = |error: &Error| match error {
        Error::Corruption { path, offset, .. } => (path.clone(), *offset),
        other => panic!("{other}"),
    };
    report.findings.iter().map(place).collect()
}

/// A sound database is found to be sound, and every file is counted.
#[test]
fn a_sound_database_is_sound() {
    for seed in 0..4 {
        let fs = database(seed);
        let report = verify(&fs);
        assert!(report.is_sound(), "{:?}", report.findings);
        assert_eq!((report.tables, report.segments, report.manifests), (2, 1, 1));
        let kinds = [FileKind::Sst, FileKind::Wal, FileKind::Manifest, FileKind::Current];
        let bytes: usize = fs
            .files(Path::new(DB))
            .iter()
            .filter(|path| kinds.contains(&FileKind::of(path)))
            .map(|path| fs.bytes(path).len())
            .sum();
        assert_eq!(report.bytes, bytes as u64);
        assert_eq!(report.files(), 5);
    }
    let nothing = Db::verify("/nothing", &options(&SimFs::new(1), 0));
    assert!(matches!(nothing, Err(Error::NotADatabase { .. })), "{:?}", nothing.map(drop));
}

/// `reliability R9`: one bit flipped in each byte of each file is found, and the finding names the file and an offset in it.
///
/// Method: exhaustive over a small database of all kinds of files. The end mark of the log and the never written bytes behind
/// it carry nothing that is believed: they alone may pass.
#[test]
fn every_flipped_bit_is_found() {
    run_cases("every_flipped_bit_is_found", 0, 2, |seed| {
        let fs = database(seed);
        let log_end =
            fs.files_ending(Path::new(DB), ".log").first().map_or(0, |path| last_written(&fs, path));
        for path in fs.files(Path::new(DB)) {
            let kind = FileKind::of(&path);
            if !matches!(kind, FileKind::Sst | FileKind::Wal | FileKind::Manifest | FileKind::Current) {
                continue;
            }
            let good = fs.bytes(&path);
            let len = if kind == FileKind::Wal { log_end } else { good.len() };
            for at in 0..len {
                fs.flip(&path, at, 1 << (at % 8));
                let report = verify(&fs);
                fs.put_bytes(&path, &good);
                if report.damaged_files() != std::slice::from_ref(&path) && !names_missing(&report, &path) {
                    return Err(format!("byte {at} of {}: {:?}", path.display(), report.findings));
                }
            }
        }
        if verify(&fs).is_sound() { Ok(()) } else { Err("the test did not restore it".to_owned()) }
    });
}

/// A manifest that CURRENT names wrongly, or families that a damaged edit no longer names, make other files look wrong, too;
/// the damaged one must be among them.
fn names_missing(report: &VerifyReport, path: &Path) -> bool {
    matches!(FileKind::of(path), FileKind::Manifest | FileKind::Current)
        && report.damaged_files().contains(&path.to_owned())
}

/// Where the last batch of a closed log ends: in front of its end mark, which takes 16 bytes.
fn last_written(fs: &SimFs, path: &Path) -> usize {
    let bytes = fs.bytes(path);
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    used - 16
}

/// Several damaged places are all reported, in one run, each with its file and offset.
#[test]
fn verification_goes_on_after_the_first_finding() {
    let fs = database(2);
    let tables = fs.files_ending(Path::new(DB), ".sst");
    let log = fs.files_ending(Path::new(DB), ".log")[0].clone();
    fs.flip(&tables[0], 10, 1);
    fs.flip(&tables[0], 600, 1);
    fs.flip(&tables[1], 10, 1);
    // Two batches of the log, with whole ones between and behind them.
    fs.flip(&log, 64 + 100, 1);
    fs.flip(&log, 64 + 800, 1);
    let found = places(&verify(&fs));
    let files: Vec<_> = found.iter().map(|(path, _)| path.clone()).collect();
    let count = |path: &PathBuf| files.iter().filter(|other| *other == path).count();
    assert_eq!((count(&tables[0]), count(&tables[1]), count(&log)), (2, 1, 2), "{found:?}");
    assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len(), "nothing is told twice: {found:?}");
}

/// `reliability R10`: a table that is missing, cut, exchanged for another, or of another database, is found by name; tables
/// that nothing names are noted.
#[test]
fn files_that_do_not_fit_are_found() {
    let good = database(1);
    let tables = good.files_ending(Path::new(DB), ".sst");
    let stranger = build(50, 1).0;
    let stranger = stranger.bytes(&stranger.files_ending(Path::new(DB), ".sst")[0]);
    type Edit<'a> = Box<dyn Fn(&SimFs) + 'a>;
    let edits: [(&str, Edit<'_>); 5] = [
        ("missing", Box::new(|fs| fs.unlink(&tables[0]))),
        ("cut", Box::new(|fs| fs.cut(&tables[0], fs.bytes(&tables[0]).len() - 1))),
        ("longer", Box::new(|fs| fs.put_bytes(&tables[0], &[fs.bytes(&tables[0]), vec![0]].concat()))),
        ("exchanged", Box::new(|fs| fs.put_bytes(&tables[0], &fs.bytes(&tables[1])))),
        ("of another database", Box::new(|fs| fs.put_bytes(&tables[0], &stranger))),
    ];
    for (what, edit) in edits {
        let fs = good.crash(CrashMode::Kill, 1);
        edit(&fs);
        let report = verify(&fs);
        assert_eq!(report.damaged_files(), [tables[0].clone()], "{what}: {:?}", report.findings);
    }
    let fs = good.crash(CrashMode::Kill, 1);
    fs.put_bytes(&Path::new(DB).join("999999.sst"), &stranger);
    let report = verify(&fs);
    assert!(report.is_sound() && report.notes.iter().any(|note| note.contains("999999.sst")), "{report:?}");
}

/// Whatever a power failure leaves of a database is sound: torn tails are notes.
#[test]
fn what_a_crash_leaves_is_sound() {
    run_cases("what_a_crash_leaves_is_sound", 0, 200, |seed| {
        let mut rng = Rng::new(seed);
        let fs = SimFs::new(seed);
        let db = Db::open(DB, options(&fs, seed)).map_err(|error| error.to_string())?;
        fs.crash_at(rng.range(1, 120), CrashMode::Keep { percent: 50 }, seed);
        for number in 0..60 {
            let durability = *rng.pick(&[Durability::Buffered, Durability::Os, Durability::Sync]);
            let value = rng.bytes(200);
            db.put_opt(format!("key{}", number % 20), value, &WriteOptions::durability(durability))
                .map_err(|error| error.to_string())?;
            if rng.one_in(15) {
                db.flush().map_err(|error| error.to_string())?;
            }
        }
        let image = fs.take_image().unwrap_or_else(|| fs.crash(CrashMode::DropUnsynced, seed));
        let report = Db::verify(DB, &options(&image, seed)).map_err(|error| error.to_string())?;
        if report.is_sound() { Ok(()) } else { Err(format!("{:?}", report.findings)) }
    });
}

/// `reliability R18`: decoders and verification meet bytes of any kind without a panic, and what they read of a damaged file
/// is only ever what was written into it.
///
/// Method: pieces of the files of a small database overwritten, cut, doubled and shifted by seed.
#[test]
fn hostile_bytes_are_findings() {
    let good = database(1);
    let written = entries_of(&good);
    run_cases("hostile_bytes_are_findings", 0, 400, |seed| {
        let mut rng = Rng::new(seed);
        let fs = good.crash(CrashMode::Kill, seed);
        for path in fs.files(Path::new(DB)) {
            let mut bytes = fs.bytes(&path);
            if matches!(FileKind::of(&path), FileKind::Log | FileKind::Lock) || bytes.is_empty() {
                continue;
            }
            let used = bytes.len().min(6_000);
            let (at, len) = (rng.index(used), rng.range(1, 200) as usize);
            let piece = at..(at + len).min(bytes.len());
            match rng.below(4) {
                0 => bytes[piece].iter_mut().for_each(|byte| *byte = rng.below(256) as u8),
                1 => bytes.truncate(at),
                2 => {
                    let copy = bytes[piece].to_vec();
                    bytes.splice(at..at, copy);
                }
                _ => drop(bytes.drain(piece)),
            }
            fs.put_bytes(&path, &bytes);
        }
        let _ = Db::verify(DB, &options(&fs, seed));
        let strange: Vec<_> = entries_of(&fs).difference(&written).cloned().collect();
        if strange.is_empty() { Ok(()) } else { Err(format!("nobody wrote {strange:?}")) }
    });
}

/// Every key and value that the decoders find in tables and log.
fn entries_of(fs: &SimFs) -> BTreeSet<(Vec<u8>, Vec<u8>)> {
    let mut entries = BTreeSet::new();
    for path in fs.files(Path::new(DB)) {
        match FileKind::of(&path) {
            FileKind::Sst => {
                let Ok(table) = inspect::Table::open(fs, &path) else { continue };
                let _ = table.properties();
                let _ = table.for_each(None, |key, value| {
                    entries.insert((key.user_key.clone(), value.to_vec()));
                    Ok(true)
                });
            }
            FileKind::Manifest => drop(inspect::read_manifest(fs, &path)),
            FileKind::Current => drop(inspect::read_current(fs, Path::new(DB))),
            _ => {}
        }
    }
    let _ = inspect::read_log(fs, Path::new(DB), |item| {
        if let inspect::LogItem::Record(record) = item {
            entries.extend(record.entries.iter().map(|entry| (entry.key.to_vec(), entry.value.to_vec())));
        }
        Ok(())
    });
    entries
}

/// Beside a holder that writes, flushes and compacts all the time nothing is ever taken for damage.
#[test]
fn a_database_in_use_is_sound() {
    let fs = SimFs::new(7);
    let mut options = DbOptions::default();
    options.file_system = Arc::new(fs.clone());
    options.wal_segment_bytes = 64 << 10;
    options.column_family.write_buffer_size = 64 << 10;
    options.column_family.level0_file_num_compaction_trigger = 2;
    let holder = Db::open(DB, options.clone()).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut rng = Rng::new(7);
            while !done.load(std::sync::atomic::Ordering::Acquire) {
                let value = rng.bytes(1_000);
                holder.put(rng.below(200).to_be_bytes(), value).unwrap();
            }
        });
        for _ in 0..30 {
            let report = Db::verify(DB, &options).unwrap();
            assert!(report.is_sound(), "{:?}", report.findings);
        }
        done.store(true, std::sync::atomic::Ordering::Release);
    });
}
