//! B4: one producer against a device that takes 55 ms for an append, with and without a lock held across it.
//!
//! The baseline is a queue of the same groups in this file: the guard is kept through append and sync, and the push that
//! fills a group hands it straight to the drain, so that one trip carries one group.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use sluicedb::{Db, Durability, Error, FileSystem, SequenceNumber, WriteOptions};
use sluicedb_tests::sim_fs::{FileKind, Op, SimFs};

use super::device::{batch, options, slow_log};
use super::figure::{Better, Figure};
use super::sample::{mean, median, percentile};

const RECORDS: u64 = 1_000;
const VALUE: usize = 1_000;
const GROUP: u64 = 16;
const PER_APPEND: Duration = Duration::from_millis(55);
const BYTES_PER_SECOND: u64 = 4_000_000;
const LINGER: Duration = Duration::from_millis(10);

/// One sample of one arm. Rates in MB/s, times in ms.
struct Sample {
    producer: f64,
    consumer: f64,
    combined: f64,
    puts: Vec<f64>,
    durable: Vec<f64>,
    ios: f64,
}

impl Sample {
    /// From when each put began and how long it took, when the flush had returned, and when each key was read.
    fn new(began: &[Instant], puts: Vec<f64>, flushed: Instant, read: &[Instant], ios: u64) -> Self {
        let bytes = (RECORDS * (VALUE as u64 + 16)) as f64 / 1e6;
        let over = |from: Instant, to: Instant| bytes / (to - from).as_secs_f64().max(1e-9);
        let (first, last) = (read[0], read[read.len() - 1]);
        let durable = began.iter().zip(read).map(|(put, read)| (*read - *put).as_secs_f64() * 1e3);
        Self {
            producer: over(began[0], flushed),
            consumer: over(first, last),
            combined: over(began[0], last),
            puts,
            durable: durable.collect(),
            ios: ios as f64,
        }
    }
}

/// The store: the leader keeps no lock while it appends.
fn scoped(fs: &SimFs, db: &Db) -> Result<Sample, Error> {
    let (base, ios) = (db.latest_sequence().get(), fs.calls().get(Op::Sync, FileKind::Wal));
    std::thread::scope(|scope| {
        let consumer = scope.spawn(|| -> Result<Vec<Instant>, Error> {
            let mut read = Vec::new();
            while read.len() < RECORDS as usize {
                db.wait_durable(SequenceNumber::new(base + read.len() as u64 + 1))?;
                // A synced write is durable a moment before it is visible.
                let durable =
                    db.durable_sequence().min(db.latest_sequence()).get().min(base + RECORDS) - base;
                if durable == read.len() as u64 {
                    std::thread::yield_now();
                }
                for number in read.len() as u64..durable {
                    let value = db.get(crate::key(base + number))?;
                    assert_eq!(value.map(|value| value.len()), Some(VALUE), "key {number}");
                    read.push(Instant::now());
                }
            }
            Ok(read)
        });
        let write = WriteOptions::durability(Durability::Sync);
        let (mut began, mut puts) = (Vec::new(), Vec::new());
        for number in 0..RECORDS {
            let batch = batch(base + number, VALUE);
            let start = Instant::now();
            drop(db.write_async_opt(batch, &write));
            puts.push(start.elapsed().as_secs_f64() * 1e3);
            began.push(start);
        }
        db.flush_wal(true)?;
        let flushed = Instant::now();
        let read = consumer.join().expect("the consumer does not panic")?;
        let ios = fs.calls().get(Op::Sync, FileKind::Wal) - ios;
        Ok(Sample::new(&began, puts, flushed, &read, ios))
    })
}

/// The baseline's queue, under its guard.
#[derive(Default)]
struct Guarded {
    /// Records of the open group.
    open: Vec<u64>,
    durable: HashSet<u64>,
}

struct HeldQueue {
    guarded: Mutex<Guarded>,
    moved: Condvar,
    file: Box<dyn sluicedb::WritableFile>,
}

impl HeldQueue {
    /// Appends the open group, with the guard held.
    fn drain(&self, guarded: &mut Guarded, at: u64) -> std::io::Result<()> {
        let bytes = vec![b'v'; guarded.open.len() * (VALUE + 32)];
        self.file.write_at(&bytes, at * (VALUE as u64 + 32))?;
        self.file.sync()?;
        guarded.durable.extend(guarded.open.drain(..));
        self.moved.notify_all();
        Ok(())
    }
}

fn held(fs: &SimFs) -> std::io::Result<Sample> {
    fs.create_dir_all(Path::new("/held"))?;
    let ios = fs.calls().get(Op::Sync, FileKind::Wal);
    let file = fs.create(Path::new("/held/000001.log"))?;
    let queue = HeldQueue { guarded: Mutex::default(), moved: Condvar::new(), file };
    std::thread::scope(|scope| {
        let consumer = scope.spawn(|| {
            let mut read = Vec::new();
            let mut guarded = queue.guarded.lock().expect("nobody panics");
            while read.len() < RECORDS as usize {
                if guarded.durable.contains(&(read.len() as u64)) {
                    read.push(Instant::now());
                } else {
                    guarded = queue.moved.wait(guarded).expect("nobody panics");
                }
            }
            read
        });
        let (mut began, mut puts) = (Vec::new(), Vec::new());
        for number in 0..RECORDS {
            let start = Instant::now();
            let mut guarded = queue.guarded.lock().expect("nobody panics");
            guarded.open.push(number);
            // The guard goes to the drain with the push that fills the group: whoever pushes next waits for the append.
            if guarded.open.len() as u64 == GROUP {
                queue.drain(&mut guarded, number)?;
            }
            drop(guarded);
            puts.push(start.elapsed().as_secs_f64() * 1e3);
            began.push(start);
        }
        let mut guarded = queue.guarded.lock().expect("nobody panics");
        if !guarded.open.is_empty() {
            queue.drain(&mut guarded, RECORDS)?;
        }
        drop(guarded);
        let flushed = Instant::now();
        let read = consumer.join().expect("the consumer does not panic");
        let ios = fs.calls().get(Op::Sync, FileKind::Wal) - ios;
        Ok(Sample::new(&began, puts, flushed, &read, ios))
    })
}

/// Measures the figures B4.
///
/// # Errors
///
/// Of the database, or of the file system.
pub fn measure(quick: bool, out: &mut dyn FnMut(Figure)) -> Result<(), Error> {
    let samples = if quick { 2 } else { 10 };
    let (mut old, mut new) = (Vec::new(), Vec::new());
    let fs = slow_log(PER_APPEND, BYTES_PER_SECOND);
    let mut options = options(&fs);
    options.queue_group_bytes = GROUP * framed()?;
    options.linger = LINGER;
    let db = Db::open("/db", options)?;
    for sample in 0..=samples {
        let io_error = |error: std::io::Error| Error::Io {
            doing: "append to",
            path: "/held/000001.log".into(),
            source: std::sync::Arc::new(error),
        };
        let (was, is) = (held(&fs).map_err(io_error)?, scoped(&fs, &db)?);
        // The first warms up.
        if sample > 0 {
            old.push(was);
            new.push(is);
        }
        std::thread::sleep(Duration::from_millis(300));
    }
    db.close()?;
    report(&old, &new, out);
    Ok(())
}

/// Bytes that a record takes of the queue.
fn framed() -> Result<u64, Error> {
    let probe = SimFs::new(2);
    let gate = probe.gate(sluicedb_tests::sim_fs::Pattern::op(Op::Write).on(FileKind::Wal));
    let db = Db::open("/db", options(&probe))?;
    let ticket = db.write_async(batch(0, VALUE));
    gate.wait_until_reached();
    let used = db.property_int("sluicedb.commit_queue.used").unwrap_or_default();
    gate.open();
    ticket.wait()?;
    db.close()?;
    Ok(used)
}

fn report(old: &[Sample], new: &[Sample], out: &mut dyn FnMut(Figure)) {
    let of =
        |samples: &[Sample], value: &dyn Fn(&Sample) -> f64| samples.iter().map(value).collect::<Vec<_>>();
    let told = |figure: Figure| {
        figure
            .with("injection", "55 ms per append, sync included, and 4 MB/s")
            .with("durability", "Sync")
            .with("file_system", "simulated, in memory")
    };
    let ios = |sample: &Sample| sample.ios;
    let pair = |id, unit, better, value: &dyn Fn(&Sample) -> f64| {
        let (was, is) = (of(old, value), of(new, value));
        told(Figure::pair(id, unit, better, &was, &is))
            .with("ios", json!({"baseline": median(&of(old, &ios))}))
    };
    out(pair("B4", "MB/s", Better::More, &|sample| sample.producer).reach(9.1));
    out(pair("B4.consumer", "MB/s", Better::More, &|sample| sample.consumer).reach(5.6));
    out(pair("B4.combined", "MB/s", Better::More, &|sample| sample.combined).reach(4.15));
    let p99 = |sample: &Sample| percentile(&sample.puts, 0.99);
    out(told(Figure::limit("B4.put_p99", "ms", 1.0, &of(new, &p99))).with("baseline", median(&of(old, &p99))));
    out(told(Figure::limit("B4.ios", "appends", 8.0, &of(new, &ios)))
        .with("baseline", median(&of(old, &ios))));
    let most = |sample: &Sample| percentile(&sample.durable, 1.0);
    out(told(Figure::limit("B4.durable_max", "ms", 450.0, &of(new, &most)))
        .with("baseline", median(&of(old, &most)))
        .with("mean_of_maxima", mean(&of(new, &most))));
    out(pair("B4.durable", "ms", Better::Less, &|sample| percentile(&sample.durable, 0.5))
        .with("p99", median(&of(new, &|sample| percentile(&sample.durable, 0.99)))));
}
