//! Loads: what each benchmark does to a store, and the threads that do it.
//!
//! [`catalogue`] names the benchmarks. A run takes a [`plan::Plan`] (the flags after one benchmark's tweaks) and a
//! [`target::Target`] (the open databases), starts [`worker::Worker`]s behind a barrier ([`runner`]), and merges
//! their [`stats`]. Loops are in [`fill`], [`read`], [`scan`], [`mixed`], [`delete`]; keys, values and
//! rates in [`keys`], [`values`], [`limiter`]. Must not know how results are printed, or flags by name.

pub mod budget;
pub mod catalogue;
pub mod delete;
pub mod fill;
pub mod keys;
pub mod limiter;
pub mod mixed;
pub mod plan;
pub mod read;
pub mod runner;
pub mod scan;
pub mod stats;
pub mod target;
pub mod values;
pub mod worker;
