//! What db_bench prints, to the byte: each module owns one shape.
//!
//! [`summary`] the line per benchmark, [`histogram`] the latency block, [`csv`] the report files, [`levelstats`],
//! [`header`], [`interval`] lines, [`steady`] the "how steady?" line, [`json`] the data file, [`usage`] the
//! manager's memory, [`engine`] its counters, [`live`] and [`monitor`] what is read while a run goes on, [`date`] the time of day.
//! Must not know how loads are made.

pub mod csv;
pub mod date;
pub mod engine;
pub mod events;
pub mod header;
pub mod histogram;
pub mod interval;
pub mod json;
pub mod legacy;
pub mod levelstats;
pub mod live;
pub mod monitor;
pub mod steady;
pub mod summary;
pub mod usage;
pub mod view;
