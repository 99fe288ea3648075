//! One put of 16 + 100 bytes, from the call to the acknowledgement, at each durability, from one thread.
//!
//! `cargo bench -p sluicedb-benches --bench write_path`

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sluicedb::{DbOptions, Durability, WriteOptions};
use sluicedb_benches::{Numbers, TempDb, key};

fn puts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("put");
    group.throughput(Throughput::Elements(1));
    for durability in [Durability::None, Durability::Buffered, Durability::Os, Durability::Sync] {
        // Without the brake: the path is measured here, not the delay.
        let mut options = DbOptions::default();
        options.allow_stall = false;
        let temp = TempDb::open(options);
        let mut numbers = Numbers::new(42);
        let write_options = WriteOptions::durability(durability);
        group.bench_function(format!("{durability:?}"), |bencher| {
            bencher.iter(|| {
                temp.db.put_opt(key(numbers.below(1_000_000)), [7; 100], &write_options).expect("a put")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, puts);
criterion_main!(benches);
