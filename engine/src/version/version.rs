//! [`Version`]: an immutable arrangement of SSTs into levels.

use std::sync::Arc;

use super::{FileMeta, MAX_LEVELS};
use crate::key::compare_internal;

/// The SSTs of one column family at one moment.
///
/// Invariants, checked when a version is made ([`crate::version::builder`]): L0 is sorted newest first (by largest
/// sequence); in L1 and below files are sorted by smallest key and no two overlap in user keys.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    levels: Vec<Vec<Arc<FileMeta>>>,
}

impl Version {
    /// A version without files.
    pub(crate) fn empty(num_levels: usize) -> Self {
        Self { levels: vec![Vec::new(); num_levels.clamp(1, MAX_LEVELS)] }
    }

    /// A version of these levels; the caller has sorted and checked them ([`crate::version::builder`]).
    pub(crate) fn from_levels(levels: Vec<Vec<Arc<FileMeta>>>) -> Self {
        Self { levels }
    }

    /// The same files in `num_levels` levels; `None` if deeper levels hold files.
    pub(crate) fn with_num_levels(&self, num_levels: usize) -> Option<Self> {
        let mut levels = self.levels.clone();
        let fits = levels.iter().skip(num_levels).all(Vec::is_empty);
        levels.resize(num_levels, Vec::new());
        fits.then_some(Self { levels })
    }

    pub(crate) fn num_levels(&self) -> usize {
        self.levels.len()
    }

    /// Files of a level: L0 newest first, deeper levels by smallest key.
    pub(crate) fn files(&self, level: usize) -> &[Arc<FileMeta>] {
        self.levels.get(level).map_or(&[], Vec::as_slice)
    }

    /// All files with their level.
    pub(crate) fn all_files(&self) -> impl Iterator<Item = (usize, &Arc<FileMeta>)> {
        self.levels.iter().enumerate().flat_map(|(level, files)| files.iter().map(move |file| (level, file)))
    }

    /// Bytes of a level's files.
    pub(crate) fn level_bytes(&self, level: usize) -> u64 {
        self.files(level).iter().map(|file| file.size).sum()
    }

    /// In a level below L0: the only file that may hold the internal key `target`, if any.
    pub(crate) fn file_for(&self, level: usize, target: &[u8]) -> Option<&Arc<FileMeta>> {
        let files = self.files(level);
        let at = files.partition_point(|file| compare_internal(&file.largest, target).is_lt());
        files.get(at).filter(|file| file.smallest_user_key() <= crate::key::user_key(target))
    }

    /// Whether no file below `level` may hold a key of `file`.
    pub(crate) fn ends_at(&self, level: usize, file: &FileMeta) -> bool {
        (level + 1..self.num_levels()).all(|below| {
            let files = self.files(below);
            let at = files.partition_point(|below| below.largest_user_key() < file.smallest_user_key());
            files.get(at).is_none_or(|below| below.smallest_user_key() > file.largest_user_key())
        })
    }

    /// Bytes that would be left about if everything were compacted: those of files over which nothing older lies.
    pub(crate) fn live_bytes(&self) -> u64 {
        let ends = |(level, file): &(usize, &Arc<FileMeta>)| {
            let older = self.files(0).iter().skip_while(|other| other.number != file.number).skip(1);
            let (from, to) = (Some(file.smallest_user_key()), Some(file.largest_user_key()));
            self.ends_at(*level, file)
                && (*level > 0 || !older.into_iter().any(|other| other.overlaps(from, to)))
        };
        self.all_files().filter(ends).map(|(_, file)| file.size).sum()
    }

    /// Files of a level that may hold user keys of `from..=to`, in the level's order.
    pub(crate) fn overlapping(
        &self,
        level: usize,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Vec<Arc<FileMeta>> {
        self.files(level).iter().filter(|file| file.overlaps(from, to)).cloned().collect()
    }
}
