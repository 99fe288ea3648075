//! sluice: from a command line to an exit code.
//!
//! Owns what all commands share: options stand before or after the command, underscores are taken for dashes, ldb's names
//! of the commands are understood, and the exit code is 0 for success, 1 for a failure (`Failed: ...` on stderr), 2 for a
//! command line that cannot be followed, with nothing on stdout then, 4 for a run that is worse than `compare` allows. What a command prints is its own module's.
//!
//! | commands | module |
//! |---|---|
//! | get, put, delete | [`data`] |
//! | scan | [`scan`] |
//! | list-cf, properties | [`describe`] |
//! | checkconsistency, verify, repair | [`check`] |
//! | checkpoint | [`checkpoint`] |
//! | dump-wal, dump-manifest, sst | [`dump_wal`], [`dump_manifest`], [`sst`] |
//! | pressure | [`pressure`] |
//! | compare, plot | [`compare`] |
//!
//! All but put, delete, repair and checkpoint write nothing but a picture that was asked for, take no lock, and work on a database that another process holds.

pub mod check;
pub mod checkpoint;
pub mod common;
pub mod compare;
pub mod data;
pub mod describe;
pub mod dump_manifest;
pub mod dump_wal;
pub mod pressure;
pub mod scan;
pub mod sst;

use std::io::Write;

use clap::{Parser, Subcommand};

use common::{Failure, Streams};

/// Done.
pub const EXIT_DONE: u8 = 0;
/// What was asked for could not be done, or something is wrong.
pub const EXIT_FAILED: u8 = 1;
/// The command line cannot be followed.
pub const EXIT_USAGE: u8 = 2;
/// `compare --fail-if-worse`, and a run is.
pub const EXIT_WORSE: u8 = 4;

/// Looks at SluiceDB databases, checks and repairs them, and shows the law by which they slow their writers.
#[derive(Debug, Parser)]
#[command(name = "sluice", version)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Get(data::GetArgs),
    #[command(alias = "batchput")]
    Put(data::PutArgs),
    #[command(alias = "deleterange")]
    Delete(data::DeleteArgs),
    #[command(alias = "dump")]
    Scan(scan::Args),
    #[command(alias = "list-column-families")]
    ListCf(describe::ListArgs),
    #[command(alias = "get-property")]
    Properties(describe::PropertiesArgs),
    Checkconsistency(check::ConsistencyArgs),
    Verify(check::VerifyArgs),
    Repair(check::RepairArgs),
    Checkpoint(checkpoint::Args),
    DumpWal(dump_wal::Args),
    #[command(alias = "manifest-dump")]
    DumpManifest(dump_manifest::Args),
    #[command(alias = "list-live-files-metadata", alias = "sst-dump")]
    Sst(sst::Args),
    Pressure(pressure::Args),
    Compare(compare::CompareArgs),
    Plot(compare::PlotArgs),
}

/// Names of the commands, ldb's included.
const COMMANDS: [&str; 23] = [
    "get",
    "put",
    "batchput",
    "delete",
    "deleterange",
    "scan",
    "dump",
    "list-cf",
    "list-column-families",
    "properties",
    "get-property",
    "checkconsistency",
    "verify",
    "repair",
    "checkpoint",
    "dump-wal",
    "dump-manifest",
    "manifest-dump",
    "sst",
    "sst-dump",
    "pressure",
    "compare",
    "plot",
];

/// Runs sluice with `args` (without the program's name) and returns its exit code.
///
/// A stream that cannot be written is ignored: a reader may close its pipe when it has seen enough.
pub fn run(args: &[String], out: &mut impl Write, err: &mut impl Write) -> u8 {
    let mut out = std::io::BufWriter::new(out);
    let mut streams = Streams { out: &mut out, err };
    let outcome = match Line::try_parse_from(in_order(args)) {
        Ok(line) => execute(line.command, &mut streams),
        Err(refused) if refused.use_stderr() => Err(Failure::Usage(refused.to_string())),
        Err(help) => {
            streams.print(&help.to_string());
            Ok(())
        }
    };
    let _ = streams.out.flush();
    match outcome {
        Ok(()) => EXIT_DONE,
        Err(Failure::Failed(status)) => {
            streams.complain(&format!("Failed: {status}\n"));
            EXIT_FAILED
        }
        Err(Failure::Worse) => EXIT_WORSE,
        Err(Failure::Usage(text)) => {
            streams.complain(&text);
            EXIT_USAGE
        }
    }
}

fn execute(command: Command, streams: &mut Streams<'_>) -> Result<(), Failure> {
    match command {
        Command::Get(args) => data::get(&args, streams),
        Command::Put(args) => data::put(&args, streams),
        Command::Delete(args) => data::delete(&args, streams),
        Command::Scan(args) => scan::run(&args, streams),
        Command::ListCf(args) => describe::list_families(&args, streams),
        Command::Properties(args) => describe::properties(&args, streams),
        Command::Checkconsistency(args) => check::consistency(&args, streams),
        Command::Verify(args) => check::verify(&args, streams),
        Command::Repair(args) => check::repair(&args, streams),
        Command::Checkpoint(args) => checkpoint::run(&args, streams),
        Command::DumpWal(args) => dump_wal::run(&args, streams),
        Command::DumpManifest(args) => dump_manifest::run(&args, streams),
        Command::Sst(args) => sst::run(&args, streams),
        Command::Compare(args) => compare::compare(&args, streams),
        Command::Plot(args) => compare::plot(&args, streams),
        Command::Pressure(args) => {
            let text = pressure::text(&args).map_err(Failure::Usage)?;
            streams.print(&text);
            Ok(())
        }
    }
}

/// The arguments as clap wants them: the program, the command, then its options, spelled with dashes.
fn in_order(args: &[String]) -> Vec<String> {
    let mut ordered: Vec<String> = args.iter().map(|arg| with_dashes(arg)).collect();
    let is_value = |at: usize| at > 0 && ["--db", "--column-family"].contains(&ordered[at - 1].as_str());
    let names_command =
        |at: &usize| !is_value(*at) && COMMANDS.contains(&ordered[*at].replace('_', "-").as_str());
    if let Some(at) = (0..ordered.len()).find(names_command) {
        ordered[at] = ordered[at].replace('_', "-");
        ordered[..=at].rotate_right(1);
    }
    ordered.insert(0, "sluice".to_owned());
    ordered
}

/// `--some_option=a_b` as `--some-option=a_b`; anything else as it is.
fn with_dashes(arg: &str) -> String {
    if !arg.starts_with("--") {
        return arg.to_owned();
    }
    let end = arg.find('=').unwrap_or(arg.len());
    arg[..end].replace('_', "-") + &arg[end..]
}

#[cfg(test)]
mod tests;
