//! What a command line comes to: the engine's option structs and the tool's own settings.
//!
//! Owns the way from flags to [`Settings`]: values not given stay the library's defaults, so that a number from the
//! tool describes the library as shipped. Which flag is bound to which field: [`bindings`]. Must not know how a
//! benchmark runs; [`crate::workload`] reads the result.

pub mod bindings;
mod convert;

use std::path::{Path, PathBuf};

use sluicedb::{DbOptions, Durability, ReadOptions, WriteOptions};

use crate::gflags::{CommandLine, Problem, Status, Value, problem};
use crate::workload::catalogue::{self, Entry};
use crate::workload::values::SizeDistribution;

/// Everything that a run needs to know.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Options of every database that is opened.
    pub db: DbOptions,
    /// Options of every read.
    pub read: ReadOptions,
    /// What to run, and how to report it.
    pub bench: Bench,
}

/// The tool's own settings, named like their flags.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the fields are the flags, and the flag table documents each of them")]
pub struct Bench {
    pub benchmarks: String,
    pub entries: Vec<Entry>,
    pub db: String,
    pub num: u64,
    pub reads: i64,
    pub writes: i64,
    pub deletes: i64,
    pub key_size: usize,
    pub value_size: usize,
    pub value_size_min: usize,
    pub value_size_max: usize,
    pub value_size_distribution_type: SizeDistribution,
    pub compression_ratio: f64,
    pub threads: usize,
    pub batch_size: u64,
    pub duration: u64,
    pub ops_between_duration_checks: u64,
    pub seed: u64,
    pub use_existing_db: bool,
    pub readonly: bool,
    pub num_column_families: usize,
    pub column_family_distribution: Vec<u32>,
    pub num_multi_db: usize,
    pub disable_wal: bool,
    pub sync: bool,
    pub manual_wal_flush: bool,
    pub stall_timeout_ms: u64,
    pub read_random_exp_range: f64,
    pub seek_nexts: u64,
    pub reverse_iterator: bool,
    pub max_scan_distance: u64,
    pub readwritepercent: u64,
    pub finish_after_writes: bool,
    pub benchmark_write_rate_limit: u64,
    pub benchmark_read_rate_limit: u64,
    pub histogram: bool,
    pub report_interval_seconds: u64,
    pub report_file: String,
    pub report_append: String,
    pub json: String,
    pub stats_interval: u64,
    pub stats_interval_seconds: u64,
    pub stats_per_interval: u64,
    pub statistics: bool,
    pub progress_reports: bool,
    pub slow_usecs: u64,
    pub confidence_interval_only: bool,
    pub all_cfs: bool,
    pub legacy_stall_line: bool,
    pub stall_abort_seconds: u64,
    pub progress: String,
    pub memtablerep: String,
    pub wal_dir: String,
}

impl Default for Bench {
    fn default() -> Self {
        Self {
            benchmarks: "fillseq,fillrandom,readrandom".to_owned(),
            entries: Vec::new(),
            db: String::new(),
            num: 1_000_000,
            reads: -1,
            writes: -1,
            deletes: -1,
            key_size: 16,
            value_size: 100,
            value_size_min: 100,
            value_size_max: 102_400,
            value_size_distribution_type: SizeDistribution::Fixed,
            compression_ratio: 0.5,
            threads: 1,
            batch_size: 1,
            duration: 0,
            ops_between_duration_checks: 1000,
            seed: 0,
            use_existing_db: false,
            readonly: false,
            num_column_families: 1,
            column_family_distribution: Vec::new(),
            num_multi_db: 0,
            disable_wal: false,
            sync: false,
            manual_wal_flush: false,
            stall_timeout_ms: 0,
            read_random_exp_range: 0.0,
            seek_nexts: 0,
            reverse_iterator: false,
            max_scan_distance: 0,
            readwritepercent: 90,
            finish_after_writes: false,
            benchmark_write_rate_limit: 0,
            benchmark_read_rate_limit: 0,
            histogram: false,
            report_interval_seconds: 0,
            report_file: "report.csv".to_owned(),
            report_append: String::new(),
            json: String::new(),
            stats_interval: 0,
            stats_interval_seconds: 0,
            stats_per_interval: 0,
            statistics: false,
            progress_reports: true,
            slow_usecs: 1_000_000,
            confidence_interval_only: false,
            all_cfs: false,
            legacy_stall_line: false,
            stall_abort_seconds: 0,
            progress: "auto".to_owned(),
            memtablerep: "skip_list".to_owned(),
            wal_dir: String::new(),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        let mut db = DbOptions::default();
        // A benchmark that finds nothing at --db makes it: one of the three exceptions to the library's defaults.
        db.create_if_missing = true;
        db.create_missing_column_families = true;
        Self { db, read: ReadOptions::default(), bench: Bench::default() }
    }
}

impl Settings {
    /// The options of benchmark writes.
    pub fn write_options(&self) -> WriteOptions {
        let bench = &self.bench;
        let durability = match (bench.disable_wal, bench.sync, bench.manual_wal_flush) {
            (true, _, _) => Durability::None,
            (_, true, _) => Durability::Sync,
            (_, _, true) => Durability::Buffered,
            _ => Durability::default(),
        };
        WriteOptions::durability(durability)
    }

    /// How many databases a run opens.
    pub fn databases(&self) -> usize {
        self.bench.num_multi_db.max(1)
    }

    /// The directory of database number `index`.
    pub fn db_path(&self, index: usize) -> PathBuf {
        let base = PathBuf::from(&self.bench.db);
        if self.bench.num_multi_db == 0 { base } else { base.join(index.to_string()) }
    }
}

/// What [`resolve`] made of a command line.
#[derive(Debug)]
pub struct Resolved {
    /// The settings, as far as the problems left any.
    pub settings: Settings,
    /// Everything wrong, the parser's findings included.
    pub problems: Vec<Problem>,
    /// Lines for stderr that stop nothing: notes and warnings, in order.
    pub notes: Vec<String>,
}

/// Applies the flags of `line` to the library's defaults and checks the whole.
pub fn resolve(line: &CommandLine) -> Resolved {
    let mut settings = Settings::default();
    let mut problems = line.problems.clone();
    let mut notes = line.warnings.clone();
    let ignore = line.is_set("ignore_unsupported");
    for given in line.effective() {
        let (flag, value) = (given.flag, &given.value);
        if let Err(text) = convert::validate(flag.name, value) {
            problems.push(bad(flag.name, text));
            continue;
        }
        match flag.status {
            Status::Works => {
                if let Some(binding) = bindings::find(flag.name)
                    && let Err(text) = (binding.set)(&mut settings, value)
                {
                    problems.push(bad(flag.name, text));
                }
                if flag.name == "memtablerep" && settings.bench.memtablerep != "skip_list" {
                    notes.push(format!("note: --memtablerep={value} has no effect in this engine"));
                    settings.bench.memtablerep = "skip_list".to_owned();
                }
            }
            Status::Accepted => notes.push(format!("note: --{} has no effect in this engine", flag.name)),
            Status::Known if flag.is_neutral(value) => {}
            Status::Known if ignore || line.undefok.contains(flag.name) => {
                notes.push(format!("warning: {}; ignored", problem::Problem::not_supported(flag, value)));
            }
            Status::Known => problems.push(Problem::unsupported(flag, value)),
        }
    }
    background_jobs(line, &mut settings);
    check_together(&mut settings, &mut problems);
    Resolved { settings, problems, notes }
}

fn bad(name: &str, text: String) -> Problem {
    Problem::BadValue { name: name.to_owned(), text }
}

/// Speedb's rule: `max_background_jobs` counts unless flushes and compactions are given and are enough.
fn background_jobs(line: &CommandLine, settings: &mut Settings) {
    let given = |name| match line.last(name).map(|given| &given.value) {
        Some(Value::Int(value)) => Some(*value),
        _ => None,
    };
    let count = |value: i64| u32::try_from(value.max(1)).unwrap_or(u32::MAX);
    let (flushes, compactions) = (given("max_background_flushes"), given("max_background_compactions"));
    if let Some(jobs) = given("max_background_jobs") {
        let (f, c) = (flushes.unwrap_or(-1), compactions.unwrap_or(-1));
        if (f == -1 && c == -1) || jobs > f + c {
            let f = (jobs / 4).max(1);
            settings.db.max_background_flushes = count(f);
            settings.db.max_background_compactions = count(jobs - f);
            return;
        }
    }
    if let Some(flushes) = flushes.filter(|value| *value != -1) {
        settings.db.max_background_flushes = count(flushes);
    }
    if let Some(compactions) = compactions.filter(|value| *value != -1) {
        settings.db.max_background_compactions = count(compactions);
    }
}

/// What only shows when the flags are seen together, and what the engine's own `validate` refuses.
fn check_together(settings: &mut Settings, problems: &mut Vec<Problem>) {
    match catalogue::parse_list(&settings.bench.benchmarks) {
        Ok(entries) => settings.bench.entries = entries,
        Err(complaints) => {
            problems.extend(
                complaints.into_iter().map(|text| bad("benchmarks", format!("--benchmarks: {text}"))),
            );
        }
    }
    let bench = &mut settings.bench;
    if bench.db.is_empty() {
        bench.db = default_db_path();
    }
    if bench.readonly {
        bench.use_existing_db = true;
        // A benchmark that wants a fresh database is skipped then.
        let writer = bench.entries.iter().find(|entry| entry.benchmark.writes() && !entry.benchmark.fresh);
        if let Some(entry) = writer {
            let text = format!("--readonly: {} writes to the database", entry.benchmark.name);
            problems.push(bad("readonly", text));
        }
    }
    if bench.disable_wal && bench.sync {
        problems
            .push(bad("sync", "--sync: a write without a WAL (--disable_wal) cannot be synced".to_owned()));
    }
    if !bench.wal_dir.is_empty() && Path::new(&bench.wal_dir) != Path::new(&bench.db) {
        problems.push(bad(
            "wal_dir",
            format!(
                "--wal_dir: '{}' is not the database directory; a WAL elsewhere is not supported",
                bench.wal_dir
            ),
        ));
    }
    if bench.value_size_min > bench.value_size_max {
        let text = format!(
            "Invalid value for --value_size_min: {}, must be <= value_size_max",
            bench.value_size_min
        );
        problems.push(bad("value_size_min", text));
    }
    if bench.column_family_distribution.len() > bench.num_column_families {
        let text = "Invalid value for --column_family_distribution: more shares than column families";
        problems.push(bad("column_family_distribution", text.to_owned()));
    }
    if bench.stats_interval_seconds > 0 {
        bench.stats_interval = 1000;
    }
    if bench.stall_timeout_ms > 0 {
        settings.db.stall_timeout = Some(std::time::Duration::from_millis(bench.stall_timeout_ms));
    }
    // The largest batch of the list must be admitted by the engine.
    let value = match bench.value_size_distribution_type {
        SizeDistribution::Fixed => bench.value_size.max(100_000),
        _ => bench.value_size_max.max(100_000),
    };
    let batch = bench.batch_size.max(if bench.benchmarks.contains("fillbatch") { 1000 } else { 1 });
    let bytes = (value as u64 + bench.key_size as u64 + 32).saturating_mul(batch);
    settings.db.max_batch_bytes = settings.db.max_batch_bytes.max(bytes);
    if let Err(sluicedb::Error::InvalidArgument { what, why }) = settings.db.validate() {
        let flag = bindings::flag_of_option(what);
        let known =
            problems.iter().any(|problem| matches!(problem, Problem::BadValue { name, .. } if name == flag));
        if !known {
            problems.push(bad(flag, format!("Invalid value for --{flag}: {why}")));
        }
    }
}

/// `$TEST_TMPDIR/dbbench`, else a directory of this user's own under /tmp.
fn default_db_path() -> String {
    if let Some(dir) = std::env::var_os("TEST_TMPDIR") {
        return PathBuf::from(dir).join("dbbench").to_string_lossy().into_owned();
    }
    #[cfg(unix)]
    let uid = {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata("/proc/self").map_or(0, |meta| meta.uid())
    };
    #[cfg(not(unix))]
    let uid = 0;
    format!("/tmp/sluicedbtest-{uid}/dbbench")
}
