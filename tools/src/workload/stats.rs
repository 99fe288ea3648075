//! What a thread counts: operations, bytes, latencies. And what all threads' counts come to.
//!
//! Owns the definition of latency (time between the ends of two operations of one thread) and the merge rules.
//! [`Pulse`] is what the reporter reads while a thread runs: one writer, no lock. Must not know how anything
//! is printed.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use crate::report::histogram::Histogram;
use crate::report::live::LiveLatency;

/// The types of operations, as histograms are labelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Puts and batches of them.
    Write,
    /// Gets and iterator steps.
    Read,
    /// Deletes.
    Delete,
    /// Seeks.
    Seek,
    /// Reads followed by a write of the same key.
    Update,
    /// Everything else.
    Other,
}

/// Number of operation types.
pub const OPS: usize = 6;

impl Op {
    /// All types, in the order in which their histograms are printed.
    pub const ALL: [Self; OPS] =
        [Self::Read, Self::Write, Self::Delete, Self::Seek, Self::Update, Self::Other];

    /// The label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Delete => "delete",
            Self::Seek => "seek",
            Self::Update => "update",
            Self::Other => "op",
        }
    }
}

/// A running thread's counters, on a cache line pair of their own. The thread stores, the reporter loads.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Pulse {
    /// Operations finished.
    pub ops: AtomicU64,
    /// Bytes of user data moved.
    pub bytes: AtomicU64,
    /// Latencies, when somebody asked for them while the run goes on.
    pub latency: Option<Box<LiveLatency>>,
}

/// Histograms of all types that occurred.
#[derive(Debug, Clone, Default)]
pub struct Histograms {
    by_op: [Option<Box<Histogram>>; OPS],
}

impl Histograms {
    /// The histogram of one type, if it occurred.
    pub fn get(&self, op: Op) -> Option<&Histogram> {
        self.by_op[op as usize].as_deref()
    }

    #[inline]
    fn add(&mut self, op: Op, micros: u64) {
        match &mut self.by_op[op as usize] {
            Some(histogram) => histogram.add(micros),
            empty => empty.insert(Box::default()).add(micros),
        }
    }

    fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.by_op.iter_mut().zip(&other.by_op) {
            if let Some(theirs) = theirs {
                mine.get_or_insert_default().merge(theirs);
            }
        }
    }
}

/// One thread's counts.
#[derive(Debug)]
pub struct ThreadStats<'a> {
    done: u64,
    bytes: u64,
    /// When this thread began, and the origin of `last_micros`.
    start: Instant,
    last_micros: u64,
    timed: bool,
    histograms: Option<Histograms>,
    pulse: &'a Pulse,
    /// When `done` reaches this, [`ThreadStats::finished`] says so.
    next_line: u64,
    /// What the operations came to.
    pub tally: Tally,
}

/// What operations came to: how many of each sort, and how many found their key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Lookups.
    pub reads: u64,
    /// Writes, in benchmarks that do both.
    pub writes: u64,
    /// Lookups that found their key.
    pub found: u64,
}

impl<'a> ThreadStats<'a> {
    /// Starts the clock. Latencies are kept if `histogram` is set or the pulse has a place for them.
    pub fn start(pulse: &'a Pulse, histogram: bool, first_line: u64) -> Self {
        Self {
            done: 0,
            bytes: 0,
            start: Instant::now(),
            last_micros: 0,
            timed: histogram || pulse.latency.is_some(),
            histograms: histogram.then(Histograms::default),
            pulse,
            next_line: first_line,
            tally: Tally::default(),
        }
    }

    /// Counts bytes of user data.
    #[inline]
    pub fn add_bytes(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Counts `count` operations that ended now, as one latency sample. True when an interval line is due.
    #[inline]
    pub fn finished(&mut self, op: Op, count: u64) -> bool {
        self.done += count;
        // Relaxed: statistics. A plain store will do, since this thread is the only writer.
        self.pulse.ops.store(self.done, Relaxed);
        self.pulse.bytes.store(self.bytes, Relaxed);
        if self.timed {
            self.sample(op);
        }
        self.done >= self.next_line
    }

    #[inline]
    fn sample(&mut self, op: Op) {
        let now = self.micros();
        let micros = now - self.last_micros;
        self.last_micros = now;
        if let Some(histograms) = &mut self.histograms {
            histograms.add(op, micros);
        }
        if let Some(latency) = &self.pulse.latency {
            latency.add(micros);
        }
    }

    #[inline]
    fn micros(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    /// Forgets the time since the last operation: it was spent waiting for the tool's own rate limit, or printing.
    #[inline]
    pub fn restart_operation(&mut self) {
        if self.timed {
            self.last_micros = self.micros();
        }
    }

    /// Operations so far.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// When this thread began.
    pub fn started(&self) -> Instant {
        self.start
    }

    /// Sets when the next interval line is due.
    pub fn set_next_line(&mut self, done: u64) {
        self.next_line = done;
    }

    /// Stops the clock.
    pub fn stop(self) -> Totals {
        let finish = Instant::now();
        Totals {
            done: self.done,
            bytes: self.bytes,
            busy_seconds: (finish - self.start).as_secs_f64(),
            span: Some((self.start, finish)),
            histograms: self.histograms,
            tally: self.tally,
        }
    }
}

/// Counts of one thread that ended, or of several merged.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// Operations.
    pub done: u64,
    /// Bytes of user data.
    pub bytes: u64,
    /// Seconds, summed over threads.
    pub busy_seconds: f64,
    span: Option<(Instant, Instant)>,
    /// Latencies, if they were asked for.
    pub histograms: Option<Histograms>,
    /// What the operations came to.
    pub tally: Tally,
}

impl Totals {
    /// Adds another thread's counts: sums, the earliest start, the latest finish.
    pub fn merge(&mut self, other: &Self) {
        self.done += other.done;
        self.bytes += other.bytes;
        self.busy_seconds += other.busy_seconds;
        self.span = match (self.span, other.span) {
            (Some(mine), Some(theirs)) => Some((mine.0.min(theirs.0), mine.1.max(theirs.1))),
            (mine, theirs) => mine.or(theirs),
        };
        if let Some(theirs) = &other.histograms {
            self.histograms.get_or_insert_default().merge(theirs);
        }
        self.tally.reads += other.tally.reads;
        self.tally.writes += other.tally.writes;
        self.tally.found += other.tally.found;
    }

    /// Seconds from the first start to the last finish.
    pub fn wall_seconds(&self) -> f64 {
        self.span.map_or(0.0, |(start, finish)| (finish - start).as_secs_f64())
    }
}
