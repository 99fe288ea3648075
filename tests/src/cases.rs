//! Runs seeded cases: one seed replays one case, a hang ends the process and says which seed hung.
//!
//! | variable | meaning |
//! |---|---|
//! | `SLUICEDB_SEED` | run this seed alone, in every seeded test that runs |
//! | `SLUICEDB_CASES` | percent of the usual number of cases (100) |
//!
//! This file knows nothing of what a case does. It is the only user of real time, as a limit, never to wait for.

use std::io::Write;
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Seconds after which a case counts as hung. A case takes milliseconds; a loaded machine is slow, not this slow.
const CASE_SECONDS: u64 = 120;

/// Runs `case` on `count` seeds from `first` on, or on `SLUICEDB_SEED` alone.
///
/// # Panics
///
/// When a case returns an error or panics; the message names the seed and the command that replays it.
pub fn run_cases(test: &str, first: u64, count: u64, mut case: impl FnMut(u64) -> Result<(), String>) {
    let count = variable("SLUICEDB_CASES").map_or(count, |percent| (count * percent).div_ceil(100));
    let (first, count) = variable("SLUICEDB_SEED").map_or((first, count), |seed| (seed, 1));
    for seed in first..first + count {
        let name = format!("{test}, seed {seed}");
        let result =
            with_watchdog(CASE_SECONDS, &name, || panic::catch_unwind(AssertUnwindSafe(|| case(seed))));
        let replay = format!("replay with SLUICEDB_SEED={seed} cargo test -p sluicedb-tests {test}");
        match result {
            Ok(Ok(())) => {}
            Ok(Err(why)) => panic!("{name}: {why}\n{replay}"),
            Err(payload) => {
                eprintln!("{name}: panicked\n{replay}");
                panic::resume_unwind(payload);
            }
        }
    }
}

/// Runs `f`; if it has not returned after `seconds`, prints `name` and ends the process, since nothing less
/// ends a thread that hangs.
pub fn with_watchdog<T>(seconds: u64, name: &str, f: impl FnOnce() -> T) -> T {
    let (done, watched) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if watched.recv_timeout(Duration::from_secs(seconds)) == Err(mpsc::RecvTimeoutError::Timeout) {
                // Not a print macro: those are captured, and lost with the process.
                let _ = writeln!(std::io::stderr(), "watchdog: {name} has not ended after {seconds} s");
                std::process::abort();
            }
        });
        // Dropped on return and on unwinding alike, which ends the watcher.
        let _done = done;
        f()
    })
}

/// Looks until `look` is content, for what a background thread does in its own time; after 10 s its complaint stands.
///
/// # Errors
///
/// The last complaint.
pub fn eventually(mut look: impl FnMut() -> Result<(), String>) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match look() {
            Err(_) if Instant::now() < deadline => std::thread::yield_now(),
            outcome => return outcome,
        }
    }
}

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16));
    Some(number.unwrap_or_else(|_| panic!("{name} is a number, not '{text}'")))
}
