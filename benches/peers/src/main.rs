//! `peers`: SluiceDB, RocksDB and fjall through one trait, with the same keys, values, durability and threads.
//!
//! ```text
//! cd benches/peers
//! cargo run --release -- run --out results.jsonl                      ours and fjall, all workloads, five rounds
//! cargo run --release --features rocksdb -- run --engines sluicedb,rocksdb,fjall --out results.jsonl
//! cargo run --release -- report results.jsonl --svg chart.svg         the table of medians, the chart
//! ```
//!
//! Each run is a process of its own, so that memory is that of one engine alone. Rounds alternate their order (A B B A).
//! For hardware checksums in RocksDB set `RUSTFLAGS="-C target-cpu=native"`, which then holds for all engines.

mod data;
mod engine;
mod fjalls;
mod monitor;
mod ours;
mod report;
#[cfg(feature = "rocksdb")]
mod rocks;
mod workload;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::engine::{Outcome, Which};
use crate::workload::{Record, Sizes, Workload};

/// Drives SluiceDB and its peers side by side.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Runs workloads with engines in turn and appends one record a run to a file.
    Run(RunArguments),
    /// Prints the table of medians of such files.
    Report {
        /// Files of records.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Draw a chart into this file.
        #[arg(long)]
        svg: Option<PathBuf>,
    },
    /// One run in this process; prints its record.
    #[command(hide = true)]
    One {
        engine: Which,
        workload: Workload,
        #[arg(long)]
        dir: PathBuf,
        #[command(flatten)]
        sizes: Sizes,
    },
}

#[derive(Debug, clap::Args)]
struct RunArguments {
    /// Engines, in the order of the first round.
    #[arg(long, value_delimiter = ',', default_value = "sluicedb,fjall")]
    engines: Vec<Which>,
    /// Workloads; all by default.
    #[arg(long, value_delimiter = ',')]
    workloads: Vec<Workload>,
    /// Rounds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds of rest before each run.
    #[arg(long, default_value_t = 2)]
    rest: u64,
    /// Where databases are made; the temporary directory by default.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The file that records are appended to.
    #[arg(long)]
    out: PathBuf,
    #[command(flatten)]
    sizes: Sizes,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().action {
        Action::Run(arguments) => run(&arguments),
        Action::Report { files, svg } => report(&files, svg.as_deref()),
        Action::One { engine, workload, dir, sizes } => one(engine, workload, &dir, &sizes),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &RunArguments) -> Outcome<()> {
    let all = <Workload as clap::ValueEnum>::value_variants();
    let workloads = if arguments.workloads.is_empty() { all } else { &arguments.workloads };
    let mut out = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&arguments.out)
        .map_err(|error| format!("could not open {}: {error}", arguments.out.display()))?;
    for round in 0..arguments.rounds {
        for &workload in workloads {
            let mut engines = arguments.engines.clone();
            if round % 2 == 1 {
                engines.reverse();
            }
            for engine in engines {
                let line = in_a_process(arguments, engine, workload)?;
                let record: Record = serde_json::from_str(&line)?;
                println!(
                    "round {}  {:<16} {:<9} {:>10.0} ops/s",
                    round + 1,
                    record.workload,
                    record.engine,
                    record.rate
                );
                out.write_all(line.as_bytes())?;
            }
        }
    }
    Ok(())
}

/// Makes one run in a process and a directory of its own and returns its record, a line.
fn in_a_process(arguments: &RunArguments, engine: Which, workload: Workload) -> Outcome<String> {
    rustix::fs::sync();
    std::thread::sleep(Duration::from_secs(arguments.rest));
    let parent = arguments.dir.clone().unwrap_or_else(std::env::temp_dir);
    let scratch = tempfile::Builder::new().prefix("peers-").tempdir_in(parent)?;
    let Sizes { num, reads, s1_num, syncs } = arguments.sizes;
    let output = Command::new(std::env::current_exe()?)
        .args(["one", engine.name(), workload.name(), "--dir"])
        .arg(scratch.path())
        .args([
            format!("--num={num}"),
            format!("--reads={reads}"),
            format!("--s1-num={s1_num}"),
            format!("--syncs={syncs}"),
        ])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("{} with {} ended with {}", workload.name(), engine.name(), output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn one(engine: Which, workload: Workload, directory: &Path, sizes: &Sizes) -> Outcome<()> {
    let record = workload.run(engine, sizes, directory)?;
    println!("{}", serde_json::to_string(&record)?);
    Ok(())
}

fn report(files: &[PathBuf], svg: Option<&Path>) -> Outcome<()> {
    let mut records: Vec<Record> = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file)
            .map_err(|error| format!("could not read {}: {error}", file.display()))?;
        for (index, line) in text.lines().enumerate() {
            let record = serde_json::from_str(line)
                .map_err(|error| format!("{}, line {}: {error}", file.display(), index + 1))?;
            records.push(record);
        }
    }
    print!("{}", report::table(&records));
    svg.map_or(Ok(()), |path| report::chart(&records, path))
}
