//! `sluice checkpoint`: a second database of what one holds now.

use std::path::PathBuf;

use sluicedb::Db;

use super::common::{Failure, Streams, options};

/// Makes a database in another directory of what this one holds; tables are hard-linked.
///
/// Opens the database for writing, so no other process may have it open.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory of the database
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    /// Directory of the new one, which must not hold anything
    #[arg(long, value_name = "DIR")]
    checkpoint_dir: PathBuf,
}

/// `sluice checkpoint`.
pub fn run(args: &Args, streams: &mut Streams<'_>) -> Result<(), Failure> {
    let db = Db::open(&args.db, options())?;
    let made = db.checkpoint(&args.checkpoint_dir);
    let closed = db.close();
    made?;
    closed?;
    streams.print("OK\n");
    Ok(())
}
