//! How far a ratio of two series' figures could be from what was seen, by chance alone.
//!
//! Block bootstrap: neighbouring seconds of a run resemble each other (a flush takes several), so whole blocks of
//! neighbours are drawn with replacement, and an interval that treats them as independent would be far too narrow.
//! The drawing is seeded: the same two files give the same answer. Must not know what a series means.

use rand_mt::Mt64;

/// Series drawn for one interval.
const DRAWS: usize = 1000;
const SEED: u64 = 0x51_1ce;

/// The 95 % interval of `figure(b) / figure(a)`; `None` when a series is too short to say, or the figure of `a` is 0.
pub fn ratio_interval(a: &[f64], b: &[f64], figure: &dyn Fn(&[f64]) -> Option<f64>) -> Option<(f64, f64)> {
    if a.len() < MIN_ROWS || b.len() < MIN_ROWS {
        return None;
    }
    let mut rng = Mt64::new(SEED);
    let (block_a, block_b) = (block_length(a), block_length(b));
    let mut ratios: Vec<f64> = (0..DRAWS)
        .filter_map(|_| {
            let (drawn_a, drawn_b) = (draw(a, block_a, &mut rng), draw(b, block_b, &mut rng));
            Some(figure(&drawn_b)? / figure(&drawn_a)?).filter(|ratio| ratio.is_finite())
        })
        .collect();
    if ratios.len() < DRAWS / 2 {
        return None;
    }
    ratios.sort_unstable_by(f64::total_cmp);
    let rank = |p: f64| ratios[((ratios.len() - 1) as f64 * p).round() as usize];
    Some((rank(0.025), rank(0.975)))
}

/// Rows below which no interval is given.
pub const MIN_ROWS: usize = 8;

/// Blocks are as long as neighbours resemble each other: up to the first lag whose autocorrelation is within chance,
/// at least the cube root of the rows, at most a quarter of them.
fn block_length(rows: &[f64]) -> usize {
    let n = rows.len();
    let mean = rows.iter().sum::<f64>() / n as f64;
    let product =
        |lag: usize| rows.iter().zip(&rows[lag..]).map(|(x, y)| (x - mean) * (y - mean)).sum::<f64>();
    let variance = product(0);
    let chance = 2.0 / (n as f64).sqrt();
    let most = (n / 4).max(1);
    let correlated = (1..most).take_while(|lag| variance > 0.0 && product(*lag) / variance > chance).count();
    (2 * correlated).max((n as f64).cbrt().ceil() as usize).min(most)
}

/// As many rows as there are, in blocks that begin anywhere; the end goes on at the beginning, so that each row is as likely
/// as any other.
fn draw(rows: &[f64], block: usize, rng: &mut Mt64) -> Vec<f64> {
    let n = rows.len();
    let mut drawn = Vec::with_capacity(n + block);
    while drawn.len() < n {
        let begin = (rng.next_u64() % n as u64) as usize;
        drawn.extend((begin..begin + block).map(|at| rows[at % n]));
    }
    drawn.truncate(n);
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(rows: &[f64]) -> Option<f64> {
        Some(rows.iter().sum::<f64>() / rows.len() as f64)
    }

    /// Seconds that resemble their neighbours: `level` plus noise that fades over about ten of them.
    fn correlated(seed: u64, level: f64) -> Vec<f64> {
        let mut rng = Mt64::new(seed);
        let mut noise = 0.0;
        let mut next = || {
            noise = 0.9 * noise + (rng.next_u64() % 2001) as f64 / 10.0 - 100.0;
            level + noise
        };
        (0..300).map(|_| next()).collect()
    }

    /// The interval of two runs of one system holds 1 about 19 times of 20; single rows drawn alone miss it far more often.
    ///
    /// Method: 100 pairs of series of one process with correlated neighbours, seeded. Correlated rows carry little
    /// information and the estimate of how little is itself noisy, so 80 are demanded of blocks; and single rows do worse.
    #[test]
    fn the_interval_holds_the_truth() {
        let holds = |(low, high): (f64, f64)| u32::from(low <= 1.0 && 1.0 <= high);
        let (mut blocks, mut singles) = (0, 0);
        for seed in 0..100 {
            let (a, b) = (correlated(seed, 1000.0), correlated(1000 + seed, 1000.0));
            blocks += holds(ratio_interval(&a, &b, &mean).unwrap());
            let mut rng = Mt64::new(seed);
            let mut ratios: Vec<f64> = (0..200)
                .map(|_| mean(&draw(&b, 1, &mut rng)).unwrap() / mean(&draw(&a, 1, &mut rng)).unwrap())
                .collect();
            ratios.sort_unstable_by(f64::total_cmp);
            singles += holds((ratios[5], ratios[194]));
        }
        assert!(blocks >= 80 && singles <= 60, "{blocks} and {singles} of 100");
    }

    /// A difference beyond the noise is outside the interval; short and empty series have none.
    #[test]
    fn a_difference_shows() {
        let (a, b) = (correlated(1, 1000.0), correlated(2, 1300.0));
        let (low, high) = ratio_interval(&a, &b, &mean).unwrap();
        assert!(low > 1.1 && high < 1.6, "{low} to {high}");
        assert_eq!(ratio_interval(&a, &a[..7], &mean), None);
        assert_eq!(ratio_interval(&[0.0; 20], &[1.0; 20], &mean), None);
        let same = vec![5.0; 40];
        assert_eq!(ratio_interval(&same, &same, &mean), Some((1.0, 1.0)));
    }
}
