//! `capabilities`: measures what the write path's capabilities gain over the designs that they replace.
//!
//! ```text
//! cargo run --release -p sluicedb-benches --bin capabilities -- --quick --json    one JSON object a line
//! cargo run --release -p sluicedb-benches --bin capabilities -- --only W,L        a table, of these alone
//! ```
//!
//! Exits with 0 when all figures could be measured, whatever they are; with 1 when one could not; with 2 on bad arguments.

use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use sluicedb_benches::capabilities::allocations::Counting;
use sluicedb_benches::capabilities::figure::Figure;
use sluicedb_benches::capabilities::{accounting, flush_scope, hand_off, lock_scope, queue_bound, watermark};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Measures each capability of the write path against the design that it replaces.
#[derive(Debug, Parser)]
struct Arguments {
    /// These capabilities alone; all by default.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Capability>,
    /// Few samples.
    #[arg(long)]
    quick: bool,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Capability {
    /// The commit queue bounded by bytes.
    #[value(name = "Q")]
    Queue,
    /// The durable watermark, and the manifest off the write path.
    #[value(name = "D")]
    Durability,
    /// Workers fed through rings.
    #[value(name = "W")]
    Workers,
    /// No lock across I/O.
    #[value(name = "L")]
    Locks,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut failed = false;
    let mut out = |mut figure: Figure| {
        let met = figure.met();
        figure.add("met", met);
        figure.add("quick", arguments.quick);
        figure.add("cpus", std::thread::available_parallelism().map_or(0, usize::from));
        failed |= figure.is_failed();
        failed |= figure.print(&mut std::io::stdout().lock(), arguments.json).is_err();
    };
    for capability in Capability::value_variants() {
        if !arguments.only.is_empty() && !arguments.only.contains(capability) {
            continue;
        }
        let start = Instant::now();
        measure(*capability, arguments.quick, &mut out);
        eprintln!("capabilities: {capability:?} took {:.1} s", start.elapsed().as_secs_f64());
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn measure(capability: Capability, quick: bool, out: &mut dyn FnMut(Figure)) {
    match capability {
        Capability::Queue => {
            if let Err(error) = queue_bound::measure(quick, out) {
                out(Figure::failed("B0b", "req/s", error));
            }
            accounting::measure(quick, out);
        }
        Capability::Durability => {
            if let Err(error) = watermark::measure(quick, out) {
                out(Figure::failed("B2", "MiB/s", error));
            }
        }
        Capability::Workers => {
            if let Err(error) = hand_off::measure(quick, out) {
                out(Figure::failed("B3", "us", error));
            }
        }
        Capability::Locks => {
            if let Err(error) = lock_scope::measure(quick, out) {
                out(Figure::failed("B4", "MB/s", error));
            }
            if let Err(error) = flush_scope::measure(quick, out) {
                out(Figure::failed("B4f", "us", error));
            }
        }
    }
}
