//! Both reps against a `BTreeMap`, and many threads inserting at once.

use std::collections::BTreeMap;

use std::sync::Arc;

use super::{ArenaListRep, MemtableRep, SkipListRep};
use crate::key::{SequenceNumber, ValueType, pack_trailer, seek_key};

/// Against a `BTreeMap`: point reads at any sequence, and iteration and seeks both ways, over keys whose first eight
/// bytes often agree, some of them shorter than eight bytes or ending in zeros.
#[test]
fn agrees_with_a_btree_map() {
    check(Arc::new(SkipListRep::default()));
    check(Arc::new(ArenaListRep::new(4096)));
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
    for rep in [Arc::new(SkipListRep::default()) as Arc<dyn MemtableRep>, Arc::new(ArenaListRep::new(4096))] {
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
