//! An allocator that counts what is allocated, for benches that report it. A binary makes it its global allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// The system's allocator, counted. A block that grows counts as one more.
#[derive(Debug)]
pub struct Counting;

// SAFETY: every call goes to the system's allocator as it is; counting touches no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed); // a count, nothing is ordered by it
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `block` came from `alloc` above with this layout, hence from the system.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: `block` came from `alloc` above with this layout, hence from the system; `size` is the caller's promise.
        unsafe { System.realloc(block, layout, size) }
    }
}

/// Allocations of all threads so far; 0 where [`Counting`] is not the allocator.
pub fn count() -> u64 {
    ALLOCATIONS.load(Ordering::Relaxed)
}
