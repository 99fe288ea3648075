//! Who works in the background, and when: flush threads, compaction threads, and the thread that looks after the rest
//! ([`super::housekeeping`]).
//!
//! Every thread loops the same way: note the bell's count, look for work, do it, and wait for a further ring only when
//! there was none. A wake-up is never lost, and a job that ends rings for whoever may have been waiting for it.
//! How a flush or a compaction is done is not known here.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::Shared;
use super::governing::Governing;
use crate::column_family::{ColumnFamily, FamilyData, FlushStage};
use crate::compaction::score::Score;
use crate::env::lower_thread_priority;
use crate::error::{Corruption, Error, Result};
use crate::jobs::Bell;

/// Niceness of compaction threads: writers and flushes come first where processors are short. What compaction falls behind by
/// is then asked for by L0, smoothly, instead of taken from writers at random.
const COMPACTION_NICENESS: i32 = 10;

/// Flushes under way for each that computes: while one waits for the device, another computes.
pub(super) const FLUSHES_PER_SLOT: u64 = 2;

impl Shared {
    /// Starts the threads. They hold the shared part only, so they do not keep the database open.
    pub(super) fn start_threads(self: &Arc<Self>) -> Result<()> {
        type NextLook = fn(&Shared) -> Option<u64>;
        let start = |name: String, bell: &Arc<Bell>, look: fn(&Shared) -> bool, next_look: NextLook| {
            let (shared, bell) = (Arc::clone(self), Arc::clone(bell));
            let announced = self.clock.announce_thread();
            let gives_way = Arc::ptr_eq(&bell, &self.compaction_bell);
            let body = move || {
                let _counted = announced.enter();
                if gives_way {
                    lower_thread_priority(COMPACTION_NICENESS);
                }
                loop {
                    let seen = bell.rings();
                    if shared.is_closing() {
                        return;
                    }
                    match catch_unwind(AssertUnwindSafe(|| look(&shared))) {
                        Ok(true) => {}
                        Ok(false) => match next_look(&shared) {
                            Some(deadline) => bell.wait_past_until(seen, deadline),
                            None => bell.wait_past(seen),
                        },
                        Err(_) => shared.latch_failure(&shared.panicked("a background job")),
                    }
                }
            };
            self.workers.spawn(name, body).map_err(|error| Error::io("start a thread for", &self.dir, error))
        };
        for n in 0..u64::from(self.options.max_background_flushes) * FLUSHES_PER_SLOT {
            start(format!("sluice-flush{n}"), &self.flush_bell, Shared::flush_one, |_| None)?;
        }
        for n in 0..self.options.max_background_compactions {
            start(
                format!("sluice-comp-{n}"),
                &self.compaction_bell,
                Shared::compact_one,
                Shared::next_compaction_look,
            )?;
        }
        if let Some(governing) = &self.governing {
            let next_look: NextLook = |shared| Some(Governing::next_look(&*shared.clock));
            start("sluice-govern-0".to_owned(), &governing.bell, Shared::govern, next_look)?;
        }
        self.events.start().map_err(|error| Error::io("start a thread for", &self.dir, error))?;
        self.pools.start().map_err(|error| Error::io("start a thread for", &self.dir, error))?;
        start("sluice-house-0".to_owned(), &self.purge_bell, Shared::look_after, Shared::next_look)
    }

    /// Flushes the family that holds most of what is wanted to be flushed; false if there is none.
    fn flush_one(&self) -> bool {
        if self.failure.has_failed() {
            return false;
        }
        let mut wanted: Vec<_> = self.families.all();
        wanted.retain(|family| family.data.stage() != FlushStage::Idle && !family.data.is_flushing());
        let bytes = |family: &ColumnFamily| {
            family.data.pin().memtables().map(|memtable| memtable.bytes()).sum::<u64>()
        };
        let Some(family) = wanted.into_iter().max_by_key(bytes) else { return false };
        let Some(slot) = self.flush_slots.take() else { return false };
        if !family.data.begin_flush() {
            return true; // another thread was faster: look again
        }
        self.state.lock().running_flushes += 1;
        self.tell_job_pressure();
        let right = FlushRight(&family.data); // given back by a job that panics, too
        if let Err(error) = self.flush_family(&family.data, slot) {
            self.job_failed("flush", family.name(), &error);
        }
        drop(right);
        self.state.lock().running_flushes -= 1;
        self.tell_job_pressure();
        self.done_bell.ring();
        self.flush_bell.ring();
        true
    }

    /// Runs one compaction that is due; false if there is none that may run now.
    fn compact_one(&self) -> bool {
        if self.failure.has_failed() {
            return false;
        }
        let Some((family, compaction)) = self.pick_compaction() else { return false };
        self.tell_job_pressure();
        let _ = self.run_compaction(&family.data, &compaction, None); // it has reported what went wrong
        drop(compaction); // it holds the version that it was picked from, and so its inputs
        self.tell_job_pressure();
        self.purge_bell.ring();
        self.done_bell.ring();
        self.compaction_bell.ring();
        true
    }

    /// The failure that a panic means: a defect of ours. What was being done is unknown, so nothing more is written.
    pub(super) fn panicked(&self, who: &'static str) -> Error {
        let found = Corruption::bad(who, "to end", "a panic; see the standard error output");
        Error::corrupt(&self.dir, 0, found)
    }

    /// A job ended with an error: a shutdown is none, nor a dropped family, nor an earlier failure; all else
    /// closes the database to writes.
    pub(super) fn job_failed(&self, job: &str, family: &str, error: &Error) {
        match error {
            Error::ShutdownInProgress | Error::NoSuchColumnFamily { .. } | Error::ReadOnly { .. } => {}
            Error::Cancelled { .. } => {} // by whoever asked for it
            _ => {
                self.info_log.error(&format!("{job} of column family '{family}' failed: {error}"));
                self.latch_failure(error);
            }
        }
    }

    /// Whatever stops writers names the work that will end it: a flush of the family for its memtables, a compaction for
    /// its files. Called by writers that wait, without a lock held.
    pub(super) fn make_sure_that_stops_end(&self) {
        for family in self.families.all() {
            self.update_sources(&family.data);
            let waits = !family.data.pin().sealed.is_empty() && !family.data.is_flushing();
            if waits && family.data.stage() == FlushStage::Idle {
                family.data.want_flush(FlushStage::Queued);
            }
        }
        self.compaction_bell.ring();
    }

    /// Recomputes what the family asks of the brake, and wakes compaction if its shape calls for one.
    pub(super) fn update_sources(&self, family: &FamilyData) {
        let compacting = {
            let state = self.state.lock();
            state.jobs.get(&family.id).is_some_and(|jobs| !jobs.running.is_empty())
        };
        // Looked at and asked for in one turn: two threads that looked at different states and asked in the other order
        // would leave a stop behind that nothing ends.
        let (score, pinned) = {
            let _turn = family.asking.lock();
            let pinned = family.pin();
            let score = Score::new(&pinned.version, &family.options());
            self.pressure.update_family(family, &score, pinned.sealed.len() as u32, compacting);
            (score, pinned)
        };
        let is_due =
            score.is_due() && !family.options().disable_auto_compactions || self.has_marked(family, &pinned);
        drop(pinned); // without the lock: it may be the last to hold a memtable
        self.pressure.tell();
        self.tell_job_pressure();
        if is_due {
            self.compaction_bell.ring();
        }
    }
}

/// The right to flush a family, given back when dropped.
struct FlushRight<'a>(&'a FamilyData);

impl Drop for FlushRight<'_> {
    fn drop(&mut self) {
        self.0.end_flush();
    }
}
