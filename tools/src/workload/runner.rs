//! Threads behind a barrier: starts the workers of one run, watches them, merges their counts.
//!
//! Owns the order of a run (workers ready, monitor on, barrier, join, merge) and which loop a
//! [`Work`] means. Must not know what the monitor reports: it is handed the pulses and a way to stop.

use std::sync::Barrier;
use std::sync::atomic::Ordering::{Relaxed, Release};

use super::catalogue::Work;
use super::stats::{Pulse, Totals};
use super::worker::{Failure, Run, Worker};
use super::{delete, fill, mixed, read, scan};
use crate::report::live::LiveLatency;
use crate::report::monitor::{Monitor, Observed};

/// Runs one benchmark once and returns what all threads counted together.
///
/// `first_stream` numbers the random streams of the process: worker i draws from stream `first_stream + i`.
pub fn run(run: &Run<'_>, first_stream: u64, monitor: Monitor<'_>) -> Result<(Totals, Observed), Failure> {
    let background = usize::from(run.plan.background_writer);
    let threads = run.plan.threads + background;
    let pulses: Vec<Pulse> = (0..threads)
        .map(|_| Pulse {
            latency: monitor.wants_latency().then(Box::<LiveLatency>::default),
            ..Pulse::default()
        })
        .collect();
    run.foreground.store(run.plan.threads, Release);
    let barrier = Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|number| {
                let (pulse, barrier) = (&pulses[number], &barrier);
                let name = format!("bench-{number}");
                let body = move || {
                    barrier.wait();
                    one_thread(run, number, background, first_stream + number as u64, pulse)
                };
                std::thread::Builder::new().name(name).spawn_scoped(scope, body)
            })
            .collect::<Result<_, _>>()
            .map_err(|error| Failure(format!("cannot start a thread: {error}")))?;
        // The monitor's clock starts before any worker's, so that no operation is missed.
        let watch = monitor.start(scope, &pulses);
        barrier.wait();
        let mut totals = Totals::default();
        let mut failure = None;
        for (number, worker) in workers.into_iter().enumerate() {
            match worker.join() {
                // The background writer's operations are not the benchmark's.
                Ok(Ok(counts)) if number >= background => totals.merge(&counts),
                Ok(Ok(_)) => {}
                Ok(Err(reason)) => failure = failure.or(Some(reason)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        let observed = watch.stop();
        match failure {
            Some(reason) => Err(reason),
            None => Ok((totals, observed)),
        }
    })
}

fn one_thread(
    run: &Run<'_>,
    number: usize,
    background: usize,
    stream: u64,
    pulse: &Pulse,
) -> Result<Totals, Failure> {
    let mut worker = Worker::start(run, number, stream, pulse);
    let outcome =
        if number < background { fill::write_in_background(&mut worker) } else { work(&mut worker) };
    let totals = worker.stats.stop();
    if number >= background {
        run.foreground.fetch_sub(1, Release);
    }
    if outcome.is_err() {
        run.stop.store(true, Relaxed);
    }
    outcome.map(|()| totals)
}

fn work(worker: &mut Worker<'_>) -> Result<(), Failure> {
    match worker.run.plan.work {
        Work::Fill(order) => fill::fill(worker, order),
        Work::ReadRandom => read::random(worker),
        Work::MultiReadRandom => read::multi_random(worker),
        Work::ReadSequential => scan::whole(worker, false),
        Work::ReadReverse => scan::whole(worker, true),
        Work::SeekRandom => scan::seek_random(worker),
        Work::Delete(order) => delete::delete(worker, order),
        Work::UpdateRandom => mixed::update(worker),
        Work::ReadRandomWriteRandom => mixed::read_write(worker),
        Work::NewIterator => scan::new_iterator(worker),
        Work::Compact => compact(worker),
        // The rest is not run on threads.
        Work::CompactAll | Work::Flush | Work::WaitForCompaction | Work::Stats => Ok(()),
        Work::LevelStats | Work::Sstables | Work::MemStats => Ok(()),
        Work::ResetStats | Work::StatsHistory => Ok(()),
    }
}

/// The default column family of every database, over its whole range.
fn compact(worker: &mut Worker<'_>) -> Result<(), Failure> {
    for open in &worker.run.target.dbs {
        open.db.compact_range(None, None).map_err(|error| Failure::of("CompactRange", &error))?;
    }
    Ok(())
}
