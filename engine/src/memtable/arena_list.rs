//! [`ArenaListRep`]: a skip list whose nodes lie in an [`Arena`], the rep that databases use.
//!
//! Compared with [`SkipListRep`](super::SkipListRep), its oracle in the tests: an entry and its node are one piece of
//! memory, nothing is counted or pinned on the way, a quarter of the nodes reach the next level instead of a half, and
//! all memory goes back at once, so a flushed memtable leaves no fragments behind.
//!
//! # How it stays sound
//!
//! Nodes are written completely before they are linked (release), reached only through links (acquire), never changed
//! but for their links, and never freed before the list. Links only ever go from one node to a larger one. So a reader
//! needs no lock and no count: every pointer that it follows leads to a complete node that lives as long as the list.
//! Inserting threads link a node level by level from the bottom, each with a compare-and-swap on the link that they
//! read; a failed one searches on from where it stood.

use std::cmp::Ordering as Order;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::arena::Arena;
use super::chunk_pool::ChunkPool;
use super::{MemtableRep, RepIter, key_prefix};
use crate::error::Result;
use crate::iter::InternalIterator;
use crate::key::{TRAILER_LEN, compare_parts, split_internal};

/// Levels at most. With a quarter reaching the next, enough for 4^12 = 16 million entries.
const MAX_HEIGHT: usize = 12;

/// The head of a node; `height` links follow it, then the internal key, then the value.
#[repr(C)]
struct Node {
    /// First eight bytes of the user key: see [`key_prefix`].
    prefix: u64,
    key_len: u32,
    value_len: u32,
    /// Links above the lowest; the first is `tower[0]`, the others lie behind it in memory.
    height: u32,
    _unused: u32,
    tower: [AtomicPtr<Node>; 1],
}

/// Bytes of a node with one link.
const NODE_LEN: usize = size_of::<Node>();
const LINK_LEN: usize = size_of::<AtomicPtr<Node>>();
const _: () = assert!(NODE_LEN == 32 && align_of::<Node>() <= super::arena::ALIGN);

/// A place in the order of entries.
#[derive(Clone, Copy)]
struct Place<'a> {
    prefix: u64,
    user_key: &'a [u8],
    trailer: u64,
}

impl<'a> Place<'a> {
    fn new(user_key: &'a [u8], trailer: u64) -> Self {
        Self { prefix: key_prefix(user_key), user_key, trailer }
    }

    fn of_internal(key: &'a [u8]) -> Self {
        let (user_key, trailer) = split_internal(key);
        Self::new(user_key, trailer)
    }
}

/// A complete node of a list that lives at least as long as this.
#[derive(Clone, Copy, PartialEq, Eq)]
struct NodeRef(NonNull<Node>);

impl NodeRef {
    fn node(&self) -> &Node {
        // SAFETY: a `NodeRef` is made only from links of a list that its user keeps alive; nodes are complete before
        // they are linked and live as long as the list.
        unsafe { self.0.as_ref() }
    }

    /// The link of a level below the node's height.
    fn link(&self, level: usize) -> &AtomicPtr<Node> {
        debug_assert!(level < self.node().height as usize);
        // SAFETY: `height` links lie in one piece of memory, the first of them at `tower`. The pointer is made from the
        // node's own, which covers the whole piece.
        unsafe { &*(&raw const (*self.0.as_ptr()).tower).cast::<AtomicPtr<Node>>().add(level) }
    }

    #[inline]
    fn next(&self, level: usize) -> Option<NodeRef> {
        // Pairs with the release of the compare-and-swap that linked the node: it is complete.
        NonNull::new(self.link(level).load(Ordering::Acquire)).map(NodeRef)
    }

    /// Internal key and value; the lifetime is the caller's promise that the list lives.
    fn bytes<'a>(self) -> (&'a [u8], &'a [u8]) {
        let node = self.node();
        let (height, key_len, value_len) =
            (node.height as usize, node.key_len as usize, node.value_len as usize);
        // SAFETY: behind the links lie `key_len` and `value_len` bytes, written before the node was linked and never again.
        unsafe {
            let key = self.0.as_ptr().cast::<u8>().add(NODE_LEN - LINK_LEN + height * LINK_LEN);
            (
                std::slice::from_raw_parts(key, key_len),
                std::slice::from_raw_parts(key.add(key_len), value_len),
            )
        }
    }

    #[inline]
    fn compare(self, place: &Place<'_>) -> Order {
        self.node()
            .prefix
            .cmp(&place.prefix)
            .then_with(|| compare_parts(split_internal(self.bytes().0), (place.user_key, place.trailer)))
    }
}

/// A skip list in an arena.
#[derive(Debug)]
pub(crate) struct ArenaListRep {
    arena: Arena,
    head: [AtomicPtr<Node>; MAX_HEIGHT],
    /// State of the generator of heights.
    seed: AtomicU64,
}

/// Where a search stands on one level: the node before the place, or the head.
type Before = Option<NodeRef>;

impl ArenaListRep {
    /// An empty list that takes memory in chunks of `chunk_size` bytes, a multiple of 8, the first with the first entry.
    pub(crate) fn new(chunk_size: usize, pool: Arc<ChunkPool>) -> Self {
        let head = [const { AtomicPtr::new(null_mut()) }; MAX_HEIGHT];
        Self { arena: Arena::new(chunk_size, pool), head, seed: AtomicU64::new(0x9e37_79b9_7f4a_7c15) }
    }

    fn link(&self, before: &Before, level: usize) -> *const AtomicPtr<Node> {
        match before {
            Some(node) => node.link(level),
            None => &self.head[level],
        }
    }

    fn after(&self, before: &Before, level: usize) -> Option<NodeRef> {
        match before {
            Some(node) => node.next(level),
            None => NonNull::new(self.head[level].load(Ordering::Acquire)).map(NodeRef),
        }
    }

    /// On one level, from `before` on: the last node before the place, and the one behind it.
    #[inline]
    fn step(&self, mut before: Before, level: usize, place: &Place<'_>) -> (Before, Option<NodeRef>) {
        loop {
            let next = self.after(&before, level);
            match next {
                Some(node) if node.compare(place).is_lt() => before = next,
                _ => return (before, next),
            }
        }
    }

    /// The first node at or after the place.
    fn lower_bound(&self, place: &Place<'_>) -> Option<NodeRef> {
        let (mut before, mut found) = (None, None);
        for level in (0..MAX_HEIGHT).rev() {
            (before, found) = self.step(before, level, place);
        }
        found
    }

    /// The last node before the place.
    fn last_before(&self, place: &Place<'_>) -> Option<NodeRef> {
        let mut before = None;
        for level in (0..MAX_HEIGHT).rev() {
            (before, _) = self.step(before, level, place);
        }
        before
    }

    fn last(&self) -> Option<NodeRef> {
        let mut before: Before = None;
        for level in (0..MAX_HEIGHT).rev() {
            while let Some(next) = self.after(&before, level) {
                before = Some(next);
            }
        }
        before
    }

    /// A height: each further level with a chance of one in four.
    fn draw_height(&self) -> usize {
        // An update lost between two threads only makes them draw alike.
        let mut seed = self.seed.load(Ordering::Relaxed);
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        self.seed.store(seed, Ordering::Relaxed);
        ((seed.trailing_zeros() / 2) as usize + 1).min(MAX_HEIGHT)
    }

    /// A complete node that is not linked yet.
    fn make_node(
        &self,
        place: &Place<'_>,
        value: &[u8],
        height: usize,
        charge: &mut dyn FnMut(u64),
    ) -> NonNull<Node> {
        let key_len = place.user_key.len() + TRAILER_LEN;
        let links = NODE_LEN - LINK_LEN + height * LINK_LEN;
        let memory = self.arena.take((links + key_len + value.len()).max(NODE_LEN), charge);
        let node = memory.cast::<Node>();
        // SAFETY: the piece is aligned for a node, long enough for the head, `height` links, key and value, and nobody
        // else has it yet.
        unsafe {
            let at = node.as_ptr();
            (&raw mut (*at).prefix).write(place.prefix);
            (&raw mut (*at).key_len).write(key_len as u32);
            (&raw mut (*at).value_len).write(value.len() as u32);
            (&raw mut (*at).height).write(height as u32);
            let tower = (&raw mut (*at).tower).cast::<AtomicPtr<Node>>();
            for level in 0..height {
                tower.add(level).write(AtomicPtr::new(null_mut()));
            }
            let key = memory.as_ptr().add(links);
            key.copy_from_nonoverlapping(place.user_key.as_ptr(), place.user_key.len());
            let trailer = place.trailer.to_le_bytes();
            key.add(place.user_key.len()).copy_from_nonoverlapping(trailer.as_ptr(), TRAILER_LEN);
            key.add(key_len).copy_from_nonoverlapping(value.as_ptr(), value.len());
        }
        node
    }
}

impl MemtableRep for ArenaListRep {
    fn insert(&self, user_key: &[u8], trailer: u64, value: &[u8], charge: &mut dyn FnMut(u64)) {
        let place = Place::new(user_key, trailer);
        let height = self.draw_height();
        let node = self.make_node(&place, value, height, charge);

        let mut splice: [(Before, Option<NodeRef>); MAX_HEIGHT] = [(None, None); MAX_HEIGHT];
        let mut before = None;
        for level in (0..MAX_HEIGHT).rev() {
            splice[level] = self.step(before, level, &place);
            before = splice[level].0;
        }
        for (level, &found) in splice.iter().enumerate().take(height) {
            let (mut before, mut next) = found;
            loop {
                let next_ptr = next.map_or(null_mut(), |next| next.0.as_ptr());
                NodeRef(node).link(level).store(next_ptr, Ordering::Relaxed); // published by the swap below
                // SAFETY: the link belongs to the head or to a linked node; both live as long as the list.
                let link = unsafe { &*self.link(&before, level) };
                // Release: who follows the link sees the complete node. Relaxed on failure: searched anew below.
                match link.compare_exchange(next_ptr, node.as_ptr(), Ordering::Release, Ordering::Relaxed) {
                    Ok(_) => break,
                    Err(_) => (before, next) = self.step(before, level, &place),
                }
            }
        }
    }

    fn get(&self, user_key: &[u8], trailer: u64, found: &mut dyn FnMut(u64, &[u8])) {
        if let Some(node) = self.lower_bound(&Place::new(user_key, trailer)) {
            let (key, value) = node.bytes();
            let (user, trailer) = split_internal(key);
            if user == user_key {
                found(trailer, value);
            }
        }
    }

    fn iter(self: Arc<Self>) -> RepIter {
        Box::new(ArenaListIter { at: None, rep: self })
    }
}

/// Iterates over an [`ArenaListRep`] that it keeps alive.
struct ArenaListIter {
    at: Option<NodeRef>,
    rep: Arc<ArenaListRep>,
}

// SAFETY: a `NodeRef` of a living list may be used from any thread: nodes change only through atomic links, and `rep`
// keeps the list alive.
unsafe impl Send for ArenaListIter {}

impl ArenaListIter {
    fn bytes(&self) -> (&[u8], &[u8]) {
        self.at.expect("only while valid").bytes()
    }
}

impl InternalIterator for ArenaListIter {
    fn valid(&self) -> bool {
        self.at.is_some()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.at = self.rep.after(&None, 0);
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.at = self.rep.last();
        Ok(())
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        self.at = self.rep.lower_bound(&Place::of_internal(target));
        Ok(())
    }

    fn seek_for_prev(&mut self, target: &[u8]) -> Result<()> {
        let place = Place::of_internal(target);
        self.at = match self.rep.lower_bound(&place) {
            Some(node) if node.compare(&place).is_eq() => Some(node),
            _ => self.rep.last_before(&place),
        };
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.at = self.at.and_then(|node| node.next(0));
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.at = self.at.and_then(|node| self.rep.last_before(&Place::of_internal(node.bytes().0)));
        Ok(())
    }

    fn key(&self) -> &[u8] {
        self.bytes().0
    }

    fn value(&self) -> &[u8] {
        self.bytes().1
    }
}
