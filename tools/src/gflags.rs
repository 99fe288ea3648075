//! gflags syntax: how a command line becomes typed values, and how everything wrong with it is found at once.
//!
//! Owns the rules of dashes, `no` prefixes, bare booleans, flag files and last-one-wins. The rows are in
//! [`table`], typed values in [`value`], the wording of complaints in [`problem`], suggestions in [`nearest`].
//! Must not know workloads, or what a flag is bound to: that is [`crate::settings`].

pub mod nearest;
pub mod problem;
pub mod table;
pub mod value;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

pub use problem::Problem;
pub use table::FLAGS;
pub use value::{Kind, Value};

/// What this program does about a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Bound to an option or to the tool.
    Works,
    /// Known, without effect here by design; says so.
    Accepted,
    /// Known upstream, not here: fine at a neutral value, else an error.
    Known,
}

impl Status {
    /// The word that `--explain_flags` prints.
    pub fn word(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Accepted => "accepted",
            Self::Known => "known",
        }
    }
}

/// Whose flag it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Both upstream tools have it.
    Both,
    /// Only Speedb's.
    Speedb,
    /// Only RocksDB's.
    RocksDb,
    /// Ours alone.
    Ours,
}

impl Origin {
    /// Who knows it, as messages say it.
    pub fn known_to(self) -> &'static str {
        match self {
            Self::Both => "RocksDB's and Speedb's db_bench",
            Self::Speedb => "Speedb's db_bench",
            Self::RocksDb => "RocksDB's db_bench",
            Self::Ours => "SluiceDB's db_bench",
        }
    }
}

/// One row of the table.
#[derive(Debug)]
pub struct Flag {
    /// The name, without dashes.
    pub name: &'static str,
    /// What its values look like.
    pub kind: Kind,
    /// Upstream's default (Speedb's); for a flag of ours, its own.
    pub default: &'static str,
    /// RocksDB's default, where it differs.
    pub rocksdb: Option<&'static str>,
    /// 1 first release, 2 later, 3 refused.
    pub tier: u8,
    /// What this program does about it.
    pub status: Status,
    /// Whose flag it is.
    pub origin: Origin,
    /// One line for `--help`; empty where the flag does nothing here.
    pub help: &'static str,
}

impl Flag {
    /// The values that change nothing: the defaults of both upstream tools.
    pub fn neutral(&self) -> Vec<&'static str> {
        let mut values = vec![self.default];
        values.extend(self.rocksdb);
        values
    }

    /// Whether `value` is one of the neutral ones.
    pub fn is_neutral(&self, value: &Value) -> bool {
        self.neutral().iter().any(|text| self.kind.parse(text).is_ok_and(|neutral| neutral == *value))
    }
}

/// The row of that name.
pub fn find(name: &str) -> Option<&'static Flag> {
    FLAGS.binary_search_by(|flag| flag.name.cmp(name)).ok().map(|at| &FLAGS[at])
}

/// Flags that gflags itself defines: name, and whether it takes a value.
const BUILT_IN: [(&str, bool); 11] = [
    ("help", false),
    ("helpfull", false),
    ("helpshort", false),
    ("helpon", true),
    ("helpmatch", true),
    ("helppackage", false),
    ("helpxml", false),
    ("version", false),
    ("flagfile", true),
    ("fromenv", true),
    ("tryfromenv", true),
];

/// Flag files may name flag files, this deep.
const MAX_FLAGFILE_DEPTH: u32 = 16;

/// One flag as it was given.
#[derive(Debug, Clone)]
pub struct Given {
    /// Its row.
    pub flag: &'static Flag,
    /// The value as written; `true` or `false` for a bare boolean.
    pub text: String,
    /// The value.
    pub value: Value,
}

/// A parsed command line.
#[derive(Debug, Default)]
pub struct CommandLine {
    /// Flags in the order given, repeats included.
    pub given: Vec<Given>,
    /// Everything wrong.
    pub problems: Vec<Problem>,
    /// Lines for stderr that stop nothing.
    pub warnings: Vec<String>,
    /// A help flag was given.
    pub help: bool,
    /// `--version` was given.
    pub version: bool,
    /// Names excused by `--undefok`.
    pub undefok: BTreeSet<String>,
}

impl CommandLine {
    /// The value that counts: the last one given.
    pub fn last(&self, name: &str) -> Option<&Given> {
        self.given.iter().rev().find(|given| given.flag.name == name)
    }

    /// Whether the boolean flag `name` was set.
    pub fn is_set(&self, name: &str) -> bool {
        self.last(name).is_some_and(|given| given.value == Value::Bool(true))
    }

    /// The given flags, each once, with the value that counts, in the order of their last mention.
    pub fn effective(&self) -> Vec<&Given> {
        let mut seen = BTreeSet::new();
        let mut kept: Vec<_> = self.given.iter().rev().filter(|given| seen.insert(given.flag.name)).collect();
        kept.reverse();
        kept
    }
}

/// Parses the words after the program's name. `env` looks up environment variables (for `--fromenv`).
pub fn parse(args: &[String], env: &dyn Fn(&str) -> Option<String>) -> CommandLine {
    let mut parser = Parser { line: CommandLine::default(), unknown: Vec::new(), env };
    parser.words(args);
    let Parser { mut line, unknown, .. } = parser;
    for name in unknown {
        if !excused(&line.undefok, &name) {
            line.problems.push(Problem::Unknown { near: nearest::suggest(&name), name });
        }
    }
    line
}

/// `--undefok=a` covers `a` and `noa`, with dashes or underscores.
pub(crate) fn excused(undefok: &BTreeSet<String>, name: &str) -> bool {
    let name = name.replace('-', "_");
    undefok.contains(&name) || name.strip_prefix("no").is_some_and(|rest| undefok.contains(rest))
}

struct Parser<'a> {
    line: CommandLine,
    unknown: Vec<String>,
    env: &'a dyn Fn(&str) -> Option<String>,
}

impl Parser<'_> {
    fn words(&mut self, args: &[String]) {
        let mut rest = args.iter();
        // The boolean that the word before was, if it was a bare one.
        let mut bare: Option<&'static str> = None;
        let mut flags_ended = false;
        while let Some(word) = rest.next() {
            if flags_ended || word == "-" || !word.starts_with('-') {
                self.stray(word, bare.take());
            } else if word == "--" {
                flags_ended = true;
                bare = None;
            } else {
                let body = word.strip_prefix("--").unwrap_or(&word[1..]);
                bare = self.flag(body, &mut || rest.next().cloned(), 0);
            }
        }
    }

    /// A word that is no flag; `bare` is the bare boolean right before it.
    fn stray(&mut self, word: &str, bare: Option<&'static str>) {
        let lower = word.to_ascii_lowercase();
        match (bare, lower.as_str()) {
            (Some(name), "true" | "1" | "yes") => {
                self.line.warnings.push(format!(
                    "warning: '{word}' after --{name} was taken as its value; gflags ignores it (write --{name}={word})"
                ));
            }
            (Some(name), "false" | "0" | "no") => self.line.problems.push(Problem::Stray {
                word: word.to_owned(),
                text: format!("--{name} {word} means true in gflags; write --{name}={word}"),
            }),
            _ => self.line.warnings.push(format!("warning: '{word}' ignored")),
        }
    }

    /// One flag without its dashes. Returns its name if it was a bare boolean.
    fn flag(
        &mut self,
        body: &str,
        next: &mut dyn FnMut() -> Option<String>,
        depth: u32,
    ) -> Option<&'static str> {
        let (name, inline) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (body, None),
        };
        let underscored = name.replace('-', "_");
        let lookup = |name: &str| find(name).or_else(|| find(&name.replace('-', "_")));
        if let Some(takes_value) = built_in(&underscored) {
            self.built_in(&underscored, takes_value, inline, next, depth);
            return None;
        }
        if let Some(flag) = lookup(name) {
            let text = match (inline, flag.kind) {
                (Some(value), _) => value,
                (None, Kind::Bool) => {
                    self.set(flag, "true".to_owned());
                    return Some(flag.name);
                }
                (None, _) => match next() {
                    Some(value) => value,
                    None => {
                        self.bad(flag.name, format!("--{}: its value is missing", flag.name));
                        return None;
                    }
                },
            };
            self.set(flag, text);
            return None;
        }
        if let Some(flag) = name.strip_prefix("no").and_then(lookup) {
            match (flag.kind, inline) {
                (Kind::Bool, None) => self.set(flag, "false".to_owned()),
                (Kind::Bool, Some(value)) => {
                    self.bad(flag.name, format!("--no{}: takes no value, got '{value}'", flag.name));
                }
                (kind, _) => self.bad(
                    flag.name,
                    format!("--no{0}: {0} is not boolean (it is {1})", flag.name, kind.with_article()),
                ),
            }
            return None;
        }
        self.unknown.push(name.to_owned());
        None
    }

    fn set(&mut self, flag: &'static Flag, text: String) {
        match flag.kind.parse(&text) {
            Ok(value) => self.line.given.push(Given { flag, text, value }),
            // Not a number, and yet a value: the rate that the engine measures itself.
            Err(_) if flag.name == "delayed_write_rate" && text.eq_ignore_ascii_case("auto") => {
                self.line.given.push(Given { flag, text, value: Value::Str("auto".to_owned()) });
            }
            Err(why) => {
                self.bad(
                    flag.name,
                    format!("--{}: '{text}' is not {}{why}", flag.name, flag.kind.with_article()),
                );
            }
        }
    }

    fn bad(&mut self, name: &str, text: String) {
        self.line.problems.push(Problem::BadValue { name: name.to_owned(), text });
    }

    fn built_in(
        &mut self,
        name: &str,
        takes_value: bool,
        inline: Option<String>,
        next: &mut dyn FnMut() -> Option<String>,
        depth: u32,
    ) {
        let value = match inline {
            Some(value) => value,
            None if !takes_value => "true".to_owned(),
            None => match next() {
                Some(value) => value,
                None => return self.bad(name, format!("--{name}: its value is missing")),
            },
        };
        match name {
            "undefok" => {
                let names = value.split(',').filter(|name| !name.is_empty());
                self.line.undefok.extend(names.map(|name| name.replace('-', "_")));
            }
            "version" => self.line.version |= Kind::Bool.parse(&value) == Ok(Value::Bool(true)),
            "flagfile" => {
                for path in value.split(',').filter(|path| !path.is_empty()) {
                    self.flagfile(path, depth);
                }
            }
            "fromenv" | "tryfromenv" => {
                for flag in value.split(',').filter(|flag| !flag.is_empty()) {
                    match (self.env)(&format!("FLAGS_{flag}")) {
                        Some(text) => {
                            self.flag(&format!("{flag}={text}"), &mut || None, depth);
                        }
                        None if name == "fromenv" => {
                            self.bad(name, format!("--fromenv: FLAGS_{flag} is not in the environment"));
                        }
                        None => {}
                    }
                }
            }
            _ => self.line.help |= Kind::Bool.parse(&value) != Ok(Value::Bool(false)),
        }
    }

    /// One flag per line; `#` begins a comment; a line without a dash says which programs the lines after it are for.
    fn flagfile(&mut self, path: &str, depth: u32) {
        if depth >= MAX_FLAGFILE_DEPTH {
            return self.bad("flagfile", format!("--flagfile: {path} is nested too deeply"));
        }
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(why) => return self.bad("flagfile", format!("--flagfile: cannot read {path}: {why}")),
        };
        let mut ours = true;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if !line.starts_with('-') {
                ours = line.split_whitespace().any(|glob| glob_matches(glob, "db_bench"));
                continue;
            }
            if !ours {
                continue;
            }
            let body = line.strip_prefix("--").unwrap_or(&line[1..]);
            let before = (self.line.problems.len(), self.unknown.len());
            self.flag(body, &mut || None, depth + 1);
            for problem in &mut self.line.problems[before.0..] {
                problem.found_at(path, number + 1);
            }
            for name in self.unknown.split_off(before.1) {
                if !excused(&self.line.undefok, &name) {
                    let mut problem = Problem::Unknown { near: nearest::suggest(&name), name };
                    problem.found_at(path, number + 1);
                    self.line.problems.push(problem);
                }
            }
        }
    }
}

fn built_in(name: &str) -> Option<bool> {
    if name == "undefok" {
        return Some(true);
    }
    BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, takes_value)| *takes_value)
}

/// `*` and `?`, as in a shell.
fn glob_matches(glob: &str, name: &str) -> bool {
    match (glob.chars().next(), name.chars().next()) {
        (None, None) => true,
        (Some('*'), _) => {
            glob_matches(&glob[1..], name) || (!name.is_empty() && glob_matches(glob, &name[1..]))
        }
        (Some('?'), Some(_)) => glob_matches(&glob[1..], &name[1..]),
        (Some(a), Some(b)) if a == b => glob_matches(&glob[a.len_utf8()..], &name[b.len_utf8()..]),
        _ => false,
    }
}
