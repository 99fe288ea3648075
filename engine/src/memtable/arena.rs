//! [`Arena`]: memory that is handed out piece by piece and given back all at once.
//!
//! Pieces come from chunks of one size; a piece that would waste much of a chunk gets a chunk of its own. Handing out
//! is one atomic addition, from any number of threads; a new chunk takes a lock. Who needs the memory, and what lies
//! in it, is not known here.

use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::chunk_pool::{Chunk, ChunkPool};
use crate::sync::Mutex;

/// Alignment of every piece.
pub(super) const ALIGN: usize = 8;

/// Memory that is handed out piece by piece and given back all at once.
#[derive(Debug)]
pub(super) struct Arena {
    chunk_size: usize,
    /// Where whole chunks come from and go to.
    pool: Arc<ChunkPool>,
    /// The chunk that pieces are taken from; null before the first.
    current: AtomicPtr<Opened>,
    /// All chunks; boxed, so that `current` stays valid while the list grows.
    #[expect(clippy::vec_box, reason = "chunks must not move when the list grows")]
    chunks: Mutex<Vec<Box<Opened>>>,
}

/// A chunk, and how much of it is handed out.
#[derive(Debug)]
struct Opened {
    chunk: Chunk,
    used: AtomicUsize,
}

// SAFETY: it hands out each byte of its chunk at most once (`used` only grows, and is atomic); the chunk never changes.
unsafe impl Sync for Opened {}

impl Arena {
    /// Takes nothing yet. `chunk_size` is a multiple of [`ALIGN`].
    pub(super) fn new(chunk_size: usize, pool: Arc<ChunkPool>) -> Self {
        Self { chunk_size, pool, current: AtomicPtr::new(null_mut()), chunks: Mutex::new(Vec::new()) }
    }

    /// `size` bytes, aligned to [`ALIGN`], not initialised, valid until the arena is dropped. Whenever the allocator is
    /// asked for more, `charge` is told how many bytes beforehand, with no lock held.
    pub(super) fn take(&self, size: usize, charge: &mut dyn FnMut(u64)) -> NonNull<u8> {
        let size = size.next_multiple_of(ALIGN);
        if size > self.chunk_size / 4 {
            return self.take_alone(size, charge);
        }
        loop {
            // Pairs with the release store below: who sees a chunk sees its fields.
            let current = self.current.load(Ordering::Acquire);
            // SAFETY: `current` is null or points to a chunk in `chunks`, where it stays until the arena is dropped.
            if let Some(chunk) = unsafe { current.as_ref() }
                && let Some(piece) = chunk.take(size)
            {
                return piece;
            }
            charge(self.chunk_size as u64);
            let fresh = Box::new(Opened::new(self.pool.take(self.chunk_size)));
            let mut chunks = self.chunks.lock();
            // Another thread may have been faster. What is left of its chunk is then not used any more: charged, and
            // at most one chunk for each thread that inserts at once.
            chunks.push(fresh);
            let fresh: *const Opened = &**chunks.last().expect("just pushed");
            self.current.store(fresh.cast_mut(), Ordering::Release);
        }
    }

    fn take_alone(&self, size: usize, charge: &mut dyn FnMut(u64)) -> NonNull<u8> {
        charge(size as u64);
        let chunk = Box::new(Opened::new(Chunk::new(size)));
        let piece = chunk.take(size).expect("made for it");
        self.chunks.lock().push(chunk);
        piece
    }
}

impl Opened {
    fn new(chunk: Chunk) -> Self {
        Self { chunk, used: AtomicUsize::new(0) }
    }

    fn take(&self, size: usize) -> Option<NonNull<u8>> {
        // Only uniqueness is needed: nothing is published by taking a piece.
        let at = self.used.fetch_add(size, Ordering::Relaxed);
        if at.checked_add(size)? > self.chunk.size() {
            return None;
        }
        // SAFETY: `at + size` lies inside the chunk.
        Some(unsafe { self.chunk.start().add(at) })
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for opened in std::mem::take(&mut *self.chunks.lock()) {
            if opened.chunk.size() == self.chunk_size {
                self.pool.give_back(opened.chunk);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces of all sizes, taken by several threads, are aligned and do not overlap; what was charged is what the chunks
    /// take.
    #[test]
    fn pieces_do_not_overlap() {
        let arena = Arena::new(4096, Arc::new(ChunkPool::new(0)));
        let charged = AtomicUsize::new(0);
        let mut pieces: Vec<(usize, usize)> = std::thread::scope(|scope| {
            let take = |thread: usize| {
                let (arena, charged) = (&arena, &charged);
                move || {
                    let mut pieces = Vec::new();
                    for n in 1..400_usize {
                        let size = (n * 37 + thread) % 1500 + 1;
                        let piece = arena.take(size, &mut |bytes| {
                            charged.fetch_add(bytes as usize, Ordering::Relaxed);
                        });
                        assert_eq!(piece.as_ptr() as usize % ALIGN, 0);
                        pieces.push((piece.as_ptr() as usize, size));
                    }
                    pieces
                }
            };
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(take(thread))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        pieces.sort_unstable();
        for pair in pieces.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:?}");
        }
        let held: usize = arena.chunks.lock().iter().map(|chunk| chunk.chunk.size()).sum();
        assert_eq!(charged.load(Ordering::Relaxed), held);
    }
}
