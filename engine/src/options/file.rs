//! [`StoredOptions`]: the options of a whole database as text, in the style of RocksDB's OPTIONS file.
//!
//! ```text
//! [Version]
//!   sluicedb_version=0.1.0
//!   options_file_version=1
//! [DBOptions]
//!   allow_stall=true
//! [CFOptions "default"]
//!   write_buffer_size=67108864
//! ```
//!
//! A line is a section, `name=value`, a comment (`#`), or empty. An option that is not named has its default. Anything else
//! is an error that says which line and what would be right. Where the text is kept is not known here.

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::live::{COLUMN_FAMILY, DATABASE, Kind, Named, unknown};
use super::{ColumnFamilyOptions, DbOptions};
use crate::error::{Error, Result};

/// Longest text that is read, in bytes.
pub(crate) const OPTIONS_LEN_MAX: u64 = 64 << 20;
/// Of the format above.
const VERSION: u32 = 1;
/// The family whose options are also those of families that the text does not name.
const DEFAULT: &str = "default";

/// The options of a database and of each of its column families, as a text keeps them.
///
/// Read a database's own with [`Db::load_options`](crate::Db::load_options), and open it as it was open last with
/// [`Db::open_cf`](crate::Db::open_cf)`(path, stored.db, stored.families)`. Shared parts of a program (file system, clock,
/// caches, manager, controller, listeners) have no text; they are as in [`DbOptions::default`] until they are set.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct StoredOptions {
    /// Options of the database; [`DbOptions::column_family`] is what the text says of `default`.
    pub db: DbOptions,
    /// Options of each column family that the text names, in its order.
    pub families: Vec<(String, ColumnFamilyOptions)>,
}

impl StoredOptions {
    /// These options as text; [`from_text`](Self::from_text) gives them back.
    pub fn to_text(&self) -> String {
        let mut text = String::from(
            "# Options of a SluiceDB database as of its last open or change. Db::load_options reads them;\n\
             # the database itself never does.\n",
        );
        let version = env!("CARGO_PKG_VERSION");
        let _ = writeln!(text, "[Version]\n  sluicedb_version={version}\n  options_file_version={VERSION}\n");
        text.push_str("[DBOptions]\n");
        list(&mut text, DATABASE, &self.db);
        for (name, options) in &self.families {
            let _ = writeln!(text, "\n[CFOptions \"{}\"]", quoted(name));
            list(&mut text, COLUMN_FAMILY, options);
        }
        text
    }

    /// The options that `text` states. An option that it does not name has its default.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] with the number of the first line that is none of the format, names an option or a
    /// section that there is not, names one twice, or gives a value that cannot be read or is out of range.
    pub fn from_text(text: &str) -> Result<Self> {
        Parser::default()
            .parse(text)
            .map_err(|(line, why)| Error::invalid("options text", format!("line {line}: {why}")))
    }
}

fn list<T>(text: &mut String, table: &[Named<T>], options: &T) {
    for named in table {
        if let Kind::Live(of_it) | Kind::Fixed(of_it) = &named.kind {
            let _ = writeln!(text, "  {}={}", named.name, (of_it.show)(options));
        }
    }
}

/// A name between quotes: backslash, quote and line ends are escaped.
fn quoted(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            _ => text.push(c),
        }
    }
    text
}

fn unquoted(text: &str) -> Option<String> {
    let mut name = String::with_capacity(text.len());
    let mut chars = text.strip_prefix('"')?.strip_suffix('"')?.chars();
    while let Some(c) = chars.next() {
        name.push(match c {
            '"' => return None,
            '\\' => match chars.next()? {
                'n' => '\n',
                'r' => '\r',
                c @ ('\\' | '"') => c,
                _ => return None,
            },
            _ => c,
        });
    }
    Some(name)
}

/// A line number and what is wrong there.
type Complaint = (usize, String);

/// Where the parser is, and what it has read.
#[derive(Default)]
struct Parser {
    stored: StoredOptions,
    section: Section,
    /// Format version, once it is known.
    version: Option<u32>,
    has_database: bool,
    /// Lines of the options of the section at hand, and of the section itself.
    lines: BTreeMap<String, usize>,
    section_line: usize,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Section {
    #[default]
    None,
    Version,
    Database,
    Family,
}

impl Parser {
    fn parse(mut self, text: &str) -> Result<StoredOptions, Complaint> {
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let done = match line.strip_prefix('[') {
                Some(rest) => {
                    self.end_section()?;
                    self.lines.clear();
                    self.section_line = number;
                    self.begin_section(rest.strip_suffix(']').map(str::trim), line)
                }
                None => self.option(line, number),
            };
            done.map_err(|why| (number, why))?;
        }
        self.end_section()?;
        if self.version.is_none() {
            let why = "there is no section [Version] with options_file_version; this is no options text";
            return Err((text.lines().count().max(1), why.to_owned()));
        }
        if let Some((_, options)) = self.stored.families.iter().find(|(name, _)| name == DEFAULT) {
            self.stored.db.column_family = options.clone();
        }
        Ok(self.stored)
    }

    fn begin_section(&mut self, name: Option<&str>, line: &str) -> Result<(), String> {
        let unknown =
            || format!("'{line}' is no section; there are [Version], [DBOptions] and [CFOptions \"NAME\"]");
        let name = name.ok_or_else(unknown)?;
        self.section = match name {
            "Version" => Section::Version,
            _ if self.version.is_none() => return Err("[Version] must come first".to_owned()),
            "DBOptions" if self.has_database => return Err("[DBOptions] is there twice".to_owned()),
            "DBOptions" => {
                self.has_database = true;
                Section::Database
            }
            _ => {
                let rest = name.strip_prefix("CFOptions").ok_or_else(unknown)?;
                let family = unquoted(rest.trim_start()).ok_or_else(unknown)?;
                if self.stored.families.iter().any(|(earlier, _)| *earlier == family) {
                    return Err(format!("column family \"{}\" is there twice", quoted(&family)));
                }
                self.stored.families.push((family, ColumnFamilyOptions::default()));
                Section::Family
            }
        };
        Ok(())
    }

    fn option(&mut self, line: &str, number: usize) -> Result<(), String> {
        let shape = || format!("'{line}' is neither a section nor name=value");
        let (name, value) = line.split_once('=').ok_or_else(shape)?;
        let (name, value) = (name.trim(), value.trim());
        if let Some(earlier) = self.lines.insert(name.to_owned(), number) {
            return Err(format!("{name} is given twice; it was given in line {earlier}"));
        }
        match self.section {
            Section::None => Err(format!("{name} stands before the first section")),
            Section::Version => self.version_line(name, value),
            Section::Database => read(DATABASE, &mut self.stored.db, name, value),
            Section::Family => match self.stored.families.last_mut() {
                Some((_, options)) => read(COLUMN_FAMILY, options, name, value),
                None => Err(shape()),
            },
        }
    }

    fn version_line(&mut self, name: &str, value: &str) -> Result<(), String> {
        match (name, value.parse()) {
            ("sluicedb_version", _) => Ok(()),
            ("options_file_version", Ok(version @ 1..=VERSION)) => {
                self.version = Some(version);
                Ok(())
            }
            ("options_file_version", _) => Err(format!(
                "options_file_version {value} is not known here (known: {VERSION}); read it with the version that wrote it"
            )),
            _ => Err(format!("[Version] has no option '{name}'")),
        }
    }

    /// Checks the options of the section that ends: each by itself, and all together.
    fn end_section(&self) -> Result<(), Complaint> {
        let checked = match self.section {
            Section::None | Section::Version => return Ok(()),
            Section::Database => self.stored.db.validate(),
            Section::Family => self.stored.families.last().map_or(Ok(()), |(_, options)| options.validate()),
        };
        checked.map_err(|error| match error {
            Error::InvalidArgument { what, why } => {
                let line = self.lines.get(what).copied().unwrap_or(self.section_line);
                (line, format!("{what}: {why}"))
            }
            other => (self.section_line, other.to_string()),
        })
    }
}

fn read<T>(table: &[Named<T>], options: &mut T, name: &str, value: &str) -> Result<(), String> {
    let named = table.iter().find(|named| named.name == name).ok_or_else(|| unknown(table, name))?;
    match &named.kind {
        Kind::Live(of_it) | Kind::Fixed(of_it) => {
            (of_it.read)(options, value).map_err(|why| format!("{name}: {why}"))
        }
        Kind::Component => {
            Err(format!("{name} is a part of the program and has no text; set it in DbOptions"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Compression, DelayedWriteRate, MemtableRepKind, ReadMode, RecoveryMode, TableWrites};
    use super::*;

    fn shown(stored: &StoredOptions) -> String {
        format!("{:?} {:?}", stored.to_text(), stored.families)
    }

    /// Every option that has a text is written and read back, whatever its value and the family's name.
    ///
    /// Method: all options are bent away from their defaults; the texts before and after must agree, and differ from the
    /// defaults' in every line.
    #[test]
    fn everything_is_read_back() {
        let mut stored = StoredOptions::default();
        for (name, value) in [
            ("create_if_missing", "false"),
            ("error_if_exists", "true"),
            ("create_missing_column_families", "0"),
            ("db_write_buffer_size", "7M"),
            ("initiate_flushes", "false"),
            ("flush_progress_credit", "true"),
            ("desync_write_buffers", "false"),
            ("strict_flush_priority", "true"),
            ("smooth_writes", "true"),
            ("max_parallel_flushes", "5"),
            ("enforce_write_buffer_manager_during_recovery", "false"),
            ("max_background_flushes", "3"),
            ("max_background_compactions", "9"),
            ("max_subcompactions", "2"),
            ("commit_queue_bytes", "5000"),
            ("commit_group_bytes", "5001"),
            ("commit_group_count", "3"),
            ("group_queue_limit", "4"),
            ("queue_group_bytes", "5003"),
            ("linger", "7000"),
            ("parallel_insert_bytes", "1"),
            ("async_waiting_bytes", "2"),
            ("max_batch_bytes", "5002"),
            ("wal_segment_bytes", "1M"),
            ("wal_buffer_bytes", "0"),
            ("wal_sync_bytes", "8"),
            ("wal_sync_on_idle", "true"),
            ("manifest_min_gap", "1.5"),
            ("job_ring_slots", "64"),
            ("block_cache_size", "1"),
            ("max_open_files", "77"),
            ("max_read_threads", "2"),
            ("allow_stall", "false"),
            ("cost_write_buffer_to_cache", "true"),
            ("delay_start_percent", "50"),
            ("stall_timeout", "5000"),
            ("write_timeout", "6000"),
            ("max_total_wal_size", "2M"),
        ] {
            read(DATABASE, &mut stored.db, name, value).unwrap();
        }
        stored.db.manifest_save_interval = Duration::MAX;
        stored.db.wal_sync_interval = Duration::ZERO;
        stored.db.delayed_write_rate = DelayedWriteRate::BytesPerSecond(99);
        stored.db.table_writes = TableWrites::Direct;
        stored.db.read_mode = ReadMode::Pread;
        stored.db.recovery_mode = RecoveryMode::Absolute;
        let mut family = ColumnFamilyOptions {
            compression: Compression::None,
            memtable_rep: MemtableRepKind::CrossbeamSkipList,
            bloom_bits_per_key: 7.25,
            max_bytes_for_level_multiplier: 3.1,
            ..ColumnFamilyOptions::default()
        };
        for name in ["default", "", "two words", "\"]\\n", "line\nbreak\r", "\u{3b1}\u{3b2} # x=y"] {
            stored.families.push((name.to_owned(), family.clone()));
            family.write_buffer_size += 1;
        }
        let text = stored.to_text();
        let read_back = StoredOptions::from_text(&text).unwrap();
        assert_eq!(shown(&read_back), shown(&stored));
        assert_eq!(read_back.db.column_family.bloom_bits_per_key, 7.25, "what is said of default");
        let defaults = StoredOptions::default().to_text();
        let of_database = |text: &str| {
            let (_, rest) = text.split_once("[DBOptions]\n").unwrap();
            rest.lines().take_while(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        for (bent, default) in of_database(&text).iter().zip(&of_database(&defaults)) {
            assert_ne!(bent, default, "not bent, so not tested");
        }
    }

    const HEAD: &str = "[Version]\noptions_file_version=1\n";

    /// Comments, spaces and missing options do no harm.
    #[test]
    fn a_short_text_is_enough() {
        let stored = StoredOptions::from_text(&format!(
            "# c\n\n{HEAD}[ CFOptions \"a\" ]\n write_buffer_size = 8M \n"
        ));
        let stored = stored.unwrap();
        assert_eq!((stored.families.len(), stored.families[0].1.write_buffer_size), (1, 8 << 20));
        assert!(StoredOptions::from_text(HEAD).unwrap().families.is_empty());
    }

    /// Each fault is refused with its line and what would be right.
    #[test]
    fn faults_are_named_by_line() {
        for (body, line, why) in [
            (
                "[DBOptions]\nallow_stal=true",
                4,
                "there is none called 'allow_stal'; did you mean 'allow_stall'?",
            ),
            ("[DBOptions]\n\nallow_stall=maybe", 5, "allow_stall: 'maybe' is neither true nor false"),
            (
                "[DBOptions]\nallow_stall=1\nallow_stall=1",
                5,
                "allow_stall is given twice; it was given in line 4",
            ),
            ("[DBOptions]\nallow_stall", 4, "'allow_stall' is neither a section nor name=value"),
            ("[DBOptions]\nclock=x", 4, "clock is a part of the program"),
            ("[DBOptions]\n[DBOptions]", 4, "[DBOptions] is there twice"),
            (
                "[DBOptions]\nmax_open_files=1\nallow_stall=1\n[CFOptions \"a\"]",
                4,
                "max_open_files: 1 is outside its range",
            ),
            (
                "[CFOptions \"a\"]\nlevel0_stop_writes_trigger=1",
                3,
                "level0_slowdown_writes_trigger: 20 is outside",
            ),
            ("[CFOptions \"a\"]\n[CFOptions \"a\"]", 4, "column family \"a\" is there twice"),
            ("[CFOptions a]", 3, "is no section; there are [Version]"),
            ("[CFOptions \"a\\x\"]", 3, "is no section; there are [Version]"),
            ("[TableOptions \"a\"]", 3, "is no section; there are [Version]"),
            ("[DBOptions", 3, "is no section; there are [Version]"),
        ] {
            let error = StoredOptions::from_text(&format!("{HEAD}{body}")).unwrap_err().to_string();
            assert!(error.starts_with(&format!("invalid options text: line {line}: ")), "{body}: {error}");
            assert!(error.contains(why), "{body}: {error}");
        }
        for (text, why) in [
            ("", "line 1: there is no section [Version]"),
            ("x=1", "line 1: x stands before the first section"),
            ("[DBOptions]", "line 1: [Version] must come first"),
            ("[Version]\noptions_file_version=2", "line 2: options_file_version 2 is not known here"),
            ("[Version]\nrocksdb_version=8", "line 2: [Version] has no option 'rocksdb_version'"),
        ] {
            let error = StoredOptions::from_text(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    /// `reliability R18`: hostile text is refused or read, and never panics.
    ///
    /// Method: a valid text with every byte in turn replaced, cut, or doubled.
    #[test]
    fn hostile_text_never_panics() {
        let families = vec![("a\"b".to_owned(), ColumnFamilyOptions::default())];
        let stored = StoredOptions { families, ..StoredOptions::default() };
        let text = stored.to_text();
        for at in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
            let _ = StoredOptions::from_text(text.get(..at).unwrap_or_default());
            for with in ["", "\"", "[", "=", "\n", "\\", "9", "\u{20ac}"] {
                let mut bent = text.clone();
                bent.replace_range(at..=at, with);
                let _ = StoredOptions::from_text(&bent);
            }
        }
    }
}
