//! Medians, spreads and percentiles of samples. What was sampled is not known here.

/// The middle of the samples: the mean of the two middle ones if their number is even. 0 without samples.
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.get(sorted.len().wrapping_sub(1) / 2), sorted.get(sorted.len() / 2)) {
        (Some(low), Some(high)) => f64::midpoint(*low, *high),
        _ => 0.0,
    }
}

/// The mean; 0 without samples.
pub fn mean(samples: &[f64]) -> f64 {
    if samples.is_empty() { 0.0 } else { samples.iter().sum::<f64>() / samples.len() as f64 }
}

/// The median distance from the median.
pub fn mad(samples: &[f64]) -> f64 {
    let middle = median(samples);
    median(&samples.iter().map(|sample| (sample - middle).abs()).collect::<Vec<_>>())
}

/// The smallest sample that `part` of all samples (0 to 1) do not exceed. 0 without samples.
pub fn percentile(samples: &[f64], part: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middle_spread_and_rank() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(mad(&[1.0, 2.0, 9.0]), 1.0);
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&hundred, 0.99), 99.0);
        assert_eq!(percentile(&hundred, 1.0), 100.0);
        assert_eq!((median(&[]), percentile(&[], 0.5)), (0.0, 0.0));
    }
}
