//! Chores on the database while others work: flush, compaction, options, checkpoints, families dropped and made again.

use std::path::Path;

use sluicedb::{Db, DbOptions, WriteBatch};

use super::stage::{self, Stage};
use super::worker::Worker;
use super::{Wrong, looks, values};

pub(super) fn flush(worker: &mut Worker<'_, '_>) -> Result<(), Wrong> {
    let (family, _) = worker.place();
    let stage = worker.stage;
    stage.db.flush_cf(&stage.family(family)).map_err(|error| format!("a flush failed: {error}"))
}

pub(super) fn compact(worker: &mut Worker<'_, '_>) -> Result<(), Wrong> {
    let (family, key) = worker.place();
    let stage = worker.stage;
    let to = key + stage.expected.max_key() / 10;
    let (from, to) = (values::key(key), values::key(to));
    // Open at neither end, or at one.
    let open = worker.below(3);
    let (from, to) = ((open != 1).then_some(&from[..]), (open != 2).then_some(&to[..]));
    let compacted = stage.db.compact_range_cf(&stage.family(family), from, to);
    compacted.map_err(|error| format!("a compaction failed: {error}"))
}

/// Changes a live option: of a family, of the database, or the quota.
pub(super) fn set_options(worker: &mut Worker<'_, '_>) -> Result<(), Wrong> {
    let (family, _) = worker.place();
    let stage = worker.stage;
    let flags = stage.flags;
    let drawn = worker.below(8);
    let size = |bytes: u64| bytes.max(65536).to_string();
    let of_family: &[(&str, String)] = &match drawn {
        0 => [("write_buffer_size", size(flags.number("write_buffer_size") / 4 * (1 + worker.below(8))))],
        1 => [("level0_file_num_compaction_trigger", (1 + worker.below(6)).to_string())],
        2 => [("disable_auto_compactions", (worker.below(4) == 0).to_string())],
        3 => [("compression", ["none", "lz4"][worker.below(2) as usize].to_owned())],
        4 => [("max_write_buffer_number", (2 + worker.below(4)).to_string())],
        5 => [("block_size", (256 << worker.below(5)).to_string())],
        _ => {
            if drawn == 6
                && !flags.is_given("db_write_buffer_size")
                && flags.number("db_write_buffer_size") > 0
            {
                let quota = flags.number("db_write_buffer_size") / 4 * (2 + worker.below(8));
                stage.db.write_buffer_manager().set_quota_bytes(quota);
            } else {
                let rate =
                    (flags.number("delayed_write_rate") / 4 * (1 + worker.below(8))).max(65536).to_string();
                let changed = stage.db.set_db_options(&[("delayed_write_rate", &rate)]);
                changed
                    .map_err(|error| format!("an option of the database could not be changed: {error}"))?;
            }
            return Ok(());
        }
    };
    let changes: Vec<(&str, &str)> = of_family.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let handle = stage.family(family);
    stage
        .db
        .set_options(&handle, &changes)
        .map_err(|error| format!("options {changes:?} were refused: {error}"))
}

/// Makes a checkpoint, opens it and compares some of it.
pub(super) fn checkpoint(worker: &mut Worker<'_, '_>) -> Result<(), Wrong> {
    let stage = worker.stage;
    let path = stage.checkpoint_path(worker.thread);
    let (family, from) = worker.place();
    let keys = from..(from + 500).min(stage.expected.max_key());
    // The family must not be cleared until the copy is made, and its cells read.
    let handle = stage.family(family);
    let begin: Vec<_> = keys.clone().map(|key| stage.expected.get(family, key)).collect();
    stage.db.checkpoint(&path).map_err(|error| format!("a checkpoint failed: {error}"))?;
    let end: Vec<_> = keys.clone().map(|key| stage.expected.get(family, key)).collect();
    drop(handle);
    let copy = open_copy(&path)?;
    let name = stage::name(family);
    let handle = copy.column_family(&name).ok_or_else(|| format!("the checkpoint has no family '{name}'"))?;
    for (key, cells) in keys.zip(begin.into_iter().zip(end)) {
        let found = copy.get_cf(&handle, values::key(key));
        let found = found.map_err(|error| format!("a read of a checkpoint failed: {error}"))?;
        let base = looks::base_of(stage, family, key, found.as_deref())?;
        looks::compatible(family, key, cells, base, "Checkpoint verification")?;
    }
    drop(handle);
    copy.close().map_err(|error| format!("closing a checkpoint: {error}"))?;
    std::fs::remove_dir_all(&path).map_err(|error| format!("could not remove {}: {error}", path.display()))
}

fn open_copy(path: &Path) -> Result<Db, Wrong> {
    let mut options = DbOptions::default();
    options.column_family.num_levels = 12;
    options.create_if_missing = false;
    Db::open_read_only(path, options).map_err(|error| format!("a checkpoint does not open: {error}"))
}

/// Drops a family with all its keys and makes it again. `default` cannot be dropped.
pub(super) fn clear_family(worker: &mut Worker<'_, '_>) -> Result<(), Wrong> {
    let stage: &Stage<'_> = worker.stage;
    let families = stage.expected.families();
    if families < 2 {
        return Ok(());
    }
    let family = 1 + worker.below(families - 1);
    let mut handle = stage.family_alone(family);
    stage.expected.set_clearing(family, true)?;
    stage
        .db
        .drop_column_family(&handle)
        .map_err(|error| format!("a family could not be dropped: {error}"))?;
    let made = stage.db.create_column_family(&stage::name(family), stage.new_family_options(family));
    *handle = made.map_err(|error| format!("a family could not be made again: {error}"))?;
    stage.expected.clear(family)?;
    stage.expected.set_clearing(family, false)
}

/// Keys of a burst.
const BURST: u64 = 16;

fn burst_key(thread: u64, at: u64) -> Vec<u8> {
    // Behind every key of the oracle.
    format!("burst-{thread:03}-{at:02}").into_bytes()
}

/// The generation that a burst's value is of, if it is whole.
fn generation(value: &[u8]) -> Option<u64> {
    let first = value.get(..8)?;
    let whole = value.len().is_multiple_of(8) && value.chunks_exact(8).all(|word| word == first);
    whole.then(|| u64::from_le_bytes(first.try_into().unwrap_or_default()))
}

/// Writes a few large values in one batch, which fills a small quota at once. Before that, all of them are of one generation: the
/// thread's last burst, or that of a run before this one, as a whole.
pub(super) fn burst(worker: &mut Worker<'_, '_>) -> Result<(), Wrong> {
    let stage = worker.stage;
    let handle = stage.family(0);
    let mut found = Vec::new();
    for at in 0..BURST {
        let value = stage.db.get_cf(&handle, burst_key(worker.thread, at));
        let value = value.map_err(|error| format!("a read of a burst failed: {error}"))?;
        let whole = |value: &[u8]| {
            generation(value).ok_or_else(|| format!("a value of a burst is not whole: {} bytes", value.len()))
        };
        found.push(value.as_deref().map(whole).transpose()?);
    }
    if let Some(other) = found.iter().position(|generation| *generation != found[0]) {
        return Err(format!(
            "half a burst of thread {}: key 0 is of {:?}, key {other} of {:?}",
            worker.thread, found[0], found[other]
        ));
    }
    if let Some(last) = worker.bursts
        && found[0] != Some(last)
    {
        return Err(format!("thread {} wrote burst {last} and found {:?}", worker.thread, found[0]));
    }
    let next = found[0].map_or(1, |generation| generation + 1);
    let words = 1 + worker.below(6 << 10) as usize;
    let mut batch = WriteBatch::new();
    for at in 0..BURST {
        batch.put_cf(&handle, burst_key(worker.thread, at), next.to_le_bytes().repeat(words));
    }
    if worker.commit(batch)? {
        worker.bursts = Some(next);
    }
    Ok(())
}
