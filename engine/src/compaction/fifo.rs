//! FIFO: files are never merged; the oldest are dropped when there are too many bytes, or when their time is over.
//!
//! Files lie in L0, newest first; what an earlier style left in deeper levels is older than all of L0, the deepest first.
//! Only a tail of that order is dropped, so an entry never goes before an older one of its key, and no deleted value
//! comes back. What is dropped is gone for snapshots, too.

use std::sync::Arc;

use super::leveled::Picker;
use super::marked::due_micros;
use super::{Compaction, Inputs, Reason};
use crate::options::ColumnFamilyOptions;
use crate::version::{FileMeta, Version};

/// How urgent it is to drop files; 1 and more is due.
pub(super) fn urgency(version: &Version, options: &ColumnFamilyOptions) -> f64 {
    let (bytes, limit) = (total(version), options.fifo_max_table_files_size);
    // A single file stays, however large: it is all there is.
    let can_drop = version.all_files().filter(|(_, file)| !file.is_being_compacted()).nth(1).is_some();
    if bytes > limit && can_drop { bytes as f64 / limit.max(1) as f64 } else { 0.0 }
}

/// Drops the oldest files until the rest fits.
pub(super) fn pick(picker: &Picker<'_>) -> Option<Compaction> {
    let mut bytes = total(picker.version);
    let mut left = picker.version.all_files().count();
    oldest(picker, Reason::Size, |file| {
        let drop = bytes > picker.options.fifo_max_table_files_size && left > 1;
        (bytes, left) = (bytes.saturating_sub(file.size), left - 1);
        drop
    })
}

/// Drops the oldest files as far as their time is over.
pub(super) fn expired(picker: &Picker<'_>, now_micros: u64) -> Option<Compaction> {
    let is_over = |file: &FileMeta| due_micros(file, picker.options.ttl).is_some_and(|due| due <= now_micros);
    oldest(picker, Reason::Periodic, is_over)
}

/// The oldest files as far as `drop` says so, asked from the oldest on.
fn oldest(
    picker: &Picker<'_>,
    reason: Reason,
    mut drop: impl FnMut(&FileMeta) -> bool,
) -> Option<Compaction> {
    if !picker.running.is_empty() {
        return None;
    }
    let version = picker.version;
    let by_age = (0..version.num_levels()).flat_map(|level| {
        let files = version.files(level);
        files.iter().map(move |file| (level, file))
    });
    let by_age: Vec<(usize, &Arc<FileMeta>)> = by_age.collect();
    let mut inputs: Vec<Inputs> = Vec::new();
    for (level, file) in by_age.into_iter().rev() {
        if file.is_being_compacted() || !drop(file) {
            break;
        }
        match inputs.last_mut() {
            Some(same) if same.level == level => same.files.push(Arc::clone(file)),
            _ => inputs.push(Inputs { level, files: vec![Arc::clone(file)] }),
        }
    }
    inputs.reverse();
    (!inputs.is_empty()).then(|| Compaction::dropping(version, reason, inputs))
}

fn total(version: &Version) -> u64 {
    version.all_files().map(|(_, file)| file.size).sum()
}

#[cfg(test)]
mod tests;
