//! db_bench: from a command line to an exit code.
//!
//! Owns the order of a run: everything about the command line first, and only then the first file. [`session`] keeps
//! the databases and runs the list; [`explain`] and [`help`] run nothing. Streams are handed in, so that tests run
//! exactly what the binary runs.

pub mod explain;
pub mod help;
pub mod maintenance;
pub mod session;

#[cfg(test)]
mod tests;

use std::io::Write;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::console::Console;
use crate::gflags::{self, problem};
use crate::report::header;
use crate::report::json::{self, JsonReport};
use crate::settings::{self, Settings};
use session::Session;

/// Done.
pub const EXIT_DONE: u8 = 0;
/// Any failure, any bad flag, any help text.
pub const EXIT_FAILED: u8 = 1;
/// `--stall_abort_seconds` hit.
pub const EXIT_STALLED: u8 = 3;

/// Runs db_bench with `args` (without the program's name) and returns its exit code.
pub fn run(
    args: &[String],
    out: impl Write + Send + 'static,
    err: impl Write + Send + 'static,
    err_is_terminal: bool,
) -> u8 {
    let console = Console::new(out, err, err_is_terminal);
    let line = gflags::parse(args, &|name| std::env::var(name).ok());
    if line.help {
        console.out(&help::text());
        return EXIT_FAILED;
    }
    if line.version {
        console.out(&format!("db_bench version {}\n", env!("CARGO_PKG_VERSION")));
        return EXIT_DONE;
    }
    let resolved = settings::resolve(&line);
    if line.is_set("explain_flags") {
        console.out(&explain::rows(&line, &resolved.settings));
    } else {
        console.err(&resolved.notes.iter().map(|note| format!("{note}\n")).collect::<String>());
    }
    if !resolved.problems.is_empty() {
        console.err(&problem::render(&resolved.problems));
        return EXIT_FAILED;
    }
    if line.is_set("explain_flags") {
        return EXIT_DONE;
    }
    if line.is_set("build_info") {
        let profile = if cfg!(debug_assertions) { "with assertions" } else { "optimised" };
        console.out(&format!("db_bench version {}, built {profile}\n", env!("CARGO_PKG_VERSION")));
        return EXIT_DONE;
    }
    let mut settings = resolved.settings;
    let json = match settings.bench.json.as_str() {
        "" => None,
        path => match JsonReport::create(path) {
            Ok(report) => Some(report),
            Err(message) => {
                console.err(&format!("\nERROR: {message}\n"));
                return EXIT_FAILED;
            }
        },
    };
    if let Some(JsonReport::Stdout) = json {
        console.reserve_stdout_for_json();
    }
    choose_seed(&mut settings, &console);
    if let Some(report) = &json {
        report.write(&console, &json::system(&settings.bench.db));
        report.write(&console, &json::config(args, &line, &settings));
    }
    let begin = Instant::now();
    let exit = execute(&settings, &console, json.as_ref());
    if let Some(report) = &json {
        report.write(&console, &json::fin(exit, begin.elapsed().as_secs_f64()));
    }
    exit
}

/// A seed of 0 means the clock, and says so.
fn choose_seed(settings: &mut Settings, console: &Console) {
    if settings.bench.seed == 0 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        settings.bench.seed = since.as_micros() as u64;
        console.out(&format!("Set seed to {} because --seed was 0\n", settings.bench.seed));
    }
}

fn execute(settings: &Settings, console: &Console, json: Option<&JsonReport>) -> u8 {
    console.out("Initializing database Options from command-line flags\n");
    let outcome = Session::open(settings, console, json).and_then(|mut session| {
        console.err(&header::machine());
        console.out(&header::load(settings));
        for entry in &settings.bench.entries {
            session.run_entry(entry)?;
        }
        if settings.bench.statistics {
            session.print_statistics();
        }
        session.close()
    });
    match outcome {
        Ok(()) => EXIT_DONE,
        Err(failure) => {
            console.err(&format!("\nERROR: {}\n", failure.0));
            EXIT_FAILED
        }
    }
}
