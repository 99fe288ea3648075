//! The rules of DESIGN.md and STYLE.md that a machine can check: crate arrows, dependencies, openings, ASCII.
//!
//! Reads the sources as text, with the standard library alone. Sizes are printed, never failed: a long file asks a
//! question, it does not break a rule. Taste is not checked here.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What each crate may name among `[dependencies]` and target-specific ones: DESIGN.md, section 1.
const RUNTIME: [(&str, &[&str]); 6] = [
    ("controller", &["parking_lot", "thiserror", "loom", "shuttle"]),
    ("wbm", &["sluicedb-controller", "parking_lot", "thiserror", "log", "loom", "shuttle"]),
    (
        "engine",
        &[
            "sluicedb-controller",
            "sluicedb-wbm",
            "crossbeam-skiplist",
            "memmap2",
            "crc32fast",
            "lz4_flex",
            "zstd",
            "parking_lot",
            "rayon",
            "quick_cache",
            "xxhash-rust",
            "rustix",
            "log",
            "thiserror",
            "loom",
            "shuttle",
        ],
    ),
    (
        "tools",
        &[
            "sluicedb",
            "clap",
            "hdrhistogram",
            "indicatif",
            "plotters",
            "serde",
            "serde_json",
            "rand",
            "rand_distr",
            "rand_mt",
        ],
    ),
    // Beside the table: a directory to measure in, command lines, their output, and the primitives that `limits` measures.
    (
        "benches",
        &[
            "sluicedb",
            "sluicedb-controller",
            "sluicedb-wbm",
            "criterion",
            "sluicedb-tests",
            "tempfile",
            "clap",
            "crc32fast",
            "crossbeam-skiplist",
            "lz4_flex",
            "memmap2",
            "rustix",
            "serde",
            "serde_json",
        ],
    ),
    ("tests", &["sluicedb", "proptest", "arbitrary", "tempfile", "loom", "shuttle"]),
];

/// What any crate may name among `[dev-dependencies]` beside its runtime ones.
const DEVELOPMENT: [&str; 7] = ["proptest", "arbitrary", "tempfile", "loom", "shuttle", "criterion", "tokio"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace holds this crate").to_owned()
}

/// The names in a manifest's tables of dependencies, by table.
fn dependencies(manifest: &str) -> BTreeMap<String, Vec<String>> {
    let mut table = String::new();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            // `[dependencies.x]` names x in its header.
            match header.rsplit_once("dependencies.") {
                Some((before, name)) => {
                    found.entry(format!("{before}dependencies")).or_default().push(name.to_owned());
                    table.clear();
                }
                None => table = header.to_owned(),
            }
        } else if table.ends_with("dependencies")
            && let Some((name, _)) = line.split_once(['=', '.'])
            && !name.starts_with('#')
        {
            found.entry(table.clone()).or_default().push(name.trim().to_owned());
        }
    }
    found
}

/// All files under `directory` that end like this, but for build output.
fn files(directory: &Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            if !path.ends_with("target") {
                found.extend(files(&path, end));
            }
        } else if path.to_string_lossy().ends_with(end) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for (folder, _) in RUNTIME {
        for path in files(&root().join(folder), ".rs") {
            let text = fs::read(&path).expect("a source file is readable");
            found.push((path, String::from_utf8_lossy(&text).into_owned()));
        }
    }
    assert!(found.len() > 50, "only {} source files found under {}", found.len(), root().display());
    found
}

fn report(broken: &[String]) {
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

/// Crates name only what their row of DESIGN.md's table allows, so calls go down.
#[test]
fn crates_depend_on_what_the_design_allows() {
    let mut broken = Vec::new();
    for (folder, allowed) in RUNTIME {
        let path = root().join(folder).join("Cargo.toml");
        let manifest = fs::read_to_string(&path).expect("each crate has a manifest");
        for (table, names) in dependencies(&manifest) {
            for name in names {
                let extra = table == "dev-dependencies" && DEVELOPMENT.contains(&name.as_str());
                // The engine's own crate is named by nobody below it; tests of a crate may name themselves.
                if !allowed.contains(&name.as_str()) && !extra {
                    broken.push(format!("{folder}/Cargo.toml: [{table}] may not name {name}"));
                }
            }
        }
    }
    report(&broken);
}

/// Versions live in the workspace's manifest alone.
#[test]
fn versions_live_in_one_place() {
    let mut broken = Vec::new();
    for (folder, _) in RUNTIME {
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).expect("a manifest");
        for line in manifest.lines().map(str::trim) {
            let names_version = line.contains("version = \"") && !line.starts_with("rust-version");
            if names_version {
                broken.push(format!("{folder}/Cargo.toml: {line}"));
            }
        }
    }
    report(&broken);
}

/// Every source file opens by saying what it owns.
#[test]
fn every_file_opens_with_what_it_owns() {
    let opens = |text: &String| text.starts_with("//!");
    let broken: Vec<String> = sources()
        .iter()
        .filter(|(_, text)| !opens(text))
        .map(|(path, _)| path.display().to_string())
        .collect();
    report(&broken);
}

/// Sources are ASCII.
#[test]
fn sources_are_ascii() {
    let mut broken = Vec::new();
    for (path, text) in sources() {
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.is_ascii()) {
            broken.push(format!("{}:{}: {line}", path.display(), number + 1));
        }
    }
    report(&broken);
}

/// No test sleeps: time is the clock's. The harness's watchdog waits on a channel.
#[test]
fn no_test_sleeps() {
    let needle = ["thread", "::sleep("].concat();
    let broken: Vec<String> = sources()
        .iter()
        .filter(|(path, text)| path.starts_with(root().join("tests")) && text.contains(&needle))
        .map(|(path, _)| path.display().to_string())
        .collect();
    report(&broken);
}

/// Prints files over 400 lines: each asks which two ideas it holds.
#[test]
fn long_files_are_reported() {
    for (path, text) in sources() {
        let lines = text.lines().count();
        if lines > 400 {
            println!("{lines:5} lines: {}", path.strip_prefix(root()).unwrap_or(&path).display());
        }
    }
}

/// Each case of the pressure specification is named by a source file, and each defect's cases are cases of the list.
#[test]
fn every_pressure_case_is_in_the_tests() {
    let list = fs::read_to_string(root().join("tests/cases/pressure.txt")).expect("the list of cases");
    let all: String = sources().into_iter().map(|(_, text)| text).collect();
    let lines = || list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let ids: Vec<&str> =
        lines().filter(|line| !line.contains(" -> ")).filter_map(|line| line.split(':').next()).collect();
    assert_eq!(ids.len(), 190, "the specification has 190 cases");
    let is_named = |id: &str| {
        let name = format!("pressure {id}");
        all.match_indices(&name)
            .any(|(at, _)| !all[at + name.len()..].starts_with(|c: char| c.is_ascii_digit()))
    };
    let mut broken: Vec<String> =
        ids.iter().filter(|id| !is_named(id)).map(|id| format!("no test names pressure {id}")).collect();
    let defects: Vec<_> = lines().filter_map(|line| line.split_once(" -> ")).collect();
    assert_eq!(defects.len(), 28, "the specification has 28 defects");
    for (defect, cases) in defects {
        let strangers = cases.split(' ').filter(|case| !ids.contains(case));
        broken.extend(strangers.map(|case| format!("{defect}: {case} is no case")));
    }
    report(&broken);
}
