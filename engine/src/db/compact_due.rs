//! Which compactions are due although no level's size asks for them: dense tombstones, age. What such work is, is
//! [`crate::compaction::marked`]'s affair; here is when somebody looks.

use super::Shared;
use crate::column_family::FamilyData;
use crate::compaction::leveled::{Cursors, Picker};
use crate::compaction::marked::{Moment, due_micros};
use crate::key::SequenceNumber;
use crate::options::{ColumnFamilyOptions, CompactionStyle};
use crate::version::super_version::SuperVersion;

impl Shared {
    /// What picking by tombstones and by age needs to know of now.
    pub(super) fn moment(&self) -> Moment {
        let oldest_snapshot = self.snapshots.sequences().first().copied().unwrap_or(SequenceNumber::MAX);
        Moment { now_micros: self.clock.unix_micros(), oldest_snapshot }
    }

    /// Whether such work of a family could start, were no other running.
    pub(super) fn has_marked(&self, family: &FamilyData, pinned: &SuperVersion) -> bool {
        let options = &*family.options();
        let picker = Picker { version: &pinned.version, options, cursors: &Cursors::default(), running: &[] };
        !options.disable_auto_compactions && !family.is_dropped() && picker.marked(self.moment()).is_some()
    }

    /// When the next file comes of age, on the monotonic clock; what is of age already waits for a ring.
    pub(super) fn next_compaction_look(&self) -> Option<u64> {
        let now = self.clock.unix_micros();
        let mut next: Option<u64> = None;
        for family in self.families.all() {
            let seconds = age_limit(&family.data.options());
            if seconds == 0 {
                continue;
            }
            let pinned = family.data.pin();
            let due = pinned.version.all_files().filter_map(|(_, file)| due_micros(file, seconds));
            next = next.into_iter().chain(due.filter(|due| *due > now)).min();
        }
        let wait = next?.saturating_sub(now).saturating_mul(1000);
        Some(self.clock.now_nanos().saturating_add(wait))
    }
}

/// Age at which a file of the family is due, in seconds; 0 is never.
fn age_limit(options: &ColumnFamilyOptions) -> u64 {
    match options.compaction_style {
        CompactionStyle::Fifo => options.ttl,
        _ => options.periodic_compaction_seconds,
    }
}
