//! Runs the kinds of the reliability table for a time: `torture --kind R1,R2 --seconds 60 --json`.
//!
//! Results go to stdout, everything else to stderr. Exit code: 0 = no failure, 1 = failures, 2 = usage.

use std::io::Write;
use std::process::ExitCode;

use sluicedb_tests::kinds::kill;
use sluicedb_tests::torture::{Args, USAGE, draw_seed, run};

fn main() -> ExitCode {
    if kill::child() {
        return ExitCode::SUCCESS;
    }
    let args = match Args::parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(why) => {
            eprintln!("torture: {why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let drawn = draw_seed();
    if args.seed.is_none() {
        eprintln!("seed {drawn}");
    }
    if !args.missing.is_empty() {
        eprintln!("not built yet, and left out: {}", args.missing.join(", "));
    }
    let mut failures = 0;
    for kind in args.kinds {
        let tally = run(kind, args.seconds, args.seed, drawn);
        failures += tally.failures;
        let line = if args.json { tally.json() } else { tally.row() };
        if writeln!(std::io::stdout(), "{line}").is_err() {
            // Nobody listens any more.
            break;
        }
    }
    // Not a return from `main` alone: a case that hangs has left a thread behind.
    std::process::exit(i32::from(failures > 0))
}
