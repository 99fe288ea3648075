//! Size-tiered compaction, and lazy leveling, which is size-tiered above a leveled last level.
//!
//! The version is seen as sorted *runs*, newest first: each L0 file is one, each deeper level that holds files is one.
//! Only neighbours are merged, so that a newer entry never comes to lie behind an older one:
//!
//! ```text
//!   runs, newest first    L0 f9 | L0 f7 | L0 f4 | L5 | L6
//!   merged                       [L0 f7 + L0 f4]          -> L4: the level above the next older run
//!                         [ all of them             ]     -> L6: the last one
//! ```
//!
//! What is merged up to an L0 file goes into one L0 file in its place; what is merged up to a level goes into the level
//! above the next older run, which is empty; what is merged to the end goes into the last level. So the invariants of
//! [`Version`] hold as with levels: L0 by age, files of a deeper level side by side, deeper is older. A family may
//! change its style from open to open.
//!
//! With lazy leveling the last level is no run. The runs above it are merged among themselves, and into it once they have
//! grown to its size divided by `max_bytes_for_level_multiplier`.

use super::leveled::Picker;
use super::{Compaction, Inputs, Reason};
use crate::options::{ColumnFamilyOptions, CompactionStyle};
use crate::version::{FileMeta, Version};
use std::sync::Arc;

/// One sorted run.
#[derive(Debug, Clone, Copy)]
struct Run<'a> {
    level: usize,
    files: &'a [Arc<FileMeta>],
}

impl Run<'_> {
    fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    fn is_busy(&self) -> bool {
        self.files.iter().any(|file| file.is_being_compacted())
    }
}

/// The runs that are merged among themselves, newest first.
fn runs<'a>(version: &'a Version, options: &ColumnFamilyOptions) -> Vec<Run<'a>> {
    let last = version.num_levels() - 1;
    let end = if options.compaction_style == CompactionStyle::LazyLeveled { last } else { last + 1 };
    let of_l0 = version.files(0).iter().map(|file| Run { level: 0, files: std::slice::from_ref(file) });
    let deeper = (1..end).map(|level| Run { level, files: version.files(level) });
    of_l0.chain(deeper.filter(|run| !run.files.is_empty())).collect()
}

/// Runs at which a compaction is due.
fn trigger(options: &ColumnFamilyOptions) -> usize {
    options.level0_file_num_compaction_trigger.max(2) as usize
}

/// How urgent a compaction is; 1 and more is due. Runs that are being compacted do not count.
pub(super) fn urgency(version: &Version, options: &ColumnFamilyOptions) -> f64 {
    let idle = runs(version, options).iter().filter(|run| !run.is_busy()).count();
    idle as f64 / trigger(options) as f64
}

/// Bytes that the next compactions will rewrite about: all runs but the oldest, once there are too many.
pub(super) fn pending_bytes(version: &Version, options: &ColumnFamilyOptions) -> u64 {
    let runs = runs(version, options);
    if runs.len() < trigger(options) {
        return 0;
    }
    runs[..runs.len() - 1].iter().map(Run::bytes).sum()
}

/// The most useful merge that can start now, if there are too many runs.
pub(super) fn pick(picker: &Picker<'_>) -> Option<Compaction> {
    let (version, options) = (picker.version, picker.options);
    let all = runs(version, options);
    if !picker.running.is_empty() || all.iter().any(Run::is_busy) {
        // A long merge below must not keep new files of L0 from being merged.
        return picker.within_l0();
    }
    if all.len() < trigger(options) {
        return None;
    }
    if options.compaction_style == CompactionStyle::LazyLeveled {
        if fills_last_level(version, options, &all) {
            return everything(picker);
        }
    } else if wastes_space(options, &all) {
        return everything(picker);
    }
    let (from, to) =
        by_size(options, &all).unwrap_or_else(|| most_alike(&all, all.len() + 2 - trigger(options)));
    merge(picker, Reason::Runs, &all, from, to)
}

/// All runs, the last level included, into the last level.
pub(super) fn everything(picker: &Picker<'_>) -> Option<Compaction> {
    let version = picker.version;
    let inputs: Vec<Inputs> = (0..version.num_levels())
        .map(|level| Inputs { level, files: version.files(level).to_vec() })
        .filter(|inputs| !inputs.files.is_empty())
        .collect();
    let is_busy = inputs.iter().flat_map(|inputs| &inputs.files).any(|file| file.is_being_compacted());
    if inputs.is_empty() || is_busy || !picker.running.is_empty() {
        return None;
    }
    let last = version.num_levels() - 1;
    Some(Compaction::of_inputs(version, picker.options, Reason::AllRuns, inputs, last))
}

/// The newer runs are so large beside the oldest that too much of it may be dead.
fn wastes_space(options: &ColumnFamilyOptions, all: &[Run<'_>]) -> bool {
    let [newer @ .., oldest] = all else { return false };
    let newer: u128 = newer.iter().map(|run| u128::from(run.bytes())).sum();
    let limit = u128::from(options.universal_max_size_amplification_percent);
    newer * 100 >= u128::from(oldest.bytes()) * limit
}

/// The runs above the last level have grown enough to be merged into it.
fn fills_last_level(version: &Version, options: &ColumnFamilyOptions, upper: &[Run<'_>]) -> bool {
    let upper: u64 = upper.iter().map(Run::bytes).sum();
    let last = version.level_bytes(version.num_levels() - 1);
    upper as f64 * options.max_bytes_for_level_multiplier >= last as f64
}

/// The newest neighbours of which each is at most a little larger than all before it together.
fn by_size(options: &ColumnFamilyOptions, all: &[Run<'_>]) -> Option<(usize, usize)> {
    let most = 100 + u128::from(options.universal_size_ratio);
    (0..all.len()).find_map(|from| {
        let (mut bytes, mut to) = (u128::from(all[from].bytes()), from + 1);
        while to < all.len() && u128::from(all[to].bytes()) * 100 <= bytes * most {
            bytes += u128::from(all[to].bytes());
            to += 1;
        }
        (to - from >= options.universal_min_merge_width as usize).then_some((from, to))
    })
}

/// `width` neighbours, those of which the second is smallest beside the first. Always to merge the newest would rewrite
/// a large run again and again for a little that comes to it; so sizes become a ladder.
fn most_alike(all: &[Run<'_>], width: usize) -> (usize, usize) {
    let steepness = |from: &usize| all[from + 1].bytes() as f64 / all[*from].bytes().max(1) as f64;
    let starts = 0..=all.len() - width;
    let from = starts.min_by(|a, b| steepness(a).total_cmp(&steepness(b))).unwrap_or(0);
    (from, from + width)
}

/// The runs `from..to` as one.
fn merge(picker: &Picker<'_>, reason: Reason, all: &[Run<'_>], from: usize, to: usize) -> Option<Compaction> {
    let last = picker.version.num_levels() - 1;
    let is_lazy = picker.options.compaction_style == CompactionStyle::LazyLeveled;
    let output = match all.get(to) {
        Some(older) => older.level.saturating_sub(1),
        None if is_lazy => last - 1,
        None => last,
    };
    let mut inputs: Vec<Inputs> = Vec::new();
    for run in all.get(from..to)? {
        match inputs.last_mut() {
            Some(same) if same.level == run.level => same.files.extend_from_slice(run.files),
            _ => inputs.push(Inputs { level: run.level, files: run.files.to_vec() }),
        }
    }
    Some(Compaction::of_inputs(picker.version, picker.options, reason, inputs, output))
}

#[cfg(test)]
mod tests;
