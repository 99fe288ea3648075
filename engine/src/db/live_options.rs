//! Changing options while the database is open: what is in force, and what follows from a change at once.
//!
//! A change is checked as a whole before any of it holds, so it is never half applied. It waits for nobody: writers that
//! sleep or are parked feel it where they wait. Last it is written to OPTIONS. How a text becomes a value is `options/live.rs`'.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Shared;
use crate::column_family::{ColumnFamily, FlushStage};
use crate::error::{Error, Result};
use crate::options::DbOptions;
use crate::sync::Mutex;

/// The database's options as they are now.
#[derive(Debug)]
pub(super) struct LiveOptions {
    /// Changes run one after the other; each tells the manager and the controller, which may write LOG lines.
    current: Mutex<DbOptions>,
    max_total_wal_size: AtomicU64,
}

impl LiveOptions {
    pub(super) fn new(options: &DbOptions) -> Self {
        Self {
            max_total_wal_size: AtomicU64::new(options.max_total_wal_size),
            current: Mutex::across_io(options.clone()),
        }
    }

    /// Log size above which the families that hold the oldest segment are flushed, in bytes.
    pub(super) fn max_total_wal_size(&self) -> u64 {
        self.max_total_wal_size.load(Ordering::Relaxed) // looked at again and again
    }
}

impl Shared {
    /// Changes options of a family by name.
    pub(super) fn set_options(&self, family: &ColumnFamily, changes: &[(&str, &str)]) -> Result<()> {
        self.check_family(&family.data)?;
        let data = &family.data;
        data.change_options(|options| options.with_changes(changes))?;
        self.info_log.info(&format!("[{}] set_options: {}", data.name, listed(changes)));
        self.update_sources(data);
        let mutable = std::sync::Arc::clone(&data.pin().mutable);
        if mutable.bytes() >= self.seal_size(data, &mutable) {
            data.want_flush(FlushStage::SealWanted);
        }
        // More, or other, compactions may be due; whoever waits for none to be due looks again.
        self.compaction_bell.ring();
        self.done_bell.ring();
        self.write_options_file();
        Ok(())
    }

    /// Changes options of the database by name.
    pub(super) fn set_db_options(&self, changes: &[(&str, &str)]) -> Result<()> {
        if self.is_closing() {
            return Err(Error::ShutdownInProgress);
        }
        let mut current = self.live.current.lock();
        let next = current.with_changes(changes)?;
        let given = |name: &str| changes.iter().any(|(changed, _)| *changed == name);
        for name in ["allow_stall", "delay_start_percent", "cost_write_buffer_to_cache"] {
            if given(name) && next.write_buffer_manager.is_some() {
                let why = "the write buffer manager was given and may be shared; change it there";
                return Err(Error::invalid(name, why));
            }
        }
        if given("cost_write_buffer_to_cache") && next.cost_write_buffer_to_cache {
            self.require_block_cache()?;
        }
        // From here on nothing fails.
        self.live.max_total_wal_size.store(next.max_total_wal_size, Ordering::Relaxed); // as above
        self.pressure.change(&next, &given, self.block_cache.as_ref());
        *current = next;
        drop(current);
        self.info_log.info(&format!("set_db_options: {}", listed(changes)));
        self.purge_bell.ring();
        self.write_options_file();
        Ok(())
    }

    /// Notes an option that a call of its own has changed.
    pub(super) fn note_option(&self, change: impl FnOnce(&mut DbOptions)) {
        change(&mut self.live.current.lock());
        self.write_options_file();
    }

    fn require_block_cache(&self) -> Result<()> {
        match self.block_cache {
            Some(_) => Ok(()),
            None => Err(Error::invalid("cost_write_buffer_to_cache", "the database has no block cache")),
        }
    }

    /// The options of the database as they are now.
    pub(super) fn db_options(&self) -> DbOptions {
        self.live.current.lock().clone()
    }

    /// Lets compactions of these families start by themselves again.
    pub(super) fn enable_auto_compaction(&self, families: &[ColumnFamily]) -> Result<()> {
        for family in families {
            self.check_family(&family.data)?;
        }
        families
            .iter()
            .try_for_each(|family| self.set_options(family, &[("disable_auto_compactions", "false")]))
    }
}

/// `name = value, name = value`
fn listed(changes: &[(&str, &str)]) -> String {
    changes.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ")
}
