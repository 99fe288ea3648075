//! `sluice sst`: tables by themselves: their entries, their properties, and whether they are whole.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::{Map, Value, json};
use sluicedb::inspect::{InternalKey, Table, TableProperties, read_current, read_manifest};
use sluicedb::{DiskFileSystem, Error};

use super::check::describe;
use super::common::{Failure, Form, Streams, hex, put_bytes, tell_holder};
use super::dump_manifest::COMPARATOR;

/// Looks at tables.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A table, or a directory of which all tables are meant; several are taken one by one
    #[arg(required_unless_present_any = ["file", "db"])]
    paths: Vec<PathBuf>,
    /// The same
    #[arg(long, value_name = "FILE_OR_DIR", hide = true)]
    file: Option<PathBuf>,
    /// Directory of the database
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// What to do
    #[arg(long, value_enum, default_value_t = Action::Check)]
    command: Action,
    /// Print what each table says of itself
    #[arg(long)]
    show_properties: bool,
    /// Print keys and values as hex
    #[arg(long)]
    output_hex: bool,
    /// First key
    #[arg(long)]
    from: Option<String>,
    /// The key at which it ends, which is not printed
    #[arg(long)]
    to: Option<String>,
    /// Most entries of each table
    #[arg(long, value_name = "N")]
    read_num: Option<u64>,
    /// Check every byte of each table, too
    #[arg(long)]
    verify_checksum: bool,
    /// List the tables that the database in the directory is made of
    #[arg(long)]
    live: bool,
    /// With --live: by name instead of by level
    #[arg(long, requires = "live")]
    sort_by_filename: bool,
    /// Print one JSON object per line instead of text
    #[arg(long)]
    json: bool,
}

/// What `sluice sst` does with a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Action {
    /// Read every entry and compare their number with what the table says
    Check,
    /// Print the entries
    Scan,
    /// Write them into a file beside, 000023_dump.txt in the working directory
    Raw,
    /// Check every byte
    Verify,
    /// Say which files are tables
    Identify,
}

/// `sluice sst`.
pub fn run(args: &Args, streams: &mut Streams<'_>) -> Result<(), Failure> {
    let given = args.paths.iter().chain(&args.file).chain(&args.db);
    if args.live {
        return given.into_iter().try_for_each(|dir| list_live(args, dir, streams));
    }
    let mut files = Vec::new();
    for path in given {
        files.extend(tables_in(path)?);
    }
    let (mut valid, mut wrong) = (0, Vec::new());
    for path in &files {
        match look(args, path, streams) {
            Ok(()) => valid += 1,
            Err(errors) => {
                errors.iter().for_each(|error| streams.complain(&describe(error)));
                wrong.push(path.display().to_string());
            }
        }
    }
    if args.command == Action::Identify && wrong.is_empty() && valid > 1 {
        streams.print(&format!("{valid} valid SST files\n"));
    }
    match (valid, wrong.len()) {
        (0, 0) => Err(Failure::Failed("Invalid argument: there is no SST file".to_owned())),
        (_, 0) => Ok(()),
        (_, bad) => Err(Failure::Failed(format!("Corruption: {bad} of {} files", files.len()))),
    }
}

/// The file itself, or every table in the directory by name.
fn tables_in(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).map_err(|error| Error::io("list", path, error))?;
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "sst"))
        .collect();
    files.sort();
    Ok(files)
}

fn look(args: &Args, path: &Path, streams: &mut Streams<'_>) -> Result<(), Vec<Error>> {
    if args.command == Action::Verify || args.verify_checksum {
        let findings = Table::verify(&DiskFileSystem, path);
        if !findings.is_empty() {
            return Err(findings);
        }
        if args.command == Action::Verify {
            streams.print(&format!("Process {}\nThe file is ok\n", path.display()));
        }
    }
    let table = Table::open(&DiskFileSystem, path).map_err(|error| vec![error])?;
    let properties = table.properties();
    match args.command {
        Action::Scan => scan(args, &table, streams).map_err(|error| vec![error])?,
        Action::Raw => raw(args, &table).map_err(|error| vec![error])?,
        Action::Check => check_count(&table, &properties).map_err(|error| vec![error])?,
        Action::Identify => streams.print(&format!("{} is a valid SST file\n", path.display())),
        Action::Verify => {}
    }
    if args.show_properties {
        if args.json {
            streams.print_json(properties_object(path, &properties));
        } else {
            streams.print(&properties_text(&properties));
        }
    }
    Ok(())
}

fn check_count(table: &Table, properties: &TableProperties) -> Result<(), Error> {
    let mut entries = 0;
    table.for_each(None, |_, _| {
        entries += 1;
        Ok(true)
    })?;
    if entries == properties.entries {
        return Ok(());
    }
    let why = format!(
        "{} has {entries} entries and says that it has {}",
        table.path().display(),
        properties.entries
    );
    Err(Error::InvalidArgument { what: "table", why })
}

fn form(args: &Args) -> Form {
    Form { hex: args.output_hex, key_hex: false, value_hex: false }
}

/// Hands every wanted entry to `visit`.
fn for_each_wanted(
    args: &Args,
    table: &Table,
    mut visit: impl FnMut(&InternalKey, &[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let bound = |text: &Option<String>| text.as_ref().map(|text| text.as_bytes().to_vec());
    let (from, to) = (bound(&args.from), bound(&args.to));
    let mut count = 0;
    table.for_each(from.as_deref(), |key, value| {
        let is_wanted =
            to.as_ref().is_none_or(|to| key.user_key < *to) && args.read_num.is_none_or(|most| count < most);
        if is_wanted {
            count += 1;
            visit(key, value)?;
        }
        Ok(is_wanted)
    })
}

fn entry_line(args: &Args, key: &InternalKey, value: &[u8]) -> String {
    let form = form(args);
    let number = key.kind.map_or_else(|| "?".to_owned(), |kind| kind.number().to_string());
    let value = if args.output_hex { hex(value) } else { value.escape_ascii().to_string() };
    format!("'{}' seq:{}, type:{number} => {value}\n", form.quote_key(&key.user_key), key.sequence)
}

fn scan(args: &Args, table: &Table, streams: &mut Streams<'_>) -> Result<(), Error> {
    if args.json {
        return for_each_wanted(args, table, |key, value| {
            let mut object = Map::new();
            put_bytes(&mut object, "key", &key.user_key, args.output_hex);
            object.insert("sequence".to_owned(), key.sequence.get().into());
            object.insert("type".to_owned(), key.kind.map(|kind| kind.number()).into());
            put_bytes(&mut object, "value", value, args.output_hex);
            streams.print_json(object);
            Ok(())
        });
    }
    let (from, to) = (args.from.as_deref().unwrap_or(""), args.to.as_deref().unwrap_or(""));
    streams.print(&format!("Process {}\nSst file format: block-based\n", table.path().display()));
    streams.print(&format!("from [{from}] to [{to}]\n"));
    for_each_wanted(args, table, |key, value| {
        streams.print(&entry_line(args, key, value));
        Ok(())
    })
}

fn raw(args: &Args, table: &Table) -> Result<(), Error> {
    let stem = table.path().file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let path = PathBuf::from(format!("{stem}_dump.txt"));
    let mut text = properties_text(&table.properties());
    for_each_wanted(args, table, |key, value| {
        text += &entry_line(args, key, value);
        Ok(())
    })?;
    std::fs::write(&path, text).map_err(|error| Error::io("write", &path, error))
}

/// What a table says of itself, under upstream's names and in its order, as far as we have it.
fn properties_text(properties: &TableProperties) -> String {
    let average = |bytes: u64| bytes as f64 / properties.entries.max(1) as f64;
    let (family, name) = properties
        .family
        .clone()
        .map_or_else(|| ("unknown".to_owned(), "unknown".to_owned()), |(id, name)| (id.to_string(), name));
    let filter = if properties.filter_bytes > 0 { "bloomfilter" } else { "N/A" };
    let compression = if properties.compressed_blocks > 0 { "LZ4" } else { "NoCompression" };
    let mut text = String::from("Table Properties:\n------------------------------\n");
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {name}: {value}");
    };
    line("# data blocks", properties.data_blocks.to_string());
    line("# entries", properties.entries.to_string());
    line("# deletions", properties.tombstones.to_string());
    line("raw key size", properties.raw_key_bytes.to_string());
    line("raw average key size", format!("{:.6}", average(properties.raw_key_bytes)));
    line("raw value size", properties.raw_value_bytes.to_string());
    line("raw average value size", format!("{:.6}", average(properties.raw_value_bytes)));
    line("data block size", properties.data_bytes.to_string());
    line("index block size (user-key? 0, delta-value? 0)", properties.index_bytes.to_string());
    line("filter block size", properties.filter_bytes.to_string());
    line("# entries for filter", properties.filter_keys.to_string());
    let parts = properties.data_bytes + properties.index_bytes + properties.filter_bytes;
    line("(estimated) table size", parts.to_string());
    line("filter policy name", filter.to_owned());
    line("column family ID", family);
    line("column family name", name);
    line("comparator name", COMPARATOR.to_owned());
    line("SST file compression algo", compression.to_owned());
    text
}

fn properties_object(path: &Path, properties: &TableProperties) -> Map<String, Value> {
    let fields = json!({
        "file": path.display().to_string(),
        "file_bytes": properties.file_bytes,
        "entries": properties.entries,
        "tombstones": properties.tombstones,
        "raw_key_bytes": properties.raw_key_bytes,
        "raw_value_bytes": properties.raw_value_bytes,
        "data_blocks": properties.data_blocks,
        "compressed_blocks": properties.compressed_blocks,
        "data_bytes": properties.data_bytes,
        "index_bytes": properties.index_bytes,
        "filter_bytes": properties.filter_bytes,
        "filter_keys": properties.filter_keys,
        "column_family": properties.family.as_ref().map(|(_, name)| name.as_str()),
    });
    match fields {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// `sluice sst DIR --live`.
fn list_live(args: &Args, dir: &Path, streams: &mut Streams<'_>) -> Result<(), Failure> {
    tell_holder(dir, streams);
    let current = read_current(&DiskFileSystem, dir)?;
    let contents = read_manifest(&DiskFileSystem, &dir.join(current.manifest))?;
    let path = |number: u64| dir.join(format!("{number:06}.sst")).display().to_string();
    for family in &contents.families {
        if args.json {
            for (level, files) in family.levels.iter().enumerate() {
                for file in files {
                    let object =
                        json!({"column_family": family.name, "level": level, "file": path(file.number)});
                    streams.print(&format!("{object}\n"));
                }
            }
            continue;
        }
        let mut text = format!("===== Column Family: {} =====\nLive SST Files:\n", family.name);
        if args.sort_by_filename {
            let mut numbers: Vec<u64> = family.levels.iter().flatten().map(|file| file.number).collect();
            numbers.sort_unstable();
            numbers.into_iter().for_each(|number| text += &format!("{}\n", path(number)));
        } else {
            for (level, files) in family.levels.iter().enumerate().filter(|(_, files)| !files.is_empty()) {
                let _ = writeln!(text, "---------- level {level} ----------");
                files.iter().for_each(|file| text += &format!("{}\n", path(file.number)));
            }
        }
        text += &format!("Live Blob Files:\n{}\n", "-".repeat(30));
        streams.print(&text);
    }
    Ok(())
}
