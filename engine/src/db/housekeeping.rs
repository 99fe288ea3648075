//! What has to be done besides flushes and compactions, and when: one thread looks, workers do it.
//!
//! | what | when | on |
//! |---|---|---|
//! | delete files | no version holds them any more | `purge` |
//! | prepare the log's next segment | none is ready | `wal` |
//! | sync the log | [`SyncTicker`](crate::wal::SyncTicker) | `wal` |
//! | tell subscribers how far the log is durable | it moved | `wal` |
//! | record that in the manifest | [`PositionPlan`](crate::manifest::PositionPlan) | `manifest` |
//! | bound the log, housekeeping of the manager, going on after a full disk | each look | the thread that looks |
//!
//! The thread loops as those of [`super::background`] do, and looks again when the earliest of these is due.

use std::time::Duration;

use sluicedb_controller::deadline_after;

use super::Shared;
use super::pools::{OneAtATime, is_due};
use crate::column_family::{ColumnFamily, FlushStage};
use crate::filename::sst_path;
use crate::jobs::JobHandle;
use crate::version::FileNumber;

/// Time between two looks, while there is anything that says nothing when it changes.
const TICK: Duration = Duration::from_secs(1);

impl Shared {
    /// One look; false when the next may wait for a ring or for [`next_look`](Self::next_look).
    pub(super) fn look_after(&self) -> bool {
        self.delete_free_files();
        if !self.failure.has_failed() {
            self.prepare_segment();
            self.sync_log_if_due();
            self.save_position_if_due();
        }
        if self.failure.is_no_space() && self.resume().is_ok() {
            return true; // there was space again: look at the rest as usual
        }
        if self.pressure.wants_housekeeping() {
            self.pressure.housekeep();
            self.trim_history();
        }
        if self.pressure.wants_arrivals() {
            let now = self.clock.now_nanos(); // first: what arrives later belongs to the next look
            self.pressure.arrived(self.stats.bytes_written.get(), now);
        }
        self.bound_wal();
        if self.wal.durability().has_news() {
            self.once_on_wal(|shared| &shared.telling, Self::tell_subscribers);
        }
        false
    }

    /// When to look again without being asked to.
    pub(super) fn next_look(&self) -> Option<u64> {
        let ticks = self.pressure.wants_housekeeping()
            || self.pressure.wants_arrivals()
            || self.failure.is_no_space()
            || self.obsolete.has_waiting();
        let tick = ticks.then(|| deadline_after(self.clock.now_nanos(), TICK));
        if self.failure.has_failed() {
            return tick;
        }
        let position = if self.saving.is_running() { None } else { self.versions.position_due_at() };
        [tick, self.sync_ticker.due_at(), position].into_iter().flatten().min()
    }

    /// Hands the SSTs that nobody holds any more to the worker that deletes them.
    fn delete_free_files(&self) {
        let free = self.obsolete.take_free();
        let Some(shared) = self.this.upgrade() else { return };
        if free.is_empty() {
            return;
        }
        let jobs = free.into_iter().map(|number| {
            let shared = std::sync::Arc::clone(&shared);
            move |_: &_| shared.delete_file(number)
        });
        self.pools.purge.submit_bulk(jobs).detach();
    }

    fn delete_file(&self, number: FileNumber) {
        self.tables.evict(number);
        match self.fs.remove(&sst_path(&self.dir, number)) {
            Ok(()) => self.stats.files_deleted.add(1),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                self.obsolete.put_back(number);
                self.info_log.error(&format!("could not remove {number}.sst, an obsolete file: {error}"));
            }
        }
    }

    fn prepare_segment(&self) {
        if self.wal.wants_segment() {
            self.once_on_wal(
                |shared| &shared.preparing,
                |shared| {
                    if let Err(error) = shared.wal.prepare_next() {
                        // The leader makes the segment itself then, and reports if it cannot.
                        shared.info_log.error(&format!("could not prepare a WAL segment: {error}"));
                    }
                },
            );
        }
    }

    fn sync_log_if_due(&self) {
        if is_due(self.sync_ticker.due_at(), &*self.clock)
            && self.sync_ticker.begin()
            && !self.once_on_wal(|shared| &shared.syncing, Self::sync_log)
        {
            self.sync_ticker.end(self.wal.durability());
        }
    }

    /// Without the lead: what is appended meanwhile is not covered, and no writer waits.
    fn sync_log(&self) {
        let synced = self.wal.sync_in_background().inspect_err(|error| self.log_failed(error));
        self.sync_ticker.end(self.wal.durability());
        if synced.is_ok() {
            self.purge_bell.ring(); // subscribers, the manifest, and the next interval
        }
    }

    fn tell_subscribers(&self) {
        while self.wal.durability().deliver() {}
    }

    fn save_position_if_due(&self) {
        let Some(shared) = self.this.upgrade() else { return };
        if is_due(self.versions.position_due_at(), &*self.clock) && self.saving.begin() {
            let ended = move || {
                shared.saving.end();
                shared.purge_bell.ring();
            };
            if !self.versions.save_position(ended) {
                self.saving.end();
            }
        }
    }

    /// Has a worker of `wal` do this, unless that is on its way already; whether it will.
    fn once_on_wal(&self, flag: fn(&Self) -> &OneAtATime, job: fn(&Self)) -> bool {
        let Some(shared) = self.this.upgrade() else { return false };
        if !flag(self).begin() {
            return false;
        }
        let submitted = self.pools.wal.try_submit(move |_| {
            let _ends = Ends(&shared, flag);
            job(&shared);
        });
        let accepted = submitted.map(JobHandle::detach).is_ok();
        if !accepted {
            flag(self).end();
        }
        accepted
    }

    /// Wants a flush of the families that hold the oldest segment, while the log is longer than `max_total_wal_size`.
    fn bound_wal(&self) {
        if self.wal.live_bytes() <= self.live.max_total_wal_size() {
            return;
        }
        let oldest = |family: &ColumnFamily| {
            family.data.pin().memtables().filter_map(|memtable| memtable.oldest_segment()).min()
        };
        let families = self.families.all();
        let Some(segment) = families.iter().filter_map(oldest).min() else { return };
        for family in families.iter().filter(|family| oldest(family) == Some(segment)) {
            if !family.data.is_flushing() {
                family.data.want_flush(FlushStage::SealWanted);
            }
        }
    }
}

/// Ends a job of which one is on its way at a time. One that panicked makes the database read-only: what it left is unknown.
struct Ends<'a>(&'a Shared, fn(&Shared) -> &OneAtATime);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        (self.1)(self.0).end();
        if std::thread::panicking() {
            self.0.latch_failure(&self.0.panicked("a background job"));
        }
    }
}
