//! From values to pixels, and which values get a line of the grid.

/// How values are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// From 0 up.
    Linear,
    /// By powers of ten.
    Log,
}

/// One axis: values between two ends, pixels between two others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    kind: Kind,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// An axis that shows 0 to `greatest`, and a little more.
    pub fn linear(greatest: f64, from: f64, to: f64) -> Self {
        let greatest = if greatest > 0.0 && greatest.is_finite() { greatest } else { 1.0 };
        Self { kind: Kind::Linear, low: 0.0, high: greatest * 1.06, from, to }
    }

    /// An axis of whole powers of ten around `least` and `greatest`.
    pub fn log(least: f64, greatest: f64, from: f64, to: f64) -> Self {
        let low = least.max(1.0).log10().floor();
        let high = greatest.max(1.0).log10().ceil().max(low + 1.0);
        Self { kind: Kind::Log, low, high, from, to }
    }

    /// An axis with exactly these ends.
    pub fn exact(low: f64, high: f64, from: f64, to: f64) -> Self {
        Self { kind: Kind::Linear, low, high: high.max(low + f64::EPSILON), from, to }
    }

    /// The pixel of a value.
    pub fn place(&self, value: f64) -> f64 {
        let value = if self.kind == Kind::Log { value.max(1.0).log10() } else { value };
        let share = (value.clamp(self.low, self.high) - self.low) / (self.high - self.low);
        self.from + share * (self.to - self.from)
    }

    /// The values to mark: round ones, about `count`.
    pub fn ticks(&self, count: usize) -> Vec<f64> {
        if self.kind == Kind::Log {
            let span = (self.high - self.low) as usize;
            let every = span.div_ceil(count.max(1)).max(1);
            return (0..=span).step_by(every).map(|power| 10f64.powf(self.low + power as f64)).collect();
        }
        let step = round_step((self.high - self.low) / count.max(1) as f64);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).map(|at| at as f64 * step).collect()
    }
}

/// The next of 1, 2, 2.5, 5 times a power of ten.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.max(f64::MIN_POSITIVE).log10().floor());
    [1.0, 2.0, 2.5, 5.0]
        .map(|digit| digit * power)
        .into_iter()
        .find(|step| *step >= least * 0.999)
        .unwrap_or(10.0 * power)
}

/// A number as short as it can be read: `251k`, `1.5M`, `0.25`.
pub fn short(value: f64) -> String {
    let (value, unit) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let decimals = match value.abs() {
        v if v >= 100.0 || v.fract() == 0.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

/// Seconds as a clock would show them.
pub fn clock(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    let (hours, minutes, rest) = (whole / 3600, whole / 60 % 60, whole % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{rest:02}") } else { format!("{minutes}:{rest:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks are round and lie within the axis; powers of ten on a logarithmic one.
    #[test]
    fn ticks_are_round() {
        assert_eq!(Scale::linear(317_054.0, 0.0, 100.0).ticks(4), [0.0, 100_000.0, 200_000.0, 300_000.0]);
        assert_eq!(Scale::linear(0.0, 0.0, 100.0).ticks(4), [0.0, 0.5, 1.0]);
        assert_eq!(Scale::log(2.0, 47_000.0, 0.0, 1.0).ticks(5), [1.0, 10.0, 100.0, 1e3, 1e4, 1e5]);
        assert_eq!(Scale::exact(0.0, 45.0, 0.0, 1.0).ticks(6), [0.0, 10.0, 20.0, 30.0, 40.0]);
    }

    /// Places run from end to end, values outside stay at the edge.
    #[test]
    fn values_have_places() {
        let scale = Scale::exact(0.0, 10.0, 100.0, 0.0);
        assert_eq!([0.0, 5.0, 10.0, 20.0].map(|value| scale.place(value)), [100.0, 50.0, 0.0, 0.0]);
        let scale = Scale::log(1.0, 100.0, 0.0, 2.0);
        assert_eq!([0.0, 1.0, 10.0, 100.0].map(|value| scale.place(value)), [0.0, 0.0, 1.0, 2.0]);
    }

    /// Numbers and times are short.
    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 0.25, 7.0, 9999.0, 251_000.0, 1_500_000.0, 2e9].map(short);
        assert_eq!(texts, ["0", "0.25", "7", "9999", "251k", "1.5M", "2G"]);
        assert_eq!([0.0, 61.0, 3661.0].map(clock), ["0:00", "1:01", "1:01:01"]);
    }
}
