//! db_bench end to end: real databases in temporary directories, small counts, output read as scripts read it.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::run;

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

struct Ended {
    code: u8,
    out: String,
    err: String,
}

/// Runs a command line; `D` in it stands for `dir`.
fn bench(dir: &Path, words: &str) -> Ended {
    let place = dir.to_str().unwrap();
    let args: Vec<String> = words
        .split(' ')
        .filter(|word| !word.is_empty())
        .map(|word| word.replace("D/", &format!("{place}/")))
        .collect();
    let (out, err) = (Captured::default(), Captured::default());
    let code = run(&args, out.clone(), err.clone(), false);
    let text = |captured: Captured| String::from_utf8(captured.0.lock().unwrap().clone()).unwrap();
    Ended { code, out: text(out), err: text(err) }
}

impl Ended {
    fn passed(self) -> Self {
        assert_eq!(self.code, 0, "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    /// The summary line of a benchmark.
    fn summary(&self, name: &str) -> &str {
        let found = self.out.lines().find(|line| line.starts_with(name) && line.contains(" micros/op "));
        found.unwrap_or_else(|| panic!("no summary of {name} in:\n{}", self.out))
    }

    /// Field `number` (from 1) of a summary line, as awk counts.
    fn field(&self, name: &str, number: usize) -> f64 {
        self.summary(name).split_whitespace().nth(number - 1).unwrap().parse().unwrap()
    }

    /// F and N of `(F of N found)`.
    fn found(&self, name: &str) -> (u64, u64) {
        let line = self.summary(name);
        let (_, tail) = line.split_once('(').unwrap_or_else(|| panic!("{line}"));
        let words: Vec<&str> = tail.split_whitespace().collect();
        assert_eq!((words[1], words[3]), ("of", "found)"), "{line}");
        (words[0].parse().unwrap(), words[2].parse().unwrap())
    }
}

/// The reference command line, scaled: no complaint, the figures, the levels, the CSV (`db-bench DB1`).
#[test]
fn the_reference_command_line_runs() {
    let dir = tempfile::tempdir().unwrap();
    let ended = bench(
        dir.path(),
        "--compression_type=None -db=D/db1/ -num=20000 -value_size=1000 -key_size=16 \
         --delayed_write_rate=536870912 -report_interval_seconds=1 -max_write_buffer_number=4 \
         -num_column_families=6 -histogram -max_background_compactions=8 -cache_size=8388608 \
         -max_background_flushes=1 -bloom_bits=10 -benchmark_read_rate_limit=0 -benchmark_write_rate_limit=0 \
         -report_file=D/fillrandom.csv --disable_wal=true --benchmarks=fillrandom,levelstats \
         --db_write_buffer_size=1073741824 --allow_wbm_stalls=true --use_spdb_writes=false \
         --initiate_wbm_flushes=false -write_buffer_size=134217728",
    )
    .passed();
    for start in ["ERROR", "note:", "warning:"] {
        assert!(!ended.err.lines().any(|line| line.starts_with(start)), "{}", ended.err);
    }
    assert!(ended.summary("fillrandom").contains(" 20000 operations;"));
    let (_, after) = ended.out.split_once("Microseconds per write:\n").unwrap();
    assert!(after.contains("Level Files Size(MB)\n"));
    assert!(ended.out.contains(&format!("DB path: [{}/db1/]\n", dir.path().display())));
    let csv = std::fs::read_to_string(dir.path().join("fillrandom.csv")).unwrap();
    assert!(csv.starts_with("secs_elapsed,interval_qps\n"));
}

/// `db-bench DB2`: 24 rows, 23 of them `works`, and nothing is touched.
#[test]
fn the_reference_command_line_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let ended = bench(
        dir.path(),
        "--explain_flags --compression_type=None -db=D/db1/ -num=2000000 -value_size=1000 -key_size=16 \
         --delayed_write_rate=536870912 -report_interval_seconds=1 -max_write_buffer_number=4 \
         -num_column_families=6 -histogram -max_background_compactions=8 -cache_size=8388608 \
         -max_background_flushes=1 -bloom_bits=10 -benchmark_read_rate_limit=0 -benchmark_write_rate_limit=0 \
         -report_file=fillrandom.csv --disable_wal=true --benchmarks=fillrandom,levelstats \
         --db_write_buffer_size=1073741824 --allow_wbm_stalls=true --use_spdb_writes=false \
         --initiate_wbm_flushes=false -write_buffer_size=134217728",
    )
    .passed();
    let rows: Vec<Vec<&str>> = ended.out.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows.len(), 24);
    assert!(rows.iter().all(|row| row.len() >= 4));
    let known: Vec<&str> = rows.iter().filter(|row| row[2] != "works").map(|row| row[0]).collect();
    assert_eq!(known, ["use_spdb_writes"]);
    assert_eq!((rows[0][0], rows[23][0]), ("compression_type", "write_buffer_size"));
    assert!(!dir.path().join("db1").exists());
}

/// `db-bench DB3`: the fields that scripts take out of a summary line agree with each other.
#[test]
fn summary_fields_agree() {
    let dir = tempfile::tempdir().unwrap();
    let ended = bench(
        dir.path(),
        "--benchmarks=fillrandom --num=30000 --value_size=1000 --db=D/db3 --compression_type=none",
    )
    .passed();
    let fields: Vec<&str> = ended.summary("fillrandom").split_whitespace().collect();
    assert!(fields.len() >= 10 && fields[7] == "seconds");
    let [micros, per_sec, seconds, ops, rate] =
        [3, 5, 7, 9, 11].map(|number| ended.field("fillrandom", number));
    assert_eq!(ops, 30_000.0);
    assert!((per_sec / (ops / seconds) - 1.0).abs() < 0.02, "{fields:?}");
    assert!((micros * per_sec / 1e6 - 1.0).abs() < 0.05, "{fields:?}");
    assert!((rate / (30_000.0 * 1016.0 / 1_048_576.0 / seconds) - 1.0).abs() < 0.02, "{fields:?}");
}

/// `db-bench DB5`, `DB9`: nothing is printed on stdout and nothing touched when the command line is wrong.
#[test]
fn nothing_is_touched_when_the_command_line_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    for words in
        ["--benchmarks=fillrandom --zzzz=2 --db=D/db5", "--benchmarks=fillrandom,fillrandm --db=D/db5"]
    {
        let ended = bench(dir.path(), words);
        assert_eq!((ended.code, ended.out.as_str()), (1, ""), "{words}");
        assert!(!dir.path().join("db5").exists(), "{words}");
    }
    assert_eq!(bench(dir.path(), "--help").code, 1);
    assert_eq!(bench(dir.path(), "--version").code, 0);
}

/// `db-bench DB10`: which line goes to which stream.
#[test]
fn streams_are_as_documented() {
    let dir = tempfile::tempdir().unwrap();
    let ended = bench(dir.path(), "--benchmarks=fillrandom --num=1000 --db=D/db10").passed();
    let count = |text: &str, start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!((count(&ended.err, "SluiceDB:    version "), count(&ended.out, "SluiceDB:")), (1, 0));
    assert_eq!((count(&ended.err, "Date: "), count(&ended.out, "Date: ")), (1, 0));
    assert_eq!(count(&ended.out, "Set seed to "), 1);
    assert!(ended.out.contains("Keys:       16 bytes each (+ 0 bytes user-defined timestamp)\n"));
    assert!(ended.out.contains("Entries:    1000\n"));
    assert!(ended.out.contains("\n------------------------------------------------\n"));
    assert!(!ended.out.contains('\r') && !ended.err.contains('\r'));
    assert_eq!(count(&ended.err, "BEFORE Benchmark (fillrandom): "), 1);
    assert_eq!(count(&ended.err, "AFTER Benchmark (fillrandom): "), 1);
}

/// `db-bench DB11`, `DB12`: hit rates of random fills, sums over threads, kept and fresh databases.
#[test]
fn reads_find_what_fills_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let both =
        bench(dir.path(), "--benchmarks=fillrandom,readrandom --num=20000 --db=D/db11 --seed=1").passed();
    let (found, of) = both.found("readrandom");
    assert_eq!(of, 20_000);
    assert!((0.617..=0.647).contains(&(found as f64 / of as f64)), "{found} of {of}");
    assert!(both.out.contains(" found)\n\n"));

    let kept = "--use_existing_db=true --num=20000 --db=D/db11 --benchmarks=";
    let threads = bench(dir.path(), &format!("{kept}readrandom --threads=4 --reads=5000")).passed();
    assert!(threads.summary("readrandom").contains(" 20000 operations;"));
    let (found, of) = threads.found("readrandom");
    assert!(of == 20_000 && (0.61..=0.655).contains(&(found as f64 / of as f64)), "{found} of {of}");
    let skipped = bench(dir.path(), &format!("{kept}fillrandom,overwrite,readmissing")).passed();
    assert!(skipped.out.contains("fillrandom   : skipped (--use_existing_db is true)\n"));
    assert!(skipped.summary("overwrite").contains("20000 operations;"));
    assert_eq!(skipped.found("readmissing"), (0, 20_000));

    let fresh = bench(dir.path(), "--num=20000 --db=D/db11 --benchmarks=readrandom").passed();
    assert_eq!(fresh.found("readrandom"), (0, 20_000));
}

/// `db-bench DB13`: what is not ours is left alone.
#[test]
fn foreign_directories_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db13");
    std::fs::create_dir(&db).unwrap();
    std::fs::write(db.join("keep"), "x").unwrap();
    let line = "--benchmarks=fillrandom --num=1000 --db=D/db13";
    let refused = bench(dir.path(), line);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("--use_existing_db"), "{}", refused.err);
    assert_eq!(std::fs::read_to_string(db.join("keep")).unwrap(), "x");
    assert_eq!(std::fs::read_dir(&db).unwrap().count(), 1);

    std::fs::remove_file(db.join("keep")).unwrap();
    std::fs::create_dir(db.join("lost+found")).unwrap();
    bench(dir.path(), line).passed();
    bench(dir.path(), line).passed();
    assert!(db.join("lost+found").exists());
}

/// `db-bench DB14`: several databases, each with the whole key space.
#[test]
fn several_databases_share_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let ended = bench(
        dir.path(),
        "--benchmarks=fillrandom,readrandom,stats,levelstats --num_multi_db=3 --num=10000 --value_size=100 --db=D/db14 \
         --disable_wal=true --seed=1",
    )
    .passed();
    assert!(ended.summary("fillrandom").contains(" 30000 operations;"));
    let (found, of) = ended.found("readrandom");
    assert!(of == 10_000 && (0.61..=0.66).contains(&(found as f64 / of as f64)), "{found} of {of}");
    assert_eq!(ended.out.matches("\n==== DB: ").count(), 6);
    for number in ["0", "1", "2"] {
        assert!(dir.path().join("db14").join(number).join("CURRENT").exists());
    }
}

/// `db-bench DB15`: one table per column family, in the documented shape.
#[test]
fn level_tables_have_their_shape() {
    let dir = tempfile::tempdir().unwrap();
    let ended = bench(
        dir.path(),
        "--benchmarks=fillrandom,flush,levelstats --num=10000 --num_column_families=6 --num_levels=7 --db=D/db15",
    )
    .passed();
    let (_, tables) = ended.out.split_once("flush memtable\n").unwrap();
    let lines: Vec<&str> = tables.lines().collect();
    assert_eq!(lines.len(), 6 * 11, "{tables}");
    for (number, table) in lines.chunks(11).enumerate() {
        let heading = if number == 0 { String::new() } else { format!("[column_family_name_{number:06}]") };
        assert_eq!(table[0], heading);
        assert_eq!((table[1], table[2], table[10]), ("Level Files Size(MB)", "--------------------", ""));
        let mut files = 0;
        for (level, row) in table[3..10].iter().enumerate() {
            assert_eq!(row.len(), 21, "{row}");
            assert!(row.starts_with(&format!("  {level} ")), "{row}");
            files += row[4..12].trim().parse::<u64>().unwrap();
        }
        assert!(files >= 1, "{table:?}");
    }
}

/// Every other benchmark of the catalogue runs and counts what it should.
#[test]
fn all_benchmarks_run() {
    let dir = tempfile::tempdir().unwrap();
    let ended = bench(
        dir.path(),
        "--num=2000 --db=D/all --histogram --threads=2 --seek_nexts=3 --benchmarks=fillseq,fillbatch,fillsync,fill100K,\
         filluniquerandom,readseq,readreverse,readtocache,newiterator,seekrandom,multireadrandom,readwhilewriting,\
         seekrandomwhilewriting,multireadwhilewriting,readrandomwriterandom,\
         updaterandom,overwrite,deleteseq,deleterandom,compact,compactall,flush,waitforcompaction,stats,sstables,\
         memstats,levelstats",
    )
    .passed();
    let operations = |name: &str| ended.field(name, 9) as u64;
    assert_eq!(operations("fillseq"), 4000);
    assert_eq!(operations("fillbatch"), 4000);
    assert_eq!(operations("fillsync"), 4);
    assert!(ended.summary("fillsync").ends_with("(4 ops)"));
    assert_eq!(operations("filluniquerandom"), 2000);
    assert_eq!(operations("readseq"), 4000);
    assert_eq!(operations("readreverse"), 4000);
    assert_eq!(ended.found("seekrandom"), (4000, 4000));
    assert_eq!(ended.found("multireadrandom"), (4000, 4000));
    assert_eq!(operations("readtocache"), 2000);
    for name in ["newiterator", "readwhilewriting", "seekrandomwhilewriting", "multireadwhilewriting"] {
        assert_eq!(operations(name), 4000, "{name}");
    }
    assert!(ended.summary("readrandomwriterandom").contains("( reads:3600 writes:400 total:4000 found:"));
    assert!(ended.summary("updaterandom").contains("( updates:4000 found:"));
    assert_eq!(operations("deleteseq"), 4000);
    assert_eq!(operations("compact"), 1);
    for label in ["write", "read", "seek", "update", "delete", "op"] {
        assert!(ended.out.contains(&format!("Microseconds per {label}:\nCount: ")), "{label}");
    }
    assert!(ended.out.contains("rocksdb.cur-size-all-mem-tables: "));
    assert!(ended.err.contains("entries_per_batch = 1\n"));
}

/// Same seed, same keys: two runs find the same number.
#[test]
fn a_seed_fixes_the_keys() {
    let dir = tempfile::tempdir().unwrap();
    let line = "--benchmarks=fillrandom,readrandom --num=3000 --db=D/seed --seed=42 --batch_size=3";
    let first = bench(dir.path(), line).passed().found("readrandom");
    assert_eq!(bench(dir.path(), line).passed().found("readrandom"), first);
}

/// `db-bench DB20`: the data file line by line, and `--json=-`.
#[test]
fn the_data_file_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let line = "--benchmarks=fillrandom --num=5000 --db=D/db20 --report_interval_seconds=1 --report_file=D/r.csv --json=";
    let ended = bench(dir.path(), &format!("{line}D/r.jsonl")).passed();
    let text = std::fs::read_to_string(dir.path().join("r.jsonl")).unwrap();
    let objects: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_type = |t: &str| objects.iter().filter(|object| object["t"] == t).collect::<Vec<_>>();
    assert_eq!((&objects[0]["t"], &objects[1]["t"]), (&"system".into(), &"config".into()));
    assert_eq!(objects[1]["flags"]["num"], 5000);
    assert_eq!(objects.last().unwrap()["t"], "fin");
    let summary = of_type("summary");
    assert_eq!((summary.len(), &summary[0]["ops"]), (1, &5000.into()));
    assert_eq!(summary[0]["ops_per_sec"].as_f64().unwrap(), ended.field("fillrandom", 5));
    let ops: u64 = of_type("sample").iter().map(|sample| sample["ops"].as_u64().unwrap()).sum();
    assert_eq!(ops, 5000);
    assert!(ended.err.contains("interval ops/sec: mean "));

    let on_stdout = bench(dir.path(), &format!("{line}-")).passed();
    let object: serde_json::Value = serde_json::from_str(on_stdout.out.trim_end()).unwrap();
    assert_eq!(object["t"], "summary");
    assert!(on_stdout.err.contains("fillrandom   : "));
}

/// A rate limit holds, and repeats print their lines.
#[test]
fn limits_and_repeats() {
    let dir = tempfile::tempdir().unwrap();
    let limited = "--benchmarks=fillrandom --num=1000 --value_size=984 --db=D/limit --benchmark_write_rate_limit=2000000";
    let seconds = bench(dir.path(), limited).passed().field("fillrandom", 7);
    assert!((0.45..5.0).contains(&seconds), "{seconds}");
    let repeated = bench(dir.path(), "--benchmarks=fillrandom[X3-W1] --num=100 --db=D/limit").passed();
    assert_eq!(repeated.out.matches(" micros/op ").count(), 4);
    assert!(repeated.out.contains("fillrandom [AVG 2 runs] : "));
    assert!(repeated.out.contains("fillrandom [MEDIAN 3 runs] : "));
}

/// Interval lines and a time bound.
#[test]
fn a_time_bound_ends_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let ended = bench(
        dir.path(),
        "--benchmarks=fillrandom --num=1000 --duration=1 --db=D/time --stats_interval=1000 --disable_wal",
    )
    .passed();
    let seconds = ended.field("fillrandom", 7);
    assert!((0.9..10.0).contains(&seconds), "{seconds}");
    assert!(ended.err.contains("  ... thread 0: (1000,1000) ops and ("), "{}", ended.err);
}
