//! What the brake and the meter cost a write that nothing holds: an admission, and a charge that crosses no step.
//!
//! With one thread, and with a second one that does the same all the while. At most 30 ns an admission, 20 ns a charge.
//!
//! `cargo bench -p sluicedb-benches --bench pressure`

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use criterion::{Bencher, Criterion, criterion_group, criterion_main};
use sluicedb_controller::{Admission, ControllerOptions, SystemClock, WriteController};
use sluicedb_wbm::{WbmOptions, WriteBufferManager};

/// Measures `work`; with `company`, while another thread does `theirs` again and again.
fn measured(bencher: &mut Bencher<'_>, company: bool, work: impl Fn(), theirs: impl Fn() + Sync) {
    let over = AtomicBool::new(!company);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                theirs();
            }
        });
        bencher.iter(&work);
        over.store(true, Ordering::Relaxed);
    });
}

fn admissions(criterion: &mut Criterion) {
    let controller = WriteController::new(&ControllerOptions::default(), Arc::new(SystemClock))
        .expect("the defaults are valid");
    let client = controller.register("bench");
    let admit = || assert!(matches!(client.admit(1_016), Admission::Passed), "nothing holds it");
    for (threads, company) in [(1, false), (2, true)] {
        criterion.bench_function(&format!("admit, undelayed, {threads} threads"), |bencher| {
            measured(bencher, company, admit, admit);
        });
    }
}

fn charges(criterion: &mut Criterion) {
    let mut options = WbmOptions::new(1 << 60);
    options.initiate_flushes = false;
    let manager = WriteBufferManager::new(options, Arc::new(SystemClock)).expect("the options are valid");
    let database = manager.register("bench", None);
    let [mine, other] = ["one", "other"].map(|name| database.open_charge(&name.into()));
    for (threads, company) in [(1, false), (2, true)] {
        criterion.bench_function(&format!("charge, no step crossed, {threads} threads"), |bencher| {
            measured(bencher, company, || mine.grow(64), || other.grow(64));
        });
    }
}

criterion_group!(benches, admissions, charges);
criterion_main!(benches);
