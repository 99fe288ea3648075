//! Two or more recorded runs side by side, and which is better.
//!
//! Owns the table and the sentences of `sluice compare`: the first run is the baseline; each figure has its ratio to it
//! and, where the rows of a run allow, the interval in which that ratio lies by chance alone. Must not know files.

use std::fmt::Write;

use super::bootstrap::{MIN_ROWS, ratio_interval};
use super::{RunRecord, Series};
use crate::report::steady::Steadiness;

/// A figure of a series of rows.
type Figure = fn(&[f64]) -> Option<f64>;

/// One line of the table.
struct Metric {
    name: &'static str,
    /// More is better.
    more: bool,
    decimals: usize,
    /// From the rows, if it is theirs.
    of_rows: Option<Figure>,
    /// From the summary, if it is that one's.
    of_summary: fn(&serde_json::Value) -> Option<f64>,
}

fn none(_: &serde_json::Value) -> Option<f64> {
    None
}

fn mean(rows: &[f64]) -> Option<f64> {
    (!rows.is_empty()).then(|| rows.iter().sum::<f64>() / rows.len() as f64)
}

fn std(rows: &[f64]) -> Option<f64> {
    let mean = mean(rows).filter(|_| rows.len() > 1)?;
    let squares: f64 = rows.iter().map(|row| (row - mean).powi(2)).sum();
    Some((squares / (rows.len() - 1) as f64).sqrt())
}

fn cv(rows: &[f64]) -> Option<f64> {
    let mean = mean(rows).filter(|mean| *mean > 0.0)?;
    Some(std(rows)? / mean)
}

fn p1(rows: &[f64]) -> Option<f64> {
    let whole: Vec<u64> = rows.iter().map(|row| row.round() as u64).collect();
    (!rows.is_empty()).then(|| Steadiness::of(&whole).p1 as f64)
}

fn zeros(rows: &[f64]) -> Option<f64> {
    (!rows.is_empty()).then(|| rows.iter().filter(|row| **row < 0.5).count() as f64)
}

const MIB: f64 = 1_048_576.0;

const METRICS: [Metric; 10] = [
    Metric { name: "mean (ops/s)", more: true, decimals: 0, of_rows: Some(mean), of_summary: none },
    Metric { name: "std (ops/s)", more: false, decimals: 0, of_rows: Some(std), of_summary: none },
    Metric { name: "cv", more: false, decimals: 3, of_rows: Some(cv), of_summary: none },
    Metric { name: "p1 (ops/s)", more: true, decimals: 0, of_rows: Some(p1), of_summary: none },
    Metric {
        name: "intervals without an operation",
        more: false,
        decimals: 0,
        of_rows: Some(zeros),
        of_summary: none,
    },
    Metric {
        name: "P99 (us)",
        more: false,
        decimals: 0,
        of_rows: None,
        of_summary: |s| s["latency"]["all"]["p99"].as_f64(),
    },
    Metric {
        name: "P99.9 (us)",
        more: false,
        decimals: 0,
        of_rows: None,
        of_summary: |s| s["latency"]["all"]["p999"].as_f64(),
    },
    Metric {
        name: "stall time (s)",
        more: false,
        decimals: 2,
        of_rows: None,
        of_summary: |s| Some(s["stall_us"].as_f64()? / 1e6),
    },
    Metric {
        name: "peak memtable memory (MiB)",
        more: false,
        decimals: 1,
        of_rows: None,
        of_summary: |s| Some(s["wbm"]["peak_usage"].as_f64()? / MIB),
    },
    Metric {
        name: "write amplification",
        more: false,
        decimals: 2,
        of_rows: None,
        of_summary: |s| s["write_amp"].as_f64(),
    },
];

/// What a comparison found.
#[derive(Debug, PartialEq, Eq)]
pub struct Comparison {
    /// Markdown for stdout.
    pub text: String,
    /// Some run is worse than the baseline by more than the limit.
    pub worse: bool,
}

/// A run's rows and summary of one benchmark, all its repeats together.
struct Side<'a> {
    name: String,
    rows: Vec<f64>,
    last: Option<&'a serde_json::Value>,
}

impl Side<'_> {
    fn figure(&self, metric: &Metric) -> Option<f64> {
        metric.of_rows.map_or_else(|| self.last.and_then(metric.of_summary), |figure| figure(&self.rows))
    }
}

/// Compares at least two runs; `limit` is the share by which the mean may fall and cv may rise.
///
/// # Errors
///
/// The message for the user: the runs have no benchmark in common.
pub fn compare(runs: &[RunRecord], limit: Option<f64>) -> Result<Comparison, String> {
    let mut comparison = Comparison { text: String::new(), worse: false };
    let benches = common_benches(runs);
    if benches.is_empty() {
        let of = |run: &RunRecord| {
            let names: Vec<&str> = run.series.iter().map(|series| series.bench.as_str()).collect();
            format!("{}: {}", run.name, names.join(", "))
        };
        let each: Vec<String> = runs.iter().map(of).collect();
        return Err(format!("Invalid argument: the runs have no benchmark in common ({})", each.join("; ")));
    }
    let named = names(runs);
    for bench in &benches {
        let side = |(run, name): (&'_ RunRecord, &String)| {
            let matching: Vec<&Series> =
                run.series.iter().filter(|series| same_bench(&series.bench, bench)).collect();
            Side {
                name: name.clone(),
                rows: matching.iter().flat_map(|series| series.rates()).collect(),
                last: None,
            }
        };
        let mut sides: Vec<Side<'_>> = runs.iter().zip(&named).map(side).collect();
        for (side, run) in sides.iter_mut().zip(runs) {
            let mut matching = run.series.iter().filter(|series| same_bench(&series.bench, bench));
            side.last = matching.rfind(|series| series.summary.is_some()).and_then(|s| s.summary.as_ref());
        }
        table(&mut comparison.text, bench, &sides);
        verdicts(&mut comparison, &sides, limit);
    }
    comparison.text.push_str(
        "\nIntervals: 95 %, block bootstrap over the intervals within each run. They cover chance within a run, not what \
         differs from run to run (the disk's state, the neighbours): run each side several times before you believe a \
         small difference.\n",
    );
    Ok(comparison)
}

/// File names, told apart by a number where they are the same.
fn names(runs: &[RunRecord]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for run in runs {
        let name = run.name.replace('|', "\\|");
        let again = runs.iter().take(names.len()).filter(|earlier| earlier.name == run.name).count();
        names.push(if again == 0 { name } else { format!("{name} ({})", again + 1) });
    }
    names
}

/// A CSV file does not say which benchmark it is of: it may be any.
fn same_bench(name: &str, bench: &str) -> bool {
    name == bench || name.is_empty() || bench.is_empty()
}

/// The benchmarks that every run has, in the order of the first run that names any.
fn common_benches(runs: &[RunRecord]) -> Vec<String> {
    let candidates = runs.iter().flat_map(|run| &run.series).map(|series| series.bench.clone());
    let mut benches: Vec<String> = Vec::new();
    for bench in candidates {
        let in_all = runs.iter().all(|run| run.series.iter().any(|series| same_bench(&series.bench, &bench)));
        if in_all && !benches.contains(&bench) {
            benches.push(bench);
        }
    }
    // The name where one is known, not the nameless form of the same.
    if benches.iter().any(|bench| !bench.is_empty()) {
        benches.retain(|bench| !bench.is_empty());
    }
    benches
}

fn table(text: &mut String, bench: &str, sides: &[Side<'_>]) {
    let title = if bench.is_empty() { "report" } else { bench };
    let rows: Vec<String> = sides.iter().map(|side| side.rows.len().to_string()).collect();
    let _ = write!(text, "\n### {title} ({} intervals)\n\n| |", rows.join(" and "));
    for (at, side) in sides.iter().enumerate() {
        let _ = write!(
            text,
            " {}{} |",
            side.name,
            if at == 0 { " (baseline)" } else { " | ratio | 95 % interval" }
        );
    }
    text.push_str("\n|---|---:|");
    (1..sides.len()).for_each(|_| text.push_str("---:|---:|:---:|"));
    text.push('\n');
    for metric in &METRICS {
        let figures: Vec<Option<f64>> = sides.iter().map(|side| side.figure(metric)).collect();
        if figures.iter().all(Option::is_none) {
            continue;
        }
        let shown = |value: f64| format!("{value:.*}", metric.decimals);
        let known = figures.iter().flatten().copied();
        let best = if metric.more { known.fold(f64::MIN, f64::max) } else { known.fold(f64::MAX, f64::min) };
        let alike = figures.iter().flatten().all(|value| shown(*value) == shown(best));
        let _ = write!(text, "| {} |", metric.name);
        for (at, figure) in figures.iter().enumerate() {
            let _ = match figure {
                None => write!(text, " - |"),
                Some(value) if !alike && shown(*value) == shown(best) => {
                    write!(text, " **{}** |", shown(*value))
                }
                Some(value) => write!(text, " {} |", shown(*value)),
            };
            if at > 0 {
                let ratio =
                    figures[0].zip(*figure).filter(|(base, _)| *base > 0.0).map(|(base, value)| value / base);
                let ratio = ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.3}"));
                let interval =
                    metric.of_rows.and_then(|f| ratio_interval(&sides[0].rows, &sides[at].rows, &f));
                let interval =
                    interval.map_or("-".to_owned(), |(low, high)| format!("{low:.3} to {high:.3}"));
                let _ = write!(text, " {ratio} | {interval} |");
            }
        }
        text.push('\n');
    }
}

/// One sentence on speed and one on steadiness for each run but the first.
fn verdicts(comparison: &mut Comparison, sides: &[Side<'_>], limit: Option<f64>) {
    let base = &sides[0];
    for side in &sides[1..] {
        let _ = writeln!(comparison.text);
        for (figure, words) in [
            (mean as Figure, ["faster", "slower", "speed"]),
            (cv as Figure, ["less steady", "steadier", "steadiness"]),
        ] {
            let sentence = sentence(base, side, figure, words);
            let _ = writeln!(comparison.text, "- {sentence}");
        }
        let Some(limit) = limit else { continue };
        let change =
            |figure: Figure| Some(figure(&side.rows)? / figure(&base.rows)?).filter(|r| r.is_finite());
        let fell = change(mean).is_some_and(|ratio| ratio < 1.0 - limit);
        let rose = change(cv).is_some_and(|ratio| ratio > 1.0 + limit);
        if fell || rose {
            let what = match (fell, rose) {
                (true, true) => "the mean fell and cv rose",
                (true, false) => "the mean fell",
                _ => "cv rose",
            };
            let percent = limit * 100.0;
            let _ =
                writeln!(comparison.text, "- {}: {what} by more than the {percent} % allowed.", side.name);
            comparison.worse = true;
        }
    }
}

fn sentence(base: &Side<'_>, side: &Side<'_>, figure: Figure, [up, down, what]: [&str; 3]) -> String {
    let (name, first) = (&side.name, &base.name);
    let ratio =
        figure(&base.rows).zip(figure(&side.rows)).map(|(a, b)| b / a).filter(|ratio| ratio.is_finite());
    let Some(ratio) = ratio else { return format!("{what}: too few intervals to say.") };
    let by = format!("{:.1} %", (ratio - 1.0).abs() * 100.0);
    let word = if ratio >= 1.0 { up } else { down };
    let seen = format!("{name} is {word} than {first} by {by}");
    match ratio_interval(&base.rows, &side.rows, &figure) {
        None => format!("{what}: {seen}, but with fewer than {MIN_ROWS} intervals that may be noise."),
        Some((low, high)) if (ratio - 1.0).abs() < 0.0005 && low <= 1.0 && high >= 1.0 => {
            format!("{what}: {name} and {first} are the same.")
        }
        Some((low, high)) if low <= 1.0 && high >= 1.0 => {
            format!(
                "{what}: no difference beyond noise ({seen}; chance alone gives {low:.3} to {high:.3} of it)."
            )
        }
        Some((low, high)) => format!("{what}: **{seen}** ({low:.3} to {high:.3} of it): more than noise."),
    }
}
