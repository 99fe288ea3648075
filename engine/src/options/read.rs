//! [`ReadOptions`]: how one read or iterator behaves.

use crate::snapshot::Snapshot;

/// How one read or iterator behaves.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadOptions {
    /// What the read sees: the database at this moment. Default: none, the newest published state.
    pub snapshot: Option<Snapshot>,
    /// Checksums of blocks are verified when a block is loaded. Default: true.
    pub verify_checksums: bool,
    /// Blocks that had to be loaded stay in the block cache. Default: true; turn off for large scans.
    pub fill_cache: bool,
    /// An iterator shows only keys at or after this one. Default: none.
    pub iterate_lower_bound: Option<Vec<u8>>,
    /// An iterator shows only keys before this one. Default: none.
    pub iterate_upper_bound: Option<Vec<u8>>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            snapshot: None,
            verify_checksums: true,
            fill_cache: true,
            iterate_lower_bound: None,
            iterate_upper_bound: None,
        }
    }
}

impl ReadOptions {
    /// The default options, seeing the database as `snapshot` does.
    pub fn at(snapshot: &Snapshot) -> Self {
        Self { snapshot: Some(snapshot.clone()), ..Self::default() }
    }
}
