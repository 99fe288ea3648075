//! `gate`: counts the instructions of small fixed workloads and compares them with `benches/gate.txt`, +-3 %.
//!
//! ```text
//! cargo run --release -p sluicedb-benches --bin gate              compare; exit status 1 if one is outside
//! cargo run --release -p sluicedb-benches --bin gate -- --bless   make what is counted now the committed counts
//! cargo run --release -p sluicedb-benches --bin gate -- --repeat 5   show how far counts differ between runs
//! ```
//!
//! Needs valgrind (`apt-get install valgrind`) and an x86-64 processor: exit status 2 without.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Parser;
use sluicedb_benches::gate::counts::{self, Counts, TOLERANCE_PERCENT};
use sluicedb_benches::gate::valgrind;
use sluicedb_benches::gate::workloads::{ALL, Counted, Workload};

/// Compares the instructions of small fixed workloads with the committed ones.
#[derive(Debug, Parser)]
struct Arguments {
    /// Make what is counted now the committed counts.
    #[arg(long)]
    bless: bool,
    /// Only workloads whose name contains this.
    #[arg(long, default_value = "", conflicts_with = "bless")]
    only: String,
    /// Count each workload this often, compare the median, and show the spread.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// The file of committed counts.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/gate.txt"))]
    file: PathBuf,
    /// Do this workload and count nothing: what runs under valgrind.
    #[arg(long, hide = true)]
    workload: Option<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match &arguments.workload {
        Some(name) => do_workload(name),
        None => gate(&arguments),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("gate: {error}");
        ExitCode::from(2)
    })
}

fn do_workload(name: &str) -> Result<ExitCode, String> {
    let workload = ALL.iter().find(|workload| workload.name == name);
    workload.ok_or(format!("there is no workload {name}"))?.run();
    Ok(ExitCode::SUCCESS)
}

fn gate(arguments: &Arguments) -> Result<ExitCode, String> {
    if !valgrind::is_supported() {
        return Err("counts are committed for x86-64 only; this is another processor".to_owned());
    }
    let made_with = format!("{}, {}", rustc(), valgrind::version()?);
    let chosen: Vec<_> = ALL.iter().filter(|workload| workload.name.contains(&arguments.only)).collect();
    let mut counted = Counts::new();
    for workload in &chosen {
        eprintln!("counting {}", workload.name);
        counted.insert(workload.name.to_owned(), median_of(workload, arguments.repeat)?);
    }
    if arguments.bless {
        let text = counts::render(&counted, &made_with);
        std::fs::write(&arguments.file, text)
            .map_err(|error| format!("could not write {}: {error}", arguments.file.display()))?;
        println!("{} holds {} counts", arguments.file.display(), counted.len());
        return Ok(ExitCode::SUCCESS);
    }
    judge(&arguments.file, &chosen, &counted, &made_with)
}

fn judge(file: &Path, chosen: &[&Workload], counted: &Counts, made_with: &str) -> Result<ExitCode, String> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("could not read {}: {error}", file.display()))?;
    let mut committed = counts::parse(&text).map_err(|error| format!("{}, {error}", file.display()))?;
    if chosen.len() < ALL.len() {
        committed.retain(|name, _| counted.contains_key(name));
    }
    let verdicts = counts::compare(&committed, counted);
    let operations =
        |name: &str| ALL.iter().find(|workload| workload.name == name).map(|found| found.operations);
    print!("{}", counts::table(&verdicts, operations));
    if let Some(theirs) = text.lines().find_map(|line| line.strip_prefix("# Made with: "))
        && theirs != made_with
    {
        println!("note: the committed counts were made with {theirs}; these with {made_with}");
    }
    let outside = verdicts.iter().filter(|verdict| !verdict.passes()).count();
    if outside == 0 {
        println!("gate: all {} within +-{TOLERANCE_PERCENT} %", verdicts.len());
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "gate: {outside} of {} outside +-{TOLERANCE_PERCENT} %. A change for the better, or one that is worth it: \
         run with --bless and commit the file with the reason",
        verdicts.len()
    );
    Ok(ExitCode::FAILURE)
}

/// Counts a workload `times` times and returns the median; shows the spread if there is one to show.
fn median_of(workload: &Workload, times: u32) -> Result<u64, String> {
    let mut found = (0..times).map(|_| count(workload)).collect::<Result<Vec<_>, _>>()?;
    found.sort_unstable();
    let (least, most) = (found[0], found[found.len() - 1]);
    if times > 1 {
        let spread = (most as f64 / least as f64 - 1.0) * 100.0;
        println!("{:<16} {least} to {most}: {spread:.3} % apart in {times} runs", workload.name);
    }
    Ok(found[found.len() / 2])
}

fn count(workload: &Workload) -> Result<u64, String> {
    let scratch = tempfile::tempdir().map_err(|error| format!("could not make a directory: {error}"))?;
    let program = std::env::current_exe().map_err(|error| format!("could not find this program: {error}"))?;
    let arguments = [OsStr::new("--workload"), OsStr::new(workload.name)];
    let threads = valgrind::count(&program, &arguments, scratch.path())
        .map_err(|error| format!("{}: {error}", workload.name))?;
    Ok(match workload.counted {
        Counted::Caller => threads[0],
        Counted::All => threads.iter().sum(),
    })
}

/// The version of the compiler, which moves counts as much as the code does.
fn rustc() -> String {
    let output = Command::new("rustc").arg("--version").output();
    let version =
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    version.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}
