//! Reading both forms of a run, and what `sluice compare` says: `db-bench DB21`.
