//! R1, R2 with column families that come and go: creating and dropping pass the MANIFEST before they are acknowledged,
//! batches pass the log, and the two survive a crash independently.
//!
//! After a crash the families are those of the acknowledged creations and drops, give or take the one under way; and
//! there is one k such that each of them holds exactly what the first k batches left in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluicedb::{ColumnFamily, Db, Durability, ReadOptions, WriteOptions};

use crate::knobs;
use crate::model::{Change, History, Map, read_family, to_batch};
use crate::rng::Rng;
use crate::sim_fs::{CrashMode, SimFs};

const DIRECTORY: &str = "/db";
/// Families that a case may make, beside `default`; a name is used anew after a drop, with another index here.
const FAMILIES_MAX: usize = 12;

struct Case {
    rng: Rng,
    history: History,
    /// Live families by index in the history, and their handles.
    live: BTreeMap<usize, ColumnFamily>,
    /// The indexes of `live` at the crash.
    owed: Vec<usize>,
    /// Whether a family may be there or not: its creation or drop was under way at the crash.
    unsure: Option<usize>,
    made: usize,
}

fn name(index: usize) -> String {
    if index == 0 { "default".to_owned() } else { format!("family {}", index % 3) }
}

fn text(what: &'static str) -> impl Fn(sluicedb::Error) -> String {
    move |error| format!("{what}: {error}")
}

/// Runs one case.
///
/// # Errors
///
/// The rule that was broken, and how.
pub fn run(seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let fs = SimFs::new(seed);
    let mode = match rng.below(4) {
        0 => CrashMode::DropUnsynced,
        1 => CrashMode::Kill,
        _ => CrashMode::Keep { percent: *rng.pick(&[10, 50, 90]) },
    };
    let options = knobs::db_options(&mut rng, Arc::new(fs.clone()), 4);
    let db = Db::open(DIRECTORY, options.clone()).map_err(text("first open"))?;
    let steps = rng.range(5, 150);
    fs.crash_at(rng.range(1, 2 * steps), mode, rng.next_u64());
    let history = History::new(&["family"; FAMILIES_MAX]);
    let live = BTreeMap::from([(0, db.default_column_family())]);
    let mut case = Case { rng, history, live, owed: Vec::new(), unsure: None, made: 0 };
    for _ in 0..steps {
        if fs.crashed() {
            break;
        }
        case.step(&db, &fs)?;
    }
    let image = fs.take_image().unwrap_or_else(|| fs.crash(mode, seed));
    case.owed = std::mem::take(&mut case.live).into_keys().collect();
    drop(db);

    for reopen in 0..2 {
        let mut options = options.clone();
        options.file_system = Arc::new(image.clone());
        let db = Db::open(DIRECTORY, options).map_err(text("reopen"))?;
        case.judge(&db, mode == CrashMode::Kill)
            .map_err(|why| format!("reopen {reopen} after {mode:?}: {why}"))?;
        db.close().map_err(text("close"))?;
    }
    Ok(())
}

impl Case {
    fn step(&mut self, db: &Db, fs: &SimFs) -> Result<(), String> {
        match self.rng.below(20) {
            0..3 if self.made + 1 < FAMILIES_MAX => {
                let next = self.made + 1;
                if self.live.keys().any(|index| *index > 0 && name(*index) == name(next)) {
                    return Ok(());
                }
                self.made = next;
                self.unsure = Some(next);
                let options = knobs::family_options(&mut self.rng, 4);
                let handle = db.create_column_family(&name(next), options).map_err(text("create"))?;
                self.live.insert(next, handle);
                self.unsure = if fs.crashed() { self.unsure } else { None };
            }
            3 | 4 if self.live.len() > 1 => {
                let live: Vec<usize> = self.live.keys().copied().filter(|index| *index > 0).collect();
                let index = *self.rng.pick(&live);
                self.unsure = Some(index);
                db.drop_column_family(&self.live[&index]).map_err(text("drop"))?;
                if !fs.crashed() {
                    self.live.remove(&index);
                    self.unsure = None;
                }
            }
            5 => {
                let index = *self.rng.pick(&self.live.keys().copied().collect::<Vec<_>>());
                db.flush_cf(&self.live[&index]).map_err(text("flush"))?;
            }
            _ => self.write(db, fs)?,
        }
        Ok(())
    }

    fn write(&mut self, db: &Db, fs: &SimFs) -> Result<(), String> {
        let durability =
            *self.rng.pick(&[Durability::Buffered, Durability::Os, Durability::Os, Durability::Sync]);
        let (indexes, handles): (Vec<usize>, Vec<ColumnFamily>) = self.live.clone().into_iter().unzip();
        let number = self.history.len() as u64;
        // By place among the live families first, as the batch is built; then by index in the history.
        let mut changes: Vec<Change> = Vec::new();
        for _ in 0..self.rng.range(1, 3) {
            let mut value = number.to_be_bytes().to_vec();
            value.resize(8 + self.rng.skewed(2_000) as usize, 5);
            let key = vec![self.rng.below(20) as u8];
            changes.push(Change { family: self.rng.index(indexes.len()), key, value: Some(value) });
        }
        let batch = to_batch(&changes, &handles);
        changes.iter_mut().for_each(|change| change.family = indexes[change.family]);
        self.history.begin(changes);
        db.write_opt(batch, &WriteOptions::durability(durability)).map_err(text("write"))?;
        if !fs.crashed() {
            self.history.acknowledged(durability, db.latest_sequence().get());
        }
        Ok(())
    }

    /// Which families are there, and one k for all of them.
    fn judge(&mut self, db: &Db, killed: bool) -> Result<(), String> {
        let found: BTreeMap<String, ColumnFamily> =
            db.column_families().into_iter().map(|family| (family.name().to_owned(), family)).collect();
        let owed: Vec<usize> =
            self.owed.iter().copied().filter(|index| Some(*index) != self.unsure).collect();
        let mut there: Vec<(usize, Map)> = Vec::new();
        for index in owed.iter().chain(&self.unsure) {
            match found.get(&name(*index)) {
                Some(family) => there.push((*index, read_family(db, family, &ReadOptions::default())?)),
                None if Some(*index) == self.unsure => {}
                None => return Err(format!("family #{index} ('{}') is missing", name(*index))),
            }
        }
        if there.len() != found.len() {
            return Err(format!(
                "{:?} are there, expected {owed:?}, perhaps {:?}",
                found.keys(),
                self.unsure
            ));
        }
        let fits = |count: &usize| {
            let state = self.history.state_after(*count);
            there.iter().all(|(index, map)| state[*index] == *map)
        };
        let floor = self.history.floor(killed);
        match (floor..=self.history.len()).rev().find(fits) {
            Some(_) => Ok(()),
            None => Err(format!("V1/V3: no k from {floor} to {} fits all families", self.history.len())),
        }
    }
}
