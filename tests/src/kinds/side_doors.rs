//! V5 and checkpoints: an open that writes nothing finds what the next ordinary open finds; a checkpoint that a crash
//! cut short is no database, and one that was finished is whole.
//!
//! One writer drives two column families; the crash takes an image between two calls of the store's threads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluicedb::{ColumnFamily, ColumnFamilyOptions, Db, DbOptions, Durability, Error, WriteOptions};

use crate::knobs;
use crate::model::{Change, History, State, differences, read_state, to_batch};
use crate::rng::Rng;
use crate::sim_fs::{CrashMode, Op, SimFs};

/// The directory of the database.
const DB: &str = "/db";
/// The directory of the checkpoint.
const COPY: &str = "/copy";
const FAMILIES: [&str; 2] = ["default", "alpha"];

struct Case {
    rng: Rng,
    fs: SimFs,
    options: DbOptions,
    families: Vec<(&'static str, ColumnFamilyOptions)>,
    history: History,
    next_value: u64,
}

/// An open database and its families.
struct Open {
    db: Db,
    families: Vec<ColumnFamily>,
}

impl Open {
    fn new(db: Db) -> Result<Self, String> {
        let find = |name: &&str| db.column_family(name).ok_or_else(|| format!("family {name} is missing"));
        let families = FAMILIES.iter().map(find).collect::<Result<_, _>>()?;
        Ok(Self { db, families })
    }

    fn read(&self) -> Result<State, String> {
        read_state(&self.db, &self.families)
    }
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let fs = SimFs::new(rng.next_u64());
        let levels = rng.range(2, 7) as u32;
        let options = knobs::db_options(&mut rng, Arc::new(fs.clone()), levels);
        let families = FAMILIES.map(|name| (name, knobs::family_options(&mut rng, levels))).to_vec();
        Self { rng, fs, options, families, history: History::new(&FAMILIES), next_value: 0 }
    }

    fn options_on(&self, fs: &SimFs) -> DbOptions {
        let mut options = self.options.clone();
        options.file_system = Arc::new(fs.clone());
        options
    }

    fn open(&self, fs: &SimFs, dir: &str) -> Result<Db, Error> {
        Db::open_cf(dir, self.options_on(fs), self.families.clone())
    }

    fn open_read_only(&self, fs: &SimFs, dir: &str) -> Result<Db, Error> {
        Db::open_cf_read_only(dir, self.options_on(fs), self.families.clone())
    }

    fn draw_mode(&mut self) -> CrashMode {
        let keep = CrashMode::Keep { percent: *self.rng.pick(&[1, 50, 99]) };
        *self.rng.pick(&[CrashMode::DropUnsynced, keep, CrashMode::Kill])
    }

    /// Some operations, until the crash if one is due.
    fn work(&mut self, open: &Open, operations: u64) -> Result<(), String> {
        for _ in 0..operations {
            if self.fs.crashed() {
                break;
            }
            match self.rng.below(30) {
                0 => {
                    open.db.flush().map_err(|error| format!("flush: {error}"))?;
                    if !self.fs.crashed() {
                        self.history.synced();
                    }
                }
                1 => {
                    let family = &open.families[self.rng.index(FAMILIES.len())];
                    open.db
                        .compact_range_cf(family, None, None)
                        .map_err(|error| format!("compact: {error}"))?;
                }
                _ => self.write(open)?,
            }
        }
        Ok(())
    }

    fn write(&mut self, open: &Open) -> Result<(), String> {
        let durability = *self.rng.pick(&[Durability::Buffered, Durability::Os, Durability::Sync]);
        let changes: Vec<Change> = (0..=self.rng.skewed(4)).map(|_| self.change()).collect();
        self.history.begin(changes.clone());
        let written =
            open.db.write_opt(to_batch(&changes, &open.families), &WriteOptions::durability(durability));
        written.map_err(|error| format!("write: {error}"))?;
        if !self.fs.crashed() {
            self.history.acknowledged(durability, open.db.latest_sequence().get());
        }
        Ok(())
    }

    fn change(&mut self) -> Change {
        self.next_value += 1;
        let mut value = self.next_value.to_be_bytes().to_vec();
        let more = self.rng.skewed(2_000) as usize;
        value.extend(self.rng.bytes(more));
        let (family, key) = (self.rng.index(FAMILIES.len()), knobs::key(self.rng.below(40)));
        Change { family, key, value: self.rng.chance(80).then_some(value) }
    }
}

/// Every file of `dir` with its bytes.
fn bytes_of(fs: &SimFs, dir: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    fs.files(Path::new(dir)).into_iter().map(|path| (path.clone(), fs.bytes(&path))).collect()
}

fn expect_same(expected: &State, found: &State, when: &str) -> Result<(), String> {
    let lines = differences(expected, found);
    if lines.is_empty() { Ok(()) } else { Err(format!("{when}: {}", lines.join("; "))) }
}

/// Every kind of change, each of which a database that is open for reading only must refuse.
fn refuses_changes(open: &Open) -> Result<(), String> {
    let (db, family) = (&open.db, &open.families[1]);
    let attempts = [
        ("put", db.put("k", "v")),
        ("delete", db.delete_cf(family, "k")),
        ("flush", db.flush()),
        ("flush_wal", db.flush_wal(true)),
        ("compact_range", db.compact_range(None, None)),
        ("create_column_family", db.create_column_family("new", ColumnFamilyOptions::default()).map(drop)),
        ("drop_column_family", db.drop_column_family(family)),
        ("lock_wal", db.lock_wal().map(drop)),
        ("resume", db.resume()),
        ("checkpoint", db.checkpoint("/elsewhere")),
    ];
    for (what, outcome) in attempts {
        if !matches!(outcome, Err(Error::OpenedReadOnly { .. })) {
            return Err(format!("{what} on a read-only database: {outcome:?}"));
        }
    }
    Ok(())
}

/// V5: opening an image for reading only changes no byte and no name, takes no lock, and gives what an ordinary open
/// gives right afterwards; while the database is open it gives what was handed to the kernel.
///
/// # Errors
///
/// The rule that was broken, and how.
pub fn read_only(seed: u64) -> Result<(), String> {
    let mut case = Case::new(seed);
    let fs = case.fs.clone();
    let mode = case.draw_mode();
    let operations = case.rng.range(1, 120);
    if case.rng.chance(70) {
        let (at, seed) = (case.rng.range(1, 2 * operations + 20), case.rng.next_u64());
        fs.crash_at(at, mode, seed);
    }
    let open = Open::new(case.open(&fs, DB).map_err(|error| format!("first open: {error}"))?)?;
    case.work(&open, operations)?;
    // Beside the one that holds it. What a crash had to leave is at most what is there.
    let live =
        Open::new(case.open_read_only(&fs, DB).map_err(|error| format!("beside the holder: {error}"))?)?;
    let seen = live.read().map_err(|why| format!("beside the holder: {why}"))?;
    case.history.check(&seen, true).map_err(|why| format!("beside the holder: {why}"))?;
    drop(live);

    let image = fs.take_image().unwrap_or_else(|| fs.crash(mode, seed));
    if case.rng.chance(50) {
        open.db.close().map_err(|error| format!("close: {error}"))?;
    }
    drop(open);
    let (before, mutations) = (bytes_of(&image, DB), image.mutations());
    let found = match case.open_read_only(&image, DB) {
        Ok(db) => {
            let open = Open::new(db)?;
            let state = open.read()?;
            refuses_changes(&open)?;
            open.db.close().map_err(|error| format!("close of a read-only database: {error}"))?;
            state
        }
        Err(Error::NotADatabase { .. }) => vec![BTreeMap::new(); FAMILIES.len()], // it was not made yet
        // The first open of it makes a family in an edit of its own.
        Err(Error::NoSuchColumnFamily { .. }) => vec![BTreeMap::new(); FAMILIES.len()],
        Err(error) => return Err(format!("read-only open after {mode:?}: {error}")),
    };
    if image.mutations() != mutations || image.calls().of(Op::Lock) + image.calls().of(Op::OpenWritable) > 0 {
        return Err("a read-only open called what writes".to_owned());
    }
    if bytes_of(&image, DB) != before {
        return Err("a read-only open changed a file".to_owned());
    }
    case.history.check(&found, mode == CrashMode::Kill)?;
    let open = Open::new(case.open(&image, DB).map_err(|error| format!("open after {mode:?}: {error}"))?)?;
    expect_same(&found, &open.read()?, "V5 read-only against the open behind it")
}

/// A checkpoint while a crash may come: what is found afterwards is no database or the whole one; once the call has
/// returned a power failure leaves it whole; and it and its origin go separate ways.
///
/// Says whether the crash came in the middle.
///
/// # Errors
///
/// The rule that was broken, and how.
pub fn checkpoint(seed: u64) -> Result<bool, String> {
    let mut case = Case::new(seed);
    let fs = case.fs.clone();
    let open = Open::new(case.open(&fs, DB).map_err(|error| format!("first open: {error}"))?)?;
    let operations = case.rng.range(0, 150);
    case.work(&open, operations)?;
    let expected = open.read()?;
    let mode = case.draw_mode();
    let crash_seed = case.rng.next_u64();
    fs.crash_at(case.rng.range(1, 50), mode, crash_seed);
    open.db.checkpoint(COPY).map_err(|error| format!("checkpoint: {error}"))?;

    // Cut short, or not.
    let cut = fs.take_image();
    if let Some(image) = &cut {
        match case.open_read_only(image, COPY) {
            Ok(db) => {
                expect_same(&expected, &Open::new(db)?.read()?, "a checkpoint that opens after a crash")?
            }
            Err(Error::NotADatabase { .. }) => {}
            Err(error) => return Err(format!("half a checkpoint, after {mode:?}: {error}")),
        }
        let origin =
            Open::new(case.open(image, DB).map_err(|error| format!("origin after {mode:?}: {error}"))?)?;
        case.history.check(&origin.read()?, mode == CrashMode::Kill)?;
        Db::destroy(COPY, &case.options_on(image)).map_err(|error| format!("removing it: {error}"))?;
    }

    // They go separate ways.
    let copy = Open::new(case.open(&fs, COPY).map_err(|error| format!("open of the checkpoint: {error}"))?)?;
    expect_same(&expected, &copy.read()?, "the checkpoint")?;
    case.work(&open, 20)?;
    expect_same(&case.history.state(), &open.read()?, "the origin after more writes")?;
    expect_same(&expected, &copy.read()?, "the checkpoint after writes to its origin")?;
    copy.db.put("only here", "1").map_err(|error| format!("write to the checkpoint: {error}"))?;
    copy.db.flush().map_err(|error| format!("flush of the checkpoint: {error}"))?;
    copy.db.compact_range(None, None).map_err(|error| format!("compact the checkpoint: {error}"))?;
    expect_same(&case.history.state(), &open.read()?, "the origin after writes to its checkpoint")?;
    open.db.close().map_err(|error| format!("close: {error}"))?;
    drop((open, copy));

    // Durable as soon as the call returns: of what the power failure below takes, nothing is older than that.
    let origin = Open::new(case.open(&fs, DB).map_err(|error| format!("reopen: {error}"))?)?;
    let now = origin.read()?;
    origin.db.checkpoint("/second").map_err(|error| format!("second checkpoint: {error}"))?;
    let image = fs.crash(CrashMode::DropUnsynced, seed);
    let second =
        case.open_read_only(&image, "/second").map_err(|error| format!("after power failure: {error}"))?;
    expect_same(&now, &Open::new(second)?.read()?, "a finished checkpoint after a power failure")?;
    Ok(cut.is_some())
}
