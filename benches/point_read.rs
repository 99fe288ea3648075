//! One point read of a key that is there, and of one that is not, from a compacted database of 200,000 keys of 16 + 100
//! bytes.
//!
//! `cargo bench -p sluicedb-benches --bench point_read`

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sluicedb::DbOptions;
use sluicedb_benches::{Numbers, TempDb, key};

const KEYS: u64 = 200_000;

fn gets(criterion: &mut Criterion) {
    let temp = TempDb::open(DbOptions::default());
    for number in 0..KEYS {
        temp.db.put(key(2 * number), [7; 100]).expect("a put");
    }
    temp.db.compact_range(None, None).expect("a compaction");
    let mut group = criterion.benchmark_group("get");
    group.throughput(Throughput::Elements(1));
    for (name, odd) in [("found", 0), ("missing", 1)] {
        let mut numbers = Numbers::new(42);
        group.bench_function(name, |bencher| {
            bencher.iter(|| temp.db.get(key(2 * numbers.below(KEYS) + odd)).expect("a get"));
        });
    }
    group.finish();
}

criterion_group!(benches, gets);
criterion_main!(benches);
