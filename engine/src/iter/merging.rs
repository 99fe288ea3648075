//! One sorted run out of many: [`MergingIterator`].
//!
//! The child that stands on the wanted entry is the *current* one; every other child that is valid waits in a
//! binary heap. A move steps the current child and compares it once with the heap's top, the runner-up: while
//! one child stays in front, that comparison is the whole cost, and a single child costs none. Beside each
//! child's number the heap keeps the first 16 bytes of its user key, so most comparisons touch no key at all.
//!
//! Order: internal keys as [`compare_internal`] has them; of equal ones, that of the child given first.
//! Turning round re-seeks every other child at the current key.
//!
//! Must not know: where entries come from, which of them a reader may see.

use super::InternalIterator;
use crate::error::Result;
use crate::key::{compare_internal, user_key};

/// `current` when the iterator is not valid.
const NOWHERE: usize = usize::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// A child that is valid, with the first bytes of the user key on which it stands.
#[derive(Debug, Clone, Copy)]
struct Standing {
    prefix: u128,
    child: usize,
}

/// A k-way merge of internal iterators.
pub(crate) struct MergingIterator<I: InternalIterator = Box<dyn InternalIterator>> {
    children: Vec<I>,
    /// The child on the wanted entry, or [`NOWHERE`].
    current: usize,
    /// A heap of all other valid children: the next one in the present direction on top.
    waiting: Vec<Standing>,
    direction: Direction,
    /// Where the iterator turns round; reused.
    turning_key: Vec<u8>,
}

impl<I: InternalIterator> MergingIterator<I> {
    /// A merge of `children`, the newest source first. Not positioned yet.
    pub(crate) fn new(children: Vec<I>) -> Self {
        let waiting = Vec::with_capacity(children.len());
        Self { children, current: NOWHERE, waiting, direction: Direction::Forward, turning_key: Vec::new() }
    }

    /// Moves every child, then finds the foremost.
    fn move_all<const FORWARD: bool>(
        &mut self,
        mut to: impl FnMut(usize, &mut I) -> Result<()>,
    ) -> Result<()> {
        self.direction = if FORWARD { Direction::Forward } else { Direction::Backward };
        self.current = NOWHERE;
        self.waiting.clear();
        for (number, child) in self.children.iter_mut().enumerate() {
            if let Err(error) = to(number, child) {
                self.waiting.clear();
                return Err(error);
            }
            if child.valid() {
                self.waiting.push(Standing { prefix: prefix(child.key()), child: number });
            }
        }
        for at in (0..self.waiting.len() / 2).rev() {
            self.sift_down::<FORWARD>(at);
        }
        self.take_top::<FORWARD>();
        Ok(())
    }

    /// The runner-up becomes the current child.
    fn take_top<const FORWARD: bool>(&mut self) {
        self.current = NOWHERE;
        if !self.waiting.is_empty() {
            self.current = self.waiting.swap_remove(0).child;
            self.sift_down::<FORWARD>(0);
        }
    }

    /// The current child has moved: is it still the foremost?
    #[inline]
    fn settle<const FORWARD: bool>(&mut self, moved: Result<()>) -> Result<()> {
        if moved.is_err() {
            self.current = NOWHERE;
            self.waiting.clear();
            return moved;
        }
        let child = &self.children[self.current];
        if !child.valid() {
            self.take_top::<FORWARD>();
        } else if let Some(&top) = self.waiting.first() {
            let here = Standing { prefix: prefix(child.key()), child: self.current };
            if self.precedes::<FORWARD>(top, here) {
                self.current = top.child;
                self.waiting[0] = here;
                self.sift_down::<FORWARD>(0);
            }
        }
        Ok(())
    }

    /// Whether `a` comes before `b` in the direction of travel. Never true both ways.
    #[inline]
    fn precedes<const FORWARD: bool>(&self, a: Standing, b: Standing) -> bool {
        let order = a.prefix.cmp(&b.prefix).then_with(|| {
            compare_internal(self.children[a.child].key(), self.children[b.child].key())
                .then(a.child.cmp(&b.child))
        });
        if FORWARD { order.is_lt() } else { order.is_gt() }
    }

    fn sift_down<const FORWARD: bool>(&mut self, mut at: usize) {
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            if left >= self.waiting.len() {
                return;
            }
            let mut first = left;
            if right < self.waiting.len() && self.precedes::<FORWARD>(self.waiting[right], self.waiting[left])
            {
                first = right;
            }
            if !self.precedes::<FORWARD>(self.waiting[first], self.waiting[at]) {
                return;
            }
            self.waiting.swap(at, first);
            at = first;
        }
    }

    /// Turns round at the current entry and takes one step the other way.
    ///
    /// Every other child goes to the first entry beyond the current one. Where it holds an equal internal key,
    /// the order of children says whether that entry lies behind or ahead.
    #[cold]
    fn turn<const FORWARD: bool>(&mut self) -> Result<()> {
        let current = self.current;
        let mut here = std::mem::take(&mut self.turning_key);
        here.clear();
        here.extend_from_slice(self.children[current].key());
        let turned = self.move_all::<FORWARD>(|number, child| {
            if number == current {
                return if FORWARD { child.next() } else { child.prev() };
            }
            if FORWARD {
                child.seek(&here)?;
            } else {
                child.seek_for_prev(&here)?;
            }
            let wrong_side = if FORWARD { number < current } else { number > current };
            if wrong_side && child.valid() && child.key() == here {
                return if FORWARD { child.next() } else { child.prev() };
            }
            Ok(())
        });
        self.turning_key = here;
        turned
    }
}

/// The first 16 bytes of the user key as a number, padded with zeros. Unequal ones are ordered as their keys.
#[inline]
fn prefix(key: &[u8]) -> u128 {
    let user = user_key(key);
    match user.first_chunk::<16>() {
        Some(first) => u128::from_be_bytes(*first),
        None => {
            let mut padded = [0; 16];
            padded[..user.len()].copy_from_slice(user);
            u128::from_be_bytes(padded)
        }
    }
}

impl<I: InternalIterator> InternalIterator for MergingIterator<I> {
    #[inline]
    fn valid(&self) -> bool {
        self.current != NOWHERE
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.move_all::<true>(|_, child| child.seek_to_first())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.move_all::<false>(|_, child| child.seek_to_last())
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        self.move_all::<true>(|_, child| child.seek(target))
    }

    fn seek_for_prev(&mut self, target: &[u8]) -> Result<()> {
        self.move_all::<false>(|_, child| child.seek_for_prev(target))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if self.direction == Direction::Backward {
            return self.turn::<true>();
        }
        let moved = self.children[self.current].next();
        self.settle::<true>(moved)
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        if self.direction == Direction::Forward {
            return self.turn::<false>();
        }
        let moved = self.children[self.current].prev();
        self.settle::<false>(moved)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.children[self.current].key()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.children[self.current].value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iter::stub::{Entries, Rng, StubIter, entry, walk};

    /// Any walk over the merge of random children sees what the same walk over one sorted run sees.
    ///
    /// Method: children with few user keys (short, long, with shared prefixes), some internal keys in two of
    /// them; 300 random moves, turns included, against a vector sorted by internal key and child.
    #[test]
    fn any_walk_equals_a_walk_over_one_run() {
        for seed in 1..=200 {
            let mut rng = Rng(seed);
            let count = rng.below(6) as usize;
            let mut children = vec![Entries::new(); count];
            let mut all = Vec::new();
            for seq in 1..=rng.below(60) {
                let user = [&b"k"[..], b"key", b"a-key-longer-than-16-bytes", b""][rng.below(4) as usize];
                let user = [user, &[rng.below(4) as u8; 2][..rng.below(3) as usize]].concat();
                for (number, child) in children.iter_mut().enumerate() {
                    if rng.below(4) == 0 {
                        let made = entry(&user, seq, Some(&number.to_string()));
                        child.push(made.clone());
                        all.push((made, number));
                    }
                }
            }
            all.sort_by(|a, b| compare_internal(&a.0.0, &b.0.0).then(a.1.cmp(&b.1)));
            let model: Entries = all.into_iter().map(|(made, _)| made).collect();
            let merged = MergingIterator::new(children.into_iter().map(StubIter::sorted).collect());
            walk(merged, StubIter::in_order(model), &mut rng, 300, &format!("seed {seed}"));
        }
    }

    /// An error of any child ends the merge and is handed up; a later seek starts afresh.
    #[test]
    fn an_error_makes_the_merge_invalid() {
        let a = StubIter::sorted(vec![entry(b"a", 1, Some("1")), entry(b"c", 1, Some("1"))]);
        let mut b = StubIter::sorted(vec![entry(b"b", 1, Some("2")), entry(b"d", 1, Some("2"))]);
        b.fail_at = Some(1);
        let mut merged = MergingIterator::new(vec![a, b]);
        merged.seek_to_first().unwrap();
        merged.next().unwrap();
        assert_eq!(user_key(merged.key()), b"b");
        merged.next().unwrap_err();
        assert!(!merged.valid());
        merged.seek_to_first().unwrap();
        assert_eq!(user_key(merged.key()), b"a");
    }

    /// While one child stays in front, a step asks for one key beside its own moves; a single child for none.
    #[test]
    fn staying_in_front_costs_one_comparison() {
        let run = |from: u8| StubIter::sorted((0..100).map(|n| entry(&[from, n], 1, Some(""))).collect());
        let mut merged = MergingIterator::new((0..8).map(run).collect());
        merged.seek_to_first().unwrap();
        let before: u64 = merged.children.iter().map(|child| child.keys_asked.get()).sum();
        for _ in 0..99 {
            merged.next().unwrap();
        }
        let after: u64 = merged.children.iter().map(|child| child.keys_asked.get()).sum();
        assert_eq!(after - before, 99);

        let mut single = MergingIterator::new(vec![run(1)]);
        single.seek_to_first().unwrap();
        let before = single.children[0].keys_asked.get();
        while single.valid() {
            single.next().unwrap();
        }
        assert_eq!(single.children[0].keys_asked.get(), before);
    }
}
