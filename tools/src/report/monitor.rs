//! The thread that watches a run: report rows, samples, the watchdog, progress.
//!
//! Owns when a look is taken: at whole intervals after the start, so that a late wake-up does not move the next.
//! Reads [`Pulse`]s without a lock. Must not know what the workers do.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use std::sync::atomic::Ordering::Relaxed;

use super::csv::Reports;
use super::engine;
use super::events::EventLog;
use super::json::{self, Interval, JsonReport};
use super::live::Reading;
use super::usage::{self, Usage};
use super::view::{Goal, HISTORY, View, locale_is_unicode};
use crate::console::Console;
use crate::settings::Bench;
use crate::workload::stats::Pulse;
use crate::workload::target::Target;

/// Silence after which the watchdog speaks.
const SILENCE: Duration = Duration::from_secs(30);
/// How often the watchdog looks, and progress is shown.
const LOOK: Duration = Duration::from_secs(1);
/// How often the live view is drawn.
const DRAW: Duration = Duration::from_millis(250);
/// How often plain progress prints a line.
const PLAIN: Duration = Duration::from_secs(10);

/// What to watch, and where to report it.
#[derive(Debug)]
pub struct Monitor<'a> {
    /// The benchmark's name.
    pub name: &'static str,
    /// The tool's settings.
    pub bench: &'a Bench,
    /// The databases.
    pub target: &'a Target,
    /// Where progress and warnings go.
    pub console: &'a Console,
    /// The CSV files, if rows are wanted.
    pub reports: Option<Reports>,
    /// The data file, if samples are wanted.
    pub json: Option<&'a JsonReport>,
    /// What the databases tell, for the data file.
    pub events: Option<&'a EventLog>,
    /// Whether a long silence is worth a word.
    pub watchdog: bool,
    /// How long the benchmark goes on, for the live view.
    pub goal: Goal,
}

/// What the monitor saw.
#[derive(Debug, Default)]
pub struct Observed {
    /// Operations per whole interval: the rows of the report.
    pub rows: Vec<u64>,
    /// All latencies, if they were sampled.
    pub latency: Reading,
    /// The most that the manager held at any look.
    pub peak_usage: u64,
    /// The longest stop since the database was opened.
    pub longest_stop_micros: u64,
}

/// A started monitor.
#[derive(Debug)]
pub struct Watch<'scope> {
    thread: Option<ScopedJoinHandle<'scope, Observed>>,
    stop: Arc<Stop>,
}

#[derive(Debug, Default)]
struct Stop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Waits until `deadline`; true if it was stopped before.
    fn wait_until(&self, deadline: Instant) -> bool {
        let mut stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        while !*stopped {
            let now = Instant::now();
            if now >= deadline {
                return false;
            }
            stopped =
                self.changed.wait_timeout(stopped, deadline - now).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Watch<'_> {
    /// Ends the monitor after a last look.
    pub fn stop(mut self) -> Observed {
        *self.stop.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.changed.notify_all();
        match self.thread.take().map(ScopedJoinHandle::join) {
            Some(Ok(observed)) => observed,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Observed::default(),
        }
    }
}

impl<'a> Monitor<'a> {
    /// Whether threads should keep latencies where the monitor can read them.
    pub fn wants_latency(&self) -> bool {
        self.json.is_some() || self.is_live()
    }

    /// Whether progress is drawn over itself.
    fn is_live(&self) -> bool {
        let wanted = match self.bench.progress.as_str() {
            "tty" => true,
            "auto" => self.console.err_is_terminal,
            _ => false,
        };
        wanted && self.bench.progress_reports
    }

    /// Starts watching `pulses`. Seconds count from here.
    pub fn start<'scope, 'env>(
        self,
        scope: &'scope Scope<'scope, 'env>,
        pulses: &'env [Pulse],
    ) -> Watch<'scope>
    where
        'a: 'scope,
    {
        let stop = Arc::new(Stop::default());
        if let Some(events) = self.events {
            events.begin(Some(self.name));
        }
        let begin = Instant::now();
        let thread = std::thread::Builder::new().name("bench-monitor".to_owned()).spawn_scoped(scope, {
            let stop = Arc::clone(&stop);
            move || Looks::new(self, pulses, begin).until_stopped(&stop)
        });
        // Without a monitor the benchmark still runs; it only has no report.
        Watch { thread: thread.ok(), stop }
    }
}

struct Looks<'a, 'p> {
    monitor: Monitor<'a>,
    pulses: &'p [Pulse],
    begin: Instant,
    /// Interval of rows and samples, if any are wanted.
    interval: Option<Duration>,
    last_ops: u64,
    last_bytes: u64,
    last_latency: Reading,
    last_stall: u64,
    last_usage: Usage,
    observed: Observed,
    alive: (u64, Instant),
    warned: Duration,
    next_plain: Instant,
    live: Option<Live>,
}

/// What the live view remembers.
struct Live {
    /// Operations of the last seconds.
    rates: Vec<u64>,
    /// Operations and latencies when the second began.
    second: (u64, Reading),
    p99: Option<u64>,
    next_second: Instant,
    unicode: bool,
}

impl<'a, 'p> Looks<'a, 'p> {
    fn new(monitor: Monitor<'a>, pulses: &'p [Pulse], begin: Instant) -> Self {
        let seconds = monitor.bench.report_interval_seconds;
        let sampled = monitor.reports.is_some() || monitor.json.is_some();
        let last_stall = engine::total(monitor.target).stall_micros;
        Self {
            interval: sampled.then(|| Duration::from_secs(seconds.max(1))),
            pulses,
            begin,
            last_ops: 0,
            last_bytes: 0,
            last_latency: Reading::default(),
            last_stall,
            last_usage: Usage::of(&monitor.target.dbs[0].db),
            observed: Observed::default(),
            alive: (0, begin),
            warned: Duration::ZERO,
            next_plain: begin + PLAIN,
            live: monitor.is_live().then(|| Live {
                rates: Vec::new(),
                second: (0, Reading::default()),
                p99: None,
                next_second: begin + LOOK,
                unicode: locale_is_unicode(&|name| std::env::var(name).ok()),
            }),
            monitor,
        }
    }

    fn until_stopped(mut self, stop: &Stop) -> Observed {
        let mut next_row = self.interval.map(|interval| self.begin + interval);
        let mut next_look = self.begin + LOOK;
        let mut next_draw = self.live.is_some().then(|| self.begin + DRAW);
        loop {
            let wake = [next_row, next_draw].into_iter().flatten().fold(next_look, Instant::min);
            let stopped = stop.wait_until(wake);
            let now = Instant::now();
            if stopped {
                self.monitor.console.clear_live();
                self.row(now, true);
                self.observed.latency = self.read_latency();
                return self.observed;
            }
            if let (Some(row), Some(interval)) = (next_row, self.interval)
                && now >= row
            {
                self.row(now, false);
                let mut next = row + interval;
                while next <= now {
                    next += interval;
                }
                next_row = Some(next);
            }
            if next_draw.is_some_and(|draw| now >= draw) {
                self.draw(now);
                next_draw = Some(now + DRAW);
            }
            if now >= next_look {
                self.look(now);
                next_look = now + LOOK;
            }
        }
    }

    fn ops(&self) -> u64 {
        self.pulses.iter().map(|pulse| pulse.ops.load(Relaxed)).sum()
    }

    fn read_latency(&self) -> Reading {
        Reading::take(self.pulses.iter().filter_map(|pulse| pulse.latency.as_deref()))
    }

    /// A row of the report, or the sample of the last part interval.
    fn row(&mut self, now: Instant, part: bool) {
        let ops = self.ops();
        let in_interval = ops - self.last_ops;
        let seconds = (now - self.begin).as_secs_f64();
        self.last_ops = ops;
        if !part && self.monitor.bench.report_interval_seconds > 0 {
            self.observed.rows.push(in_interval);
            if let Some(reports) = &mut self.monitor.reports
                && let Err(message) = reports.row(self.monitor.name, seconds.round() as u64, in_interval)
            {
                self.monitor.console.err(&message);
            }
        }
        let usage = Usage::of(&self.monitor.target.dbs[0].db);
        self.observed.peak_usage = self.observed.peak_usage.max(usage.usage);
        self.observed.longest_stop_micros = usage.longest_stop_micros;
        if let Some(report) = self.monitor.json {
            let bytes: u64 = self.pulses.iter().map(|pulse| pulse.bytes.load(Relaxed)).sum();
            let reading = self.read_latency();
            let latency = reading.since(&self.last_latency);
            let stall = engine::total(self.monitor.target).stall_micros;
            let interval = Interval {
                usage: &usage,
                delayed_micros: usage.delayed_micros.saturating_sub(self.last_usage.delayed_micros),
                stopped_micros: usage.stopped_micros.saturating_sub(self.last_usage.stopped_micros),
                stall_micros: stall - self.last_stall,
                seconds,
                ops: in_interval,
                bytes: bytes - self.last_bytes,
                latency: &latency,
                part,
            };
            for event in self.monitor.events.map(EventLog::take).unwrap_or_default() {
                report.write(self.monitor.console, &event);
            }
            let object = json::sample(self.monitor.name, &interval, self.monitor.target);
            report.write(self.monitor.console, &object);
            self.last_bytes = bytes;
            self.last_latency = reading;
            self.last_stall = stall;
            self.last_usage = usage;
        }
    }

    /// The watchdog, and progress.
    fn look(&mut self, now: Instant) {
        let ops = self.ops();
        if ops != self.alive.0 {
            self.alive = (ops, now);
            self.warned = Duration::ZERO;
        }
        let silent = now - self.alive.1;
        if self.monitor.watchdog {
            self.watch(silent);
        }
        let bench = self.monitor.bench;
        let console = self.monitor.console;
        if bench.progress == "plain" && now >= self.next_plain {
            let seconds = (now - self.begin).as_secs();
            console.err(&format!("{}: {ops} ops in {seconds} s\n", self.monitor.name));
            self.next_plain = now + PLAIN;
        }
    }

    /// The live view.
    fn draw(&mut self, now: Instant) {
        let (ops, reading) = (self.ops(), self.read_latency());
        let Some(live) = &mut self.live else { return };
        if now >= live.next_second {
            live.rates.push(ops - live.second.0);
            live.rates.drain(..live.rates.len().saturating_sub(HISTORY));
            live.p99 = reading.since(&live.second.1).percentile(0.99);
            live.second = (ops, reading);
            live.next_second = now + LOOK;
        }
        let target = self.monitor.target;
        let usage = Usage::of(&target.dbs[0].db);
        let files = |family| {
            target.dbs[0].db.level_stats(family).ok().and_then(|levels| levels.first().map(|l| l.files))
        };
        let l0: Vec<u64> = target.dbs[0].families.iter().filter_map(files).collect();
        let running =
            target.dbs.iter().filter_map(|open| open.db.property_int("rocksdb.num-running-flushes")).sum();
        let options = target.dbs[0].db.db_options();
        let view = View {
            name: self.monitor.name,
            ops,
            seconds: (now - self.begin).as_secs_f64(),
            goal: self.monitor.goal,
            rates: &live.rates,
            p99: live.p99,
            usage: &usage,
            start_percent: options.delay_start_percent,
            flushes: (running, u64::from(options.max_background_flushes)),
            l0: &l0,
            unicode: live.unicode,
        };
        self.monitor.console.live(&view.lines());
    }

    fn watch(&mut self, silent: Duration) {
        let limit = Duration::from_secs(self.monitor.bench.stall_abort_seconds);
        let abort = !limit.is_zero() && silent >= limit;
        if abort || silent >= self.warned + SILENCE {
            self.warned = silent;
            self.monitor.console.err(&usage::stuck_line(silent.as_secs(), self.monitor.target));
        }
        if abort {
            // The threads hang inside the engine and cannot be joined; leaving is what the flag asks for.
            let exit = crate::db_bench::EXIT_STALLED;
            if let Some(report) = self.monitor.json {
                report.write(self.monitor.console, &json::fin(exit, self.begin.elapsed().as_secs_f64()));
            }
            std::process::exit(i32::from(exit));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;
    use crate::workload::target::OpenDb;

    /// Thirty silent seconds are worth a line with who holds the memory; the next comes thirty seconds later.
    ///
    /// Method: the looks are taken by hand, with made-up silences.
    #[test]
    fn the_watchdog_speaks_every_thirty_seconds() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings::default();
        let db = sluicedb::Db::open(dir.path(), settings.db.clone()).unwrap();
        let families = vec![db.default_column_family()];
        let target = Target::new(vec![OpenDb { db, families, path: dir.path().to_owned() }], None, &[]);
        let (out, err) = (tempfile::NamedTempFile::new().unwrap(), tempfile::NamedTempFile::new().unwrap());
        let console = Console::new(out.reopen().unwrap(), err.reopen().unwrap(), false);
        let monitor = Monitor {
            name: "fillrandom",
            bench: &settings.bench,
            target: &target,
            console: &console,
            reports: None,
            json: None,
            events: None,
            watchdog: true,
            goal: Goal::Open,
        };
        let pulses = [Pulse::default()];
        let mut looks = Looks::new(monitor, &pulses, Instant::now());
        for seconds in [29, 30, 45, 59, 60, 61] {
            looks.watch(Duration::from_secs(seconds));
        }
        let text = std::fs::read_to_string(err.path()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].starts_with("watchdog: no operation finished for 30 s: usage "), "{text}");
        assert!(lines[1].starts_with("watchdog: no operation finished for 60 s: usage "), "{text}");
        target.dbs[0].db.close().unwrap();
    }
}
