//! The line that answers "how steady?": mean and spread of operations per interval.
//!
//! Computed over exactly the rows of the report file: zeros included, deviation with n - 1, the last part interval
//! left out. Must not know where rows come from.

/// Figures of a series of intervals.
#[derive(Debug, Clone, PartialEq)]
pub struct Steadiness {
    /// Rows.
    pub n: usize,
    /// Mean; `None` without rows.
    pub mean: Option<f64>,
    /// Standard deviation; `None` with fewer than two rows.
    pub std: Option<f64>,
    /// Deviation by mean.
    pub cv: Option<f64>,
    /// Least row.
    pub min: u64,
    /// The row that 1 % do not exceed.
    pub p1: u64,
    /// The row that 5 % do not exceed.
    pub p5: u64,
    /// Greatest row.
    pub max: u64,
    /// Rows without a single operation.
    pub zero_intervals: usize,
}

impl Steadiness {
    /// The figures of `rows`.
    pub fn of(rows: &[u64]) -> Self {
        let n = rows.len();
        let mean = (n > 0).then(|| rows.iter().sum::<u64>() as f64 / n as f64);
        let std = mean.filter(|_| n > 1).map(|mean| {
            let squares: f64 = rows.iter().map(|row| (*row as f64 - mean).powi(2)).sum();
            (squares / (n - 1) as f64).sqrt()
        });
        let mut sorted = rows.to_vec();
        sorted.sort_unstable();
        let rank = |p: f64| sorted.get(((n as f64 * p).ceil() as usize).max(1) - 1).copied().unwrap_or(0);
        Self {
            n,
            mean,
            std,
            cv: std.zip(mean).filter(|(_, mean)| *mean > 0.0).map(|(std, mean)| std / mean),
            min: rank(0.0),
            p1: rank(0.01),
            p5: rank(0.05),
            max: rank(1.0),
            zero_intervals: rows.iter().filter(|row| **row == 0).count(),
        }
    }

    /// The line for stderr.
    pub fn line(&self, interval_seconds: u64) -> String {
        let whole = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.0}"));
        format!(
            "interval ops/sec: mean {}  std {}  cv {}  min {}  p1 {}  p5 {}  max {}  ({} intervals of {} s)\n",
            whole(self.mean),
            whole(self.std),
            self.cv.map_or("-".to_owned(), |cv| format!("{cv:.3}")),
            self.min,
            self.p1,
            self.p5,
            self.max,
            self.n,
            interval_seconds
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `db-bench DB21`: mean and n - 1 deviation; a stalled second counts; one row has no deviation.
    #[test]
    fn the_line_says_mean_and_deviation() {
        let rows = [100, 0, 200, 300];
        assert_eq!(
            Steadiness::of(&rows).line(1),
            "interval ops/sec: mean 150  std 129  cv 0.861  min 0  p1 0  p5 0  max 300  (4 intervals of 1 s)\n"
        );
        assert!(Steadiness::of(&[7]).line(5).contains("mean 7  std -  cv -  min 7"));
        assert!(
            Steadiness::of(&[])
                .line(1)
                .contains("mean -  std -  cv -  min 0  p1 0  p5 0  max 0  (0 intervals")
        );
    }
}
