//! `sluice checkconsistency`, `verify` and `repair`.

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use sluicedb::{Db, Error};

use super::common::{Failure, Streams, options, status, tell_holder};

/// Checks that every table is there with its recorded size, and that the files of each level fit together.
#[derive(Debug, clap::Args)]
pub struct ConsistencyArgs {
    /// Directory of the database
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
}

/// Reads every byte of CURRENT, the manifest, the log and the tables.
#[derive(Debug, clap::Args)]
pub struct VerifyArgs {
    /// Directory of the database
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Makes a database that opens of what is left of one that does not. Damaged and replaced files are moved to lost/.
#[derive(Debug, clap::Args)]
pub struct RepairArgs {
    /// Directory of the database
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    /// Say what was kept, too
    #[arg(long)]
    verbose: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// `sluice checkconsistency`.
pub fn consistency(args: &ConsistencyArgs, streams: &mut Streams<'_>) -> Result<(), Failure> {
    tell_holder(&args.db, streams);
    Db::open_read_only(&args.db, options())?.close()?;
    streams.print("OK\n");
    Ok(())
}

/// `sluice verify`.
pub fn verify(args: &VerifyArgs, streams: &mut Streams<'_>) -> Result<(), Failure> {
    tell_holder(&args.db, streams);
    let report = Db::verify(&args.db, &options())?;
    let damaged = report.damaged_files().len();
    if args.json {
        let object = json!({
            "ok": report.is_sound(),
            "tables": report.tables,
            "segments": report.segments,
            "manifests": report.manifests,
            "bytes": report.bytes,
            "files": report.files(),
            "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
            "notes": report.notes,
        });
        streams.print(&format!("{object}\n"));
    } else {
        for note in &report.notes {
            streams.note(note);
        }
        for error in &report.findings {
            streams.complain(&describe(error));
        }
    }
    if !report.is_sound() {
        return Err(Failure::Failed(format!("Corruption: {damaged} of {} files", report.files())));
    }
    if !args.json {
        let manifests = if report.manifests == 1 { "manifest" } else { "manifests" };
        streams.print(&format!(
            "OK: {} SSTs, {} WAL segments, {} {manifests}, {} bytes\n",
            report.tables, report.segments, report.manifests, report.bytes
        ));
    }
    Ok(())
}

/// One finding, as the line that names the file.
pub fn describe(error: &Error) -> String {
    match error {
        Error::Corruption { path, offset, found } => {
            format!("{} is corrupted: {found}, at byte {offset}\n", path.display())
        }
        other => format!("{}\n", status(other)),
    }
}

fn finding(error: &Error) -> Value {
    match error {
        Error::Corruption { path, offset, found } => {
            json!({"file": path.display().to_string(), "offset": offset, "found": found.to_string()})
        }
        other => json!({"found": other.to_string()}),
    }
}

/// `sluice repair`.
pub fn repair(args: &RepairArgs, streams: &mut Streams<'_>) -> Result<(), Failure> {
    let report = Db::repair(&args.db, &options())?;
    if args.json {
        let mut object = Map::new();
        object.insert("tables_kept".to_owned(), report.tables_kept.into());
        object.insert("tables_rewritten".to_owned(), report.tables_rewritten.into());
        object.insert("log_batches".to_owned(), report.log_batches.into());
        object.insert("families".to_owned(), report.families.clone().into());
        object.insert("dropped".to_owned(), report.dropped.clone().into());
        let moved = report.moved.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        object.insert("moved".to_owned(), moved.into());
        streams.print_json(object);
        return Ok(());
    }
    for line in &report.dropped {
        streams.complain(&format!("{line}\n"));
    }
    if args.verbose {
        streams.complain(&format!(
            "kept {} tables, wrote {} anew, with {} batches of the log; column families: {}\n",
            report.tables_kept,
            report.tables_rewritten,
            report.log_batches,
            report.families.join(", ")
        ));
        for path in &report.moved {
            streams.complain(&format!("moved to {}\n", path.display()));
        }
    }
    streams.print("OK\n");
    Ok(())
}
