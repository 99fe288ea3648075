//! [`VersionBuilder`]: a base version and edits make the next version.
//!
//! Files are removed and added by level, then sorted (L0 newest first, deeper levels by smallest key), then the
//! whole is checked ([`crate::check`]). An edit that removes a file which is not there, or adds one that is, fails
//! at once. Used at open for all edits of a manifest, and before each install for one.
//!
//! This file knows no disk; what a failed check means is said by
//! [`InvalidVersion`]'s `in_manifest` and `at_install`.

use std::sync::Arc;

use super::{FileMeta, Version};
use crate::check::{InvalidVersion, age, check_version};
use crate::key::compare_internal;
use crate::manifest::FamilyEdit;

/// Makes the next version of one column family.
#[derive(Debug)]
pub(crate) struct VersionBuilder {
    levels: Vec<Vec<Arc<FileMeta>>>,
    /// Levels that need sorting again.
    touched: Vec<bool>,
}

impl VersionBuilder {
    pub(crate) fn new(base: &Version) -> Self {
        let levels: Vec<_> = (0..base.num_levels()).map(|level| base.files(level).to_vec()).collect();
        Self { touched: vec![false; levels.len()], levels }
    }

    /// Applies the removals of `edit`, then its additions.
    ///
    /// # Errors
    ///
    /// A file removed that is not in that level, added twice, or added to a level that there is not. The builder
    /// is then good for nothing.
    pub(crate) fn apply(&mut self, edit: &FamilyEdit) -> Result<(), InvalidVersion> {
        for (level, number) in &edit.removed {
            let files = self.level(*level)?;
            let Some(at) = files.iter().position(|file| file.number == *number) else {
                return Err(InvalidVersion::new(format!(
                    "file {number} is to leave L{level} and is not in it"
                )));
            };
            files.remove(at);
        }
        for (level, file) in &edit.added {
            let files = self.level(*level)?;
            if files.iter().any(|other| other.number == file.number) {
                return Err(InvalidVersion::new(format!("file {} is in L{level} already", file.number)));
            }
            files.push(Arc::clone(file));
        }
        Ok(())
    }

    fn level(&mut self, level: u32) -> Result<&mut Vec<Arc<FileMeta>>, InvalidVersion> {
        let count = self.levels.len();
        let index = level as usize;
        if let Some(touched) = self.touched.get_mut(index) {
            *touched = true;
        }
        self.levels
            .get_mut(index)
            .ok_or_else(|| InvalidVersion::new(format!("there is no L{level}, only {count} levels")))
    }

    /// The version, sorted and checked.
    pub(crate) fn finish(mut self) -> Result<Version, InvalidVersion> {
        for (level, files) in self.levels.iter_mut().enumerate() {
            if !self.touched.get(level).copied().unwrap_or(true) {
                continue;
            }
            if level == 0 {
                files.sort_by_key(|file| std::cmp::Reverse(age(file)));
            } else {
                files.sort_by(|a, b| compare_internal(&a.smallest, &b.smallest));
            }
        }
        let version = Version::from_levels(self.levels);
        check_version(&version)?;
        Ok(version)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::key::{SequenceNumber, ValueType, make_internal};
    use crate::version::FileNumber;

    fn file(number: u64, keys: [&str; 2], seqs: [u64; 2]) -> Arc<FileMeta> {
        let key = |user: &str| {
            let mut out = Vec::new();
            make_internal(&mut out, user.as_bytes(), SequenceNumber::new(seqs[0]), ValueType::Put);
            out.into_boxed_slice()
        };
        Arc::new(FileMeta {
            number: FileNumber(number),
            unique_id: number + 100,
            size: 1000,
            smallest: key(keys[0]),
            largest: key(keys[1]),
            smallest_seq: SequenceNumber::new(seqs[0]),
            largest_seq: SequenceNumber::new(seqs[1]),
            entries: 10,
            tombstones: 0,
            created_micros: 0,
            being_compacted: AtomicBool::new(false),
        })
    }

    fn edit(removed: &[(u32, u64)], added: &[(u32, &Arc<FileMeta>)]) -> FamilyEdit {
        FamilyEdit {
            removed: removed.iter().map(|(level, number)| (*level, FileNumber(*number))).collect(),
            added: added.iter().map(|(level, file)| (*level, Arc::clone(file))).collect(),
            ..FamilyEdit::new(0)
        }
    }

    fn build(base: &Version, edits: &[FamilyEdit]) -> Result<Version, InvalidVersion> {
        let mut builder = VersionBuilder::new(base);
        for edit in edits {
            builder.apply(edit)?;
        }
        builder.finish()
    }

    fn show(version: &Version) -> String {
        let level = |level: usize| {
            version.files(level).iter().map(|file| file.number.0.to_string()).collect::<Vec<_>>().join(" ")
        };
        (0..version.num_levels()).map(level).collect::<Vec<_>>().join(" | ")
    }

    /// L0 is sorted by age and deeper levels by key, whatever the order of the edits; a file can move in one edit.
    #[test]
    fn levels_are_sorted() {
        let (a, b, c) =
            (file(1, ["a", "c"], [1, 5]), file(2, ["a", "z"], [6, 9]), file(3, ["d", "f"], [1, 5]));
        let base = Version::empty(3);
        let version = build(&base, &[edit(&[], &[(0, &a), (0, &c)]), edit(&[], &[(0, &b)])]).unwrap();
        assert_eq!(show(&version), "2 3 1 |  | ");
        let moved = build(&version, &[edit(&[(0, 3)], &[(1, &c)]), edit(&[(0, 1)], &[(1, &a)])]).unwrap();
        assert_eq!(show(&moved), "2 | 1 3 | ");
        assert_eq!(show(&version), "2 3 1 |  | ", "the base is untouched");
    }

    /// Each rule that an edit can break is refused in words that name the file, and as what the caller makes of it.
    #[test]
    fn broken_rules_are_named() {
        let a = file(1, ["a", "c"], [1, 5]);
        let base = build(&Version::empty(3), &[edit(&[], &[(1, &a)])]).unwrap();
        let refused = |edits: &[FamilyEdit]| build(&base, edits).unwrap_err().to_string();
        assert_eq!(refused(&[edit(&[(1, 9)], &[])]), "file 000009 is to leave L1 and is not in it");
        assert_eq!(refused(&[edit(&[(0, 1)], &[])]), "file 000001 is to leave L0 and is not in it");
        assert_eq!(refused(&[edit(&[], &[(1, &a)])]), "file 000001 is in L1 already");
        assert_eq!(refused(&[edit(&[], &[(2, &a)])]), "file 000001 is there twice, once in L2");
        assert_eq!(refused(&[edit(&[], &[(3, &a)])]), "there is no L3, only 3 levels");
        let touching = file(2, ["c", "d"], [1, 5]);
        assert_eq!(
            refused(&[edit(&[], &[(1, &touching)])]),
            "files 000001 and 000002 of L1 overlap or are out of order"
        );
        let backwards = file(3, ["z", "y"], [1, 5]);
        assert_eq!(refused(&[edit(&[], &[(2, &backwards)])]), "file 000003 of L2 has bounds out of order");
        let late = file(4, ["y", "z"], [5, 1]);
        assert_eq!(refused(&[edit(&[], &[(0, &late)])]), "file 000004 of L0 has sequences out of order");

        let broken = build(&base, &[edit(&[(1, 9)], &[])]).unwrap_err();
        let manifest = std::path::Path::new("db/MANIFEST-000005");
        assert!(
            broken.clone().in_manifest(manifest).to_string().starts_with("db/MANIFEST-000005 is corrupt")
        );
        assert!(matches!(broken.at_install(), crate::Error::InvalidArgument { .. }));
    }
}
