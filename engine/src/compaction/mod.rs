//! Compaction: merging files into the level below, so that reads look into few files and dead entries go.
//!
//! [`score`] says how urgent each level is and how much work waits. Pickers choose files and make a [`Compaction`] of
//! them: [`leveled`], [`tiered`] or [`fifo`] by the family's [`CompactionStyle`], [`marked`] for tombstones and age,
//! [`manual`] for a caller. [`job`] runs it: [`gc`] decides which entries may go, [`filter`] what else a family wants gone,
//! [`output`] cuts what stays into files.
//!
//! A [`Compaction`] is a plain value over one immutable [`Version`]. Whoever schedules it marks its files with
//! [`Compaction::mark`] under the state lock, passes the [`Running`] ranges of all others to the picker, and
//! installs the result. Nothing here takes a lock or knows the manifest.

use std::fmt;
use std::sync::Arc;

use crate::options::{ColumnFamilyOptions, CompactionStyle};
use crate::version::{FileMeta, Version};

mod fifo;
pub(crate) mod filter;
pub(crate) mod gc;
pub(crate) mod job;
pub(crate) mod leveled;
pub(crate) mod manual;
pub(crate) mod marked;
pub(crate) mod output;
pub(crate) mod score;
#[cfg(test)]
pub(crate) mod stub;
mod tiered;

use self::leveled::Picker;
use self::score::Score;

/// An output overlaps at most this many target file sizes of the level below it, so that compacting it in turn
/// stays a small unit.
const GRANDPARENT_OVERLAP_FILES: u64 = 10;

/// Why a compaction was picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// L0 has too many runs.
    L0,
    /// L0 has too many runs and the level below is busy: L0 files are merged into one.
    WithinL0,
    /// A level is larger than its target.
    LevelSize,
    /// A caller asked for a range.
    Manual,
    /// Tombstones are dense in a file.
    Tombstones,
    /// A file is past its age.
    Periodic,
    /// There are too many runs.
    Runs,
    /// All runs are merged: they waste space, or they fill the last level, or one is past its age.
    AllRuns,
    /// There are too many bytes.
    Size,
}

/// Files of one level that take part in a compaction, in the level's order.
#[derive(Debug, Clone)]
pub(crate) struct Inputs {
    pub(crate) level: usize,
    pub(crate) files: Vec<Arc<FileMeta>>,
}

/// What a running compaction occupies: the user keys `smallest..=largest` of its output level.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    pub(crate) output_level: usize,
    pub(crate) smallest: Box<[u8]>,
    pub(crate) largest: Box<[u8]>,
}

impl Running {
    pub(crate) fn overlaps(&self, level: usize, from: &[u8], to: &[u8]) -> bool {
        self.output_level == level && &*self.smallest <= to && &*self.largest >= from
    }
}

/// What to do with the bytes of the inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// The files change their level as they are.
    Move,
    /// The entries are merged into new files.
    Merge,
    /// The files go, and all that they hold.
    Drop,
}

/// Which files go where. Chosen by a picker, run by [`job::run`].
#[derive(Debug, Clone)]
pub(crate) struct Compaction {
    version: Arc<Version>,
    reason: Reason,
    /// Not empty; upper level first; no level twice, none without files.
    inputs: Vec<Inputs>,
    output_level: usize,
    work: Work,
    /// Files of the level below the output that overlap the inputs.
    grandparents: Vec<Arc<FileMeta>>,
    target_file_size: u64,
}

impl Compaction {
    /// A compaction of `upper` and of the files `lower` of the output level.
    ///
    /// `upper` must be closed: no file outside of it and older than one of it, in its level or in between, holds
    /// a user key of its files.
    fn new(
        version: &Arc<Version>,
        options: &ColumnFamilyOptions,
        reason: Reason,
        upper: Inputs,
        output_level: usize,
        lower: Vec<Arc<FileMeta>>,
    ) -> Self {
        let mut inputs = vec![upper];
        if !lower.is_empty() {
            inputs.push(Inputs { level: output_level, files: lower });
        }
        Self::of_inputs(version, options, reason, inputs, output_level)
    }

    /// A compaction of files of several levels, upper level first. They must be closed, as above, and the levels between
    /// the deepest of them and the output level must be empty.
    fn of_inputs(
        version: &Arc<Version>,
        options: &ColumnFamilyOptions,
        reason: Reason,
        inputs: Vec<Inputs>,
        output_level: usize,
    ) -> Self {
        debug_assert!(!inputs.is_empty() && inputs.iter().all(|inputs| !inputs.files.is_empty()));
        let target_file_size =
            if output_level == 0 { u64::MAX } else { options.target_file_size(output_level) };
        let (version, grandparents) = (Arc::clone(version), Vec::new());
        let work = Work::Merge;
        let mut made = Self { version, reason, inputs, output_level, work, grandparents, target_file_size };
        if output_level > 0 {
            let (from, to) = made.user_range();
            made.grandparents = made.version.overlapping(output_level + 1, Some(from), Some(to));
        }
        if made.may_move(options) {
            made.work = Work::Move;
        }
        made
    }

    /// The end of these files, which must be older than all others of the version that hold their keys.
    fn dropping(version: &Arc<Version>, reason: Reason, inputs: Vec<Inputs>) -> Self {
        let output_level = inputs.last().map_or(0, |inputs| inputs.level);
        let (version, grandparents, target_file_size) = (Arc::clone(version), Vec::new(), u64::MAX);
        Self { version, reason, inputs, output_level, work: Work::Drop, grandparents, target_file_size }
    }

    /// Whether the files can change level as they are: nothing to merge with, the same codec, no tombstone that
    /// a merge would drop for good, no filter that is to see every entry, and not too much below.
    fn may_move(&self, options: &ColumnFamilyOptions) -> bool {
        let [only] = &*self.inputs else {
            return false;
        };
        let from = only.level;
        let is_to_rewrite = match self.reason {
            Reason::Periodic => true,
            Reason::Manual => options.compaction_filter.is_some(),
            _ => false,
        };
        let disjoint = from > 0 || only.files.len() == 1;
        let below: u64 = self.grandparents.iter().map(|file| file.size).sum();
        let ends_here = (self.output_level + 1..self.version.num_levels())
            .all(|level| self.version.files(level).iter().all(|file| !self.overlaps(file)));
        let loses_tombstones = ends_here && only.files.iter().any(|file| file.tombstones > 0);
        !is_to_rewrite
            && from != self.output_level
            && disjoint
            && below <= self.max_grandparent_overlap()
            && options.compression_at(from) == options.compression_at(self.output_level)
            && !loses_tombstones
    }

    fn overlaps(&self, file: &FileMeta) -> bool {
        let (from, to) = self.user_range();
        file.overlaps(Some(from), Some(to))
    }

    pub(crate) fn reason(&self) -> Reason {
        self.reason
    }

    /// Inputs by level, upper level first.
    pub(crate) fn inputs(&self) -> &[Inputs] {
        &self.inputs
    }

    /// All input files with their level: what an edit removes.
    pub(crate) fn input_files(&self) -> impl Iterator<Item = (usize, &Arc<FileMeta>)> {
        self.inputs.iter().flat_map(|inputs| inputs.files.iter().map(|file| (inputs.level, file)))
    }

    pub(crate) fn input_bytes(&self) -> u64 {
        self.input_files().map(|(_, file)| file.size).sum()
    }

    pub(crate) fn output_level(&self) -> usize {
        self.output_level
    }

    /// Whether the input files just change their level: an edit, no job.
    pub(crate) fn is_trivial_move(&self) -> bool {
        self.work == Work::Move
    }

    /// Whether the input files just go: an edit, no job.
    pub(crate) fn is_drop(&self) -> bool {
        self.work == Work::Drop
    }

    /// Size at which an output is cut.
    pub(crate) fn target_file_size(&self) -> u64 {
        self.target_file_size
    }

    /// Files below the output level that overlap, by smallest key.
    pub(crate) fn grandparents(&self) -> &[Arc<FileMeta>] {
        &self.grandparents
    }

    /// Bytes of grandparents that one output may overlap.
    pub(crate) fn max_grandparent_overlap(&self) -> u64 {
        self.target_file_size.saturating_mul(GRANDPARENT_OVERLAP_FILES)
    }

    /// Smallest and largest user key of all inputs.
    pub(crate) fn user_range(&self) -> (&[u8], &[u8]) {
        hull(self.inputs.iter().flat_map(|inputs| &inputs.files)).unwrap_or_default()
    }

    /// What others must keep out of while it runs.
    pub(crate) fn running(&self) -> Running {
        let (from, to) = self.user_range();
        Running { output_level: self.output_level, smallest: from.into(), largest: to.into() }
    }

    /// Marks its files as taken, or lets go of them. Under the state lock only.
    pub(crate) fn mark(&self, busy: bool) {
        for (_, file) in self.input_files() {
            file.set_being_compacted(busy);
        }
    }

    /// Answers, for ascending user keys, whether nothing below the outputs can hold a key.
    pub(crate) fn below(&self) -> Below<'_> {
        let deeper = self.output_level + 1..self.version.num_levels();
        let levels = deeper.map(|level| self.version.files(level)).filter(|files| !files.is_empty());
        Below { levels: levels.collect(), unknown: self.output_level == 0 }
    }
}

/// The files below the outputs of a compaction, as far as they are not behind the last key asked for.
#[derive(Debug)]
pub(crate) struct Below<'a> {
    levels: Vec<&'a [Arc<FileMeta>]>,
    /// The outputs lie in L0: older L0 files may hold any key.
    unknown: bool,
}

impl Below<'_> {
    /// Whether no file below can hold `user_key`. Keys must ascend from call to call.
    pub(crate) fn cannot_hold(&mut self, user_key: &[u8]) -> bool {
        if self.unknown {
            return false;
        }
        for files in &mut self.levels {
            while let [first, rest @ ..] = *files {
                if first.largest_user_key() >= user_key {
                    if first.smallest_user_key() <= user_key {
                        return false;
                    }
                    break;
                }
                *files = rest;
            }
        }
        true
    }
}

/// Smallest and largest user key of some files.
fn hull<'a>(files: impl IntoIterator<Item = &'a Arc<FileMeta>>) -> Option<(&'a [u8], &'a [u8])> {
    let ranges = files.into_iter().map(|file| (file.smallest_user_key(), file.largest_user_key()));
    ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

impl Picker<'_> {
    /// The most useful compaction that can start now, if the family's style calls for any.
    pub(crate) fn pick(&self, score: &Score) -> Option<Compaction> {
        match self.options.compaction_style {
            CompactionStyle::Leveled => self.by_level(score),
            CompactionStyle::SizeTiered | CompactionStyle::LazyLeveled => tiered::pick(self),
            CompactionStyle::Fifo => fifo::pick(self),
        }
    }
}

impl fmt::Display for Compaction {
    /// As in `L0[1 2 3]+L1[7] -> L1`, with ` (move)` behind a trivial move; `L0[1] (drop)` when files just go.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, inputs) in self.inputs.iter().enumerate() {
            let plus = if n == 0 { "" } else { "+" };
            let numbers: Vec<_> = inputs.files.iter().map(|file| file.number.0.to_string()).collect();
            write!(f, "{plus}L{}[{}]", inputs.level, numbers.join(" "))?;
        }
        if self.is_drop() {
            return f.write_str(" (drop)");
        }
        write!(f, " -> L{}", self.output_level)?;
        if self.is_trivial_move() { f.write_str(" (move)") } else { Ok(()) }
    }
}
