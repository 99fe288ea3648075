//! Threads that write, read, iterate, flush and compact at once see one history.
//!
//! Each test keeps an invariant that any tear would break: two families that always agree, numbers that only rise,
//! writers that see their own writes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sluicedb::{
    ColumnFamily, ColumnFamilyOptions, Db, DiskFileSystem, Durability, Error, FileSystem, ReadOptions,
};
use sluicedb::{WriteBatch, WriteOptions};
use sluicedb_tests::cases::{run_cases, with_watchdog};
use sluicedb_tests::knobs;
use sluicedb_tests::model::{differences, read_family};
use sluicedb_tests::rng::Rng;
use sluicedb_tests::sim_fs::{CrashMode, SimFs};

fn open(seed: u64, fs: Arc<dyn FileSystem>, directory: &Path) -> (Db, ColumnFamily) {
    let mut rng = Rng::new(seed);
    let options = knobs::db_options(&mut rng, fs, 4);
    let twin = knobs::family_options(&mut rng, 4);
    let db = Db::open_cf(directory, options, [("twin", twin)]).expect("the database opens");
    let twin = db.column_family("twin").expect("the family is there");
    (db, twin)
}

fn durability(rng: &mut Rng) -> WriteOptions {
    let levels = [Durability::Buffered, Durability::Os, Durability::Os, Durability::Sync];
    WriteOptions::durability(*rng.pick(&levels))
}

/// Writers put equal values into two families while others flush and compact: every snapshot sees them equal.
fn twins_agree(seed: u64, fs: Arc<dyn FileSystem>, directory: &Path, writes: u64) {
    let (db, twin) = open(seed, fs, directory);
    let main = db.default_column_family();
    let done = AtomicBool::new(false);
    let done = &done;
    std::thread::scope(|scope| {
        let (db, main, twin) = (&db, &main, &twin);
        let writers: Vec<_> = (0..3_u64)
            .map(|thread| {
                scope.spawn(move || {
                    let mut rng = Rng::new(seed ^ thread << 32);
                    for number in 0..writes {
                        let key = knobs::key(rng.below(200));
                        let mut batch = WriteBatch::new();
                        if rng.chance(80) {
                            let len = rng.skewed(2_000) as usize;
                            let value = [number.to_be_bytes().to_vec(), rng.bytes(len)].concat();
                            batch.put_cf(main, &key, &value).put_cf(twin, &key, &value);
                        } else {
                            batch.delete_cf(main, &key).delete_cf(twin, &key);
                        }
                        db.write_opt(batch, &durability(&mut rng)).expect("a write");
                    }
                })
            })
            .collect();
        for thread in 0..2_u64 {
            scope.spawn(move || {
                let mut rng = Rng::new(seed ^ thread << 40);
                while !done.load(Ordering::Relaxed) {
                    let options = ReadOptions::at(&db.snapshot());
                    if rng.chance(30) {
                        let one = read_family(db, main, &options).expect("a scan");
                        let two = read_family(db, twin, &options).expect("a scan");
                        let lines = differences(&vec![one], &vec![two]);
                        assert!(lines.is_empty(), "seed {seed}: twins differ: {}", lines.join("; "));
                    } else {
                        let key = knobs::key(rng.below(200));
                        let one = db.get_cf_opt(main, &key, &options).expect("a read");
                        let two = db.get_cf_opt(twin, &key, &options).expect("a read");
                        assert_eq!(one.as_deref(), two.as_deref(), "seed {seed}: twins differ at {key:?}");
                    }
                }
            });
        }
        scope.spawn(move || {
            let mut rng = Rng::new(seed ^ 7);
            while !done.load(Ordering::Relaxed) {
                match rng.below(4) {
                    0 => db.flush().expect("a flush"),
                    1 => db.flush_cf(twin).expect("a flush"),
                    2 => db.compact_range_cf(main, None, None).expect("a compaction"),
                    _ => db.sync_wal().expect("a sync"),
                }
            }
        });
        for writer in writers {
            writer.join().expect("the writer ends");
        }
        done.store(true, Ordering::Relaxed);
    });
    db.close().expect("the database closes");
}

#[test]
fn snapshots_see_whole_batches() {
    run_cases("snapshots_see_whole_batches", 0, 12, |seed| {
        twins_agree(seed, Arc::new(SimFs::new(seed)), Path::new("/db"), 400);
        Ok(())
    });
}

#[test]
fn snapshots_see_whole_batches_on_disk() {
    run_cases("snapshots_see_whole_batches_on_disk", 100, 2, |seed| {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        twins_agree(seed, Arc::new(DiskFileSystem), &directory.path().join("db"), 300);
        Ok(())
    });
}

/// A writer sees its own write at once, and every reader sees each key's number rise and never fall.
#[test]
fn numbers_only_rise() {
    run_cases("numbers_only_rise", 200, 10, |seed| {
        let (db, _) = open(seed, Arc::new(SimFs::new(seed)), Path::new("/db"));
        let done = AtomicBool::new(false);
        let (db, done) = (&db, &done);
        let number = |found: Option<sluicedb::PinnedSlice>| {
            found.map_or(0, |value| u64::from_be_bytes(value[..8].try_into().expect("8 bytes")))
        };
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..3_u64)
                .map(|thread| {
                    scope.spawn(move || {
                        let mut rng = Rng::new(seed ^ thread << 32);
                        for count in 1..=600_u64 {
                            let mut value = count.to_be_bytes().to_vec();
                            value.resize(8 + rng.skewed(600) as usize, 1);
                            db.put_opt([thread as u8], value, &durability(&mut rng)).expect("a write");
                            let seen = number(db.get([thread as u8]).expect("a read"));
                            assert_eq!(seen, count, "seed {seed}: a writer does not see its own write");
                        }
                    })
                })
                .collect();
            scope.spawn(move || {
                let mut last = [0; 3];
                while !done.load(Ordering::Relaxed) {
                    for (thread, last) in last.iter_mut().enumerate() {
                        let seen = number(db.get([thread as u8]).expect("a read"));
                        assert!(seen >= *last, "seed {seed}: {seen} after {last}");
                        *last = seen;
                    }
                }
            });
            for writer in writers {
                writer.join().expect("the writer ends");
            }
            done.store(true, Ordering::Relaxed);
        });
        Ok(())
    });
}

/// Families are made and dropped while others are written; each write ends well or is refused by name.
#[test]
fn families_come_and_go_under_load() {
    run_cases("families_come_and_go_under_load", 300, 6, |seed| {
        let (db, twin) = open(seed, Arc::new(SimFs::new(seed)), Path::new("/db"));
        let done = AtomicBool::new(false);
        let (db, twin, done) = (&db, &twin, &done);
        std::thread::scope(|scope| {
            for thread in 0..2_u8 {
                scope.spawn(move || {
                    let mut count = 0_u64;
                    while !done.load(Ordering::Relaxed) {
                        count += 1;
                        db.put_cf(twin, [thread], count.to_be_bytes())
                            .expect("a write to a family that stays");
                        let Some(brief) = db.column_family("brief") else { continue };
                        match db.put_cf(&brief, [thread], vec![b'v'; 900]) {
                            Ok(()) | Err(Error::NoSuchColumnFamily { .. }) => {}
                            Err(error) => panic!("seed {seed}: {error}"),
                        }
                    }
                });
            }
            for round in 0..40 {
                let brief =
                    db.create_column_family("brief", ColumnFamilyOptions::default()).expect("it is made");
                assert_eq!(db.column_family("brief").map(|family| family.id()), Some(brief.id()));
                if round % 4 == 0 {
                    db.flush_cf(&brief).expect("a flush");
                }
                db.drop_column_family(&brief).expect("it is dropped");
            }
            done.store(true, Ordering::Relaxed);
        });
        db.close().expect("the database closes");
        Ok(())
    });
}

/// Closing under load: each writer gets `Ok` or `ShutdownInProgress`, and what got `Ok` is there afterwards.
#[test]
fn closing_under_load_loses_nothing() {
    run_cases("closing_under_load_loses_nothing", 400, 30, |seed| {
        let fs = SimFs::new(seed);
        let (db, _) = open(seed, Arc::new(fs.clone()), Path::new("/db"));
        let begun = AtomicU64::new(0);
        let (shared, begun) = (&db, &begun);
        let acknowledged: Vec<u64> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4_u64)
                .map(|thread| {
                    scope.spawn(move || {
                        for count in 0.. {
                            begun.fetch_add(1, Ordering::Relaxed);
                            match shared.put((thread << 32 | count).to_be_bytes(), [1; 200]) {
                                Ok(()) => {}
                                Err(Error::ShutdownInProgress) => return count,
                                Err(error) => panic!("seed {seed}: {error}"),
                            }
                        }
                        unreachable!("the loop has no end")
                    })
                })
                .collect();
            while begun.load(Ordering::Relaxed) < 50 + seed * 7 {
                std::thread::yield_now();
            }
            shared.close().expect("the database closes");
            writers.into_iter().map(|writer| writer.join().expect("the writer ends")).collect()
        });
        assert!(matches!(db.put("late", "1"), Err(Error::ShutdownInProgress)), "a write after close");
        drop(db);
        let image = fs.crash(CrashMode::DropUnsynced, seed);
        let (db, _) = open(seed + 1, Arc::new(image), Path::new("/db"));
        for (thread, count) in acknowledged.into_iter().enumerate() {
            let key = |count: u64| ((thread as u64) << 32 | count).to_be_bytes();
            for count in 0..count {
                assert!(
                    db.get(key(count)).expect("a read").is_some(),
                    "seed {seed}: {thread}/{count} is lost"
                );
            }
            assert!(
                db.get(key(count)).expect("a read").is_none(),
                "seed {seed}: a refused write left a trace"
            );
        }
        Ok(())
    });
}

/// The last handle is dropped by whichever thread is last; the directory is free afterwards.
#[test]
fn dropping_the_last_handle_frees_the_directory() {
    with_watchdog(60, "dropping_the_last_handle_frees_the_directory", || {
        let fs = SimFs::new(1);
        for round in 0..20 {
            let (db, twin) = open(round, Arc::new(fs.clone()), Path::new("/db"));
            std::thread::scope(|scope| {
                for thread in 0..3_u8 {
                    let (db, twin) = (db.clone(), twin.clone());
                    scope.spawn(move || db.put_cf(&twin, [thread], "v").expect("a write"));
                }
            });
        }
    });
}
