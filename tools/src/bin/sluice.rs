//! `sluice`: looking at databases, and at the law by which they slow their writers.
//!
//! Hands the process's arguments and streams to [`sluicedb_tools::sluice::run`] and returns its exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> =
        std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    ExitCode::from(sluicedb_tools::sluice::run(&args, &mut std::io::stdout(), &mut std::io::stderr()))
}
