//! The gate against slow drift: instructions of small fixed workloads, compared with those committed in `benches/gate.txt`.
//!
//! Instructions and not seconds: on a shared machine seconds move by a third, instructions by less than 1 %. What a
//! workload does: [`workloads`]. How it is counted: [`valgrind`]. What counts as a change: [`counts`].

pub mod counts;
pub mod valgrind;
pub mod workloads;
