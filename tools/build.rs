//! Tells the programs which revision they are built from: `SLUICEDB_GIT_SHA`, of the environment or else of the checkout.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=SLUICEDB_GIT_SHA");
    println!("cargo::rerun-if-changed=build.rs");
    let log = "../.git/logs/HEAD";
    if Path::new(log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    if std::env::var_os("SLUICEDB_GIT_SHA").is_some() {
        return;
    }
    let output = Command::new("git").args(["rev-parse", "HEAD"]).output();
    if let Some(output) = output.ok().filter(|output| output.status.success()) {
        println!("cargo::rustc-env=SLUICEDB_GIT_SHA={}", String::from_utf8_lossy(&output.stdout).trim());
    }
}
