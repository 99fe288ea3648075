//! What the programs that come with SluiceDB are made of: `db_bench`, with RocksDB's flags and output, and `sluice`.
//!
//! A program is a thin `main` over a library function with its streams handed in, so that tests can run it:
//! [`db_bench::run`] and [`sluice::run`]. The way down of `db_bench`: [`gflags`] reads the command line, [`settings`] turns it into options,
//! [`workload`] drives the store, [`report`] prints. Must not know engine-private modules; everything goes through
//! the public API of `sluicedb`.

pub mod console;
pub mod db_bench;
pub mod db_stress;
pub mod gflags;
#[cfg(feature = "plot")]
pub mod plot;
pub mod report;
pub mod runs;
pub mod settings;
pub mod sluice;
pub mod workload;
