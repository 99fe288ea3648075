//! Three databases on one memory quota, to watch: `cargo run --release -p sluicedb --example shared_quota -- [SECONDS]`.
//!
//! One write buffer manager measures the memtables of all three; two controllers slow the writers. `busy` is written as
//! fast as it goes and shares its controller with `calm`; `apart` has a controller of its own, with a lower top rate.
//! `calm` and `apart` write a little now and then. Each second one line says how full the quota is, which delay step
//! that means, which rate each controller makes of the step, who holds the bytes, and what the writers feel.
//!
//! It works in a directory of its own under the system's temporary one, and removes it at the end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use sluicedb::{Clock, Db, DbOptions, DelayedWriteRate, Pressure, SystemClock};

const MIB: u64 = 1 << 20;
/// What all memtables of all three databases may take together.
const QUOTA: u64 = 16 * MIB;
/// Threads that write to `busy`.
const WRITERS: u64 = 4;
const NAMES: [&str; 3] = ["busy", "calm", "apart"];

fn main() -> sluicedb::Result<()> {
    let seconds = match std::env::args().nth(1).map(|text| text.parse::<u64>()) {
        None => 10,
        Some(Ok(seconds)) => seconds,
        Some(Err(_)) => {
            eprintln!("usage: shared_quota [SECONDS]");
            std::process::exit(2);
        }
    };
    let dir = std::env::temp_dir().join(format!("sluicedb-shared-quota-{}", std::process::id()));
    let cleanup = RemoveDir(dir);
    let dbs = open_all(&cleanup.0)?;
    println!(
        "quota {} MiB, delay from {} % on; top rates: busy and calm {} MiB/s, apart {} MiB/s",
        QUOTA / MIB,
        dbs[0].write_buffer_manager().quota().delay_start_percent(),
        dbs[0].write_controller().max_rate() / MIB,
        dbs[2].write_controller().max_rate() / MIB
    );
    let counters: [Counters; 3] = Default::default();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (dbs, counters, done) = (&dbs, &counters, &done);
        let mut writers = Vec::new();
        for thread in 0..WRITERS {
            writers.push(scope.spawn(move || write(&dbs[0], &counters[0], thread, Duration::ZERO, done)));
        }
        for (db, counters) in dbs.iter().zip(counters).skip(1) {
            writers.push(scope.spawn(move || write(db, counters, 0, Duration::from_millis(5), done)));
        }
        for second in 1..=seconds {
            SystemClock.sleep(Duration::from_secs(1));
            println!("{}", line(second, dbs, counters));
        }
        done.store(true, Relaxed);
        writers.into_iter().try_for_each(|writer| writer.join().expect("a writer does not panic"))
    })?;
    dbs.iter().try_for_each(Db::close)
}

/// The directory of this run, removed when the run ends, also with an error.
struct RemoveDir(PathBuf);

impl Drop for RemoveDir {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("could not remove {}: {error}", self.0.display());
        }
    }
}

/// The first database makes the manager and a controller; the others take what they share from it.
fn open_all(dir: &Path) -> sluicedb::Result<[Db; 3]> {
    let mut options = DbOptions::default();
    options.column_family.write_buffer_size = 64 * MIB; // the manager decides when to flush, not the size
    options.db_write_buffer_size = QUOTA;
    options.delayed_write_rate = DelayedWriteRate::BytesPerSecond(256 * MIB);
    let busy = Db::open(dir.join(NAMES[0]), options.clone())?;

    options.write_buffer_manager = Some(Arc::clone(busy.write_buffer_manager()));
    let mut sharing = options.clone();
    sharing.write_controller = Some(Arc::clone(busy.write_controller()));
    let calm = Db::open(dir.join(NAMES[1]), sharing)?;

    options.delayed_write_rate = DelayedWriteRate::BytesPerSecond(32 * MIB);
    let apart = Db::open(dir.join(NAMES[2]), options)?;
    Ok([busy, calm, apart])
}

/// What one database's writers did since the last line.
#[derive(Default)]
struct Counters {
    writes: AtomicU64,
    /// Their slowest write, in microseconds.
    slowest: AtomicU64,
}

/// Writes values of 1,000 bytes, with a pause after each, until `done`.
fn write(
    db: &Db,
    counters: &Counters,
    thread: u64,
    pause: Duration,
    done: &AtomicBool,
) -> sluicedb::Result<()> {
    for number in 0_u64.. {
        if done.load(Relaxed) {
            break;
        }
        let began = SystemClock.now_nanos();
        // Spread over the keys, so that neighbours in time are none in the table.
        let key = (thread << 32 | number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        db.put(key.to_be_bytes(), [b'v'; 1_000])?;
        counters.slowest.fetch_max((SystemClock.now_nanos() - began) / 1_000, Relaxed);
        counters.writes.fetch_add(1, Relaxed);
        if !pause.is_zero() {
            SystemClock.sleep(pause);
        }
    }
    Ok(())
}

/// One second in one line.
fn line(second: u64, dbs: &[Db; 3], counters: &[Counters; 3]) -> String {
    let stats = dbs[0].write_buffer_manager().stats();
    let share = stats.usage.used * 100 / QUOTA;
    let filled = (share / 5).min(20) as usize;
    let bar = "#".repeat(filled) + &".".repeat(20 - filled);
    let state = match stats.pressure {
        Pressure::Normal => "normal         ".to_owned(),
        Pressure::Delayed(step) => format!("delayed step {:2}", step.get()),
        Pressure::Stopped => "stopped        ".to_owned(),
    };
    let rate = |db: &Db| match db.write_controller().stats().state {
        sluicedb::State::Normal => "free".to_owned(),
        _ => mib(db.write_controller().rate()),
    };
    let holds = |db: &Db| {
        let name = db.path().display().to_string();
        stats.databases.iter().find(|held| *held.name == *name).map_or(0, |held| held.usage.used)
    };
    let bytes: Vec<String> =
        NAMES.iter().zip(dbs).map(|(name, db)| format!("{name} {}", mib(holds(db)))).collect();
    let writers: Vec<String> = counters
        .iter()
        .map(|counters| {
            let (writes, slowest) = (counters.writes.swap(0, Relaxed), counters.slowest.swap(0, Relaxed));
            format!("{writes} ({:.1} ms)", slowest as f64 / 1_000.0)
        })
        .collect();
    let stalled: u64 = dbs.iter().map(|db| db.statistics().stall_micros).sum();
    format!(
        "{second:3} s [{bar}] {share:3} %  {state}  MiB/s {}/{}  MiB: {}  ops/s (slowest): {}  stalled {:.1} s, {} stops",
        rate(&dbs[0]),
        rate(&dbs[2]),
        bytes.join(", "),
        writers.join(", "),
        stalled as f64 / 1e6,
        stats.times.stops
    )
}

fn mib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / MIB as f64)
}
