//! The database behaves like sorted maps: `reliability R13`.
//!
//! Random operations with odd options against a `BTreeMap` per column family, on the simulated file system and, with
//! fewer seeds, on the real one. A failure prints the seed that replays it.

use std::path::Path;
use std::sync::Arc;

use sluicedb::DiskFileSystem;
use sluicedb_tests::cases::run_cases;
use sluicedb_tests::kinds::model;
use sluicedb_tests::sim_fs::SimFs;

/// Many short runs: the first flushes, compactions and reopens of a database.
#[test]
fn short_runs_equal_the_maps() {
    run_cases("short_runs_equal_the_maps", 0, 4_000, |seed| {
        model::run(seed, Arc::new(SimFs::new(seed)), Path::new("/db"), 200)
    });
}

/// Fewer long runs: several levels, many generations of files.
#[test]
fn long_runs_equal_the_maps() {
    run_cases("long_runs_equal_the_maps", 10_000, 40, |seed| {
        model::run(seed, Arc::new(SimFs::new(seed)), Path::new("/db"), 6_000)
    });
}

/// The same on the operating system's files, mapped or read.
#[test]
fn runs_on_disk_equal_the_maps() {
    run_cases("runs_on_disk_equal_the_maps", 20_000, 6, |seed| {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        model::run(seed, Arc::new(DiskFileSystem), &directory.path().join("db"), 1_000)
    });
}
