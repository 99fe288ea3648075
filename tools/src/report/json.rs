//! The data file: one JSON object per line, each with its type in `t`.
//!
//! Owns the shapes `system`, `config`, `sample`, `summary` and `fin`, and the file they go to. Must not know when
//! samples are taken: that is [`super::monitor`].

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use sluicedb::{CauseStalls, StallStatistics};

use super::live::Reading;
use super::steady::Steadiness;
use super::summary::Figures;
use super::usage::Usage;
use crate::console::Console;
use crate::gflags::CommandLine;
use crate::settings::{Settings, bindings};
use crate::workload::stats::{Op, Totals};
use crate::workload::target::Target;

/// Where the objects go.
#[derive(Debug)]
pub enum JsonReport {
    /// All of them, to a file.
    File(Mutex<File>),
    /// Summaries only, to stdout.
    Stdout,
}

impl JsonReport {
    /// Opens `path`; `-` is stdout.
    ///
    /// # Errors
    ///
    /// The message for the user.
    pub fn create(path: &str) -> Result<Self, String> {
        if path == "-" {
            return Ok(Self::Stdout);
        }
        match File::create(path) {
            Ok(file) => Ok(Self::File(Mutex::new(file))),
            Err(error) => Err(format!("Can't open {path}: {error}")),
        }
    }

    /// Whether more than summaries is kept.
    pub fn keeps_events(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// Writes one object. A failed write is dropped: it must not change what is measured.
    pub fn write(&self, console: &Console, object: &Value) {
        match self {
            Self::File(file) => {
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                let _ = writeln!(file, "{object}");
            }
            Self::Stdout if object["t"] == "summary" => console.json(&format!("{object}\n")),
            Self::Stdout => {}
        }
    }
}

fn first_line(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

/// The revision that the program was built from.
fn revision() -> &'static str {
    option_env!("SLUICEDB_GIT_SHA").unwrap_or("unknown")
}

/// The device and file system type that `path`, or the nearest directory above it that is there, lies on.
fn disk(path: &Path) -> String {
    let there = path.ancestors().find_map(|path| path.canonicalize().ok());
    let there = there.or_else(|| std::env::current_dir().ok()).unwrap_or_default();
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mount = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned);
        Some((words.next()?, words.next()?, words.next()?))
    };
    // The deepest mount point counts, and of several on one point the last.
    let holds = mounts.lines().filter_map(mount).filter(|(_, point, _)| there.starts_with(point));
    let found = holds.max_by_key(|(_, point, _)| point.len());
    found.map_or_else(|| "unknown".to_owned(), |(device, _, kind)| format!("{device} {kind}"))
}

/// The machine and the program; `db` is where the databases lie.
pub fn system(db: &str) -> Value {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, m)| m));
    let memory = first_line("/proc/meminfo");
    let kib: u64 = memory.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0);
    json!({
        "t": "system",
        "version": env!("CARGO_PKG_VERSION"),
        "git": revision(),
        "debug": cfg!(debug_assertions),
        "cpu": model.unwrap_or_default(),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "ram": kib * 1024,
        "kernel": first_line("/proc/sys/kernel/osrelease"),
        "disk": disk(Path::new(db)),
        "date": super::date::Moment::now().ctime(),
    })
}

/// The command line and what every flag came to.
pub fn config(args: &[String], line: &CommandLine, settings: &Settings) -> Value {
    let mut flags = serde_json::Map::new();
    for binding in bindings::all() {
        let shown = (binding.show)(settings);
        let value = serde_json::from_str::<Value>(&shown)
            .ok()
            .filter(|value| value.is_number() || value.is_boolean());
        flags.insert(binding.flag.to_owned(), value.unwrap_or(Value::String(shown)));
    }
    let given: Vec<&str> = line.effective().iter().map(|given| given.flag.name).collect();
    json!({ "t": "config", "argv": args, "flags": flags, "given": given })
}

/// One interval of a run.
pub fn sample(bench: &str, interval: &Interval<'_>, target: &Target) -> Value {
    let usage = interval.usage;
    let int = |name: &str| target.dbs.iter().filter_map(|open| open.db.property_int(name)).sum::<u64>();
    let l0: Vec<u64> = target
        .dbs
        .iter()
        .flat_map(|open| open.families.iter().map(|family| open.db.level_stats(family)))
        .map(|levels| levels.ok().and_then(|levels| levels.first().map(|level| level.files)).unwrap_or(0))
        .collect();
    let (rss, cpu_us, io_w) = process();
    let mut object = json!({
        "t": "sample",
        "bench": bench,
        "s": (interval.seconds * 1000.0).round() / 1000.0,
        "ops": interval.ops,
        "bytes": interval.bytes,
        "p50": interval.latency.percentile(0.5),
        "p99": interval.latency.percentile(0.99),
        "p999": interval.latency.percentile(0.999),
        "max": interval.latency.percentile(1.0),
        "wbm": {
            "usage": usage.usage, "quota": usage.quota, "mutable": usage.mutable, "sealed": usage.sealed,
            "flushing": usage.flushing, "pinned": usage.pinned, "by_db": usage.by_db, "state": usage.state,
            "step": usage.step, "rate": usage.rate,
        },
        "delay_us": interval.delayed_micros,
        "stop_us": interval.stopped_micros,
        "stall_us": interval.stall_micros,
        "flush_running": int("rocksdb.num-running-flushes"),
        "compactions": int("rocksdb.num-running-compactions"),
        "l0": l0,
        "pending_bytes": int("rocksdb.estimate-pending-compaction-bytes"),
        "rss": rss,
        "cpu_us": cpu_us,
        "io_w": io_w,
    });
    if interval.part {
        object["part"] = json!(true);
    }
    object
}

/// What happened between two looks.
#[derive(Debug)]
pub struct Interval<'a> {
    /// Seconds since the benchmark began.
    pub seconds: f64,
    /// Operations of all threads, the background writer included.
    pub ops: u64,
    /// Bytes of user data.
    pub bytes: u64,
    /// Latencies, in microseconds.
    pub latency: &'a Reading,
    /// The manager, at the end of the interval.
    pub usage: &'a Usage,
    /// Time that the controller spent delayed, and stopped.
    pub delayed_micros: u64,
    /// See `delayed_micros`.
    pub stopped_micros: u64,
    /// Time that writers spent delayed or stopped, summed over writers.
    pub stall_micros: u64,
    /// It is the last one, shorter than the others.
    pub part: bool,
}

/// One run of a benchmark.
pub fn summary(
    bench: &str,
    figures: &Figures,
    totals: &Totals,
    steadiness: &Steadiness,
    run: &RunFacts<'_>,
) -> Value {
    let mut latency = serde_json::Map::new();
    let percentiles = |p: &dyn Fn(f64) -> f64, max: u64| json!({ "p50": p(50.0), "p99": p(99.0), "p999": p(99.9), "p9999": p(99.99), "max": max });
    if let Some(histograms) = &totals.histograms {
        for op in Op::ALL {
            if let Some(histogram) = histograms.get(op) {
                let object = percentiles(&|p| histogram.percentile(p), histogram.max());
                latency.insert(op.label().to_owned(), object);
            }
        }
    }
    let all = |p: f64| run.latency.percentile(p / 100.0).unwrap_or(0) as f64;
    latency.insert("all".to_owned(), percentiles(&all, run.latency.percentile(1.0).unwrap_or(0)));
    json!({
        "t": "summary",
        "bench": bench,
        "ops": figures.ops,
        "seconds": figures.seconds,
        "ops_per_sec": figures.ops_per_sec as u64,
        "micros_per_op": figures.micros_per_op,
        "mb_per_sec": figures.mb_per_sec,
        "found": totals.tally.found,
        "of": totals.tally.reads,
        "interval": {
            "n": steadiness.n, "mean": steadiness.mean, "std": steadiness.std, "cv": steadiness.cv,
            "min": steadiness.min, "p1": steadiness.p1, "p5": steadiness.p5, "max": steadiness.max,
            "zero_seconds": steadiness.zero_intervals,
        },
        "latency": latency,
        "stall": stalls(run.stalls),
        "stall_us": run.stall_micros,
        "wbm": { "peak_usage": run.peak_usage, "longest_stop_us": run.longest_stop_micros },
        "write_amp": run.write_amp,
    })
}

/// Writes held and their time, under the names of the line `Write Stall (micros):`.
fn stalls(by_cause: &[CauseStalls; 4]) -> Value {
    let mut object = serde_json::Map::new();
    for ((cause, _), part) in StallStatistics::default().by_cause().iter().zip(by_cause) {
        object.insert(format!("{cause}-delays"), json!({ "count": part.delays, "us": part.delay_micros }));
        object.insert(format!("{cause}-stops"), json!({ "count": part.stops, "us": part.stop_micros }));
    }
    Value::Object(object)
}

/// What the monitor saw of a whole run.
#[derive(Debug)]
pub struct RunFacts<'a> {
    /// All latencies.
    pub latency: &'a Reading,
    /// The most that the manager held at any look.
    pub peak_usage: u64,
    /// The longest stop since the database was opened.
    pub longest_stop_micros: u64,
    /// Time that writers spent delayed or stopped.
    pub stall_micros: u64,
    /// Writes held, and their time, by cause.
    pub stalls: &'a [CauseStalls; 4],
    /// Bytes that flushes and compactions wrote, by bytes that writers wrote.
    pub write_amp: Option<f64>,
}

/// The last object.
pub fn fin(exit: u8, seconds: f64) -> Value {
    json!({ "t": "fin", "exit": exit, "seconds": seconds })
}

/// Resident bytes, CPU microseconds, bytes written to the block layer: of this process, so far.
fn process() -> (u64, u64, u64) {
    const PAGE: u64 = 4096;
    const MICROS_PER_TICK: u64 = 10_000;
    let statm = first_line("/proc/self/statm");
    let rss = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * PAGE;
    // Fields 14 and 15 of stat, counted behind the name, which may hold spaces.
    let stat = first_line("/proc/self/stat");
    let ticks: u64 = stat.rsplit_once(')').map_or(0, |(_, fields)| {
        fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
    });
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let written = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse().ok()).unwrap_or(0);
    (rss, ticks * MICROS_PER_TICK, written)
}
