//! The latency block that scripts read: 109 buckets, RocksDB's percentiles, RocksDB's print.
//!
//! Owns bucket edges, where a value falls, and the block's text. Values are whole microseconds. Exact to the bucket
//! only; finer percentiles, for JSON, are [`super::live`]'s. Must not know operation types.

/// Number of buckets.
pub const BUCKETS: usize = 109;

/// Right edges: 1, 2, then times 1.5 each, cut to the two leading digits.
static EDGES: [u64; BUCKETS] = edges();

/// For a value of n significant bits, the first bucket that can hold it.
static FIRST: [u8; 65] = first_buckets();

const fn edges() -> [u64; BUCKETS] {
    let mut edges = [0; BUCKETS];
    edges[0] = 1;
    edges[1] = 2;
    let mut exact = 2.0f64;
    let mut at = 2;
    while at < BUCKETS {
        exact *= 1.5;
        let mut head = exact as u64;
        let mut power = 1;
        while head / 10 >= 10 {
            head /= 10;
            power *= 10;
        }
        edges[at] = head * power;
        at += 1;
    }
    edges
}

const fn first_buckets() -> [u8; 65] {
    let edges = edges();
    let mut first = [0; 65];
    let mut bits = 1;
    while bits <= 64 {
        let least = 1u64 << (bits - 1);
        let mut at = 0;
        while at < BUCKETS - 1 && edges[at] < least {
            at += 1;
        }
        first[bits] = at as u8;
        bits += 1;
    }
    first
}

/// The bucket of `value`: the first whose right edge is not below it.
#[inline]
fn bucket_of(value: u64) -> usize {
    let mut at = usize::from(FIRST[(64 - value.leading_zeros()) as usize]);
    while at < BUCKETS - 1 && EDGES[at] < value {
        at += 1;
    }
    at
}

/// Counts by bucket, with the exact minimum, maximum, sum and sum of squares.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: [u64; BUCKETS],
    count: u64,
    min: u64,
    max: u64,
    sum: u64,
    sum_of_squares: f64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; BUCKETS], count: 0, min: u64::MAX, max: 0, sum: 0, sum_of_squares: 0.0 }
    }
}

impl Histogram {
    /// Adds one value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.counts[bucket_of(value)] += 1;
        self.count += 1;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum = self.sum.wrapping_add(value);
        self.sum_of_squares += value as f64 * value as f64;
    }

    /// Adds all values of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum = self.sum.wrapping_add(other.sum);
        self.sum_of_squares += other.sum_of_squares;
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The greatest value, 0 if there is none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The mean, 0 if there are no values.
    pub fn average(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    fn standard_deviation(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let (count, sum) = (self.count as f64, self.sum as f64);
        ((self.sum_of_squares * count - sum * sum) / (count * count)).max(0.0).sqrt()
    }

    /// Percentile `p` (0 to 100): linear inside its bucket, kept between the least and the greatest value.
    pub fn percentile(&self, p: f64) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let threshold = self.count as f64 * (p / 100.0);
        let mut running = 0;
        for (at, in_bucket) in self.counts.iter().enumerate() {
            running += in_bucket;
            if running as f64 >= threshold {
                let left = if at == 0 { 0.0 } else { EDGES[at - 1] as f64 };
                let right = EDGES[at] as f64;
                let before = (running - in_bucket) as f64;
                let part = if *in_bucket == 0 { 0.0 } else { (threshold - before) / *in_bucket as f64 };
                return (left + (right - left) * part).clamp(self.min as f64, self.max as f64);
            }
        }
        self.max as f64
    }

    /// The block, without its title; ends with the last bucket's line.
    pub fn render(&self) -> String {
        self.render_with(self.average(), self.standard_deviation())
    }

    fn render_with(&self, average: f64, deviation: f64) -> String {
        let min = if self.count == 0 { 0 } else { self.min };
        let [p50, p75, p99, p999, p9999] = [50.0, 75.0, 99.0, 99.9, 99.99].map(|p| self.percentile(p));
        let mut text = format!(
            "Count: {} Average: {average:.4}  StdDev: {deviation:.2}\n\
             Min: {min}  Median: {p50:.4}  Max: {}\n\
             Percentiles: P50: {p50:.2} P75: {p75:.2} P99: {p99:.2} P99.9: {p999:.2} P99.99: {p9999:.2}\n\
             ------------------------------------------------------\n",
            self.count, self.max,
        );
        let mut running = 0;
        for (at, in_bucket) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            running += in_bucket;
            let share = 100.0 * *in_bucket as f64 / self.count as f64;
            let total = 100.0 * running as f64 / self.count as f64;
            let (open, left) = if at == 0 { ('[', 0) } else { ('(', EDGES[at - 1]) };
            let marks = "#".repeat((share / 5.0 + 0.5) as usize);
            text.push_str(&format!(
                "{open} {left:7}, {:7} ] {in_bucket:8} {share:7.3}% {total:7.3}% {marks}\n",
                EDGES[at]
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The edges are the documented ones, and every value falls in the first bucket that can hold it.
    ///
    /// Method: the documented head, the last edge, and a linear search over values around each edge.
    #[test]
    fn values_fall_where_the_edges_say() {
        let head =
            [1, 2, 3, 4, 6, 10, 15, 22, 34, 51, 76, 110, 170, 250, 380, 580, 870, 1300, 1900, 2900, 4400];
        assert_eq!(EDGES[..head.len()], head);
        assert_eq!(
            EDGES[head.len()..head.len() + 8],
            [6600, 9900, 14000, 22000, 33000, 50000, 75000, 110_000]
        );
        assert_eq!(EDGES[BUCKETS - 1], 13_000_000_000_000_000_000);
        let around = EDGES.iter().flat_map(|edge| [edge - 1, *edge, edge.saturating_add(1)]);
        for value in around.chain([0, u64::MAX]) {
            let slow = EDGES.iter().position(|edge| *edge >= value).unwrap_or(BUCKETS - 1);
            assert_eq!(bucket_of(value), slow, "{value}");
        }
    }

    /// `db-bench DB19`: the documented example, to the byte, from its 13 counts and given moments.
    #[test]
    fn the_documented_block_is_printed() {
        let counts = [
            (1, 84_000),
            (2, 602_000),
            (3, 776_000),
            (4, 364_000),
            (6, 102_000),
            (10, 39_000),
            (15, 19_600),
            (34, 8_200),
            (76, 3_200),
            (250, 1_440),
            (1300, 460),
            (6600, 88),
            (33_000, 12),
        ];
        let mut histogram = Histogram { min: 1, max: 31_000, ..Histogram::default() };
        for (edge, count) in counts {
            histogram.counts[bucket_of(edge)] += count;
            histogram.count += count;
        }
        let expected = "\
Count: 2000000 Average: 4.1010  StdDev: 88.11
Min: 1  Median: 2.4046  Max: 31000
Percentiles: P50: 2.40 P75: 3.10 P99: 13.32 P99.9: 170.00 P99.99: 1206.52
------------------------------------------------------
[       0,       1 ]    84000   4.200%   4.200% #
(       1,       2 ]   602000  30.100%  34.300% ######
(       2,       3 ]   776000  38.800%  73.100% ########
(       3,       4 ]   364000  18.200%  91.300% ####
(       4,       6 ]   102000   5.100%  96.400% #
(       6,      10 ]    39000   1.950%  98.350% 
(      10,      15 ]    19600   0.980%  99.330% 
(      22,      34 ]     8200   0.410%  99.740% 
(      51,      76 ]     3200   0.160%  99.900% 
(     170,     250 ]     1440   0.072%  99.972% 
(     870,    1300 ]      460   0.023%  99.995% 
(    4400,    6600 ]       88   0.004%  99.999% 
(   22000,   33000 ]       12   0.001% 100.000% 
";
        assert_eq!(histogram.render_with(4.101, 88.11), expected);

        // What benchmark.sh takes out of it: fields 3, 7, 9, 11 of `Percentiles:` and 6 of `Min: `.
        let field = |start: &str, number: usize| {
            let line = expected.lines().find(|line| line.starts_with(start)).unwrap();
            line.split_whitespace().nth(number - 1).unwrap()
        };
        assert_eq!(
            [3, 7, 9, 11].map(|number| field("Percentiles:", number)),
            ["2.40", "13.32", "170.00", "1206.52"]
        );
        assert_eq!(field("Min: ", 6), "31000");
    }

    /// An empty histogram ends after the dashes; moments are those of the values; merging adds up.
    #[test]
    fn moments_and_merging() {
        let empty = Histogram::default().render();
        assert!(
            empty.starts_with("Count: 0 Average: 0.0000  StdDev: 0.00\nMin: 0  Median: 0.0000  Max: 0\n")
        );
        assert!(empty.ends_with("---\n"));
        let mut a = Histogram::default();
        let mut b = Histogram::default();
        [2, 4, 4, 4].into_iter().for_each(|value| a.add(value));
        [5, 5, 7, 9].into_iter().for_each(|value| b.add(value));
        a.merge(&b);
        assert_eq!((a.count, a.min, a.max, a.average(), a.standard_deviation()), (8, 2, 9, 5.0, 2.0));
        let [p50, p75, p99] = [50.0, 75.0, 99.0].map(|p| a.percentile(p));
        assert!(p50 <= p75 && p75 <= p99 && p99 <= 9.0);
    }
}
