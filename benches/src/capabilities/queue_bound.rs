//! B0a, B0b, B0c: the queue bounded by bytes against the queue bounded by a number of records.
//!
//! A thousand closed-loop requests of three dependent `Sync` puts each are multiplexed on 16 threads by ticket. A put that
//! finds no slot is tried again by its thread, without rest: so slots that become free while a group is being collected
//! are taken at once, as blocked senders do in the design that is compared with.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use sluicedb::bench_arms::{QueueBound, set_queue_bound};
use sluicedb::{Db, Durability, Error, WriteOptions, WriteTicket};

use super::device::{batch, options, slow_log};
use super::figure::{Better, Figure};
use super::sample::percentile;
use sluicedb_tests::sim_fs::{FileKind, Op, Pattern, SimFs};

const REQUESTS: usize = 1_000;
const THREADS: usize = 16;
const PUTS: u32 = 3;
const RECORDS: u32 = 50;

/// What one run of one arm gave.
struct Run {
    per_second: f64,
    /// Times of requests, in ms.
    times: Vec<f64>,
    group: f64,
}

/// One request: how many of its puts are done, and the one under way.
struct Request {
    began: Instant,
    done: u32,
    ticket: Option<WriteTicket>,
}

fn run(bound: QueueBound, per_append: Duration, for_time: Duration) -> Result<Run, Error> {
    set_queue_bound(bound);
    let fs = slow_log(per_append, 0);
    let db = Db::open("/db", options(&fs))?;
    let over = AtomicBool::new(false);
    let times = Mutex::new(Vec::new());
    let began = Instant::now();
    let outcome = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (db, over, times) = (&db, &over, &times);
                scope.spawn(move || -> Result<(), Error> {
                    let count = (REQUESTS + thread) / THREADS;
                    let mine = ask(db, thread, count, over)?;
                    times.lock().expect("no thread panics").extend(mine);
                    Ok(())
                })
            })
            .collect();
        std::thread::sleep(for_time);
        over.store(true, Ordering::Release);
        threads.into_iter().try_for_each(|thread| thread.join().expect("a client does not panic"))
    });
    let took = began.elapsed().as_secs_f64();
    set_queue_bound(QueueBound::Bytes);
    outcome?;
    let times = times.into_inner().expect("no thread panics");
    let puts = db.latest_sequence().get() as f64;
    let group = puts / db.statistics().commit_groups.max(1) as f64;
    db.close()?;
    Ok(Run { per_second: times.len() as f64 / took, times, group })
}

/// One thread's requests, one after the other in each of its places, until it is over; their times in ms.
fn ask(db: &Db, thread: usize, count: usize, over: &AtomicBool) -> Result<Vec<f64>, Error> {
    let mut write = WriteOptions::durability(Durability::Sync);
    write.no_slowdown = true; // a ticket waits in this thread, not in the database
    let fresh = || Request { began: Instant::now(), done: 0, ticket: None };
    let mut requests: Vec<Request> = (0..count).map(|_| fresh()).collect();
    let (mut times, mut number) = (Vec::new(), (thread as u64) << 32);
    loop {
        let (ends, mut moved, mut under_way) = (over.load(Ordering::Acquire), false, false);
        for request in &mut requests {
            if let Some(ticket) = &mut request.ticket {
                match ticket.try_wait() {
                    None => {
                        under_way = true;
                        continue;
                    }
                    Some(Ok(_)) => request.done += 1,
                    Some(Err(refused)) if matches!(refused.error(), Error::QueueFull { .. }) => {}
                    Some(Err(refused)) => return Err(refused.into()),
                }
                request.ticket = None;
                moved = true;
            }
            if request.done == PUTS {
                times.push(request.began.elapsed().as_secs_f64() * 1e3);
                *request = fresh();
            }
            if !ends {
                number += 1;
                request.ticket = Some(db.write_async_opt(batch(number, 100), &write));
            }
        }
        if ends && !under_way && !moved {
            return Ok(times);
        }
        if !moved {
            std::thread::yield_now();
        }
    }
}

/// Measures B0a, B0b and B0c.
///
/// # Errors
///
/// Of the database.
pub fn measure(quick: bool, out: &mut dyn FnMut(Figure)) -> Result<(), Error> {
    let samples = if quick { 2 } else { 5 };
    let (per_append, slow_time, limit) = if quick { (20, 2.5, 200.0) } else { (200, 30.0, 2_000.0) };
    for (latency, time, slow) in [(0, if quick { 1.0 } else { 5.0 }, false), (per_append, slow_time, true)] {
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for _ in 0..samples {
            let (latency, time) = (Duration::from_millis(latency), Duration::from_secs_f64(time));
            old.push(run(QueueBound::Records(RECORDS), latency, time)?);
            new.push(run(QueueBound::Bytes, latency, time)?);
        }
        report(slow, latency, limit, &old, &new, out);
    }
    peak(if quick { 2 << 20 } else { 64 << 20 }, if quick { 1 << 20 } else { 32 << 20 }, out)
}

fn report(slow: bool, latency: u64, limit: f64, old: &[Run], new: &[Run], out: &mut dyn FnMut(Figure)) {
    let of = |runs: &[Run], value: &dyn Fn(&Run) -> f64| runs.iter().map(value).collect::<Vec<_>>();
    let rate = |run: &Run| run.per_second;
    let group = |run: &Run| run.group;
    let part = |part: f64| move |run: &Run| percentile(&run.times, part);
    let told = |figure: Figure| {
        figure
            .with("injection", format!("{latency} ms per append"))
            .with("durability", "Sync")
            .with("file_system", "simulated, in memory")
            .with("callers", format!("{REQUESTS} requests on {THREADS} threads"))
            .with("group", json!({"baseline": of(old, &group), "ours": of(new, &group)}))
    };
    let pair = |id, unit, better, value: &dyn Fn(&Run) -> f64| {
        told(Figure::pair(id, unit, better, &of(old, value), &of(new, value)))
    };
    if !slow {
        out(pair("B0a", "req/s", Better::More, &rate).reach(1.0));
        out(pair("B0a.p99", "ms", Better::Less, &part(0.99)).reach(1.0));
        return;
    }
    out(pair("B0b", "req/s", Better::More, &rate).reach(1.99));
    out(pair("B0b.p50", "ms", Better::Less, &part(0.5)).reach(1.52));
    out(pair("B0b.p99", "ms", Better::Less, &part(0.99)).reach(1.37));
    let late = |runs: &[Run]| runs.iter().flat_map(|run| &run.times).filter(|time| **time > limit).count();
    out(told(Figure::zero("B0b.over_2s", "requests", late(new) as f64))
        .with("limit_ms", limit)
        .with("baseline_requests", late(old)));
}

/// B0c: the most bytes that lie in a queue which nobody drains.
fn peak(bound: u64, unit: usize, out: &mut dyn FnMut(Figure)) -> Result<(), Error> {
    let most = |arm: QueueBound| -> Result<f64, Error> {
        set_queue_bound(arm);
        let fs = SimFs::new(1);
        let mut options = options(&fs);
        options.commit_queue_bytes = bound;
        options.max_batch_bytes = 64 << 20;
        options.group_queue_limit = 1_000;
        options.async_waiting_bytes = 1;
        options.db_write_buffer_size = 8 << 30;
        let db = Db::open("/db", options)?;
        let mut write = WriteOptions::durability(Durability::Os);
        write.no_slowdown = true;
        let gate = fs.gate(Pattern::op(Op::Write).on(FileKind::Wal));
        let first = db.write_async_opt(batch(0, 100), &write);
        gate.wait_until_reached();
        let framing = 64;
        let mut tickets = Vec::new();
        let (mut queued, mut refused) = (0.0_f64, false);
        for number in 1..=200 {
            let batch = batch(number, unit - framing);
            let bytes = batch.byte_size() as f64;
            let mut ticket = db.write_async_opt(batch, &write);
            refused = ticket.try_wait().is_some();
            if refused {
                break;
            }
            queued += bytes;
            tickets.push(ticket);
        }
        set_queue_bound(QueueBound::Bytes);
        gate.open();
        tickets.into_iter().chain([first]).try_for_each(|ticket| ticket.wait().map(drop))?;
        db.close()?;
        assert!(refused, "a queue without a bound");
        Ok(queued)
    };
    let (records, bytes) = (most(QueueBound::Records(RECORDS))?, most(QueueBound::Bytes)?);
    let limit = (bound + unit as u64 - 1) as f64;
    out(Figure::limit("B0c", "bytes", limit, &[bytes])
        .with("records_peak", records)
        .with("unit", unit)
        .with("queue_bytes", bound)
        .with("injection", "the log's writes held")
        .with("durability", "Os"));
    Ok(())
}
