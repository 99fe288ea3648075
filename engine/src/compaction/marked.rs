//! Work that no level's size asks for: files full of tombstones, and files past their age.
//!
//! A scan steps over every tombstone, so a file in which they are dense is compacted soon, whatever its level: into the
//! next one while something below may hold its keys, else in place, where they go for good. A file older than
//! `periodic_compaction_seconds` is rewritten, so that a compaction filter meets every entry in time. With the styles that
//! keep runs, age means that all runs are merged; tombstones go with the runs there.
//!
//! Every pick makes progress: a file sinks, loses its tombstones, or becomes young. Such work comes after all that
//! levels ask for.

use super::leveled::{Picker, overlapping_groups, widened};
use super::score::LevelTargets;
use super::{Compaction, Inputs, Reason, fifo, tiered};
use crate::key::SequenceNumber;
use crate::options::CompactionStyle;
use crate::version::FileMeta;

/// Fewest tombstones for which a file is compacted because of them.
const LEAST_TOMBSTONES: u64 = 100;

/// The moment at which is picked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// Wall time, microseconds since 1970.
    pub(crate) now_micros: u64,
    /// Tombstones up to this sequence are needed by no snapshot.
    pub(crate) oldest_snapshot: SequenceNumber,
}

impl Picker<'_> {
    /// A compaction that tombstones or age ask for, if one can start now.
    pub(crate) fn marked(&self, moment: Moment) -> Option<Compaction> {
        match self.options.compaction_style {
            CompactionStyle::Leveled => self.dense(moment).or_else(|| self.aged(moment)),
            CompactionStyle::SizeTiered | CompactionStyle::LazyLeveled => {
                let is_due = self.version.all_files().any(|(_, file)| self.is_aged(file, moment));
                if is_due { tiered::everything(self) } else { None }
            }
            CompactionStyle::Fifo => fifo::expired(self, moment.now_micros),
        }
    }

    fn dense(&self, moment: Moment) -> Option<Compaction> {
        let percent = u128::from(self.options.tombstone_density_percent);
        self.rewrite(Reason::Tombstones, |level, file| {
            let is_dense = percent > 0
                && file.tombstones >= LEAST_TOMBSTONES
                && u128::from(file.tombstones) * 100 >= u128::from(file.entries) * percent;
            // In place they go only if no snapshot needs them; on the way down they need not go.
            is_dense && (file.largest_seq <= moment.oldest_snapshot || !self.version.ends_at(level, file))
        })
    }

    fn aged(&self, moment: Moment) -> Option<Compaction> {
        self.rewrite(Reason::Periodic, |_, file| self.is_aged(file, moment))
    }

    fn is_aged(&self, file: &FileMeta, moment: Moment) -> bool {
        let due = due_micros(file, self.options.periodic_compaction_seconds);
        due.is_some_and(|due| due <= moment.now_micros)
    }

    /// The first wanted file that is free, upper levels first, with what must go with it.
    fn rewrite(&self, reason: Reason, wanted: impl Fn(usize, &FileMeta) -> bool) -> Option<Compaction> {
        for level in 0..self.version.num_levels() {
            let files = self.version.files(level).iter();
            for file in files.filter(|file| !file.is_being_compacted() && wanted(level, file)) {
                let picked = if level == 0 {
                    let mut groups = overlapping_groups(self.version.files(0)).into_iter();
                    let holds = |other: &std::sync::Arc<FileMeta>| other.number == file.number;
                    let files = groups.find(|group| group.iter().any(holds))?;
                    let base = LevelTargets::new(self.version, self.options).base_level();
                    self.assemble(reason, Inputs { level, files }, base)
                } else {
                    let in_place = reason == Reason::Periodic || self.version.ends_at(level, file);
                    let (from, to) = (file.smallest_user_key(), file.largest_user_key());
                    let files = widened(self.version, level, from, to);
                    let output = if in_place { level } else { level + 1 };
                    self.assemble(reason, Inputs { level, files }, output)
                };
                if picked.is_some() {
                    return picked;
                }
            }
        }
        None
    }
}

/// Wall time at which a file is due for its age, in microseconds; `None` for a period of 0, which is never.
pub(crate) fn due_micros(file: &FileMeta, seconds: u64) -> Option<u64> {
    (seconds > 0).then(|| file.created_micros.saturating_add(seconds.saturating_mul(1_000_000)))
}

#[cfg(test)]
mod tests;
