//! `sluice dump-manifest`: which tables make up which level, and the edits that made it so.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use sluicedb::DiskFileSystem;
use sluicedb::inspect::{
    FamilyFiles, InternalKey, ManifestContents, ManifestRecord, TableFacts, read_current, read_manifest,
};

use super::check::describe;
use super::common::{Failure, Form, Streams, put_bytes, tell_holder};

/// Prints what a manifest says.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory of the database
    #[arg(long, value_name = "DIR", required_unless_present = "path")]
    db: Option<PathBuf>,
    /// The manifest; without it the one that CURRENT names
    #[arg(long, value_name = "FILE")]
    path: Option<PathBuf>,
    /// Print each edit first
    #[arg(long)]
    verbose: bool,
    #[command(flatten)]
    form: Form,
    /// Print one JSON object per table instead of text
    #[arg(long)]
    json: bool,
}

/// How keys are ordered.
pub const COMPARATOR: &str = "sluicedb.BytewiseComparator";

/// `sluice dump-manifest`.
pub fn run(args: &Args, streams: &mut Streams<'_>) -> Result<(), Failure> {
    if let Some(dir) = &args.db {
        tell_holder(dir, streams);
    }
    let path = match (&args.path, &args.db) {
        (Some(path), _) => path.clone(),
        (None, dir) => live_manifest(dir.as_deref().unwrap_or(Path::new("")))?,
    };
    let contents = read_manifest(&DiskFileSystem, &path)?;
    if args.json {
        print_objects(&contents, args.form, streams);
    } else {
        let mut text = String::new();
        if args.verbose {
            contents.records.iter().for_each(|record| show_edit(&mut text, record, args.form));
        }
        contents.families.iter().for_each(|family| show_family(&mut text, &contents, family, args.form));
        let _ = writeln!(
            text,
            "next_file_number {} last_sequence {}  prev_log_number 0 max_column_family {} \
             min_log_number_to_keep {}",
            contents.next_file_number,
            contents.last_sequence,
            contents.next_family_id.saturating_sub(1),
            contents.first_needed_segment
        );
        streams.print(&text);
    }
    for damage in &contents.damage {
        streams.complain(&describe(damage));
    }
    match contents.damage.len() {
        0 => Ok(()),
        places => Err(Failure::Failed(format!("Corruption: {places} places in {}", path.display()))),
    }
}

/// The manifest that CURRENT names; without a readable CURRENT, the only one there is.
fn live_manifest(dir: &Path) -> Result<PathBuf, Failure> {
    let refused = match read_current(&DiskFileSystem, dir) {
        Ok(current) => return Ok(dir.join(current.manifest)),
        Err(error) => error,
    };
    let names = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut manifests: Vec<String> = names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("MANIFEST-"))
        .collect();
    manifests.sort();
    match &manifests[..] {
        [] => Err(refused.into()),
        [only] => Ok(dir.join(only)),
        several => Err(Failure::Failed(format!(
            "Invalid argument: {refused}; name one of {} with --path",
            several.join(", ")
        ))),
    }
}

fn show_key(key: &InternalKey, form: Form) -> String {
    let number = key.kind.map_or_else(|| "?".to_owned(), |kind| kind.number().to_string());
    format!("'{}' seq:{}, type:{number}", form.quote_key(&key.user_key), key.sequence)
}

fn show_family(text: &mut String, contents: &ManifestContents, family: &FamilyFiles, form: Form) {
    let edits = contents.records.iter().flat_map(|record| &record.families);
    let version = edits.filter(|change| change.id == family.id).count();
    let _ = writeln!(
        text,
        "--------------- Column family \"{}\"  (ID {}) --------------",
        family.name, family.id
    );
    let _ = writeln!(text, "log number: {}", contents.first_needed_segment);
    let _ = writeln!(text, "comparator: {COMPARATOR}");
    for (level, files) in family.levels.iter().enumerate() {
        let _ = writeln!(text, "--- level {level} --- version# {version} ---");
        for file in files {
            let _ = writeln!(
                text,
                " {}:{}[{} .. {}][{} .. {}]",
                file.number,
                file.size,
                file.smallest_sequence,
                file.largest_sequence,
                show_key(&file.smallest, form),
                show_key(&file.largest, form)
            );
        }
    }
}

fn show_edit(text: &mut String, record: &ManifestRecord, form: Form) {
    let _ = writeln!(text, "VersionEdit {{");
    if let Some(number) = record.first_needed_segment {
        let _ = writeln!(text, "  LogNumber: {number}");
    }
    if let Some(number) = record.next_file_number {
        let _ = writeln!(text, "  NextFileNumber: {number}");
    }
    if let Some(seq) = record.last_sequence {
        let _ = writeln!(text, "  LastSeq: {seq}");
    }
    if let Some((segment, bytes, seq)) = record.synced {
        let _ = writeln!(text, "  WalSynced: {segment} {bytes} {seq}");
    }
    for segment in &record.quarantined {
        let _ = writeln!(text, "  WalQuarantined: {segment}");
    }
    for change in &record.families {
        if let Some(name) = &change.created {
            let _ = writeln!(text, "  ColumnFamilyAdd: {name}");
        }
        if change.dropped {
            let _ = writeln!(text, "  ColumnFamilyDrop");
        }
        if let Some(seq) = change.flushed_through {
            let _ = writeln!(text, "  FlushedThrough: {seq}");
        }
        for (level, number) in &change.removed {
            let _ = writeln!(text, "  DeleteFile: {level} {number}");
        }
        for (level, file) in &change.added {
            let (from, to) = (show_key(&file.smallest, form), show_key(&file.largest, form));
            let _ = writeln!(text, "  AddFile: {level} {} {} {from} .. {to}", file.number, file.size);
        }
        let _ = writeln!(text, "  ColumnFamily: {}", change.id);
    }
    let _ = writeln!(text, "}}");
}

fn print_objects(contents: &ManifestContents, form: Form, streams: &mut Streams<'_>) {
    let head = json!({
        "manifest": contents.path.display().to_string(),
        "bytes": contents.bytes,
        "edits": contents.records.len(),
        "next_file_number": contents.next_file_number,
        "last_sequence": contents.last_sequence.get(),
        "first_needed_segment": contents.first_needed_segment,
        "column_families": contents.families.iter().map(|family| family.name.as_str()).collect::<Vec<_>>(),
    });
    streams.print(&format!("{head}\n"));
    for family in &contents.families {
        for (level, files) in family.levels.iter().enumerate() {
            for file in files {
                streams.print_json(table_object(family, level, file, form));
            }
        }
    }
}

fn table_object(family: &FamilyFiles, level: usize, file: &TableFacts, form: Form) -> Map<String, Value> {
    let mut object = Map::new();
    let as_hex = form.hex || form.key_hex;
    object.insert("column_family".to_owned(), family.name.as_str().into());
    for (name, number) in [
        ("level", level as u64),
        ("number", file.number),
        ("size", file.size),
        ("entries", file.entries),
        ("tombstones", file.tombstones),
        ("smallest_sequence", file.smallest_sequence.get()),
        ("largest_sequence", file.largest_sequence.get()),
        ("created_micros", file.created_micros),
    ] {
        object.insert(name.to_owned(), number.into());
    }
    put_bytes(&mut object, "smallest", &file.smallest.user_key, as_hex);
    put_bytes(&mut object, "largest", &file.largest.user_key, as_hex);
    object
}
