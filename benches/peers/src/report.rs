//! Records of many runs as one table of medians and ratios, and as a chart.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use plotters::prelude::*;

use crate::engine::{Outcome, Which};
use crate::workload::{Record, Workload};

/// Records by workload and engine.
type Groups<'a> = BTreeMap<(usize, Which), Vec<&'a Record>>;

fn groups(records: &[Record]) -> Groups<'_> {
    let mut groups = Groups::new();
    let workloads = <Workload as clap::ValueEnum>::value_variants();
    let engines = <Which as clap::ValueEnum>::value_variants();
    for record in records {
        let workload = workloads.iter().position(|workload| workload.name() == record.workload);
        let engine = engines.iter().find(|engine| engine.name() == record.engine);
        if let (Some(workload), Some(&engine)) = (workload, engine) {
            groups.entry((workload, engine)).or_default().push(record);
        }
    }
    groups
}

/// The middle of what `value` gives for these records, or between the two in the middle; none if it gives none.
fn median(records: &[&Record], value: impl Fn(&Record) -> Option<f64>) -> Option<f64> {
    let mut values: Vec<f64> = records.iter().filter_map(|record| value(record)).collect();
    values.sort_by(f64::total_cmp);
    let (last, above) = (values.len().checked_sub(1)? / 2, values.len() / 2);
    Some((values[last] + values[above]) / 2.0)
}

/// A Markdown table: one line for each workload and engine, medians, and ours over theirs.
pub fn table(records: &[Record]) -> String {
    let groups = groups(records);
    let mut text = String::from(
        "| workload | engine | runs | ops/s | ours / theirs | cv | P99.99, us | CPU s | written, MiB | peak anonymous, MiB | settle, s |\n\
         |---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for ((workload, engine), records) in &groups {
        let rate = median(records, |record| Some(record.rate)).unwrap_or_default();
        let ours = groups
            .get(&(*workload, Which::Sluicedb))
            .and_then(|ours| median(ours, |record| Some(record.rate)));
        let ratio = match ours {
            Some(ours) if *engine != Which::Sluicedb => format!("{:.2}", ours / rate),
            _ => "-".to_owned(),
        };
        let or_dash = |value: Option<f64>, digits: usize| {
            value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
        };
        let mib = |bytes: u64| Some(bytes as f64 / f64::from(1 << 20));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {rate:.0} | {ratio} | {} | {} | {} | {} | {} | {} |",
            records[0].workload,
            engine.name(),
            records.len(),
            or_dash(median(records, |record| record.cv), 2),
            or_dash(median(records, |record| record.p9999_us), 0),
            or_dash(median(records, |record| Some(record.cpu_s)), 1),
            or_dash(median(records, |record| mib(record.written)), 0),
            or_dash(median(records, |record| mib(record.anonymous)), 0),
            or_dash(median(records, |record| record.settle_s), 1),
        );
    }
    text
}

/// Draws the rates as bars, each workload's against the fastest engine's.
pub fn chart(records: &[Record], path: &Path) -> Outcome<()> {
    let groups = groups(records);
    let workloads: Vec<usize> = groups
        .keys()
        .map(|(workload, _)| *workload)
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect();
    let root = SVGBackend::new(path, (320 + 90 * workloads.len() as u32, 360)).into_drawing_area();
    root.fill(&WHITE)?;
    let engines = <Which as clap::ValueEnum>::value_variants();
    let label = |workload: usize| {
        groups
            .iter()
            .find(|((at, _), _)| *at == workload)
            .map_or(String::new(), |(_, found)| found[0].workload.clone())
    };
    let mut chart = ChartBuilder::on(&root)
        .caption("operations per second, share of the fastest", ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(50)
        .build_cartesian_2d(0.0..workloads.len() as f64 + 1.3, 0.0..1.15)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .y_label_formatter(&|share| format!("{:.0} %", share * 100.0))
        .draw()?;
    for (index, engine) in engines.iter().enumerate() {
        let color = Palette99::pick(index).to_rgba();
        let bars = workloads.iter().enumerate().filter_map(|(slot, &workload)| {
            let rate = |engine| median(groups.get(&(workload, engine))?, |record| Some(record.rate));
            let fastest = engines.iter().filter_map(|&engine| rate(engine)).fold(0.0, f64::max);
            let left = slot as f64 + 0.1 + 0.8 * index as f64 / engines.len() as f64;
            let right = left + 0.75 / engines.len() as f64;
            Some(Rectangle::new([(left, 0.0), (right, rate(*engine)? / fastest)], color.filled()))
        });
        chart
            .draw_series(bars)?
            .label(engine.name())
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 10, y + 5)], color.filled()));
    }
    chart.draw_series(workloads.iter().enumerate().map(|(slot, &workload)| {
        Text::new(label(workload), (slot as f64 + 0.12, 1.08), ("sans-serif", 11))
    }))?;
    chart.configure_series_labels().border_style(BLACK).background_style(WHITE.filled()).draw()?;
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(engine: &str, rate: f64) -> Record {
        Record {
            engine: engine.to_owned(),
            workload: "fillseq".to_owned(),
            operations: 1,
            rate,
            cv: None,
            p9999_us: None,
            cpu_s: 1.0,
            written: 1 << 20,
            anonymous: 2 << 20,
            settle_s: None,
        }
    }

    #[test]
    fn a_line_holds_the_median_and_the_ratio_of_medians() {
        let records = [
            record("sluicedb", 10.0),
            record("sluicedb", 300.0),
            record("sluicedb", 200.0),
            record("fjall", 80.0),
            record("fjall", 120.0),
        ];
        let table = table(&records);
        assert!(table.contains("| fillseq | sluicedb | 3 | 200 | - |"), "{table}");
        assert!(table.contains("| fillseq | fjall | 2 | 100 | 2.00 |"), "{table}");
    }

    #[test]
    fn a_chart_names_engines_and_workloads() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("chart.svg");
        chart(&[record("sluicedb", 2.0), record("fjall", 1.0)], &path).expect("a chart");
        let text = std::fs::read_to_string(path).expect("a file");
        assert!(["fillseq", "sluicedb", "fjall"].iter().all(|name| text.contains(name)), "{text}");
    }
}
