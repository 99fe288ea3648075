//! Statistics as a struct and as Prometheus text: they agree, and several databases make one text.

use std::collections::BTreeSet;
use std::sync::Arc;

use sluicedb::{Db, DbOptions, ManualClock, WbmOptions, WriteBufferManager, prometheus_text};
use sluicedb_tests::sim_fs::SimFs;

fn open(name: &str, fs: &SimFs, manager: &Arc<WriteBufferManager>) -> Db {
    let mut options = DbOptions::default();
    options.file_system = Arc::new(fs.clone());
    options.wal_segment_bytes = 64 << 10;
    options.write_buffer_manager = Some(Arc::clone(manager));
    Db::open(name, options).expect("a new database")
}

/// The value of the sample that begins with `metric` and has these labels.
fn value(text: &str, metric: &str, labels: &str) -> f64 {
    let start = format!("{metric}{{{labels}}} ");
    let line = text.lines().find(|line| line.starts_with(&start));
    line.unwrap_or_else(|| panic!("no {start}in\n{text}"))[start.len()..].parse().expect("a number")
}

/// Two databases on one manager: each has its counters, the manager is there once, every metric is declared once and its
/// samples stand behind its declaration.
#[test]
fn several_databases_make_one_text() {
    let fs = SimFs::new(1);
    let manager =
        WriteBufferManager::new(WbmOptions::new(8 << 20), Arc::new(ManualClock::new(1))).expect("a manager");
    let (first, second) = (open("/first", &fs, &manager), open("/second", &fs, &manager));
    for key in ["a", "b", "c"] {
        first.put(key, "value").expect("a write");
    }
    first.flush().expect("a flush");
    assert_eq!(first.get("a").expect("a read").as_deref(), Some(&b"value"[..]));

    let text = prometheus_text([&first, &second]);
    let statistics = first.statistics();
    assert_eq!(value(&text, "sluicedb_entries_written_total", "db=\"/first\""), 3.0);
    assert_eq!(value(&text, "sluicedb_entries_written_total", "db=\"/second\""), 0.0);
    assert_eq!(value(&text, "sluicedb_gets_found_total", "db=\"/first\""), 1.0);
    let flushed = value(&text, "sluicedb_flush_bytes_written_total", "db=\"/first\"");
    assert!(flushed > 0.0 && flushed == statistics.flush_bytes_written as f64);
    assert_eq!(value(&text, "sluicedb_level_files", "db=\"/first\",cf=\"default\",level=\"0\""), 1.0);
    assert_eq!(value(&text, "sluicedb_flush_duration_seconds_count", "db=\"/first\""), 1.0);
    assert_eq!(statistics.flush_times.count, 1);
    let (stopped, labels) = (
        statistics.stalls.write_buffer_manager.stops,
        "cause=\"write-buffer-manager-limit\",state=\"stopped\"",
    );
    let shown = value(&text, "sluicedb_write_stalls_by_cause_total", &format!("db=\"/first\",{labels}"));
    assert_eq!(shown, stopped as f64);

    let quotas: Vec<&str> =
        text.lines().filter(|line| line.starts_with("sluicedb_write_buffer_quota_bytes{")).collect();
    assert!(quotas.len() == 1 && quotas[0].ends_with(" 8388608"), "{quotas:?}");
    let (mut declared, mut current) = (BTreeSet::new(), "");
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            current = rest.split(' ').next().expect("a name");
            assert!(declared.insert(current), "{current} is declared twice");
        } else if !line.starts_with('#') {
            let name = line.split('{').next().expect("a name");
            let plain = name.strip_suffix("_sum").or(name.strip_suffix("_count")).unwrap_or(name);
            assert!(name == current || plain == current, "{line} stands behind {current}");
            assert!(line.rsplit(' ').next().is_some_and(|value| value.parse::<f64>().is_ok()), "{line}");
        }
    }
    assert!(declared.len() > 30, "{declared:?}");
    assert!(!first.prometheus_text().contains("/second"));
    first.close().expect("it closes");
    second.close().expect("it closes");
}
