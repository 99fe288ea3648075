//! The governor of one database, if [`DbOptions::smooth_writes`] asks for it: what is measured, and what becomes of the rate.
//!
//! A thread of its own looks every 10 ms. The law is [`Governor`]'s; nothing of it runs in a writer, a flush or a
//! compaction, which only count bytes.

use std::sync::Arc;
use std::time::Duration;

use sluicedb_controller::{Fraction, Requirement, Source, SourceKind, WriteController};
use sluicedb_wbm::{Governor, GovernorSignals};

use super::Shared;
use crate::compaction::score::l0_depth;
use crate::env::Clock;
use crate::jobs::Bell;
use crate::options::{CompactionStyle, DbOptions};
use crate::sync::Mutex;

/// Time between two looks, in nanoseconds.
const PERIOD: u64 = 10_000_000;

/// The governor's thread, its source of pressure, and the law with its averages.
#[derive(Debug)]
pub(super) struct Governing {
    pub(super) bell: Arc<Bell>,
    source: Source,
    law: Mutex<(Governor, u64)>,
}

impl Governing {
    /// `None` unless the options ask for it.
    pub(super) fn new(options: &DbOptions, controller: &Arc<WriteController>) -> Option<Self> {
        options.smooth_writes.then(|| Self {
            bell: Bell::new(&options.clock),
            source: controller.source(SourceKind::Governor),
            law: Mutex::new((Governor::new(), options.clock.now_nanos())),
        })
    }

    /// When the thread looks next.
    pub(super) fn next_look(clock: &dyn Clock) -> u64 {
        clock.now_nanos().saturating_add(PERIOD)
    }
}

impl Shared {
    /// One look: measures, and asks the brake for the rate that can be sustained. Never for a stop.
    pub(super) fn govern(&self) -> bool {
        let Some(governing) = &self.governing else { return false };
        let signals = self.governor_signals();
        let now = self.clock.now_nanos();
        let rate = {
            let mut law = governing.law.lock();
            let elapsed = Duration::from_nanos(now.saturating_sub(law.1));
            law.1 = now;
            law.0.step(signals, elapsed)
        };
        let most = self.pressure.controller().max_rate();
        let ask = match rate {
            Some(rate) if rate < most => {
                Fraction::ratio(rate.max(1), most).map_or(Requirement::Normal, Requirement::Delayed)
            }
            _ => Requirement::Normal,
        };
        governing.source.require(ask);
        false
    }

    fn governor_signals(&self) -> GovernorSignals {
        let usage = self.pressure.manager().usage_report();
        // The mean over the families: each has its L0 rewritten in one go, so the fullest says little of the debt.
        let families = self.families.all();
        let (mut fullness, mut l0_room) = (0.0, 0_u64);
        for family in &families {
            let options = family.data.options();
            if options.compaction_style == CompactionStyle::Fifo {
                continue; // its L0 is all there is, and slows nobody
            }
            let comfort = options.level0_file_num_compaction_trigger;
            let files = options.level0_slowdown_writes_trigger.saturating_sub(comfort).max(1);
            let depth = l0_depth(&family.data.pin().version);
            fullness += f64::from(depth.saturating_sub(comfort)) / f64::from(files);
            l0_room = l0_room.saturating_add(options.write_buffer_size.saturating_mul(files.into()));
        }
        fullness /= families.len().max(1) as f64;
        GovernorSignals {
            quota: self.pressure.manager().quota_bytes(),
            used: usage.used,
            flushed: self.stats.flush_bytes_written.get(),
            flush_busy: Duration::from_micros(self.stats.flush_slot_micros.get()),
            flushers: self.options.max_background_flushes,
            left_l0: self.stats.l0_bytes_compacted.get(),
            l0_room,
            l0_fullness: fullness,
            arrived: self.stats.bytes_written.get(),
        }
    }
}
