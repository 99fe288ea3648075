//! Every key, against its cell: after a restart, and when nothing runs.

use rand_mt::Mt64;
use sluicedb::ReadOptions;

use super::expected::Cell;
use super::stage::{self, Stage};
use super::{Wrong, looks, values};

/// The words for a difference.
pub fn wrong(family: u64, key: u64, found: &str, expected: &str, message: &str) -> Wrong {
    format!(
        "Verification failed for column family {family} key {key:016}: value_from_db: {found}, value_from_expected: \
         {expected}, msg: {message}"
    )
}

/// After a restart: each key holds what its cell says, or one of two things if a change was pending. Settles the cells.
///
/// # Errors
///
/// The first difference.
pub fn recovered(stage: &Stage<'_>) -> Result<(), Wrong> {
    each_family(stage, |family| family_recovered(stage, family))?;
    joint_batches(stage)?;
    each_family(stage, |family| settle(stage, family))
}

/// When nothing runs: each key holds exactly what its cell says.
///
/// # Errors
///
/// The first difference.
pub fn at_rest(stage: &Stage<'_>) -> Result<(), Wrong> {
    each_family(stage, |family| {
        let found = read_family(stage, family)?;
        for (key, base) in found.into_iter().enumerate() {
            let cell = stage.expected.get(family, key as u64);
            if cell.held() != base || cell.is_pending() {
                return Err(difference(family, key as u64, base, cell));
            }
        }
        Ok(())
    })
}

fn difference(family: u64, key: u64, found: Option<u16>, cell: Cell) -> Wrong {
    let found = found.map_or("nothing".to_owned(), |base| format!("base {base}"));
    wrong(family, key, &found, &cell.describe(), "Verification: unexpected value found")
}

/// Families side by side.
fn each_family(stage: &Stage<'_>, check: impl Fn(u64) -> Result<(), Wrong> + Sync) -> Result<(), Wrong> {
    let check = &check;
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..stage.expected.families()).map(|family| scope.spawn(move || check(family))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<(), Wrong>>| {
            thread.join().unwrap_or_else(|_| Err("a verifying thread panicked".to_owned()))
        };
        // All threads end before the scope does, also behind the first failure.
        threads.into_iter().try_for_each(join)
    })
}

/// The base that each key of a family holds, read in ways that change from stretch to stretch.
fn read_family(stage: &Stage<'_>, family: u64) -> Result<Vec<Option<u16>>, Wrong> {
    const STRETCH: u64 = 1000;
    let mut rng = Mt64::new(values::mix(stage.seed ^ family));
    let handle = stage.family(family);
    let max_key = stage.expected.max_key();
    let mut found = Vec::with_capacity(max_key as usize);
    for from in (0..max_key).step_by(STRETCH as usize) {
        let keys = from..(from + STRETCH).min(max_key);
        let failed = |error: sluicedb::Error| format!("verification of {}: {error}", stage::name(family));
        match rng.next_u64() % 3 {
            0 => {
                for key in keys {
                    let value = stage.db.get_cf(&handle, values::key(key)).map_err(failed)?;
                    found.push(looks::base_of(stage, family, key, value.as_deref())?);
                }
            }
            way => {
                let mut options = ReadOptions::default();
                options.iterate_lower_bound = Some(values::key(keys.start));
                options.iterate_upper_bound = Some(values::key(keys.end));
                let mut iterator = stage.db.iter_cf_opt(&handle, &options).map_err(failed)?;
                let mut stretch = vec![None; (keys.end - keys.start) as usize];
                if way == 1 { iterator.seek_to_first() } else { iterator.seek_to_last() }.map_err(failed)?;
                while iterator.valid() {
                    let key =
                        values::number(iterator.key()).filter(|key| keys.contains(key)).ok_or_else(|| {
                            let shown = iterator.key().escape_ascii().to_string();
                            wrong(family, keys.start, &shown, "no such key", "a key that nobody wrote")
                        })?;
                    stretch[(key - keys.start) as usize] =
                        looks::base_of(stage, family, key, Some(iterator.value()))?;
                    if way == 1 { iterator.next() } else { iterator.prev() }.map_err(failed)?;
                }
                found.extend(stretch);
            }
        }
    }
    Ok(found)
}

fn family_recovered(stage: &Stage<'_>, family: u64) -> Result<(), Wrong> {
    let expected = stage.expected;
    let found = read_family(stage, family)?;
    if expected.is_clearing(family)? {
        // Dropped and made again, or as it was: nothing between.
        if found.iter().all(Option::is_none) {
            expected.clear(family)?;
        }
        expected.set_clearing(family, false)?;
    }
    let loss_allowed = stage.flags.is("disable_wal");
    for (key, base) in found.into_iter().enumerate() {
        let key = key as u64;
        let cell = expected.get(family, key);
        match cell.settled_by(base) {
            // A joint batch is settled when all its families are known.
            Some(_) if cell.is_joint() => {}
            Some(settled) => {
                if settled != cell {
                    expected.set(family, key, settled)?;
                }
            }
            None if loss_allowed => expected.set(family, key, cell.found(base))?,
            None => return Err(difference(family, key, base, cell)),
        }
    }
    Ok(())
}

/// A batch over all families that was under way is there in all of them or in none.
fn joint_batches(stage: &Stage<'_>) -> Result<(), Wrong> {
    let expected = stage.expected;
    if stage.flags.is("disable_wal") {
        return Ok(());
    }
    for key in 0..expected.max_key() {
        let mut before_and_after = [None, None];
        for family in 0..expected.families() {
            let cell = expected.get(family, key);
            if cell.is_joint() {
                let handle = stage.family(family);
                let value = stage
                    .db
                    .get_cf(&handle, values::key(key))
                    .map_err(|error| format!("a read failed: {error}"))?;
                let base = looks::base_of(stage, family, key, value.as_deref())?;
                let happened = base == cell.after().held();
                before_and_after[usize::from(happened)] = Some(family);
            }
        }
        if let [Some(without), Some(with)] = before_and_after
            && (0..expected.families()).all(|family| expected.get(family, key).is_joint())
        {
            return Err(wrong(
                with,
                key,
                "the new value",
                &format!("the old one, as in family {without}"),
                "half a batch was recovered",
            ));
        }
    }
    Ok(())
}

fn settle(stage: &Stage<'_>, family: u64) -> Result<(), Wrong> {
    let handle = stage.family(family);
    for key in 0..stage.expected.max_key() {
        let cell = stage.expected.get(family, key);
        if cell.is_pending() {
            let value = stage
                .db
                .get_cf(&handle, values::key(key))
                .map_err(|error| format!("a read failed: {error}"))?;
            let base = looks::base_of(stage, family, key, value.as_deref())?;
            let settled = cell.settled_by(base).ok_or_else(|| difference(family, key, base, cell))?;
            stage.expected.set(family, key, settled)?;
        }
    }
    Ok(())
}
