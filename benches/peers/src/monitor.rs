//! What a run took of the machine: processor time, peak anonymous memory, bytes written, operations per second of time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// The windows over which operations are counted.
const WINDOW: Duration = Duration::from_secs(1);

/// Counts operations and watches the process while a workload runs.
#[derive(Debug, Default)]
pub struct Monitor {
    operations: AtomicU64,
    over: AtomicBool,
}

/// What was seen.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The largest anonymous memory, in bytes.
    pub peak_anonymous: u64,
    /// Operations per second of each window of a second.
    pub rates: Vec<f64>,
}

impl Monitor {
    /// Notes operations that are done.
    pub fn add(&self, operations: u64) {
        self.operations.fetch_add(operations, Ordering::Relaxed);
    }

    /// Runs `work` and watches the process meanwhile.
    pub fn watch<T>(&self, work: impl FnOnce() -> T) -> (T, Seen) {
        self.over.store(false, Ordering::Relaxed);
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| self.look_until_over());
            let result = work();
            self.over.store(true, Ordering::Relaxed);
            let seen = watcher.join().unwrap_or_default();
            (result, seen)
        })
    }

    fn look_until_over(&self) -> Seen {
        let mut seen = Seen::default();
        let mut start = Instant::now();
        let mut before = self.operations.load(Ordering::Relaxed);
        while !self.over.load(Ordering::Relaxed) {
            seen.peak_anonymous = seen.peak_anonymous.max(anonymous_bytes());
            if start.elapsed() >= WINDOW {
                let now = self.operations.load(Ordering::Relaxed);
                seen.rates.push((now - before) as f64 / start.elapsed().as_secs_f64());
                (start, before) = (Instant::now(), now);
            }
            std::thread::sleep(LOOK);
        }
        seen.peak_anonymous = seen.peak_anonymous.max(anonymous_bytes());
        seen
    }
}

/// Standard deviation over mean; none for fewer than five samples.
pub fn variation(rates: &[f64]) -> Option<f64> {
    if rates.len() < 5 {
        return None;
    }
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / rates.len() as f64;
    Some(variance.sqrt() / mean)
}

/// Processor time of this process so far, in seconds.
pub fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Anonymous memory of this process now, in bytes.
fn anonymous_bytes() -> u64 {
    field("/proc/self/status", "RssAnon:").unwrap_or_default() * 1024
}

/// Bytes that this process has made dirty or written past the page cache.
pub fn written_bytes() -> u64 {
    field("/proc/self/io", "write_bytes:").unwrap_or_default()
}

fn field(path: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variation_is_deviation_over_mean() {
        assert_eq!(variation(&[5.0; 4]), None);
        assert_eq!(variation(&[5.0; 6]), Some(0.0));
        assert_eq!(variation(&[1.0, 3.0, 1.0, 3.0, 1.0, 3.0]), Some(0.5));
    }

    #[test]
    fn the_process_has_memory_and_used_time() {
        assert!(anonymous_bytes() > 0 && cpu_seconds() > 0.0);
    }
}
