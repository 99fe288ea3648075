//! A level as one sorted run: [`LevelIter`].
//!
//! Below L0 the files of a level do not overlap, so one open file at a time is enough. A file is opened when
//! the iterator reaches it, through a function that the maker hands in ([`open_through`] for the table cache),
//! and let go when it leaves. A single file is a run too, whatever its level: compactions iterate over
//! everything this way, without a virtual call per entry.
//!
//! Must not know: how tables are read or cached, which entries a reader may see.

use std::sync::Arc;

use super::InternalIterator;
use crate::cache::TableCache;
use crate::error::Result;
use crate::key::compare_internal;
use crate::sst::{BlockRead, SstIter};
use crate::version::{FileMeta, Version};

/// The files of one level of a version, which stays alive as long as this.
#[derive(Debug, Clone)]
pub(crate) struct VersionLevel {
    version: Arc<Version>,
    level: usize,
}

impl VersionLevel {
    pub(crate) fn new(version: Arc<Version>, level: usize) -> Self {
        Self { version, level }
    }
}

impl AsRef<[Arc<FileMeta>]> for VersionLevel {
    fn as_ref(&self) -> &[Arc<FileMeta>] {
        self.version.files(self.level)
    }
}

/// Opens files through the table cache.
pub(crate) fn open_through(
    cache: Arc<TableCache>,
    how: BlockRead,
) -> impl Fn(&FileMeta) -> Result<SstIter> + Clone + Send + Sync {
    move |file| Ok(cache.get(file)?.iter(how))
}

/// An iterator over files that do not overlap, sorted by smallest key.
///
/// `L` holds the files, `O` opens one, `I` iterates over one.
pub(crate) struct LevelIter<L, O, I> {
    files: L,
    open: O,
    /// The file that `table` iterates over.
    at: usize,
    table: Option<I>,
}

impl<L, O, I> LevelIter<L, O, I>
where
    L: AsRef<[Arc<FileMeta>]> + Send,
    O: Fn(&FileMeta) -> Result<I> + Send,
    I: InternalIterator,
{
    /// An iterator over `files`. Opens nothing yet.
    pub(crate) fn new(files: L, open: O) -> Self {
        Self { files, open, at: 0, table: None }
    }

    /// The iterator over the file `at`, opened unless it is the open one; `None` when there is no such file.
    fn enter(&mut self, at: usize) -> Result<Option<&mut I>> {
        if self.table.is_none() || self.at != at {
            self.table = None;
            let Some(file) = self.files.as_ref().get(at) else {
                return Ok(None);
            };
            self.table = Some((self.open)(file)?);
            self.at = at;
        }
        Ok(self.table.as_mut())
    }

    /// Off the end of a file: on to the first entry of the next that has one.
    #[cold]
    fn enter_next(&mut self) -> Result<()> {
        while !self.valid() {
            let next = self.at + 1;
            match self.enter(next)? {
                Some(table) => table.seek_to_first()?,
                None => break,
            }
        }
        Ok(())
    }

    /// Off the start of a file: back to the last entry of the one before that has one.
    #[cold]
    fn enter_previous(&mut self) -> Result<()> {
        while !self.valid() {
            let Some(previous) = self.at.checked_sub(1) else {
                self.table = None;
                break;
            };
            match self.enter(previous)? {
                Some(table) => table.seek_to_last()?,
                None => break,
            }
        }
        Ok(())
    }
}

impl<L, O, I> InternalIterator for LevelIter<L, O, I>
where
    L: AsRef<[Arc<FileMeta>]> + Send,
    O: Fn(&FileMeta) -> Result<I> + Send,
    I: InternalIterator,
{
    #[inline]
    fn valid(&self) -> bool {
        self.table.as_ref().is_some_and(I::valid)
    }

    fn seek_to_first(&mut self) -> Result<()> {
        match self.enter(0)? {
            Some(table) => table.seek_to_first()?,
            None => return Ok(()),
        }
        self.enter_next()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        let last = self.files.as_ref().len().saturating_sub(1);
        match self.enter(last)? {
            Some(table) => table.seek_to_last()?,
            None => return Ok(()),
        }
        self.enter_previous()
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        let at = self.files.as_ref().partition_point(|file| compare_internal(&file.largest, target).is_lt());
        match self.enter(at)? {
            Some(table) => table.seek(target)?,
            None => return Ok(()),
        }
        self.enter_next()
    }

    fn seek_for_prev(&mut self, target: &[u8]) -> Result<()> {
        let past =
            self.files.as_ref().partition_point(|file| compare_internal(&file.smallest, target).is_le());
        let Some(at) = past.checked_sub(1) else {
            self.table = None;
            return Ok(());
        };
        if let Some(table) = self.enter(at)? {
            table.seek_for_prev(target)?;
        }
        self.enter_previous()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        let Some(table) = &mut self.table else {
            return Ok(());
        };
        table.next()?;
        if table.valid() { Ok(()) } else { self.enter_next() }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        let Some(table) = &mut self.table else {
            return Ok(());
        };
        table.prev()?;
        if table.valid() { Ok(()) } else { self.enter_previous() }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.table.as_ref().map_or(&[], I::key)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.table.as_ref().map_or(&[], I::value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::compaction::stub::file_of;
    use crate::error::Error;
    use crate::iter::stub::{Entries, Rng, StubIter, entry, walk};
    use crate::sync::Mutex;
    use crate::version::FileNumber;

    /// Any walk over a level sees what the same walk over the concatenated files sees.
    ///
    /// Method: 0 to 8 random files of 1 to 6 entries, cut between user keys; 300 random moves.
    #[test]
    fn any_walk_equals_a_walk_over_all_files() {
        for seed in 1..=100 {
            let mut rng = Rng(seed);
            let mut all = Entries::new();
            let mut files: Vec<Arc<FileMeta>> = Vec::new();
            let mut tables = BTreeMap::new();
            for number in 0..rng.below(9) {
                let mut entries = Entries::new();
                for at in 0..=rng.below(6) {
                    let user = [number as u8 * 10 + at as u8 / 2];
                    entries.push(entry(&user, 9 - at, Some("v")));
                }
                files.push(file_of(number, &entries));
                all.extend(entries.clone());
                tables.insert(FileNumber(number), entries);
            }
            let open = |file: &FileMeta| Ok(StubIter::sorted(tables[&file.number].clone()));
            walk(LevelIter::new(files, open), StubIter::sorted(all), &mut rng, 300, &format!("seed {seed}"));
        }
    }

    /// Files are opened when they are reached, one at a time, and the open one is used again.
    #[test]
    fn files_are_opened_when_reached() {
        let users = [b"a", b"c", b"e", b"g"];
        let entries_of = |number: u64| vec![entry(users[number as usize], 1, Some("v"))];
        let files: Vec<_> = (0..4).map(|number| file_of(number, &entries_of(number))).collect();
        let opened = Mutex::new(Vec::new());
        let open = |file: &FileMeta| {
            opened.lock().push(file.number.0);
            Ok(StubIter::sorted(entries_of(file.number.0)))
        };
        let mut level = LevelIter::new(files, open);
        let target = |user: &[u8]| entry(user, 1, Some("v")).0;
        assert_eq!(*opened.lock(), [0; 0]);
        level.seek(&target(b"d")).unwrap();
        level.seek(&target(b"e")).unwrap();
        level.seek_for_prev(&target(b"f")).unwrap();
        assert_eq!(*opened.lock(), [2]);
        level.next().unwrap();
        level.seek(&target(b"z")).unwrap();
        assert!(!level.valid());
        level.seek_for_prev(&target(b"b")).unwrap();
        assert_eq!(level.key(), target(b"a"));
        assert_eq!(*opened.lock(), [2, 3, 0]);
    }

    /// A file that cannot be opened makes the iterator not valid; a seek to another file works again.
    #[test]
    fn a_file_that_does_not_open_is_an_error() {
        let entries_of = |number: u64| vec![entry(&[b'a' + number as u8], 1, Some("v"))];
        let files: Vec<_> = (0..2).map(|number| file_of(number, &entries_of(number))).collect();
        let open = |file: &FileMeta| match file.number.0 {
            0 => Ok(StubIter::sorted(entries_of(0))),
            _ => Err(Error::ShutdownInProgress),
        };
        let mut level = LevelIter::new(files, open);
        level.seek_to_first().unwrap();
        level.next().unwrap_err();
        assert!(!level.valid());
        level.seek_to_first().unwrap();
        assert!(level.valid());
    }
}
