//! What the commands share: streams, failures, keys and values as text, opening, and who else has the database open.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use sluicedb::{ColumnFamily, Db, DbOptions, Error};

/// Where a command prints.
pub struct Streams<'a> {
    /// What was asked for.
    pub out: &'a mut dyn Write,
    /// Everything else.
    pub err: &'a mut dyn Write,
}

impl Streams<'_> {
    /// To stdout.
    pub fn print(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes());
    }

    /// A line of JSON to stdout.
    pub fn print_json(&mut self, object: Map<String, Value>) {
        let _ = writeln!(self.out, "{}", Value::Object(object));
    }

    /// To stderr.
    pub fn complain(&mut self, text: &str) {
        let _ = self.err.write_all(text.as_bytes());
    }

    /// A line to stderr that is no failure.
    pub fn note(&mut self, text: &str) {
        let _ = writeln!(self.err, "note: {text}");
    }
}

/// Why a command did not do what was asked.
#[derive(Debug)]
pub enum Failure {
    /// It tried; the status stands behind `Failed: `. Exit code 1.
    Failed(String),
    /// A run is worse than `--fail-if-worse` allows; the output says which. Exit code 4.
    Worse,
    /// The command line cannot be followed. Exit code 2.
    Usage(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Failed(status(&error))
    }
}

/// An error behind the word by which scripts know its kind.
pub fn status(error: &Error) -> String {
    let kind = match error {
        Error::Corruption { .. } => "Corruption",
        Error::Io { .. } | Error::Locked { .. } | Error::NoSpace { .. } => "IO error",
        Error::InvalidArgument { .. } | Error::NotADatabase { .. } | Error::NoSuchColumnFamily { .. } => {
            "Invalid argument"
        }
        _ => return error.to_string(),
    };
    format!("{kind}: {error}")
}

/// The database, and how keys and values are written.
#[derive(Debug, clap::Args)]
pub struct Common {
    /// Directory of the database
    #[arg(long, value_name = "DIR")]
    pub db: PathBuf,
    /// Column family
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub column_family: String,
    /// How keys and values are written.
    #[command(flatten)]
    pub form: Form,
    /// Print one JSON object per line instead of text
    #[arg(long)]
    pub json: bool,
}

/// How keys and values are written, in and out.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Form {
    /// Keys and values as 0x and hex digits
    #[arg(long)]
    pub hex: bool,
    /// Keys as 0x and hex digits
    #[arg(long)]
    pub key_hex: bool,
    /// Values as 0x and hex digits
    #[arg(long)]
    pub value_hex: bool,
}

impl Form {
    /// The key that the command line names.
    pub fn key(&self, text: &str) -> Result<Vec<u8>, Failure> {
        if self.hex || self.key_hex { unhex(text) } else { Ok(text.as_bytes().to_vec()) }
    }

    /// The value that the command line names.
    pub fn value(&self, text: &str) -> Result<Vec<u8>, Failure> {
        if self.hex || self.value_hex { unhex(text) } else { Ok(text.as_bytes().to_vec()) }
    }

    /// A key as bytes to print.
    pub fn show_key(&self, key: &[u8]) -> Vec<u8> {
        if self.hex || self.key_hex { hex(key).into_bytes() } else { key.to_vec() }
    }

    /// A value as bytes to print.
    pub fn show_value(&self, value: &[u8]) -> Vec<u8> {
        if self.hex || self.value_hex { hex(value).into_bytes() } else { value.to_vec() }
    }

    /// A key as part of a line that is text: bytes beyond ASCII escaped.
    pub fn quote_key(&self, key: &[u8]) -> String {
        if self.hex || self.key_hex { hex(key) } else { key.escape_ascii().to_string() }
    }

    /// Puts a key into an object: as `key`, or as `key_hex` if hex was asked for or it is no UTF-8.
    pub fn put_key(&self, object: &mut Map<String, Value>, key: &[u8]) {
        put_bytes(object, "key", key, self.hex || self.key_hex);
    }

    /// Puts a value into an object, in the same way.
    pub fn put_value(&self, object: &mut Map<String, Value>, value: &[u8]) {
        put_bytes(object, "value", value, self.hex || self.value_hex);
    }
}

/// Puts `bytes` into an object under `name`, or in hex under `name_hex` if that is wanted or they are no UTF-8.
pub fn put_bytes(object: &mut Map<String, Value>, name: &str, bytes: &[u8], as_hex: bool) {
    match std::str::from_utf8(bytes) {
        Ok(text) if !as_hex => object.insert(name.to_owned(), text.into()),
        _ => object.insert(format!("{name}_hex"), hex(bytes).into()),
    };
}

/// `0x` and two upper-case digits a byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |text, byte| text + &format!("{byte:02X}"))
}

fn unhex(text: &str) -> Result<Vec<u8>, Failure> {
    let wrong = || Failure::Usage(format!("error: '{text}' is not 0x and an even number of hex digits\n"));
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).ok_or_else(wrong)?;
    if !digits.is_ascii() || !digits.len().is_multiple_of(2) {
        return Err(wrong());
    }
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| wrong());
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// Options with which any database opens, whatever its own are: as many levels as there can be, and no compaction that
/// would change their shape.
pub fn options() -> DbOptions {
    let mut options = DbOptions::default();
    options.create_if_missing = false;
    options.create_missing_column_families = false;
    options.column_family.num_levels = 12;
    options.column_family.disable_auto_compactions = true;
    options
}

impl Common {
    /// Opens the database for reading only; a process that has it open is named on stderr.
    pub fn open_read_only(&self, streams: &mut Streams<'_>) -> Result<(Db, ColumnFamily), Failure> {
        tell_holder(&self.db, streams);
        let db = Db::open_read_only(&self.db, options())?;
        let family = self.family(&db)?;
        Ok((db, family))
    }

    /// Opens the database for writing.
    pub fn open(&self, create_if_missing: bool) -> Result<(Db, ColumnFamily), Failure> {
        let mut options = options();
        options.create_if_missing = create_if_missing;
        let db = Db::open(&self.db, options)?;
        let family = self.family(&db)?;
        Ok((db, family))
    }

    fn family(&self, db: &Db) -> Result<ColumnFamily, Failure> {
        let missing = || Error::NoSuchColumnFamily { name: self.column_family.clone() };
        Ok(db.column_family(&self.column_family).ok_or_else(missing)?)
    }
}

/// Says so on stderr if another process has the database in `dir` open.
pub fn tell_holder(dir: &Path, streams: &mut Streams<'_>) {
    if let Some(process) = holder(dir) {
        let dir = dir.display();
        streams.note(&format!(
            "process {process} has {dir} open; what it writes from now on is not seen, and nothing is changed here"
        ));
    }
}

/// The process that holds the LOCK of the database in `dir`, as the kernel's list of locks has it. Looking there touches
/// neither the file nor the lock.
fn holder(dir: &Path) -> Option<u64> {
    let inode = std::fs::metadata(dir.join("LOCK")).ok()?.ino().to_string();
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    // 1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF
    let held = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let of_file = words.get(5)?.rsplit(':').next()? == inode;
        (words.get(1) == Some(&"FLOCK") && of_file).then(|| words.get(4)?.parse().ok()).flatten()
    };
    locks.lines().find_map(held)
}
