//! [`Figure`]: one line of the runner, and how its ratio comes about.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::sample::{mad, median};

/// Which way a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// A rate.
    More,
    /// A time, bytes, a count.
    Less,
}

/// One figure.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// Its name in the specification.
    pub id: &'static str,
    /// Median of the design that is compared with, in `unit`; null where there is none.
    pub baseline: Option<f64>,
    /// Median of ours, in `unit`.
    pub ours: Option<f64>,
    /// How much better ours is; null if it could not be measured.
    pub ratio: Option<f64>,
    /// What the ratio has to reach; null for information.
    pub reach: Option<f64>,
    /// What `baseline` and `ours` are counted in.
    pub unit: &'static str,
    /// Everything else that belongs to the figure.
    pub detail: Map<String, Value>,
}

impl Figure {
    /// Ours against a baseline.
    pub fn pair(
        id: &'static str,
        unit: &'static str,
        better: Better,
        baseline: &[f64],
        ours: &[f64],
    ) -> Self {
        let (old, new) = (median(baseline), median(ours));
        let ratio = match better {
            Better::More => new / old,
            Better::Less => old / new,
        };
        let mut figure = Self::bare(id, unit, Some(old), Some(new), Some(ratio));
        figure.add("samples", ours.len());
        figure.add("mad", json!({"baseline": mad(baseline), "ours": mad(ours)}));
        figure
    }

    /// Ours against a limit that it must not exceed.
    pub fn limit(id: &'static str, unit: &'static str, limit: f64, ours: &[f64]) -> Self {
        let new = median(ours);
        let mut figure = Self::bare(id, unit, None, Some(new), Some(limit / new)).reach(1.0);
        figure.add("limit", limit);
        figure.add("samples", ours.len());
        figure.add("mad", json!({"baseline": null, "ours": mad(ours)}));
        figure
    }

    /// A count that must be zero: its ratio is 1 if it is, else 0.
    pub fn zero(id: &'static str, unit: &'static str, ours: f64) -> Self {
        let ratio = if ours == 0.0 { 1.0 } else { 0.0 };
        Self::bare(id, unit, None, Some(ours), Some(ratio)).reach(1.0).with("limit", 0)
    }

    /// A figure that could not be measured, or whose measurement gave a wrong value.
    pub fn failed(id: &'static str, unit: &'static str, error: impl ToString) -> Self {
        let mut figure = Self::bare(id, unit, None, None, None);
        figure.add("error", error.to_string());
        figure
    }

    fn bare(
        id: &'static str,
        unit: &'static str,
        baseline: Option<f64>,
        ours: Option<f64>,
        ratio: Option<f64>,
    ) -> Self {
        // A ratio to a median of 0 is none.
        let ratio = ratio.filter(|ratio| ratio.is_finite());
        let mut figure = Self { id, baseline, ours, ratio, reach: None, unit, detail: Map::new() };
        if ratio.is_none() {
            figure.add("error", "the median is 0");
        }
        figure
    }

    /// Sets what the ratio has to reach.
    pub fn reach(mut self, reach: f64) -> Self {
        self.reach = Some(reach);
        self
    }

    /// Adds to the detail.
    pub fn add(&mut self, name: &str, value: impl Into<Value>) {
        self.detail.insert(name.to_owned(), value.into());
    }

    /// [`add`](Self::add), in a chain.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.add(name, value);
        self
    }

    /// Whether it could not be measured.
    pub fn is_failed(&self) -> bool {
        self.ratio.is_none()
    }

    /// Whether the ratio reaches what it has to; null where nothing has to be reached.
    pub fn met(&self) -> Value {
        match (self.ratio, self.reach) {
            (Some(ratio), Some(reach)) => json!(ratio >= reach),
            (None, Some(_)) => json!(false),
            (_, None) => Value::Null,
        }
    }

    /// Writes one line: JSON, or a row of a table.
    pub fn print(&self, out: &mut impl Write, as_json: bool) -> io::Result<()> {
        if as_json {
            serde_json::to_writer(&mut *out, self)?;
            writeln!(out)?;
        } else {
            let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
            writeln!(
                out,
                "{:<14} {:>14} {:>14} {:>9} {:>9}  {}",
                self.id,
                number(self.baseline),
                number(self.ours),
                number(self.ratio),
                number(self.reach),
                self.unit
            )?;
        }
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_better_in_every_ratio() {
        let rate = Figure::pair("x", "op/s", Better::More, &[10.0], &[20.0]).reach(1.99);
        let time = Figure::pair("x", "us", Better::Less, &[20.0], &[10.0]).reach(2.5);
        assert_eq!((rate.ratio, time.ratio), (Some(2.0), Some(2.0)));
        assert_eq!((rate.met(), time.met()), (json!(true), json!(false)));
        assert_eq!(Figure::limit("x", "us", 30.0, &[10.0]).ratio, Some(3.0));
    }

    #[test]
    fn what_cannot_be_measured_is_a_line_too() {
        let mut out = Vec::new();
        Figure::failed("B3", "us", "no thread").print(&mut out, true).unwrap();
        let line: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(line["ratio"], Value::Null);
        assert_eq!(line["detail"]["error"], "no thread");
        assert!(Figure::pair("x", "us", Better::Less, &[1.0], &[0.0]).is_failed());
    }
}
