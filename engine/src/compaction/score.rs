//! How urgent each level is and how much work waits: [`Score`]. Pure over a version and options.
//!
//! A level below L0 has a target size; its score is its size against that. With dynamic level bytes the targets
//! follow from the largest level upwards, and the *base level*, into which L0 goes, is the first that has one;
//! levels between stay empty. L0 is scored by how many of its files overlap at one key: files that lie side by
//! side cost a reader nothing.
//!
//! The debt ([`Score::pending_bytes`]) and the depth of L0 feed two pressure sources of a column family
//! (`pressure` 3.2). How pressure becomes delay, and what is then picked, is not known here.

use super::{fifo, tiered};
use crate::options::{ColumnFamilyOptions, CompactionStyle};
use crate::version::Version;

/// L0 files, in multiples of the trigger, at which L0 is due even though few of them overlap.
const SIDE_BY_SIDE_FACTOR: f64 = 4.0;

/// How large each level should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LevelTargets {
    /// The level into which L0 is compacted.
    base_level: usize,
    /// Target bytes by level; `u64::MAX` above the base level.
    bytes: Vec<u64>,
}

impl LevelTargets {
    pub(crate) fn new(version: &Version, options: &ColumnFamilyOptions) -> Self {
        let levels = version.num_levels();
        let (mut base_level, mut base_bytes) = (1, options.max_bytes_for_level_base);
        if options.level_compaction_dynamic_level_bytes {
            (base_level, base_bytes) = dynamic_base(version, options);
        }
        let mut bytes = vec![u64::MAX; levels];
        let mut target = base_bytes as f64;
        for of_level in bytes.iter_mut().skip(base_level) {
            // A dynamic target below the base size would make levels smaller than what L0 brings at once.
            let least = if options.level_compaction_dynamic_level_bytes {
                options.max_bytes_for_level_base
            } else {
                0
            };
            *of_level = (target as u64).max(least);
            target *= options.max_bytes_for_level_multiplier;
        }
        Self { base_level, bytes }
    }

    pub(crate) fn base_level(&self) -> usize {
        self.base_level
    }

    /// Target bytes of a level below L0.
    pub(crate) fn bytes(&self, level: usize) -> u64 {
        self.bytes.get(level).copied().unwrap_or(u64::MAX)
    }
}

/// The base level and its bytes, such that the largest level is as large as it should be.
fn dynamic_base(version: &Version, options: &ColumnFamilyOptions) -> (usize, u64) {
    let last = version.num_levels() - 1;
    let sizes: Vec<u64> = (0..=last).map(|level| version.level_bytes(level)).collect();
    let first_used = (1..=last).find(|&level| sizes[level] > 0);
    let (Some(first_used), Some(&largest)) = (first_used, sizes[1..].iter().max()) else {
        return (last, u64::MAX);
    };
    let factor = options.max_bytes_for_level_multiplier;
    let most = options.max_bytes_for_level_base as f64;
    let mut level = last;
    let mut bytes = largest as f64;
    // Upwards from the last level, until every used level has a target and the topmost is at most the base size.
    while level > first_used || (level > 1 && bytes > most) {
        level -= 1;
        bytes /= factor;
    }
    (level, bytes.clamp((most / factor).max(1.0), most) as u64)
}

/// How urgent compaction of one column family is.
#[derive(Debug, Clone)]
pub(crate) struct Score {
    targets: LevelTargets,
    /// By level; 1 and more is due. The last level has none.
    by_level: Vec<f64>,
    /// By level: bytes written for each byte that sinks into the next one, at least 1.
    costs: Vec<f64>,
    l0_depth: u32,
    pending_bytes: u64,
}

impl Score {
    pub(crate) fn new(version: &Version, options: &ColumnFamilyOptions) -> Self {
        if options.compaction_style != CompactionStyle::Leveled {
            return Self::of_runs(version, options);
        }
        let targets = LevelTargets::new(version, options);
        let last = version.num_levels() - 1;
        let mut by_level = vec![0.0; last + 1];
        by_level[0] = l0_score(version, options);
        for (level, score) in by_level.iter_mut().enumerate().take(last).skip(1) {
            let idle = version.files(level).iter().filter(|file| !file.is_being_compacted());
            let bytes: u64 = idle.map(|file| file.size).sum();
            *score = bytes as f64 / targets.bytes(level).max(1) as f64;
        }
        let below = |level| if level == 0 { targets.base_level() } else { level + 1 };
        let costs = (0..last).map(|level| {
            let (own, next) = (version.level_bytes(level), version.level_bytes(below(level)));
            1.0 + next as f64 / own.max(1) as f64
        });
        let costs = costs.chain([f64::INFINITY]).collect();
        let (l0_depth, pending_bytes) = (l0_depth(version), pending_bytes(version, options, &targets));
        Self { targets, by_level, costs, l0_depth, pending_bytes }
    }

    /// The score of a family whose levels have no targets: one figure for all of it, that of L0.
    fn of_runs(version: &Version, options: &ColumnFamilyOptions) -> Self {
        let (urgency, l0_depth, pending_bytes) = match options.compaction_style {
            // Nothing would make L0 shallower, so it slows no writer.
            CompactionStyle::Fifo => (fifo::urgency(version, options), 0, 0),
            _ => {
                let pending = tiered::pending_bytes(version, options);
                (tiered::urgency(version, options), l0_depth(version), pending)
            }
        };
        let mut by_level = vec![0.0; version.num_levels()];
        by_level[0] = urgency;
        let costs = vec![1.0; by_level.len()];
        Self { targets: LevelTargets::new(version, options), by_level, costs, l0_depth, pending_bytes }
    }

    pub(crate) fn targets(&self) -> &LevelTargets {
        &self.targets
    }

    /// Score of a level; 1 and more is due.
    pub(crate) fn of_level(&self, level: usize) -> f64 {
        self.by_level.get(level).copied().unwrap_or(0.0)
    }

    /// Levels that are due, the most useful first; of equal ones the upper.
    pub(crate) fn due_levels(&self) -> Vec<usize> {
        let mut due: Vec<_> = (0..self.by_level.len()).filter(|&level| self.by_level[level] >= 1.0).collect();
        due.sort_by(|&a, &b| self.usefulness(b).total_cmp(&self.usefulness(a)));
        due
    }

    /// Usefulness of the compaction that is worth most; 0 if none is due.
    pub(crate) fn most_useful(&self) -> f64 {
        self.due_levels().first().map_or(0.0, |&level| self.usefulness(level))
    }

    /// Urgency of a level for what it costs: its score by the bytes to be written for each byte that sinks.
    ///
    /// By the score alone L0 would always go first into a level below that has grown far beyond its target, and rewrite all
    /// of it each time, though emptying that level first is cheaper.
    fn usefulness(&self, level: usize) -> f64 {
        self.by_level[level] / self.costs[level]
    }

    /// Whether some level is due. Files of running compactions do not count.
    pub(crate) fn is_due(&self) -> bool {
        self.by_level.iter().any(|&score| score >= 1.0)
    }

    /// Most L0 files that overlap at one key, those being compacted included: the L0 number of `pressure` 3.2.
    pub(crate) fn l0_depth(&self) -> u32 {
        self.l0_depth
    }

    /// Bytes that compactions must rewrite until every level is within its target (`pressure` 3.2).
    pub(crate) fn pending_bytes(&self) -> u64 {
        self.pending_bytes
    }

    /// Whether so much waits that more compactions should run at once (`pressure` 3.2). Slows no writer.
    pub(crate) fn compaction_pressure(&self, options: &ColumnFamilyOptions) -> bool {
        let trigger = options.level0_file_num_compaction_trigger;
        let slack = options.level0_slowdown_writes_trigger.saturating_sub(trigger) / 4;
        let files = trigger.saturating_mul(2).min(trigger.saturating_add(slack));
        self.l0_depth >= files || self.pending_bytes >= options.soft_pending_compaction_bytes_limit / 4
    }
}

fn l0_score(version: &Version, options: &ColumnFamilyOptions) -> f64 {
    let idle = || version.files(0).iter().filter(|file| !file.is_being_compacted());
    let trigger = f64::from(options.level0_file_num_compaction_trigger);
    let depth = depth(idle().map(|file| (file.smallest_user_key(), file.largest_user_key())));
    let bytes: u64 = idle().map(|file| file.size).sum();
    let by_count = idle().count() as f64 / (trigger * SIDE_BY_SIDE_FACTOR);
    let by_bytes = bytes as f64 / options.max_bytes_for_level_base as f64;
    (f64::from(depth) / trigger).max(by_count).max(by_bytes)
}

/// Most L0 files of the version that overlap at one key.
pub(crate) fn l0_depth(version: &Version) -> u32 {
    depth(version.files(0).iter().map(|file| (file.smallest_user_key(), file.largest_user_key())))
}

/// Most of the closed ranges that share a key.
fn depth<'a>(ranges: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> u32 {
    let (mut starts, mut ends): (Vec<_>, Vec<_>) = ranges.unzip();
    starts.sort_unstable();
    ends.sort_unstable();
    let (mut ended, mut most) = (0, 0);
    for (begun, start) in starts.iter().enumerate() {
        while ends[ended] < *start {
            ended += 1;
        }
        most = most.max(begun + 1 - ended);
    }
    most as u32
}

/// The debt: of each level its excess over the target * (1 + size of the next level / its own size). L0 has no
/// target: once it is due, all of it is excess.
fn pending_bytes(version: &Version, options: &ColumnFamilyOptions, targets: &LevelTargets) -> u64 {
    let last = version.num_levels() - 1;
    let debt = |excess: u64, own: u64, next: u64| {
        let rewritten = u128::from(excess) * u128::from(next) / u128::from(own.max(1));
        u64::try_from(u128::from(excess) + rewritten).unwrap_or(u64::MAX)
    };
    let l0 = version.level_bytes(0);
    let l0_due = l0_depth(version) >= options.level0_file_num_compaction_trigger
        || l0 >= options.max_bytes_for_level_base;
    let mut sum = if l0_due { debt(l0, l0, version.level_bytes(targets.base_level())) } else { 0 };
    for level in 1..last {
        let own = version.level_bytes(level);
        let excess = own.saturating_sub(targets.bytes(level));
        sum = sum.saturating_add(debt(excess, own, version.level_bytes(level + 1)));
    }
    sum
}

#[cfg(test)]
mod tests;
