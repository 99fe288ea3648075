//! Running a compaction: [`run`].
//!
//! 1. Split the user keys into ranges, if there are threads to share the work ([`JobContext::pool`]).
//! 2. Each range: merge the inputs, drop what may go ([`Gc`]), ask the family's filter, write the rest
//!    ([`OutputWriter`]).
//! 3. Check that as many entries were read as the inputs hold, make the outputs' names durable.
//!
//! On any error, cancellation included, all outputs are removed. Installing the result is the caller's part; so
//! are marking the inputs and choosing them. No lock is taken here.
//!
//! Keys and values go from the tables' blocks to the writer as borrowed slices, with no call through a vtable
//! and no copy on the way.

use std::path::Path;
use std::sync::Arc;

use super::filter::{CompactionFilter, FilterDecision};
use super::gc::{Fate, Gc};
use super::output::{OutputFactory, OutputWriter, Outputs};
use super::{Compaction, Inputs};
use crate::error::{Corruption, Error, Result};
use crate::filename::sst_path;
use crate::iter::InternalIterator;
use crate::iter::level::LevelIter;
use crate::iter::merging::MergingIterator;
use crate::jobs::Stride;
use crate::key::{MAX_VALUE_LEN, SequenceNumber, ValueType, make_internal, split_internal, unpack_trailer};
use crate::version::FileMeta;

/// What a job needs beside its compaction.
pub(crate) struct JobContext<'a, O, F> {
    /// Opens an input for iteration, as [`crate::iter::level::open_through`] does.
    pub(crate) open: &'a O,
    pub(crate) outputs: &'a F,
    /// Sequences of all live snapshots, ascending, read after the compaction was picked.
    pub(crate) snapshots: &'a [SequenceNumber],
    /// The family's own word on what stays.
    pub(crate) filter: Option<&'a dyn CompactionFilter>,
    /// Asked every so many entries, with no lock held: an error ends the job with it
    /// ([`Error::ShutdownInProgress`], [`Error::Cancelled`]). May wait, to let something more urgent go first.
    pub(crate) go_on: &'a (dyn Fn() -> Result<()> + Sync),
    /// Threads for parts of the work, and how many parts at most.
    pub(crate) pool: Option<(&'a rayon::ThreadPool, usize)>,
}

/// What a job did.
#[derive(Debug, Default)]
pub(crate) struct CompactionResult {
    /// New files, ascending by key: what an edit adds to the output level.
    pub(crate) outputs: Vec<FileMeta>,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    pub(crate) entries_in: u64,
    /// Entries dropped, of both kinds.
    pub(crate) entries_dropped: u64,
    /// Tombstones among them that had nothing left to hide.
    pub(crate) tombstones_dropped: u64,
    /// Keys that the filter removed.
    pub(crate) entries_filtered: u64,
    /// Parts that the work was split into.
    pub(crate) parts: usize,
}

/// User keys at or after the first and before the second; `None` is unbounded.
type KeyRange<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// What one range gave.
struct Part<'a, F: OutputFactory> {
    outputs: Outputs<'a, F>,
    entries_in: u64,
    hidden: u64,
    spent_tombstones: u64,
    filtered: Filtered,
}

/// What the filter removed.
#[derive(Debug, Default)]
struct Filtered {
    /// Entries that left nothing.
    gone: u64,
    /// Entries that left a tombstone.
    hidden: u64,
}

/// Merges the inputs into new files of the output level. Nothing is installed; on an error nothing is left.
pub(crate) fn run<O, F, I>(
    compaction: &Compaction,
    context: &JobContext<'_, O, F>,
) -> Result<CompactionResult>
where
    O: Fn(&FileMeta) -> Result<I> + Sync,
    F: OutputFactory,
    I: InternalIterator,
{
    let cuts = context.pool.map_or_else(Vec::new, |(_, parts)| split_keys(compaction, parts));
    let starts = std::iter::once(None).chain(cuts.iter().copied().map(Some));
    let ends = cuts.iter().copied().map(Some).chain([None]);
    let ranges: Vec<KeyRange<'_>> = starts.zip(ends).collect();
    let parts: Vec<Result<Part<'_, F>>> = match context.pool {
        Some((pool, _)) if ranges.len() > 1 => {
            let mut parts: Vec<_> = ranges.iter().map(|_| None).collect();
            pool.scope(|scope| {
                for (part, &range) in parts.iter_mut().zip(&ranges) {
                    scope.spawn(move |_| *part = Some(run_range(compaction, context, range)));
                }
            });
            parts.into_iter().flatten().collect()
        }
        _ => ranges.iter().map(|&range| run_range(compaction, context, range)).collect(),
    };

    let mut result = CompactionResult {
        bytes_read: compaction.input_bytes(),
        parts: ranges.len(),
        ..CompactionResult::default()
    };
    let mut outputs = Outputs::none(context.outputs);
    // All parts first, so that after an error the outputs of every part are removed.
    let parts: Vec<_> = parts.into_iter().collect::<Result<_>>()?;
    for part in parts {
        outputs.append(part.outputs);
        result.entries_in += part.entries_in;
        result.entries_dropped += part.hidden + part.spent_tombstones + part.filtered.gone;
        result.entries_filtered += part.filtered.gone + part.filtered.hidden;
        result.tombstones_dropped += part.spent_tombstones;
    }
    check_all_read(compaction, result.entries_in)?;
    context.outputs.sync_names()?;
    result.outputs = outputs.keep();
    result.bytes_written = result.outputs.iter().map(|file| file.size).sum();
    Ok(result)
}

/// Merges what the inputs hold of one range of user keys.
fn run_range<'a, O, F, I>(
    compaction: &'a Compaction,
    context: &JobContext<'a, O, F>,
    (from, to): KeyRange<'_>,
) -> Result<Part<'a, F>>
where
    O: Fn(&FileMeta) -> Result<I> + Sync,
    F: OutputFactory,
    I: InternalIterator,
{
    let mut merged = MergingIterator::new(runs(compaction, from, to, context.open));
    match from {
        Some(from) => {
            let mut target = Vec::new();
            make_internal(&mut target, from, SequenceNumber::MAX, ValueType::MAX);
            merged.seek(&target)?;
        }
        None => merged.seek_to_first()?,
    }
    let mut gc = Gc::new(context.snapshots);
    let mut below = compaction.below();
    let mut writer = OutputWriter::new(compaction, context.outputs);
    (context.go_on)()?;
    let mut stride = Stride::default();
    let (mut entries_in, mut hidden, mut spent_tombstones) = (0, 0, 0);
    let mut key_begun = false; // an entry of the present user key has been written
    let mut filtered = Filtered::default();
    let level = compaction.output_level() as u32;
    while merged.valid() {
        let key = merged.key();
        let (user, trailer) = split_internal(key);
        let Some((seq, value_type)) = unpack_trailer(trailer) else {
            return Err(unknown_kind(compaction, trailer));
        };
        let verdict = gc.step(user, seq, value_type, |user| below.cannot_hold(user));
        if verdict.new_key {
            if to.is_some_and(|to| user >= to) {
                break;
            }
            key_begun = false;
        }
        if stride.is_complete(key.len() + merged.value().len()) {
            (context.go_on)()?;
        }
        entries_in += 1;
        match verdict.fate {
            Fate::Keep => {
                let asked = verdict.new_key && value_type == ValueType::Put && gc.is_of_now(seq);
                let filter = context.filter.filter(|_| asked);
                let decision =
                    filter.map_or(FilterDecision::Keep, |filter| filter.filter(level, user, merged.value()));
                let removed = decision == FilterDecision::Remove;
                if removed && context.snapshots.is_empty() && below.cannot_hold(user) {
                    filtered.gone += 1;
                } else {
                    if !key_begun {
                        writer.begin_key(user)?;
                        key_begun = true;
                    }
                    filtered.hidden += u64::from(removed);
                    add_decided(&mut writer, key, merged.value(), decision)?;
                }
            }
            Fate::Hidden => hidden += 1,
            Fate::SpentTombstone => spent_tombstones += 1,
        }
        merged.next()?;
    }
    Ok(Part { outputs: writer.finish()?, entries_in, hidden, spent_tombstones, filtered })
}

/// Writes an entry as the filter wants it: as it is, with another value, or as a tombstone.
#[inline]
fn add_decided<F: OutputFactory>(
    writer: &mut OutputWriter<'_, F>,
    key: &[u8],
    value: &[u8],
    decision: FilterDecision,
) -> Result<()> {
    match decision {
        FilterDecision::Keep => writer.add(key, value),
        FilterDecision::Change(value) if value.len() as u64 > MAX_VALUE_LEN => {
            let why = format!("a value of {} bytes is longer than {MAX_VALUE_LEN}", value.len());
            Err(Error::invalid("decision of the compaction filter", why))
        }
        FilterDecision::Change(value) => writer.add(key, &value),
        FilterDecision::Remove => {
            let (user, trailer) = split_internal(key);
            let seq = unpack_trailer(trailer).map_or(SequenceNumber::ZERO, |(seq, _)| seq);
            let mut tombstone = Vec::with_capacity(key.len());
            make_internal(&mut tombstone, user, seq, ValueType::Delete);
            writer.add(&tombstone, &[])
        }
    }
}

/// The inputs that touch the range as sorted runs, newest first: each L0 file one, each other level one.
fn runs<'a, O, I>(
    compaction: &Compaction,
    from: Option<&[u8]>,
    to: Option<&[u8]>,
    open: &'a O,
) -> Vec<LevelIter<Vec<Arc<FileMeta>>, &'a O, I>>
where
    O: Fn(&FileMeta) -> Result<I> + Sync,
    I: InternalIterator,
{
    let touching = |inputs: &Inputs| -> Vec<Arc<FileMeta>> {
        inputs.files.iter().filter(|file| file.overlaps(from, to)).cloned().collect()
    };
    let of_level = |inputs: &Inputs| -> Vec<Vec<Arc<FileMeta>>> {
        let files = touching(inputs);
        if inputs.level == 0 { files.into_iter().map(|file| vec![file]).collect() } else { vec![files] }
    };
    compaction.inputs().iter().flat_map(of_level).map(|files| LevelIter::new(files, open)).collect()
}

/// At most `parts - 1` user keys that cut the work into parts of about equal size, none smaller than an output.
/// Cuts lie where files of the input level with most bytes begin: it stands for all of them.
fn split_keys(compaction: &Compaction, parts: usize) -> Vec<&[u8]> {
    let bytes_of = |inputs: &Inputs| inputs.files.iter().map(|file| file.size).sum::<u64>();
    let parts = (compaction.input_bytes() / compaction.target_file_size().max(1)).min(parts as u64);
    let Some(largest) = compaction.inputs().iter().max_by_key(|inputs| bytes_of(inputs)) else {
        return Vec::new();
    };
    let mut starts: Vec<_> = largest.files.iter().map(|file| (file.smallest_user_key(), file.size)).collect();
    starts.sort_unstable();
    let (mut cuts, mut before) = (Vec::new(), 0);
    for &(start, size) in &starts {
        let next_cut = (cuts.len() as u64 + 1) * bytes_of(largest) / parts.max(1);
        let opens_gap = start > cuts.last().copied().unwrap_or(starts[0].0);
        if opens_gap && before >= next_cut && (cuts.len() as u64) + 1 < parts {
            cuts.push(start);
        }
        before += size;
    }
    cuts
}

/// A table that gave fewer or more entries than the manifest says is not to be replaced by what it gave.
fn check_all_read(compaction: &Compaction, entries_in: u64) -> Result<()> {
    let expected: u64 = compaction.input_files().map(|(_, file)| file.entries).sum();
    if entries_in == expected {
        return Ok(());
    }
    Err(damaged(
        compaction,
        Corruption::bad("entries read by a compaction", expected.to_string(), entries_in),
    ))
}

#[cold]
fn unknown_kind(compaction: &Compaction, trailer: u64) -> Error {
    damaged(compaction, Corruption::bad("value type of an entry", "0 or 1", trailer as u8))
}

/// Damage in one of the inputs; the first one is named.
#[cold]
fn damaged(compaction: &Compaction, found: Corruption) -> Error {
    let first = compaction.input_files().next().map(|(_, file)| file.number).unwrap_or_default();
    Error::corrupt(&sst_path(Path::new(""), first), 0, found)
}

#[cfg(test)]
mod tests;
