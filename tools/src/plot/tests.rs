//! Pictures: what is in them, for runs of every shape.

use super::{Theme, html, panels, svg, theme};
use crate::runs::{Detail, RunRecord, Sample, Series};

/// A run of `seconds` samples with everything in them, stopped in its tenth second.
fn full(name: &str, seconds: u32) -> RunRecord {
    let sample = |at: u32| {
        let wave = f64::from(at % 7) / 7.0;
        Sample {
            at: f64::from(at),
            seconds: 1.0,
            ops: 100_000 + 1000 * u64::from(at % 13),
            part: false,
            detail: Some(Detail {
                latency: [Some(3.0), Some(20.0 + wave), Some(5000.0 * (1.0 + wave))],
                memory: [wave * 1e8, 1e8],
                quota: 2.5e8,
                step: if at == 10 { 100.0 } else { wave * 90.0 },
                rate: at.is_multiple_of(2).then_some(1e7),
                stopped: if at == 10 { 0.5 } else { 0.0 },
                l0: wave * 9.0,
                pending: wave * 1e9,
                rss: 1e9,
                written: f64::from(at) * 3e8,
            }),
        }
    };
    let samples = (1..=seconds).map(sample).collect();
    let series = vec![Series { bench: "fillrandom".to_owned(), samples, summary: None }];
    let argv = ["--benchmarks=fillrandom", "--db=/tmp/a b"].map(str::to_owned).to_vec();
    RunRecord { name: name.to_owned(), argv: Some(argv), delay_start_percent: Some(70.0), series }
}

fn titles(runs: &[RunRecord]) -> Vec<String> {
    panels::of(runs).panels.into_iter().map(|panel| panel.title).collect()
}

/// One run has all panels, several have those that can be laid over each other, and bare rows have one.
#[test]
fn panels_follow_from_what_a_run_has() {
    assert_eq!(titles(&[full("a", 20)]).len(), 9);
    let both = titles(&[full("a", 20), full("b", 20)]);
    assert_eq!(both[..2], ["ops/s", "memtables, MiB"]);
    let mut bare = full("a", 20);
    bare.series[0].samples.iter_mut().for_each(|sample| sample.detail = None);
    assert_eq!(titles(&[bare]), ["ops/s"]);
}

/// The drawing stops the eye where writers were stopped, and where the quota is; a gap in a line is no zero.
#[test]
fn the_picture_shows_limits_stops_and_gaps() {
    let picture = panels::of(&[full("a", 20)]);
    let find = |title: &str| picture.panels.iter().find(|panel| panel.title.starts_with(title)).unwrap();
    assert_eq!(find("delay step").shades, [(9.0, 10.0, 0.5)]);
    let levels: Vec<&str> = find("memtables").levels.iter().map(|level| level.label.as_str()).collect();
    assert_eq!(levels, ["delay 70 %", "quota"]);
    let rate = &find("rate while delayed").lines[0].points;
    assert!(rate[0].1.is_nan() && rate[1].1.is_finite(), "{rate:?}");
    let drawn = svg::draw(&picture, Theme::Auto).unwrap();
    assert!(drawn.starts_with("<svg width=\"960\""), "{}", &drawn[..80]);
    assert!(drawn.contains("writers stopped") && drawn.contains("quota"));
    assert!(!drawn.contains("NaN") && !drawn.contains("inf"));
}

/// Each colour that is drawn has a dark twin, so nothing is dark on dark.
#[test]
fn every_colour_has_a_dark_twin() {
    let drawn = svg::draw(&panels::of(&[full("a", 20), full("b", 20)]), Theme::Auto).unwrap();
    let (style, body) = drawn.split_once("</style>").unwrap();
    assert!(style.contains("prefers-color-scheme:dark"));
    for attribute in ["fill=\"#", "stroke=\"#"] {
        for part in body.split(attribute).skip(1) {
            let rule = format!("{attribute}{}\"", &part[..6]);
            assert!(style.contains(&rule), "{rule} is not in the style sheet");
        }
    }
    let plain = svg::draw(&panels::of(&[full("a", 20)]), Theme::Light).unwrap();
    assert!(!plain.contains(&theme::PAPER.dark_hex()));
}

/// Runs of hours: neighbours become one point, counts are kept, the worst latency too, and the file stays small.
#[test]
fn long_runs_are_merged() {
    let run = full("a", 30_000);
    let picture = panels::of(std::slice::from_ref(&run));
    assert!(
        picture.subtitle.ends_with("each point is 30 intervals: the worst of them"),
        "{}",
        picture.subtitle
    );
    let drawn = svg::draw(&picture, Theme::Auto).unwrap();
    assert!(drawn.len() < 200_000, "{} bytes", drawn.len());
    let mean: f64 = picture.panels[0].lines[0].points.iter().map(|point| point.1).sum::<f64>() / 1000.0;
    let rows = run.series[0].rates();
    let truth = rows.iter().sum::<f64>() / rows.len() as f64;
    assert!((mean / truth - 1.0).abs() < 1e-6, "{mean} and {truth}");
}

/// The page holds drawing, numbers, script and command line, asks no other place for anything, and text from outside stays text.
#[test]
fn the_page_needs_nothing_else() {
    let mut run = full("</script><b>", 20);
    run.series[0].bench = "</script><i>".to_owned();
    let page = html::page(&[run, full("b", 20)], Theme::Auto).unwrap();
    assert_eq!(page.matches("</script>").count(), 2, "only its own elements end");
    assert!(page.contains("Reproduce") && page.contains("db_bench --benchmarks=fillrandom '--db=/tmp/a b'"));
    let outside = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!outside.contains("http:") && !outside.contains("https:") && !outside.contains("url(http"));
    let data = page.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0;
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["panels"][0]["series"].as_array().unwrap().len(), 2);
}

/// Nothing at all, one sample, and several benchmarks behind each other can be drawn.
#[test]
fn small_and_several_can_be_drawn() {
    let mut run = full("a", 1);
    assert!(svg::draw(&panels::of(std::slice::from_ref(&run)), Theme::Dark).is_ok());
    assert!(svg::draw(&panels::of(&[RunRecord::default()]), Theme::Auto).is_ok());
    let mut second = run.series[0].clone();
    second.bench = "overwrite".to_owned();
    run.series.push(second);
    let picture = panels::of(&[run]);
    assert_eq!(picture.begins, [(0.0, "fillrandom".to_owned()), (1.0, "overwrite".to_owned())]);
    assert!(svg::draw(&picture, Theme::Auto).unwrap().contains("overwrite"));
}
