//! Which versions of a key may go: [`Gc`].
//!
//! The live snapshots cut the sequences into stripes; readers of one stripe see, of its versions, only the
//! newest. So of each key and stripe the newest version stays and the others go:
//!
//! ```text
//!   snapshots        5          9
//!   sequences   1 2 3 4 5 | 6 7 8 9 | 10 11 ...        of key k: 11, 10, 8, 3, 2
//!   kept              3       8         11
//! ```
//!
//! A tombstone in the oldest stripe hides only what goes with it or lies below; where nothing below can hold
//! the key, it goes too. Pure: entries are stepped through in order, and nothing is allocated for one.
//!
//! Must not know: files, levels, where entries come from.

use crate::key::{SequenceNumber, ValueType};

/// What becomes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Keep,
    /// A newer version hides it from every reader.
    Hidden,
    /// A tombstone that hides nothing any more.
    SpentTombstone,
}

/// The verdict on an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The entry is the first one seen of its user key.
    pub(crate) new_key: bool,
    pub(crate) fate: Fate,
}

/// Decides entry by entry, in internal key order, what a merge keeps.
#[derive(Debug)]
pub(crate) struct Gc<'a> {
    /// Ascending.
    snapshots: &'a [SequenceNumber],
    /// The user key of the last entry.
    user: Vec<u8>,
    /// The stripe of the last entry; `usize::MAX` before the first.
    stripe: usize,
}

impl<'a> Gc<'a> {
    /// `snapshots` are the sequences of all live snapshots, ascending, read after the inputs were chosen: every
    /// later snapshot sees the newest version of each key among them.
    pub(crate) fn new(snapshots: &'a [SequenceNumber]) -> Self {
        debug_assert!(snapshots.is_sorted());
        Self { snapshots, user: Vec::new(), stripe: usize::MAX }
    }

    /// The verdict on the next entry. `nothing_below` says whether nothing below the outputs can hold the key;
    /// it is asked for tombstones of the oldest stripe only.
    #[inline]
    pub(crate) fn step(
        &mut self,
        user: &[u8],
        seq: SequenceNumber,
        value_type: ValueType,
        nothing_below: impl FnOnce(&[u8]) -> bool,
    ) -> Verdict {
        let stripe = self.stripe_of(seq);
        let new_key = self.stripe == usize::MAX || user != self.user;
        if new_key {
            self.user.clear();
            self.user.extend_from_slice(user);
        } else if stripe == self.stripe {
            return Verdict { new_key, fate: Fate::Hidden };
        }
        self.stripe = stripe;
        let spent = stripe == 0 && value_type == ValueType::Delete && nothing_below(user);
        Verdict { new_key, fate: if spent { Fate::SpentTombstone } else { Fate::Keep } }
    }

    /// Whether no snapshot sees `seq`, only readers of now.
    #[inline]
    pub(crate) fn is_of_now(&self, seq: SequenceNumber) -> bool {
        self.snapshots.last().is_none_or(|&newest| newest < seq)
    }

    /// Number of the oldest snapshot that sees `seq`; the count of snapshots if only readers of now do.
    #[inline]
    fn stripe_of(&self, seq: SequenceNumber) -> usize {
        match self.snapshots {
            [] => 0,
            snapshots => snapshots.partition_point(|&snapshot| snapshot < seq),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::iter::stub::{Entries, Rng, entry};
    use crate::key::{compare_internal, split_internal, unpack_trailer};

    fn collect(entries: &Entries, snapshots: &[SequenceNumber], below: &BTreeSet<Vec<u8>>) -> Entries {
        let mut gc = Gc::new(snapshots);
        let mut last = None;
        let mut kept = Entries::new();
        for (key, value) in entries {
            let (user, trailer) = split_internal(key);
            let (seq, value_type) = unpack_trailer(trailer).unwrap();
            let verdict = gc.step(user, seq, value_type, |user| !below.contains(user));
            assert_eq!(verdict.new_key, last != Some(user));
            last = Some(user);
            if verdict.fate == Fate::Keep {
                kept.push((key.clone(), value.clone()));
            }
        }
        kept
    }

    /// What a reader at `seq` finds first for `user`.
    fn newest<'a>(entries: &'a Entries, user: &[u8], seq: SequenceNumber) -> Option<&'a (Vec<u8>, Vec<u8>)> {
        entries.iter().find(|(key, _)| {
            let (own, trailer) = split_internal(key);
            own == user && trailer >> 8 <= seq.get()
        })
    }

    /// No reader, of a live snapshot or of now, sees a change; and nothing stays that could go.
    ///
    /// Method: random versions of few keys, random snapshots, random keys below, against a search from
    /// scratch per reader. An entry that stays must be what some reader finds first, and must not be a
    /// tombstone that every reader of an oldest stripe could do without.
    #[test]
    fn readers_see_no_change_and_nothing_dead_stays() {
        for seed in 1..=2_000 {
            let mut rng = Rng(seed);
            let writes = rng.below(40);
            let mut entries: Entries = (1..=writes)
                .map(|seq| {
                    let user = [b'a' + rng.below(5) as u8];
                    let value = seq.to_string();
                    entry(&user, seq, (rng.below(3) != 0).then_some(value.as_str()))
                })
                .collect();
            entries.sort_by(|a, b| compare_internal(&a.0, &b.0));
            let mut snapshots: Vec<_> =
                (0..rng.below(4)).map(|_| SequenceNumber::new(rng.below(writes + 2))).collect();
            snapshots.sort();
            let below: BTreeSet<Vec<u8>> =
                (b'a'..=b'e').filter(|_| rng.below(2) == 0).map(|user| vec![user]).collect();
            let kept = collect(&entries, &snapshots, &below);

            let readers: Vec<_> = snapshots.iter().copied().chain([SequenceNumber::MAX]).collect();
            let is_tombstone = |e: &(Vec<u8>, Vec<u8>)| split_internal(&e.0).1 & 0xff == 0;
            for user in b'a'..=b'e' {
                for &reader in &readers {
                    let before = newest(&entries, &[user], reader);
                    let after = newest(&kept, &[user], reader);
                    let gone =
                        after.is_none() && before.is_some_and(is_tombstone) && !below.contains(&[user][..]);
                    assert!(before == after || gone, "seed {seed}, key {user}, reader {reader}");
                }
            }
            let oldest = snapshots.first().copied().unwrap_or(SequenceNumber::MAX);
            for e in &kept {
                let (user, trailer) = split_internal(&e.0);
                let needed = readers.iter().any(|&reader| newest(&entries, user, reader) == Some(e));
                assert!(needed, "seed {seed}: a hidden version stays");
                let spent = is_tombstone(e) && trailer >> 8 <= oldest.get() && !below.contains(user);
                assert!(!spent, "seed {seed}: a spent tombstone stays");
            }
        }
    }

    /// The picture of this module's opening.
    #[test]
    fn one_version_stays_per_stripe() {
        let entries: Entries = [11, 10, 8, 3, 2].map(|seq| entry(b"k", seq, Some("v"))).into();
        let snapshots = [5, 9].map(SequenceNumber::new);
        let kept = collect(&entries, &snapshots, &BTreeSet::new());
        let seqs: Vec<_> = kept.iter().map(|(key, _)| split_internal(key).1 >> 8).collect();
        assert_eq!(seqs, [11, 8, 3]);
    }

    /// The empty user key is a key like any other, also as the first one.
    #[test]
    fn the_empty_key_is_a_new_key() {
        let verdict = Gc::new(&[]).step(b"", SequenceNumber::new(1), ValueType::Put, |_| true);
        assert_eq!(verdict, Verdict { new_key: true, fate: Fate::Keep });
    }
}
