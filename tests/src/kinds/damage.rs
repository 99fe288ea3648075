//! R9 and R10: files of a closed database that are damaged, exchanged or misplaced, and what reading them gives.
//!
//! An error that names the damaged file, or what was written; never a wrong value. Damage to the log is in
//! [`torn`](super::torn).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluicedb::{Compression, Db, DbOptions, Error, ReadMode, ReadOptions};

use crate::model::{Map, read_family};
use crate::rng::Rng;
use crate::sim_fs::{CrashMode, FileKind, SimFs};

/// The directory of the database.
pub const DB: &str = "/db";

/// The options of the database of this seed.
pub fn options(fs: &SimFs, seed: u64) -> DbOptions {
    let mut options = DbOptions::default();
    options.file_system = Arc::new(fs.clone());
    options.block_cache_size = 0;
    options.wal_segment_bytes = 64 << 10;
    options.column_family.block_size = 256;
    options.column_family.disable_auto_compactions = true;
    options.column_family.compression =
        if seed.is_multiple_of(2) { Compression::None } else { Compression::Lz4 };
    options.read_mode = if seed % 4 < 2 { ReadMode::Mmap } else { ReadMode::Pread };
    options
}

/// A closed database of some tables, and what it holds.
///
/// # Panics
///
/// When a call on an undisturbed database fails.
pub fn build(seed: u64, tables: u32) -> (SimFs, Map) {
    let fs = SimFs::new(seed);
    let mut rng = Rng::new(seed);
    let mut map = Map::new();
    let db = Db::open(DB, options(&fs, seed)).expect("nothing disturbs it");
    for table in 0..tables {
        for _ in 0..25 {
            let key = format!("key{:03}", rng.below(60)).into_bytes();
            if rng.chance(85) {
                let value = format!("value {table} {}", "x".repeat(rng.below(60) as usize)).into_bytes();
                db.put(&key, &value).expect("nothing disturbs it");
                map.insert(key, value);
            } else {
                db.delete(&key).expect("nothing disturbs it");
                map.remove(&key);
            }
        }
        db.flush().expect("nothing disturbs it");
    }
    db.close().expect("nothing disturbs it");
    drop(db);
    (fs.crash(CrashMode::DropUnsynced, seed), map)
}

/// What opening and reading everything gave: whether an error was seen, or why what was seen is wrong.
///
/// # Errors
///
/// The wrong value, or an error that names no file of `damaged`.
pub fn read_all(fs: &SimFs, seed: u64, map: &Map, damaged: &[PathBuf]) -> Result<bool, String> {
    let named = |error: Error| match error {
        Error::Corruption { path, .. } if damaged.contains(&path) => Ok(()),
        error => Err(format!("{} damaged, but: {error}", damaged[0].display())),
    };
    let db = match Db::open(DB, options(fs, seed)) {
        Ok(db) => db,
        Err(error) => return named(error).map(|()| true),
    };
    let mut noticed = false;
    for number in 0..60 {
        let key = format!("key{number:03}").into_bytes();
        match db.get(&key) {
            Ok(found) if found.as_deref() == map.get(&key).map(|value| &value[..]) => {}
            Ok(_) => {
                return Err(format!("a wrong value for {number} out of a damaged {}", damaged[0].display()));
            }
            Err(error) => {
                named(error)?;
                noticed = true;
            }
        }
    }
    // Iterating gives everything or an error.
    match read_family(&db, &db.default_column_family(), &ReadOptions::default()) {
        Ok(found) if found == *map => {}
        Ok(_) => return Err(format!("a wrong scan out of a damaged {}", damaged[0].display())),
        Err(_) => noticed = true,
    }
    Ok(noticed)
}

/// R9: one byte of a table, turned over by `mask`, while the database is closed: whether anybody noticed.
///
/// # Errors
///
/// A wrong value, or an error that names another file.
pub fn flip_table(
    fs: &SimFs,
    seed: u64,
    map: &Map,
    path: &Path,
    at: usize,
    mask: u8,
) -> Result<bool, String> {
    let good = fs.bytes(path);
    fs.flip(path, at, mask);
    let seen = read_all(fs, seed, map, &[path.to_owned()]);
    fs.put_bytes(path, &good);
    seen.map_err(|why| format!("byte {at} of {}: {why}", good.len()))
}

/// R9: one byte of MANIFEST or CURRENT of a cleanly closed database: whether the open was refused.
///
/// # Errors
///
/// Missing data, or an error that is not about damage.
pub fn flip_manifest(
    fs: &SimFs,
    seed: u64,
    map: &Map,
    path: &Path,
    at: usize,
    mask: u8,
) -> Result<bool, String> {
    // Opening writes: each flip gets a copy of its own.
    let copy = fs.crash(CrashMode::Kill, 1);
    copy.flip(path, at, mask);
    match Db::open(DB, options(&copy, seed)) {
        Err(Error::Corruption { .. } | Error::NotADatabase { .. }) => Ok(true),
        Err(error) => Err(format!("byte {at} of {}: {error}", path.display())),
        Ok(db) => {
            let found = read_family(&db, &db.default_column_family(), &ReadOptions::default())?;
            if found == *map {
                return Ok(false);
            }
            Err(format!("byte {at} of {}: data is missing", path.display()))
        }
    }
}

/// R9, enumerated: every bit of every table, MANIFEST and CURRENT of a small database, in order.
#[derive(Debug)]
pub struct Flips {
    seed: u64,
    fs: SimFs,
    map: Map,
    files: Vec<(PathBuf, u64)>,
}

impl Flips {
    /// The database of this seed.
    pub fn new(seed: u64) -> Self {
        let (fs, map) = build(seed, 2);
        let mut files = fs.files(Path::new(DB));
        files.retain(|path| {
            matches!(FileKind::of(path), FileKind::Sst | FileKind::Manifest | FileKind::Current)
        });
        let files = files.into_iter().map(|path| (path.clone(), fs.bytes(&path).len() as u64 * 8)).collect();
        Self { seed, fs, map, files }
    }

    /// Turns over the `bit`-th bit of all; `None` behind the last.
    ///
    /// # Errors
    ///
    /// The broken rule.
    pub fn run(&self, mut bit: u64) -> Option<Result<bool, String>> {
        let (path, _) = self.files.iter().find(|(_, bits)| match bit.checked_sub(*bits) {
            Some(rest) => {
                bit = rest;
                false
            }
            None => true,
        })?;
        let (at, mask) = ((bit / 8) as usize, 1 << (bit % 8));
        let flip = if FileKind::of(path) == FileKind::Sst { flip_table } else { flip_manifest };
        Some(flip(&self.fs, self.seed, &self.map, path, at, mask))
    }
}

/// R10: two tables exchanged, a table of another database in place of ours, an older table, a table cut short: an error
/// naming a file that was touched.
///
/// # Errors
///
/// A wrong value, an error that names another file, or nothing noticed.
pub fn exchange(seed: u64) -> Result<(), String> {
    let (fs, map) = build(seed, 3);
    let mut rng = Rng::new(seed);
    let paths = fs.files_ending(Path::new(DB), ".sst");
    if paths.len() < 2 {
        return Err(format!("the database is too small: {paths:?}"));
    }
    let (one, two) = (paths[0].clone(), paths[1].clone());
    let (first, second) = (fs.bytes(&one), fs.bytes(&two));
    match seed % 4 {
        0 => {
            fs.put_bytes(&one, &second);
            fs.put_bytes(&two, &first);
        }
        1 => {
            let (other, _) = build(seed + 1_000, 3);
            fs.put_bytes(&one, &other.bytes(&other.files_ending(Path::new(DB), ".sst")[0]));
        }
        2 => fs.put_bytes(&one, &second),
        _ => fs.cut(&one, rng.index(first.len())),
    }
    if read_all(&fs, seed, &map, &[one, two])? { Ok(()) } else { Err("nobody noticed".to_owned()) }
}

/// R10: a block copied over another of the same table fails its checksum: the offset is part of it.
///
/// # Errors
///
/// A wrong value, or an error that names another file.
pub fn misplace(seed: u64) -> Result<(), String> {
    let (fs, map) = build(seed, 1);
    let mut rng = Rng::new(seed);
    let path = fs.files_ending(Path::new(DB), ".sst")[0].clone();
    let good = fs.bytes(&path);
    let len = rng.range(40, 300) as usize;
    let (from, to) = (rng.index(good.len() - len), rng.index(good.len() - len));
    let mut bytes = good.clone();
    bytes.copy_within(from..from + len, to);
    if bytes == good {
        return Ok(());
    }
    fs.put_bytes(&path, &bytes);
    read_all(&fs, seed, &map, &[path]).map(drop)
}
