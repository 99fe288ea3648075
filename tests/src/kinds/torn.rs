//! R3 and R11: the log of a killed or closed database, torn behind its synced end or damaged in front of it.
//!
//! Behind the end: the open leaves the tail out. In front: the open refuses and names the file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluicedb::{
    ColumnFamily, ColumnFamilyOptions, Db, DbOptions, Durability, Error, RecoveryMode, WriteOptions,
};

use crate::model::{Change, History, read_state, to_batch};
use crate::rng::Rng;
use crate::sim_fs::{CrashMode, SimFs};

/// The directory of the database.
pub const DB: &str = "/db";
/// Its column families.
pub const FAMILIES: [&str; 2] = ["default", "other"];

/// Its options.
pub fn options(fs: &SimFs) -> DbOptions {
    let mut options = DbOptions::default();
    options.file_system = Arc::new(fs.clone());
    options.wal_segment_bytes = 64 << 10;
    options
}

/// Opens it with all its families.
///
/// # Errors
///
/// The store's.
///
/// # Panics
///
/// When a family is missing.
pub fn open(options: DbOptions) -> Result<(Db, Vec<ColumnFamily>), Error> {
    let db = Db::open_cf(DB, options, FAMILIES.map(|name| (name, ColumnFamilyOptions::default())))?;
    let families = FAMILIES.iter().map(|name| db.column_family(name).expect("made at open")).collect();
    Ok((db, families))
}

/// Writes `count` batches and keeps their history.
///
/// # Panics
///
/// When a write fails.
pub fn load(
    db: &Db,
    families: &[ColumnFamily],
    rng: &mut Rng,
    history: &mut History,
    count: u64,
    sync_percent: u64,
) {
    for _ in 0..count {
        let durability = if rng.chance(sync_percent) { Durability::Sync } else { Durability::Os };
        let number = history.len() as u64;
        let mut changes = Vec::new();
        for family in 0..rng.range(1, 2) as usize {
            let mut value = number.to_be_bytes().to_vec();
            value.extend(vec![number as u8 | 1; rng.below(1_500) as usize]);
            changes.push(Change { family, key: vec![rng.below(30) as u8], value: Some(value) });
        }
        history.begin(changes.clone());
        db.write_opt(to_batch(&changes, families), &WriteOptions::durability(durability)).expect("a write");
        history.acknowledged(durability, db.latest_sequence().get());
    }
}

/// Length of the part that two files have in common.
fn common(one: &[u8], two: &[u8]) -> usize {
    one.iter().zip(two).take_while(|(one, two)| one == two).count()
}

/// R3: whatever lies behind the last synced byte of the log, the open succeeds with a prefix, at least up to that byte;
/// `Absolute` refuses when something was cut off.
///
/// Method: kill the process, then cut, zero, scramble, or overwrite with older bytes a part of what was not synced.
/// `Ok(false)` when everything was synced.
///
/// # Errors
///
/// The broken rule.
pub fn tear(seed: u64) -> Result<bool, String> {
    let mut rng = Rng::new(seed);
    let fs = SimFs::new(seed);
    let mut history = History::new(&FAMILIES);
    let (db, families) = open(options(&fs)).map_err(|error| error.to_string())?;
    let count = rng.range(1, 150);
    load(&db, &families, &mut rng, &mut history, count, 5);
    let killed = fs.crash(CrashMode::Kill, 1);
    let dropped = fs.crash(CrashMode::DropUnsynced, 1);
    drop((db, families));

    let torn = |path: &PathBuf| {
        let durable =
            if dropped.files(Path::new(DB)).contains(path) { dropped.bytes(path) } else { Vec::new() };
        let bytes = killed.bytes(path);
        let from = common(&bytes, &durable);
        let to = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        (from < to).then(|| (path.clone(), bytes, from, to))
    };
    let logs = killed.files_ending(Path::new(DB), ".log");
    let Some((path, mut bytes, from, to)) = logs.iter().find_map(torn) else { return Ok(false) };
    let at = rng.range(from as u64, to as u64 - 1) as usize;
    match rng.below(5) {
        0 => bytes.truncate(at),
        1 => bytes[at..].fill(0),
        2 => {
            let scramble = rng.bytes(to - at);
            bytes[at..to].copy_from_slice(&scramble);
        }
        3 => bytes[at] ^= 1 << rng.below(8),
        _ => {
            let old = bytes[..to - at].to_vec();
            bytes[at..to].copy_from_slice(&old);
        }
    }
    killed.put_bytes(&path, &bytes);
    let copy = killed.crash(CrashMode::Kill, 2);

    let (db, families) = open(options(&killed)).map_err(|error| format!("open: {error}"))?;
    let count = history.check(&read_state(&db, &families)?, false)?;
    let cut_off = count < history.len();
    history.settle(count);
    load(&db, &families, &mut rng, &mut history, 20, 5);
    db.close().map_err(|error| error.to_string())?;
    drop((db, families));
    let (db, families) = open(options(&killed)).map_err(|error| format!("second open: {error}"))?;
    history.check(&read_state(&db, &families)?, true)?;

    let mut absolute = options(&copy);
    absolute.recovery_mode = RecoveryMode::Absolute;
    match open(absolute) {
        Ok(_) if cut_off => Err("Absolute opened a log whose tail is torn".to_owned()),
        _ => Ok(true),
    }
}

/// R11: damage in front of the recorded synced end refuses the open and names the file; with the damage undone, everything
/// is there. `PointInTime` opens with a prefix. `Ok(false)` when nobody noticed and nothing was lost.
///
/// # Errors
///
/// The broken rule.
pub fn damage_synced(seed: u64) -> Result<bool, String> {
    let mut refused = false;
    let mut rng = Rng::new(seed);
    let fs = SimFs::new(seed);
    let mut history = History::new(&FAMILIES);
    let (db, families) = open(options(&fs)).map_err(|error| error.to_string())?;
    load(&db, &families, &mut rng, &mut history, 250, 2);
    db.close().map_err(|error| error.to_string())?;
    drop((db, families));
    let image = fs.crash(CrashMode::DropUnsynced, 1);
    history.synced();

    // Any segment: closed ones are covered by the next one's header, the last one by the close.
    let mut logs = image.files_ending(Path::new(DB), ".log");
    logs.retain(|path| image.bytes(path).iter().any(|byte| *byte != 0));
    let path = rng.pick(&logs).clone();
    let bytes = image.bytes(&path);
    let written: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    let at = *rng.pick(&written);
    image.flip(&path, at, 1 << rng.below(8));
    let copy = image.crash(CrashMode::Kill, 2);
    match open(options(&image)) {
        Err(Error::Corruption { path: named, .. }) => {
            refused = true;
            if named != path {
                return Err(format!(
                    "byte {at} of {} is damaged, the error names {}",
                    path.display(),
                    named.display()
                ));
            }
        }
        Err(error) => return Err(format!("damage gave: {error}")),
        // A flip in a byte that nobody believes (a header of no consequence, a padding) may pass, unseen.
        Ok((db, families)) if read_state(&db, &families)? == history.state() => {}
        Ok(_) => {
            return Err(format!("byte {at} of {} is damaged, and batches are missing", path.display()));
        }
    }
    let mut lenient = options(&copy);
    lenient.recovery_mode = RecoveryMode::PointInTime;
    let (db, families) = open(lenient).map_err(|error| format!("PointInTime: {error}"))?;
    history.clone().unsynced().check(&read_state(&db, &families)?, false)?;

    image.put_bytes(&path, &bytes);
    let (db, families) = open(options(&image)).map_err(|error| format!("undone: {error}"))?;
    history.check(&read_state(&db, &families)?, false).map(|_| refused)
}
