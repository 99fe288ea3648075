//! [`Governor`]: the rate that flushes and compactions can sustain, as one more bound on writers.
//!
//! The 99 steps react within a fraction of a second, so writers feel each flush and each compaction. The governor admits what
//! was drained over a long time instead, and lets memory and L0 absorb the rest; it only ever lowers the rate, and stays silent
//! while writers bring less than that.
//!
//! ```text
//!   D  bytes flushed / time that flushes were busy * flushers          what memory can drain
//!   P  the same over a third of a second, its highest value            what it can when little else runs
//!   C  bytes that left L0 / time                                       what compaction drained
//!   f  fullness of L0: 0 at its comfort mark, 1 where it begins to delay, at most 1.2
//!   R  bytes of L0 between its comfort mark and where it begins to delay
//!   u  min(D, max(C * (1.5 - f), 0.18 P * (1 - 4 f) + (1 - f) R / 120 s)) + towards - max(0, m - 0.7 Q) / 1 s
//! ```
//!
//! `m` is what counts as pressure, `Q` the quota; `towards` is (0.45 Q - m) / Tc where memory is the bottleneck, else 0.
//!
//! In the steady state what leaves L0 is what was admitted, so `C (1.5 - f)` integrates: it raises the rate while L0 is less
//! than half full and lowers it above. While L0 is empty nothing is known of compactions. A tree that grows costs ever more of
//! them for each byte, and an empty one next to nothing, so the rate begins low: at 18 % of what flushes write when little
//! else runs, and what fills L0 within two minutes, which is much where memtables are large. Until twice the quota has been flushed P is
//! taken to be at least 800 MB/s: a first second without any limit would be the largest jump of all, and a first flush tells little. It rises by 0.5 % (1.5 % while L0 is empty) and falls by 5 % in a second, faster only where memory or L0 run full: an average over one second
//! would copy the noise.
//!
//! Pure: whoever measures hands the numbers in. What a rate does to writers is not known here.

use std::time::Duration;

/// How long a flushed or compacted byte counts, in seconds of busy time.
const DRAIN_WINDOW: f64 = 20.0;
/// How long an arrival counts, in seconds.
const ARRIVAL_WINDOW: f64 = 1.0;
/// How long a flushed byte counts for the best drain, in seconds of busy time.
const PEAK_WINDOW: f64 = 0.3;
/// Least best drain until the rate has had time to settle, in bytes per second for each flusher.
const ASSUMED_PEAK: f64 = 800e6;
/// Part of the best drain that is admitted while L0 is empty.
const START: f64 = 0.18;
/// Time over which the room in L0 is spread, in seconds.
const ROOM_SPREAD: f64 = 120.0;
/// Fullness of L0 at which as much is admitted as leaves it.
const SET_POINT: f64 = 0.5;
/// Largest changes of the rate in a second, as parts of it; the last where memory or L0 run full.
const RISE: f64 = 0.005;
const FALL: f64 = 0.05;
/// What the rise gains while L0 is empty; nothing from a tenth of its room on.
const RISE_OF_EMPTY: f64 = 0.01;
/// What the rise gains for each multiple of the rate by which the target lies above one and a half of it: a hindrance is over.
const CATCH_UP: f64 = 0.1;
const URGENT_FALL: f64 = 0.5;
/// Part of the quota above which memory runs full.
const FULL: f64 = 0.7;
/// Writers must press for so long before it engages, and need less for so long before it lets go, in seconds.
const ENGAGE_AFTER: f64 = 0.2;
const RELEASE_AFTER: f64 = 2.0;

/// What a database looks like at one moment. Bytes and times are totals since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct GovernorSignals {
    /// Quota of the manager, in bytes; 0: none, and nothing to govern.
    pub quota: u64,
    /// Bytes that count as pressure now.
    pub used: u64,
    /// Bytes that flushes freed.
    pub flushed: u64,
    /// Time that flushes ran, summed over them.
    pub flush_busy: Duration,
    /// Flushes that may run at once.
    pub flushers: u32,
    /// Bytes that compactions took out of L0.
    pub left_l0: u64,
    /// Bytes of L0, over all families, between its comfort mark and where it delays writers.
    pub l0_room: u64,
    /// How full L0 is: 0 and below up to its comfort mark, 1 where it delays writers.
    pub l0_fullness: f64,
    /// Bytes that writers brought.
    pub arrived: u64,
}

impl GovernorSignals {
    fn is_urgent(&self) -> bool {
        self.l0_fullness > 1.0 || self.used as f64 > FULL * self.quota as f64
    }

    /// Whether the rate has had time to settle: twice the quota was flushed.
    fn is_past_start(&self) -> bool {
        self.flushed / 2 >= self.quota
    }
}

/// The law, and the averages that it needs.
#[derive(Debug, Clone, Default)]
pub struct Governor {
    last: Option<GovernorSignals>,
    drain: Average,
    peak: Average,
    /// The highest peak seen: the drain of flushes that had the machine for themselves.
    best_drain: f64,
    sunk: Average,
    arrivals: Average,
    /// For how long writers have pressed against the sustainable rate, or needed less than the rate.
    pressed: f64,
    eased: f64,
    /// Bytes per second while it is engaged.
    rate: Option<f64>,
}

/// Bytes per second, the past fading exponentially.
#[derive(Debug, Clone, Copy, Default)]
struct Average {
    bytes: f64,
    seconds: f64,
}

impl Average {
    fn add(&mut self, bytes: u64, seconds: f64, window: f64) {
        let fade = (-seconds / window).exp();
        self.bytes = self.bytes * fade + bytes as f64;
        self.seconds = self.seconds * fade + seconds;
    }

    fn rate(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.bytes / self.seconds)
    }
}

impl Governor {
    /// Nothing measured yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the signals `elapsed` after the ones before; the rate to hold writers to, in bytes per second, or `None`
    /// while it does not.
    pub fn step(&mut self, now: GovernorSignals, elapsed: Duration) -> Option<u64> {
        let seconds = elapsed.as_secs_f64();
        let before = self.last.replace(now)?;
        let busy = now.flush_busy.saturating_sub(before.flush_busy).as_secs_f64();
        let flushed = now.flushed.saturating_sub(before.flushed);
        self.drain.add(flushed, busy, DRAIN_WINDOW);
        self.peak.add(flushed, busy, PEAK_WINDOW);
        self.arrivals.add(now.arrived.saturating_sub(before.arrived), seconds, ARRIVAL_WINDOW);
        self.sunk.add(now.left_l0.saturating_sub(before.left_l0), seconds, DRAIN_WINDOW);
        let Some(arriving) = self.arrivals.rate().filter(|_| now.quota > 0) else {
            self.rate = None;
            return None;
        };
        let sustained = self.sustained(&now);
        self.engage_or_release(&now, sustained.rate, arriving, seconds);
        let target = sustained.corrected(&now).max(0.1 * sustained.drain);
        self.rate = self.rate.map(|rate| {
            let fall = if now.is_urgent() { URGENT_FALL } else { FALL };
            if rate == 0.0 || !now.is_past_start() {
                target
            } else {
                let empty = (1.0 - 10.0 * now.l0_fullness).max(0.0);
                let rise = RISE + RISE_OF_EMPTY * empty + CATCH_UP * (target / rate - 1.5).max(0.0);
                target.clamp(rate * (1.0 - fall * seconds), rate * (1.0 + rise * seconds))
            }
        });
        self.rate.map(|rate| rate as u64)
    }

    fn engage_or_release(&mut self, now: &GovernorSignals, sustained: f64, arriving: f64, seconds: f64) {
        // Before the first flush has ended, whatever writers bring is more than is known to be sustained.
        let is_new = now.flushed == 0;
        let fills = is_new || now.used as f64 > 0.3 * now.quota as f64 || now.l0_fullness > 0.0;
        let presses = fills && arriving > 0.9 * sustained;
        self.pressed = if presses { self.pressed + seconds } else { 0.0 };
        let needs_less = self.rate.is_some_and(|rate| arriving < 0.8 * rate);
        self.eased = if needs_less { self.eased + seconds } else { 0.0 };
        if self.rate.is_none() && (self.pressed >= ENGAGE_AFTER || presses && is_new) {
            self.rate = Some(0.0); // it begins at the target, wherever that is
        } else if self.eased >= RELEASE_AFTER {
            self.rate = None;
        }
    }

    fn sustained(&mut self, now: &GovernorSignals) -> Sustained {
        let flushers = f64::from(now.flushers);
        let drain = self.drain.rate().unwrap_or(ASSUMED_PEAK) * flushers;
        self.best_drain = self.best_drain.max(self.peak.rate().unwrap_or(0.0) * flushers);
        let best = self.best_drain.max(if now.is_past_start() { 0.0 } else { ASSUMED_PEAK * flushers });
        let fullness = now.l0_fullness.clamp(0.0, 1.2);
        let sunk = self.sunk.rate().filter(|_| now.is_past_start()).unwrap_or(0.0);
        let compacted = sunk * (1.0 + SET_POINT - fullness);
        let empty = if now.is_past_start() { 1.0 - 4.0 * fullness } else { 1.0 };
        let room = now.l0_room as f64 * (1.0 - fullness).max(0.0);
        let granted = START * best * empty + room / ROOM_SPREAD;
        Sustained { drain, rate: drain.min(compacted.max(granted)) }
    }
}

/// What can be drained for long, in bytes per second.
#[derive(Debug, Clone, Copy)]
struct Sustained {
    drain: f64,
    rate: f64,
}

impl Sustained {
    /// The rate that brings memory towards its set-point as well.
    fn corrected(&self, now: &GovernorSignals) -> f64 {
        let (used, quota) = (now.used as f64, now.quota as f64);
        // Twice the time in which the drain empties the quota: long enough to smooth, short enough for the buffer.
        let settles_in = (2.0 * quota / self.drain.max(1.0)).clamp(0.3, 20.0);
        let memory_is_the_bottleneck = self.rate >= self.drain;
        let towards = if memory_is_the_bottleneck { (0.45 * quota - used) / settles_in } else { 0.0 };
        self.rate + towards - (used - FULL * quota).max(0.0)
    }
}

#[cfg(test)]
mod tests;
