//! Create, drop and find column families.
//!
//! A family's life is in the manifest: it is there, or gone, once the edit that says so is durable. Creating and
//! dropping take the lead of the commit queue for a moment, so that no group is cut in two.

use std::sync::Arc;

use super::Shared;
use super::history::History;
use crate::column_family::{ColumnFamily, FamilyData};
use crate::error::{Error, Result};
use crate::manifest::{FamilyEdit, VersionEdit};
use crate::obsolete::ReaderGone;
use crate::options::ColumnFamilyOptions;
use crate::sync::RwLock;
use crate::version::Version;
use crate::version::super_version::SuperVersion;

/// Longest name of a column family, in bytes.
const MAX_NAME_LEN: usize = 1024;

/// The families of a database.
#[derive(Debug)]
pub(super) struct Families {
    /// Sorted by id; replaced whole.
    live: RwLock<Arc<Vec<ColumnFamily>>>,
    default: ColumnFamily,
}

impl Families {
    /// Of these families; the first is `default`.
    pub(super) fn new(families: Vec<ColumnFamily>) -> Self {
        let default = families[0].clone();
        Self { live: RwLock::new(Arc::new(families)), default }
    }

    pub(super) fn default_family(&self) -> &ColumnFamily {
        &self.default
    }

    /// All of them, by id.
    pub(super) fn all(&self) -> Vec<ColumnFamily> {
        self.live.read().to_vec()
    }

    pub(super) fn find(&self, name: &str) -> Option<ColumnFamily> {
        self.live.read().iter().find(|family| family.name() == name).cloned()
    }

    fn add(&self, family: ColumnFamily) {
        let mut live = self.live.write();
        let mut next = live.to_vec();
        next.push(family);
        *live = Arc::new(next);
    }

    fn remove(&self, id: u32) {
        let mut live = self.live.write();
        *live = Arc::new(live.iter().filter(|family| family.id() != id).cloned().collect());
    }
}

impl Shared {
    /// Makes a family. Refused, it leaves no trace.
    pub(super) fn create_column_family(
        &self,
        name: &str,
        options: ColumnFamilyOptions,
    ) -> Result<ColumnFamily> {
        self.check_writable()?;
        options.validate()?;
        check_name(name)?;
        let mut leadership = self.commit.lead();
        self.check_writable()?;
        if self.families.find(name).is_some() {
            let why = format!("there is a column family '{name}' already");
            return Err(Error::invalid("column family name", why));
        }
        let id = self.versions.new_family_id();
        let data = self.new_family(id, name.into(), options, Version::empty);
        let change = FamilyEdit { created: Some(name.to_owned()), ..FamilyEdit::new(id) };
        let edit = VersionEdit { families: vec![change], ..VersionEdit::default() };
        self.versions
            .commit_with(edit, data.options().num_levels as usize, |_| {})
            .inspect_err(|error| self.latch_failure(error))?;
        let family = ColumnFamily { data: Arc::clone(&data) };
        leadership.state().add_family(data);
        self.families.add(family.clone());
        leadership.end();
        self.pressure.register_family(&family.data);
        self.info_log.info(&format!("created column family '{name}' with id {id}"));
        self.write_options_file();
        Ok(family)
    }

    /// Drops a family and all that it holds.
    pub(super) fn drop_column_family(&self, family: &Arc<FamilyData>) -> Result<()> {
        self.check_writable()?;
        self.check_family(family)?;
        if family.id == self.families.default_family().id() {
            return Err(Error::invalid("column family", "'default' cannot be dropped"));
        }
        let mut leadership = self.commit.lead();
        self.check_family(family)?;
        let change = FamilyEdit { dropped: true, ..FamilyEdit::new(family.id) };
        let edit = VersionEdit { families: vec![change], ..VersionEdit::default() };
        self.install(edit, |_| {})?;
        family.mark_dropped();
        family.refuse_flushes();
        leadership.state().remove_family(family.id);
        self.families.remove(family.id);
        leadership.end();

        self.pressure.forget_family(family);
        self.forget_history(family);
        // What it held is free as soon as no reader has it: its memtables leave the pressure now, its files are doomed.
        let last = family.pin();
        for memtable in last.memtables() {
            memtable.charge().flushed();
        }
        let empty = last.with(
            self.new_memtable(&family.name, &family.options()),
            Vec::new(),
            Arc::new(Version::empty(last.version.num_levels())),
        );
        let replaced = {
            let _state = self.state.lock();
            family.install(empty)
        };
        self.obsolete.doom(last.version.all_files().map(|(_, file)| Arc::clone(file)));
        drop((last, replaced));
        self.info_log.info(&format!("dropped column family '{}' with id {}", family.name, family.id));
        self.write_options_file();
        Ok(())
    }

    /// A family's data with an empty memtable and the version that `version` makes for its number of levels.
    pub(super) fn new_family(
        &self,
        id: u32,
        name: Arc<str>,
        options: ColumnFamilyOptions,
        version: impl FnOnce(usize) -> Version,
    ) -> Arc<FamilyData> {
        let first = SuperVersion {
            mutable: self.new_memtable(&name, &options),
            sealed: Vec::new(),
            version: Arc::new(version(options.num_levels as usize)),
            gone: ReaderGone(Arc::clone(&self.obsolete)),
        };
        let (bell, history) = (Arc::clone(&self.flush_bell), History::default());
        Arc::new(FamilyData::new(id, name, options, self.identity, first, bell, history))
    }
}

/// Whether a family may have this name.
pub(super) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > MAX_NAME_LEN {
        let why = format!("it has {} bytes; 1 to {MAX_NAME_LEN} are allowed", name.len());
        return Err(Error::invalid("column family name", why));
    }
    Ok(())
}
