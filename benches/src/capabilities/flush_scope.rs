//! B4f: `get` and `put` while the table of a flush is being built and cannot go on, against an idle database.
//!
//! The file system is simulated and in memory: what is compared is waiting, not a device.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sluicedb::{Db, DbOptions, Error, FlushOptions};
use sluicedb_tests::sim_fs::{FileKind, Op, Pattern, SimFs};

use super::figure::Figure;
use super::sample::percentile;
use crate::{Numbers, key};

const KEYS: u64 = 10_000;

/// Times of calls in microseconds.
#[derive(Default)]
struct Times {
    get: Vec<f64>,
    put: Vec<f64>,
}

fn call(db: &Db, numbers: &mut Numbers, for_time: Duration) -> Result<Times, Error> {
    let (mut times, start) = (Times::default(), Instant::now());
    while start.elapsed() < for_time {
        let number = numbers.below(KEYS);
        let began = Instant::now();
        let value = db.get(key(number))?;
        times.get.push(began.elapsed().as_secs_f64() * 1e6);
        assert_eq!(value.as_deref(), Some(&[b'v'; 100][..]), "key {number} has another value");
        let began = Instant::now();
        db.put(key(number), [b'v'; 100])?;
        times.put.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(times)
}

/// Measures B4f.get and B4f.put.
///
/// # Errors
///
/// Of the database.
pub fn measure(quick: bool, out: &mut dyn FnMut(Figure)) -> Result<(), Error> {
    let rounds = if quick { 1 } else { 3 };
    let (mut gated, mut idle) = (Times::default(), Times::default());
    for _ in 0..rounds {
        let fs = SimFs::new(1);
        let mut options = DbOptions::default();
        options.file_system = Arc::new(fs.clone());
        let db = Db::open("/db", options)?;
        (0..KEYS).try_for_each(|number| db.put(key(number), [b'v'; 100]))?;
        let mut numbers = Numbers::new(7);
        let before = call(&db, &mut numbers, Duration::from_secs(1))?;
        let gate = fs.gate(Pattern::op(Op::Sync).on(FileKind::Sst));
        let mut no_wait = FlushOptions::default();
        no_wait.wait = false;
        db.flush_opt(&no_wait)?;
        gate.wait_until_reached();
        let during = call(&db, &mut numbers, Duration::from_secs(2))?;
        gate.open();
        db.close()?;
        idle.get.push(percentile(&before.get, 0.99));
        idle.put.push(percentile(&before.put, 0.99));
        gated.get.push(percentile(&during.get, 0.99));
        gated.put.push(percentile(&during.put, 0.99));
    }
    for (id, idle, gated) in [("B4f.get", &idle.get, &gated.get), ("B4f.put", &idle.put, &gated.put)] {
        let p99 = super::sample::median(idle);
        out(Figure::limit(id, "us", 2.0 * p99, gated)
            .with("idle_p99", p99)
            .with("injection", "the sync of the table held for 2 s")
            .with("durability", "Os"));
    }
    Ok(())
}
