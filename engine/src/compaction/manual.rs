//! Compacting a range because somebody asked: [`ManualCompaction`].
//!
//! Works level by level: first the L0 files of the range (with all that overlap them) into the base level, then
//! each level into the next, in units of bounded size, down to the last level that holds the range. There, if
//! asked, files that this compaction did not make itself are rewritten in place, which rids them of tombstones
//! and hidden versions.
//!
//! One value, stepped by its owner: [`next`](ManualCompaction::next) picks over the present version, the owner
//! runs and installs, then says [`completed`](ManualCompaction::completed). How that is done is not known here.

use std::sync::Arc;

use super::leveled::{Cursors, MAX_COMPACTION_FILES, Picker, overlapping_groups, widened};
use super::score::LevelTargets;
use super::{Compaction, Inputs, Reason, Running, hull};
use crate::options::ColumnFamilyOptions;
use crate::version::{FileMeta, FileNumber, Version};

/// What becomes of files that are in the last level already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BottomLevel {
    /// They stay, unless something from above is merged into them.
    Keep,
    /// They are rewritten, so that tombstones and hidden versions go.
    Rewrite,
}

/// What a manual compaction does next.
#[derive(Debug)]
pub(crate) enum ManualStep {
    /// Run this, install it, then call [`ManualCompaction::completed`].
    Run(Box<Compaction>),
    /// Files that it needs are being compacted: ask again when a running compaction has ended.
    Busy,
    /// The range is compacted.
    Done,
}

/// A range on its way down.
#[derive(Debug)]
pub(crate) struct ManualCompaction {
    from: Option<Box<[u8]>>,
    to: Option<Box<[u8]>>,
    bottom: BottomLevel,
    /// Files numbered from here on came later, or are its own.
    next_file: FileNumber,
    /// The level that is being emptied.
    level: usize,
    /// In that level, all up to this user key is done.
    done_to: Option<Box<[u8]>>,
    /// The last level that holds the range.
    last: usize,
}

impl ManualCompaction {
    /// A compaction of the user keys `from..=to`; `None` is unbounded. `next_file` is the number that the next
    /// new file will get, taken after the flush that goes before.
    pub(crate) fn new(
        version: &Version,
        options: &ColumnFamilyOptions,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        bottom: BottomLevel,
        next_file: FileNumber,
    ) -> Self {
        let holds_range = |level: &usize| version.files(*level).iter().any(|file| file.overlaps(from, to));
        let deepest = (0..version.num_levels()).rev().find(holds_range).unwrap_or(0);
        let last = deepest.max(LevelTargets::new(version, options).base_level());
        let (from, to) = (from.map(Into::into), to.map(Into::into));
        Self { from, to, bottom, next_file, level: 0, done_to: None, last }
    }

    /// The next unit of work over the present version.
    pub(crate) fn next(
        &mut self,
        version: &Arc<Version>,
        options: &ColumnFamilyOptions,
        running: &[Running],
    ) -> ManualStep {
        let picker = Picker { version, options, cursors: &Cursors::default(), running };
        loop {
            let (files, output) = if self.level == 0 {
                (self.l0_group(version), LevelTargets::new(version, options).base_level())
            } else if self.level < self.last {
                (self.unit(version, options, |_| true), self.level + 1)
            } else if self.level == self.last && self.bottom == BottomLevel::Rewrite {
                (self.unit(version, options, |file| file.number < self.next_file), self.level)
            } else {
                return ManualStep::Done;
            };
            if !files.is_empty() {
                let upper = Inputs { level: self.level, files };
                let picked = picker.assemble(Reason::Manual, upper, output);
                return picked.map_or(ManualStep::Busy, |picked| ManualStep::Run(Box::new(picked)));
            }
            self.level += 1;
            self.done_to = None;
        }
    }

    /// The unit that [`next`](Self::next) gave is installed.
    pub(crate) fn completed(&mut self, unit: &Compaction) {
        if self.level > 0 {
            let upper = unit.inputs().first().and_then(|inputs| hull(&inputs.files));
            self.done_to = upper.map(|(_, to)| to.into());
        }
    }

    /// L0 files that overlap one another, one of them in the range and old enough.
    fn l0_group(&self, version: &Version) -> Vec<Arc<FileMeta>> {
        let wanted = |file: &Arc<FileMeta>| self.touches(file) && file.number < self.next_file;
        let mut groups = overlapping_groups(version.files(0)).into_iter();
        groups.find(|group| group.iter().any(wanted)).unwrap_or_default()
    }

    /// The first wanted files of the present level that are not done yet, side by side, of bounded size.
    fn unit(
        &self,
        version: &Version,
        options: &ColumnFamilyOptions,
        wanted: impl Fn(&FileMeta) -> bool,
    ) -> Vec<Arc<FileMeta>> {
        let most = options.target_file_size(self.level).saturating_mul(MAX_COMPACTION_FILES);
        let done =
            |file: &FileMeta| self.done_to.as_ref().is_some_and(|done| file.largest_user_key() <= &**done);
        let wanted = |file: &&Arc<FileMeta>| self.touches(file) && !done(file) && wanted(file);
        let mut bytes = 0;
        let fits = |file: &&Arc<FileMeta>| {
            let first = bytes == 0;
            bytes += file.size;
            first || bytes <= most
        };
        let files = version.files(self.level).iter().skip_while(|file| !wanted(file));
        let files: Vec<_> = files.take_while(wanted).take_while(fits).cloned().collect();
        hull(&files).map_or_else(Vec::new, |(from, to)| widened(version, self.level, from, to))
    }

    fn touches(&self, file: &FileMeta) -> bool {
        file.overlaps(self.from.as_deref(), self.to.as_deref())
    }
}

#[cfg(test)]
mod tests;
