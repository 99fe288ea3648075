//! The flags of db_stress: gflags syntax, a table of its own.
//!
//! Owns names, defaults and ranges. Every finding comes at once, before a file is touched. Types and their grammar are
//! [`crate::gflags::value`]'s.

use std::collections::BTreeMap;

use crate::gflags::Kind::{self, Bool, Double, Str, UInt64};
use crate::gflags::Value;
use crate::gflags::nearest::nearest;

/// Name, type, default, range of a number, one line of help.
type Row = (&'static str, Kind, &'static str, (u64, u64), &'static str);

const ANY: (u64, u64) = (0, u64::MAX);

/// The table, by name.
pub const TABLE: [Row; 42] = [
    (
        "acquire_snapshot_one_in",
        UInt64,
        "200",
        ANY,
        "a snapshot is taken, held, and read again, once in N operations; 0 = never",
    ),
    ("allow_wbm_stalls", Bool, "true", ANY, "the manager may delay and stop writers"),
    ("block_cache_size", UInt64, "1048576", ANY, "bytes"),
    ("burst_one_in", UInt64, "500", ANY, "one batch of up to 800 KiB fills the memtables at once"),
    ("checkpoint_one_in", UInt64, "20000", ANY, "a checkpoint is made, opened and compared"),
    ("clear_column_family_one_in", UInt64, "20000", ANY, "a column family is dropped and made again"),
    ("column_families", UInt64, "6", (1, 200), "column families"),
    ("compact_range_one_in", UInt64, "5000", ANY, "a range is compacted"),
    (
        "continuous_verification_interval",
        UInt64,
        "2000",
        ANY,
        "milliseconds between quiet points, at which no operation runs and memory is counted; 0 = none",
    ),
    ("db", Str, "", ANY, "directory of the database"),
    ("db_write_buffer_size", UInt64, "4194304", ANY, "quota of the write buffer manager in bytes; 0 = off"),
    (
        "delayed_write_rate",
        UInt64,
        "16777216",
        (1, u64::MAX),
        "bytes per second of which delayed writers have a share",
    ),
    ("delpercent", UInt64, "15", (0, 100), "share of deletes"),
    (
        "destroy_db_initially",
        Bool,
        "true",
        ANY,
        "begin with an empty database; crash begins so, and never again",
    ),
    (
        "disable_wal",
        Bool,
        "false",
        ANY,
        "durability None; what a kill loses is then no failure, a wrong value is",
    ),
    ("duration", UInt64, "60", (1, u64::MAX), "crash: seconds in all"),
    (
        "expected_values_dir",
        Str,
        "",
        ANY,
        "directory of the oracle; empty: the database's, with .expected behind it",
    ),
    ("flush_one_in", UInt64, "2000", ANY, "a column family is flushed"),
    ("initiate_wbm_flushes", Bool, "true", ANY, "the manager flushes before the delay begins"),
    (
        "interval",
        UInt64,
        "5",
        (1, u64::MAX),
        "crash: most seconds between two kills, counted from the first operation",
    ),
    ("iterpercent", UInt64, "10", (0, 100), "share of iterations"),
    (
        "liveness_seconds",
        UInt64,
        "30",
        (1, u64::MAX),
        "a stop this long, or this long without a finished operation, is a failure",
    ),
    ("max_background_compactions", UInt64, "2", (1, 64), "threads"),
    ("max_background_flushes", UInt64, "1", (1, 64), "threads"),
    ("max_key", UInt64, "100000", (1, 1 << 28), "keys in each column family"),
    (
        "multi_cf_percent",
        UInt64,
        "5",
        (0, 100),
        "of the writes, the share that is one batch over all column families",
    ),
    ("ops_per_thread", UInt64, "200000", ANY, "operations of each thread, over all rounds"),
    ("prefixpercent", UInt64, "20", (0, 100), "share of iterations over one prefix"),
    (
        "rate_limiter_bytes_per_sec",
        UInt64,
        "0",
        ANY,
        "bytes per second that flushes and compactions may write; 0 = no limit",
    ),
    ("readpercent", UInt64, "10", (0, 100), "share of point reads"),
    ("reopen", UInt64, "3", (0, 1000), "how often the database is closed and opened again"),
    ("seed", UInt64, "0", ANY, "0 = the clock"),
    ("set_options_one_in", UInt64, "2000", ANY, "live options are changed"),
    ("start_delay_percent", UInt64, "70", (1, 99), "where the delay begins, percent of the quota"),
    ("sync", Bool, "false", ANY, "every write is synced"),
    ("target_file_size_base", UInt64, "262144", (4096, u64::MAX), "bytes"),
    ("threads", UInt64, "4", (1, 256), "threads that do operations"),
    (
        "value_size_mult",
        UInt64,
        "8",
        (1, 4096),
        "values are 1 to 32 times this long, and now and then 16 times longer, in bytes",
    ),
    ("write_buffer_size", UInt64, "1048576", (65536, u64::MAX), "bytes of a memtable"),
    ("writepercent", UInt64, "45", (0, 100), "share of writes"),
    ("yield_share", Double, "0", ANY, "of all operations, the share before which a thread yields"),
    ("zero_check", Bool, "true", ANY, "count memory at quiet points and at close"),
];

/// A parsed command line: the value of every flag.
#[derive(Debug, Clone)]
pub struct Flags {
    values: BTreeMap<&'static str, Value>,
    given: Vec<&'static str>,
}

impl Flags {
    /// Reads the words behind `run` or `crash`.
    ///
    /// # Errors
    ///
    /// The text for stderr: everything that is wrong.
    pub fn parse(args: &[String]) -> Result<Self, String> {
        let mut flags = Self { values: BTreeMap::new(), given: Vec::new() };
        for (name, kind, default, ..) in &TABLE {
            if let Ok(value) = kind.parse(default) {
                flags.values.insert(name, value);
            }
        }
        let mut problems = Vec::new();
        let mut words = args.iter();
        while let Some(word) = words.next() {
            if let Err(problem) = flags.word(word, &mut words) {
                problems.push(problem);
            }
        }
        flags.check(&mut problems);
        if problems.is_empty() {
            return Ok(flags);
        }
        let count = problems.len();
        let plural = if count == 1 { "" } else { "s" };
        Err(format!("ERROR: {count} problem{plural} on the command line\n  {}\n", problems.join("\n  ")))
    }

    fn word<'a>(&mut self, word: &str, words: &mut impl Iterator<Item = &'a String>) -> Result<(), String> {
        let Some(body) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')).filter(|b| !b.is_empty())
        else {
            return Err(format!("stray word '{word}'"));
        };
        let (name, inline) = body.split_once('=').map_or((body, None), |(name, value)| (name, Some(value)));
        let name = name.replace('-', "_");
        let row = |name: &str| TABLE.iter().find(|row| row.0 == name);
        let (row, text) = match (row(&name), inline) {
            (Some(row), Some(value)) => (row, value.to_owned()),
            (Some(row), None) if row.1 == Bool => (row, "true".to_owned()),
            (Some(row), None) => (
                row,
                words.next().cloned().ok_or_else(|| format!("--{name} is the last word and has no value"))?,
            ),
            (None, None) => match name.strip_prefix("no").and_then(row).filter(|row| row.1 == Bool) {
                Some(row) => (row, "false".to_owned()),
                None => return Err(unknown(&name)),
            },
            (None, Some(_)) => return Err(unknown(&name)),
        };
        let value = row
            .1
            .parse(&text)
            .map_err(|remark| format!("--{}: '{text}' is not {}{remark}", row.0, row.1.with_article()))?;
        let (least, most) = row.3;
        if let Value::UInt(number) = value
            && !(least..=most).contains(&number)
        {
            return Err(format!("--{}: {number} is outside {least} to {most}", row.0));
        }
        self.values.insert(row.0, value);
        self.given.push(row.0);
        Ok(())
    }

    fn check(&mut self, problems: &mut Vec<String>) {
        let mix = ["readpercent", "prefixpercent", "writepercent", "delpercent", "iterpercent"];
        let sum: u64 = mix.iter().map(|name| self.number(name)).sum();
        if sum != 100 {
            problems.push(format!(
                "{} are {sum} together, not 100",
                mix.map(|name| format!("--{name}")).join(" ")
            ));
        }
        if self.text("db").is_empty() {
            problems.push("--db is needed: the directory of the database".to_owned());
        }
        if self.text("expected_values_dir").is_empty() {
            let beside = format!("{}.expected", self.text("db").trim_end_matches('/'));
            self.values.insert("expected_values_dir", Value::Str(beside));
        }
    }

    /// The value of a number.
    pub fn number(&self, name: &str) -> u64 {
        match self.values.get(name) {
            Some(Value::UInt(number)) => *number,
            other => unreachable!("--{name} is a number in the table, not {other:?}"),
        }
    }

    /// The value of a boolean.
    pub fn is(&self, name: &str) -> bool {
        self.values.get(name) == Some(&Value::Bool(true))
    }

    /// The value of a double.
    pub fn share(&self, name: &str) -> f64 {
        match self.values.get(name) {
            Some(Value::Double(share)) => *share,
            other => unreachable!("--{name} is a double in the table, not {other:?}"),
        }
    }

    /// The value of a string.
    pub fn text(&self, name: &str) -> &str {
        match self.values.get(name) {
            Some(Value::Str(text)) => text,
            other => unreachable!("--{name} is a string in the table, not {other:?}"),
        }
    }

    /// Whether the command line names it.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains(&name)
    }

    /// Sets the seed, if none was given.
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.values.insert("seed", Value::UInt(seed));
        self
    }

    /// All flags, as a command line.
    pub fn line(&self) -> String {
        let word = |(name, value): (&&str, &Value)| match value {
            Value::Bool(truth) => format!("--{name}={truth}"),
            Value::UInt(number) => format!("--{name}={number}"),
            Value::Int(number) => format!("--{name}={number}"),
            Value::Double(number) => format!("--{name}={number}"),
            Value::Str(text) => format!("--{name}={text}"),
        };
        self.values.iter().map(word).collect::<Vec<_>>().join(" ")
    }
}

fn unknown(name: &str) -> String {
    match nearest(name, TABLE.iter().map(|row| row.0)) {
        Some(near) => format!("unknown flag '--{name}' (did you mean --{near}?)"),
        None => format!("unknown flag '--{name}'"),
    }
}

/// What is printed when the first word is neither `run` nor `crash`.
pub fn usage() -> String {
    let mut text = "usage: db_stress run --db=DIR [--FLAG=VALUE ...]\n       db_stress crash --db=DIR [--FLAG=VALUE ...]\n\
                    run does all operations at once and checks what it reads; crash kills it and starts it again.\n\n"
        .to_owned();
    for (name, _, default, _, help) in &TABLE {
        text.push_str(&format!("  --{name} ({help}) default: {default}\n"));
    }
    text
}
