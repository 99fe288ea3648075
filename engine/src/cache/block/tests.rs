//! The block cache: one loader per missing block, bounds, and what a key is made of.

use std::sync::Barrier;

use super::*;
use crate::error::Error;

fn block(len: usize) -> BlockBytes {
    BlockBytes::heap(vec![7; len].into(), len)
}

fn key(offset: u64) -> BlockKey {
    BlockKey { file_id: 1, offset }
}

/// Of many threads that miss one block, one loads it; the others get what it loaded.
#[test]
fn one_thread_loads_for_all() {
    const THREADS: usize = 8;
    let cache = BlockCache::new(1 << 20);
    for round in 0..100 {
        let (loads, start) = (AtomicU64::new(0), Barrier::new(THREADS));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    start.wait();
                    let loaded = cache.get_or_load(key(round), || {
                        loads.fetch_add(1, Ordering::Relaxed); // counted after all threads have ended
                        Ok(block(100))
                    });
                    assert_eq!(loaded.unwrap().len(), 100);
                });
            }
        });
        assert_eq!(loads.into_inner(), 1, "round {round}");
    }
    assert_eq!(cache.hits() + cache.misses(), 100 * THREADS as u64);
}

/// A loader that fails leaves nothing behind; the next one tries again.
#[test]
fn a_failed_load_is_tried_again() {
    let cache = BlockCache::new(1 << 20);
    let failed = cache.get_or_load(key(1), || Err(Error::ShutdownInProgress));
    assert!(matches!(failed, Err(Error::ShutdownInProgress)));
    assert_eq!(cache.get_or_load(key(1), || Ok(block(5))).unwrap().len(), 5);
    assert!(cache.get(key(1)).is_some());
}

/// The cache stays within its bytes whatever passes through it, and one of no bytes still hands blocks out.
#[test]
fn usage_stays_within_capacity() {
    for capacity in [0, 1, 10_000, 1 << 20] {
        let cache = BlockCache::new(capacity);
        for offset in 0..5_000 {
            let len = 50 + (offset % 97) as usize * 40;
            assert_eq!(cache.get_or_load(key(offset), || Ok(block(len))).unwrap().len(), len);
            assert!(cache.usage() <= capacity + 64, "{} of {capacity}", cache.usage());
        }
        assert_eq!(cache.capacity(), capacity);
        assert!(cache.usage() >= capacity / 2 || capacity < 10_000, "{} of {capacity}", cache.usage());
    }
}

/// Blocks of files with other ids are other blocks.
#[test]
fn the_file_is_part_of_the_key() {
    let cache = BlockCache::new(1 << 20);
    cache.get_or_load(key(1), || Ok(block(1))).unwrap();
    assert!(cache.get(BlockKey { file_id: 2, offset: 1 }).is_none());
}
