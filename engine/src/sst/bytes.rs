//! [`BlockBytes`]: the raw contents of one block, wherever they live.
//!
//! A block that had to be decompressed or read lives on the heap, shared with the block cache; a stored block
//! of a mapped file is used where it lies. Holding one keeps its memory alive and nothing else. It knows no
//! format: who looks inside is [`block`](super::block).

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::env::MappedFile;

/// Part of a heap block or of a mapped file. Derefs to `[u8]`; a clone shares the memory and allocates
/// nothing.
#[derive(Clone)]
pub(crate) struct BlockBytes {
    holder: Holder,
    start: usize,
    len: usize,
}

#[derive(Clone)]
enum Holder {
    // Contents in the same allocation as the counts: one dependent memory access less on a cache hit.
    Heap(Arc<[u8]>),
    Mapped(Arc<MappedFile>),
}

impl BlockBytes {
    /// The first `len` bytes of `bytes`.
    pub(crate) fn heap(bytes: Arc<[u8]>, len: usize) -> Self {
        assert!(len <= bytes.len(), "a block of {len} bytes in a buffer of {}", bytes.len());
        Self { holder: Holder::Heap(bytes), start: 0, len }
    }

    /// The part `range` of a mapped file, in place. The range must lie inside the file.
    #[inline]
    pub(crate) fn mapped(file: Arc<MappedFile>, range: Range<usize>) -> Self {
        debug_assert!(range.start <= range.end && range.end <= file.len());
        Self { holder: Holder::Mapped(file), start: range.start, len: range.end - range.start }
    }

    /// The part `range` of this, sharing its memory. The range must lie inside.
    #[inline]
    pub(crate) fn slice(mut self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len, "a part outside its block");
        self.start += range.start;
        self.len = range.end - range.start;
        self
    }

    /// Heap memory that this keeps alive, in bytes; mapped bytes are the operating system's.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.holder {
            Holder::Heap(bytes) => bytes.len(),
            Holder::Mapped(_) => 0,
        }
    }
}

impl Deref for BlockBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let all: &[u8] = match &self.holder {
            Holder::Heap(bytes) => bytes,
            Holder::Mapped(file) => file,
        };
        &all[self.start..self.start + self.len]
    }
}

impl fmt::Debug for BlockBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match &self.holder {
            Holder::Heap(_) => "heap",
            Holder::Mapped(_) => "mapped",
        };
        write!(f, "BlockBytes({} bytes, {place})", self.len)
    }
}
