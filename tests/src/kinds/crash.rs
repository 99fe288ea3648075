//! R1, R2, R4: a crash at some call, also during recovery, and what must be there afterwards (V1 to V4, V6).
//!
//! One writer drives three logged column families, and a fourth that takes only `None` batches and so has a
//! history of its own. The crash takes an image between two calls of the store's threads, whichever they are.

use std::path::PathBuf;
use std::sync::Arc;

use sluicedb::{ColumnFamily, ColumnFamilyOptions, Db, DbOptions, Durability, WriteOptions};

use super::tidy;
use crate::knobs;
use crate::model::{Change, History, State, differences, read_state, show, to_batch};
use crate::rng::Rng;
use crate::sim_fs::{CrashMode, SimFs};

/// Families whose batches are logged; `loose` takes `None` batches alone.
const LOGGED: [&str; 3] = ["default", "alpha", "beta"];
const LOOSE: &str = "loose";

/// What kind of crash a case is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// R1: everything unsynced is lost.
    DropUnsynced,
    /// R2: a part of it is kept, in any order.
    KeepSome,
    /// As a killed process: everything handed over is kept.
    Kill,
    /// R4: any of these, and up to three more during recovery.
    InRecovery,
}

struct Case {
    rng: Rng,
    kind: Kind,
    levels: u32,
    options: DbOptions,
    directory: PathBuf,
    logged: History,
    loose: History,
    /// Bytes of the largest values.
    value_max: u64,
    keys: u64,
    next_value: u64,
}

/// An open database and its families: those of [`LOGGED`], then [`LOOSE`].
struct Open {
    db: Db,
    families: Vec<ColumnFamily>,
}

/// Runs one case.
///
/// # Errors
///
/// The rule that was broken, and how.
pub fn run(kind: Kind, seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let fs = SimFs::new(rng.next_u64());
    let levels = rng.range(2, 7) as u32;
    let options = knobs::db_options(&mut rng, Arc::new(fs.clone()), levels);
    let mut case = Case {
        kind,
        levels,
        options,
        directory: PathBuf::from("/db"),
        logged: History::new(&LOGGED),
        loose: History::new(&[LOOSE]),
        value_max: *rng.pick(&[100, 1_000, 4_000]),
        keys: *rng.pick(&[10, 60, 300]),
        next_value: 0,
        rng,
    };
    case.run(&fs)
}

impl Case {
    fn run(&mut self, fs: &SimFs) -> Result<(), String> {
        let mode = self.draw_mode();
        let bits = self.rng.range(4, 9);
        let operations = self.rng.range(1, 1 << bits);
        if self.rng.chance(85) {
            let seed = self.rng.next_u64();
            let at = self.rng.range(1, 2 * operations + 30);
            fs.crash_at(at, mode, seed);
        }
        let open = self.open(fs).map_err(|why| format!("first open: {why}"))?;
        for _ in 0..operations {
            if fs.crashed() {
                break;
            }
            self.operate(&open, Some(fs))?;
        }
        let image = fs.take_image().unwrap_or_else(|| fs.crash(mode, self.rng.next_u64()));
        let killed = mode == CrashMode::Kill;
        if self.rng.chance(50) {
            open.db.close().map_err(|error| format!("close: {error}"))?;
        }
        drop(open);

        let (image, killed) = self.crash_in_recovery(image, killed)?;
        let open = self.open(&image).map_err(|why| format!("open after {mode:?}: {why}"))?;
        self.settle(&open, killed).map_err(|why| format!("after {mode:?}: {why}"))?;
        tidy::check(&open.db, &open.families, &image, &self.directory)?;
        self.end(open)?;

        // V4: again the same; then life goes on, and a power failure after a clean close takes nothing.
        let open = self.open(&image).map_err(|why| format!("V4 second open: {why}"))?;
        self.expect_exactly(&open, "V4 second open")?;
        for _ in 0..self.rng.range(1, 40) {
            self.operate(&open, None)?;
        }
        open.db.close().map_err(|error| format!("last close: {error}"))?;
        drop(open);
        self.logged.synced();
        let image = image.crash(CrashMode::DropUnsynced, self.rng.next_u64());
        let open = self.open(&image).map_err(|why| format!("open after a clean close: {why}"))?;
        self.settle(&open, false).map_err(|why| format!("after a clean close: {why}"))
    }

    fn draw_mode(&mut self) -> CrashMode {
        let keep = CrashMode::Keep { percent: *self.rng.pick(&[1, 10, 50, 90, 99]) };
        match self.kind {
            Kind::DropUnsynced => CrashMode::DropUnsynced,
            Kind::KeepSome => keep,
            Kind::Kill => CrashMode::Kill,
            Kind::InRecovery => *self.rng.pick(&[CrashMode::DropUnsynced, keep, keep, CrashMode::Kill]),
        }
    }

    /// V4: crashes up to three times during recovery; every open gives the state of the first. Returns the last image,
    /// and whether it is still what a killed process left, with unsynced bytes in it.
    fn crash_in_recovery(&mut self, mut image: SimFs, mut killed: bool) -> Result<(SimFs, bool), String> {
        if self.kind != Kind::InRecovery {
            return Ok((image, killed));
        }
        let before = (self.logged.clone(), self.loose.clone());
        for depth in 1..=3 {
            let (mode, seed, at) = (self.draw_mode(), self.rng.next_u64(), self.rng.range(1, 40));
            image.crash_at(at, mode, seed);
            let open = self.open(&image).map_err(|why| format!("open at depth {depth}: {why}"))?;
            let opened_before_crash = !image.crashed();
            self.settle(&open, killed).map_err(|why| format!("depth {depth}: {why}"))?;
            drop(open);
            if opened_before_crash {
                // What an open has shown is owed from then on, also after a power failure.
                killed = false;
            } else if killed && mode != CrashMode::Kill {
                // The power failed before recovery had made durable what the killed process left unsynced.
                (self.logged, self.loose) = before.clone();
                killed = false;
            }
            image = image.take_image().unwrap_or_else(|| image.crash(mode, seed));
        }
        Ok((image, killed))
    }

    fn open(&mut self, fs: &SimFs) -> Result<Open, String> {
        if self.rng.chance(50) {
            self.options = knobs::db_options(&mut self.rng, self.options.file_system.clone(), self.levels);
        }
        self.options.file_system = Arc::new(fs.clone());
        let names = LOGGED.iter().chain(&[LOOSE]);
        let families: Vec<(&str, ColumnFamilyOptions)> =
            names.map(|name| (*name, knobs::family_options(&mut self.rng, self.levels))).collect();
        let db = Db::open_cf(&self.directory, self.options.clone(), families)
            .map_err(|error| error.to_string())?;
        let names = LOGGED.iter().chain(&[LOOSE]);
        let find = |name: &&str| db.column_family(name).ok_or_else(|| format!("family {name} is missing"));
        let families = names.map(find).collect::<Result<_, _>>()?;
        Ok(Open { db, families })
    }

    /// One step of the workload. With `fs`, what returns after its crash does not count as acknowledged.
    fn operate(&mut self, open: &Open, fs: Option<&SimFs>) -> Result<(), String> {
        let before_crash = || fs.is_none_or(|fs| !fs.crashed());
        let db = &open.db;
        match self.rng.below(100) {
            0..80 => self.write(open, &before_crash)?,
            80..88 => self.write_loose(open)?,
            88 => {
                db.flush().map_err(|error| format!("flush: {error}"))?;
                if before_crash() {
                    self.logged.synced();
                    self.loose.synced();
                }
            }
            89 | 90 => {
                let family = self.rng.index(open.families.len());
                db.flush_cf(&open.families[family]).map_err(|error| format!("flush_cf: {error}"))?;
                if before_crash() {
                    if family == LOGGED.len() { self.loose.synced() } else { self.logged.flushed(family) }
                }
            }
            91 | 92 => {
                let sync = self.rng.chance(50);
                db.flush_wal(sync).map_err(|error| format!("flush_wal: {error}"))?;
                if before_crash() {
                    if sync { self.logged.synced() } else { self.logged.handed_over() }
                }
            }
            93 | 94 => {
                let durable = db.durable_sequence().get();
                if before_crash() {
                    self.logged.durable(durable);
                }
            }
            95 => {
                let family = &open.families[self.rng.index(open.families.len())];
                db.compact_range_cf(family, None, None).map_err(|error| format!("compact: {error}"))?;
            }
            _ => {
                let family = self.rng.index(LOGGED.len());
                let key = self.key();
                let found =
                    db.get_cf(&open.families[family], &key).map_err(|error| format!("get: {error}"))?;
                let state = self.logged.state();
                let expected = state[family].get(&key);
                if found.as_deref() != expected.map(|value| &value[..]) {
                    return Err(format!(
                        "get of {} in family {family} is wrong before any crash",
                        show(&key)
                    ));
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, open: &Open, before_crash: &dyn Fn() -> bool) -> Result<(), String> {
        let levels = [Durability::Buffered, Durability::Os, Durability::Os, Durability::Os, Durability::Sync];
        let durability = *self.rng.pick(&levels);
        let count = 1 + self.rng.skewed(6);
        let changes: Vec<Change> = (0..count).map(|_| self.change(LOGGED.len())).collect();
        self.logged.begin(changes.clone());
        let batch = to_batch(&changes, &open.families);
        let written = open.db.write_opt(batch, &WriteOptions::durability(durability));
        written.map_err(|error| format!("write: {error}"))?;
        let last = open.db.latest_sequence().get();
        if before_crash() {
            self.logged.acknowledged(durability, last);
        }
        Ok(())
    }

    fn write_loose(&mut self, open: &Open) -> Result<(), String> {
        let changes = vec![self.change(1)];
        self.loose.begin(changes.clone());
        let batch = to_batch(&changes, &open.families[LOGGED.len()..]);
        let written = open.db.write_opt(batch, &WriteOptions::durability(Durability::None));
        written.map_err(|error| format!("None write: {error}"))
    }

    /// A change whose value never repeats, so that few counts give the same state.
    fn change(&mut self, families: usize) -> Change {
        let (family, key) = (self.rng.index(families), self.key());
        self.next_value += 1;
        let mut value = self.next_value.to_be_bytes().to_vec();
        let more = self.rng.skewed(self.value_max) as usize;
        value.extend(self.rng.bytes(more));
        Change { family, key, value: self.rng.chance(85).then_some(value) }
    }

    fn key(&mut self) -> Vec<u8> {
        knobs::key(self.rng.below(self.keys))
    }

    /// V1 to V3: finds out which prefix was recovered, and holds the database to it from here on.
    fn settle(&mut self, open: &Open, killed: bool) -> Result<(), String> {
        let (logged, loose) = open.read()?;
        let count = self.logged.check(&logged, killed)?;
        self.logged.settle(count);
        let count = self.loose.check(&loose, killed).map_err(|why| format!("None batches: {why}"))?;
        self.loose.settle(count);
        Ok(())
    }

    fn expect_exactly(&self, open: &Open, when: &str) -> Result<(), String> {
        let (logged, loose) = open.read()?;
        let mut lines = differences(&self.logged.state(), &logged);
        lines.extend(differences(&self.loose.state(), &loose));
        if lines.is_empty() { Ok(()) } else { Err(format!("{when}: {}", lines.join("; "))) }
    }

    /// Ends a database in one of the ways that users do.
    fn end(&mut self, open: Open) -> Result<(), String> {
        if self.rng.chance(50) {
            open.db.close().map_err(|error| format!("close: {error}"))?;
        }
        drop(open);
        Ok(())
    }
}

impl Open {
    fn read(&self) -> Result<(State, State), String> {
        let (logged, loose) = self.families.split_at(LOGGED.len());
        Ok((read_state(&self.db, logged)?, read_state(&self.db, loose)?))
    }
}
