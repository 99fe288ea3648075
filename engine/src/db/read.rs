//! The point read, top to bottom.
//!
//! ```text
//!   pin a super version -> choose the sequence -> mutable memtable -> sealed memtables, newest first
//!     -> L0 files, newest first -> one file per deeper level -> newest entry at or below the sequence
//! ```
//!
//! The first place that has an entry of the key has the newest one, so the search ends there: a put is the answer, a
//! tombstone means "not found". How blocks lie in a file is [`crate::sst`]'s affair.

use std::sync::Arc;

use super::Shared;
use crate::column_family::FamilyData;
use crate::error::{Error, Result};
use crate::iter::InternalIterator;
use crate::iter::db_iter::DbIterator;
use crate::iter::level::{LevelIter, VersionLevel, open_through};
use crate::iter::merging::MergingIterator;
use crate::key::{MAX_KEY_LEN, SequenceNumber, ValueType, seek_key};
use crate::options::ReadOptions;
use crate::slice::PinnedSlice;
use crate::sst::BlockRead;
use crate::version::super_version::SuperVersion;

impl Shared {
    /// The value of `key` in `family`, if it has one.
    pub(super) fn get(
        &self,
        family: &FamilyData,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<PinnedSlice>> {
        self.check_family(family)?;
        self.stats.gets.add(1);
        if key.len() > MAX_KEY_LEN {
            return Ok(None); // no key of this length can have been written
        }
        // Pinned before the sequence is read: whatever is dropped later as invisible is invisible at that sequence too.
        let pinned = family.pin();
        let seq = self.visible_sequence(options)?;
        let found = self.get_at(&pinned, key, seq, options)?;
        if found.is_some() {
            self.stats.gets_found.add(1);
        }
        Ok(found)
    }

    fn get_at(
        &self,
        pinned: &SuperVersion,
        key: &[u8],
        seq: SequenceNumber,
        options: &ReadOptions,
    ) -> Result<Option<PinnedSlice>> {
        for memtable in pinned.memtables() {
            if let Some((value_type, value)) = memtable.get(key, seq) {
                self.stats.memtable_hits.add(1);
                return Ok((value_type == ValueType::Put).then(|| PinnedSlice::owned(value)));
            }
        }
        let version = &pinned.version;
        let target = seek_key(key, seq);
        let how = block_read(options);
        for file in version.files(0).iter().filter(|file| file.overlaps(Some(key), Some(key))) {
            if let Some((_, value_type, value)) = self.tables.get(file)?.get(&target, how)? {
                return Ok((value_type == ValueType::Put).then_some(value));
            }
        }
        for level in 1..version.num_levels() {
            let Some(file) = version.file_for(level, &target) else { continue };
            if let Some((_, value_type, value)) = self.tables.get(file)?.get(&target, how)? {
                return Ok((value_type == ValueType::Put).then_some(value));
            }
        }
        Ok(None)
    }

    /// An iterator over `family`, not positioned yet.
    pub(super) fn iter(&self, family: &FamilyData, options: &ReadOptions) -> Result<DbIterator> {
        self.check_family(family)?;
        let pinned = family.pin();
        let seq = self.visible_sequence(options)?;
        let bound = |bound: &Option<Vec<u8>>| bound.as_deref().map(Box::from);
        let (lower, upper) = (bound(&options.iterate_lower_bound), bound(&options.iterate_upper_bound));
        let merged = MergingIterator::new(self.sources(&pinned, options)?);
        // What the iterator needs to stay: the super version, and the snapshot that its sequence is of.
        let pin = (pinned, options.snapshot.clone());
        Ok(DbIterator::new(Box::new(merged), seq, lower, upper, Box::new(pin)))
    }

    /// One sorted run for each memtable, each L0 file and each deeper level, newest first.
    fn sources(
        &self,
        pinned: &SuperVersion,
        options: &ReadOptions,
    ) -> Result<Vec<Box<dyn InternalIterator>>> {
        let open = open_through(Arc::clone(&self.tables), block_read(options));
        let version = &pinned.version;
        let mut sources: Vec<Box<dyn InternalIterator>> = Vec::new();
        sources.extend(pinned.memtables().map(|memtable| memtable.iter()));
        let (lower, upper) = (options.iterate_lower_bound.as_deref(), options.iterate_upper_bound.as_deref());
        for file in version.files(0).iter().filter(|file| file.overlaps(lower, upper)) {
            sources.push(Box::new(open(file)?));
        }
        for level in (1..version.num_levels()).filter(|level| !version.files(*level).is_empty()) {
            let files = VersionLevel::new(Arc::clone(version), level);
            sources.push(Box::new(LevelIter::new(files, open.clone())));
        }
        Ok(sources)
    }

    /// What a read with these options sees.
    pub(super) fn visible_sequence(&self, options: &ReadOptions) -> Result<SequenceNumber> {
        match &options.snapshot {
            None => Ok(self.published()),
            Some(snapshot) if snapshot.belongs_to(&self.snapshots) => Ok(snapshot.sequence()),
            Some(_) => Err(Error::invalid("snapshot", "it was taken from another database")),
        }
    }
}

/// How blocks are read for a user's read.
pub(super) fn block_read(options: &ReadOptions) -> BlockRead {
    BlockRead { verify: options.verify_checksums, fill_cache: options.fill_cache, read_ahead: false }
}
