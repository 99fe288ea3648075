//! What pressure says about itself: properties, and the stall lines of the statistics. Reads only.

use sluicedb_controller::{Requirement, SourceKind, Tally};
use sluicedb_wbm::{Holder, SourceId, State};

use super::Pressure;
use crate::column_family::FamilyData;
use crate::db::stats_text::hours_minutes_seconds;
use crate::stats::{CauseStalls, StallStatistics, StatisticsSnapshot};

/// Visibility.
impl Pressure {
    pub(in crate::db) fn is_stopped(&self) -> bool {
        self.client.is_stopped()
    }

    /// The rate of delayed writers in bytes per second; 0 when nothing delays.
    pub(in crate::db) fn delayed_rate(&self) -> u64 {
        self.controller.actual_delayed_write_rate()
    }

    /// Time that this database's writers spent delayed, and stopped, in microseconds.
    pub(in crate::db) fn stall_micros(&self) -> (u64, u64) {
        let total = self.client.tally().total();
        (total.delayed_nanos / 1000, total.stopped_nanos / 1000)
    }

    /// The property `sluicedb.pressure`: a line for each name and value.
    pub(in crate::db) fn describe(&self) -> String {
        let (manager, controller) = (self.manager.stats(), self.controller.stats());
        let strictest =
            controller.strictest.map_or_else(|| "none".to_owned(), |source: SourceId| source.to_string());
        let lines = [
            ("state", controller.state.to_string()),
            ("step", manager.pressure.step().to_string()),
            ("rate", controller.rate.to_string()),
            ("max-rate", controller.max_rate.to_string()),
            ("strictest-source", strictest),
            ("normal-micros", controller.times.normal_micros.to_string()),
            ("delayed-micros", controller.times.delayed_micros.to_string()),
            ("stopped-micros", controller.times.stopped_micros.to_string()),
            ("publications", manager.publications.to_string()),
            ("transitions", manager.times.transitions.to_string()),
            ("delay-episodes", manager.times.delay_episodes.to_string()),
            ("stops", manager.times.stops.to_string()),
            ("stop-micros", manager.times.stopped_micros.to_string()),
            ("longest-stop-micros", manager.times.longest_stop_micros.to_string()),
            ("current-stop-micros", manager.times.current_stop_micros.to_string()),
            ("sleeping", controller.sleeping.to_string()),
            ("parked", controller.parked.to_string()),
            ("rejected", controller.tally.rejected.to_string()),
            ("pacer-lost-bytes", controller.pacer_lost_bytes.to_string()),
            ("flushes-queued", manager.flushes_queued.to_string()),
            ("flushes-running", manager.flushes_running.to_string()),
            ("unserved", manager.unserved.to_string()),
            ("liveness-rescues", manager.liveness_rescues.to_string()),
        ];
        lines.map(|(name, value)| format!("{name}: {value}\n")).concat()
    }

    /// The property `sluicedb.pressure-sources`: a line for each source that asks for something.
    pub(in crate::db) fn describe_sources(&self) -> String {
        let line = |report: &sluicedb_controller::SourceReport| {
            let asks = match report.requirement {
                Requirement::Normal => "normal".to_owned(),
                Requirement::Delayed(fraction) => format!("delayed {} ppm", fraction.ppm()),
                Requirement::Stopped => "stopped".to_owned(),
            };
            format!("{}: {asks}, rate {}, since {:?}\n", report.source, report.rate, report.age)
        };
        self.controller.stats().sources.iter().map(line).collect()
    }

    /// The property `sluicedb.wbm`: a line for each name and value, then one for each database.
    pub(in crate::db) fn describe_wbm(&self) -> String {
        let stats = self.manager.stats();
        let usage = stats.usage;
        let mut text = format!(
            "quota: {}\nusage: {}\nmutable: {}\nsealed: {}\nflushing: {}\npinned: {}\noverhead: {}\nqueued: {}\n\
             cache-reserved: {}\n",
            stats.quota.bytes(),
            usage.used,
            usage.mutable,
            usage.sealed,
            usage.flushing,
            usage.pinned,
            usage.overhead,
            usage.queued,
            stats.cache_reserved
        );
        for database in &stats.databases {
            text += &format!(
                "database {}: usage {}, pinned {}\n",
                database.name, database.usage.used, database.usage.pinned
            );
        }
        text
    }

    /// The property `sluicedb.wbm-holders`: a line for each memtable that holds bytes, largest first.
    pub(in crate::db) fn describe_holders(&self) -> String {
        self.manager.holders().iter().map(|holder| name_holder(holder) + "\n").collect()
    }

    /// The lines about the manager in `rocksdb.stats`; none with a quota of 0.
    pub(in crate::db) fn stats_lines(&self) -> String {
        let stats = self.manager.stats();
        let (usage, quota) = (stats.usage, stats.quota.bytes());
        if quota == 0 {
            return String::new();
        }
        let percent = 100.0 * usage.used as f64 / quota as f64;
        let step = match stats.pressure.state() {
            State::Delayed => {
                format!(", step {}, rate {} B/s", stats.pressure.step(), self.controller.rate())
            }
            _ => String::new(),
        };
        format!(
            "WBM: usage {} of {quota} ({percent:.1} percent), mutable {}, immutable {}, pinned {}, state {}{step}\n\
             WBM stall: delayed {} H:M:S, stopped {} H:M:S, {} delay episodes, {} stops\n",
            usage.used,
            usage.mutable,
            usage.immutable(),
            usage.pinned,
            stats.pressure.state(),
            hours_minutes_seconds(stats.times.delayed_micros),
            hours_minutes_seconds(stats.times.stopped_micros),
            stats.times.delay_episodes,
            stats.times.stops
        )
    }

    /// How often each cause of a family began to delay and to stop, as RocksDB's `Write Stall (count)` line lists them;
    /// and the sum of both.
    pub(in crate::db) fn family_stalls(&self, family: &FamilyData) -> (String, u64) {
        let Some(pressure) = family.pressure() else { return (String::new(), 0) };
        let (mut delays, mut stops) = (0, 0);
        let mut lines: Vec<(String, u64)> = Vec::new();
        let busy = pressure.l0_counts_while_compacting();
        lines.push(("cf-l0-file-count-limit-delays-with-ongoing-compaction".to_owned(), busy.0));
        lines.push(("cf-l0-file-count-limit-stops-with-ongoing-compaction".to_owned(), busy.1));
        for (kind, (delayed, stopped)) in pressure.counts() {
            lines.push((format!("{}-delays", kind.cause()), delayed));
            lines.push((format!("{}-stops", kind.cause()), stopped));
            delays += delayed;
            stops += stopped;
        }
        lines.push(("total-delays".to_owned(), delays));
        lines.push(("total-stops".to_owned(), stops));
        (name_values(&lines), delays + stops)
    }

    /// Stalls of this database's writers by cause.
    pub(in crate::db) fn stalls_by_cause(&self) -> StallStatistics {
        let tally: Tally = self.client.tally();
        let of = |kind| {
            let part = tally.cause(kind);
            CauseStalls {
                delays: part.delays,
                stops: part.stops,
                delay_micros: part.delayed_nanos / 1000,
                stop_micros: part.stopped_nanos / 1000,
            }
        };
        StallStatistics {
            l0_files: of(SourceKind::L0),
            memtables: of(SourceKind::MemtableCount),
            pending_compaction: of(SourceKind::PendingCompactionBytes),
            write_buffer_manager: of(SourceKind::WriteBufferManager),
        }
    }

    /// Sets the counts of the family's `Write Stall (count)` line back to 0.
    pub(in crate::db) fn forget_family_stalls(&self, family: &FamilyData) {
        if let Some(pressure) = family.pressure() {
            pressure.forget_counts();
        }
    }
}

/// The database's `Write Stall` lines from `then` to `now`: admissions that the manager held or refused, and the time of
/// all causes.
pub(in crate::db) fn db_stalls(now: &StatisticsSnapshot, then: &StatisticsSnapshot) -> String {
    let total = |stats: &StatisticsSnapshot| {
        let (delays, all) = (stats.stall_delay_micros, stats.stall_micros);
        [delays, all.saturating_sub(delays)]
    };
    let mut micros = vec![("total-delays".to_owned(), total(now)[0].saturating_sub(total(then)[0]))];
    micros.push(("total-stops".to_owned(), total(now)[1].saturating_sub(total(then)[1])));
    let mut counts = Vec::new();
    for ((cause, now), (_, then)) in now.stalls.by_cause().iter().zip(then.stalls.by_cause()) {
        micros.push((format!("{cause}-delays"), now.delay_micros.saturating_sub(then.delay_micros)));
        micros.push((format!("{cause}-stops"), now.stop_micros.saturating_sub(then.stop_micros)));
        // The others count entries into their state, by column family.
        if *cause == SourceKind::WriteBufferManager.cause() {
            counts.push((format!("{cause}-delays"), now.delays.saturating_sub(then.delays)));
            counts.push((format!("{cause}-stops"), now.stops.saturating_sub(then.stops)));
        }
    }
    micros.sort();
    format!("Write Stall (count): {}\nWrite Stall (micros): {}\n", name_values(&counts), name_values(&micros))
}

/// `name: value, name: value`
fn name_values(lines: &[(String, u64)]) -> String {
    lines.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join(", ")
}

pub(super) fn name_holder(holder: &Holder) -> String {
    let Holder { database, family, state, bytes, age, pinned_by, .. } = holder;
    let by = pinned_by.map_or_else(String::new, |kind| format!(" by {}", kind.name()));
    format!("{database}/{family} {} {bytes} bytes for {age:?}{by}", state.name())
}
