//! The summary line of a benchmark, and the lines about repeats.
//!
//! Owns their bytes: shape "V2", which scripts tell by its ten fields and `seconds` in the eighth. Must not know
//! how the figures came about.

use crate::workload::catalogue::Work;
use crate::workload::plan::Plan;
use crate::workload::stats::Totals;

/// The figures of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Operations; 1 when nothing was counted.
    pub ops: u64,
    /// Mean time of one operation as a thread sees it.
    pub micros_per_op: f64,
    /// Operations by wall time.
    pub ops_per_sec: f64,
    /// Wall time.
    pub seconds: f64,
    /// User data by wall time, if any was counted.
    pub mb_per_sec: Option<f64>,
}

impl Figures {
    /// The figures of what all threads counted.
    pub fn of(totals: &Totals) -> Self {
        let ops = totals.done.max(1);
        let seconds = totals.wall_seconds();
        Self {
            ops,
            micros_per_op: totals.busy_seconds * 1e6 / ops as f64,
            ops_per_sec: ops as f64 / seconds,
            seconds,
            mb_per_sec: (totals.bytes > 0).then(|| totals.bytes as f64 / 1_048_576.0 / seconds),
        }
    }
}

/// The line, with its line feed. A message may end in one of its own.
pub fn line(name: &str, figures: &Figures, message: &str) -> String {
    let mut extra = figures.mb_per_sec.map_or_else(String::new, |rate| format!(" {rate:6.1} MB/s"));
    if !message.is_empty() {
        extra.push(' ');
        extra.push_str(message);
    }
    format!(
        "{name:<12} : {:11.3} micros/op {} ops/sec {:.3} seconds {} operations;{extra}\n",
        figures.micros_per_op, figures.ops_per_sec as i64, figures.seconds, figures.ops,
    )
}

/// What stands behind the figures: how many keys were found, or what the operations were.
pub fn message(plan: &Plan, totals: &Totals) -> String {
    let tally = &totals.tally;
    match plan.work {
        Work::ReadRandom | Work::SeekRandom => {
            format!("({} of {} found)\n", tally.found, tally.reads)
        }
        Work::MultiReadRandom => format!("({} of {} found)", tally.found, tally.reads),
        Work::UpdateRandom => format!("( updates:{} found:{})", tally.writes, tally.found),
        Work::ReadRandomWriteRandom => format!(
            "( reads:{} writes:{} total:{} found:{})",
            tally.reads,
            tally.writes,
            tally.reads + tally.writes,
            tally.found
        ),
        Work::Fill(_) if plan.counts_in_message => format!("({} ops)", totals.done),
        _ => String::new(),
    }
}

/// Mean, half-width of its 95 % interval, and median of repeated runs.
struct Spread {
    mean: f64,
    half_width: f64,
    median: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
        values.sort_by(f64::total_cmp);
        let half = values.len() / 2;
        let median =
            if values.len() % 2 == 1 { values[half] } else { (values[half - 1] + values[half]) / 2.0 };
        Self { mean, half_width: 1.96 * (variance / n).sqrt(), median }
    }
}

fn spreads(runs: &[Figures]) -> (Spread, Option<Spread>) {
    let ops = Spread::of(runs.iter().map(|run| run.ops_per_sec).collect());
    let rates: Option<Vec<f64>> = runs.iter().map(|run| run.mb_per_sec).collect();
    (ops, rates.map(Spread::of))
}

fn average(label: &str, runs: &[Figures]) -> String {
    let (ops, rate) = spreads(runs);
    let rate = rate.map_or_else(String::new, |rate| {
        format!("; {:6.1} (\u{b1} {:.1}) MB/sec", rate.mean, rate.half_width)
    });
    format!("{label} : {} (\u{b1} {}) ops/sec{rate}\n", ops.mean as i64, ops.half_width as i64)
}

fn interval(name: &str, runs: &[Figures]) -> String {
    let (ops, rate) = spreads(runs);
    let bounds = |spread: &Spread| (spread.mean - spread.half_width, spread.mean + spread.half_width);
    let (low, high) = bounds(&ops);
    let rate = rate.map_or_else(String::new, |rate| {
        let (low, high) = bounds(&rate);
        format!("; ({low:.1}, {high:.1}) MB/sec")
    });
    format!("{name} [CI95 {} runs] : ({}, {}) ops/sec{rate}\n", runs.len(), low as i64, high as i64)
}

/// The line after each run from the second on.
pub fn after_repeat(name: &str, runs: &[Figures], interval_only: bool) -> String {
    if interval_only {
        return interval(name, runs);
    }
    average(&format!("{name} [AVG {} runs]", runs.len()), runs)
}

/// The lines after the last of several runs.
pub fn after_all_repeats(name: &str, runs: &[Figures], interval_only: bool) -> String {
    if interval_only {
        return interval(name, runs);
    }
    let (ops, rate) = spreads(runs);
    let rate = rate.map_or_else(String::new, |rate| format!("; {:6.1} MB/sec", rate.median));
    format!(
        "{}{name} [MEDIAN {} runs] : {} ops/sec{rate}\n",
        average(&format!("{name} [AVG    {} runs]", runs.len()), runs),
        runs.len(),
        ops.median as i64
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(micros_per_op: f64, ops_per_sec: f64, seconds: f64, ops: u64, rate: Option<f64>) -> Figures {
        Figures { ops, micros_per_op, ops_per_sec, seconds, mb_per_sec: rate }
    }

    /// The documented lines, to the byte (`db-bench DB3`).
    #[test]
    fn the_documented_lines_are_printed() {
        assert_eq!(
            line("fillrandom", &figures(4.102, 243_768.9, 8.205, 2_000_000, Some(236.2)), ""),
            "fillrandom   :       4.102 micros/op 243768 ops/sec 8.205 seconds 2000000 operations;  236.2 MB/s\n"
        );
        let found = "(5056784 of 8000000 found)\n";
        assert_eq!(
            line("readrandom", &figures(9.6, 820_512.0, 9.75, 8_000_000, Some(57.4)), found),
            "readrandom   :       9.600 micros/op 820512 ops/sec 9.750 seconds 8000000 operations;   57.4 MB/s \
             (5056784 of 8000000 found)\n\n"
        );
        assert_eq!(
            line("compact", &figures(4_183_211.0, 0.239, 4.183, 1, None), ""),
            "compact      : 4183211.000 micros/op 0 ops/sec 4.183 seconds 1 operations;\n"
        );
    }

    /// Repeats: mean and 95 % interval, median, interval only.
    #[test]
    fn repeats_are_summed_up() {
        let runs: Vec<Figures> =
            [100.0, 200.0, 300.0].iter().map(|ops| figures(1.0, *ops, 1.0, 1, Some(*ops / 10.0))).collect();
        assert_eq!(
            after_repeat("x", &runs, false),
            "x [AVG 3 runs] : 200 (\u{b1} 113) ops/sec;   20.0 (\u{b1} 11.3) MB/sec\n"
        );
        assert_eq!(
            after_all_repeats("x", &runs, false),
            "x [AVG    3 runs] : 200 (\u{b1} 113) ops/sec;   20.0 (\u{b1} 11.3) MB/sec\n\
             x [MEDIAN 3 runs] : 200 ops/sec;   20.0 MB/sec\n"
        );
        assert_eq!(
            after_repeat("x", &runs, true),
            "x [CI95 3 runs] : (86, 313) ops/sec; (8.7, 31.3) MB/sec\n"
        );
    }
}
