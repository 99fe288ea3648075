//! Repair: a database that opens, with everything that is not damaged, every loss reported, and nothing deleted.

use std::path::{Path, PathBuf};

use sluicedb::{Db, Durability, Error, ReadOptions, RepairReport, WriteOptions, inspect};
use sluicedb_tests::cases::run_cases;
use sluicedb_tests::kinds::damage::{DB, options};
use sluicedb_tests::model::{Map, read_family};
use sluicedb_tests::rng::Rng;
use sluicedb_tests::sim_fs::{CrashMode, FileKind, SimFs};

const FAMILIES: [&str; 2] = ["default", "alpha"];

/// A closed database of two families, with tables on several levels and a log, and what each family holds.
fn build(seed: u64) -> (SimFs, Vec<Map>) {
    let fs = SimFs::new(seed);
    let mut rng = Rng::new(seed);
    let db = Db::open(DB, options(&fs, seed)).unwrap();
    let alpha = db.create_column_family("alpha", options(&fs, seed).column_family).unwrap();
    let families = [db.default_column_family(), alpha];
    let mut maps = vec![Map::new(), Map::new()];
    for number in 0..rng.range(20, 300) {
        let which = rng.index(2);
        // Ranges of keys, so that tables overlap in part.
        let key = format!("key{:03}", rng.below(30) + 10 * rng.below(4)).into_bytes();
        let durability = WriteOptions::durability(*rng.pick(&[Durability::Os, Durability::Sync]));
        if rng.chance(70) {
            let value = format!("value {number} {}", "x".repeat(rng.below(80) as usize)).into_bytes();
            db.put_cf_opt(&families[which], &key, &value, &durability).unwrap();
            maps[which].insert(key, value);
        } else {
            db.delete_cf_opt(&families[which], &key, &durability).unwrap();
            maps[which].remove(&key);
        }
        if rng.one_in(25) {
            db.flush_cf(&families[rng.index(2)]).unwrap();
        }
        if rng.one_in(80) {
            db.compact_range_cf(&families[rng.index(2)], Some(b"key010"), Some(b"key035")).unwrap();
        }
    }
    // A family that is in the log alone has no name without a manifest.
    db.put_cf(&families[1], "last", "1").unwrap();
    maps[1].insert(b"last".to_vec(), b"1".to_vec());
    db.flush_cf(&families[1]).unwrap();
    db.put_cf(&families[1], "last", "2").unwrap();
    maps[1].insert(b"last".to_vec(), b"2".to_vec());
    db.close().unwrap();
    drop((families, db));
    let image = fs.crash(CrashMode::DropUnsynced, seed);
    // Tables that a compaction replaced, and whose removal the crash undid, are beyond what repair promises without a
    // manifest: deletes that only some of them hold would come back.
    let live = live_tables(&image);
    image.files_ending(Path::new(DB), ".sst").iter().filter(|path| !live.contains(path)).for_each(|path| {
        image.unlink(path);
    });
    (image, maps)
}

fn contents(fs: &SimFs, seed: u64) -> Result<Vec<Map>, String> {
    let db = Db::open(DB, options(fs, seed)).map_err(|error| format!("open after repair: {error}"))?;
    let read = |name: &&str| {
        let family = db.column_family(name).ok_or_else(|| format!("family {name} is gone"))?;
        read_family(&db, &family, &ReadOptions::default())
    };
    let maps = FAMILIES.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    db.close().map_err(|error| error.to_string())?;
    Ok(maps)
}

fn repair(fs: &SimFs, seed: u64) -> Result<RepairReport, String> {
    Db::repair(DB, &options(fs, seed)).map_err(|error| format!("repair: {error}"))
}

/// What was repaired is sound, and holds what is expected.
fn expect(fs: &SimFs, seed: u64, maps: &[Map]) -> Result<(), String> {
    let report = Db::verify(DB, &options(fs, seed)).map_err(|error| error.to_string())?;
    if !report.is_sound() {
        return Err(format!("not sound after repair: {:?}", report.findings));
    }
    let found = contents(fs, seed)?;
    if found == maps { Ok(()) } else { Err(format!("expected {maps:?}\nfound {found:?}")) }
}

fn files(fs: &SimFs, kind: FileKind) -> Vec<PathBuf> {
    let mut files = fs.files(Path::new(DB));
    files.retain(|path| FileKind::of(path) == kind);
    files
}

/// The tables that the manifest names; a crash may have left others.
fn live_tables(fs: &SimFs) -> Vec<PathBuf> {
    let current = inspect::read_current(fs, Path::new(DB)).unwrap();
    let manifest = inspect::read_manifest(fs, &Path::new(DB).join(current.manifest)).unwrap();
    let tables = manifest.families.iter().flat_map(|family| family.levels.iter().flatten());
    tables.map(|table| Path::new(DB).join(format!("{:06}.sst", table.number))).collect()
}

/// `reliability U25`: nothing is lost where nothing is damaged: whatever of CURRENT and MANIFEST is missing, damaged or cut, repair brings
/// everything back from tables and log, deletes and overwritten values included.
///
/// Method: random databases whose tables overlap in keys and sequences; after the repair every key of both families is read.
#[test]
fn a_lost_manifest_loses_nothing() {
    run_cases("a_lost_manifest_loses_nothing", 0, 150, |seed| {
        let (good, maps) = build(seed);
        let manifest = files(&good, FileKind::Manifest)[0].clone();
        let current = Path::new(DB).join("CURRENT");
        let mut rng = Rng::new(seed);
        for what in 0..4 {
            let fs = good.crash(CrashMode::Kill, seed);
            match what {
                0 => {}
                1 => fs.unlink(&current),
                2 => {
                    fs.unlink(&current);
                    fs.unlink(&manifest);
                }
                _ => {
                    let at = rng.index(fs.bytes(&manifest).len());
                    fs.flip(&manifest, at, 1 << (at % 8));
                }
            }
            let report = repair(&fs, seed)?;
            if (report.dropped.is_empty()) != (what == 0) {
                return Err(format!("damage {what}: {:?}", report.dropped));
            }
            expect(&fs, seed, &maps).map_err(|why| format!("damage {what}: {why}\n{report:?}"))?;
        }
        Ok(())
    });
}

/// Tables of many levels go back without one, and still each read finds the newest entry: where age does not tell which table
/// to ask first, they are merged.
///
/// Method: leveled compactions in the background, which leave deep tables with later sequences than higher ones that share
/// keys with them; then the manifest is lost.
#[test]
fn tables_without_a_level_are_read_in_the_right_order() {
    run_cases("tables_without_a_level_are_read_in_the_right_order", 0, 12, |seed| {
        let fs = SimFs::new(seed);
        let mut rng = Rng::new(seed);
        let mut leveled = options(&fs, seed);
        let family = &mut leveled.column_family;
        family.disable_auto_compactions = false;
        family.level0_file_num_compaction_trigger = 2;
        family.max_bytes_for_level_base = 64 << 10;
        family.max_bytes_for_level_multiplier = 2.0;
        family.target_file_size_base = 64 << 10;
        family.level_compaction_dynamic_level_bytes = false;
        let db = Db::open(DB, leveled).map_err(|error| error.to_string())?;
        let mut map = Map::new();
        for round in 0.. {
            // A narrow range now and then, so that few tables of a level take part in a compaction.
            let (first, width) = if rng.chance(50) { (rng.below(280), 20) } else { (0, 300) };
            for _ in 0..80 {
                let key = format!("key{:03}", first + rng.below(width)).into_bytes();
                let value = [format!("{round} ").into_bytes(), rng.bytes(400)].concat();
                db.put(&key, &value).map_err(|error| error.to_string())?;
                map.insert(key, value);
            }
            db.flush().map_err(|error| error.to_string())?;
            if round < 40 {
                continue;
            }
            // How compactions meet the writes decides the shape: now and then all of it has just sunk into one level.
            db.wait_for_background_work().map_err(|error| error.to_string())?;
            let levels = db.level_stats(&db.default_column_family()).map_err(|error| error.to_string())?;
            if levels.iter().filter(|level| level.files > 0).count() >= 2 {
                break;
            }
            if round == 80 {
                return Err(format!("too flat: {levels:?}"));
            }
        }
        db.close().map_err(|error| error.to_string())?;
        drop(db);
        let current = inspect::read_current(&fs, Path::new(DB)).map_err(|error| error.to_string())?;
        fs.unlink(&Path::new(DB).join(current.manifest));
        fs.unlink(&Path::new(DB).join("CURRENT"));
        repair(&fs, seed)?;
        let db = Db::open(DB, options(&fs, seed)).map_err(|error| error.to_string())?;
        for (key, value) in &map {
            let found = db.get(key).map_err(|error| error.to_string())?;
            if found.as_deref() != Some(&value[..]) {
                return Err(format!("an older value of {}", key.escape_ascii()));
            }
        }
        Ok(())
    });
}

/// Of a damaged table the whole blocks are kept; every value that is read afterwards was written once, families and other
/// tables are as they were, the damaged file is in `lost/`, and each loss is reported with its file.
#[test]
fn a_damaged_table_loses_its_damaged_blocks() {
    let (mut cases, mut kept) = (0, 0);
    run_cases("a_damaged_table_loses_its_damaged_blocks", 0, 150, |seed| {
        let (fs, maps) = build(seed);
        let mut rng = Rng::new(seed);
        let tables = live_tables(&fs);
        cases += 1;
        let path = rng.pick(&tables).clone();
        let damaged_at = rng.index(fs.bytes(&path).len());
        fs.flip(&path, damaged_at, 4);
        let damaged = fs.bytes(&path);
        let report = repair(&fs, seed)?;
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !report.dropped.iter().any(|line| line.contains(&name)) {
            return Err(format!("{name} was damaged, but: {:?}", report.dropped));
        }
        if fs.bytes(&Path::new(DB).join("lost").join(&name)) != damaged {
            return Err("the damaged table is not in lost/".to_owned());
        }
        let sound = Db::verify(DB, &options(&fs, seed)).map_err(|error| error.to_string())?;
        if !sound.is_sound() {
            return Err(format!("{:?}", sound.findings));
        }
        let found = contents(&fs, seed)?;
        let differing = |which: usize| {
            let (was, is) = (&maps[which], &found[which]);
            let keys: std::collections::BTreeSet<_> = was.keys().chain(is.keys()).collect();
            keys.into_iter().filter(|key| was.get(*key) != is.get(*key)).count()
        };
        if differing(0) > 0 && differing(1) > 0 {
            return Err("the damage of one table reached both families".to_owned());
        }
        kept += u32::from(report.dropped.iter().any(|line| line.contains("kept")));
        Ok(())
    });
    assert!(kept * 3 >= cases, "blocks were kept in {kept} of {cases} cases only");
}

/// Batches in front of and behind a damaged one are kept, and the place is reported.
#[test]
fn the_log_is_read_on_behind_damage() {
    let fs = SimFs::new(1);
    let db = Db::open(DB, options(&fs, 0)).unwrap();
    for number in 0..50 {
        db.put_opt(format!("key{number:02}"), vec![b'v'; 100], &WriteOptions::durability(Durability::Sync))
            .unwrap();
    }
    db.close().unwrap();
    drop(db);
    let log = files(&fs, FileKind::Wal)[0].clone();
    fs.flip(&log, 64 + 25 * 140, 1);
    let refused = Db::open(DB, options(&fs, 0)).map(drop).unwrap_err();
    assert!(matches!(refused, Error::Corruption { .. }), "{refused}");

    let report = repair(&fs, 0).unwrap();
    assert_eq!(report.log_batches, 49);
    assert_eq!(report.dropped.len(), 1, "{:?}", report.dropped);
    assert!(report.dropped[0].contains(&log.display().to_string()), "{:?}", report.dropped);
    let db = Db::open(DB, options(&fs, 0)).unwrap();
    assert_eq!(read_family(&db, &db.default_column_family(), &ReadOptions::default()).unwrap().len(), 49);
    assert!(fs.files(Path::new("/db/lost")).iter().any(|path| path.file_name() == log.file_name()));
}

/// A repair that a crash cuts short has lost nothing: repairing again gives everything.
#[test]
fn a_repair_cut_short_can_be_repeated() {
    let (mut cases, mut cut) = (0, 0);
    run_cases("a_repair_cut_short_can_be_repeated", 0, 150, |seed| {
        let (fs, maps) = build(seed);
        let mut rng = Rng::new(seed);
        if rng.chance(50) {
            files(&fs, FileKind::Manifest).iter().for_each(|path| fs.unlink(path));
        }
        let mode = *rng.pick(&[CrashMode::DropUnsynced, CrashMode::Keep { percent: 50 }, CrashMode::Kill]);
        fs.crash_at(rng.range(1, 30), mode, seed);
        repair(&fs, seed)?;
        cases += 1;
        let Some(image) = fs.take_image() else { return Ok(()) };
        cut += 1;
        repair(&image, seed).map_err(|why| format!("again after {mode:?}: {why}"))?;
        expect(&image, seed, &maps)
    });
    assert!(cut * 3 >= cases, "only {cut} of {cases} repairs were cut short");
}

/// An open database is not repaired, nor a directory in which there is nothing of ours.
#[test]
fn what_cannot_be_repaired() {
    let fs = SimFs::new(1);
    let db = Db::open(DB, options(&fs, 0)).unwrap();
    let locked = Db::repair(DB, &options(&fs, 0)).map(drop);
    assert!(matches!(locked, Err(Error::Locked { .. })), "{locked:?}");
    drop(db);
    fs.put_bytes(Path::new("/other/notes.txt"), b"mine");
    for dir in ["/other", "/nothing"] {
        let refused = Db::repair(dir, &options(&fs, 0)).map(drop);
        assert!(matches!(refused, Err(Error::NotADatabase { .. })), "{refused:?}");
    }
    assert_eq!(fs.files(Path::new("/other")).len(), 1);
}
