//! Seeded workloads that the benches share. What is measured is not known here.

pub mod capabilities;
pub mod gate;
pub mod limits;

use sluicedb::{Db, DbOptions};
use tempfile::TempDir;

/// A stream of pseudo-random numbers (xorshift64), the same in every run.
#[derive(Debug, Clone)]
pub struct Numbers(u64);

impl Numbers {
    /// The stream of this seed; 0 is taken as 1.
    pub fn new(seed: u64) -> Self {
        Self(seed.max(1))
    }

    /// The next number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// A 16-byte key as `db_bench` makes them: the number big-endian, then `'0'`s.
pub fn key(number: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

/// A database in a directory of its own, both gone when dropped.
#[derive(Debug)]
pub struct TempDb {
    /// The open database.
    pub db: Db,
    _dir: TempDir,
}

impl TempDb {
    /// Opens one.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    pub fn open(options: DbOptions) -> Self {
        let dir = tempfile::tempdir().expect("a directory for the bench");
        let db = Db::open(dir.path().join("db"), options).expect("a new database opens");
        Self { db, _dir: dir }
    }
}
