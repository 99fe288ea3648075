//! Point reads of many keys as of one moment: sorted, so that each table is asked once and each block is loaded once.
//!
//! ```text
//!   snapshot -> sort by family and key -> memtables, key by key
//!     -> each L0 file, newest first: the keys still open that it may hold
//!     -> each deeper level: the keys still open, by file
//!           tables opened, filters and indexes asked -> one look into each block that is left
//! ```
//!
//! Tables that are not open yet, and blocks that are not at hand, are read by several threads at once when there are
//! enough of them ([`LEAST_PARALLEL`]); what is in memory the caller reads itself. How blocks lie in a file is
//! [`crate::sst`]'s affair, and what a single read does is [`super::read`]'s: both give equal answers.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use rayon::iter::{IntoParallelIterator, ParallelIterator};

use super::Shared;
use super::read::block_read;
use crate::column_family::FamilyData;
use crate::error::Result;
use crate::key::{MAX_KEY_LEN, SequenceNumber, ValueType, seek_key, user_key};
use crate::options::ReadOptions;
use crate::slice::PinnedSlice;
use crate::sst::{BlockRead, SstReader};
use crate::version::super_version::SuperVersion;
use crate::version::{FileMeta, Version};

/// Tables or blocks that have to be brought in, from which on several threads do it: below that, handing over costs more
/// than it gains.
const LEAST_PARALLEL: usize = 8;

/// What became of one key.
pub(super) type Answer = Result<Option<PinnedSlice>>;

/// The threads that bring in tables and blocks for batched reads; they start when first needed.
#[derive(Debug, Default)]
pub(super) struct ReadThreads {
    pool: OnceLock<Option<rayon::ThreadPool>>,
}

impl ReadThreads {
    /// `None` when one thread is allowed only, or none could be started: the caller then reads alone.
    fn get(&self, threads: u32) -> Option<&rayon::ThreadPool> {
        let start = || {
            let named = rayon::ThreadPoolBuilder::new().thread_name(|n| format!("sluice-read-{n}"));
            (threads > 1).then(|| named.num_threads(threads as usize).build().ok()).flatten()
        };
        self.pool.get_or_init(start).as_ref()
    }
}

/// The keys of one family that have no answer yet.
struct Open<'a> {
    /// Seek targets by place in the caller's list, in key order.
    targets: Vec<(usize, Vec<u8>)>,
    answers: &'a mut [Option<Answer>],
}

/// A table and the keys it is asked for, as indexes of [`Open::targets`], in key order.
type Question<'a> = (&'a Arc<FileMeta>, Vec<usize>);

/// A block and the keys that are looked for in it.
struct BlockWant {
    table: Arc<SstReader>,
    ordinal: usize,
    keys: Vec<usize>,
}

/// What a table says of one key: nothing, a tombstone, a value.
type Found = Result<Option<(ValueType, PinnedSlice)>>;

impl Open<'_> {
    fn found(&mut self, index: usize, value_type: ValueType, value: PinnedSlice) {
        self.answer(index, Ok((value_type == ValueType::Put).then_some(value)));
    }

    fn answer(&mut self, index: usize, answer: Answer) {
        self.answers[self.targets[index].0] = Some(answer);
    }

    fn is_open(&self, index: usize) -> bool {
        self.answers[self.targets[index].0].is_none()
    }

    /// Drops the targets that are answered.
    fn compact(&mut self) {
        let answers = &*self.answers;
        self.targets.retain(|(at, _)| answers[*at].is_none());
    }
}

impl Shared {
    /// The values of `keys`, in their order, all as of one moment.
    pub(super) fn multi_get(&self, keys: &[(&FamilyData, &[u8])], options: &ReadOptions) -> Vec<Answer> {
        self.stats.multi_gets.add(1);
        self.stats.gets.add(keys.len() as u64);
        // Taken before any family is pinned: what is pinned then holds all that the snapshot sees, of every family.
        let taken;
        let options = if options.snapshot.is_some() {
            options
        } else {
            let snapshot = Some(self.snapshots.take(|| self.published()));
            taken = ReadOptions { snapshot, ..options.clone() };
            &taken
        };
        let mut by_family: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (at, (family, _)) in keys.iter().enumerate() {
            by_family.entry(family.id).or_default().push(at);
        }
        let mut answers: Vec<Option<Answer>> = (0..keys.len()).map(|_| None).collect();
        for wanted in by_family.into_values() {
            self.multi_get_of_family(keys, wanted, options, &mut answers);
        }
        let answers: Vec<_> = answers.into_iter().map(|answer| answer.unwrap_or(Ok(None))).collect();
        let found = answers.iter().filter(|answer| matches!(answer, Ok(Some(_)))).count();
        self.stats.gets_found.add(found as u64);
        answers
    }

    /// Answers the keys at the places `wanted`, which are all of one family.
    fn multi_get_of_family(
        &self,
        keys: &[(&FamilyData, &[u8])],
        mut wanted: Vec<usize>,
        options: &ReadOptions,
        answers: &mut [Option<Answer>],
    ) {
        let Some((family, _)) = wanted.first().map(|&at| keys[at]) else { return };
        let seq = match self.check_family(family).and_then(|()| self.visible_sequence(options)) {
            Ok(seq) => seq,
            Err(error) => {
                wanted.into_iter().for_each(|at| answers[at] = Some(Err(error.clone())));
                return;
            }
        };
        wanted.retain(|&at| keys[at].1.len() <= MAX_KEY_LEN); // no longer one can have been written
        wanted.sort_by_key(|&at| keys[at].1);
        let targets = wanted.into_iter().map(|at| (at, seek_key(keys[at].1, seq))).collect();
        let pinned = family.pin();
        let mut open = Open { targets, answers };
        self.ask_memtables(&pinned, seq, &mut open);
        self.ask_tables(&pinned.version, block_read(options), &mut open);
    }

    fn ask_memtables(&self, pinned: &SuperVersion, seq: SequenceNumber, open: &mut Open<'_>) {
        let mut hits = 0;
        for index in 0..open.targets.len() {
            let key = user_key(&open.targets[index].1);
            let found = pinned.memtables().find_map(|memtable| memtable.get(key, seq));
            if let Some((value_type, value)) = found {
                hits += 1;
                open.found(index, value_type, PinnedSlice::owned(value));
            }
        }
        self.stats.memtable_hits.add(hits);
        open.compact();
    }

    fn ask_tables(&self, version: &Version, how: BlockRead, open: &mut Open<'_>) {
        for file in version.files(0) {
            let may_hold = |index: &usize| {
                let key = user_key(&open.targets[*index].1);
                file.overlaps(Some(key), Some(key))
            };
            let keys: Vec<usize> = (0..open.targets.len()).filter(may_hold).collect();
            if !keys.is_empty() {
                self.ask(vec![(file, keys)], how, open);
            }
        }
        for level in 1..version.num_levels() {
            let mut questions: Vec<Question<'_>> = Vec::new();
            for (index, (_, target)) in open.targets.iter().enumerate() {
                let Some(file) = version.file_for(level, target) else { continue };
                match questions.last_mut() {
                    Some((last, keys)) if Arc::ptr_eq(last, file) => keys.push(index),
                    _ => questions.push((file, vec![index])),
                }
            }
            self.ask(questions, how, open);
        }
    }

    /// Asks tables that do not overlap each other, and takes their answers.
    fn ask(&self, questions: Vec<Question<'_>>, how: BlockRead, open: &mut Open<'_>) {
        if questions.is_empty() {
            return;
        }
        let targets = &open.targets;
        let closed = questions.iter().filter(|(file, _)| !self.tables.is_open(file.number)).count();
        let located: Vec<(Vec<usize>, Result<Vec<BlockWant>>)> =
            self.side_by_side(questions, closed, |(file, keys)| {
                let wants = self.tables.get(file).map(|table| locate(&table, &keys, targets));
                (keys, wants)
            });
        let (mut wants, mut failed) = (Vec::new(), Vec::new());
        for (keys, located) in located {
            match located {
                Ok(found) => wants.extend(found),
                Err(error) => failed.push((keys, error)),
            }
        }
        self.stats.multi_get_blocks.add(wants.len() as u64);
        let missing = wants.iter().filter(|want| !want.table.is_at_hand(want.ordinal)).count();
        let found: Vec<Vec<(usize, Found)>> =
            self.side_by_side(wants, missing, |want| look_into(&want, how, targets));
        for (keys, error) in failed {
            keys.into_iter().for_each(|index| open.answer(index, Err(error.clone())));
        }
        for (index, found) in found.into_iter().flatten() {
            debug_assert!(open.is_open(index));
            match found {
                Ok(None) => {}
                Ok(Some((value_type, value))) => open.found(index, value_type, value),
                Err(error) => open.answer(index, Err(error)),
            }
        }
        open.compact();
    }

    /// Does `work` for each item, the results in their order: with several threads if enough of the items, `to_bring_in`,
    /// have to be brought into memory.
    fn side_by_side<T: Send, R: Send>(
        &self,
        items: Vec<T>,
        to_bring_in: usize,
        work: impl Fn(T) -> R + Sync + Send,
    ) -> Vec<R> {
        let threads =
            (to_bring_in >= LEAST_PARALLEL).then(|| self.read_threads.get(self.options.max_read_threads));
        let Some(pool) = threads.flatten() else { return items.into_iter().map(work).collect() };
        crate::sync::forbid_held_locks("wait for reads");
        self.stats.multi_get_parallel_reads.add(to_bring_in as u64);
        pool.install(|| items.into_par_iter().map(work).collect())
    }
}

/// The blocks of a table in which the keys can be: those that filter and index leave, each once.
fn locate(table: &Arc<SstReader>, keys: &[usize], targets: &[(usize, Vec<u8>)]) -> Vec<BlockWant> {
    let mut wants: Vec<BlockWant> = Vec::new();
    for &index in keys {
        let Some(ordinal) = table.locate(&targets[index].1) else { continue };
        match wants.last_mut() {
            Some(last) if last.ordinal == ordinal => last.keys.push(index),
            _ => wants.push(BlockWant { table: Arc::clone(table), ordinal, keys: vec![index] }),
        }
    }
    wants
}

/// What one block says of the keys looked for in it.
fn look_into(want: &BlockWant, how: BlockRead, targets: &[(usize, Vec<u8>)]) -> Vec<(usize, Found)> {
    let BlockWant { table, ordinal, keys } = want;
    match table.block(*ordinal, how) {
        Ok(block) => {
            let one = |index: usize| {
                let found = table.find_in(*ordinal, block.clone(), &targets[index].1);
                (index, found.map(|found| found.map(|(_, value_type, value)| (value_type, value))))
            };
            keys.iter().copied().map(one).collect()
        }
        Err(error) => keys.iter().map(|&index| (index, Err(error.clone()))).collect(),
    }
}
