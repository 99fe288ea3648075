//! `db-bench DB25`: a database that is killed again and again holds what was acknowledged, under delays and stops.
//!
//! The short form, with a few kills. The full one is `db_stress crash` with the flags of the specification: README.md has the line.

use std::process::Command;

/// Kills, also of recoveries, and what they leave is verified.
///
/// Method: the program kills itself; how often within the time depends on the machine, so only one kill is demanded.
#[test]
fn kills_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_db_stress"))
        .args([
            "crash",
            "--duration=8",
            "--interval=2",
            "--threads=4",
            "--max_key=5000",
            "--column_families=4",
        ])
        .args(["--db_write_buffer_size=1048576", "--allow_wbm_stalls=true", "--start_delay_percent=5"])
        .args(["--write_buffer_size=1048576", "--value_size_mult=64", "--initiate_wbm_flushes=false"])
        .arg("--liveness_seconds=300")
        .arg(format!("--db={}", dir.path().join("db").display()))
        .arg(format!("--expected_values_dir={}", dir.path().join("e").display()))
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    let last = out.lines().last().unwrap_or_default();
    let numbers: Vec<u64> = last
        .split(|c: char| !c.is_ascii_digit())
        .filter(|word| !word.is_empty())
        .map(|word| word.parse().unwrap())
        .collect();
    let [kills, verified, delays, _stops] = numbers[..] else { panic!("{out}") };
    assert_eq!(
        last,
        format!(
            "Crash test: {kills} kills, {verified} restarts verified, {delays} delays, {} stops",
            numbers[3]
        )
    );
    assert!(kills >= 1 && verified >= kills && delays >= 1, "{out}");
    let passed = out.lines().filter(|line| *line == "Crash-recovery verification passed :)").count();
    assert_eq!(passed as u64, verified, "{out}");
    assert!(!out.contains("failed") && !err.contains("failed"), "{out}\n{err}");
}
