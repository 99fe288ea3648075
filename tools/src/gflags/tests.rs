//! The rules of gflags syntax, row by row, and the messages to the byte.

use super::*;
use crate::settings;

fn line(words: &str) -> CommandLine {
    let args: Vec<String> = words.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
    parse(&args, &|name| (name == "FLAGS_num").then(|| "77".to_owned()))
}

fn value(words: &str, flag: &str) -> Value {
    let line = line(words);
    assert_eq!(line.problems, [], "{words}");
    line.last(flag).unwrap_or_else(|| panic!("{words}: {flag} was not given")).value.clone()
}

fn complaint(words: &str) -> String {
    let line = line(words);
    let resolved = settings::resolve(&line);
    problem::render(&resolved.problems)
}

fn notes(words: &str) -> Vec<String> {
    let resolved = settings::resolve(&line(words));
    assert_eq!(resolved.problems, [], "{words}");
    resolved.notes
}

/// The table holds the 459 names of both upstream tools and ours, sorted, each default of its own type.
#[test]
fn the_table_is_whole_and_sorted() {
    assert!(FLAGS.is_sorted_by(|a, b| a.name < b.name));
    assert_eq!(FLAGS.iter().filter(|flag| flag.origin != Origin::Ours).count(), 459);
    for flag in FLAGS {
        for text in flag.neutral() {
            assert!(flag.kind.parse(text).is_ok(), "{}: {text}", flag.name);
        }
        let acted_on_early = ["explain_flags", "ignore_unsupported", "build_info"].contains(&flag.name);
        let works = flag.status == Status::Works && !acted_on_early;
        assert_eq!(settings::bindings::find(flag.name).is_some(), works, "{}", flag.name);
        assert_eq!(flag.help.is_empty(), flag.status != Status::Works, "{}", flag.name);
    }
    for binding in settings::bindings::all() {
        assert!(find(binding.flag).is_some(), "{} is bound, but no flag", binding.flag);
    }
}

/// `db-bench DB8`: dashes, both ways to give a value, the first `=`, hex, leading zeros, last one wins.
#[test]
fn values_are_read_as_gflags_reads_them() {
    for words in
        ["-num=500", "--num=500", "-num 500", "--num 500", "--num=0x1F4", "--num=+500", "--num=5 --num=500"]
    {
        assert_eq!(value(words, "num"), Value::Int(500), "{words}");
    }
    assert_eq!(value("--num=010", "num"), Value::Int(10));
    assert_eq!(value("--reads=-1", "reads"), Value::Int(-1));
    assert_eq!(value("--db=a=b", "db"), Value::Str("a=b".to_owned()));
    assert_eq!(value("--wal_dir=", "wal_dir"), Value::Str(String::new()));
    assert_eq!(value("--write-buffer-size=4194304", "write_buffer_size"), Value::Int(4_194_304));
    for (text, number) in
        [("1e-3", 1e-3), ("0x1p4", 16.0), ("0x1.8p1", 3.0), ("inf", f64::INFINITY), ("-2.5", -2.5)]
    {
        assert_eq!(value(&format!("--bloom_bits={text}"), "bloom_bits"), Value::Double(number), "{text}");
    }
    for words in
        ["--num=-", "--num=1e6", "--threads=99999999999", "--num", "--seed=-", "--slow_usecs=-1", "--num="]
    {
        assert_eq!(line(words).problems.len(), 1, "{words}");
    }
}

/// `db-bench DB7`: bare booleans never eat the next word, and `no` works only on booleans.
#[test]
fn booleans_are_bare_or_inline() {
    for words in
        ["-histogram", "--histogram=Y", "--histogram=1", "--nohistogram --histogram", "-histogram=TRUE"]
    {
        assert_eq!(value(words, "histogram"), Value::Bool(true), "{words}");
    }
    for words in ["--nohistogram", "--histogram=f", "--histogram --nohistogram", "--histogram=No"] {
        assert_eq!(value(words, "histogram"), Value::Bool(false), "{words}");
    }
    let both = line("-histogram --num=2000");
    assert_eq!((both.given.len(), both.problems.len(), both.warnings.len()), (2, 0, 0));
    let taken = line("--histogram true");
    assert_eq!((taken.given.len(), taken.problems.len(), taken.warnings.len()), (1, 0, 1));
    assert!(taken.warnings[0].starts_with("warning: "));
    assert!(
        complaint("--statistics false")
            .contains("--statistics false means true in gflags; write --statistics=false")
    );
    assert!(complaint("--nonum").contains("num is not boolean"));
    assert!(complaint("--histogram=maybe").contains("--histogram: 'maybe' is not a bool"));
    assert_eq!(line("--num=1 word -").warnings, ["warning: 'word' ignored", "warning: '-' ignored"]);
    assert_eq!(line("-- --num=5").warnings, ["warning: '--num=5' ignored"]);
}

/// `db-bench DB5`: all findings at once, grouped and sorted, to the byte.
#[test]
fn all_problems_come_at_once() {
    let expected = "\
ERROR: 4 problems on the command line
  unknown flag '--write_bufer_size' (did you mean --write_buffer_size?)
  unknown flag '--zzzz'
  --use_spdb_writes=true: known to Speedb's db_bench, not supported by this engine
      (only =false is accepted; --ignore_unsupported turns this into a warning)
  --num: '64K' is not an int64 (no unit suffixes, as in db_bench; write 65536)
";
    assert_eq!(
        complaint("--benchmarks=fillrandom --write_bufer_size=1 --zzzz=2 --num=64K --use_spdb_writes=true"),
        expected
    );
    assert!(complaint("--zzzz").starts_with("ERROR: 1 problem on the command line\n"));
    assert!(complaint("--enable_pipelined_writ=1 --compaction_style=1").contains("(only =0 is accepted;"));
    assert!(complaint("--index_shortening_mode=0").contains("(only =1 and =2 are accepted;"));
}

/// `db-bench DB6`: excuses, neutral values, notes, and the flags that benchmark.sh passes.
#[test]
fn excuses_are_heard() {
    assert_eq!(notes("--undefok=foo,bar --foo=1 --nobar"), Vec::<String>::new());
    assert_eq!(notes("--use_spdb_writes=false"), Vec::<String>::new());
    assert_eq!(
        notes("--enable_pipelined_write=true"),
        ["note: --enable_pipelined_write has no effect in this engine"]
    );
    let warned = notes("--use_spdb_writes=true --ignore_unsupported");
    assert_eq!((warned.len(), warned[0].starts_with("warning: ")), (1, true));
    notes(
        "--delete_obsolete_files_period_micros=60000000 --compression_max_dict_bytes=0 \
         --allow_concurrent_memtable_write=false --compaction_style=0 --memtablerep=vector",
    );
}

/// Validators and codecs: upstream's texts and ours.
#[test]
fn bad_values_are_named() {
    let cases = [
        ("--cache_numshardbits=20", "Invalid value for --cache_numshardbits: 20, must be < 20"),
        ("--readwritepercent=100", "Invalid value for --readwritepercent: 100, must be > 0 and < 100"),
        ("--start_delay_percent=100", "Invalid value for --start_delay_percent: 100, must be 1 to 99"),
        ("--compression_ratio=1.5", "Invalid value for --compression_ratio: 1.5, must be"),
        ("--compression_type=foo", "Cannot parse compression type 'foo'"),
        (
            "--compression_type=snappy",
            "--compression_type: 'snappy' is known to db_bench, not supported by this engine (none, lz4; zstd",
        ),
        ("--num_levels=1", "Invalid value for --num_levels: 1 is outside its range"),
        ("--benchmarks=fillrandm", "unknown benchmark 'fillrandm'"),
        ("--column_family_distribution=50,24", "must be percentages that sum to 100"),
        ("--disable_wal --sync", "cannot be synced"),
        ("--num=-5", "Invalid value for --num: -5, must be >= 0"),
    ];
    for (words, expected) in cases {
        let text = complaint(words);
        assert!(text.contains(expected), "{words}: {text}");
        assert!(text.starts_with("ERROR: 1 problem "), "{words}: {text}");
    }
    assert_eq!(notes("--compression_type=None --compression_type=LZ4"), Vec::<String>::new());
}

/// `--flagfile`, `--fromenv` and `--tryfromenv`; errors in a file name file and line (`db-bench DB8`).
#[test]
fn flags_come_from_files_and_the_environment() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flags");
    std::fs::write(&path, "# c\n--num=11\n\nother_program\n--num=12\n*_bench\n-reads=3\n--zzzz=1\n--num=x\n")
        .unwrap();
    let line = line(&format!("--flagfile={}", path.display()));
    assert_eq!(line.last("num").unwrap().value, Value::Int(11));
    assert_eq!(line.last("reads").unwrap().value, Value::Int(3));
    let text = problem::render(&line.problems);
    assert!(text.contains("unknown flag '--zzzz' (") && text.contains("flags, line 8)"), "{text}");
    assert!(text.contains("'x' is not an int64") && text.contains("flags, line 9)"), "{text}");

    assert_eq!(value("--fromenv=num", "num"), Value::Int(77));
    assert_eq!(value("--tryfromenv=num,reads", "num"), Value::Int(77));
    assert!(complaint("--fromenv=reads").contains("FLAGS_reads is not in the environment"));
}

/// Help exits 1 whatever else is there; `--version` is seen.
#[test]
fn built_in_flags_are_seen() {
    for words in ["--help", "-helpfull", "--helpon=x", "--helpmatch y", "--helpxml"] {
        assert!(line(words).help, "{words}");
    }
    assert!(line("--version").version);
    assert!(!line("--num=1").help);
}

/// Both published command lines, and one like benchmark.sh's, resolve without a problem (`db-bench DB1`).
#[test]
fn published_command_lines_resolve() {
    let reference = "--compression_type=None -db=/data/ -num=200000000 -value_size=1000 -key_size=16 \
        --delayed_write_rate=536870912 -report_interval_seconds=1 -max_write_buffer_number=4 \
        -num_column_families=6 -histogram -max_background_compactions=8 -cache_size=8388608 \
        -max_background_flushes=1 -bloom_bits=10 -benchmark_read_rate_limit=0 -benchmark_write_rate_limit=0 \
        -report_file=fillrandom.csv --disable_wal=true --benchmarks=fillrandom,levelstats \
        --db_write_buffer_size=1073741824 --allow_wbm_stalls=true --use_spdb_writes=false \
        --initiate_wbm_flushes=false -write_buffer_size=134217728";
    assert_eq!(notes(reference), Vec::<String>::new());
    let settings = settings::resolve(&line(reference)).settings;
    assert_eq!((settings.db.max_background_flushes, settings.db.max_background_compactions), (1, 8));
    assert_eq!(settings.db.delayed_write_rate.bytes_per_second(), 536_870_912);
    assert_eq!(settings.db.column_family.compression, sluicedb::Compression::None);
    assert_eq!(settings.write_options().durability, sluicedb::Durability::None);
    assert!(!settings.db.initiate_flushes && settings.db.allow_stall);

    let measured = settings::resolve(&line("--delayed_write_rate=Auto")).settings;
    assert_eq!(measured.db.delayed_write_rate, sluicedb::DelayedWriteRate::Auto);

    let second = "-num_column_families=3 -max_background_flushes=4 --column_family_distribution=50,24,26 \
        --level0_slowdown_writes_trigger=8 -write_buffer_size=268435456 --disable_wal=true";
    assert_eq!(notes(second), Vec::<String>::new());

    let benchmark_sh = "--benchmarks=fillseq --db=/tmp/x --wal_dir=/tmp/x --num=1000 --key_size=20 --value_size=400 \
        --block_size=8192 --cache_size=8589934592 --cache_numshardbits=6 --compression_max_dict_bytes=0 \
        --compression_ratio=0.5 --compression_type=lz4 --bytes_per_sync=8388608 --benchmark_write_rate_limit=0 \
        --write_buffer_size=134217728 --target_file_size_base=134217728 --max_bytes_for_level_base=1073741824 \
        --verify_checksum=1 --delete_obsolete_files_period_micros=62914560 --max_bytes_for_level_multiplier=8 \
        --statistics=0 --stats_per_interval=1 --stats_interval_seconds=60 --report_interval_seconds=5 --histogram=1 \
        --memtablerep=skip_list --bloom_bits=10 --open_files=-1 --subcompactions=1 --compaction_style=0 \
        --num_levels=8 --min_level_to_compress=3 --level_compaction_dynamic_level_bytes=true \
        --pin_l0_filter_and_index_blocks_in_cache=1 --threads=1 --seed=1 --use_existing_db=0 --sync=0 \
        --undefok=a,b";
    let noted = notes(benchmark_sh);
    assert!(noted.iter().all(|note| note.starts_with("note: ")), "{noted:?}");
}

/// The background job rule: jobs count unless flushes and compactions are given and are enough.
#[test]
fn background_jobs_are_split() {
    let split = |words: &str| {
        let db = settings::resolve(&line(words)).settings.db;
        (db.max_background_flushes, db.max_background_compactions)
    };
    assert_eq!(split("--max_background_jobs=8"), (2, 6));
    assert_eq!(
        split("--max_background_jobs=8 --max_background_flushes=1 --max_background_compactions=8"),
        (1, 8)
    );
    assert_eq!(
        split("--max_background_jobs=2 --max_background_flushes=2 --max_background_compactions=3"),
        (2, 3)
    );
    let library = sluicedb::DbOptions::default();
    assert_eq!(split(""), (library.max_background_flushes, library.max_background_compactions));
}
