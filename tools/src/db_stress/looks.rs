//! What threads read, and what it must be: point reads, iterations, snapshots read twice.

use std::sync::atomic::Ordering::Relaxed;

use sluicedb::{ColumnFamily, Error, ReadOptions};

use super::expected::Cell;
use super::stage::Stage;
use super::values;
use super::worker::{Held, Worker};
use super::{Wrong, verify};

/// The base in what was found for a key.
pub(super) fn base_of(
    stage: &Stage<'_>,
    family: u64,
    key: u64,
    found: Option<&[u8]>,
) -> Result<Option<u16>, Wrong> {
    let Some(bytes) = found else { return Ok(None) };
    let base = values::base(family, key, bytes, stage.flags.number("value_size_mult"));
    base.map(Some).ok_or_else(|| {
        let shown: String = bytes.iter().take(16).map(|byte| format!("{byte:02X}")).collect();
        verify::wrong(
            family,
            key,
            &format!("{} bytes {shown}..", bytes.len()),
            "a value of this key",
            "the value is not whole",
        )
    })
}

/// A point read: what it finds was there at some moment of it.
pub(super) fn get(worker: &mut Worker<'_, '_>, family: u64, key: u64) -> Result<(), Wrong> {
    let stage = worker.stage;
    let handle = stage.family(family);
    let begin = stage.expected.get(family, key);
    let found =
        stage.db.get_cf(&handle, values::key(key)).map_err(|error| format!("a read failed: {error}"))?;
    let end = stage.expected.get(family, key);
    stage.counters.reads.fetch_add(1, Relaxed);
    let base = base_of(stage, family, key, found.as_deref())?;
    compatible(family, key, (begin, end), base, "Get verification")
}

pub(super) fn compatible(
    family: u64,
    key: u64,
    (begin, end): (Cell, Cell),
    found: Option<u16>,
    doing: &str,
) -> Result<(), Wrong> {
    if begin.may_have_held(end, found) {
        return Ok(());
    }
    let expected = format!("{} to {}", begin.describe(), end.describe());
    let found = found.map_or("nothing".to_owned(), |base| format!("base {base}"));
    Err(verify::wrong(family, key, &found, &expected, &format!("{doing}: unexpected value found")))
}

/// A key and its value.
type Entry = (Vec<u8>, Vec<u8>);

/// What an iterator finds between two keys.
fn range(
    stage: &Stage<'_>,
    handle: &ColumnFamily,
    options: &ReadOptions,
    forward: bool,
) -> Result<Vec<Entry>, Error> {
    let mut iterator = stage.db.iter_cf_opt(handle, options)?;
    let mut found = Vec::new();
    if forward {
        iterator.seek_to_first()?
    } else {
        iterator.seek_to_last()?
    }
    while iterator.valid() {
        found.push((iterator.key().to_vec(), iterator.value().to_vec()));
        if forward { iterator.next()? } else { iterator.prev()? }
    }
    if !forward {
        found.reverse();
    }
    Ok(found)
}

/// Iterates over `count` keys of a snapshot: in order, both ways alike, like point reads, and nothing missing.
pub(super) fn iterate(worker: &mut Worker<'_, '_>, family: u64, from: u64, count: u64) -> Result<(), Wrong> {
    let stage = worker.stage;
    let keys = from..(from + count).min(stage.expected.max_key());
    let handle = stage.family(family);
    let begin: Vec<Cell> = keys.clone().map(|key| stage.expected.get(family, key)).collect();
    let mut options = ReadOptions::at(&stage.db.snapshot());
    let end: Vec<Cell> = keys.clone().map(|key| stage.expected.get(family, key)).collect();
    options.iterate_lower_bound = Some(values::key(keys.start));
    options.iterate_upper_bound = Some(values::key(keys.end));
    let failed = |error: Error| format!("an iteration failed: {error}");
    let found = range(stage, &handle, &options, true).map_err(failed)?;
    stage.counters.iterations.fetch_add(1, Relaxed);
    if worker.below(4) == 0 && range(stage, &handle, &options, false).map_err(failed)? != found {
        return Err(verify::wrong(
            family,
            from,
            "other entries",
            "the same as forward",
            "Iterator verification: backward differs",
        ));
    }
    if let Some(pair) = found.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
        let key = values::number(&pair[1].0).unwrap_or(from);
        return Err(verify::wrong(
            family,
            key,
            "a key again",
            "a greater key",
            "Iterator verification: out of order",
        ));
    }
    let mut entries = found.iter().peekable();
    for (key, (begin, end)) in keys.clone().zip(begin.into_iter().zip(end)) {
        let wanted = values::key(key);
        let value = entries.next_if(|entry| entry.0 == wanted).map(|entry| entry.1.as_slice());
        let base = base_of(stage, family, key, value)?;
        compatible(family, key, (begin, end), base, "Iterator verification")?;
    }
    if let Some((key, _)) = entries.next() {
        let shown = String::from_utf8_lossy(key).into_owned();
        return Err(verify::wrong(
            family,
            from,
            &shown,
            "no such key",
            "Iterator verification: a key that nobody wrote",
        ));
    }
    let key = keys.start + worker.below(keys.end - keys.start);
    let point = stage.db.get_cf_opt(&handle, values::key(key), &options).map_err(failed)?;
    let wanted = values::key(key);
    let iterated = found.iter().find(|entry| entry.0 == wanted).map(|entry| entry.1.as_slice());
    if point.as_deref() != iterated {
        return Err(verify::wrong(
            family,
            key,
            "another value",
            "what the iterator found",
            "Get in the same snapshot differs",
        ));
    }
    Ok(())
}

/// Takes a snapshot and reads some keys in it.
pub(super) fn snapshot(worker: &mut Worker<'_, '_>, op: u64) -> Result<Held, Wrong> {
    let stage = worker.stage;
    let (family, _) = worker.place();
    let keys: Vec<u64> = (0..8).map(|_| worker.place().1).collect();
    let handle = stage.family(family);
    let begin: Vec<Cell> = keys.iter().map(|key| stage.expected.get(family, *key)).collect();
    let snapshot = stage.db.snapshot();
    let options = ReadOptions::at(&snapshot);
    let mut seen = Vec::new();
    for (key, begin) in keys.into_iter().zip(begin) {
        let end = stage.expected.get(family, key);
        let found = stage.db.get_cf_opt(&handle, values::key(key), &options);
        let found = found.map_err(|error| format!("a read in a snapshot failed: {error}"))?;
        compatible(
            family,
            key,
            (begin, end),
            base_of(stage, family, key, found.as_deref())?,
            "Snapshot verification",
        )?;
        seen.push((key, found.map(|value| value.to_vec())));
    }
    let until = op + 1 + worker.below(3000);
    Ok(Held { snapshot, family, handle: handle.clone(), seen, until })
}

/// Reads the same keys in the same snapshot again: nothing has changed, unless the family is gone.
pub(super) fn again(worker: &Worker<'_, '_>, held: Held) -> Result<(), Wrong> {
    let stage = worker.stage;
    let options = ReadOptions::at(&held.snapshot);
    for (key, seen) in &held.seen {
        match stage.db.get_cf_opt(&held.handle, values::key(*key), &options) {
            Ok(found) if found.as_deref() == seen.as_deref() => {}
            Err(Error::NoSuchColumnFamily { .. }) => return Ok(()),
            Ok(found) => {
                // A family that was dropped meanwhile may show nothing any more.
                let dropped = stage.family(held.family).id() != held.handle.id();
                if dropped && found.is_none() {
                    continue;
                }
                let shown = |value: Option<&[u8]>| {
                    value.map_or("nothing".to_owned(), |v| format!("{:02X?}", &v[..v.len().min(8)]))
                };
                let (found, seen) = (shown(found.as_deref()), shown(seen.as_deref()));
                return Err(verify::wrong(held.family, *key, &found, &seen, "a snapshot has changed"));
            }
            Err(error) => return Err(format!("a read in a snapshot failed: {error}")),
        }
    }
    Ok(())
}
