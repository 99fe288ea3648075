//! Recovery: what the manifest says, plus what the log holds beyond it, becomes memtables again.
//!
//! The log is replayed in commit order into one memtable a family; entries at or below a family's `flushed_through` are in
//! its SSTs already and are left out. A memtable that outgrows its limit, or the manager's quota, is flushed inline by
//! the replaying thread, and then so is the rest at the end. Nothing is installed here: the files made and the place
//! where the log ended come back, for one manifest that says it all.
//!
//! How the log lies on disk, and what is damage in it, is [`crate::wal`]'s affair.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::pressure::Pressure;
use crate::batch::format::BatchReader;
use crate::env::{Clock, FileSystem};
use crate::error::{Corruption, Error, Result};
use crate::filename::sst_path;
use crate::flush::build_l0;
use crate::key::SequenceNumber;
use crate::memtable::{Memtable, Prepaid};
use crate::options::{ColumnFamilyOptions, DbOptions};
use crate::sst::{SstOptions, SstWriter};
use crate::version::set::{FileNumbers, ManifestState};
use crate::version::{FileMeta, FileNumber};
use crate::wal::{RecordPlace, ReplayEnd, ReplayRequest, damage_at, replay};

/// What recovery works with.
pub(super) struct Recovery<'a> {
    pub(super) fs: &'a dyn FileSystem,
    pub(super) dir: &'a Path,
    pub(super) clock: &'a dyn Clock,
    pub(super) options: &'a DbOptions,
    pub(super) pressure: &'a Pressure,
    pub(super) numbers: &'a FileNumbers,
    /// Everything stays in memory, whatever its size, and nothing is synced.
    pub(super) read_only: bool,
    /// Makes an empty memtable for the family of this name.
    pub(super) new_memtable: &'a dyn Fn(&Arc<str>, &ColumnFamilyOptions) -> Arc<Memtable>,
}

/// What recovery found.
pub(super) struct Recovered {
    /// A memtable for each family, by id.
    pub(super) memtables: BTreeMap<u32, Arc<Memtable>>,
    /// SSTs made on the way, by family, oldest first.
    pub(super) flushed: Vec<(u32, Arc<FileMeta>)>,
    /// The last sequence that was ever used.
    pub(super) last_sequence: SequenceNumber,
    pub(super) end: ReplayEnd,
}

/// A family while the log is replayed.
struct Replayed<'a> {
    name: Arc<str>,
    options: &'a ColumnFamilyOptions,
    /// Entries at or below are in SSTs already.
    flushed_through: SequenceNumber,
    memtable: Arc<Memtable>,
}

impl Recovery<'_> {
    /// Replays the log behind what `state` says.
    pub(super) fn run(
        &self,
        state: &ManifestState,
        families: &BTreeMap<u32, ColumnFamilyOptions>,
    ) -> Result<Recovered> {
        let mut replayed: BTreeMap<u32, Replayed<'_>> = families
            .iter()
            .map(|(id, options)| {
                let known = state.families.get(id);
                let flushed_through = known.map_or(SequenceNumber::ZERO, |family| family.flushed_through);
                let name: Arc<str> = known.map_or("", |family| family.name.as_str()).into();
                (
                    *id,
                    Replayed {
                        options,
                        flushed_through,
                        memtable: (self.new_memtable)(&name, options),
                        name,
                    },
                )
            })
            .collect();
        let mut flushed = Vec::new();
        let mut last = SequenceNumber::ZERO;
        let request = ReplayRequest {
            fs: self.fs,
            dir: self.dir,
            facts: &state.wal,
            mode: self.options.recovery_mode,
            read_only: self.read_only,
        };
        let oldest_segment = state.wal.first_needed;
        let end = if state.wal.first_needed == FileNumber(0) {
            ReplayEnd::default()
        } else {
            replay(&request, |place, record| {
                last = self.replay_batch(place, record, oldest_segment, last, &mut replayed)?;
                if self.read_only { Ok(()) } else { self.make_room(&mut replayed, &mut flushed) }
            })?
        };
        if let Some(damage) = &end.damage {
            self.refuse_files_beyond(state, last, damage)?;
        }
        if !flushed.is_empty() {
            for (id, family) in &mut replayed {
                self.flush(*id, family, &mut flushed)?;
            }
        }
        let in_files = state.families.values().flat_map(|family| family.version.all_files());
        let in_files = in_files.map(|(_, file)| file.largest_seq).max().unwrap_or_default();
        let last_sequence = last.max(in_files).max(state.last_sequence);
        let memtables = replayed.into_iter().map(|(id, family)| (id, family.memtable)).collect();
        Ok(Recovered { memtables, flushed, last_sequence, end })
    }

    /// Inserts what the SSTs lack of one batch; its last sequence comes back.
    fn replay_batch(
        &self,
        place: RecordPlace,
        record: &[u8],
        segment: FileNumber,
        before: SequenceNumber,
        families: &mut BTreeMap<u32, Replayed<'_>>,
    ) -> Result<SequenceNumber> {
        let damaged = |found| damage_at(self.dir, place, found);
        let mut entries = BatchReader::new(record).map_err(damaged)?;
        let mut seq = entries.first;
        if seq <= before {
            let expected = format!("above {before}, the one before");
            return Err(damaged(Corruption::bad("sequence of a logged batch", expected, seq)));
        }
        let last = SequenceNumber::new(seq.get() + u64::from(entries.count).saturating_sub(1));
        while let Some(entry) = entries.next().map_err(damaged)? {
            // A family that was dropped since is not there any more.
            if let Some(family) = families.get(&entry.family)
                && seq > family.flushed_through
            {
                family.memtable.note_logged(segment, last);
                family.memtable.insert(entry.key, seq, entry.value_type, entry.value, &mut Prepaid::Nothing);
            }
            seq = seq.after(1);
        }
        Ok(last)
    }

    /// Flushes every memtable that is full, and the largest ones while the manager is over its quota.
    fn make_room(
        &self,
        families: &mut BTreeMap<u32, Replayed<'_>>,
        flushed: &mut Vec<(u32, Arc<FileMeta>)>,
    ) -> Result<()> {
        for (id, family) in families.iter_mut() {
            if family.memtable.bytes() >= family.options.write_buffer_size {
                self.flush(*id, family, flushed)?;
            }
        }
        while self.options.enforce_write_buffer_manager_during_recovery && self.pressure.wants_room() {
            let largest = families.iter_mut().max_by_key(|(_, family)| family.memtable.bytes());
            match largest {
                Some((id, family)) if !family.memtable.is_empty() => self.flush(*id, family, flushed)?,
                _ => break, // another database holds it; it is asked like by any other writer
            }
        }
        Ok(())
    }

    /// Turns a memtable into an SST, and begins a new one.
    fn flush(
        &self,
        id: u32,
        family: &mut Replayed<'_>,
        flushed: &mut Vec<(u32, Arc<FileMeta>)>,
    ) -> Result<()> {
        if family.memtable.is_empty() {
            return Ok(());
        }
        let full = std::mem::replace(&mut family.memtable, (self.new_memtable)(&family.name, family.options));
        full.charge().seal();
        full.charge().flush_started();
        let number = self.numbers.take();
        let options = SstOptions::from_family(family.options, 0);
        let table = SstWriter::create(self.fs, sst_path(self.dir, number), self.fs.unique_id(), options)?;
        let mut table = table.of_family(id, &family.name);
        build_l0(std::slice::from_ref(&full), &[], &mut table, &|_| Ok(()))?;
        let file = FileMeta::from_summary(number, table.finish()?, self.clock.unix_micros());
        self.fs.sync_dir(self.dir).map_err(|error| Error::io("sync", self.dir, error))?;
        family.flushed_through = full.largest_seq();
        flushed.push((id, Arc::new(file)));
        full.charge().flushed();
        Ok(())
    }

    /// Where replay stopped at damage: an SST that holds something later would make the recovered state one that never was.
    fn refuse_files_beyond(&self, state: &ManifestState, last: SequenceNumber, damage: &Error) -> Result<()> {
        for family in state.families.values() {
            if family.flushed_through > last {
                return Err(damage.clone());
            }
        }
        Ok(())
    }
}
