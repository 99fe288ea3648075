//! One thread of a benchmark: what it shares with the others, and what is its own.
//!
//! [`Run`] is shared and read-only but for a stop flag; [`Worker`] holds a thread's random stream, key buffer,
//! values and counts. The loops in the sibling modules are written against these two. Must not know how threads
//! are started: that is [`super::runner`].

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rand_mt::Mt64;
use sluicedb::{ColumnFamily, Db, Error, ReadOptions};

use super::budget::Budget;
use super::keys::{self, KeyBuffer};
use super::limiter::RateLimiter;
use super::plan::Plan;
use super::stats::{Op, Pulse, ThreadStats};
use super::target::Target;
use super::values::{ValuePool, Values};
use crate::console::Console;
use crate::report::interval;
use crate::settings::Bench;

/// Why a benchmark ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(pub String);

impl Failure {
    /// `DOING error: TEXT`.
    pub fn of(doing: &str, error: &Error) -> Self {
        Self(format!("{doing} error: {error}"))
    }
}

/// What all threads of one run of a benchmark share.
#[derive(Debug)]
pub struct Run<'a> {
    /// The tool's settings.
    pub bench: &'a Bench,
    /// Sizes and counts.
    pub plan: &'a Plan,
    /// The databases.
    pub target: &'a Target,
    /// Options of every read.
    pub read_options: &'a ReadOptions,
    /// Where interval lines go.
    pub console: &'a Console,
    /// The bytes of all values.
    pub pool: ValuePool,
    /// Bytes per second, shared by the foreground threads.
    pub write_limiter: Option<RateLimiter>,
    /// Operations per second, shared.
    pub read_limiter: Option<RateLimiter>,
    /// Bytes per second of the background writer alone.
    pub background_limiter: Option<RateLimiter>,
    /// Ends every budget.
    pub stop: AtomicBool,
    /// Foreground threads still at work.
    pub foreground: AtomicUsize,
}

/// One thread's own things.
#[derive(Debug)]
pub struct Worker<'a> {
    /// What it shares.
    pub run: &'a Run<'a>,
    /// 0, 1, ...; as interval lines number threads.
    pub index: usize,
    /// The stream of keys.
    pub random: Mt64,
    /// The key at hand.
    pub key: KeyBuffer,
    /// The values.
    pub values: Values,
    /// The counts.
    pub stats: ThreadStats<'a>,
    lines: Lines,
}

/// When interval lines are due, and what the last one said.
#[derive(Debug)]
struct Lines {
    last_done: u64,
    last_at: Instant,
}

/// Longest wait for the engine to recover from a full disk.
const RECOVERY: Duration = Duration::from_secs(600);

impl<'a> Worker<'a> {
    /// A thread that draws from stream `stream` of the process; its clock starts now.
    pub fn start(run: &'a Run<'a>, index: usize, stream: u64, pulse: &'a Pulse) -> Self {
        let bench = run.bench;
        let first_line = if bench.stats_interval > 0 { bench.stats_interval } else { u64::MAX };
        let seed = bench.seed.wrapping_add(stream);
        let stats = ThreadStats::start(pulse, bench.histogram, first_line);
        Self {
            run,
            index,
            random: keys::stream(bench.seed, stream),
            key: KeyBuffer::new(run.plan.key_size),
            values: Values::new(&run.pool, run.plan.sizes, seed),
            lines: Lines { last_done: 0, last_at: stats.started() },
            stats,
        }
    }

    /// A budget of `max_ops`, without a time bound.
    pub fn counted(&self, max_ops: u64) -> Budget<'a> {
        Budget::new(max_ops, 0, 1, &self.run.stop)
    }

    /// A budget of `max_ops`, or of `--duration` seconds when that is given.
    pub fn timed(&self, max_ops: u64) -> Budget<'a> {
        let bench = self.run.bench;
        Budget::new(max_ops, self.run.plan.duration, bench.ops_between_duration_checks, &self.run.stop)
    }

    /// Counts finished operations, and prints an interval line when one is due.
    #[inline]
    pub fn finished(&mut self, op: Op, count: u64) {
        if self.stats.finished(op, count) {
            self.line();
        }
    }

    /// A key to read.
    #[inline]
    pub fn draw_for_read(&mut self) -> u64 {
        keys::draw_for_read(&mut self.random, self.run.plan.num, self.run.bench.read_random_exp_range)
    }

    /// Waits for the reads' rate limit.
    #[inline]
    pub fn limit_reads(&mut self, operations: u64) {
        if let Some(limiter) = &self.run.read_limiter
            && limiter.take(operations)
        {
            self.stats.restart_operation();
        }
    }

    /// Waits for the writes' rate limit.
    #[inline]
    pub fn limit_writes(&mut self, bytes: u64) {
        if let Some(limiter) = &self.run.write_limiter
            && limiter.take(bytes)
        {
            self.stats.restart_operation();
        }
    }

    /// Puts the key at hand with the next value into `family`. Returns the bytes written.
    #[inline]
    pub fn put(&mut self, db: &Db, family: &ColumnFamily) -> Result<u64, Failure> {
        let options = &self.run.plan.write_options;
        let key = self.key.bytes();
        let value = self.values.next_value();
        if let Err(error) = db.put_cf_opt(family, key, value, options) {
            retry(&error, "put", || db.put_cf_opt(family, key, value, options))?;
        }
        Ok((key.len() + value.len()) as u64)
    }

    /// Prints what happened since the last line.
    #[cold]
    fn line(&mut self) {
        let bench = self.run.bench;
        let done = self.stats.done();
        let now = Instant::now();
        let since_last = (now - self.lines.last_at).as_secs_f64();
        if bench.stats_interval_seconds > 0 && since_last < bench.stats_interval_seconds as f64 {
            // Too early: come back after the poll step.
            return self.stats.set_next_line(done + bench.stats_interval);
        }
        let since_start = (now - self.stats.started()).as_secs_f64();
        let ops = (done - self.lines.last_done, done);
        self.run.console.err(&interval::line(self.index, ops, (since_last, since_start)));
        if self.index == 0 && bench.stats_per_interval > 0 {
            self.run.console.err(&interval::dump(self.run.target));
        }
        self.lines = Lines { last_done: done, last_at: now };
        self.stats.set_next_line(done + bench.stats_interval);
        self.stats.restart_operation();
    }

    /// Whether all foreground threads are done (for the background writer).
    pub fn is_alone(&self) -> bool {
        // Relaxed: a late look only means a few writes more.
        self.run.foreground.load(Relaxed) == 0 || self.run.stop.load(Relaxed)
    }
}

/// Repeats a write that a full disk refused until there is space, for at most ten minutes.
#[cold]
pub fn retry(first: &Error, doing: &str, again: impl Fn() -> Result<(), Error>) -> Result<(), Failure> {
    let mut error = first.clone();
    let begin = Instant::now();
    while matches!(error, Error::NoSpace { .. }) && begin.elapsed() < RECOVERY {
        std::thread::sleep(Duration::from_secs(1));
        match again() {
            Ok(()) => return Ok(()),
            Err(now) => error = now,
        }
    }
    Err(Failure::of(doing, &error))
}
