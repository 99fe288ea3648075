//! [`ChunkPool`]: chunks of memory that flushed memtables gave back, for the next ones.
//!
//! A page that the system hands out anew costs its first writer a fault of a microsecond or more, on a virtual machine several;
//! a chunk that was used before costs nothing. So some of what memtables give back is kept. It never adds to the most that
//! memtables have held at once, since kept chunks are taken first. What lies in a chunk is not known here.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use super::arena::ALIGN;
use crate::sync::Mutex;

/// Chunks of memory to be used again.
#[derive(Debug)]
pub(crate) struct ChunkPool {
    /// Most bytes that are kept.
    capacity: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    chunks: Vec<Chunk>,
    bytes: usize,
}

/// Memory of a given size, freed when dropped.
#[derive(Debug)]
pub(super) struct Chunk {
    start: NonNull<u8>,
    size: usize,
}

// SAFETY: a chunk owns its memory.
unsafe impl Send for Chunk {}

impl ChunkPool {
    /// Keeps at most so many bytes; 0 keeps nothing.
    pub(crate) fn new(capacity: u64) -> Self {
        Self { capacity: usize::try_from(capacity).unwrap_or(usize::MAX), kept: Mutex::default() }
    }

    /// A chunk of `size` bytes, at least one, with anything in it.
    pub(super) fn take(&self, size: usize) -> Chunk {
        let mut kept = self.kept.lock();
        // The last one given back is the likeliest to be in the processor's cache.
        if let Some(at) = kept.chunks.iter().rposition(|chunk| chunk.size == size) {
            kept.bytes -= size;
            return kept.chunks.swap_remove(at);
        }
        drop(kept);
        Chunk::new(size)
    }

    /// Takes a chunk back, or frees it when enough are kept.
    pub(super) fn give_back(&self, chunk: Chunk) {
        let mut kept = self.kept.lock();
        if kept.bytes + chunk.size <= self.capacity {
            kept.bytes += chunk.size;
            kept.chunks.push(chunk);
        } else {
            drop(kept); // freeing takes a while
            drop(chunk);
        }
    }

    /// Bytes that are kept for later.
    pub(crate) fn idle_bytes(&self) -> u64 {
        self.kept.lock().bytes as u64
    }
}

impl Chunk {
    pub(super) fn new(size: usize) -> Self {
        // SAFETY: the size is not zero: chunks and pieces have at least one word.
        let start = unsafe { alloc(Self::layout(size)) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(Self::layout(size)) };
        Self { start, size }
    }

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, ALIGN).expect("sizes are bounded by the largest entry")
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and freed here alone.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.size)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was given back is taken again, up to the capacity, and by its own size only.
    #[test]
    fn chunks_are_used_again() {
        let pool = ChunkPool::new(10_000);
        let chunks = [4096, 4096, 4096].map(|size| pool.take(size));
        let starts = [&chunks[0], &chunks[1]].map(Chunk::start);
        for chunk in chunks {
            pool.give_back(chunk);
        }
        assert_eq!(pool.idle_bytes(), 8192);
        let other = pool.take(1024);
        assert_eq!(pool.idle_bytes(), 8192);
        let mut again = [pool.take(4096), pool.take(4096)].map(|chunk| chunk.start());
        again.sort();
        let mut expected = starts;
        expected.sort();
        assert_eq!(again, expected);
        assert_eq!(pool.idle_bytes(), 0);
        pool.give_back(other);
        assert_eq!(pool.idle_bytes(), 1024);
    }
}
