//! The oracle's own rules, the command line, and short runs and crashes: `db-bench DB25`.
