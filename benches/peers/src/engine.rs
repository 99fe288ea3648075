//! The one trait through which every engine is driven, and the settings that all of them are given.

use std::error::Error;
use std::path::Path;

/// What an engine's call gives.
pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// A key of 16 bytes.
pub type Key = [u8; 16];

/// What an acknowledged put is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ack {
    /// Not logged. An engine that always logs hands it to the kernel.
    Memory,
    /// Handed to the kernel: survives a killed process.
    Kernel,
    /// Synced: survives a power failure.
    Device,
}

/// What is the same for all engines.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Column families (keyspaces).
    pub families: usize,
    /// What a put is worth.
    pub ack: Ack,
    /// LZ4, or none.
    pub compression: bool,
    /// Bytes of a memtable.
    pub memtable: u64,
    /// Bytes of all memtables together. An engine that cannot bound them is shown with the memory it took.
    pub quota: u64,
    /// Bytes of the block cache.
    pub cache: u64,
    /// Bytes per second of a delayed writer at the most.
    pub delayed_rate: u64,
    /// Threads that flush.
    pub flushes: u32,
    /// Threads that compact.
    pub compactions: u32,
    /// Bits of a Bloom filter per key.
    pub bloom_bits: f64,
}

/// An open store.
pub trait Engine: Sync {
    /// Puts one entry and returns when it is acknowledged.
    fn put(&self, family: usize, key: &Key, value: &[u8]) -> Outcome<()>;

    /// Reads a value of the first family and returns its length.
    fn get(&self, key: &Key) -> Outcome<Option<usize>>;

    /// Seeks with a new iterator of the first family, then steps; returns how many entries it saw, at most `1 + steps`.
    fn seek(&self, key: &Key, steps: usize) -> Outcome<usize>;

    /// Returns when no flush and no compaction is left to do.
    fn settle(&self) -> Outcome<()>;
}

/// Which engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Which {
    /// This repository's.
    Sluicedb,
    /// RocksDB, by its crate; needs the feature `rocksdb`.
    Rocksdb,
    /// fjall.
    Fjall,
}

impl Which {
    /// As it is named in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sluicedb => "sluicedb",
            Self::Rocksdb => "rocksdb",
            Self::Fjall => "fjall",
        }
    }

    /// Opens a new store.
    pub fn open(self, path: &Path, settings: &Settings) -> Outcome<Box<dyn Engine>> {
        match self {
            Self::Sluicedb => Ok(Box::new(crate::ours::Ours::open(path, settings)?)),
            #[cfg(feature = "rocksdb")]
            Self::Rocksdb => Ok(Box::new(crate::rocks::Rocks::open(path, settings)?)),
            #[cfg(not(feature = "rocksdb"))]
            Self::Rocksdb => {
                Err("built without RocksDB: add --features rocksdb (C++ compiler and libclang needed)".into())
            }
            Self::Fjall => Ok(Box::new(crate::fjalls::Fjalls::open(path, settings)?)),
        }
    }
}
