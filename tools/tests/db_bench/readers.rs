//! The extractions of the scripts that read db_bench, redone on our output: `db-bench` section 3.10.
//!
//! Each reader takes the last match, as the scripts do, and fails like them: on a field that is missing or no number.

use super::support::{Place, after, field, last, leading_number, number, summary};

/// One log of one run, both streams in one file, with everything that the readers look for.
fn log() -> String {
    Place::new().bench_log(
        "--benchmarks=fillrandom,flush,overwrite,waitforcompaction,stats,levelstats --num=20000 --value_size=400 --db=D/r \
         --histogram --statistics --stats_interval=4000 --stats_per_interval=1 --compression_type=none \
         --write_buffer_size=2097152 --seed=1",
    )
}

/// RocksDB's `tools/benchmark.sh`: one row of its report.
struct BenchmarkSh {
    ops_sec: f64,
    mb_sec: f64,
    size: (f64, String),
    compaction_seconds: (f64, f64),
    blob_gigabytes: (f64, f64),
    ingested: f64,
    compaction: (f64, f64),
    flushed: f64,
    stall_percent: f64,
    uptime: f64,
    blob: (f64, f64),
    micros_per_op: f64,
    percentiles: [f64; 4],
    max: f64,
    date: String,
}

impl BenchmarkSh {
    fn read(log: &str, benchmark: &str) -> Self {
        let line = summary(log, benchmark);
        let v2 = line.split_whitespace().count() >= 10 && field(line, 8) == "seconds";
        assert!(v2, "the script takes the line for one of 2022: {line}");
        let sum = last(log, " Sum");
        let writes = last(log, "Cumulative writes");
        let ingest = writes.split_whitespace().skip_while(|word| *word != "ingest:").nth(1);
        let compaction = last(log, "Cumulative compaction");
        let blob = last(log, "Blob file count:");
        let percentiles = last(log, "Percentiles:");
        let date = last(log, "Date:");
        Self {
            micros_per_op: number(line, 3),
            ops_sec: number(line, 5),
            mb_sec: number(line, 11),
            size: (number(sum, 3), field(sum, 4).to_owned()),
            compaction_seconds: (number(sum, 15), number(sum, 16)),
            blob_gigabytes: (number(sum, 21), number(sum, 22)),
            ingested: ingest.and_then(leading_number).expect("a number behind ingest:"),
            compaction: (number(compaction, 3), number(compaction, 6)),
            flushed: number(last(log, "Flush(GB)"), 3),
            stall_percent: number(last(log, "Cumulative stall"), 5),
            uptime: number(last(log, "Uptime(secs"), 2),
            blob: (number(blob, 7), leading_number(field(blob, 8)).unwrap_or(0.0)),
            percentiles: [3, 7, 9, 11].map(|at| number(percentiles, at)),
            max: number(last(log, "Min: "), 6),
            date: format!("{}-{}-{}T{}", field(date, 6), field(date, 3), field(date, 4), field(date, 5)),
        }
    }
}

/// benchmark.sh makes a full row of our log, and its figures are those of the run.
#[test]
fn benchmark_sh_reads_our_log() {
    let log = log();
    let row = BenchmarkSh::read(&log, "overwrite");
    assert!(row.ops_sec > 0.0 && row.mb_sec > 0.0 && row.micros_per_op > 0.0);
    assert!(["KB", "MB", "GB", "TB"].contains(&row.size.1.as_str()) && row.size.0 > 0.0);
    assert!(row.compaction_seconds.0 > 0.0 && row.compaction_seconds.1 >= 0.0);
    assert_eq!((row.blob_gigabytes, row.blob), ((0.0, 0.0), (0.0, 0.0)), "there are no blob files");
    // 20,000 writes of 416 bytes in the last benchmark and as many before it, in one database.
    assert!((row.ingested - 0.0155).abs() < 0.006, "{} GB", row.ingested);
    assert!(row.flushed > 0.0 && row.flushed <= 0.03, "{} GB", row.flushed);
    assert!(row.compaction.0 >= row.flushed - 0.01 && row.compaction.1 > 0.0, "{:?}", row.compaction);
    assert!(row.stall_percent >= 0.0 && row.uptime > 0.0);
    assert!(row.percentiles.is_sorted() && row.percentiles[3] <= row.max, "{:?}", row.percentiles);
    assert_eq!(row.date.split('-').count(), 3, "{}", row.date);
}

/// regression_test.sh takes `N ops/sec` and five percentiles.
#[test]
fn regression_test_sh_reads_our_log() {
    let log = log();
    let line = summary(&log, "fillrandom");
    let (before, _) = line.split_once(" ops/sec").expect("ops/sec");
    assert!(
        before.starts_with("fillrandom ")
            && before.rsplit(' ').next().is_some_and(|ops| ops.parse::<u64>().is_ok())
    );
    let percentiles = last(&log, "Percentiles: P50: ");
    for name in ["P50: ", " P75: ", " P99: ", " P99.9: ", " P99.99: "] {
        after(percentiles, name);
    }
}

/// RocksDB's advisor: the token before `ops/sec`, the path between brackets, the tickers.
#[test]
fn the_advisor_reads_our_log() {
    let log = log();
    let line = summary(&log, "overwrite");
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "ops/sec").expect("ops/sec");
    assert!(words[at - 1].parse::<u64>().is_ok(), "{line}");
    let path = last(&log, "DB path: [");
    let path = path.split_once('[').and_then(|(_, rest)| rest.strip_suffix(']')).expect("brackets");
    assert!(path.ends_with("/r"), "{path}");
    let written = last(&log, "rocksdb.number.keys.written COUNT : ");
    assert_eq!(number(written, 4), 40_000.0);
}

/// rocksdb-statistics: five lines at every interval, with both parts of the stats.
#[test]
fn rocksdb_statistics_reads_our_log() {
    let log = log();
    let intervals = log.lines().filter(|line| line.contains("  ... thread 0: (")).count();
    // Ten intervals of 4,000 operations, and one print by `stats` itself.
    assert_eq!(intervals, 10, "{log}");
    let count = |start: &str, end: &str| {
        let is_one = |line: &&str| line.starts_with(start) && line.contains(end);
        log.lines().filter(is_one).count()
    };
    assert_eq!(count("Uptime(secs)", " total, "), 2 * (intervals + 1), "in both parts");
    for (start, end) in [
        ("Interval stall: ", " percent"),
        ("Cumulative stall: ", " percent"),
        ("Interval writes: ", " MB/s"),
        ("Cumulative writes: ", " MB/s"),
        ("Interval compaction: ", " MB/s write"),
        ("Cumulative compaction: ", " MB/s write"),
    ] {
        assert_eq!(count(start, end), intervals + 1, "{start}");
    }
}

/// `^NAME\s*:\s+FLOAT micros/op INT ops/sec FLOAT seconds INT operations;(\s+FLOAT MB/s)?(\s+\(.*\))?`.
fn matches_the_pattern(line: &str) -> bool {
    let Some((_, rest)) = line.split_once(':') else { return false };
    let Some((figures, extra)) = rest.split_once(';') else { return false };
    let words: Vec<&str> = figures.split_whitespace().collect();
    let is_int = |text: &str| text.parse::<u64>().is_ok();
    let is_float = |text: &str| text.contains('.') && text.parse::<f64>().is_ok();
    let [micros, "micros/op", ops, "ops/sec", seconds, "seconds", operations, "operations"] = words[..]
    else {
        return false;
    };
    let extra = extra
        .split_once(" MB/s")
        .map_or(extra, |(rate, rest)| if is_float(rate.trim()) { rest } else { "?" });
    let message = extra.trim();
    let message_fits = message.is_empty() || (message.starts_with('(') && message.ends_with(')'));
    is_float(micros) && is_int(ops) && is_float(seconds) && is_int(operations) && message_fits
}

/// The pattern that ad-hoc scripts agree on takes every summary line of every benchmark.
#[test]
fn ad_hoc_patterns_read_our_lines() {
    let place = Place::new();
    let ended = place
        .bench(
            "--num=500 --db=D/p --seed=1 --benchmarks=fillseq,fillbatch,fillsync,fill100K,filluniquerandom,overwrite,\
             readrandom,readmissing,readseq,readreverse,seekrandom,multireadrandom,readwhilewriting,\
             readrandomwriterandom,updaterandom,deleteseq,deleterandom,compact",
        )
        .passed();
    let lines: Vec<&str> = ended.out.lines().filter(|line| line.contains(" micros/op ")).collect();
    assert_eq!(lines.len(), 18, "{}", ended.out);
    for line in lines {
        assert!(matches_the_pattern(line), "{line}");
    }
    let entries = last(&ended.out, "Entries:");
    assert_eq!(number(entries, 2), 500.0);
}

/// A database that cannot be opened says `open error`, the mark that scripts look for.
#[test]
fn failures_have_their_marks() {
    let place = Place::new();
    std::fs::write(place.path("file"), "x").expect("a file");
    let ended = place.bench("--use_existing_db=true --benchmarks=readrandom --num=10 --db=D/file").exits(1);
    let (before, _) = ended.err.split_once("ERROR: open error: ").unwrap_or_else(|| panic!("{}", ended.err));
    assert!(before.ends_with("\n\n") || before == "\n", "an empty line before it: {}", ended.err);
}
