//! The workloads: what is put and read, by how many threads, and what of it is measured.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::data::{Numbers, Shuffle, Values, key};
use crate::engine::{Ack, Engine, Outcome, Settings, Which};
use crate::monitor::{Monitor, cpu_seconds, variation, written_bytes};

/// How large the workloads are.
#[derive(Debug, Clone, clap::Args)]
pub struct Sizes {
    /// Keys of the small workloads (16 + 100 bytes).
    #[arg(long, default_value_t = 3_000_000)]
    pub num: u64,
    /// Gets of all reading threads together; seeks are a fifth.
    #[arg(long, default_value_t = 500_000)]
    pub reads: u64,
    /// Puts of S1 (16 + 1000 bytes).
    #[arg(long, default_value_t = 6_000_000)]
    pub s1_num: u64,
    /// Synced puts of each thread.
    #[arg(long, default_value_t = 5_000)]
    pub syncs: u64,
}

/// A workload by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Workload {
    /// Puts in the order of their keys, one thread.
    Fillseq,
    /// Puts at random, one thread.
    Fillrandom,
    /// The same puts shared by four threads.
    Fillrandom4,
    /// Six families, no log, a quota of 128 MiB: writers press on it all the while.
    S1,
    /// Each put synced, one thread.
    Fillsync,
    /// The same from eight threads.
    Fillsync8,
    /// Gets of keys that are there, one thread.
    Readrandom,
    /// The same gets shared by four threads.
    Readrandom4,
    /// A seek with a new iterator and ten steps.
    Seekrandom,
    /// Gets while another thread puts 10,000 a second.
    Readwhilewriting,
}

/// What a run gave.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// The engine's name.
    pub engine: String,
    /// The workload's name.
    pub workload: String,
    /// Operations measured.
    pub operations: u64,
    /// Operations per second.
    pub rate: f64,
    /// Deviation over mean of the operations of each second.
    pub cv: Option<f64>,
    /// 99.99th percentile of latency in microseconds, where each operation was timed.
    pub p9999_us: Option<f64>,
    /// Processor seconds of the measured part.
    pub cpu_s: f64,
    /// Bytes written in the measured part.
    pub written: u64,
    /// Largest anonymous memory of the whole run, in bytes.
    pub anonymous: u64,
    /// Seconds until flushes and compactions had caught up with a measured part that writes.
    pub settle_s: Option<f64>,
}

impl Workload {
    /// As it is named on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fillseq => "fillseq",
            Self::Fillrandom => "fillrandom",
            Self::Fillrandom4 => "fillrandom4",
            Self::S1 => "s1",
            Self::Fillsync => "fillsync",
            Self::Fillsync8 => "fillsync8",
            Self::Readrandom => "readrandom",
            Self::Readrandom4 => "readrandom4",
            Self::Seekrandom => "seekrandom",
            Self::Readwhilewriting => "readwhilewriting",
        }
    }

    fn settings(self) -> Settings {
        let small = Settings {
            families: 1,
            ack: Ack::Kernel,
            compression: true,
            memtable: 64 << 20,
            quota: 256 << 20,
            cache: 32 << 20,
            delayed_rate: 512 << 20,
            flushes: 1,
            compactions: 2,
            bloom_bits: 10.0,
        };
        match self {
            Self::S1 => Settings {
                families: 6,
                ack: Ack::Memory,
                compression: false,
                memtable: 16 << 20,
                quota: 128 << 20,
                cache: 8 << 20,
                ..small
            },
            Self::Fillsync | Self::Fillsync8 => Settings { ack: Ack::Device, ..small },
            _ => small,
        }
    }

    fn reads(self) -> bool {
        matches!(self, Self::Readrandom | Self::Readrandom4 | Self::Seekrandom | Self::Readwhilewriting)
    }

    /// Runs it with this engine in a new directory below `directory`.
    pub fn run(self, which: Which, sizes: &Sizes, directory: &Path) -> Outcome<Record> {
        let path = directory.join("db");
        let engine = which.open(&path, &self.settings())?;
        let run = Run { engine: &*engine, sizes, monitor: Monitor::default() };
        let (outcome, seen) = run.monitor.watch(|| run.measured(self));
        let mut record = outcome?;
        record.engine = which.name().to_owned();
        record.workload = self.name().to_owned();
        record.anonymous = seen.peak_anonymous;
        // Loading counts no operations, and the last window is cut short by the end: both would look like dips.
        let rates: Vec<f64> = seen.rates.into_iter().skip_while(|rate| *rate == 0.0).collect();
        record.cv = variation(rates.split_last().map_or(&[], |(_, rest)| rest));
        Ok(record)
    }
}

/// Nanoseconds of operations, up to an hour, to three digits.
fn latencies() -> Outcome<Histogram<u64>> {
    Ok(Histogram::new_with_max(3_600_000_000_000, 3)?)
}

/// A workload on its way.
struct Run<'a> {
    engine: &'a dyn Engine,
    sizes: &'a Sizes,
    monitor: Monitor,
}

impl Run<'_> {
    fn measured(&self, workload: Workload) -> Outcome<Record> {
        if workload.reads() {
            self.load()?;
        }
        let (cpu, written, start) = (cpu_seconds(), written_bytes(), Instant::now());
        let mut latencies = latencies()?;
        let Sizes { num, reads, s1_num, syncs } = *self.sizes;
        let operations = match workload {
            Workload::Fillseq => self.fill_in_order(num)?,
            Workload::Fillrandom => self.fill(1, num)?,
            Workload::Fillrandom4 => self.fill(4, num)?,
            Workload::Fillsync => self.fill(1, syncs)?,
            Workload::Fillsync8 => self.fill(8, 8 * syncs)?,
            Workload::S1 => self.press(s1_num, &mut latencies)?,
            Workload::Readrandom => self.get(1, reads)?,
            Workload::Readrandom4 => self.get(4, reads)?,
            Workload::Seekrandom => self.seek(reads / 5)?,
            Workload::Readwhilewriting => self.get_while_putting(reads)?,
        };
        let taken = start.elapsed().as_secs_f64();
        let (cpu_s, written) = (cpu_seconds() - cpu, written_bytes() - written);
        let settle_s = if workload.reads() {
            None
        } else {
            let start = Instant::now();
            self.engine.settle()?;
            Some(start.elapsed().as_secs_f64())
        };
        Ok(Record {
            engine: String::new(),
            workload: String::new(),
            operations,
            rate: operations as f64 / taken,
            cv: None,
            p9999_us: (!latencies.is_empty()).then(|| latencies.value_at_quantile(0.9999) as f64 / 1e3),
            cpu_s,
            written,
            anonymous: 0,
            settle_s,
        })
    }

    /// Puts every key once, in no order, and waits until the engine has caught up.
    fn load(&self) -> Outcome<()> {
        let mut values = Values::new(100);
        let shuffle = Shuffle::new(self.sizes.num);
        for index in 0..self.sizes.num {
            self.engine.put(0, &key(shuffle.at(index)), values.next())?;
        }
        self.engine.settle()
    }

    fn fill_in_order(&self, count: u64) -> Outcome<u64> {
        let mut values = Values::new(100);
        self.strides(count, |number| self.engine.put(0, &key(number), values.next()))
    }

    fn fill(&self, threads: u64, count: u64) -> Outcome<u64> {
        self.shared(threads, |thread| {
            let mut values = Values::new(100);
            let mut numbers = Numbers::new(1_000 + thread);
            self.strides(count / threads, |_| {
                self.engine.put(0, &key(numbers.below(self.sizes.num)), values.next())
            })
        })
    }

    fn press(&self, count: u64, latencies: &mut Histogram<u64>) -> Outcome<u64> {
        let mut values = Values::new(1_000);
        let mut numbers = Numbers::new(2_000);
        self.strides(count, |_| {
            let number = numbers.below(count);
            let start = Instant::now();
            self.engine.put((number % 6) as usize, &key(number), values.next())?;
            latencies.saturating_record(start.elapsed().as_nanos() as u64);
            Ok(())
        })
    }

    fn get(&self, threads: u64, count: u64) -> Outcome<u64> {
        self.shared(threads, |thread| {
            let mut numbers = Numbers::new(3_000 + thread);
            self.strides(count / threads, |_| match self.engine.get(&key(numbers.below(self.sizes.num)))? {
                Some(100) => Ok(()),
                found => Err(format!("a key that was put gave {found:?}, expected 100 bytes").into()),
            })
        })
    }

    fn seek(&self, count: u64) -> Outcome<u64> {
        let mut numbers = Numbers::new(4_000);
        let last = self.sizes.num.saturating_sub(11).max(1);
        self.strides(count, |_| match self.engine.seek(&key(numbers.below(last)), 10)? {
            11 => Ok(()),
            seen => Err(format!("a seek and ten steps saw {seen} entries, expected 11").into()),
        })
    }

    fn get_while_putting(&self, count: u64) -> Outcome<u64> {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let putter = scope.spawn(|| self.put_ten_thousand_a_second(&over));
            let result = self.get(1, count);
            over.store(true, Ordering::Relaxed);
            putter.join().map_err(|_| "the putting thread panicked")??;
            result
        })
    }

    fn put_ten_thousand_a_second(&self, over: &AtomicBool) -> Outcome<()> {
        let mut values = Values::new(100);
        let mut numbers = Numbers::new(5_000);
        let start = Instant::now();
        for tick in 0_u32.. {
            if over.load(Ordering::Relaxed) {
                break;
            }
            for _ in 0..10 {
                self.engine.put(0, &key(numbers.below(self.sizes.num)), values.next())?;
            }
            let due = Duration::from_millis(u64::from(tick) + 1);
            std::thread::sleep(due.saturating_sub(start.elapsed()));
        }
        Ok(())
    }

    /// Runs `work` in so many threads and adds up what they did.
    fn shared(&self, threads: u64, work: impl Fn(u64) -> Outcome<u64> + Sync) -> Outcome<u64> {
        let work = &work;
        std::thread::scope(|scope| {
            let started: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
            let ended = started.into_iter().map(|thread| thread.join().map_err(|_| "a thread panicked")?);
            ended.sum()
        })
    }

    /// Does an operation so many times, and tells the monitor now and then.
    fn strides(&self, count: u64, mut operation: impl FnMut(u64) -> Outcome<()>) -> Outcome<u64> {
        const STRIDE: u64 = 64;
        for number in 0..count {
            operation(number)?;
            if (number + 1).is_multiple_of(STRIDE) {
                self.monitor.add(STRIDE);
            }
        }
        self.monitor.add(count % STRIDE);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Sizes = Sizes { num: 3_000, reads: 500, s1_num: 2_000, syncs: 5 };

    #[test]
    fn a_latency_of_seconds_is_not_cut_off() {
        let mut latencies = latencies().expect("a histogram");
        latencies.saturating_record(5_000_000_000);
        let found = latencies.value_at_quantile(0.9999) as f64;
        assert!((found / 5e9 - 1.0).abs() < 0.01, "{found}");
    }

    /// Each engine that was built in does each workload: the checks on what reads find are the test.
    #[test]
    fn every_engine_does_every_workload() {
        let engines: &[Which] = if cfg!(feature = "rocksdb") {
            &[Which::Sluicedb, Which::Fjall, Which::Rocksdb]
        } else {
            &[Which::Sluicedb, Which::Fjall]
        };
        for &which in engines {
            for workload in <Workload as clap::ValueEnum>::value_variants() {
                let directory = tempfile::tempdir().expect("a directory");
                let record = workload.run(which, &SMALL, directory.path()).expect("a run");
                assert!(record.operations > 0 && record.rate > 0.0, "{record:?}");
            }
        }
    }
}
