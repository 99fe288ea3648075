//! The command line: published lines run, errors come at once and early, values are read as gflags reads them.

use super::support::{Place, count, number, summary};

/// The published reference command line, but for `-num` and `-db`, as its words stand.
const REFERENCE: &str = "--compression_type=None -db=DB -num=NUM -value_size=1000 -key_size=16 \
    --delayed_write_rate=536870912 -report_interval_seconds=1 -max_write_buffer_number=4 -num_column_families=6 \
    -histogram -max_background_compactions=8 -cache_size=8388608 -max_background_flushes=1 -bloom_bits=10 \
    -benchmark_read_rate_limit=0 -benchmark_write_rate_limit=0 -report_file=fillrandom.csv --disable_wal=true \
    --benchmarks=fillrandom,levelstats --db_write_buffer_size=1073741824 --allow_wbm_stalls=true \
    --use_spdb_writes=false --initiate_wbm_flushes=false -write_buffer_size=134217728";

/// The second published line: three column families with shares of their own, and no manager flag.
const SECOND: &str = "--compression_type=None -db=D/db1b -num=NUM -value_size=1000 -key_size=16 \
    --delayed_write_rate=536870912 -report_interval_seconds=1 -max_write_buffer_number=4 -num_column_families=3 \
    -histogram -max_background_compactions=8 -cache_size=8388608 -max_background_flushes=4 -bloom_bits=10 \
    -benchmark_read_rate_limit=0 -benchmark_write_rate_limit=0 -report_file=second.csv --disable_wal=true \
    --benchmarks=fillrandom,levelstats --column_family_distribution=50,24,26 --level0_slowdown_writes_trigger=8 \
    -write_buffer_size=268435456";

fn reference(db: &str, num: u64) -> String {
    REFERENCE.replace("DB", db).replace("NUM", &num.to_string())
}

fn the_reference_runs(num: u64, second: u64) {
    let place = Place::new();
    let ended = place.bench(&reference("D/db1/", num)).passed();
    for start in ["ERROR", "note:", "warning:"] {
        assert_eq!(count(&ended.err, start), 0, "{}", ended.err);
    }
    assert_eq!(ended.operations("fillrandom"), num);
    let (_, after) = ended.out.split_once("\nMicroseconds per write:\n").expect("a histogram");
    assert!(after.contains("\nLevel Files Size(MB)\n"), "{after}");
    assert!(place.text("fillrandom.csv").starts_with("secs_elapsed,interval_qps\n"));
    assert_eq!(count(&ended.out, "Compression: NoCompression"), 1);
    assert!(ended.out.contains(&place.named("\nDB path: [D/db1/]\n")), "{}", ended.out);

    let ended = place.bench(&SECOND.replace("NUM", &second.to_string())).passed();
    assert_eq!((ended.operations("fillrandom"), count(&ended.err, "ERROR")), (second, 0));
}

/// `db-bench DB1`: both published command lines run as they stand, with fewer keys.
#[test]
fn db1_the_reference_command_line_runs() {
    the_reference_runs(20_000, 20_000);
}

/// `db-bench DB1` with its full counts.
#[test]
#[ignore = "writes 2 GB; run with --release"]
fn db1_the_reference_command_line_runs_in_full() {
    the_reference_runs(2_000_000, 100_000);
}

/// `db-bench DB2`: one row a flag in the order given, 23 of 24 work, nothing is touched.
#[test]
fn db2_the_reference_command_line_is_explained() {
    let place = Place::new();
    let line = reference("D/db1/", 2_000_000);
    let ended = place.bench(&format!("--explain_flags {line}")).passed();
    let rows: Vec<Vec<&str>> = ended.out.lines().map(|row| row.split('\t').collect()).collect();
    assert_eq!(rows.len(), 24, "{}", ended.out);
    let given = line.split_whitespace().map(|word| word.trim_start_matches('-').split('=').next());
    for (row, name) in rows.iter().zip(given) {
        assert!(row.len() >= 4, "{row:?}");
        let status = if row[0] == "use_spdb_writes" { "known" } else { "works" };
        assert_eq!((Some(row[0]), row[2]), (name, status), "{row:?}");
    }
    assert!(!place.path("db1").exists());
}

/// `db-bench DB5`: everything wrong with a line at once, to the byte, before anything is touched.
#[test]
fn db5_errors_come_all_at_once() {
    let place = Place::new();
    let line =
        "--benchmarks=fillrandom --write_bufer_size=1 --zzzz=2 --num=64K --use_spdb_writes=true --db=D/db5";
    let ended = place.bench(line).exits(1);
    let expected = "ERROR: 4 problems on the command line\n  \
         unknown flag '--write_bufer_size' (did you mean --write_buffer_size?)\n  \
         unknown flag '--zzzz'\n  \
         --use_spdb_writes=true: known to Speedb's db_bench, not supported by this engine\n      \
         (only =false is accepted; --ignore_unsupported turns this into a warning)\n  \
         --num: '64K' is not an int64 (no unit suffixes, as in db_bench; write 65536)\n";
    assert_eq!((ended.out.as_str(), ended.err.as_str()), ("", expected));
    assert!(!place.path("db5").exists());
}

/// `db-bench DB6`: names that may be unknown, neutral values, notes, warnings, and what benchmark.sh passes.
#[test]
fn db6_excuses() {
    let place = Place::new();
    let run = |flags: &str| {
        place.bench(&format!("--benchmarks=fillrandom --num=1000 --db=D/db6 {flags}")).passed().err
    };
    let remarks = |err: &str| {
        let is_one = |line: &&str| ["note:", "warning:", "ERROR"].iter().any(|start| line.starts_with(start));
        err.lines().filter(is_one).map(str::to_owned).collect::<Vec<String>>()
    };
    assert_eq!(remarks(&run("--undefok=foo,bar --foo=1 --nobar")), [""; 0]);
    assert_eq!(remarks(&run("--use_spdb_writes=false")), [""; 0]);
    let note = "note: --enable_pipelined_write has no effect in this engine";
    assert_eq!(remarks(&run("--enable_pipelined_write=true")), [note]);
    let warned = remarks(&run("--use_spdb_writes=true --ignore_unsupported"));
    assert!(warned.len() == 1 && warned[0].starts_with("warning:"), "{warned:?}");
    run("--delete_obsolete_files_period_micros=60000000 --compression_max_dict_bytes=0 \
         --allow_concurrent_memtable_write=false --compaction_style=0 --memtablerep=vector");
}

/// `db-bench DB7`: booleans are bare or inline, and never eat the next word.
#[test]
fn db7_bare_booleans() {
    let place = Place::new();
    let run = |flags: &str| place.bench(&format!("--benchmarks=fillrandom --num=1000 --db=D/db7 {flags}"));
    let histograms = |flags: &str| count(&run(flags).passed().out, "Microseconds per write:");
    assert_eq!(histograms("-histogram"), 1);
    assert_eq!(histograms("--histogram --nohistogram"), 0);
    assert_eq!(histograms("--histogram=Y"), 1);
    let taken = run("--histogram true").passed();
    assert_eq!((count(&taken.out, "Microseconds per write:"), count(&taken.err, "warning:")), (1, 1));
    let refused = run("--statistics false").exits(1);
    assert!(refused.err.contains("write --statistics=false"), "{}", refused.err);
    assert!(run("--nonum").exits(1).err.contains("num is not boolean"));
    run("--histogram=maybe").exits(1);
    assert_eq!(run("-histogram --num=2000").passed().operations("fillrandom"), 2000);
}

/// `db-bench DB8`: hex, leading zeros, separate values, last one wins, dashes in names, flag files; and what is no number.
#[test]
fn db8_values() {
    let place = Place::new();
    std::fs::write(place.path("f"), "# c\n--num=11\n").expect("a flag file");
    let run = |flags: &str| place.bench(&format!("--benchmarks=fillrandom --db=D/db8 {flags}"));
    for (flags, operations) in [
        ("--num=1000 -num=0x3E8", 1000),
        ("--num=010", 10),
        ("-num 500", 500),
        ("--num=5 --num=7", 7),
        ("--write-buffer-size=4194304 --num=9", 9),
        ("--num=1000 --flagfile=D/f", 11),
    ] {
        let out = run(flags).passed().out;
        assert_eq!(number(summary(&out, "fillrandom"), 9) as u64, operations, "{flags}");
    }
    for flags in ["--num=-", "--num=1e6", "--threads=99999999999", "--num"] {
        let ended = run(flags).exits(1);
        assert_eq!(ended.out, "", "{flags}");
    }
}

/// `db-bench DB9`: a misspelt benchmark is found before the first one runs.
#[test]
fn db9_a_typo_is_found_first() {
    let place = Place::new();
    let ended = place.bench("--benchmarks=fillrandom,fillrandm --num=1000 --db=D/db9").exits(1);
    assert!(ended.err.contains("unknown benchmark 'fillrandm'"), "{}", ended.err);
    assert!(!ended.out.contains("micros/op"));
    assert!(!place.path("db9").exists());
}
