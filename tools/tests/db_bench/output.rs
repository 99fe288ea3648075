//! What is printed for people and their scripts: summary, header, streams, levels, stats, histogram.

use super::support::{Place, after, count, field, last, near, number, summary};

fn summary_fields(num: u64) {
    let place = Place::new();
    let log = place.bench_log(&format!(
        "--benchmarks=fillrandom --num={num} --value_size=1000 --db=D/db3 --compression_type=none"
    ));
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| line.starts_with("fillrandom") && line.split_whitespace().count() >= 10)
        .filter(|line| field(line, 8) == "seconds")
        .collect();
    assert_eq!(lines.len(), 1, "{log}");
    let [a, b, c, d, e] = [3, 5, 7, 9, 11].map(|at| number(lines[0], at));
    // Half a unit of the last digit of each printed figure comes on top of the shares.
    let (of_seconds, of_rate) = (0.000_5 / c, 0.05 / e);
    assert!(d == num as f64 && e > 0.0, "{}", lines[0]);
    assert!(near(b, d / c, 0.01 + of_seconds), "{}", lines[0]);
    assert!(near(a * b, 1e6, 0.02), "{}", lines[0]);
    assert!(near(e, num as f64 * 1016.0 / 1_048_576.0 / c, 0.01 + of_seconds + of_rate), "{}", lines[0]);
}

/// `db-bench DB3`: the fields of a summary line agree with each other.
#[test]
fn db3_summary_fields() {
    summary_fields(30_000);
}

/// `db-bench DB3` with its full counts.
#[test]
#[ignore = "writes 300 MB; run with --release"]
fn db3_summary_fields_in_full() {
    summary_fields(300_000);
}

/// Whether `line` is `YYYY-Mon-D[D]THH:MM:SS`.
fn is_date(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect();
    let Some((year, rest)) = shape.split_once('-') else { return false };
    let Some((month, day)) = rest.split_once('-') else { return false };
    let is_month = month.len() == 3
        && month
            .chars()
            .enumerate()
            .all(|(at, c)| if at == 0 { c.is_ascii_uppercase() } else { c.is_ascii_lowercase() });
    year == "9999" && is_month && ["9T99:99:99", "99T99:99:99"].contains(&day)
}

/// `db-bench DB10`: which line goes to which stream.
#[test]
fn db10_header_and_streams() {
    let place = Place::new();
    let line = "--benchmarks=fillrandom --num=1000 --db=D/db10";
    let ended = place.bench(line).passed();
    let version = last(&ended.err, "SluiceDB:");
    let (major, minor) = version
        .strip_prefix("SluiceDB:    version ")
        .and_then(|version| version.split_once('.'))
        .unwrap_or_else(|| panic!("{version}"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    assert!(is_number(major) && is_number(minor), "{version}");
    assert_eq!((count(&ended.err, "SluiceDB:"), count(&ended.err, "Date: ")), (1, 1));
    let date = last(&ended.err, "Date: ");
    let date = format!("{}-{}-{}T{}", field(date, 6), field(date, 3), field(date, 4), field(date, 5));
    assert!(is_date(&date), "{date}");
    assert_eq!((count(&ended.out, "SluiceDB:"), count(&ended.out, "Date: ")), (0, 0));

    let seed = last(&ended.out, "Set seed to ");
    assert!(seed.ends_with(" because --seed was 0") && is_number(field(seed, 4)), "{seed}");
    let lines: Vec<&str> = ended.out.lines().collect();
    assert!(lines.contains(&"Keys:       16 bytes each (+ 0 bytes user-defined timestamp)"), "{lines:?}");
    assert!(lines.contains(&"Entries:    1000") && lines.contains(&"-".repeat(48).as_str()), "{lines:?}");
    assert_eq!(ended.operations("fillrandom"), 1000);
    assert!(!place.bench_log(line).contains('\r'));
    for (start, lines_behind) in
        [("BEFORE Benchmark (fillrandom): ", 1), ("AFTER Benchmark (fillrandom): ", 0)]
    {
        assert_eq!(count(&ended.err, start), 1);
        let lines: Vec<&str> = ended.err.lines().collect();
        let at = lines.iter().position(|line| line.starts_with(start)).expect("the line");
        assert_eq!(lines[at - 1], "", "an empty line before {start}");
        assert!(lines_behind == 0 || lines[at + 1].is_empty(), "an empty line behind {start}");
        let figures: Vec<&str> = lines[at][start.len()..].split(" OF ").collect();
        assert!(figures.len() == 2 && figures.iter().all(|figure| is_number(figure)), "{}", lines[at]);
    }
}

/// `db-bench DB15`: six tables in the documented shape, the default family's first.
#[test]
fn db15_levelstats() {
    let place = Place::new();
    let ended = place
        .bench(
            "--benchmarks=fillrandom,flush,levelstats --num=100000 --num_column_families=6 --num_levels=7 \
             --db=D/db15",
        )
        .passed();
    let (_, tables) = ended.out.split_once("flush memtable\n").expect("the flush");
    let lines: Vec<&str> = tables.lines().collect();
    assert_eq!(lines.len(), 6 * 11, "{tables}");
    for (at, table) in lines.chunks(11).enumerate() {
        let heading = if at == 0 { String::new() } else { format!("[column_family_name_{at:06}]") };
        assert_eq!(table[0], heading);
        assert_eq!((table[1], table[2], table[10]), ("Level Files Size(MB)", "--------------------", ""));
        let mut files = 0;
        for (level, row) in table[3..10].iter().enumerate() {
            assert!(row.len() == 21 && row.starts_with(&format!("  {level} ")), "{row}");
            let columns = [&row[4..12], &row[13..21]];
            assert!(columns.iter().all(|column| column.trim_start().parse::<u64>().is_ok()), "{row}");
            assert_eq!(&row[12..13], " ");
            files += columns[0].trim_start().parse::<u64>().expect("a number");
        }
        assert!(files >= 1, "{table:?}");
    }
}

fn stats_fields(num: u64) {
    let place = Place::new();
    let log = place.bench_log(&format!(
        "--benchmarks=fillrandom,flush,stats --num={num} --value_size=1000 --db=D/db16 --compression_type=none \
         --histogram"
    ));
    let sum = last(&log, " Sum");
    assert_eq!(sum.split_whitespace().count(), 22, "{sum}");
    assert!(["KB", "MB", "GB", "TB"].contains(&field(sum, 4)), "{sum}");
    for at in [3, 15, 16, 21, 22] {
        number(sum, at);
    }
    let header = last(&log, "Level    Files");
    assert_eq!(header.split_whitespace().count(), 21, "{header}");
    let dashes = "-".repeat(header.len() + 1);
    assert_eq!(
        log.lines().filter(|line| *line == dashes).count(),
        1,
        "dashes as long as the header plus one"
    );

    let gigabytes = num as f64 * 1016.0 / f64::from(1 << 30);
    let writes = last(&log, "Cumulative writes");
    let ingest = after(writes, "ingest:");
    // The full counts come to 0.284 GB; the bounds are the specification's, for any count.
    assert!((0.95 * gigabytes - 0.005..=1.09 * gigabytes + 0.005).contains(&ingest), "{writes}");
    let compaction = last(&log, "Cumulative compaction");
    assert_eq!(field(compaction, 4), "GB");
    number(compaction, 3);
    let flushed = number(last(&log, "Flush(GB)"), 3);
    // A flush drops what was written twice: 63 % of the keys are there at least once.
    assert!((0.6 * gigabytes - 0.005..=1.09 * gigabytes + 0.005).contains(&flushed), "{flushed}");
    number(last(&log, "Cumulative stall"), 5);
    number(last(&log, "Uptime(secs"), 2);
    number(last(&log, "Blob file count:"), 7);
    for at in [3, 7, 9, 11] {
        number(last(&log, "Percentiles:"), at);
    }
    number(last(&log, "Min: "), 6);
}

/// `db-bench DB16`: every field that scripts take out of `stats`.
#[test]
fn db16_stats_fields() {
    stats_fields(60_000);
}

/// `db-bench DB16` with its full counts.
#[test]
#[ignore = "writes 300 MB; run with --release"]
fn db16_stats_fields_in_full() {
    stats_fields(300_000);
}

/// 1, 2, then times 1.5 kept as a float, cut to the two leading digits.
fn edges() -> Vec<String> {
    let mut exact = 2.0f64;
    let mut edges = vec!["1".to_owned(), "2".to_owned()];
    while edges.len() < 109 {
        exact *= 1.5;
        let digits = (exact as u128).to_string();
        let zeros = digits.len().saturating_sub(2);
        edges.push(format!("{}{}", &digits[..digits.len() - zeros], "0".repeat(zeros)));
    }
    edges
}

fn histogram_block(num: u64) {
    let place = Place::new();
    let ended = place
        .bench(&format!(
            "--benchmarks=fillrandom --num={num} --value_size=1000 --db=D/db19 --compression_type=none -histogram"
        ))
        .passed();
    let (_, block) = ended.out.split_once("Microseconds per write:\n").expect("a histogram");
    let lines: Vec<&str> = block.lines().collect();
    let (head, deviation) = lines[0].split_once("  StdDev: ").expect("two spaces before StdDev");
    let average = head.strip_prefix(&format!("Count: {num} Average: ")).expect("the count");
    let decimals = |text: &str| text.split_once('.').map_or(0, |(_, digits)| digits.len());
    assert_eq!((decimals(average), decimals(deviation)), (4, 2), "{}", lines[0]);
    let words: Vec<&str> = lines[1].split("  ").collect();
    assert!(
        words.len() == 3 && words[0].starts_with("Min: ") && words[1].starts_with("Median: "),
        "{}",
        lines[1]
    );
    let max: f64 = words[2].strip_prefix("Max: ").and_then(|max| max.parse().ok()).expect("Max");
    let names: Vec<&str> = lines[2].split_whitespace().collect();
    assert_eq!(
        [names[1], names[3], names[5], names[7], names[9]],
        ["P50:", "P75:", "P99:", "P99.9:", "P99.99:"]
    );
    let mut rising: Vec<f64> = [3, 5, 7, 9, 11].map(|at| number(lines[2], at)).to_vec();
    rising.push(max);
    assert!(rising.is_sorted(), "{rising:?}");
    assert_eq!(lines[3], "-".repeat(54));

    let rows: Vec<&str> = lines[4..].iter().copied().take_while(|line| !line.is_empty()).collect();
    assert!(lines.get(4 + rows.len()) == Some(&""), "an empty line behind the block");
    let edges = edges();
    let mut sum = 0;
    for row in &rows {
        let (range, rest) = row.split_once(" ]").expect("a bracket");
        let right = range.split_once(',').expect("two edges").1.trim();
        assert!(edges.iter().any(|edge| edge == right), "{row}");
        sum += number(rest, 1) as u64;
        let percent = number(rest, 2);
        let marks = rest.matches('#').count() as f64;
        let tie = (percent / 5.0).fract() > 0.49 && (percent / 5.0).fract() < 0.51;
        assert!((marks - (percent / 5.0 + 0.5).floor()).abs() <= f64::from(u8::from(tie)), "{row}");
    }
    assert_eq!(sum, num);
    assert_eq!(field(rows.last().expect("a row").split_once(" ]").expect("a bracket").1, 3), "100.000%");
}

/// `db-bench DB19`: the latency block line by line. The example's bytes are a unit test of the block.
#[test]
fn db19_histogram_block() {
    histogram_block(30_000);
}

/// `db-bench DB19` with its full counts.
#[test]
#[ignore = "writes 300 MB; run with --release"]
fn db19_histogram_block_in_full() {
    histogram_block(300_000);
}

/// Repeats print their lines: warm-ups as plain summaries, averages from the second run on, median at the end.
#[test]
fn repeats_print_their_lines() {
    let place = Place::new();
    let run = |flags: &str| place.bench(&format!("--num=200 --db=D/x --benchmarks={flags}")).passed().out;
    let out = run("fillrandom[X3-W1]");
    assert_eq!(out.matches(" micros/op ").count(), 4, "{out}");
    let starts =
        ["fillrandom [AVG 2 runs] : ", "fillrandom [AVG 3 runs] : ", "fillrandom [AVG    3 runs] : "];
    for start in starts.iter().chain(&["fillrandom [MEDIAN 3 runs] : "]) {
        assert_eq!(count(&out, start), 1, "{start}\n{out}");
    }
    let average = last(&out, "fillrandom [AVG 3 runs]");
    assert!(average.contains(" (\u{b1} ") && average.ends_with(") MB/sec"), "{average}");
    let out = run("fillrandom[X2] --confidence_interval_only");
    assert_eq!(
        (count(&out, "fillrandom [CI95 2 runs] : ("), count(&out, "fillrandom [AVG")),
        (2, 0),
        "{out}"
    );
}

/// What is printed about the engine's insides: tables with their properties, memory, statistics and their reset.
#[test]
fn smaller_shapes_are_printed() {
    let place = Place::new();
    let out = place
        .bench(
            "--benchmarks=fillseq,flush,sstables,memstats,stats_history,stats,resetstats,stats --num=2000 --db=D/s \
             --statistics --legacy_stall_line",
        )
        .passed()
        .out;
    let table =
        out.lines().find(|line| line.contains("['") && line.contains(" .. '")).expect("a table's line");
    assert!(table.contains("' seq:1, type:1 .. '") && table.contains("[1 .. 2000]"), "{table}");
    assert_eq!(count(&out, "--- level 0 --- version# "), 1, "{out}");
    assert_eq!(count(&out, "rocksdb.cur-size-all-mem-tables: "), 1);
    assert_eq!(count(&out, "Stalls(count): 0 level0_slowdown, "), 2, "{out}");
    let writes: Vec<&str> = out.lines().filter(|line| line.starts_with("Cumulative writes: ")).collect();
    assert_eq!(
        writes.iter().map(|line| after(line, "Cumulative writes: ")).collect::<Vec<_>>(),
        [2000.0, 0.0]
    );
    assert!(out.contains("  rocksdb.number.keys.written  2000\n"), "{out}");
    let (_, statistics) = out.split_once("\nSTATISTICS:\n").expect("statistics");
    let ticker = |name: &str| number(last(statistics, name), 4);
    assert_eq!(ticker("rocksdb.number.keys.written COUNT : "), 2000.0);
    let histogram = last(statistics, "rocksdb.db.write.stall P50 : ");
    let words: Vec<&str> = histogram.split_whitespace().collect();
    let names = [words[1], words[4], words[7], words[10], words[13], words[16]];
    assert_eq!(names, ["P50", "P95", "P99", "P100", "COUNT", "SUM"], "{histogram}");
    assert_eq!(summary(&out, "fillseq").split_whitespace().count(), 12);
}
