//! Tells listeners how busy the background is, and how near it is to holding writers.
//!
//! Looked at whenever a job begins or ends or the shape of a family changes, and told if anything is different from what
//! was told last. Without listeners nothing is looked at.

use super::Shared;
use crate::column_family::{ColumnFamily, FlushStage};
use crate::event::{BackgroundJobPressure, Event};

impl Shared {
    /// Tells the present pressure of background jobs, if it is news.
    pub(super) fn tell_job_pressure(&self) {
        if !self.events.has_listeners() {
            return;
        }
        // Looked at and told in one turn, so that what is told last is what holds.
        let mut last = self.told_job_pressure.lock();
        let now = self.job_pressure();
        if *last != Some(now) {
            *last = Some(now);
            self.events.push(|| Event::JobPressure(now));
        }
    }

    fn job_pressure(&self) -> BackgroundJobPressure {
        let (flushes_running, compactions_running) = {
            let state = self.state.lock();
            (state.running_flushes, state.running_compactions)
        };
        let families = self.families.all();
        let wanted = |family: &&ColumnFamily| family.data.stage() != FlushStage::Idle;
        let of_families = || families.iter().filter_map(|family| family.data.pressure());
        BackgroundJobPressure {
            flushes_wanted: families.iter().filter(wanted).count() as u32,
            flushes_running,
            compactions_running,
            compactions_sped_up: self.pressure.slows_writers() || of_families().any(|it| it.is_behind()),
            write_stall_proximity_percent: of_families().map(|it| it.proximity()).max().unwrap_or(0),
        }
    }
}
