//! Which files to compact next, leveled: [`Picker`]. Pure over a version, its score and what is running.
//!
//! L0 goes into the base level in groups of files that overlap, directly or through others: a file may only sink
//! when every older file that shares a key with it sinks too. When the base level is busy, the newest L0 files
//! are merged into one. From a level that is too large the file goes that costs least: fewest bytes below for
//! its own; among equals the one after the level's cursor.
//!
//! No file is picked that is being compacted, nor an output range that a running compaction writes.
//! Neighbours that share a boundary user key travel together. How a pick is run is not known here.

use std::sync::Arc;

use super::score::Score;
use super::{Compaction, Inputs, Reason, Running, hull};
use crate::options::ColumnFamilyOptions;
use crate::version::{FileMeta, Version};

/// A compaction takes further upper files for free only up to this many target file sizes.
pub(super) const MAX_COMPACTION_FILES: u64 = 25;
/// Fewest L0 files that are worth merging into one.
const LEAST_WITHIN_L0: usize = 4;

/// Where in each level the last compaction ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cursors {
    /// By level: the largest user key that was compacted last.
    ends: Vec<Box<[u8]>>,
}

impl Cursors {
    /// Remembers where this compaction ends, so that the next one of its level goes on from there.
    pub(crate) fn advance(&mut self, picked: &Compaction) {
        let Some(Inputs { level, files }) = picked.inputs().first() else {
            return;
        };
        if self.ends.len() <= *level {
            self.ends.resize(level + 1, Box::default());
        }
        self.ends[*level] = hull(files).map_or_else(Box::default, |(_, to)| to.into());
    }

    fn end(&self, level: usize) -> &[u8] {
        self.ends.get(level).map_or(&[], |end| end)
    }
}

/// What is needed to pick.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Picker<'a> {
    pub(crate) version: &'a Arc<Version>,
    pub(crate) options: &'a ColumnFamilyOptions,
    pub(crate) cursors: &'a Cursors,
    /// The compactions of this column family that run now.
    pub(crate) running: &'a [Running],
}

impl Picker<'_> {
    /// The most useful compaction of a level that can start now, if any is due.
    pub(super) fn by_level(&self, score: &Score) -> Option<Compaction> {
        score.due_levels().into_iter().find_map(|level| match level {
            0 => self.l0(score.targets().base_level()).or_else(|| self.within_l0()),
            _ => self.level(level),
        })
    }

    /// The group of overlapping L0 files with most members, into the base level.
    fn l0(&self, base: usize) -> Option<Compaction> {
        let mut groups = overlapping_groups(self.version.files(0));
        // The last member of a group is its oldest.
        let age = |group: &[Arc<FileMeta>]| group.last().map(|file| file.largest_seq);
        groups.sort_by_key(|group| (std::cmp::Reverse(group.len()), age(group)));
        groups.into_iter().find_map(|files| self.assemble(Reason::L0, Inputs { level: 0, files }, base))
    }

    /// The newest L0 files into one, as long as each further file makes it cheaper to lose a file.
    pub(super) fn within_l0(&self) -> Option<Compaction> {
        if self.running.iter().any(|running| running.output_level == 0) {
            return None;
        }
        let files = self.version.files(0);
        let idle = files.iter().take_while(|file| !file.is_being_compacted()).count();
        let (mut bytes, mut count, mut cost) = (0, 0, u64::MAX);
        for file in &files[..idle] {
            let with_it = (bytes + file.size) / (count as u64).max(1);
            if count > 1 && with_it > cost {
                break;
            }
            (bytes, count, cost) = (bytes + file.size, count + 1, with_it);
        }
        if count < LEAST_WITHIN_L0 {
            return None;
        }
        let upper = Inputs { level: 0, files: files[..count].to_vec() };
        Some(Compaction::new(self.version, self.options, Reason::WithinL0, upper, 0, Vec::new()))
    }

    /// The cheapest file of a level into the next one.
    fn level(&self, level: usize) -> Option<Compaction> {
        let files = self.version.files(level);
        let below = overlapping_bytes(files, self.version.files(level + 1));
        let cost = |at: usize| {
            let file = &files[at];
            // A tombstone is worth sinking: it frees what it hides.
            let dead = u128::from(file.size) * u128::from(file.tombstones) / u128::from(file.entries.max(1));
            below[at] as f64 / (file.size as f64 + dead as f64).max(1.0)
        };
        let behind = |at: usize| files[at].smallest_user_key() <= self.cursors.end(level);
        let mut order: Vec<_> = (0..files.len()).filter(|&at| !files[at].is_being_compacted()).collect();
        order.sort_by(|&a, &b| cost(a).total_cmp(&cost(b)).then(behind(a).cmp(&behind(b))));
        order.into_iter().find_map(|at| {
            let file = &files[at];
            let upper = widened(self.version, level, file.smallest_user_key(), file.largest_user_key());
            let picked = self.assemble(Reason::LevelSize, Inputs { level, files: upper }, level + 1)?;
            Some(self.grown(&picked).unwrap_or(picked))
        })
    }

    /// The same with more upper files, where that costs no further file below.
    fn grown(&self, picked: &Compaction) -> Option<Compaction> {
        let [upper, lower] = picked.inputs() else {
            return None;
        };
        let (from, to) = picked.user_range();
        let files = widened(self.version, upper.level, from, to);
        let bytes = files.iter().chain(&lower.files).map(|file| file.size).sum::<u64>();
        let most = picked.target_file_size().saturating_mul(MAX_COMPACTION_FILES);
        if files.len() == upper.files.len() || bytes > most {
            return None;
        }
        let grown = self.assemble(picked.reason(), Inputs { level: upper.level, files }, lower.level)?;
        (grown.inputs().get(1)?.files.len() == lower.files.len()).then_some(grown)
    }

    /// `upper` and all that overlaps it in the level `output`; `None` if any of it is busy.
    pub(super) fn assemble(&self, reason: Reason, upper: Inputs, output: usize) -> Option<Compaction> {
        let (from, to) = hull(&upper.files)?;
        let lower = if upper.level == output { Vec::new() } else { widened(self.version, output, from, to) };
        if upper.files.iter().chain(&lower).any(|file| file.is_being_compacted()) {
            return None;
        }
        let (from, to) = hull(upper.files.iter().chain(&lower))?;
        if self.running.iter().any(|running| running.overlaps(output, from, to)) {
            return None;
        }
        Some(Compaction::new(self.version, self.options, reason, upper, output, lower))
    }
}

/// Files of a level below L0 that may hold a user key of `from..=to`, and the neighbours that share a boundary
/// user key with them: a clean cut.
pub(super) fn widened(version: &Version, level: usize, from: &[u8], to: &[u8]) -> Vec<Arc<FileMeta>> {
    let files = version.files(level);
    let mut start = files.partition_point(|file| file.largest_user_key() < from);
    let mut end = files.partition_point(|file| file.smallest_user_key() <= to);
    if start >= end {
        return Vec::new();
    }
    while start > 0 && files[start - 1].largest_user_key() == files[start].smallest_user_key() {
        start -= 1;
    }
    while end < files.len() && files[end].smallest_user_key() == files[end - 1].largest_user_key() {
        end += 1;
    }
    files[start..end].to_vec()
}

/// Splits L0 files into groups such that files of different groups do not overlap. In each the newest comes
/// first, as in L0.
pub(super) fn overlapping_groups(files: &[Arc<FileMeta>]) -> Vec<Vec<Arc<FileMeta>>> {
    let mut by_start: Vec<_> = files.iter().enumerate().collect();
    by_start.sort_by_key(|(_, file)| file.smallest_user_key());
    let mut groups: Vec<Vec<(usize, &Arc<FileMeta>)>> = Vec::new();
    let mut end: &[u8] = &[];
    for (age, file) in by_start {
        match groups.last_mut() {
            Some(group) if file.smallest_user_key() <= end => group.push((age, file)),
            _ => groups.push(vec![(age, file)]),
        }
        end = end.max(file.largest_user_key());
    }
    let in_age_order = |mut group: Vec<(usize, &Arc<FileMeta>)>| {
        group.sort_by_key(|&(age, _)| age);
        group.into_iter().map(|(_, file)| Arc::clone(file)).collect()
    };
    groups.into_iter().map(in_age_order).collect()
}

/// Of each file of a level the bytes of the files of the next one that overlap it.
fn overlapping_bytes(files: &[Arc<FileMeta>], next: &[Arc<FileMeta>]) -> Vec<u64> {
    let mut start = 0;
    let of_file = |file: &Arc<FileMeta>| {
        start += next[start..]
            .iter()
            .take_while(|below| below.largest_user_key() < file.smallest_user_key())
            .count();
        let reached =
            next[start..].iter().take_while(|below| below.smallest_user_key() <= file.largest_user_key());
        reached.map(|below| below.size).sum()
    };
    files.iter().map(of_file).collect()
}

#[cfg(test)]
mod tests;
