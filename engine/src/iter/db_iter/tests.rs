//! [`DbIterator`] against a sorted map, over random versions, snapshots, bounds and moves.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::*;
use crate::iter::merging::MergingIterator;
use crate::iter::stub::{Entries, Rng, StubIter, entry};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a reader at `seq` sees of `history`, inside the bounds.
fn visible(history: &Entries, seq: u64, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Model {
    let mut newest: BTreeMap<Vec<u8>, (u64, &[u8])> = BTreeMap::new();
    for (key, value) in history {
        let (user, trailer) = split_internal(key);
        let inside = lower.is_none_or(|lower| user >= lower) && upper.is_none_or(|upper| user < upper);
        if inside && trailer >> 8 <= seq && newest.get(user).is_none_or(|&(other, _)| other < trailer) {
            newest.insert(user.to_vec(), (trailer, value));
        }
    }
    let puts = newest.into_iter().filter(|(_, (trailer, _))| trailer & 0xff == 1);
    puts.map(|(user, (_, value))| (user, value.to_vec())).collect()
}

fn view(history: &Entries, parts: usize, seq: u64, bounds: (Option<&[u8]>, Option<&[u8]>)) -> DbIterator {
    let mut children = vec![Entries::new(); parts.max(1)];
    for (n, made) in history.iter().enumerate() {
        children[n % parts.max(1)].push(made.clone());
    }
    let merged = MergingIterator::new(children.into_iter().map(StubIter::sorted).collect());
    let (lower, upper) = (bounds.0.map(Into::into), bounds.1.map(Into::into));
    DbIterator::new(Box::new(merged), SequenceNumber::new(seq), lower, upper, Box::new(()))
}

/// Any walk sees exactly the newest visible versions inside the bounds.
///
/// Method: histories in which some keys have far more than 8 versions, random snapshot and bounds, 150 random
/// moves with turns, against a map; then both adaptors.
#[test]
fn any_walk_equals_a_walk_over_a_map() {
    for seed in 1..=600 {
        let mut rng = Rng(seed);
        let writes = rng.below(120);
        let keys = 1 + rng.below(12);
        let mut history = Entries::new();
        for seq in 1..=writes {
            let hot = rng.below(3) == 0;
            let user = vec![b'a' + if hot { 0 } else { rng.below(keys) as u8 }; 1 + rng.below(2) as usize];
            let value = seq.to_string();
            history.push(entry(&user, seq, (rng.below(4) != 0).then_some(value.as_str())));
        }
        let seq = rng.below(writes + 2);
        let mut bound =
            || (rng.below(3) == 0).then(|| vec![b'a' + rng.below(13) as u8; 1 + rng.below(2) as usize]);
        let (lower, upper) = (bound(), bound());
        let model = visible(&history, seq, lower.as_deref(), upper.as_deref());
        let new = || view(&history, seed as usize % 4, seq, (lower.as_deref(), upper.as_deref()));
        let mut it = new();
        let mut here: Option<Vec<u8>> = None;
        for step in 0..150 {
            let target = vec![b'`' + rng.below(14) as u8; 1 + rng.below(2) as usize];
            let first_from = |bound| model.range::<Vec<u8>, _>((bound, Bound::Unbounded)).next();
            let last_to = |bound| model.range::<Vec<u8>, _>((Bound::Unbounded, bound)).next_back();
            let choice = rng.below(if here.is_some() { 30 } else { 4 });
            let expected = match (choice, &here) {
                (0, _) => it.seek_to_first().map(|()| model.first_key_value()),
                (1, _) => it.seek_to_last().map(|()| model.last_key_value()),
                (2, _) => it.seek(&target).map(|()| first_from(Bound::Included(&target))),
                (3, _) => it.seek_for_prev(&target).map(|()| last_to(Bound::Included(&target))),
                (4..=16, Some(here)) => it.next().map(|()| first_from(Bound::Excluded(here))),
                (_, Some(here)) => it.prev().map(|()| last_to(Bound::Excluded(here))),
                (_, None) => unreachable!(),
            }
            .unwrap();
            let found = it.valid().then(|| (it.key().to_vec(), it.value().to_vec()));
            assert_eq!(
                found,
                expected.map(|(key, value)| (key.clone(), value.clone())),
                "seed {seed}, step {step}, move {choice}"
            );
            here = found.map(|(key, _)| key);
        }
        let pairs = |entry: Result<Entry>| {
            let (key, value) = entry.unwrap();
            (key.into_vec(), value.into_vec())
        };
        let forward: Vec<_> = new().forward().map(pairs).collect();
        assert_eq!(forward, model.clone().into_iter().collect::<Vec<_>>(), "seed {seed}");
        let backward: Vec<_> = new().backward().map(pairs).collect();
        assert_eq!(backward, model.into_iter().rev().collect::<Vec<_>>(), "seed {seed}");
    }
}

/// The adaptors go on from where a positioned iterator stands, and show nothing past an end.
#[test]
fn adaptors_start_where_the_iterator_stands() {
    let history: Entries = (1..=4).map(|n| entry(&[b'0' + n], u64::from(n), Some("v"))).collect();
    let mut it = view(&history, 1, 9, (None, None));
    it.seek("3").unwrap();
    assert_eq!(it.forward().map(|entry| entry.unwrap().0[0]).collect::<Vec<_>>(), b"34");
    let mut it = view(&history, 1, 9, (None, None));
    it.seek("3").unwrap();
    assert_eq!(it.backward().map(|entry| entry.unwrap().0[0]).collect::<Vec<_>>(), b"321");
    let mut it = view(&history, 1, 9, (None, None));
    it.seek("5").unwrap();
    assert_eq!(it.forward().count(), 0);
}

/// A thousand hidden versions of one key cost a few steps and a seek, in both directions.
#[test]
fn hidden_versions_are_seeked_over() {
    /// Counts what is asked of the iterator inside.
    struct Counting(StubIter, std::sync::Arc<std::sync::atomic::AtomicU64>);
    impl Counting {
        fn count(&self) {
            self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
    impl InternalIterator for Counting {
        fn valid(&self) -> bool {
            self.0.valid()
        }
        fn seek_to_first(&mut self) -> Result<()> {
            self.0.seek_to_first()
        }
        fn seek_to_last(&mut self) -> Result<()> {
            self.0.seek_to_last()
        }
        fn seek(&mut self, target: &[u8]) -> Result<()> {
            self.count();
            self.0.seek(target)
        }
        fn seek_for_prev(&mut self, target: &[u8]) -> Result<()> {
            self.count();
            self.0.seek_for_prev(target)
        }
        fn next(&mut self) -> Result<()> {
            self.count();
            self.0.next()
        }
        fn prev(&mut self) -> Result<()> {
            self.count();
            self.0.prev()
        }
        fn key(&self) -> &[u8] {
            self.0.key()
        }
        fn value(&self) -> &[u8] {
            self.0.value()
        }
    }
    let mut history: Entries = (1..=1000).map(|seq| entry(b"b", seq, Some("old"))).collect();
    history.push(entry(b"b", 1001, None));
    history.push(entry(b"a", 1002, Some("a")));
    history.push(entry(b"c", 1003, Some("c")));
    for seq in [500, 1003] {
        let moves = std::sync::Arc::default();
        let inner = Counting(StubIter::sorted(history.clone()), std::sync::Arc::clone(&moves));
        let mut it = DbIterator::new(Box::new(inner), SequenceNumber::new(seq), None, None, Box::new(()));
        it.seek_to_first().unwrap();
        while it.valid() {
            it.next().unwrap();
        }
        it.seek_to_last().unwrap();
        while it.valid() {
            it.prev().unwrap();
        }
        let moves = moves.load(std::sync::atomic::Ordering::Relaxed);
        assert!(moves < 60, "{moves} moves at sequence {seq}");
    }
}

/// An unknown value type is damage, said and not shown; an error makes the iterator invalid.
#[test]
fn an_unknown_kind_is_corruption() {
    let mut history = vec![entry(b"a", 1, Some("v"))];
    history[0].0[1] = 9;
    let mut it = view(&history, 1, 9, (None, None));
    assert!(matches!(it.seek_to_first(), Err(Error::Corruption { .. })));
    assert!(!it.valid());
    assert!(matches!(it.seek_to_last(), Err(Error::Corruption { .. })));
    let errors: Vec<_> = view(&history, 1, 9, (None, None)).forward().map(|entry| entry.is_err()).collect();
    assert_eq!(errors, [true]);
}
