//! RocksDB behind the trait, by its crate.

use std::path::Path;

use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, ColumnFamilyDescriptor, DBCompressionType, DBWithThreadMode,
    Options, SingleThreaded, WaitForCompactOptions, WriteBufferManager, WriteOptions,
};

use crate::engine::{Ack, Engine, Key, Outcome, Settings};

/// Families are made at the start alone, so no lock guards their names.
type Db = DBWithThreadMode<SingleThreaded>;

/// An open RocksDB. Handles of families borrow the database, so they are looked up for each put.
pub struct Rocks {
    db: Db,
    names: Vec<String>,
    write: WriteOptions,
}

impl Rocks {
    /// Opens a new one.
    pub fn open(path: &Path, settings: &Settings) -> Outcome<Self> {
        let mut options = options(settings)?;
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        options.set_write_buffer_manager(&WriteBufferManager::new_write_buffer_manager(
            settings.quota as usize,
            true,
        ));
        // Of these RocksDB gives a quarter, at least one, to flushes, and the rest to compactions.
        options.set_max_background_jobs((settings.flushes + settings.compactions) as i32);
        let mut names = vec!["default".to_owned()];
        names.extend((1..settings.families).map(|index| format!("family{index}")));
        let cache = Cache::new_lru_cache(settings.cache as usize);
        let families = names
            .iter()
            .map(|name| Ok(ColumnFamilyDescriptor::new(name, options_of_family(settings, &cache)?)))
            .collect::<Outcome<Vec<_>>>()?;
        let db = Db::open_cf_descriptors(&options, path, families)?;
        let mut write = WriteOptions::default();
        write.disable_wal(settings.ack == Ack::Memory);
        write.set_sync(settings.ack == Ack::Device);
        Ok(Self { db, names, write })
    }

    fn family(&self, index: usize) -> Outcome<&ColumnFamily> {
        self.db.cf_handle(&self.names[index]).ok_or_else(|| "a family is gone".into())
    }
}

/// Options of the database; the delayed rate has no setter in the crate.
fn options(settings: &Settings) -> Outcome<Options> {
    let text = format!("delayed_write_rate={}", settings.delayed_rate);
    Ok(Options::default().get_options_from_string(text)?)
}

fn options_of_family(settings: &Settings, cache: &Cache) -> Outcome<Options> {
    let mut options = Options::default();
    options.set_write_buffer_size(settings.memtable as usize);
    options.set_max_write_buffer_number(4);
    options.set_compression_type(if settings.compression {
        DBCompressionType::Lz4
    } else {
        DBCompressionType::None
    });
    options.set_max_bytes_for_level_base(256 << 20);
    options.set_target_file_size_base(64 << 20);
    options.set_level_compaction_dynamic_level_bytes(true);
    let mut table = BlockBasedOptions::default();
    table.set_bloom_filter(settings.bloom_bits, false);
    table.set_block_cache(cache);
    options.set_block_based_table_factory(&table);
    Ok(options)
}

impl Engine for Rocks {
    fn put(&self, family: usize, key: &Key, value: &[u8]) -> Outcome<()> {
        if family == 0 {
            return Ok(self.db.put_opt(key, value, &self.write)?);
        }
        Ok(self.db.put_cf_opt(self.family(family)?, key, value, &self.write)?)
    }

    fn get(&self, key: &Key) -> Outcome<Option<usize>> {
        Ok(self.db.get_pinned(key)?.map(|value| value.len()))
    }

    fn seek(&self, key: &Key, steps: usize) -> Outcome<usize> {
        let mut iterator = self.db.raw_iterator();
        iterator.seek(key);
        let mut seen = 0;
        while iterator.valid() && seen <= steps {
            std::hint::black_box((iterator.key(), iterator.value()));
            seen += 1;
            if seen <= steps {
                iterator.next();
            }
        }
        iterator.status()?;
        Ok(seen)
    }

    fn settle(&self) -> Outcome<()> {
        Ok(self.db.wait_for_compact(&WaitForCompactOptions::default())?)
    }
}
