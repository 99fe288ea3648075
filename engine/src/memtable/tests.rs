//! Both reps against a `BTreeMap`, and many threads inserting at once.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{ArenaListRep, ChunkPool, MemtableRep, SkipListRep};
use crate::key::{SequenceNumber, ValueType, pack_trailer, seek_key};

fn no_pool() -> Arc<ChunkPool> {
    Arc::new(ChunkPool::new(0))
}

/// Against a `BTreeMap`: point reads at any sequence, and iteration and seeks both ways, over keys whose first eight
/// bytes often agree, some of them shorter than eight bytes or ending in zeros.
#[test]
fn agrees_with_a_btree_map() {
    check(Arc::new(SkipListRep::default()));
    check(Arc::new(ArenaListRep::new(4096, no_pool())));
}

fn check(rep: Arc<dyn MemtableRep>) {
    let mut model: BTreeMap<(Vec<u8>, std::cmp::Reverse<u64>), Vec<u8>> = BTreeMap::new();
    let mut random = 0x9e37_79b9_u64;
    let mut draw = |bound: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % bound
    };
    let mut keys = Vec::new();
    for seq in 1..2000 {
        let mut key = b"sameprefix"[..draw(11) as usize].to_vec();
        key.resize(key.len() + draw(3) as usize, draw(2) as u8);
        let trailer = pack_trailer(SequenceNumber::new(seq), ValueType::Put);
        rep.insert(&key, trailer, &seq.to_le_bytes(), &mut |_| {});
        model.insert((key.clone(), std::cmp::Reverse(trailer)), seq.to_le_bytes().to_vec());
        keys.push(key);
    }
    for key in &keys {
        let seq = SequenceNumber::new(draw(2100));
        let trailer = pack_trailer(seq, ValueType::MAX);
        let expected = model.range((key.clone(), std::cmp::Reverse(trailer))..).next();
        let expected = expected.filter(|((k, _), _)| k == key).map(|(_, value)| value.clone());
        let mut found = None;
        rep.get(key, trailer, &mut |_, value| found = Some(value.to_vec()));
        assert_eq!(found, expected, "{key:?} at {seq}");

        let mut iter = Arc::clone(&rep).iter();
        iter.seek(&seek_key(key, seq)).unwrap();
        let after =
            model.range((key.clone(), std::cmp::Reverse(trailer))..).next().map(|(_, value)| value.clone());
        assert_eq!(iter.valid().then(|| iter.value().to_vec()), after);
        iter.seek_for_prev(&seek_key(key, seq)).unwrap();
        let before = model.range(..=(key.clone(), std::cmp::Reverse(trailer))).next_back();
        assert_eq!(iter.valid().then(|| iter.value().to_vec()), before.map(|(_, value)| value.clone()));
    }
    let mut iter = Arc::clone(&rep).iter();
    drop(rep);
    let mut walked = Vec::new();
    iter.seek_to_first().unwrap();
    while iter.valid() {
        walked.push(iter.value().to_vec());
        iter.next().unwrap();
    }
    assert_eq!(walked, model.values().cloned().collect::<Vec<_>>());
    iter.seek_to_last().unwrap();
    while iter.valid() {
        assert_eq!(Some(iter.value().to_vec()), walked.pop());
        iter.prev().unwrap();
    }
    assert!(walked.is_empty());
}

/// Threads insert interleaved keys at once; all are found, in order, each once.
#[test]
fn threads_insert_at_once() {
    for rep in [
        Arc::new(SkipListRep::default()) as Arc<dyn MemtableRep>,
        Arc::new(ArenaListRep::new(4096, no_pool())),
    ] {
        std::thread::scope(|scope| {
            for thread in 0..4_u32 {
                let rep = &rep;
                scope.spawn(move || {
                    for n in 0..2000_u32 {
                        let key = (n * 4 + thread).to_be_bytes();
                        let seq = SequenceNumber::new(u64::from(n * 4 + thread) + 1);
                        rep.insert(&key, pack_trailer(seq, ValueType::Put), &key, &mut |_| {});
                    }
                });
            }
        });
        let mut iter = Arc::clone(&rep).iter();
        iter.seek_to_first().unwrap();
        for n in 0..8000_u32 {
            assert!(iter.valid(), "{n}");
            assert_eq!(iter.value(), n.to_be_bytes());
            iter.next().unwrap();
        }
        assert!(!iter.valid());
    }
}

/// Counts what each thread asks the allocator for and gives back.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static ALLOCATED: Cell<i64> = const { Cell::new(0) };
}

fn count(bytes: i64) {
    // A thread that is ending has no cell any more, and nobody asks for its count.
    let _ = ALLOCATED.try_with(|allocated| allocated.set(allocated.get() + bytes));
}

// SAFETY: every call goes to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`, which is `System`'s.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

/// `pressure M5`: what a rep charges is what it asks the allocator for, to 1 %, for entries of all sizes and for large
/// values; after the drop nothing is left.
#[test]
fn charges_are_what_is_allocated() {
    let reps: [fn() -> Arc<dyn MemtableRep>; 2] =
        [|| Arc::new(SkipListRep::default()), || Arc::new(ArenaListRep::new(64 << 10, no_pool()))];
    for (which, rep) in reps.iter().enumerate() {
        for (entries, key_len, value_len) in [(100_000_u64, 57, 4_097), (20, 57, 0)] {
            let value = vec![7; 1 << 20];
            let before = ALLOCATED.get();
            let rep = rep();
            let (mut random, mut charged) = (0x9e37_79b9_7f4a_7c15_u64, 0_u64);
            for seq in 1..=entries {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let mut key = [0; 64];
                key[..8].copy_from_slice(&random.to_be_bytes());
                let key = &key[..8 + (random % key_len) as usize];
                let value =
                    if value_len == 0 { &value[..] } else { &value[..(random >> 8) as usize % value_len] };
                let trailer = pack_trailer(SequenceNumber::new(seq), ValueType::Put);
                rep.insert(key, trailer, value, &mut |bytes| charged += bytes);
            }
            let allocated = (ALLOCATED.get() - before) as u64;
            let off = charged.abs_diff(allocated) * 100;
            assert!(
                off <= allocated,
                "rep {which}, {entries} entries: {charged} charged, {allocated} allocated"
            );
            drop(rep);
            // Crossbeam's epochs keep books of their own, and may free what other threads left there.
            let left = (ALLOCATED.get() - before).unsigned_abs();
            let spare = if which == 0 { allocated / 100 } else { 0 };
            assert!(left <= spare, "rep {which}: {left} bytes of {allocated} left behind");
        }
    }
}

/// `pressure M6`: whoever reads the charge after entries that can be reached never finds less than their bytes.
#[test]
fn the_charge_covers_what_can_be_reached() {
    const THREADS: u64 = 8;
    const ENTRIES: u64 = 2_000;
    for rep in [
        Arc::new(SkipListRep::default()) as Arc<dyn MemtableRep>,
        Arc::new(ArenaListRep::new(4096, no_pool())),
    ] {
        let charged = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (rep, charged) = (&rep, &charged);
                scope.spawn(move || {
                    for n in 0..ENTRIES {
                        let id = n * THREADS + thread;
                        let trailer = pack_trailer(SequenceNumber::new(id + 1), ValueType::Put);
                        rep.insert(&id.to_be_bytes(), trailer, &[7; 100], &mut |bytes| {
                            charged.fetch_add(bytes, Ordering::SeqCst);
                        });
                    }
                });
            }
            for _ in 0..50 {
                let mut iter = Arc::clone(&rep).iter();
                iter.seek_to_first().unwrap();
                let mut reachable = 0;
                while iter.valid() {
                    reachable += (iter.key().len() + iter.value().len()) as u64;
                    iter.next().unwrap();
                }
                let charged = charged.load(Ordering::SeqCst);
                assert!(charged >= reachable, "{charged} charged, {reachable} reachable");
            }
        });
    }
}
