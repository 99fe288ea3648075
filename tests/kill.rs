//! A killed process loses nothing that was acknowledged at `Os`: `reliability R5`, on the real disk.
//!
//! This binary starts itself as the child; what it writes, notes and verifies is in [`sluicedb_tests::kinds::kill`]. The
//! rounds share one directory, so later ones recover what earlier ones left.

use sluicedb_tests::cases::with_watchdog;
use sluicedb_tests::kinds::kill;
use sluicedb_tests::rng::Rng;

const ROUNDS: u64 = 10;

/// The child's half; does nothing unless the parent started it.
#[test]
fn child_writes_until_killed() {
    kill::child();
}

/// Ten rounds of kill, reopen, verify.
#[test]
fn every_acknowledged_write_outlives_the_process() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut rng = Rng::new(5);
    for round in 0..ROUNDS {
        with_watchdog(120, &format!("kill round {round}"), || {
            let lines = rng.range(1, 12);
            let args = ["--exact", "child_writes_until_killed", "--nocapture"];
            kill::round(directory.path(), round, lines, &args);
        });
    }
}
