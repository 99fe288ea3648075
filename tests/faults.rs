//! Whatever call fails, whatever a sync claims, and when the disk is full: `reliability R6`, `R7`, `R8`.
//!
//! The script and the rules are in [`sluicedb_tests::kinds::faults`]; here each call in turn fails.

use sluicedb_tests::cases::run_cases;
use sluicedb_tests::kinds::faults::{FAILURES, run, run_full_disk};
use sluicedb_tests::sim_fs::{Effect, Fault, FileKind, Op, Pattern};

/// Runs `case` for the 1st, 2nd, ... call until the script no longer reaches it; every `stride`-th.
fn each_call(test: &str, stride: u64, case: impl Fn(u64) -> Result<bool, String>) {
    let mut ended = false;
    let mut met = 0;
    let mut misses = 0;
    run_cases(test, 0, 10_000 / stride, |index| {
        if ended {
            return Ok(());
        }
        if case(1 + index * stride)? {
            met += 1;
            misses = 0;
        } else {
            misses += 1;
            // Threads make the number of calls vary a little: the end is reached when nothing is met twice.
            ended = misses > 2;
        }
        Ok(())
    });
    println!("{test}: {met} calls failed");
}

/// `reliability R6`: the n-th changing call fails once: it does nothing, does a part, or finds the disk full.
#[test]
fn any_call_may_fail_once() {
    for (script, effect) in (1..).zip(FAILURES) {
        each_call("any_call_may_fail_once", 1, |nth| {
            run(script, Fault { on: Pattern::mutating(), nth, forever: false, effect })
        });
    }
}

/// `reliability R6`: all changing calls fail from the n-th on.
#[test]
fn all_calls_may_fail_from_some_point() {
    for (script, effect) in (11..).zip(FAILURES) {
        each_call("all_calls_may_fail_from_some_point", 1, |nth| {
            run(script, Fault { on: Pattern::mutating(), nth, forever: true, effect })
        });
    }
}

/// `reliability R6`: the n-th looking call (open, read, map, size, list, exists, lock) fails once, or all do from there on.
#[test]
fn any_look_may_fail() {
    let looks =
        [Op::OpenReadable, Op::OpenWritable, Op::Read, Op::Map, Op::Size, Op::List, Op::Exists, Op::Lock];
    for (script, forever) in [(21, false), (22, true)] {
        each_call("any_look_may_fail", 1, |nth| {
            run(script, Fault { on: Pattern::ops(&looks), nth, forever, effect: FAILURES[0] })
        });
    }
}

/// `reliability R7`: the n-th sync of each kind of file fails, drops its pages, and later ones claim success.
#[test]
fn a_failed_sync_is_never_papered_over() {
    for kind in [FileKind::Wal, FileKind::Sst, FileKind::Manifest, FileKind::Current] {
        each_call("a_failed_sync_is_never_papered_over", 1, |nth| {
            run(
                4,
                Fault {
                    on: Pattern::op(Op::Sync).on(kind),
                    nth,
                    forever: false,
                    effect: Effect::LoseAndFail,
                },
            )
        });
    }
    each_call("a_failed_sync_is_never_papered_over", 1, |nth| {
        run(5, Fault { on: Pattern::op(Op::SyncDir), nth, forever: false, effect: Effect::LoseAndFail })
    });
}

/// `reliability R8`: the disk is full after so many bytes; reads go on, and with space back writes do.
#[test]
fn a_full_disk_is_survived() {
    let mut full = 0;
    run_cases("a_full_disk_is_survived", 0, 60, |index| {
        full += u64::from(run_full_disk(6, index * 4_001)?);
        Ok(())
    });
    println!("a_full_disk_is_survived: {full} times full");
}
