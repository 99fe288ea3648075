//! `limits`: measures what this machine's memory, processor and disk allow, then how much of that the database reaches.
//!
//! ```text
//! cargo run --release -p sluicedb-benches --bin limits                    constants, limits, our shares
//! cargo run --release -p sluicedb-benches --bin limits -- --seconds 20    longer loads: steadier shares
//! cargo run --release -p sluicedb-benches --bin limits -- --dir /mnt/x    on another disk
//! ```

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use sluicedb::Durability;
use sluicedb_benches::limits::model::{Constants, Load};
use sluicedb_benches::limits::primitives::{IndexCosts, PrimitiveCosts};
use sluicedb_benches::limits::storage::{SmallCosts, WriteMode};
use sluicedb_benches::limits::{memory, ours, primitives, storage};

/// Measures this machine's constants, and the share of each workload's limit that the database reaches.
#[derive(Debug, Parser)]
struct Arguments {
    /// Where to write; the temporary directory by default.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Seconds of each load.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// MiB that each write mode writes.
    #[arg(long, default_value_t = 384, value_parser = clap::value_parser!(u64).range(8..=1 << 20))]
    mib: u64,
    /// The constants alone.
    #[arg(long)]
    constants: bool,
}

const LOADS: [(&str, Load); 9] = [
    ("16+1000, no log, level 0 only", put(1000, Durability::None, false)),
    ("16+1000, no log, leveled", put(1000, Durability::None, true)),
    ("16+1000, Buffered, level 0 only", put(1000, Durability::Buffered, false)),
    ("16+1000, Os, level 0 only", put(1000, Durability::Os, false)),
    ("16+100, Buffered, level 0 only", put(100, Durability::Buffered, false)),
    ("16+100, Os, level 0 only", put(100, Durability::Os, false)),
    ("16+100, Buffered, leveled", put(100, Durability::Buffered, true)),
    ("16+100, Sync", put(100, Durability::Sync, false)),
    ("16+100, get, cached", Load::Get),
];

const fn put(value: u32, durability: Durability, leveled: bool) -> Load {
    Load::Put { value, durability, leveled }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("limits: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let parent = arguments.dir.clone().unwrap_or_else(std::env::temp_dir);
    let scratch = tempfile::Builder::new()
        .prefix("limits-")
        .tempdir_in(&parent)
        .map_err(|error| format!("could not make a directory in {}: {error}", parent.display()))?;
    let constants = constants(scratch.path(), arguments.mib as usize)?;
    if !arguments.constants {
        shares(scratch.path(), &constants, Duration::from_secs(arguments.seconds))?;
    }
    Ok(())
}

fn constants(directory: &Path, mib: usize) -> Result<Constants, Box<dyn std::error::Error>> {
    let memory = memory::measure()?;
    println!("memory");
    line("memcpy, large", format!("{:.1} GB/s", 1.0 / memory.copy));
    line("first touch of 4 KiB", format!("{:.0} ns", memory.first_touch));
    line("second touch", format!("{:.0} ns", memory.second_touch));
    line("dependent load, 64 MiB", format!("{:.0} ns", memory.dependent_load));
    let primitives = primitives::measure();
    print_primitives(&primitives);
    println!("sequential writes of {mib} MiB, the last sync included");
    let mut device = (0.0, 0.0);
    for mode in WriteMode::ALL {
        match storage::sequential(directory, mode, mib << 20) {
            Ok(costs) => {
                line(
                    mode.name(),
                    format!(
                        "{:.2} GB/s, {:.2} CPU s/GB, worst call {:.0} ms, last sync {:.0} ms",
                        costs.bytes_per_second / 1e9,
                        costs.cpu_seconds_per_gb,
                        costs.worst_call_ms,
                        costs.last_sync_ms
                    ),
                );
                if costs.bytes_per_second > device.0 {
                    device = (costs.bytes_per_second, costs.cpu_seconds_per_gb);
                }
            }
            Err(error) => line(mode.name(), format!("not here: {error}")),
        }
    }
    let small = storage::small(directory)?;
    print_small(&small);
    let cores = std::thread::available_parallelism()?.get() as f64;
    Ok(Constants { memory, primitives, small, device, cores })
}

fn print_primitives(costs: &PrimitiveCosts) {
    println!("primitives");
    line("CRC-32 of 120 B, 1020 B", format!("{:.0} ns, {:.0} ns", costs.crc_120, costs.crc_1020));
    line("CRC-32, large", format!("{:.1} GB/s", 1.0 / costs.crc_large));
    line(
        "LZ4 of halves, there and back",
        format!("{:.2} GB/s, {:.2} GB/s", 1.0 / costs.compress, 1.0 / costs.decompress),
    );
    let index = |name, costs: &IndexCosts| {
        line(
            name,
            format!(
                "crossbeam {:.0} ns, arena {:.0} ns, hash and sort {:.0} ns",
                costs.crossbeam, costs.arena, costs.hash
            ),
        );
    };
    index("insert, 520,000 entries", &costs.small);
    index("insert, 62,000 entries", &costs.large);
}

fn print_small(small: &SmallCosts) {
    println!("small writes");
    line("write(2) of 140 B, 1040 B", format!("{:.0} ns, {:.0} ns", small.append_140, small.append_1040));
    line("write(2) of 64 KiB", format!("{:.2} GB/s", 1.0 / small.append_large));
    line("4 KiB and fdatasync, append", format!("{:.0} us", small.synced_append / 1e3));
    line("the same, overwrite", format!("{:.0} us", small.synced_overwrite / 1e3));
}

fn line(name: &str, value: String) {
    println!("  {name:<32} {value}");
}

fn shares(directory: &Path, constants: &Constants, time: Duration) -> sluicedb::Result<()> {
    println!(
        "loads of {} s, one thread, no compression; the time until all is flushed and compacted counts",
        time.as_secs()
    );
    println!(
        "  {:<32} {:>6} {:>12} {:>11} {:>12} {:>7}",
        "load", "W", "limit, op/s", "bound by", "ours, op/s", "share"
    );
    for (name, load) in LOADS {
        let reached = ours::run(directory, load, time)?;
        let limit = load.limit(constants, reached.amplification);
        println!(
            "  {name:<32} {:>6.2} {:>12.0} {:>11} {:>12.0} {:>5.0} %",
            reached.amplification,
            limit.operations,
            limit.bound,
            reached.operations,
            reached.operations / limit.operations * 100.0
        );
    }
    Ok(())
}
