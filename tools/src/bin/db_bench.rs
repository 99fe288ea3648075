//! `db_bench`: RocksDB's benchmark tool, for SluiceDB.
//!
//! Hands the process's arguments and streams to [`sluicedb_tools::db_bench::run`] and returns its exit code.

use std::io::IsTerminal;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> =
        std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    let err_is_terminal = std::io::stderr().is_terminal() && std::env::var_os("NO_PROGRESS").is_none();
    let code = sluicedb_tools::db_bench::run(&args, std::io::stdout(), std::io::stderr(), err_is_terminal);
    ExitCode::from(code)
}
