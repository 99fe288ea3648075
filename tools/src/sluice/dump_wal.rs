//! `sluice dump-wal`: the batches of a log, one a line.

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use sluicedb::inspect::{EntryKind, LogItem, LogRecord, read_log};
use sluicedb::{DiskFileSystem, Error};

use super::check::describe;
use super::common::{Failure, Streams, hex, put_bytes, tell_holder};

/// Prints the batches of a segment, or of all segments of a directory.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A segment, or a database's directory
    #[arg(required_unless_present_any = ["walfile", "db"])]
    path: Option<PathBuf>,
    /// The same
    #[arg(long, value_name = "FILE", conflicts_with = "path", hide = true)]
    walfile: Option<PathBuf>,
    /// Directory of the database
    #[arg(long, value_name = "DIR", conflicts_with_all = ["path", "walfile"])]
    db: Option<PathBuf>,
    /// Print what the columns are
    #[arg(long)]
    header: bool,
    /// Print values, too
    #[arg(long)]
    print_value: bool,
    /// Print one JSON object per batch instead of text
    #[arg(long)]
    json: bool,
}

/// `sluice dump-wal`.
pub fn run(args: &Args, streams: &mut Streams<'_>) -> Result<(), Failure> {
    let path = args.path.as_ref().or(args.walfile.as_ref()).or(args.db.as_ref()).cloned().unwrap_or_default();
    tell_holder(if path.is_dir() { &path } else { path.parent().unwrap_or(&path) }, streams);
    if args.header && !args.json {
        streams.print("Sequence,Count,ByteSize,Physical Offset,Key(s)");
        streams.print(if args.print_value { " : value \n" } else { "\n" });
    }
    let mut damaged = 0;
    let outcome = read_log(&DiskFileSystem, &path, |item| {
        match item {
            LogItem::Record(record) if args.json => streams.print_json(object(&record, args.print_value)),
            LogItem::Record(record) => streams.print(&line(&record, args.print_value)),
            LogItem::Damage(error) => {
                damaged += 1;
                streams.complain(&describe(&error));
            }
            LogItem::Note { path, offset, what } => {
                streams.note(&format!("{} at byte {offset}: {what}", path.display()));
            }
            _ => {}
        }
        Ok::<(), Error>(())
    });
    outcome?;
    if damaged > 0 {
        return Err(Failure::Failed(format!("Corruption: {damaged} places in the log")));
    }
    Ok(())
}

fn word(kind: EntryKind) -> &'static str {
    if kind == EntryKind::Put { "PUT" } else { "DELETE" }
}

fn line(record: &LogRecord<'_>, with_values: bool) -> String {
    let mut line =
        format!("{},{},{},{},", record.first_sequence, record.entries.len(), record.bytes, record.offset);
    for entry in &record.entries {
        line += &format!("{}({}) : {} ", word(entry.kind), entry.family, hex(entry.key));
        if with_values && entry.kind == EntryKind::Put {
            line += &format!(": {} ", hex(entry.value));
        }
    }
    line + "\n"
}

fn object(record: &LogRecord<'_>, with_values: bool) -> Map<String, Value> {
    let entry = |entry: &sluicedb::inspect::LogEntry<'_>| {
        let mut object = Map::new();
        object.insert("kind".to_owned(), word(entry.kind).to_lowercase().into());
        object.insert("column_family_id".to_owned(), entry.family.into());
        put_bytes(&mut object, "key", entry.key, false);
        if with_values && entry.kind == EntryKind::Put {
            put_bytes(&mut object, "value", entry.value, false);
        }
        Value::Object(object)
    };
    let fields = json!({
        "file": record.path.display().to_string(),
        "offset": record.offset,
        "bytes": record.bytes,
        "sequence": record.first_sequence.get(),
        "entries": record.entries.iter().map(entry).collect::<Vec<_>>(),
    });
    match fields {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}
