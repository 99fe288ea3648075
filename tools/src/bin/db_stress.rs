//! `db_stress`: does everything to a database at once, and checks that nothing is lost.
//!
//! Hands the process's arguments and streams to [`sluicedb_tools::db_stress::run`] and returns its exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> =
        std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    ExitCode::from(sluicedb_tools::db_stress::run(&args, std::io::stdout(), std::io::stderr()))
}
