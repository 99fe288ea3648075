//! B2, B2s: a log that acknowledges at the end of each segment, with its position saved in the manifest by the leader, by
//! the manifest's thread, or not at all.

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use serde_json::json;
use sluicedb::bench_arms::{AckOn, ManifestFlush, set_ack_on, set_manifest_flush};
use sluicedb::{Db, DbOptions, Durability, Error, SequenceNumber, WriteOptions};
use sluicedb_tests::sim_fs::{FileKind, Op, Pattern, SimFs};

use super::device::{batch, options, slow_log};
use super::figure::{Better, Figure};
use super::sample::{median, percentile};

/// Writes under way at once.
const PIPELINE: u64 = 256;
/// All sizes are a sixteenth of those of the prior art, the times are its own: so the device decides, as there, and not how
/// fast this machine copies bytes through memory.
const SCALE: u64 = 16;
const BATCH: u64 = (1 << 20) / SCALE;
const SEGMENT: u64 = (16 << 20) / SCALE;
/// What the appends and the sync of one segment take together, and what a save of the manifest takes.
const PER_SEGMENT: Duration = Duration::from_micros(26_400);
const PER_SAVE: Duration = Duration::from_micros(12_600);

/// Which design writes the log.
#[derive(Debug, Clone, Copy)]
enum Arm {
    Ticker,
    Inline,
    Background,
}

fn choose(arm: Arm) {
    set_ack_on(if matches!(arm, Arm::Ticker) { AckOn::Ticker } else { AckOn::Segment });
    set_manifest_flush(if matches!(arm, Arm::Inline) {
        ManifestFlush::Inline
    } else {
        ManifestFlush::Background
    });
}

struct Run {
    mib_per_second: f64,
    saves: f64,
    /// Syncs of the manifest by threads of the write path.
    leader_syncs: f64,
    /// From the return of an append until it was durable, ms.
    to_durable: Vec<f64>,
    took: f64,
}

/// The segment that is being written: when it was begun, and its bytes.
struct Segment {
    began: Instant,
    bytes: u64,
}

/// A device that takes so long for each segment and each save, however fast this machine copies bytes. A save on the path of
/// the writes does not count as time of the segment.
fn device() -> SimFs {
    let fs = SimFs::new(1);
    let segment = Arc::new(Mutex::new(Segment { began: Instant::now(), bytes: 0 }));
    let of_saves = Arc::clone(&segment);
    fs.before(Pattern::op(Op::Write).on(FileKind::Wal), move |bytes| {
        let mut segment = segment.lock().unwrap_or_else(PoisonError::into_inner);
        segment.bytes += bytes as u64;
        if segment.bytes >= SEGMENT {
            std::thread::sleep(PER_SEGMENT.saturating_sub(segment.began.elapsed()));
            *segment = Segment { began: Instant::now(), bytes: segment.bytes - SEGMENT };
        }
    });
    fs.before(Pattern::op(Op::Sync).on(FileKind::Manifest), move |_| {
        std::thread::sleep(PER_SAVE);
        if !std::thread::current().name().is_some_and(|name| name.starts_with("sluice-mani")) {
            of_saves.lock().unwrap_or_else(PoisonError::into_inner).began += PER_SAVE;
        }
    });
    fs
}

fn segments(fs: &SimFs) -> DbOptions {
    let mut options = options(fs);
    options.wal_segment_bytes = SEGMENT;
    options.wal_sync_interval = Duration::from_secs(1);
    options.wal_sync_on_idle = true;
    options.manifest_save_interval = Duration::from_secs(1);
    options.commit_queue_bytes = 512 << 20;
    options.group_queue_limit = 1_000;
    options.commit_group_bytes = BATCH;
    options
}

/// Syncs of the manifest by threads that are not its own, and by its own.
fn manifest_syncs(fs: &SimFs) -> (u64, u64) {
    let by_thread = fs.syncs_by_thread(FileKind::Manifest);
    let own = |name: &str| name.starts_with("sluice-mani");
    let sum =
        |wanted: bool| by_thread.iter().filter(|(name, _)| own(name) == wanted).map(|(_, count)| count).sum();
    (sum(false), sum(true))
}

fn run(arm: Arm, writes: u64) -> Result<Run, Error> {
    choose(arm);
    let fs = device();
    let db = Db::open("/db", segments(&fs))?;
    let before = manifest_syncs(&fs);
    let write = WriteOptions::durability(Durability::Os);
    let began = Instant::now();
    let (took, to_durable) = std::thread::scope(|scope| -> Result<(f64, Vec<f64>), Error> {
        let watcher = scope.spawn(|| -> Result<Vec<Instant>, Error> {
            let mut durable = Vec::new();
            while (durable.len() as u64) < writes {
                db.wait_durable(SequenceNumber::new(durable.len() as u64 + 1))?;
                durable.resize(db.durable_sequence().get() as usize, Instant::now());
            }
            Ok(durable)
        });
        let (tell, told) = mpsc::channel();
        let mut appended = vec![began; writes as usize];
        let mut hear = || -> Result<(), Error> {
            let (outcome, at): (Result<SequenceNumber, _>, Instant) =
                told.recv().map_err(|_| Error::ShutdownInProgress)?;
            let seq: SequenceNumber = outcome.map_err(Error::from)?;
            appended[seq.get() as usize - 1] = at;
            Ok(())
        };
        for number in 0..writes {
            if number >= PIPELINE {
                hear()?;
            }
            let tell = tell.clone();
            let done = move |outcome| drop(tell.send((outcome, Instant::now())));
            db.write_async_opt(batch(number, BATCH as usize), &write).on_complete(done)?;
        }
        (0..writes.min(PIPELINE)).try_for_each(|_| hear())?;
        let durable = watcher.join().expect("the watcher does not panic")?;
        let took = began.elapsed().as_secs_f64();
        let gaps = appended.iter().zip(&durable).map(|(from, to)| to.saturating_duration_since(*from));
        Ok((took, gaps.map(|gap| gap.as_secs_f64() * 1e3).collect()))
    })?;
    let after = manifest_syncs(&fs);
    let (leader_syncs, saves) = (after.0 - before.0, after.1 - before.1);
    choose(Arm::Background);
    db.close()?;
    Ok(Run {
        mib_per_second: (writes * BATCH) as f64 / f64::from(1 << 20) / took,
        saves: (leader_syncs + saves) as f64,
        leader_syncs: leader_syncs as f64,
        to_durable,
        took,
    })
}

/// Measures B2 and B2s.
///
/// # Errors
///
/// Of the database.
pub fn measure(quick: bool, out: &mut dyn FnMut(Figure)) -> Result<(), Error> {
    let (samples, writes) = if quick { (2, 768) } else { (10, 1_024) };
    let (mut ticker, mut inline, mut background) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..samples {
        ticker.push(run(Arm::Ticker, writes)?);
        inline.push(run(Arm::Inline, writes)?);
        background.push(run(Arm::Background, writes)?);
    }
    let of = |runs: &[Run], value: &dyn Fn(&Run) -> f64| runs.iter().map(value).collect::<Vec<_>>();
    let rate = |run: &Run| run.mib_per_second;
    let told = |figure: Figure| {
        figure
            .with(
                "injection",
                "26.4 ms per segment, 12.6 ms per save of the manifest; all sizes by 16 smaller",
            )
            .with("durability", "Os, acknowledged at the end of a segment")
            .with("file_system", "simulated, in memory")
            .with("writes", writes)
            .with("batch_bytes", BATCH)
            .with("segment_bytes", SEGMENT)
    };
    let (old, new) = (of(&inline, &rate), of(&background, &rate));
    out(told(Figure::pair("B2", "MiB/s", Better::More, &old, &new).reach(1.41)));
    out(told(Figure::pair("B2.base", "MiB/s", Better::More, &of(&ticker, &rate), &new).reach(0.98)));
    let saves = |run: &Run| run.saves;
    let per_gap = background.iter().map(|run| run.saves * 0.3 / run.took).fold(0.0, f64::max);
    out(told(Figure::pair(
        "B2.flushes",
        "saves",
        Better::Less,
        &of(&inline, &saves),
        &of(&background, &saves),
    ))
    .reach(10.0)
    .with("saves_per_300_ms", per_gap));
    let syncs = background.iter().map(|run| run.leader_syncs).sum();
    let was = median(&of(&inline, &|run| run.leader_syncs));
    out(told(Figure::zero("B2.wal_syncs", "syncs", syncs)).with("baseline", was));
    let p99 = |run: &Run| percentile(&run.to_durable, 0.99);
    let most = |run: &Run| percentile(&run.to_durable, 1.0);
    out(told(Figure::limit("B2.p99", "ms", 60.0, &of(&background, &p99))).with(
        "max",
        json!({"ticker": median(&of(&ticker, &most)), "ours": median(&of(&background, &most))}),
    ));
    sync_puts(quick, out)
}

/// Puts per second of one thread that syncs each.
fn puts(arm: Arm, is_tracked: bool, for_time: Duration) -> Result<f64, Error> {
    choose(arm);
    let fs = slow_log(Duration::from_millis(1), 0);
    fs.before(Pattern::op(Op::Sync).on(FileKind::Manifest), |_| std::thread::sleep(Duration::from_millis(1)));
    let mut options = options(&fs);
    options.manifest_save_interval = if is_tracked { Duration::from_secs(1) } else { Duration::MAX };
    let db = Db::open("/db", options)?;
    let write = WriteOptions::durability(Durability::Sync);
    let (began, mut count) = (Instant::now(), 0);
    while began.elapsed() < for_time {
        db.write_opt(batch(count, 100), &write)?;
        count += 1;
    }
    let rate = count as f64 / began.elapsed().as_secs_f64();
    choose(Arm::Background);
    db.close()?;
    Ok(rate)
}

fn sync_puts(quick: bool, out: &mut dyn FnMut(Figure)) -> Result<(), Error> {
    let (samples, time) = if quick { (2, Duration::from_secs(1)) } else { (10, Duration::from_secs(2)) };
    let (mut inline, mut background, mut off) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..samples {
        inline.push(puts(Arm::Inline, true, time)?);
        background.push(puts(Arm::Background, true, time)?);
        off.push(puts(Arm::Background, false, time)?);
    }
    let told = |figure: Figure| {
        figure.with("injection", "1 ms per sync of the log, 1 ms per save").with("durability", "Sync")
    };
    out(told(Figure::pair("B2s", "puts/s", Better::More, &inline, &background).reach(1.9)));
    out(told(Figure::pair("B2s.off", "puts/s", Better::More, &off, &background).reach(0.98)));
    Ok(())
}
