//! What must hold while threads work: no stop without an end, and at quiet points memory and pressure as they should be.
//!
//! Owns the liveness watchdog, the quiet points, and the file with the counts of delays and stops, which outlives the process as
//! the oracle does.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use sluicedb::Pressure;

use super::Wrong;
use super::stage::{PAUSE, Stage};

/// The file beside the oracle: delay episodes and stops of the run so far.
pub const COUNTS: &str = "LATEST.pressure";

/// The thread that watches.
#[derive(Debug)]
pub struct Watch<'scope> {
    thread: ScopedJoinHandle<'scope, Result<(), Wrong>>,
}

impl<'scope> Watch<'scope> {
    /// Starts watching until the stage has ended.
    pub fn start<'env>(scope: &'scope Scope<'scope, 'env>, stage: &'env Stage<'_>) -> Self {
        Self { thread: scope.spawn(move || watch(stage)) }
    }

    /// What it found.
    ///
    /// # Errors
    ///
    /// The first thing wrong.
    pub fn join(self) -> Result<(), Wrong> {
        self.thread.join().unwrap_or_else(|_| Err("the watching thread panicked".to_owned()))
    }
}

fn watch(stage: &Stage<'_>) -> Result<(), Wrong> {
    let limit = Duration::from_secs(stage.flags.number("liveness_seconds"));
    let every = Duration::from_millis(stage.flags.number("continuous_verification_interval"));
    let mut moved = (0, Instant::now());
    let mut quiet = Instant::now();
    while !stage.ended.load(Relaxed) {
        std::thread::park_timeout(PAUSE);
        count(stage)?;
        let ops = stage.counters.ops.load(Relaxed);
        if ops != moved.0 {
            moved = (ops, Instant::now());
        }
        if let Err(wrong) = alive(stage, moved.1.elapsed(), limit) {
            // The threads hang and cannot be joined: leaving is all that is left.
            stage.console.err(&format!("{wrong}\nagain: db_stress run {}\n", stage.flags.line()));
            std::process::exit(1);
        }
        if !every.is_zero() && quiet.elapsed() >= every {
            quiet_point(stage).inspect_err(|_| stage.ended.store(true, Relaxed))?;
            quiet = Instant::now();
            moved.1 = quiet;
        }
    }
    count(stage)
}

/// Notes how often writers were delayed and stopped.
fn count(stage: &Stage<'_>) -> Result<(), Wrong> {
    let times = stage.db.write_buffer_manager().stats().times;
    let path = Path::new(stage.flags.text("expected_values_dir")).join(COUNTS);
    let text = format!("{} {}\n", times.delay_episodes, times.stops);
    std::fs::write(&path, text).map_err(|error| format!("could not write {}: {error}", path.display()))
}

/// Operations finish, and no stop outlasts the limit.
fn alive(stage: &Stage<'_>, silent: Duration, limit: Duration) -> Result<(), Wrong> {
    let stats = stage.db.write_buffer_manager().stats();
    let stopped = Duration::from_micros(stats.times.current_stop_micros);
    let what = if stopped > limit {
        format!("writers are stopped for {stopped:?}")
    } else if silent > limit {
        format!("no operation finished for {silent:?}")
    } else if stats.liveness_rescues > 0 {
        format!(
            "the manager let {} writers through because nothing would have ended their stop",
            stats.liveness_rescues
        )
    } else {
        return Ok(());
    };
    let holders = stage.db.property("sluicedb.wbm-holders").unwrap_or_default();
    let sources = stage.db.property("sluicedb.pressure-sources").unwrap_or_default();
    Err(format!("Liveness failed: {what}; {stats:?}\nholders:\n{holders}\nsources:\n{sources}"))
}

/// How often a quiet point is looked at before what it shows is believed.
const LOOKS: u32 = 40;

/// With nothing under way: usage is what the live memtables hold, and the pressure is what the law makes of it.
///
/// The figures are read one by one, and a flush that the database starts by itself may end between two of them; so only what is
/// wrong at every look is wrong.
fn quiet_point(stage: &Stage<'_>) -> Result<(), Wrong> {
    let _nobody = stage.quiet();
    let mut looked = Ok(());
    for _ in 0..LOOKS {
        let waited = stage.db.wait_for_background_work();
        waited.map_err(|error| format!("background work failed: {error}"))?;
        looked = memory_is_counted(stage);
        if looked.is_ok() {
            stage.counters.quiet_points.fetch_add(1, Relaxed);
            break;
        }
        std::thread::park_timeout(PAUSE);
    }
    looked
}

fn memory_is_counted(stage: &Stage<'_>) -> Result<(), Wrong> {
    if !stage.flags.is("zero_check") {
        return Ok(());
    }
    let (db, manager) = (&stage.db, stage.db.write_buffer_manager());
    let live = db.property_int("sluicedb.memtables.bytes").unwrap_or_default();
    let stats = manager.stats();
    let usage = stats.usage;
    // Charges are exact to 1 %.
    let tolerance = live.max(usage.used) / 100;
    if usage.queued != 0 || usage.used.abs_diff(live) > tolerance {
        return Err(format!(
            "at a quiet point the manager counts {usage:?}, the live memtables hold {live} bytes"
        ));
    }
    let by_law = if stats.allow_stall { stats.quota.pressure_at(usage.used) } else { Pressure::Normal };
    if stats.pressure != by_law {
        return Err(format!(
            "at a quiet point the pressure is {:?}, the law makes {by_law:?} of {} bytes of {:?}",
            stats.pressure, usage.used, stats.quota
        ));
    }
    Ok(())
}
