//! Ten thousand writes in flight from two threads: `cargo run --release --example async_writes [DIRECTORY]`.
//!
//! A few threads keep thousands of writes under way, and one append carries hundreds of them; so even with a sync for
//! every acknowledgement the rate is that of the queue, not of the disk. The same load is run by blocking threads for
//! comparison, by threads that hold tickets, and by tasks of a tokio runtime, which the store itself does not know.
//! Printed are writes per second, writes per append, syncs, and how far the log is durable at the end.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sluicedb::{
    Clock, Db, DbOptions, Durability, Result, SystemClock, WriteBatch, WriteOptions, WriteTicket,
};

/// Submitting threads.
const THREADS: usize = 2;
/// Writes in flight, over both threads.
const IN_FLIGHT: usize = 10_000;
/// Writes of each run with tickets.
const WRITES: usize = 400_000;
/// Writes of the run without, which takes a sync for every one or two.
const BLOCKING_WRITES: usize = 20_000;
const VALUE_LEN: usize = 100;

fn main() -> Result<()> {
    let dir = std::env::args_os().nth(1).map_or_else(
        || std::env::temp_dir().join(format!("sluicedb-async-{}", std::process::id())),
        Into::into,
    );
    println!(
        "{IN_FLIGHT} writes of 16 + {VALUE_LEN} bytes in flight from {THREADS} threads, in {}",
        dir.display()
    );
    for durability in [Durability::Os, Durability::Sync] {
        println!(
            "\n{durability:?}: acknowledged when {}",
            match durability {
                Durability::Sync => "synced to the device",
                _ => "handed to the kernel",
            }
        );
        run(&dir, "blocking threads", durability, BLOCKING_WRITES, blocking)?;
        run(&dir, "tickets", durability, WRITES, with_tickets)?;
        run(&dir, "tokio", durability, WRITES, with_tokio)?;
    }
    Ok(())
}

/// Runs one load in a fresh database and prints what came of it.
fn run(
    dir: &Path,
    name: &str,
    durability: Durability,
    writes: usize,
    load: impl Fn(&Db, &WriteOptions, usize) -> Result<()>,
) -> Result<()> {
    let options = DbOptions::default();
    Db::destroy(dir, &options)?;
    let db = Db::open(dir, options.clone())?;
    let before = db.statistics();
    let began = SystemClock.now_nanos();
    load(&db, &WriteOptions::durability(durability), writes)?;
    let took = Duration::from_nanos(SystemClock.now_nanos() - began);
    let after = db.statistics();
    println!(
        "{name:>16}: {:>8.0} writes/s, {:>7.1} writes per append, {:>6} syncs, durable to {} of {}",
        writes as f64 / took.as_secs_f64(),
        writes as f64 / (after.commit_groups - before.commit_groups).max(1) as f64,
        after.wal_syncs - before.wal_syncs,
        db.durable_sequence(),
        db.latest_sequence(),
    );
    db.close()?;
    drop(db);
    Db::destroy(dir, &options)
}

fn batch(thread: usize, number: usize) -> WriteBatch {
    let mut batch = WriteBatch::with_capacity(VALUE_LEN + 32);
    batch.put(format!("{:016x}", thread << 32 | number), [b'v'; VALUE_LEN]);
    batch
}

/// Runs `body` on each thread; the first error is returned.
fn on_threads(body: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let body = &body;
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || body(thread))).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("a thread of the example does not panic"))
    })
}

/// One write in flight per thread.
fn blocking(db: &Db, options: &WriteOptions, writes: usize) -> Result<()> {
    on_threads(|thread| (0..writes / THREADS).try_for_each(|n| db.write_opt(batch(thread, n), options)))
}

/// Each thread submits as long as its share of the writes is not in flight, then waits for the oldest.
fn with_tickets(db: &Db, options: &WriteOptions, writes: usize) -> Result<()> {
    on_threads(|thread| {
        let mut in_flight: VecDeque<WriteTicket> = VecDeque::new();
        for n in 0..writes / THREADS {
            if in_flight.len() == IN_FLIGHT / THREADS
                && let Some(oldest) = in_flight.pop_front()
            {
                oldest.wait()?;
            }
            in_flight.push_back(db.write_async_opt(batch(thread, n), options));
        }
        in_flight.into_iter().try_for_each(|ticket| ticket.wait().map(drop))?;
        Ok(())
    })
}

/// As many tasks as writes in flight, each awaiting one write after the other, on a runtime of two threads.
fn with_tokio(db: &Db, options: &WriteOptions, writes: usize) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .build()
        .expect("a runtime of the example starts");
    let options = Arc::new(options.clone());
    runtime.block_on(async {
        let tasks: Vec<_> = (0..IN_FLIGHT)
            .map(|task| {
                let (db, options) = (db.clone(), Arc::clone(&options));
                tokio::spawn(async move {
                    for n in 0..writes / IN_FLIGHT {
                        db.write_async_opt(batch(task, n), &options).await?;
                    }
                    Ok::<(), sluicedb::Error>(())
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("a task of the example does not panic")?;
        }
        Ok(())
    })
}
