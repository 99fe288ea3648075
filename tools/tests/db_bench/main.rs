//! The acceptance cases of the tools, DB1 to DB24 (DB21: its first half): the built programs, run in an empty directory.
//!
//! Cases that would take minutes run here with smaller counts that still prove them, and with the full ones under
//! `cargo test --release -p sluicedb-tools --test db_bench -- --ignored`. What a program prints is taken apart as the
//! scripts do that read it: by lines and by fields.

mod flags;
mod keys;
mod output;
mod readers;
mod reports;
mod sluice;
mod stalls;
mod support;
