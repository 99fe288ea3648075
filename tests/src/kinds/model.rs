//! R13: random operations against plain sorted maps: point reads, snapshots, iterators, flushes, compactions,
//! column families that come and go, reopening.

use std::path::Path;
use std::sync::Arc;

use sluicedb::{
    ColumnFamily, Db, DbIterator, DbOptions, Durability, FileSystem, ReadOptions, Snapshot, WriteOptions,
};

use crate::knobs;
use crate::model::{Change, Map, differences, read_family, show, to_batch};
use crate::rng::Rng;

const FAMILIES_MAX: usize = 4;

struct Family {
    handle: ColumnFamily,
    /// Set when the family is made, so that an old snapshot is read only where it saw the family.
    born: u64,
    map: Map,
}

/// A snapshot and what each family held then, by the family's birth.
struct Moment {
    snapshot: Snapshot,
    maps: Vec<(u64, Map)>,
}

/// An iterator that stays open while writes go on, and what it must show.
struct Walk {
    iter: DbIterator,
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    at: Option<usize>,
}

struct Run<'a> {
    rng: Rng,
    directory: &'a Path,
    options: DbOptions,
    levels: u32,
    db: Db,
    families: Vec<Family>,
    moments: Vec<Moment>,
    walks: Vec<Walk>,
    births: u64,
    keys: u64,
    value_max: u64,
    /// Whether `None` batches wait for a flush: a clean close does not keep them.
    unlogged: bool,
}

/// Runs `operations` random operations on a new database in `directory`.
///
/// # Errors
///
/// The first difference between the database and the maps.
pub fn run(
    seed: u64,
    file_system: Arc<dyn FileSystem>,
    directory: &Path,
    operations: u64,
) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let levels = rng.range(2, 7) as u32;
    let options = knobs::db_options(&mut rng, file_system, levels);
    let db = Db::open(directory, options.clone()).map_err(|error| format!("first open: {error}"))?;
    let first = Family { handle: db.default_column_family(), born: 0, map: Map::new() };
    let mut run = Run {
        directory,
        options,
        levels,
        db,
        families: vec![first],
        moments: Vec::new(),
        walks: Vec::new(),
        births: 0,
        keys: *rng.pick(&[20, 200, 1_000]),
        value_max: *rng.pick(&[60, 1_000, 6_000]),
        unlogged: false,
        rng,
    };
    run.create_family()?;
    run.create_family()?;
    for operation in 0..operations {
        run.step().map_err(|why| format!("operation {operation}: {why}"))?;
    }
    run.reopen()?;
    run.db.close().map_err(|error| format!("close: {error}"))
}

fn text(error: sluicedb::Error) -> String {
    error.to_string()
}

impl Run<'_> {
    fn step(&mut self) -> Result<(), String> {
        match self.rng.below(1_000) {
            0..450 => self.write(),
            450..650 => self.get(),
            650..670 => self.multi_get(),
            670..700 => {
                self.take_snapshot();
                Ok(())
            }
            700..750 => self.read_snapshot(),
            750..800 => self.read_bounded(),
            800..830 => self.open_walk(),
            830..950 => self.step_walk(),
            950..958 => self.db.flush().map_err(text).map(|()| self.unlogged = false),
            958..970 => {
                let handle = self.any_handle();
                self.db.flush_cf(&handle).map_err(text)
            }
            970..978 => self.compact(),
            978..983 => self.create_family(),
            983..988 => self.drop_family(),
            988..993 => self.reopen(),
            _ => self.db.flush_wal(self.rng.chance(50)).map_err(text),
        }
    }

    fn any_handle(&mut self) -> ColumnFamily {
        self.families[self.rng.index(self.families.len())].handle.clone()
    }

    fn key(&mut self) -> Vec<u8> {
        knobs::key(self.rng.below(self.keys))
    }

    fn write(&mut self) -> Result<(), String> {
        let count = if self.rng.chance(70) { 1 } else { self.rng.range(0, 12) };
        let mut changes = Vec::new();
        for _ in 0..count {
            let (family, key) = (self.rng.index(self.families.len()), self.key());
            let len = self.rng.skewed(self.value_max) as usize;
            let value = self.rng.chance(75).then(|| self.rng.bytes(len));
            changes.push(Change { family, key, value });
        }
        let handles: Vec<ColumnFamily> = self.families.iter().map(|family| family.handle.clone()).collect();
        let durability = *self.rng.pick(&[
            Durability::None,
            Durability::Buffered,
            Durability::Buffered,
            Durability::Os,
            Durability::Os,
            Durability::Sync,
        ]);
        let options = WriteOptions::durability(durability);
        match &changes[..] {
            [Change { family, key, value: Some(value) }] => {
                self.db.put_cf_opt(&handles[*family], key, value, &options).map_err(text)?;
            }
            [Change { family, key, value: None }] => {
                self.db.delete_cf_opt(&handles[*family], key, &options).map_err(text)?;
            }
            _ => self.db.write_opt(to_batch(&changes, &handles), &options).map_err(text)?,
        }
        self.unlogged |= durability == Durability::None && !changes.is_empty();
        for Change { family, key, value } in changes {
            let map = &mut self.families[family].map;
            match value {
                Some(value) => drop(map.insert(key, value)),
                None => drop(map.remove(&key)),
            }
        }
        Ok(())
    }

    fn get(&mut self) -> Result<(), String> {
        let key = self.key();
        let index = self.rng.index(self.families.len());
        let Family { handle, map, .. } = &self.families[index];
        let found = self.db.get_cf(handle, &key).map_err(text)?;
        same(found.as_deref(), map.get(&key), &key)
    }

    /// Keys of all families at once, some of them twice, now or as an old snapshot sees them.
    fn multi_get(&mut self) -> Result<(), String> {
        let count = *self.rng.pick(&[0, 1, 10, 100]);
        let wanted: Vec<(usize, Vec<u8>)> =
            (0..count).map(|_| (self.rng.index(self.families.len()), self.key())).collect();
        let moment = self.rng.chance(30).then(|| self.moments.last()).flatten();
        let options = moment.map_or_else(ReadOptions::default, |moment| ReadOptions::at(&moment.snapshot));
        let keys = wanted.iter().map(|(family, key)| (&self.families[*family].handle, key));
        let found = self.db.multi_get_cf_opt(keys, &options);
        if found.len() != wanted.len() {
            return Err(format!("multi_get of {} keys gave {} answers", wanted.len(), found.len()));
        }
        for ((family, key), found) in wanted.iter().zip(found) {
            let Family { born, map, .. } = &self.families[*family];
            let then = moment.map(|moment| moment.maps.iter().find(|(then, _)| then == born));
            let map = match then {
                None => map,
                Some(Some((_, map))) => map,
                Some(None) => continue, // the family is younger than the snapshot
            };
            same(found.map_err(text)?.as_deref(), map.get(key), key)
                .map_err(|why| format!("multi_get: {why}"))?;
        }
        Ok(())
    }

    fn take_snapshot(&mut self) {
        if self.moments.len() >= 4 {
            let oldest = self.rng.index(self.moments.len());
            self.moments.swap_remove(oldest);
        }
        let maps = self.families.iter().map(|family| (family.born, family.map.clone())).collect();
        self.moments.push(Moment { snapshot: self.db.snapshot(), maps });
    }

    /// Reads a family as an old snapshot sees it: one key, or all.
    fn read_snapshot(&mut self) -> Result<(), String> {
        if self.moments.is_empty() {
            return Ok(());
        }
        let (key, whole) = (self.key(), self.rng.one_in(4));
        let moment = &self.moments[self.rng.index(self.moments.len())];
        let Family { handle, born, .. } = &self.families[self.rng.index(self.families.len())];
        let Some((_, map)) = moment.maps.iter().find(|(then, _)| then == born) else { return Ok(()) };
        let options = ReadOptions::at(&moment.snapshot);
        if whole {
            let found = read_family(&self.db, handle, &options)?;
            return equal(map, &found, "an old snapshot");
        }
        let found = self.db.get_cf_opt(handle, &key, &options).map_err(text)?;
        same(found.as_deref(), map.get(&key), &key).map_err(|why| format!("an old snapshot: {why}"))
    }

    fn bounds(&mut self) -> ReadOptions {
        let mut options = ReadOptions::default();
        options.iterate_lower_bound = self.rng.chance(40).then(|| self.key());
        options.iterate_upper_bound = self.rng.chance(40).then(|| self.key());
        options.fill_cache = self.rng.chance(70);
        options
    }

    /// A whole scan in both directions within random bounds.
    fn read_bounded(&mut self) -> Result<(), String> {
        let options = self.bounds();
        let index = self.rng.index(self.families.len());
        let Family { handle, map, .. } = &self.families[index];
        let found = read_family(&self.db, handle, &options)?;
        equal(&within(map, &options).into_iter().collect(), &found, "a scan within bounds")
    }

    fn open_walk(&mut self) -> Result<(), String> {
        if self.walks.len() >= 3 {
            let which = self.rng.index(self.walks.len());
            self.walks.swap_remove(which);
        }
        let mut options = self.bounds();
        let Family { handle, born, map } = &self.families[self.rng.index(self.families.len())];
        let mut entries = within(map, &options);
        if let Some(moment) = self.moments.first().filter(|_| self.rng.chance(40))
            && let Some((_, map)) = moment.maps.iter().find(|(then, _)| then == born)
        {
            options.snapshot = Some(moment.snapshot.clone());
            entries = within(map, &options);
        }
        let iter = self.db.iter_cf_opt(handle, &options).map_err(text)?;
        if iter.valid() {
            return Err("a new iterator claims a position".to_owned());
        }
        self.walks.push(Walk { iter, entries, at: None });
        Ok(())
    }

    fn step_walk(&mut self) -> Result<(), String> {
        if self.walks.is_empty() {
            return Ok(());
        }
        let key = self.key();
        let which = self.rng.index(self.walks.len());
        let walk = &mut self.walks[which];
        for _ in 0..self.rng.range(1, 8) {
            walk.step(&mut self.rng, &key)?;
        }
        Ok(())
    }

    fn compact(&mut self) -> Result<(), String> {
        let (mut from, mut to) =
            (self.rng.chance(50).then(|| self.key()), self.rng.chance(50).then(|| self.key()));
        if to.is_some() && from > to {
            std::mem::swap(&mut from, &mut to);
        }
        let handle = self.any_handle();
        self.db.compact_range_cf(&handle, from.as_deref(), to.as_deref()).map_err(text)
    }

    fn create_family(&mut self) -> Result<(), String> {
        if self.families.len() >= FAMILIES_MAX {
            return Ok(());
        }
        self.births += 1;
        let options = knobs::family_options(&mut self.rng, self.levels);
        let name = format!("family-{}", self.births);
        let handle = self.db.create_column_family(&name, options).map_err(text)?;
        self.families.push(Family { handle, born: self.births, map: Map::new() });
        Ok(())
    }

    fn drop_family(&mut self) -> Result<(), String> {
        if self.families.len() < 2 {
            return Ok(());
        }
        let which = self.rng.range(1, self.families.len() as u64 - 1) as usize;
        let family = self.families.swap_remove(which);
        self.db.drop_column_family(&family.handle).map_err(text)
    }

    /// Everything is there again after a close, under other options.
    fn reopen(&mut self) -> Result<(), String> {
        if std::mem::take(&mut self.unlogged) {
            self.db.flush().map_err(text)?;
        }
        self.moments.clear();
        self.walks.clear();
        self.db.close().map_err(|error| format!("close: {error}"))?;
        if self.rng.chance(70) {
            self.options = knobs::db_options(&mut self.rng, self.options.file_system.clone(), self.levels);
        }
        let mut named = Vec::new();
        for family in &self.families {
            if self.rng.chance(70) {
                let options = knobs::family_options(&mut self.rng, self.levels);
                named.push((family.handle.name().to_owned(), options));
            }
        }
        self.db = Db::open_cf(self.directory, self.options.clone(), named)
            .map_err(|error| format!("reopen: {error}"))?;
        let mut names: Vec<String> =
            self.db.column_families().iter().map(|family| family.name().to_owned()).collect();
        names.sort();
        let mut expected: Vec<String> =
            self.families.iter().map(|family| family.handle.name().to_owned()).collect();
        expected.sort();
        if names != expected {
            return Err(format!("reopened with families {names:?}, expected {expected:?}"));
        }
        for family in &mut self.families {
            family.handle = self.db.column_family(family.handle.name()).expect("listed above");
            let found = read_family(&self.db, &family.handle, &ReadOptions::default())?;
            equal(&family.map, &found, "a reopened family")?;
        }
        Ok(())
    }
}

impl Walk {
    fn step(&mut self, rng: &mut Rng, key: &[u8]) -> Result<(), String> {
        let len = self.entries.len();
        let moves = if self.at.is_some() { 8 } else { 4 };
        let (moved, at) = match rng.below(moves) {
            0 => (self.iter.seek_to_first(), Some(0)),
            1 => (self.iter.seek_to_last(), len.checked_sub(1)),
            2 => (self.iter.seek(key), Some(self.entries.partition_point(|(entry, _)| &entry[..] < key))),
            3 => {
                let after = self.entries.partition_point(|(entry, _)| &entry[..] <= key);
                (self.iter.seek_for_prev(key), after.checked_sub(1))
            }
            4 | 5 => (self.iter.next(), self.at.map(|at| at + 1)),
            _ => (self.iter.prev(), self.at.and_then(|at| at.checked_sub(1))),
        };
        moved.map_err(text)?;
        self.at = at.filter(|at| *at < len);
        match self.at {
            None if self.iter.valid() => {
                Err(format!("an iterator at {} should be at no key", show(self.iter.key())))
            }
            None => Ok(()),
            Some(at) => {
                let (key, value) = &self.entries[at];
                if !self.iter.valid() {
                    return Err(format!("an iterator is at no key, expected {}", show(key)));
                }
                if self.iter.key() != &key[..] {
                    return Err(format!(
                        "an iterator is at {}, expected {}",
                        show(self.iter.key()),
                        show(key)
                    ));
                }
                same(Some(self.iter.value()), Some(value), key)
            }
        }
    }
}

/// The entries that an iterator with these bounds shows.
fn within(map: &Map, options: &ReadOptions) -> Vec<(Vec<u8>, Vec<u8>)> {
    let inside = |key: &Vec<u8>| {
        options.iterate_lower_bound.as_ref().is_none_or(|bound| key >= bound)
            && options.iterate_upper_bound.as_ref().is_none_or(|bound| key < bound)
    };
    map.iter().filter(|(key, _)| inside(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn same(found: Option<&[u8]>, expected: Option<&Vec<u8>>, key: &[u8]) -> Result<(), String> {
    if found == expected.map(|value| &value[..]) {
        return Ok(());
    }
    let show = |value: Option<&[u8]>| value.map_or_else(|| "nothing".to_owned(), show);
    let (found, expected) = (show(found), show(expected.map(|value| &value[..])));
    Err(format!("key {}: expected {expected}, found {found}", self::show(key)))
}

fn equal(expected: &Map, found: &Map, what: &str) -> Result<(), String> {
    let lines = differences(&vec![expected.clone()], &vec![found.clone()]);
    if lines.is_empty() {
        Ok(())
    } else {
        Err(format!("{what} differs: {}", lines[..lines.len().min(6)].join("; ")))
    }
}
