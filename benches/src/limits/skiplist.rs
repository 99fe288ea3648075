//! The cheapest skip list that keeps keys in order: what an ordered memtable index costs at the least.
//!
//! One thread, one arena, 16-byte keys within the nodes, a chance of 1/4 for each further level. No sequence numbers,
//! no readers: a bound to measure against, not a rep.

use crate::Numbers;

const MAX_HEIGHT: usize = 12;
/// Words of a node before its tower: the key's four and the value's offset.
const HEADER: usize = 5;

/// The list. Links are indexes into one vector of words; 0 is the head, and as a link the end.
#[derive(Debug)]
pub struct ArenaSkiplist {
    words: Vec<u32>,
    height: usize,
    numbers: Numbers,
}

impl ArenaSkiplist {
    /// An empty list with room for so many entries.
    pub fn with_capacity(entries: usize) -> Self {
        let mut words = Vec::with_capacity(HEADER + MAX_HEIGHT + entries * (HEADER + 2));
        words.resize(HEADER + MAX_HEIGHT, 0);
        Self { words, height: 1, numbers: Numbers::new(99) }
    }

    /// Puts a key with the offset of its value.
    pub fn insert(&mut self, key: [u8; 16], value: u32) {
        let key = words_of(key);
        let mut before = [0_usize; MAX_HEIGHT];
        let mut at = 0;
        for level in (0..self.height).rev() {
            loop {
                let next = self.words[at + HEADER + level] as usize;
                if next == 0 || self.key(next) >= key {
                    break;
                }
                at = next;
            }
            before[level] = at;
        }
        let height = self.random_height();
        self.height = self.height.max(height);
        let node = self.words.len();
        self.words.extend(key);
        self.words.push(value);
        for (level, &previous) in before.iter().enumerate().take(height) {
            let link = previous + HEADER + level;
            self.words.push(self.words[link]);
            self.words[link] = node as u32;
        }
    }

    /// The offsets of the values in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = u32> {
        let next = |at: usize| match self.words[at + HEADER] as usize {
            0 => None,
            next => Some(next),
        };
        std::iter::successors(next(0), move |&at| next(at)).map(|at| self.words[at + HEADER - 1])
    }

    fn key(&self, node: usize) -> [u32; 4] {
        let word = |index| self.words[node + index];
        [word(0), word(1), word(2), word(3)]
    }

    fn random_height(&mut self) -> usize {
        let mut height = 1;
        while height < MAX_HEIGHT && self.numbers.below(4) == 0 {
            height += 1;
        }
        height
    }
}

/// Words that compare as the bytes do.
fn words_of(key: [u8; 16]) -> [u32; 4] {
    let word = |at: usize| u32::from_be_bytes([key[at], key[at + 1], key[at + 2], key[at + 3]]);
    [word(0), word(4), word(8), word(12)]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::key;

    #[test]
    fn values_come_in_the_order_of_keys() {
        let mut list = ArenaSkiplist::with_capacity(10);
        let mut oracle = BTreeMap::new();
        let mut numbers = Numbers::new(3);
        for value in 0..5_000 {
            let key = key(numbers.below(1 << 40));
            list.insert(key, value);
            oracle.insert(key, value);
        }
        assert!(list.values().eq(oracle.into_values()));
    }
}
