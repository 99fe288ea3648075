//! Running a program in a directory of its own, and taking its output apart as `grep`, `awk` and `tail` would.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The directory `D` of a case: working directory of its programs, and gone after it.
pub(crate) struct Place(TempDir);

/// What a program left behind.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Words of a command line; `D/` in them stands for the case's directory.
fn words(dir: &Path, line: &str) -> Vec<String> {
    let place = format!("{}/", dir.display());
    line.split_whitespace().map(|word| word.replace("D/", &place)).collect()
}

impl Place {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().expect("a directory for the case"))
    }

    /// A path in the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The text of a file in the directory.
    pub(crate) fn text(&self, name: &str) -> String {
        let path = self.path(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// `text` with the directory's path in place of `D/`.
    pub(crate) fn named(&self, text: &str) -> String {
        text.replace("D/", &format!("{}/", self.0.path().display()))
    }

    fn command(&self, program: &str, line: &str) -> Command {
        let mut command = Command::new(program);
        command.args(words(self.0.path(), line)).current_dir(self.0.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, program: &str, line: &str) -> Ended {
        let output = self.command(program, line).output().expect("the program starts");
        let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
        let code = output.status.code().expect("the program ends by itself");
        Ended { code, out: text(output.stdout), err: text(output.stderr) }
    }

    /// Runs `db_bench`.
    pub(crate) fn bench(&self, line: &str) -> Ended {
        self.run(env!("CARGO_BIN_EXE_db_bench"), line)
    }

    /// Runs `sluice`.
    pub(crate) fn sluice(&self, line: &str) -> Ended {
        self.run(env!("CARGO_BIN_EXE_sluice"), line)
    }

    /// Runs `db_bench` with both streams in one file, as after `2>&1`, and returns the file's text.
    pub(crate) fn bench_log(&self, line: &str) -> String {
        let path = self.path("log");
        let log = File::create(&path).expect("a file for the log");
        let mut command = self.command(env!("CARGO_BIN_EXE_db_bench"), line);
        command.stdout(log.try_clone().expect("a second handle")).stderr(log);
        let status = command.status().expect("the program starts");
        let text = self.text("log");
        assert_eq!(status.code(), Some(0), "{text}");
        text
    }
}

impl Ended {
    /// Itself, if the exit code is `code`.
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    pub(crate) fn passed(self) -> Self {
        self.exits(0)
    }

    /// Operations that the only summary line of `name` counts.
    pub(crate) fn operations(&self, name: &str) -> u64 {
        number(summary(&self.out, name), 9) as u64
    }
}

/// The summary line of a benchmark; the last one, as every script takes it.
pub(crate) fn summary<'a>(text: &'a str, name: &str) -> &'a str {
    let is_it = |line: &&str| line.starts_with(name) && line.contains(" micros/op ");
    text.lines().rfind(is_it).unwrap_or_else(|| panic!("no summary of {name} in:\n{text}"))
}

/// `grep '^START' | tail -1`.
pub(crate) fn last<'a>(text: &'a str, start: &str) -> &'a str {
    let found = text.lines().rfind(|line| line.starts_with(start));
    found.unwrap_or_else(|| panic!("no line starts with '{start}' in:\n{text}"))
}

/// `grep -c '^START'`.
pub(crate) fn count(text: &str, start: &str) -> usize {
    text.lines().filter(|line| line.starts_with(start)).count()
}

/// `awk '{print $N}'`.
pub(crate) fn field(line: &str, number: usize) -> &str {
    let found = line.split_whitespace().nth(number - 1);
    found.unwrap_or_else(|| panic!("field {number} is missing in '{line}'"))
}

/// Field N as a number, as awk reads one: a comma or bracket behind it does no harm.
pub(crate) fn number(line: &str, at: usize) -> f64 {
    leading_number(field(line, at)).unwrap_or_else(|| panic!("field {at} is no number in '{line}'"))
}

/// The number that `text` begins with.
pub(crate) fn leading_number(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// The number right behind `before`, wherever that stands in the line.
pub(crate) fn after(line: &str, before: &str) -> f64 {
    let (_, rest) = line.split_once(before).unwrap_or_else(|| panic!("no '{before}' in '{line}'"));
    leading_number(rest.trim_start()).unwrap_or_else(|| panic!("no number behind '{before}' in '{line}'"))
}

/// F and N of `(F of N found)`.
pub(crate) fn found(text: &str, name: &str) -> (u64, u64) {
    let line = summary(text, name);
    let (_, tail) = line.split_once('(').unwrap_or_else(|| panic!("{line}"));
    let words: Vec<&str> = tail.split_whitespace().collect();
    assert_eq!((words[1], words[3]), ("of", "found)"), "{line}");
    (words[0].parse().expect("a number"), words[2].parse().expect("a number"))
}

/// Microseconds of `HH:MM:S.mmm`, which stands behind `before`.
pub(crate) fn clock_micros(line: &str, before: &str) -> f64 {
    let (_, rest) = line.split_once(before).unwrap_or_else(|| panic!("no '{before}' in '{line}'"));
    let clock = rest.split_whitespace().next().expect("a clock");
    let parts: Vec<f64> = clock.split(':').map(|part| part.parse().expect("a number")).collect();
    assert_eq!(parts.len(), 3, "{line}");
    (parts[0] * 3600.0 + parts[1] * 60.0 + parts[2]) * 1e6
}

/// Whether `a` is within `share` of `b`.
pub(crate) fn near(a: f64, b: f64, share: f64) -> bool {
    (a - b).abs() <= share * b.abs()
}
