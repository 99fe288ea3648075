//! Step 4: which level each table of a family goes to.
//!
//! A read looks at L0 by age, then at deeper levels, and takes the first entry of a key that it finds. So a table without a
//! level may stand in L0 only if each table that it shares keys with holds either only older or only newer entries than it.
//! Where that does not hold, all tables of the family are merged into L1, which is always right.

use std::sync::Arc;

use super::Repair;
use super::tables::{finish_table, new_table};
use crate::compaction::gc::{Fate, Gc};
use crate::error::{Corruption, Error, Result};
use crate::filename::sst_path;
use crate::iter::InternalIterator;
use crate::iter::merging::MergingIterator;
use crate::key::{split_internal, unpack_trailer};
use crate::sst::{BlockRead, SstReader};
use crate::version::builder::VersionBuilder;
use crate::version::{FileMeta, FileNumber, MAX_LEVELS, Version};

/// A table with its level.
type Placed = (u32, Arc<FileMeta>);

/// The level of every table of the family; the merged ones instead, if it came to that.
pub(super) fn arrange(
    repair: &mut Repair<'_>,
    family: u32,
    name: &str,
    placed: Vec<Placed>,
    loose: Vec<Arc<FileMeta>>,
) -> Result<Vec<Placed>> {
    let fits = loose.iter().enumerate().all(|(i, file)| {
        loose[i + 1..].iter().all(|other| can_share_l0(file, other))
            && placed
                .iter()
                .all(|(_, other)| !shares_keys(file, other) || file.smallest_seq > other.largest_seq)
    });
    let mut all = placed;
    all.extend(loose.into_iter().map(|file| (0, file)));
    if fits && is_valid(&all) {
        return Ok(all);
    }
    let files: Vec<_> = all.into_iter().map(|(_, file)| file).collect();
    let merged = merge(repair, family, name, &files)?;
    Ok(merged.into_iter().map(|file| (1, file)).collect())
}

fn shares_keys(a: &FileMeta, b: &FileMeta) -> bool {
    a.overlaps(Some(b.smallest_user_key()), Some(b.largest_user_key()))
}

fn can_share_l0(a: &FileMeta, b: &FileMeta) -> bool {
    !shares_keys(a, b) || a.smallest_seq > b.largest_seq || b.smallest_seq > a.largest_seq
}

fn is_valid(all: &[Placed]) -> bool {
    let mut builder = VersionBuilder::new(&Version::empty(MAX_LEVELS));
    let edit = crate::manifest::FamilyEdit { added: all.to_vec(), ..crate::manifest::FamilyEdit::new(0) };
    builder.apply(&edit).and_then(|()| builder.finish()).is_ok()
}

/// Writes the newest entry of every key of `files` into new tables, tombstones included.
fn merge(
    repair: &mut Repair<'_>,
    family: u32,
    name: &str,
    files: &[Arc<FileMeta>],
) -> Result<Vec<Arc<FileMeta>>> {
    let mut sources = Vec::new();
    for file in files {
        let path = sst_path(repair.dir, file.number);
        sources.push(SstReader::open_unlisted(&*repair.fs, path, file.number)?.iter(BlockRead::BACKGROUND));
    }
    let target = repair.options.column_family.target_file_size_base;
    let mut merged = MergingIterator::new(sources);
    let (mut gc, mut made) = (Gc::new(&[]), Vec::new());
    let mut open: Option<(FileNumber, crate::sst::SstWriter)> = None;
    merged.seek_to_first()?;
    while merged.valid() {
        let (user, trailer) = split_internal(merged.key());
        let (seq, value_type) = unpack_trailer(trailer).ok_or_else(|| unknown_kind(repair, trailer))?;
        // With no snapshots one entry of each key stays, so a table may end behind any.
        if gc.step(user, seq, value_type, |_| false).fate == Fate::Keep {
            if let Some((number, table)) = open.take_if(|(_, table)| table.file_size() >= target) {
                made.push(finish_table(repair, number, table)?);
            }
            if open.is_none() {
                let number = repair.numbers.take();
                open = Some((number, new_table(repair, family, name, number)?));
            }
            if let Some((_, table)) = &mut open {
                table.add(merged.key(), merged.value())?;
            }
        }
        merged.next()?;
    }
    if let Some((number, table)) = open {
        made.push(finish_table(repair, number, table)?);
    }
    Ok(made)
}

fn unknown_kind(repair: &Repair<'_>, trailer: u64) -> Error {
    Error::corrupt(repair.dir, 0, Corruption::bad("value type of an entry", "0 or 1", trailer as u8))
}
