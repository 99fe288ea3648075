//! What a picture shows: panels under each other on one axis of time.
//!
//! Owns which panels there are and what is in them: the full set for one run, one line a run in each for several.
//! Panels for which no run has data are left out. Must not know pixels.

use super::theme::{self, Ink};
use crate::runs::{Detail, RunRecord, Sample};

const MIB: f64 = 1_048_576.0;
/// Points that a line has at most; longer runs have neighbours merged.
const MOST_POINTS: usize = 1000;

/// A picture, before it has pixels.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Picture {
    /// The line at the top.
    pub title: String,
    /// A second line, smaller.
    pub subtitle: String,
    /// Seconds that the axis shows.
    pub seconds: f64,
    /// Times at which a benchmark begins, with its name.
    pub begins: Vec<(f64, String)>,
    /// From top to bottom.
    pub panels: Vec<Panel>,
    /// Name, colour and command line of each run.
    pub runs: Vec<(String, Ink, Option<String>)>,
}

/// One panel.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Panel {
    /// What is shown, with its unit.
    pub title: String,
    /// Its share of the height.
    pub weight: f64,
    /// Powers of ten.
    pub log: bool,
    /// The value that the axis reaches at least.
    pub at_least: f64,
    /// Filled bands: drawn first.
    pub bands: Vec<Band>,
    /// Lines.
    pub lines: Vec<Line>,
    /// Level lines across the panel.
    pub levels: Vec<Level>,
    /// Intervals to shade: from, to, how much of it.
    pub shades: Vec<(f64, f64, f64)>,
}

/// A filled band between two values at each time.
#[derive(Debug, Clone, PartialEq)]
pub struct Band {
    /// Its name in the legend; empty = not there.
    pub label: String,
    /// Its colour.
    pub ink: Ink,
    /// How much it covers, 0 to 1.
    pub opacity: f64,
    /// Time, lower and upper value.
    pub points: Vec<(f64, f64, f64)>,
}

/// A line.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its name in the legend; empty = not there.
    pub label: String,
    /// Its colour.
    pub ink: Ink,
    /// Time and value; a value that is no number is a gap.
    pub points: Vec<(f64, f64)>,
}

/// A level line.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    /// What stands at its right end.
    pub label: String,
    /// Its colour.
    pub ink: Ink,
    /// Its value.
    pub value: f64,
}

/// The picture of `runs`: in detail for one, over each other for several.
pub fn of(runs: &[RunRecord]) -> Picture {
    let tracks: Vec<Track> = runs.iter().map(track).collect();
    let mut picture = match &tracks[..] {
        [track] => detailed(&runs[0], track),
        _ => together(runs, &tracks),
    };
    picture.panels.retain(|panel| !(panel.lines.is_empty() && panel.bands.is_empty()));
    picture.seconds = tracks.iter().flat_map(|track| &track.samples).map(|(at, _)| *at).fold(1.0, f64::max);
    let command = |argv: &Vec<String>| {
        argv.iter().fold("db_bench".to_owned(), |line, word| format!("{line} {}", shell_word(word)))
    };
    let inks = theme::RUNS.iter().copied().cycle();
    picture.runs = runs
        .iter()
        .zip(inks)
        .map(|(run, ink)| (run.name.clone(), ink, run.argv.as_ref().map(command)))
        .collect();
    picture
}

/// A word as a shell reads it back.
fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// A run on one axis of time: its benchmarks behind each other, neighbours merged where there are too many.
struct Track {
    samples: Vec<(f64, Sample)>,
    begins: Vec<(f64, String)>,
    merged: usize,
}

fn track(run: &RunRecord) -> Track {
    let total: usize = run.series.iter().map(|series| series.samples.len()).sum();
    let merged = total.div_ceil(MOST_POINTS).max(1);
    let (mut samples, mut begins, mut offset) = (Vec::new(), Vec::new(), 0.0);
    for series in run.series.iter().filter(|series| !series.samples.is_empty()) {
        begins.push((offset, series.bench.clone()));
        for neighbours in series.samples.chunks(merged) {
            let sample = merge(neighbours);
            // The rest of an interval is too short for a rate that can be compared.
            if !(sample.part && sample.seconds < 0.5) {
                samples.push((offset + sample.at, sample));
            }
        }
        offset += series.samples.last().map_or(0.0, |last| last.at);
    }
    Track { samples, begins, merged }
}

/// Neighbours as one: sums of counts, the worst of each latency, the most of each amount.
fn merge(neighbours: &[Sample]) -> Sample {
    let mut merged = neighbours[0].clone();
    for next in &neighbours[1..] {
        merged.at = next.at;
        merged.ops += next.ops;
        if let (Some(into), Some(from)) = (&mut merged.detail, &next.detail) {
            let share = next.seconds / (merged.seconds + next.seconds).max(f64::MIN_POSITIVE);
            for (into, from) in into.latency.iter_mut().zip(&from.latency) {
                *into = [*into, *from].into_iter().flatten().reduce(f64::max);
            }
            if from.memory.iter().sum::<f64>() > into.memory.iter().sum() {
                into.memory = from.memory;
            }
            into.stopped += (from.stopped - into.stopped) * share;
            into.step = into.step.max(from.step);
            into.rate = [into.rate, from.rate].into_iter().flatten().reduce(f64::min);
            into.l0 = into.l0.max(from.l0);
            into.pending = into.pending.max(from.pending);
            into.rss = into.rss.max(from.rss);
            into.written = from.written;
        }
        merged.seconds += next.seconds;
    }
    merged
}

fn ops(sample: &Sample) -> f64 {
    sample.ops as f64 / sample.seconds.max(f64::MIN_POSITIVE)
}

impl Track {
    /// A line of what `value` takes from each sample.
    fn line(&self, label: &str, ink: Ink, value: impl Fn(&Detail) -> Option<f64>) -> Vec<Line> {
        let points: Vec<(f64, f64)> = self
            .samples
            .iter()
            .filter_map(|(at, sample)| Some((*at, value(sample.detail.as_ref()?)?)))
            .collect();
        let line = Line { label: label.to_owned(), ink, points };
        if line.points.is_empty() { Vec::new() } else { vec![line] }
    }

    fn rate_line(&self, label: &str, ink: Ink) -> Line {
        let points = self.samples.iter().map(|(at, sample)| (*at, ops(sample))).collect();
        Line { label: label.to_owned(), ink, points }
    }

    /// Bytes written to the device, per second.
    fn written_line(&self, label: &str, ink: Ink) -> Vec<Line> {
        let points: Vec<(f64, f64)> = self
            .samples
            .windows(2)
            .filter_map(|pair| {
                let (before, now) = (pair[0].1.detail.as_ref()?, pair[1].1.detail.as_ref()?);
                let seconds = pair[1].1.seconds.max(f64::MIN_POSITIVE);
                Some((pair[1].0, (now.written - before.written).max(0.0) / seconds / MIB))
            })
            .collect();
        if points.is_empty() { Vec::new() } else { vec![Line { label: label.to_owned(), ink, points }] }
    }

    /// Intervals in which writers were stopped.
    fn stops(&self) -> Vec<(f64, f64, f64)> {
        let stopped = |(at, sample): &(f64, Sample)| {
            let share = sample.detail.as_ref()?.stopped;
            (share > 0.0).then_some((at - sample.seconds, *at, share))
        };
        self.samples.iter().filter_map(stopped).collect()
    }

    fn quota(&self) -> f64 {
        self.samples.iter().filter_map(|(_, sample)| Some(sample.detail.as_ref()?.quota)).fold(0.0, f64::max)
    }

    /// Bands of memory by state, the second on the first.
    fn memory(&self) -> Vec<Band> {
        let points = |from: fn(&[f64; 2]) -> (f64, f64)| -> Vec<(f64, f64, f64)> {
            let point = |(at, sample): &(f64, Sample)| {
                let (low, high) = from(&sample.detail.as_ref()?.memory);
                Some((*at, low / MIB, high / MIB))
            };
            self.samples.iter().filter_map(point).collect()
        };
        let band = |label: &str, ink, points| Band { label: label.to_owned(), ink, opacity: 0.55, points };
        let bands = [
            band("mutable", theme::BLUE, points(|m| (0.0, m[0]))),
            band("sealed and flushing", theme::ORANGE, points(|m| (m[0], m[0] + m[1]))),
        ];
        bands.into_iter().filter(|band| !band.points.is_empty()).collect()
    }
}

fn detailed(run: &RunRecord, track: &Track) -> Picture {
    let panel =
        |title: &str, weight, lines| Panel { title: title.to_owned(), weight, lines, ..Panel::default() };
    let start = run.delay_start_percent.unwrap_or(70.0);
    let mut speed = panel("ops/s", 1.6, vec![track.rate_line("", theme::BLUE)]);
    let figures = spread(run);
    if let Some((mean, std)) = figures {
        let end = track.samples.last().map_or(0.0, |(at, _)| *at);
        let (low, high) = ((mean - std).max(0.0), mean + std);
        let points = vec![(0.0, low, high), (end, low, high)];
        speed.bands.push(Band { label: "mean +- 1 std".to_owned(), ink: theme::BLUE, opacity: 0.12, points });
        speed.levels.push(Level { label: "mean".to_owned(), ink: theme::MUTED, value: mean });
    }
    let quota = track.quota() / MIB;
    let mut memory = panel("memtables, MiB", 1.3, Vec::new());
    memory.bands = track.memory();
    if quota > 0.0 && !memory.bands.is_empty() {
        let delay = quota * start / 100.0;
        memory.levels.push(Level { label: format!("delay {start} %"), ink: theme::PURPLE, value: delay });
        memory.levels.push(Level { label: "quota".to_owned(), ink: theme::RED, value: quota });
    }
    let mut step = panel(
        "delay step (0 = full speed, 100 = stopped)",
        0.9,
        track.line("", theme::PURPLE, |d| Some(d.step)),
    );
    (step.at_least, step.shades) = (95.0, track.stops());
    let rate = track.line("", theme::TEAL, |d| Some(d.rate.map_or(f64::NAN, |rate| rate / MIB)));
    let rate: Vec<Line> =
        rate.into_iter().filter(|line| line.points.iter().any(|point| point.1.is_finite())).collect();
    let mut latency = panel("latency, us", 1.1, Vec::new());
    latency.log = true;
    for (at, (label, ink)) in
        [("p50", theme::GREEN), ("p99", theme::ORANGE), ("max", theme::RED)].into_iter().enumerate()
    {
        latency.lines.extend(track.line(label, ink, |d| d.latency[at]));
    }
    let some = |line: Vec<Line>| {
        if line.iter().any(|l| l.points.iter().any(|p| p.1 > 0.0)) { line } else { Vec::new() }
    };
    let panels = vec![
        speed,
        memory,
        step,
        panel("rate while delayed, MiB/s", 0.8, rate),
        latency,
        panel("files in level 0", 0.8, track.line("", theme::GREEN, |d| Some(d.l0))),
        panel("compaction debt, MiB", 0.8, some(track.line("", theme::TEAL, |d| Some(d.pending / MIB)))),
        panel("process memory (RSS), MiB", 0.8, some(track.line("", theme::BLUE, |d| Some(d.rss / MIB)))),
        panel("written to the device, MiB/s", 0.8, some(track.written_line("", theme::ORANGE))),
    ];
    let about = figures.map_or_else(String::new, |(mean, std)| {
        let cv = if mean > 0.0 { std / mean } else { 0.0 };
        format!("mean {mean:.0} ops/s, std {std:.0}, cv {cv:.3}")
    });
    Picture {
        title: title(run),
        subtitle: with_merged(about, track.merged),
        begins: track.begins.clone(),
        panels,
        ..Picture::default()
    }
}

/// Mean and deviation of the whole run, over the rows that the statistics use.
fn spread(run: &RunRecord) -> Option<(f64, f64)> {
    // With several benchmarks one mean over all says nothing.
    let [series] = &run.series.iter().filter(|series| !series.samples.is_empty()).collect::<Vec<_>>()[..]
    else {
        return None;
    };
    let rates = series.rates();
    let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    let squares: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
    (rates.len() > 1).then(|| (mean, (squares / (rates.len() - 1) as f64).sqrt()))
}

fn title(run: &RunRecord) -> String {
    let names: Vec<&str> =
        run.series.iter().map(|series| series.bench.as_str()).filter(|name| !name.is_empty()).collect();
    if names.is_empty() { run.name.clone() } else { format!("{} ({})", names.join(", "), run.name) }
}

fn with_merged(text: String, merged: usize) -> String {
    if merged == 1 {
        text
    } else {
        format!("{text}; each point is {merged} intervals: the worst of them")
            .trim_start_matches("; ")
            .to_owned()
    }
}

fn together(runs: &[RunRecord], tracks: &[Track]) -> Picture {
    type Value = fn(&Detail) -> Option<f64>;
    let named: Vec<(&Track, &str, Ink)> = tracks
        .iter()
        .zip(runs)
        .zip(theme::RUNS.iter().copied().cycle())
        .map(|((track, run), ink)| (track, run.name.as_str(), ink))
        .collect();
    let panel = |title: &str, weight, log, value: Value| Panel {
        title: title.to_owned(),
        weight,
        log,
        lines: named.iter().flat_map(|(track, _, ink)| track.line("", *ink, value)).collect(),
        ..Panel::default()
    };
    let speed = Panel {
        title: "ops/s".to_owned(),
        weight: 1.6,
        lines: named.iter().map(|(track, name, ink)| track.rate_line(name, *ink)).collect(),
        ..Panel::default()
    };
    let mut step = panel("delay step (0 = full speed, 100 = stopped)", 0.9, false, |d| Some(d.step));
    step.at_least = 95.0;
    let panels = vec![
        speed,
        panel("memtables, MiB", 1.2, false, |d| Some(d.memory.iter().sum::<f64>() / MIB)),
        step,
        panel("p99 latency, us", 1.1, true, |d| d.latency[1]),
        panel("files in level 0", 0.8, false, |d| Some(d.l0)),
        panel("process memory (RSS), MiB", 0.8, false, |d| Some(d.rss / MIB)),
    ];
    let merged = tracks.iter().map(|track| track.merged).max().unwrap_or(1);
    let names: Vec<String> = runs.iter().map(title).collect();
    Picture {
        title: names.join("  and  "),
        subtitle: with_merged(String::new(), merged),
        panels,
        ..Picture::default()
    }
}
