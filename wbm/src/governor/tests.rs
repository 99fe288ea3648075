//! The law of the governor, and the small closed-loop model of what it is for.

use super::*;

const MB: f64 = 1e6;
const STEP: f64 = 0.01;

/// One writer, one flusher whose speed is disturbed, memory that is freed when a flush of 8 MB ends; compactions keep up.
struct Model {
    quota: f64,
    used: f64,
    flushing: f64,
    signals: GovernorSignals,
    /// Ends of seconds, in operations of 1,016 bytes.
    seconds: Vec<f64>,
}

impl Model {
    fn new(quota: f64) -> Self {
        let signals = GovernorSignals { quota: quota as u64, flushers: 1, ..GovernorSignals::default() };
        Self { quota, used: 0.0, flushing: 0.0, signals, seconds: Vec::new() }
    }

    /// Runs for so many seconds with a drain of `drain(t)`, with the 99 steps, and with the governor if given one.
    fn run(&mut self, seconds: f64, drain: impl Fn(f64) -> f64, mut governor: Option<Governor>) {
        let (mut written, memtable) = (0.0, self.quota / 32.0);
        let mut cap = f64::MAX;
        for step in 0..(seconds / STEP) as usize {
            let time = step as f64 * STEP;
            let past = ((self.used - 0.7 * self.quota) / (0.3 * self.quota)).clamp(0.0, 1.0);
            let delayed = if past > 0.0 { 537.0 * MB * (1.0 - past) } else { f64::MAX };
            let admitted = 600.0_f64.mul_add(MB, 0.0).min(delayed).min(cap) * STEP;
            self.used += admitted;
            written += admitted;
            self.signals.arrived += admitted as u64;
            if self.used >= memtable {
                self.flushing += drain(time) * STEP;
                self.signals.flush_busy += Duration::from_secs_f64(STEP);
                self.signals.flushed += (drain(time) * STEP) as u64;
            }
            self.signals.left_l0 = self.signals.flushed;
            while self.flushing >= memtable {
                self.flushing -= memtable;
                self.used -= memtable;
            }
            self.signals.used = self.used as u64;
            if let Some(governor) = &mut governor {
                let rate = governor.step(self.signals, Duration::from_secs_f64(STEP));
                cap = rate.map_or(f64::MAX, |rate| rate as f64);
            }
            if (step + 1) % 100 == 0 {
                self.seconds.push(std::mem::take(&mut written) / 1016.0);
            }
        }
    }

    /// Mean and coefficient of variation without the first 600 s, in which the rate rises.
    fn steadiness(&self) -> (f64, f64) {
        let kept = &self.seconds[600..];
        let mean = kept.iter().sum::<f64>() / kept.len() as f64;
        let variance = kept.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / kept.len() as f64;
        (mean, variance.sqrt() / mean)
    }
}

/// `measuring` 1.2, first row: the flush at 40 % of its speed for 2 s of every 8 s, quota 1 GiB.
#[test]
fn a_disturbed_drain_is_smoothed() {
    let drain = |time: f64| 260.0 * MB * if time % 8.0 < 2.0 { 0.4 } else { 1.2 };
    let of = |governor| {
        let mut model = Model::new(1073.0 * MB);
        model.run(800.0, drain, governor);
        assert!(model.used < model.quota);
        model.steadiness()
    };
    let (plain_mean, plain_cv) = of(None);
    let (mean, cv) = of(Some(Governor::new()));
    assert!(cv <= plain_cv / 2.0, "cv {cv} against {plain_cv}");
    assert!((mean / plain_mean - 1.0).abs() < 0.03, "mean {mean} against {plain_mean}");
}

/// Signals of a database that flushes 200 MB/s, whose L0 is as full as told, at the end of each 10 ms.
fn busy(step: u64, arriving: u64, fullness: f64, left_l0: u64) -> GovernorSignals {
    GovernorSignals {
        quota: 100_000_000,
        used: 40_000_000,
        flushed: 2_000_000 * step,
        flush_busy: Duration::from_millis(10) * step as u32,
        flushers: 1,
        left_l0: left_l0 * step,
        l0_room: 0,
        l0_fullness: fullness,
        arrived: arriving * step,
    }
}

fn after(steps: u64, arriving: u64, fullness: f64, left_l0: u64) -> Option<u64> {
    let mut governor = Governor::new();
    let run = (0..=steps)
        .map(|step| governor.step(busy(step, arriving, fullness, left_l0), Duration::from_millis(10)));
    run.last().flatten()
}

/// Below where it begins it is silent, however long.
#[test]
fn it_is_silent_below_its_start() {
    assert_eq!(after(3_000, 350_000, 0.0, 350_000), None);
}

/// Something held everything up for a while: then it rises faster than otherwise.
#[test]
fn it_catches_up() {
    let mut governor = Governor::new();
    let step = Duration::from_millis(10);
    let mut signals = busy(0, 0, 0.2, 0);
    let mut go = |steps, fullness, left_l0| {
        let rates = (0..steps).map(|_| {
            signals.arrived += 3_000_000;
            signals.flushed += 2_000_000;
            signals.flush_busy += step;
            signals.left_l0 += left_l0;
            signals.l0_fullness = fullness;
            governor.step(signals, step).unwrap_or(0)
        });
        rates.last().unwrap()
    };
    let before = go(6_000, 0.5, 1_000_000);
    let held_up = go(200, 1.2, 0);
    assert!(held_up < before / 2, "{held_up} of {before}");
    assert!(go(2_000, 0.2, 1_000_000) > before / 4 * 3);
}

/// Above it, it engages within a quarter of a second, not at once.
#[test]
fn it_engages_under_pressure() {
    assert_eq!(after(10, 3_000_000, 0.5, 0), None);
    assert!(after(25, 3_000_000, 0.5, 0).is_some());
}

/// Before the first flush has ended it engages at once, at 18 % of 800 MB/s, if writers bring more than nine tenths of that.
#[test]
fn it_engages_at_once_when_new() {
    let new = |step, arriving| GovernorSignals {
        flushed: 0,
        flush_busy: Duration::ZERO,
        ..busy(step, arriving, 0.0, 0)
    };
    let after_one = |arriving| {
        let mut governor = Governor::new();
        governor.step(new(0, arriving), Duration::from_millis(10));
        governor.step(new(1, arriving), Duration::from_millis(10))
    };
    assert_eq!(after_one(3_000_000), Some(144_000_000));
    assert_eq!(after_one(1_200_000), None);
}

/// While nothing is known of compactions: 18 % of what a flush writes at best, taken for at least 800 MB/s until twice the
/// quota has been flushed, and the room in L0 spread over two minutes.
#[test]
fn it_begins_low() {
    assert_eq!(after(90, 3_000_000, 0.0, 0), Some(144_000_000));
    let begin = |flush_speed: u64, l0_room| {
        let mut governor = Governor::new();
        let step = Duration::from_millis(10);
        let run = (0..90).map(|n| {
            let flush_busy = step * n as u32 / 10;
            let signals = GovernorSignals {
                flushed: flush_speed / 1000 * n,
                flush_busy,
                l0_room,
                ..busy(n, 3_000_000, 0.0, 0)
            };
            governor.step(signals, step)
        });
        run.last().flatten().unwrap()
    };
    let near = |rate: u64, wanted: u64| rate.abs_diff(wanted) < 1_000_000;
    assert!(near(begin(1_000_000_000, 0), 180_000_000));
    assert!(near(begin(400_000_000, 0), 144_000_000));
    assert!(near(begin(1_000_000_000, 6_000_000_000), 230_000_000));
}

/// Then it rises, but slowly: by 1.5 % in a second while L0 is empty, by 0.5 % while it is not.
#[test]
fn it_rises_slowly() {
    for (fullness, factor) in [(0.0, 1.16), (0.2, 1.05)] {
        let mut governor = Governor::new();
        let step = Duration::from_millis(10);
        let mut rate = |from: u64, to| {
            let run = (from..to).map(|n| governor.step(busy(n, 3_000_000, fullness, 1_600_000), step));
            run.last().flatten().unwrap() as f64
        };
        let settled = rate(0, 200);
        let later = rate(200, 1_200);
        assert!((later / settled - factor).abs() < 0.01, "{settled} to {later} at {fullness}");
    }
}

/// The fuller L0, the less, for the same drain.
#[test]
fn a_fuller_l0_means_less() {
    let rates = [0.2, 0.6, 1.0].map(|fullness| after(10_000, 3_000_000, fullness, 1_000_000).unwrap());
    assert!(rates[0] > rates[1] && rates[1] > rates[2], "{rates:?}");
    // Half full: what leaves L0, 100 MB/s.
    let level = after(10_000, 3_000_000, 0.5, 1_000_000).unwrap();
    assert!((90_000_000..=110_000_000).contains(&level), "{level}");
}

/// Once writers need less, it lets go.
#[test]
fn it_lets_go() {
    let mut governor = Governor::new();
    let step = Duration::from_millis(10);
    for n in 0..100 {
        governor.step(busy(n, 3_000_000, 0.5, 1_000_000), step);
    }
    assert!(governor.rate.is_some());
    let mut signals = busy(100, 3_000_000, 0.0, 1_000_000);
    for _ in 0..600 {
        signals.arrived += 100_000;
        governor.step(signals, step);
    }
    assert_eq!(governor.rate, None);
}

/// Without a quota there is nothing to govern.
#[test]
fn no_quota_no_governor() {
    let mut governor = Governor::new();
    for n in 0..100 {
        let signals = GovernorSignals { quota: 0, ..busy(n, 3_000_000, 0.5, 0) };
        assert_eq!(governor.step(signals, Duration::from_millis(10)), None);
    }
}
