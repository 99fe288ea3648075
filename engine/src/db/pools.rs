//! [`Pools`]: the workers that background jobs run on, and what each of them is for.
//!
//! | pool | workers | jobs |
//! |---|--:|---|
//! | `wal` | 2 | preparing segments, background syncs, telling subscribers |
//! | `manifest` | 1 | writing edits and the log's position |
//! | `purge` | 1 | deleting files, freeing memtables |
//!
//! Who decides that a job is due is [`super::background`]'s affair.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::env::Clock;
use crate::jobs::{Pool, PoolOptions, RingStats, Stop};
use crate::options::DbOptions;

/// The pools of one database.
#[derive(Debug)]
pub(super) struct Pools {
    pub(super) wal: Pool,
    pub(super) manifest: Arc<Pool>,
    pub(super) purge: Pool,
}

impl Pools {
    /// The pools, with no worker running but those of the manifest.
    pub(super) fn new(options: &DbOptions) -> std::io::Result<Self> {
        let pool = |name, workers| {
            let slots = options.job_ring_slots as usize;
            Pool::new(PoolOptions { name, workers, slots }, &options.clock)
        };
        let manifest = Arc::new(pool("mani", 1));
        manifest.start()?;
        Ok(Self { wal: pool("wal", 2), manifest, purge: pool("purge", 1) })
    }

    pub(super) fn start(&self) -> std::io::Result<()> {
        self.wal.start()?;
        self.purge.start()
    }

    /// Runs what was accepted by all but the manifest's pool, and ends their workers. Names of those that died come back.
    pub(super) fn stop_all_but_manifest(&self) -> Vec<String> {
        let mut died = self.wal.stop(Stop::Drain);
        died.extend(self.purge.stop(Stop::Drain));
        died
    }

    /// What `sluicedb.jobs.NAME` says: one line for each worker's ring, or for all pools with the name `all`.
    pub(super) fn describe(&self, name: &str) -> Option<String> {
        let all = [("wal", &self.wal), ("manifest", &*self.manifest), ("purge", &self.purge)];
        let mut text = String::new();
        for (pool_name, pool) in all.into_iter().filter(|(pool_name, _)| name == "all" || name == *pool_name)
        {
            for (n, stats) in pool.stats().into_iter().enumerate() {
                let _ = writeln!(text, "{pool_name}.{n}: {}", describe_ring(&stats));
            }
        }
        (!text.is_empty()).then_some(text)
    }
}

fn describe_ring(stats: &RingStats) -> String {
    let micros = |nanos: u64| nanos / 1000;
    format!(
        "length {} (peak {}), outstanding peak {}, submitted {}, chunks {} (mean {}), wakes {}, mean jobs per pop {}, permit waits {}, panicked {}, \
         failed at stop {}, length at stop {}, in queue p50 {} us p99 {} us, run p50 {} us p99 {} us",
        stats.length,
        stats.length_peak,
        stats.outstanding_peak,
        stats.submitted,
        stats.chunk.count,
        stats.chunk.mean(),
        stats.wakes,
        stats.popped.mean(),
        stats.permit_waits,
        stats.panicked,
        stats.failed_at_stop,
        stats.length_at_stop,
        micros(stats.in_queue.p50),
        micros(stats.in_queue.p99),
        micros(stats.run.p50),
        micros(stats.run.p99),
    )
}

/// A job of which one is on its way at a time.
#[derive(Debug, Default)]
pub(super) struct OneAtATime(AtomicBool);

impl OneAtATime {
    /// False if one is on its way.
    pub(super) fn begin(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    pub(super) fn is_running(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub(super) fn end(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// When the clock shows so much, or has shown it.
pub(super) fn is_due(due_at: Option<u64>, clock: &dyn Clock) -> bool {
    due_at.is_some_and(|due| due <= clock.now_nanos())
}
