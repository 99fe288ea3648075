//! `sluice list-cf` and `properties`: what a database consists of, and what it says about itself.

use std::path::PathBuf;

use serde_json::{Map, Value};
use sluicedb::{Db, Error};

use super::common::{Common, Failure, Streams, options, tell_holder};

/// Lists the column families.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Directory of the database
    #[arg(long, value_name = "DIR", required_unless_present = "dir")]
    db: Option<PathBuf>,
    /// The same
    #[arg(conflicts_with = "db")]
    dir: Option<PathBuf>,
    /// Print one JSON object per line instead of text
    #[arg(long)]
    json: bool,
}

/// Prints properties.
#[derive(Debug, clap::Args)]
pub struct PropertiesArgs {
    #[command(flatten)]
    common: Common,
    /// Names; none means all that are one line
    names: Vec<String>,
}

/// The properties that are one line.
const NAMES: [&str; 32] = [
    "rocksdb.num-immutable-mem-table",
    "rocksdb.cur-size-active-mem-table",
    "rocksdb.cur-size-all-mem-tables",
    "rocksdb.size-all-mem-tables",
    "rocksdb.num-entries-active-mem-table",
    "rocksdb.num-entries-imm-mem-tables",
    "rocksdb.mem-table-flush-pending",
    "rocksdb.num-running-flushes",
    "rocksdb.num-running-compactions",
    "rocksdb.compaction-pending",
    "rocksdb.estimate-pending-compaction-bytes",
    "rocksdb.background-errors",
    "rocksdb.estimate-num-keys",
    "rocksdb.total-sst-files-size",
    "rocksdb.live-sst-files-size",
    "rocksdb.num-snapshots",
    "rocksdb.oldest-snapshot-sequence",
    "rocksdb.num-live-versions",
    "rocksdb.block-cache-capacity",
    "rocksdb.block-cache-usage",
    "rocksdb.estimate-table-readers-mem",
    "rocksdb.actual-delayed-write-rate",
    "rocksdb.is-write-stopped",
    "rocksdb.num-files-at-level0",
    "rocksdb.num-files-at-level1",
    "rocksdb.num-files-at-level2",
    "rocksdb.num-files-at-level3",
    "rocksdb.num-files-at-level4",
    "rocksdb.num-files-at-level5",
    "rocksdb.num-files-at-level6",
    "sluicedb.bytes_pinned_by_readers",
    "sluicedb.memtables.bytes",
];

/// `sluice list-cf`.
pub fn list_families(args: &ListArgs, streams: &mut Streams<'_>) -> Result<(), Failure> {
    let dir = args.db.as_ref().or(args.dir.as_ref()).cloned().unwrap_or_default();
    tell_holder(&dir, streams);
    let names = Db::list_column_families(&dir, &options())?;
    if args.json {
        for name in names {
            streams.print_json(Map::from_iter([("column_family".to_owned(), Value::from(name))]));
        }
    } else {
        streams.print(&format!("Column families in {}: \n{{{}}}\n", dir.display(), names.join(", ")));
    }
    Ok(())
}

/// `sluice properties`.
pub fn properties(args: &PropertiesArgs, streams: &mut Streams<'_>) -> Result<(), Failure> {
    let (db, family) = args.common.open_read_only(streams)?;
    let all: Vec<String> = NAMES.iter().map(|name| (*name).to_owned()).collect();
    let names = if args.names.is_empty() { &all } else { &args.names };
    let mut values = Vec::new();
    for name in names {
        let unknown = || {
            let why = format!("there is no property '{name}'; without a name all are listed");
            Failure::from(Error::InvalidArgument { what: "property", why })
        };
        values.push((name, db.property_cf(&family, name).ok_or_else(unknown)?));
    }
    for (name, value) in values {
        if args.common.json {
            let value = value.parse::<u64>().map_or_else(|_| Value::from(value), Value::from);
            streams.print_json(Map::from_iter([
                ("property".to_owned(), Value::from(name.as_str())),
                ("value".to_owned(), value),
            ]));
        } else {
            streams.print(&format!("{name}: {}\n", value.trim_end_matches('\n')));
        }
    }
    Ok(())
}
