//! fjall behind the trait. It always logs, and its memtables have no common quota that writers wait for.

use std::path::Path;
use std::time::Duration;

use fjall::config::{BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::engine::{Ack, Engine, Key, Outcome, Settings};

/// An open fjall database.
pub struct Fjalls {
    keyspaces: Vec<Keyspace>,
    db: Database,
    synced: bool,
}

impl Fjalls {
    /// Opens a new one.
    pub fn open(path: &Path, settings: &Settings) -> Outcome<Self> {
        let db = Database::builder(path)
            .cache_size(settings.cache)
            .worker_threads((settings.flushes + settings.compactions) as usize)
            .open()?;
        let bloom = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(settings.bloom_bits as f32));
        let compression = if settings.compression { CompressionType::Lz4 } else { CompressionType::None };
        let options = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(settings.memtable)
                .filter_policy(FilterPolicy::all(bloom))
                .data_block_compression_policy(CompressionPolicy::all(compression))
        };
        let keyspaces = (0..settings.families)
            .map(|index| db.keyspace(&format!("family{index}"), options))
            .collect::<Result<_, _>>()?;
        Ok(Self { keyspaces, db, synced: settings.ack == Ack::Device })
    }
}

impl Engine for Fjalls {
    fn put(&self, family: usize, key: &Key, value: &[u8]) -> Outcome<()> {
        if self.synced {
            let mut batch = self.db.batch().durability(Some(PersistMode::SyncData));
            batch.insert(&self.keyspaces[family], key, value);
            return Ok(batch.commit()?);
        }
        Ok(self.keyspaces[family].insert(key, value)?)
    }

    fn get(&self, key: &Key) -> Outcome<Option<usize>> {
        Ok(self.keyspaces[0].get(key)?.map(|value| value.len()))
    }

    fn seek(&self, key: &Key, steps: usize) -> Outcome<usize> {
        let mut seen = 0;
        for entry in self.keyspaces[0].range(key.as_slice()..).take(steps + 1) {
            std::hint::black_box(entry.into_inner()?);
            seen += 1;
        }
        Ok(seen)
    }

    fn settle(&self) -> Outcome<()> {
        let busy = || {
            self.db.outstanding_flushes() > 0
                || self.db.active_compactions() > 0
                || self.keyspaces.iter().any(|keyspace| keyspace.sealed_memtable_count() > 0)
        };
        // It tells of running work only: quiet for ten looks in a row counts as settled.
        let mut quiet = 0;
        while quiet < 10 {
            quiet = if busy() { 0 } else { quiet + 1 };
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}
