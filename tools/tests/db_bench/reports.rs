//! The files: the report's rows, the data file, the line about steadiness.

use serde_json::Value;

use super::support::{Place, after, number, summary};

/// The rows of a report: column 1 and column 2. Every byte is checked on the way.
fn rows(bytes: &str) -> Vec<(u64, u64)> {
    let body = bytes.strip_prefix("secs_elapsed,interval_qps\n").expect("the header");
    assert!(!bytes.contains('\r') && bytes.ends_with('\n'), "{bytes:?}");
    body.lines()
        .map(|row| {
            let (left, right) = row.split_once(',').unwrap_or_else(|| panic!("{row:?}"));
            let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            assert!(digits(left) && digits(right), "{row:?}");
            (left.parse().expect("a number"), right.parse().expect("a number"))
        })
        .collect()
}

/// `exact`: the number of rows is that of whole seconds, give or take one; a machine that does something else for
/// seconds on end may skip some.
fn report_files(num: u64, limit: &str, exact: bool) {
    let place = Place::new();
    let ended = place
        .bench(&format!(
            "--benchmarks=fillrandom,overwrite --num={num} --value_size=400 --db=D/db4 --report_interval_seconds=1 \
             --report_file=D/r.csv --report_append=D/a.csv --compression_type=none {limit}"
        ))
        .passed();
    let rows = rows(&place.text("r.csv"));
    assert!(rows.is_sorted_by(|a, b| a.0 < b.0), "{rows:?}");
    assert!(rows.iter().map(|row| row.1).sum::<u64>() <= num, "{rows:?}");
    let seconds = number(summary(&ended.out, "overwrite"), 7).floor() as usize;
    assert!(rows.len() <= seconds + 1, "{} rows in {seconds} s", rows.len());
    if exact {
        assert_eq!(rows[0].0, 1, "{rows:?}");
        assert!(rows.len() + 1 >= seconds, "{} rows in {seconds} s", rows.len());
    }
    let appended = place.text("a.csv");
    assert!(appended.starts_with("benchmark,secs_elapsed,interval_qps\n"), "{appended}");
    for name in ["\nfillrandom,", "\noverwrite,"] {
        assert!(appended.contains(name), "{appended}");
    }
}

/// `db-bench DB4`: the bytes of the report; the second benchmark alone is in it, and both are in the appended file.
///
/// The rate limit makes each benchmark last some two seconds.
#[test]
fn db4_csv() {
    report_files(2500, "--benchmark_write_rate_limit=500000", false);
}

/// `db-bench DB4` with its full counts.
#[test]
#[ignore = "writes 1.2 GB; run with --release"]
fn db4_csv_in_full() {
    report_files(1_500_000, "", true);
}

/// One row a line that a benchmark's name begins.
fn objects(text: &str) -> Vec<Value> {
    let object = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text.lines().map(object).collect()
}

fn data_file(num: u64, limit: &str) {
    let place = Place::new();
    let line = format!(
        "--benchmarks=fillrandom --num={num} --value_size=400 --db=D/db20 --report_interval_seconds=1 \
         --report_file=D/r.csv --report_append=D/a.csv --compression_type=none {limit} --json="
    );
    let ended = place.bench(&format!("{line}D/r.jsonl")).passed();
    let rows = rows(&place.text("r.csv"));
    let objects = objects(&place.text("r.jsonl"));
    assert!(objects.iter().all(|object| object["t"].is_string()));
    let of_type = |t: &str| objects.iter().filter(|object| object["t"] == t).collect::<Vec<_>>();
    assert_eq!((&objects[0]["t"], &objects[1]["t"]), (&"system".into(), &"config".into()));
    assert_eq!(objects.last().expect("objects")["t"], "fin");
    assert_eq!((of_type("system").len(), of_type("config").len(), of_type("fin").len()), (1, 1, 1));
    for name in ["version", "git", "cpu", "cores", "ram", "kernel", "disk", "date"] {
        assert!(!objects[0][name].is_null(), "system has no {name}: {}", objects[0]);
    }
    assert_eq!(objects[1]["flags"]["num"], num);
    let summaries = of_type("summary");
    assert_eq!((summaries.len(), &summaries[0]["ops"]), (1, &num.into()));
    let printed = number(summary(&ended.out, "fillrandom"), 5) as u64;
    assert_eq!(summaries[0]["ops_per_sec"], printed);
    let samples = of_type("sample");
    let sum: u64 = samples.iter().map(|sample| sample["ops"].as_u64().expect("ops")).sum();
    assert_eq!(sum, num);
    let whole: Vec<u64> = samples
        .iter()
        .filter(|sample| sample["part"] != true)
        .map(|sample| sample["ops"].as_u64().expect("ops"))
        .collect();
    assert_eq!(whole, rows.iter().map(|row| row.1).collect::<Vec<_>>());
    events_agree(&of_type("event"), summaries[0]);
    steadiness(&ended.err, &rows);

    let on_stdout = place.bench(&format!("{line}-")).passed();
    assert_eq!(on_stdout.out.lines().count(), 1, "{}", on_stdout.out);
    assert_eq!(serde_json::from_str::<Value>(&on_stdout.out).expect("an object")["t"], "summary");
    assert_eq!(number(summary(&on_stdout.err, "fillrandom"), 9) as u64, num);
}

/// Events have a time and a kind; every cause of stalls is in the summary.
fn events_agree(events: &[&Value], summary: &Value) {
    for event in events {
        assert!(event["s"].is_number() && event["event"].is_string(), "{event}");
    }
    for cause in
        ["memtable-limit", "l0-file-count-limit", "pending-compaction-bytes", "write-buffer-manager-limit"]
    {
        for name in ["delays", "stops"] {
            let entry = &summary["stall"][format!("{cause}-{name}")];
            assert!(entry["count"].is_u64() && entry["us"].is_u64(), "{cause}-{name}: {}", summary["stall"]);
        }
    }
}

/// `db-bench DB21`, first half: mean and deviation of the line are those of the report's rows.
fn steadiness(err: &str, rows: &[(u64, u64)]) {
    let lines: Vec<&str> = err.lines().filter(|line| line.starts_with("interval ops/sec: mean ")).collect();
    assert_eq!(lines.len(), 1, "{err}");
    let n = rows.len();
    assert!(lines[0].ends_with(&format!(" ({n} intervals of 1 s)")), "{} and {n} rows", lines[0]);
    if n < 2 {
        return assert!(lines[0].contains("  std -"), "{}", lines[0]);
    }
    let mean = rows.iter().map(|row| row.1).sum::<u64>() as f64 / n as f64;
    let squares: f64 = rows.iter().map(|row| (row.1 as f64 - mean).powi(2)).sum();
    let deviation = (squares / (n - 1) as f64).sqrt();
    assert!((after(lines[0], "mean ") - mean).abs() <= 0.501, "{} and {mean}", lines[0]);
    assert!((after(lines[0], "std ") - deviation).abs() <= 0.501, "{} and {deviation}", lines[0]);
}

/// `db-bench DB20`, `db-bench DB21` (first half): the data file line by line, and the line about steadiness.
#[test]
fn db20_json_report() {
    data_file(3500, "--benchmark_write_rate_limit=500000");
}

/// `db-bench DB20`, `db-bench DB21` (first half) with their full counts.
#[test]
#[ignore = "writes 1.2 GB; run with --release"]
fn db20_json_report_in_full() {
    data_file(1_500_000, "");
}

/// State changes are in the data file: flushes and compactions with their column family, delays and stops with their ends.
#[test]
fn events_are_in_the_data_file() {
    let place = Place::new();
    let line = "--benchmarks=fillrandom,waitforcompaction --num=20000 --value_size=1000 --db=D/e \
        --write_buffer_size=1048576 --db_write_buffer_size=2097152 --allow_wbm_stalls=true \
        --delayed_write_rate=268435456 --compression_type=none --level0_file_num_compaction_trigger=2 \
        --json=D/e.jsonl";
    place.bench(line).passed();
    let objects = objects(&place.text("e.jsonl"));
    let count = |name: &str| objects.iter().filter(|object| object["event"] == name).count();
    let first = |name: &str| objects.iter().find(|object| object["event"] == name).expect("such an event");
    // 20 MB through memtables of at most 1 MiB; whatever level a compaction fills, two L0 files begin one.
    assert!(count("flush") >= 10 && count("compaction") >= 1, "{} flushes", count("flush"));
    assert_eq!((&first("flush")["cf"], &first("flush")["bench"]), (&"default".into(), &"fillrandom".into()));
    assert!(first("flush")["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{}", first("flush"));
    assert_eq!(first("compaction")["cf"], "default");
    assert!(count("delay-begin") >= count("delay-end") && count("stop-begin") >= count("stop-end"));
    assert_eq!((&objects[0]["t"], &objects.last().expect("objects")["t"]), (&"system".into(), &"fin".into()));
}
