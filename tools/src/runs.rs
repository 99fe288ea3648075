//! Recorded runs: what `--json` and `--report_file` of db_bench wrote, read back.
//!
//! Owns the reading of both forms into one series of [`Sample`]s a benchmark. Fields that a form or a version lacks are
//! absent, never zero. Must not know how runs are compared ([`compare`]) or drawn ([`crate::plot`]).

pub mod bootstrap;
pub mod compare;
#[cfg(test)]
mod tests;

use std::path::Path;

use serde_json::Value;

/// One interval of a benchmark.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample {
    /// Seconds since the benchmark began, at the interval's end.
    pub at: f64,
    /// The interval's length in seconds.
    pub seconds: f64,
    /// Operations in the interval.
    pub ops: u64,
    /// It is the last part of an interval: shown, but no row of the statistics.
    pub part: bool,
    /// What only the data file has.
    pub detail: Option<Detail>,
}

/// The part of a sample that a CSV file lacks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Detail {
    /// Latencies in microseconds: median, 99 of 100, greatest.
    pub latency: [Option<f64>; 3],
    /// Bytes of memtables: mutable; sealed and flushing.
    pub memory: [f64; 2],
    /// The quota in bytes; 0 = off.
    pub quota: f64,
    /// 0 normal, 1 to 99 delayed, 100 stopped.
    pub step: f64,
    /// Bytes per second that delayed writers have; absent while nothing delays.
    pub rate: Option<f64>,
    /// Share of the interval spent stopped, 0 to 1.
    pub stopped: f64,
    /// Files in level 0, over all column families.
    pub l0: f64,
    /// Bytes that compactions owe.
    pub pending: f64,
    /// Resident bytes of the process.
    pub rss: f64,
    /// Bytes that the process has written to the device so far.
    pub written: f64,
}

/// One benchmark of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// Its name; empty in a CSV file.
    pub bench: String,
    /// Its intervals, in order.
    pub samples: Vec<Sample>,
    /// The `summary` object, if there is one.
    pub summary: Option<Value>,
}

/// One recorded run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunRecord {
    /// The file's name.
    pub name: String,
    /// The command line of db_bench, if it was recorded.
    pub argv: Option<Vec<String>>,
    /// Where the delay starts, in percent of the quota, if it was recorded.
    pub delay_start_percent: Option<f64>,
    /// Its benchmarks, in order; one that ran again has several.
    pub series: Vec<Series>,
}

impl Series {
    /// Operations per second of each whole interval: the rows of the report file. Intervals are whole seconds; that a look came
    /// some milliseconds late does not change the row.
    pub fn rates(&self) -> Vec<f64> {
        let whole = self.samples.iter().filter(|sample| !sample.part);
        whole.map(|sample| sample.ops as f64 / sample.seconds.round().max(1.0)).collect()
    }
}

impl RunRecord {
    /// Reads a file of either form; which one it is shows in its first byte.
    ///
    /// # Errors
    ///
    /// The message for the user, with file and line.
    pub fn read(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let bytes = std::fs::read(path).map_err(|error| format!("IO error: cannot read {shown}: {error}"))?;
        let text = std::str::from_utf8(&bytes).map_err(|error| {
            format!("Corruption: {shown} is no text: byte {} is not UTF-8", error.valid_up_to())
        })?;
        let mut run = if text.trim_start().starts_with('{') { from_json(text) } else { from_csv(text) }
            .map_err(|(line, wrong)| format!("Corruption: {shown}, line {line}: {wrong}"))?;
        run.name =
            path.file_name().map_or_else(|| shown.to_string(), |name| name.to_string_lossy().into_owned());
        run.series.retain(|series| !series.samples.is_empty() || series.summary.is_some());
        if run.series.is_empty() {
            return Err(format!(
                "Corruption: {shown} holds no sample: db_bench writes them with --json=FILE, and rows with \
                 --report_interval_seconds=1"
            ));
        }
        Ok(run)
    }
}

/// A line's number and what is wrong with it.
type Wrong = (usize, String);

/// The report file of db_bench: `secs_elapsed,interval_qps`, or the same behind the benchmark's name. What its header calls a
/// rate is the number of operations in the interval.
fn from_csv(text: &str) -> Result<RunRecord, Wrong> {
    let mut run = RunRecord::default();
    let mut lines = text.lines().enumerate();
    let named = match lines.next().map(|(_, header)| header.trim_end()) {
        Some("secs_elapsed,interval_qps") => false,
        Some("benchmark,secs_elapsed,interval_qps") => true,
        other => {
            let found = other.unwrap_or_default().escape_debug();
            return Err((
                1,
                format!("found '{found}', expected the header secs_elapsed,interval_qps or a JSON object"),
            ));
        }
    };
    for (at, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = || (at + 1, format!("'{}' is no row of a report", line.escape_debug()));
        let (bench, row) = if named { line.split_once(',').ok_or_else(wrong)? } else { ("", line) };
        let (seconds, ops) = row.trim_end().split_once(',').ok_or_else(wrong)?;
        let seconds: u32 = seconds.parse().map_err(|_| wrong())?;
        let ops: u64 = ops.parse().map_err(|_| wrong())?;
        run.append(bench, f64::from(seconds), false, ops, None);
    }
    Ok(run)
}

/// The data file of db_bench: an object a line.
fn from_json(text: &str) -> Result<RunRecord, Wrong> {
    let mut run = RunRecord::default();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let object: Value =
            serde_json::from_str(line).map_err(|error| (at + 1, format!("no JSON: {error}")))?;
        run.object(&object).map_err(|wrong| (at + 1, wrong))?;
    }
    Ok(run)
}

impl RunRecord {
    fn object(&mut self, object: &Value) -> Result<(), String> {
        match object["t"].as_str() {
            Some("config") => {
                let words = object["argv"].as_array().map(|words| words.iter());
                let word = |word: &Value| word.as_str().unwrap_or_default().to_owned();
                self.argv = words.map(|words| words.map(word).collect());
                self.delay_start_percent = object["flags"]["start_delay_percent"].as_f64();
            }
            Some("sample") => {
                let at = object["s"].as_f64().filter(|at| at.is_finite() && *at >= 0.0);
                let ops = object["ops"].as_u64();
                let (Some(at), Some(ops)) = (at, ops) else {
                    return Err("a sample without the numbers 's' and 'ops'".to_owned());
                };
                let bench = object["bench"].as_str().unwrap_or_default();
                let part = object["part"] == true;
                self.append(bench, at, part, ops, Some(object));
            }
            Some("summary") => self.summary(object),
            Some(_) => {}
            None => return Err("an object without 't'".to_owned()),
        }
        Ok(())
    }

    fn append(&mut self, bench: &str, at: f64, part: bool, ops: u64, object: Option<&Value>) {
        let goes_on = self.series.last().is_some_and(|series| {
            series.bench == bench
                && series.summary.is_none()
                && series.samples.last().is_none_or(|last| last.at < at)
        });
        if !goes_on {
            self.series.push(Series { bench: bench.to_owned(), ..Series::default() });
        }
        let Some(series) = self.series.last_mut() else { return };
        let seconds = at - series.samples.last().map_or(0.0, |last| last.at);
        let detail = object.map(|object| detail(object, seconds));
        series.samples.push(Sample { at, seconds, ops, part, detail });
    }

    fn summary(&mut self, object: &Value) {
        let bench = object["bench"].as_str().unwrap_or_default();
        let last = self.series.last_mut().filter(|last| last.bench == bench && last.summary.is_none());
        match last {
            Some(series) => series.summary = Some(object.clone()),
            None => self.series.push(Series {
                bench: bench.to_owned(),
                summary: Some(object.clone()),
                ..Series::default()
            }),
        }
    }
}

fn detail(object: &Value, seconds: f64) -> Detail {
    let wbm = &object["wbm"];
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let stopped = number(&object["stop_us"]) / (seconds * 1e6).max(1.0);
    let state = wbm["state"].as_str().unwrap_or_default();
    Detail {
        latency: ["p50", "p99", "max"].map(|name| object[name].as_f64()),
        memory: [number(&wbm["mutable"]), number(&wbm["sealed"]) + number(&wbm["flushing"])],
        quota: number(&wbm["quota"]),
        step: match state {
            "stopped" => 100.0,
            "delayed" => number(&wbm["step"]),
            _ => 0.0,
        },
        rate: wbm["rate"].as_f64().filter(|rate| *rate > 0.0 && state == "delayed"),
        stopped: stopped.clamp(0.0, 1.0),
        l0: object["l0"].as_array().map_or(0.0, |files| files.iter().map(number).sum()),
        pending: number(&object["pending_bytes"]),
        rss: number(&object["rss"]),
        written: number(&object["io_w"]),
    }
}
