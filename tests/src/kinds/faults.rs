//! R6, R7, R8: a short script during which calls fail, syncs lie, or the disk fills up.
//!
//! The script is the same for every fault, so that failing the n-th call for every n meets every call site. Whatever
//! fails, nothing acknowledged is lost, nothing panics, and the database opens again.

use std::path::Path;
use std::sync::Arc;

use sluicedb::{
    ColumnFamily, ColumnFamilyOptions, Db, DbOptions, DelayedWriteRate, Durability, Error, ReadMode,
    WriteOptions,
};

use super::tidy;
use crate::model::{Change, History, read_state, show, to_batch};
use crate::rng::Rng;
use crate::sim_fs::{CrashMode, Effect, Fault, SimFs};

const FAMILIES: [&str; 2] = ["default", "other"];
const STEPS: u64 = 60;

/// The directory of the script's database.
const DIRECTORY: &str = "/db";

/// A database under test, with what it acknowledged.
pub struct Script {
    /// Where it lives.
    pub fs: SimFs,
    /// What it owes.
    pub history: History,
    seed: u64,
    read_mode: ReadMode,
    rng: Rng,
    next_value: u64,
}

fn family_options() -> ColumnFamilyOptions {
    let mut options = ColumnFamilyOptions::default();
    options.write_buffer_size = 64 << 10;
    options.max_write_buffer_number = 3;
    options.level0_file_num_compaction_trigger = 2;
    options.max_bytes_for_level_base = 64 << 10;
    options.target_file_size_base = 64 << 10;
    options
}

fn options(fs: &SimFs, read_mode: ReadMode) -> DbOptions {
    let mut options = DbOptions::default();
    options.file_system = Arc::new(fs.clone());
    options.column_family = family_options();
    options.wal_segment_bytes = 64 << 10;
    options.read_mode = read_mode;
    options.block_cache_size = 0;
    options.delayed_write_rate = DelayedWriteRate::BytesPerSecond(1 << 30);
    options
}

fn open(fs: &SimFs, read_mode: ReadMode) -> Result<(Db, Vec<ColumnFamily>), Error> {
    let db = Db::open_cf(DIRECTORY, options(fs, read_mode), FAMILIES.map(|name| (name, family_options())))?;
    let families = FAMILIES.iter().map(|name| db.column_family(name).expect("made at open")).collect();
    Ok((db, families))
}

impl Script {
    /// A script on a new file system.
    pub fn new(seed: u64) -> Self {
        let history = History::new(&FAMILIES);
        let read_mode = if seed.is_multiple_of(2) { ReadMode::Mmap } else { ReadMode::Pread };
        Self { fs: SimFs::new(seed), history, seed, read_mode, rng: Rng::new(seed), next_value: 0 }
    }

    /// Opens the database and runs all steps; calls may fail meanwhile.
    ///
    /// # Errors
    ///
    /// A broken promise, not a failed call.
    pub fn run(&mut self) -> Result<(), String> {
        let Ok((db, families)) = open(&self.fs, self.read_mode) else { return Ok(()) };
        for step in 0..STEPS {
            self.step(step, &db, &families)?;
        }
        if self.rng.chance(50) && db.close().is_ok() {
            self.history.synced();
        }
        Ok(())
    }

    fn step(&mut self, step: u64, db: &Db, families: &[ColumnFamily]) -> Result<(), String> {
        match step % 20 {
            9 if db.flush().is_ok() => self.history.synced(),
            13 if db.flush_cf(&families[1]).is_ok() => self.history.flushed(1),
            15 if db.flush_wal(true).is_ok() => self.history.synced(),
            // Its outcome is judged by what is there in the end.
            18 => drop(db.compact_range(None, None)),
            17 => self.read(db, families)?,
            _ => self.write(db, families, 1_500).map_or_else(drop, drop),
        }
        Ok(())
    }

    /// Writes one batch and keeps the history.
    ///
    /// # Errors
    ///
    /// The store's.
    pub fn write(&mut self, db: &Db, families: &[ColumnFamily], value_max: u64) -> Result<(), Error> {
        let levels = [Durability::Buffered, Durability::Os, Durability::Os, Durability::Sync];
        let durability = *self.rng.pick(&levels);
        let mut changes = Vec::new();
        for _ in 0..self.rng.range(1, 3) {
            self.next_value += 1;
            let mut value = self.next_value.to_be_bytes().to_vec();
            value.resize(8 + self.rng.below(value_max + 1) as usize, self.next_value as u8);
            let key = format!("key{}", self.rng.below(40)).into_bytes();
            changes.push(Change { family: self.rng.index(families.len()), key, value: Some(value) });
        }
        self.history.begin(changes.clone());
        let written = db.write_opt(to_batch(&changes, families), &WriteOptions::durability(durability));
        match &written {
            Ok(()) => self.history.acknowledged(durability, db.latest_sequence().get()),
            Err(error) => self.history.failed(error),
        }
        written
    }

    /// Reads never give a wrong value, whatever has failed: an error, or what was acknowledged.
    ///
    /// # Errors
    ///
    /// The wrong value.
    pub fn read(&mut self, db: &Db, families: &[ColumnFamily]) -> Result<(), String> {
        let key = format!("key{}", self.rng.below(40)).into_bytes();
        let family = self.rng.index(families.len());
        let Ok(found) = db.get_cf(&families[family], &key) else { return Ok(()) };
        let found = found.as_deref().map(<[u8]>::to_vec);
        // A batch that failed may be visible or not.
        let len = self.history.len();
        let near =
            [self.history.state_after(len), self.history.state_after(self.history.acknowledged_count())];
        if near.iter().any(|state| state[family].get(&key) == found.as_ref()) {
            return Ok(());
        }
        Err(format!("a read of {} gave {:?}", show(&key), found.map(|value| show(&value))))
    }

    /// With all faults healed: what a power failure now leaves, what a plain reopen finds, that life goes on.
    ///
    /// # Errors
    ///
    /// The broken rule.
    pub fn judge(mut self) -> Result<(), String> {
        self.fs.heal();
        self.fs.set_budget(None);
        for (percent, seed) in [(0, 1), (50, 2)] {
            let image = self.fs.crash(CrashMode::Keep { percent }, seed);
            let (db, families) =
                open(&image, self.read_mode).map_err(|error| format!("open after power loss: {error}"))?;
            let state = read_state(&db, &families)?;
            self.history
                .check(&state, false)
                .map_err(|why| format!("after power loss, {percent} % kept: {why}"))?;
        }
        let (db, families) = open(&self.fs, self.read_mode).map_err(|error| format!("reopen: {error}"))?;
        let count =
            self.history.check(&read_state(&db, &families)?, true).map_err(|why| format!("reopen: {why}"))?;
        self.history.settle(count);
        tidy::check(&db, &families, &self.fs, Path::new(DIRECTORY))?;
        for _ in 0..5 {
            self.write(&db, &families, 100).map_err(|error| format!("writing after a reopen: {error}"))?;
        }
        db.close().map_err(|error| format!("close: {error}"))?;
        drop(db);
        self.history.synced();
        let (db, families) = open(&self.fs, self.read_mode).map_err(|error| format!("last open: {error}"))?;
        self.history
            .check(&read_state(&db, &families)?, true)
            .map(drop)
            .map_err(|why| format!("last open: {why}"))
    }
}

/// One fault in one script. `Ok(false)` when the script ended before the fault was met.
///
/// # Errors
///
/// The broken rule.
pub fn run(seed: u64, fault: Fault) -> Result<bool, String> {
    let mut script = Script::new(seed);
    script.fs.inject(fault);
    script.run()?;
    let fired = script.fs.fired().total() > 0;
    script.judge()?;
    Ok(fired)
}

/// R8: the disk holds `budget` bytes from the start; reads go on, and with space back writes do, without reopening.
/// `Ok(false)` when the script fitted.
///
/// # Errors
///
/// The broken rule.
pub fn run_full_disk(seed: u64, budget: u64) -> Result<bool, String> {
    let mut script = Script::new(seed);
    let Ok((db, families)) = open(&script.fs, script.read_mode) else {
        return Err("the first open failed".to_owned());
    };
    script.fs.set_budget(Some(script.fs.used() + budget));
    let mut full = false;
    for step in 0..STEPS {
        match script.write(&db, &families, 4_000) {
            Ok(()) => {}
            Err(Error::NoSpace { .. }) => full = true,
            Err(error) => return Err(format!("a full disk gave: {error}")),
        }
        if step % 10 == 5 {
            drop(db.flush());
        }
        script.read(&db, &families)?;
        let key = format!("key{}", script.seed % 40);
        db.get_cf(&families[0], key).map_err(|error| format!("a read on a full disk: {error}"))?;
    }
    script.fs.set_budget(None);
    // The store's own probe ends the state; the watchdog ends the wait for it. A flush that met the full disk may
    // still report it once.
    let retry = |what: &str, outcome: Result<(), Error>| match outcome {
        Ok(()) => Ok(true),
        Err(Error::NoSpace { .. }) => {
            std::thread::yield_now();
            Ok(false)
        }
        Err(error) => Err(format!("with space back {what} gave: {error}")),
    };
    while !retry("a write", script.write(&db, &families, 100))? {}
    while !retry("a flush", db.flush())? {}
    script.history.synced();
    drop((db, families));
    script.judge()?;
    Ok(full)
}

/// The failures that R6 gives to a call.
pub const FAILURES: [Effect; 3] = [
    Effect::Fail(std::io::ErrorKind::Other),
    Effect::ShortWrite,
    Effect::Fail(std::io::ErrorKind::StorageFull),
];
