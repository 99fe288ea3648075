//! The databases of a run, and the list of benchmarks run over them.
//!
//! Owns opening, destroying and reopening, what is printed around each benchmark, and repeats. Destroys a directory
//! only if it is ours, empty, or holds nothing but `lost+found`. The loops are [`crate::workload`]'s, the bytes of
//! each line [`crate::report`]'s.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use sluicedb::{BlockCache, Db, DbOptions};

use super::maintenance::{self, StatsHistory};
use crate::console::Console;
use crate::report::csv::Reports;
use crate::report::engine::{self, EngineTotals};
use crate::report::events::EventLog;
use crate::report::json::{self, JsonReport, RunFacts};
use crate::report::monitor::{Monitor, Observed};
use crate::report::steady::Steadiness;
use crate::report::summary::{self, Figures};
use crate::report::usage::Usage;
use crate::report::view::Goal;
use crate::settings::Settings;
use crate::workload::catalogue::{Entry, Work};
use crate::workload::limiter::RateLimiter;
use crate::workload::plan::Plan;
use crate::workload::runner;
use crate::workload::stats::{Op, Totals};
use crate::workload::target::{OpenDb, Target};
use crate::workload::values::ValuePool;
use crate::workload::worker::{Failure, Run};

/// A run's databases, between benchmarks.
#[derive(Debug)]
pub struct Session<'a> {
    settings: &'a Settings,
    console: &'a Console,
    json: Option<&'a JsonReport>,
    target: Target,
    /// The databases are new and nothing ran on them.
    pristine: bool,
    /// Random streams that the threads so far drew from.
    streams: u64,
    /// What the databases tell, for the data file.
    events: Option<Arc<EventLog>>,
    history: StatsHistory,
}

impl<'a> Session<'a> {
    /// Destroys what is at `--db`, unless `--use_existing_db`, and opens it.
    pub fn open(
        settings: &'a Settings,
        console: &'a Console,
        json: Option<&'a JsonReport>,
    ) -> Result<Self, Failure> {
        let fresh = !settings.bench.use_existing_db;
        if fresh {
            clear_all(settings)?;
        }
        let events = json.filter(|report| report.keeps_events()).map(|_| EventLog::new());
        let target = open_all(settings, events.as_ref())?;
        let history = StatsHistory::default();
        Ok(Self { settings, console, json, target, pristine: fresh, streams: 0, events, history })
    }

    /// Runs one element of the list.
    pub fn run_entry(&mut self, entry: &Entry) -> Result<(), Failure> {
        let name = entry.benchmark.name;
        self.console.err(&format!("\nBEFORE Benchmark ({name}): {}\n\n", self.usage()));
        if entry.benchmark.fresh && self.settings.bench.use_existing_db {
            self.console.out(&format!("{name:<12} : skipped (--use_existing_db is true)\n"));
        } else {
            if entry.benchmark.fresh && !self.pristine {
                self.reopen_fresh()?;
            }
            self.pristine = false;
            if entry.benchmark.is_timed() {
                self.repeat(entry)?;
                self.history.note(&self.target);
            } else if entry.benchmark.work == Work::StatsHistory {
                self.history.print(&self.target, self.console);
            } else {
                maintenance::run(entry.benchmark.work, &self.target, self.settings, self.console)?;
            }
        }
        self.console.err(&format!("\nAFTER Benchmark ({name}): {}\n", self.usage()));
        self.write_events();
        Ok(())
    }

    fn usage(&self) -> String {
        Usage::of(&self.target.dbs[0].db).of_quota()
    }

    fn write_events(&self) {
        if let (Some(report), Some(events)) = (self.json, &self.events) {
            events.take().iter().for_each(|event| report.write(self.console, event));
        }
    }

    fn reopen_fresh(&mut self) -> Result<(), Failure> {
        self.history.clear();
        let old = std::mem::replace(&mut self.target, Target::new(Vec::new(), None, &[]));
        close_all(old)?;
        clear_all(self.settings)?;
        self.target = open_all(self.settings, self.events.as_ref())?;
        Ok(())
    }

    /// Warm-ups, then the timed runs of one entry.
    fn repeat(&mut self, entry: &Entry) -> Result<(), Failure> {
        let name = entry.benchmark.name;
        let plan = Plan::new(entry.benchmark, self.settings);
        self.console.out(&format!("DB path: [{}]\n", self.settings.bench.db));
        if plan.work == Work::MultiReadRandom {
            self.console.err(&format!("entries_per_batch = {}\n", plan.batch));
        }
        if plan.threads < self.settings.bench.threads {
            self.console.err(&format!("warning: {name} runs on 1 thread\n"));
        }
        for _ in 0..entry.warmups {
            self.once(entry, &plan)?;
        }
        let only_interval = self.settings.bench.confidence_interval_only;
        let mut runs = Vec::new();
        for number in 1..=entry.runs {
            runs.push(self.once(entry, &plan)?);
            if number > 1 {
                self.console.out(&summary::after_repeat(name, &runs, only_interval));
            }
        }
        if entry.runs > 1 {
            self.console.out(&summary::after_all_repeats(name, &runs, only_interval));
        }
        Ok(())
    }

    /// One run, with everything that is printed after it.
    fn once(&mut self, entry: &Entry, plan: &Plan) -> Result<Figures, Failure> {
        let bench = &self.settings.bench;
        let name = entry.benchmark.name;
        let reports = if bench.report_interval_seconds > 0 {
            Some(Reports::create(&bench.report_file, &bench.report_append).map_err(Failure)?)
        } else {
            None
        };
        let run = Run {
            bench,
            plan,
            target: &self.target,
            read_options: &self.settings.read,
            console: self.console,
            pool: ValuePool::new(bench.compression_ratio, plan.sizes.greatest()),
            write_limiter: RateLimiter::new(bench.benchmark_write_rate_limit),
            read_limiter: RateLimiter::new(bench.benchmark_read_rate_limit),
            background_limiter: RateLimiter::new(bench.benchmark_write_rate_limit),
            stop: AtomicBool::new(false),
            foreground: AtomicUsize::new(0),
        };
        let monitor = Monitor {
            name,
            bench,
            target: &self.target,
            console: self.console,
            reports,
            json: self.json,
            events: self.events.as_deref(),
            watchdog: !entry.benchmark.is_one_long_operation(),
            goal: match (plan.duration, plan.total_ops(self.target.dbs.len())) {
                (0, Some(ops)) => Goal::Ops(ops),
                (0, None) => Goal::Open,
                (seconds, _) => Goal::Seconds(seconds),
            },
        };
        let before = engine::total(&self.target);
        let outcome = runner::run(&run, self.streams + 1, monitor);
        if let Some(events) = &self.events {
            events.begin(None);
        }
        let (totals, observed) = outcome?;
        self.streams += plan.threads as u64 + u64::from(plan.background_writer);
        let did = engine::total(&self.target).since(&before);
        Ok(self.report(name, plan, &totals, &observed, &did))
    }

    fn report(
        &self,
        name: &str,
        plan: &Plan,
        totals: &Totals,
        observed: &Observed,
        did: &EngineTotals,
    ) -> Figures {
        let figures = Figures::of(totals);
        self.console.out(&summary::line(name, &figures, &summary::message(plan, totals)));
        if let Some(histograms) = &totals.histograms {
            for op in Op::ALL {
                if let Some(histogram) = histograms.get(op) {
                    self.console.out(&format!("Microseconds per {}:\n{}\n", op.label(), histogram.render()));
                }
            }
        }
        let steadiness = Steadiness::of(&observed.rows);
        let seconds = self.settings.bench.report_interval_seconds;
        if seconds > 0 {
            self.console.err(&steadiness.line(seconds));
        }
        if let Some(report) = self.json {
            let facts = RunFacts {
                latency: &observed.latency,
                peak_usage: observed.peak_usage,
                longest_stop_micros: observed.longest_stop_micros,
                stall_micros: did.stall_micros,
                stalls: &did.stalls,
                write_amp: did.write_amp(),
            };
            report.write(self.console, &json::summary(name, &figures, totals, &steadiness, &facts));
        }
        figures
    }

    /// The tickers of every database.
    pub fn print_statistics(&self) {
        maintenance::print_statistics(&self.target, self.console);
    }

    /// Closes every database; the first error counts.
    pub fn close(self) -> Result<(), Failure> {
        let Self { target, json, console, events, .. } = self;
        close_all(target)?;
        if let (Some(report), Some(events)) = (json, events) {
            events.take().iter().for_each(|event| report.write(console, event));
        }
        Ok(())
    }
}

fn close_all(target: Target) -> Result<(), Failure> {
    for open in target.dbs {
        open.db.close().map_err(|error| Failure::of("close", &error))?;
    }
    Ok(())
}

fn clear_all(settings: &Settings) -> Result<(), Failure> {
    (0..settings.databases()).try_for_each(|index| clear(&settings.db_path(index), &settings.db))
}

/// Empties `dir` if what is there is ours to destroy.
fn clear(dir: &Path, options: &DbOptions) -> Result<(), Failure> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure(format!("cannot look into {}: {error}", dir.display()))),
    };
    if entries.flatten().all(|entry| entry.file_name() == "lost+found") {
        return Ok(());
    }
    if let Err(error) = Db::list_column_families(dir, options) {
        return Err(Failure(format!(
            "{} is not empty and holds no SluiceDB database, so it is not destroyed ({error}); \
             choose another --db, or open what is there with --use_existing_db",
            dir.display()
        )));
    }
    Db::destroy(dir, options).map_err(|error| Failure::of("destroy", &error))
}

fn open_all(settings: &Settings, events: Option<&Arc<EventLog>>) -> Result<Target, Failure> {
    let mut options = settings.db.clone();
    if options.block_cache_size > 0 {
        // One cache for all databases; the tool keeps a handle for its hits and misses.
        options.block_cache = Some(BlockCache::new(options.block_cache_size));
    }
    let cache = options.block_cache.clone();
    let mut dbs: Vec<OpenDb> = Vec::new();
    for index in 0..settings.databases() {
        if let Some(first) = dbs.first() {
            // One quota and one rate for all: what the first database made for itself.
            options.write_buffer_manager = Some(Arc::clone(first.db.write_buffer_manager()));
            options.write_controller = Some(Arc::clone(first.db.write_controller()));
        }
        options.listeners = events.iter().map(|events| events.listener(index)).collect();
        dbs.push(open_one(settings, &options, index)?);
    }
    Ok(Target::new(dbs, cache, &settings.bench.column_family_distribution))
}

fn open_one(settings: &Settings, options: &DbOptions, index: usize) -> Result<OpenDb, Failure> {
    let path = settings.db_path(index);
    let extra = 1..settings.bench.num_column_families;
    let names: Vec<String> = std::iter::once("default".to_owned())
        .chain(extra.map(|number| format!("column_family_name_{number:06}")))
        .collect();
    let families = names.iter().map(|name| (name.clone(), options.column_family.clone()));
    let open = if settings.bench.readonly { Db::open_cf_read_only } else { Db::open_cf };
    let db = open(&path, options.clone(), families).map_err(|error| Failure::of("open", &error))?;
    let families = names.iter().map(|name| {
        db.column_family(name)
            .ok_or_else(|| Failure(format!("open error: there is no column family '{name}'")))
    });
    let families = families.collect::<Result<_, _>>()?;
    Ok(OpenDb { families, db, path })
}
