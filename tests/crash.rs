//! After a crash the database holds a prefix of what was written, at least what was promised, and stays that way.
//!
//! `reliability` V1 to V4 and V6 over R1, R2 and R4, each case on a seed of its own. The workload, the oracle and the
//! rules are in [`sluicedb_tests::kinds::crash`].

use sluicedb_tests::cases::run_cases;
use sluicedb_tests::kinds::crash::{Kind, run};
use sluicedb_tests::kinds::{crash_families, crash_writers};

/// `reliability R1`: power failure, everything unsynced is lost.
#[test]
fn losing_all_unsynced_bytes_leaves_a_prefix() {
    run_cases("losing_all_unsynced_bytes_leaves_a_prefix", 100_000, 5_000, |seed| {
        run(Kind::DropUnsynced, seed)
    });
}

/// `reliability R2`: power failure, unsynced sectors and names survive in any order.
#[test]
fn keeping_some_unsynced_bytes_leaves_a_prefix() {
    run_cases("keeping_some_unsynced_bytes_leaves_a_prefix", 200_000, 6_000, |seed| {
        run(Kind::KeepSome, seed)
    });
}

/// A killed process loses nothing that was acknowledged at `Os` or `Sync`.
#[test]
fn a_killed_process_loses_nothing_handed_over() {
    run_cases("a_killed_process_loses_nothing_handed_over", 300_000, 2_000, |seed| run(Kind::Kill, seed));
}

/// `reliability R4`: up to three crashes during recovery change nothing.
#[test]
fn crashes_during_recovery_change_nothing() {
    run_cases("crashes_during_recovery_change_nothing", 400_000, 4_000, |seed| run(Kind::InRecovery, seed));
}

/// Many writers at once: what survives is a prefix of each, of all in the order in which they could know of each other,
/// and whole in both families.
#[test]
fn concurrent_writers_leave_a_prefix() {
    run_cases("concurrent_writers_leave_a_prefix", 500_000, 500, crash_writers::run);
}

/// Column families that were made are there, dropped ones are not, and all agree on one prefix of the log.
#[test]
fn families_come_and_go_across_crashes() {
    run_cases("families_come_and_go_across_crashes", 600_000, 2_000, crash_families::run);
}
