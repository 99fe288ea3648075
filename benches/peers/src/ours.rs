//! SluiceDB behind the trait.

use std::path::Path;

use sluicedb::{
    ColumnFamily, ColumnFamilyOptions, Compression, Db, DbOptions, DelayedWriteRate, Durability, WriteOptions,
};

use crate::engine::{Ack, Engine, Key, Outcome, Settings};

/// An open SluiceDB.
pub struct Ours {
    db: Db,
    families: Vec<ColumnFamily>,
    write: WriteOptions,
}

impl Ours {
    /// Opens a new one.
    pub fn open(path: &Path, settings: &Settings) -> Outcome<Self> {
        let mut family = ColumnFamilyOptions::default();
        family.write_buffer_size = settings.memtable;
        family.max_write_buffer_number = 4;
        family.compression = if settings.compression { Compression::Lz4 } else { Compression::None };
        family.bloom_bits_per_key = settings.bloom_bits;
        let mut options = DbOptions::default();
        options.column_family = family.clone();
        options.db_write_buffer_size = settings.quota;
        options.block_cache_size = settings.cache;
        options.delayed_write_rate = DelayedWriteRate::BytesPerSecond(settings.delayed_rate);
        options.max_background_flushes = settings.flushes;
        options.max_background_compactions = settings.compactions;
        let db = Db::open(path, options)?;
        let mut families = vec![db.default_column_family()];
        for index in 1..settings.families {
            families.push(db.create_column_family(&format!("family{index}"), family.clone())?);
        }
        let write = WriteOptions::durability(match settings.ack {
            Ack::Memory => Durability::None,
            Ack::Kernel => Durability::Os,
            Ack::Device => Durability::Sync,
        });
        Ok(Self { db, families, write })
    }
}

impl Engine for Ours {
    fn put(&self, family: usize, key: &Key, value: &[u8]) -> Outcome<()> {
        Ok(self.db.put_cf_opt(&self.families[family], key, value, &self.write)?)
    }

    fn get(&self, key: &Key) -> Outcome<Option<usize>> {
        Ok(self.db.get(key)?.map(|value| value.len()))
    }

    fn seek(&self, key: &Key, steps: usize) -> Outcome<usize> {
        let mut iterator = self.db.iter()?;
        iterator.seek(key)?;
        let mut seen = 0;
        while iterator.valid() && seen <= steps {
            std::hint::black_box((iterator.key(), iterator.value()));
            seen += 1;
            if seen <= steps {
                iterator.next()?;
            }
        }
        Ok(seen)
    }

    fn settle(&self) -> Outcome<()> {
        Ok(self.db.wait_for_background_work()?)
    }
}
