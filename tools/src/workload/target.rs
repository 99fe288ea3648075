//! The open databases of a run, and which of them and of their column families a key belongs to.
//!
//! Owns the rule that the key number itself picks the column family, so that a read finds what a write stored.
//! Opening and destroying is [`crate::db_bench`]'s affair.

use std::path::PathBuf;
use std::sync::Arc;

use sluicedb::{BlockCache, ColumnFamily, Db};

/// One open database.
pub struct OpenDb {
    /// The handle.
    pub db: Db,
    /// The column families that benchmarks use, the default one first.
    pub families: Vec<ColumnFamily>,
    /// Its directory.
    pub path: PathBuf,
}

/// All open databases of a run.
#[derive(Debug)]
pub struct Target {
    /// At least one, in the order of their numbers.
    pub dbs: Vec<OpenDb>,
    /// The block cache that all databases share, if there is one.
    pub cache: Option<Arc<BlockCache>>,
    /// Family by `key mod 100`; empty = `key mod families`.
    by_residue: Vec<u8>,
}

impl Target {
    /// `shares` are percentages that sum to 100, one for each of the first families; empty = evenly.
    pub fn new(dbs: Vec<OpenDb>, cache: Option<Arc<BlockCache>>, shares: &[u32]) -> Self {
        Self { dbs, cache, by_residue: residues(shares) }
    }

    /// The column family of `key` in database number `index`.
    #[inline]
    pub fn family(&self, index: usize, key: u64) -> &ColumnFamily {
        let families = &self.dbs[index].families;
        if families.len() == 1 {
            return &families[0];
        }
        if self.by_residue.is_empty() {
            return &families[(key % families.len() as u64) as usize];
        }
        &families[usize::from(self.by_residue[(key % 100) as usize])]
    }
}

/// Share i owns the next `shares[i]` of the 100 residues.
fn residues(shares: &[u32]) -> Vec<u8> {
    shares
        .iter()
        .zip(0u8..)
        .flat_map(|(share, family)| std::iter::repeat_n(family, *share as usize))
        .collect()
}

impl std::fmt::Debug for OpenDb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenDb").field("path", &self.path).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 50,24,26: each family owns exactly its share of the residues.
    #[test]
    fn shares_are_exact() {
        let residues = residues(&[50, 24, 26]);
        assert_eq!(residues.len(), 100);
        let owned = |family| residues.iter().filter(|owner| **owner == family).count();
        assert_eq!([owned(0), owned(1), owned(2)], [50, 24, 26]);
        assert_eq!((residues[49], residues[50], residues[99]), (0, 1, 2));
    }
}
