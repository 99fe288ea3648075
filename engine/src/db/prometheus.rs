//! Statistics as Prometheus text, of one database or of several in one text.
//!
//! Owns the names of the metrics and the exposition format (version 0.0.4). What is counted is [`crate::stats`]'. Reads
//! only; nothing waits, and nothing does I/O. Units are Prometheus' base units: bytes and seconds.

use std::collections::BTreeSet;
use std::fmt::{Display, Write as _};

use super::{Db, Shared};
use crate::column_family::FamilyData;
use crate::compaction::score::Score;
use crate::stats::HistogramSummary;

/// The statistics of these databases in Prometheus' text format, for whoever scrapes them.
///
/// Each database is told by the label `db`, its directory as it was opened; a column family by `cf`. A write buffer
/// manager that several databases share appears once, told by the label `manager`. Counters begin at 0 when a database
/// is opened. Sizes are in bytes, times in seconds.
///
/// ```no_run
/// # fn main() -> sluicedb::Result<()> {
/// use sluicedb::{Db, DbOptions, prometheus_text};
///
/// let (orders, users) = (Db::open("orders", DbOptions::default())?, Db::open("users", DbOptions::default())?);
/// print!("{}", prometheus_text([&orders, &users]));
/// # Ok(())
/// # }
/// ```
pub fn prometheus_text<'a>(databases: impl IntoIterator<Item = &'a Db>) -> String {
    let mut text = Exposition::default();
    let mut managers = BTreeSet::new();
    for db in databases {
        let shared = db.shared();
        let name = shared.dir.display().to_string();
        counters(&mut text, shared, &name);
        stalls(&mut text, shared, &name);
        background(&mut text, shared, &name);
        for family in shared.families.all() {
            family_gauges(&mut text, &family.data, &name);
        }
        if managers.insert(shared.pressure.manager().stats().source.to_string()) {
            manager(&mut text, shared);
        }
    }
    text.finish()
}

impl Db {
    /// The database's statistics in Prometheus' text format: [`prometheus_text`] of it alone.
    pub fn prometheus_text(&self) -> String {
        prometheus_text([self])
    }
}

/// Everything that only grows.
fn counters(text: &mut Exposition, shared: &Shared, db: &str) {
    let statistics = shared.statistics();
    for (name, help, count) in statistics.counters() {
        if name == "write_stall_max_micros" {
            continue; // not a counter; the summaries below say more
        }
        match name.strip_suffix("_micros") {
            Some(name) => {
                let name = format!("sluicedb_{name}_seconds_total");
                let help = help.replace(", in microseconds", "");
                text.add(&name, "counter", &help, &[("db", db)], seconds(count));
            }
            None => text.add(&format!("sluicedb_{name}_total"), "counter", help, &[("db", db)], count),
        }
    }
    let summaries = [
        ("write_wait", "How long each write waited that was delayed or stopped.", statistics.write_stall),
        ("flush_duration", "How long each flush took.", statistics.flush_times),
        ("compaction_duration", "How long each compaction took.", statistics.compaction_times),
    ];
    for (name, help, summary) in summaries {
        text.add_summary(&format!("sluicedb_{name}_seconds"), help, db, &summary);
    }
}

/// Writers' time and number by cause.
fn stalls(text: &mut Exposition, shared: &Shared, db: &str) {
    for (cause, part) in shared.statistics().stalls.by_cause() {
        let states = [("delayed", part.delays, part.delay_micros), ("stopped", part.stops, part.stop_micros)];
        for (state, count, micros) in states {
            let labels = [("db", db), ("cause", cause), ("state", state)];
            text.add(
                "sluicedb_write_stalls_by_cause_total",
                "counter",
                "Writes held by each cause.",
                &labels,
                count,
            );
            text.add(
                "sluicedb_write_stall_by_cause_seconds_total",
                "counter",
                "Writers' time held by each cause.",
                &labels,
                seconds(micros),
            );
        }
    }
}

fn background(text: &mut Exposition, shared: &Shared, db: &str) {
    let (flushes, compactions) = {
        let state = shared.state.lock();
        (u64::from(state.running_flushes), u64::from(state.running_compactions))
    };
    let failed = u64::from(shared.failure.has_failed() && !shared.read_only);
    let gauges = [
        ("flushes_running", "Flushes that run.", flushes),
        ("compactions_running", "Compactions that run.", compactions),
        ("background_errors", "1 when a failure has closed the database to writes.", failed),
        ("wal_live_bytes", "Bytes of the log that recovery would read.", shared.wal.live_bytes()),
        ("snapshots", "Snapshots that are held.", shared.snapshots.sequences().len() as u64),
        (
            "delayed_write_rate_bytes",
            "Bytes a second that delayed writers get; 0 when none is delayed.",
            shared.pressure.delayed_rate(),
        ),
        ("writes_stopped", "1 while writers are stopped.", u64::from(shared.pressure.is_stopped())),
    ];
    for (name, help, value) in gauges {
        text.add(&format!("sluicedb_{name}"), "gauge", help, &[("db", db)], value);
    }
}

fn family_gauges(text: &mut Exposition, family: &FamilyData, db: &str) {
    let pinned = family.pin();
    let version = &pinned.version;
    let labels = [("db", db), ("cf", &*family.name)];
    let memtables: u64 = pinned.memtables().map(|memtable| memtable.bytes()).sum();
    text.add("sluicedb_memtable_bytes", "gauge", "Bytes of memtables.", &labels, memtables);
    let pending = Score::new(version, &family.options()).pending_bytes();
    let help = "Bytes that wait for compaction.";
    text.add("sluicedb_pending_compaction_bytes", "gauge", help, &labels, pending);
    for level in 0..version.num_levels() {
        let number = level.to_string();
        let labels = [labels[0], labels[1], ("level", &*number)];
        let files = version.files(level).len();
        text.add("sluicedb_level_files", "gauge", "SSTs of each level.", &labels, files);
        let bytes = version.level_bytes(level);
        text.add("sluicedb_level_bytes", "gauge", "Bytes of the SSTs of each level.", &labels, bytes);
    }
}

fn manager(text: &mut Exposition, shared: &Shared) {
    let stats = shared.pressure.manager().stats();
    let source = stats.source.to_string();
    let labels = [("manager", source.as_str())];
    let help = "Quota of the write buffer manager; 0 is none.";
    text.add("sluicedb_write_buffer_quota_bytes", "gauge", help, &labels, stats.quota.bytes());
    let help = "Bytes that count against the quota.";
    text.add("sluicedb_write_buffer_used_bytes", "gauge", help, &labels, stats.usage.used);
    let parts = [
        ("mutable", stats.usage.mutable),
        ("sealed", stats.usage.sealed),
        ("flushing", stats.usage.flushing),
        ("pinned", stats.usage.pinned),
    ];
    for (state, bytes) in parts {
        let labels = [labels[0], ("state", state)];
        text.add("sluicedb_write_buffer_bytes", "gauge", "Memtable memory by state.", &labels, bytes);
    }
    let now = stats.pressure.state().to_string();
    for state in ["normal", "delayed", "stopped"] {
        let labels = [labels[0], ("state", state)];
        let help = "1 for the state that the manager is in.";
        text.add("sluicedb_write_pressure_state", "gauge", help, &labels, u64::from(now == state));
    }
    let help = "Step of the delay, 1 to 99; 0 when the manager delays nobody.";
    text.add("sluicedb_write_pressure_step", "gauge", help, &labels, stats.pressure.step());
    let times = [("delayed", stats.times.delayed_micros), ("stopped", stats.times.stopped_micros)];
    for (state, micros) in times {
        let labels = [labels[0], ("state", state)];
        let help = "Time that the manager spent delaying, and stopping.";
        text.add("sluicedb_write_pressure_seconds_total", "counter", help, &labels, seconds(micros));
    }
}

/// Microseconds as seconds, exact to the microsecond.
fn seconds(micros: u64) -> String {
    let (whole, rest) = (micros / 1_000_000, micros % 1_000_000);
    if rest == 0 { whole.to_string() } else { format!("{whole}.{rest:06}").trim_end_matches('0').to_owned() }
}

/// Metrics in the order in which they were first named, each with all its samples together, as the format demands.
#[derive(Debug, Default)]
struct Exposition {
    metrics: Vec<Metric>,
}

#[derive(Debug)]
struct Metric {
    name: String,
    kind: &'static str,
    help: String,
    samples: String,
}

impl Exposition {
    fn metric(&mut self, name: &str, kind: &'static str, help: &str) -> &mut Metric {
        let at = self.metrics.iter().position(|metric| metric.name == name).unwrap_or_else(|| {
            let help = help.trim().to_owned();
            self.metrics.push(Metric { name: name.to_owned(), kind, help, samples: String::new() });
            self.metrics.len() - 1
        });
        &mut self.metrics[at]
    }

    fn add(
        &mut self,
        name: &str,
        kind: &'static str,
        help: &str,
        labels: &[(&str, &str)],
        value: impl Display,
    ) {
        self.metric(name, kind, help).sample(name, labels, value);
    }

    fn add_summary(&mut self, name: &str, help: &str, db: &str, summary: &HistogramSummary) {
        let metric = self.metric(name, "summary", help);
        for (quantile, micros) in
            [("0.5", summary.p50), ("0.95", summary.p95), ("0.99", summary.p99), ("1", summary.max)]
        {
            metric.sample(name, &[("db", db), ("quantile", quantile)], seconds(micros));
        }
        metric.sample(&format!("{name}_sum"), &[("db", db)], seconds(summary.sum));
        metric.sample(&format!("{name}_count"), &[("db", db)], summary.count);
    }

    fn finish(self) -> String {
        let mut text = String::new();
        for Metric { name, kind, help, samples } in self.metrics {
            let help = help.replace('\\', "\\\\").replace('\n', "\\n");
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{samples}");
        }
        text
    }
}

impl Metric {
    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        let _ = writeln!(self.samples, "{name}{{{}}} {value}", labels.join(","));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A metric's samples stand together under one HELP and one TYPE; labels are escaped; times are in seconds.
    #[test]
    fn the_format_is_kept() {
        let mut text = Exposition::default();
        text.add("a_total", "counter", " What a is.", &[("db", "x\\\"y\nz")], 1);
        text.add("b", "gauge", "b", &[("db", "x")], 2);
        text.add("a_total", "counter", "ignored", &[("db", "second")], seconds(1_500_000));
        let summary = HistogramSummary { count: 3, sum: 7, max: 4, p50: 1, p95: 4, p99: 4 };
        text.add_summary("c_seconds", "c", "x", &summary);
        assert_eq!(
            text.finish(),
            "# HELP a_total What a is.\n# TYPE a_total counter\na_total{db=\"x\\\\\\\"y\\nz\"} 1\n\
             a_total{db=\"second\"} 1.5\n# HELP b b\n# TYPE b gauge\nb{db=\"x\"} 2\n\
             # HELP c_seconds c\n# TYPE c_seconds summary\nc_seconds{db=\"x\",quantile=\"0.5\"} 0.000001\n\
             c_seconds{db=\"x\",quantile=\"0.95\"} 0.000004\nc_seconds{db=\"x\",quantile=\"0.99\"} 0.000004\n\
             c_seconds{db=\"x\",quantile=\"1\"} 0.000004\nc_seconds_sum{db=\"x\"} 0.000007\nc_seconds_count{db=\"x\"} 3\n"
        );
    }
}
