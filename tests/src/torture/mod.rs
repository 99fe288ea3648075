//! The runner of `reliability.md` section 4: runs kinds for a time, one seed a case, and reports.
//!
//! A failing, panicking or hanging case counts as a failure and prints the command that replays it; the run goes on. What a
//! case does is in [`crate::kinds`].

mod args;
mod kinds;

use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

pub use args::{Args, USAGE};
pub use kinds::{Kind, Verdict};

use self::args::SEED_LIMIT;
use self::kinds::Seeds;

/// Seconds after which a case counts as hung. A case takes milliseconds, a few of R14 some seconds.
const CASE_SECONDS: u64 = 120;

/// After so many cases in a row that a script no longer reached, the next script begins: threads make the number of calls
/// vary a little, and neighbouring cases are variants of one call.
const MISSES: u64 = 24;

/// What running a kind gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    /// The kind's name.
    pub kind: &'static str,
    /// Cases finished and judged.
    pub cases: u64,
    /// Faults that reached a call.
    pub faults_fired: u64,
    /// Cases that broke a rule, panicked or hung.
    pub failures: u64,
    /// The seed of the first of them.
    pub first_failing_seed: Option<u64>,
}

impl Tally {
    fn new(kind: &'static str) -> Self {
        Self { kind, cases: 0, faults_fired: 0, failures: 0, first_failing_seed: None }
    }

    /// The line of `--json`.
    pub fn json(&self) -> String {
        let Self { kind, cases, faults_fired, failures, first_failing_seed } = self;
        let seed = first_failing_seed.map_or("null".to_owned(), |seed| seed.to_string());
        format!(
            "{{\"kind\":\"{kind}\",\"cases\":{cases},\"faults_fired\":{faults_fired},\"failures\":{failures},\
             \"first_failing_seed\":{seed}}}"
        )
    }

    /// The line of the table for people.
    pub fn row(&self) -> String {
        let seed = self.first_failing_seed.map_or(String::new(), |seed| format!("  first seed {seed}"));
        let Self { kind, cases, faults_fired, failures, .. } = self;
        format!("{kind:<4} {cases:>9} cases {faults_fired:>9} faults {failures:>5} failures{seed}")
    }

    fn failed(&mut self, seed: u64, why: &str) {
        self.failures += 1;
        self.first_failing_seed.get_or_insert(seed);
        eprintln!("{}: {why}\ntorture --kind {} --seed {seed} --seconds 0", self.kind, self.kind);
    }
}

/// A seed to begin with, when none was named.
pub fn draw_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    // Room for the cases that count up from it.
    RandomState::new().hash_one(std::process::id()) % (SEED_LIMIT / 2)
}

/// What the thread that runs cases says.
enum Report {
    Begun(u64),
    Ended(u64, Result<Verdict, String>),
}

/// Runs a kind for `seconds`, or one case of it for 0, from `seed` on; a list begins at its start when none was named.
pub fn run(kind: &'static Kind, seconds: u64, named: Option<u64>, drawn: u64) -> Tally {
    let mut tally = Tally::new(kind.name);
    let Some(case) = kind.case() else { return tally };
    let first = match kind.seeds {
        Seeds::Drawn => named.unwrap_or(drawn),
        Seeds::Listed { .. } => named.unwrap_or(0),
    };
    let deadline = (seconds > 0).then(|| Instant::now() + Duration::from_secs(seconds));
    let (report, reports) = mpsc::channel();
    // Not joined: a case that hangs keeps its thread, and the run goes on without it.
    std::thread::spawn(move || work(kind.seeds, case, first, deadline, &report));
    let mut running = first;
    loop {
        match reports.recv_timeout(Duration::from_secs(CASE_SECONDS)) {
            Ok(Report::Begun(seed)) => running = seed,
            Ok(Report::Ended(seed, outcome)) => {
                if outcome != Ok(Verdict::Exhausted) {
                    tally.cases += 1;
                }
                match outcome {
                    Ok(Verdict::Passed { faults }) => tally.faults_fired += faults,
                    Ok(Verdict::Exhausted) => {}
                    Err(why) => tally.failed(seed, &why),
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                tally.failed(
                    running,
                    &format!("has not ended after {CASE_SECONDS} s; its thread is left behind"),
                );
                break;
            }
        }
    }
    if kind.injects && tally.cases >= 100 && tally.faults_fired == 0 {
        tally.failed(first, "no fault has fired: nothing was tested");
    }
    tally
}

/// Runs cases until the list or the time ends.
fn work(
    seeds: Seeds,
    mut case: kinds::Case,
    first: u64,
    deadline: Option<Instant>,
    report: &mpsc::Sender<Report>,
) {
    let mut seed = first;
    let mut misses = 0;
    while seed < SEED_LIMIT {
        let outcome = {
            if report.send(Report::Begun(seed)).is_err() {
                return;
            }
            panic::catch_unwind(AssertUnwindSafe(|| case(seed)))
                .unwrap_or_else(|payload| Err(message(&*payload)))
        };
        misses = if outcome == Ok(Verdict::Exhausted) { misses + 1 } else { 0 };
        if report.send(Report::Ended(seed, outcome)).is_err()
            || deadline.is_none_or(|end| Instant::now() >= end)
        {
            return;
        }
        seed += 1;
        if let Seeds::Listed { scripts } = seeds
            && misses == MISSES
        {
            let script = (seed >> 32) + 1;
            if script >= scripts {
                return;
            }
            (seed, misses) = (script << 32, 0);
        }
    }
}

/// What a panic said.
fn message(payload: &(dyn std::any::Any + Send)) -> String {
    let text =
        payload.downcast_ref::<String>().map(String::as_str).or(payload.downcast_ref::<&str>().copied());
    format!("panicked: {}", text.unwrap_or("with no text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line that other programs read.
    #[test]
    fn json_has_the_five_keys() {
        let mut tally = Tally::new("R7");
        tally.cases = 3_120;
        assert_eq!(
            tally.json(),
            r#"{"kind":"R7","cases":3120,"faults_fired":0,"failures":0,"first_failing_seed":null}"#
        );
        (tally.failures, tally.first_failing_seed) = (1, Some(6_172_839_450_617_283));
        assert!(tally.json().ends_with(r#""failures":1,"first_failing_seed":6172839450617283}"#));
    }

    /// A list of one script ends by itself, every entry run once; one seed runs one case.
    #[test]
    fn a_list_ends_and_a_seed_is_one_case() {
        let args = |line: &str| Args::parse(line.split_whitespace().map(str::to_owned)).unwrap();
        let law = args("--kind R15 --seconds 60").kinds[0];
        let all = run(law, 60, None, 0);
        assert_eq!((all.cases, all.failures), (crate::kinds::law::TABLES.len() as u64, 0));
        assert_eq!(run(law, 0, Some(2), 0).cases, 1);
    }
}
