//! `--help`: every working flag with its type, our default, and upstream's where it differs.
//!
//! Owns the layout. The rows are those of [`crate::gflags::table`]; our defaults are read from the option structs.

use crate::gflags::{FLAGS, Origin, Status};
use crate::settings::{Settings, bindings};
use crate::workload::catalogue::BENCHMARKS;

/// The whole text.
pub fn text() -> String {
    let defaults = Settings::default();
    let mut text = String::from(
        "db_bench: benchmarks of SluiceDB, with the flags and the output of RocksDB's db_bench.\n\n\
         Defaults are the library's; upstream's stand in brackets where they differ. With --report_interval_seconds\n\
         a line on stderr says how steady a benchmark was: mean, deviation (n - 1) and low percentiles over exactly\n\
         the rows of the report file, zeros included, the last part interval left out.\n\nBenchmarks:\n ",
    );
    for benchmark in BENCHMARKS {
        text.push_str(&format!(" {}", benchmark.name));
    }
    text.push_str("\n\nFlags:\n");
    for flag in FLAGS.iter().filter(|flag| flag.status == Status::Works) {
        let ours = bindings::find(flag.name).map_or_else(|| flag.default.to_owned(), |b| (b.show)(&defaults));
        let quote = |value: &str| if value.is_empty() { "\"\"".to_owned() } else { value.to_owned() };
        let mut upstream = String::new();
        if flag.origin != Origin::Ours
            && !same(flag.kind.parse(&ours).ok(), flag.kind.parse(flag.default).ok())
        {
            upstream = format!(" (upstream {})", quote(flag.default));
        }
        let kind = flag.kind.name();
        text.push_str(&format!(
            "  -{} ({}) type: {kind} default: {}{upstream}\n",
            flag.name,
            flag.help,
            quote(&ours)
        ));
    }
    let count = |status| FLAGS.iter().filter(|flag| flag.status == status).count();
    text.push_str(&format!(
        "\n{} more flags of upstream's are accepted without effect (a note says so), and {} are known and refused\n\
         unless their value is neutral; --explain_flags shows what a command line means here.\n",
        count(Status::Accepted),
        count(Status::Known)
    ));
    text
}

fn same<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
    a.is_some() && a == b
}
