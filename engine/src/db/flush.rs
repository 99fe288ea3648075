//! One flush, from the pick to the freed memory.
//!
//! 1. Seal the mutable memtable, if that was asked for: the flush thread takes the lead of the commit queue for a moment.
//! 2. Pick all sealed memtables; the manager counts them as flushing from here on, before any work is done.
//! 3. Sync the log through the memtables' last logged sequence: otherwise a power failure could keep this family's later
//!    batches and lose another family's earlier ones.
//! 4. Build one L0 SST, with no lock held; readers see the memtables meanwhile. Once it is written the flush gives its slot
//!    back: while it waits for the device, the next one computes.
//! 5. Commit the version edit, install version and super version in one step.
//! 6. The charge leaves the pressure; the log's segments that nobody needs any more are released.

use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use super::background::FLUSHES_PER_SLOT;
use crate::column_family::{FamilyData, FlushStage};
use crate::env::thread_cpu_micros;
use crate::error::{Error, Result};
use crate::event::{Event, FlushCompleted};
use crate::filename::sst_path;
use crate::flush::build_l0;
use crate::jobs::{JobHandle, Slot};
use crate::manifest::{FamilyEdit, VersionEdit};
use crate::memtable::Memtable;
use crate::options::TableWrites;
use crate::sst::{SstOptions, SstWriter, UnsyncedSst};
use crate::stats::LevelWork;
use crate::version::{FileMeta, FileNumber};
use crate::wal::WalEdit;

impl Shared {
    /// Flushes what is sealed of a family, after sealing if that was asked for. The caller has the right to flush it.
    pub(super) fn flush_family(&self, family: &Arc<FamilyData>, slot: Slot<'_>) -> Result<()> {
        // 1. Seal.
        if family.take_wish() == FlushStage::SealWanted {
            let mut leadership = self.commit.lead();
            if let Some(writer) = leadership.state().family(family.id) {
                self.seal(writer, FlushStage::SealWanted);
            }
            leadership.end();
            family.take_wish(); // the seal's own wish is being granted, too
        }
        // 2. Pick.
        let sealed = family.pin().sealed.clone();
        if sealed.is_empty() || family.is_dropped() {
            self.pressure.flush_ended(family, &[], true);
            return Ok(());
        }
        self.pressure.flush_started(family, &sealed);
        // 3. The log first.
        let logged = sealed.iter().map(|memtable| memtable.largest_logged_seq()).max().unwrap_or_default();
        let outcome = self.wal.sync_through(logged).and_then(|()| {
            // The edit that names the SST says as well which segments its memtables were the last to need.
            let first_needed = Some(self.first_needed_without(&sealed));
            let wal = WalEdit { first_needed, ..WalEdit::default() };
            self.write_and_install(family, &sealed, wal, Some(slot))
        });
        // 6. The charges leave the pressure, or go back to sealed.
        self.pressure.flush_ended(family, &sealed, outcome.is_ok());
        if outcome.is_ok() {
            self.settle_history(family, &sealed);
        }
        self.update_sources(family);
        outcome?;
        self.release_wal();
        self.free_elsewhere(sealed);
        Ok(())
    }

    /// Frees memtables on a worker: giving large memory back takes long.
    fn free_elsewhere(&self, memtables: Vec<Arc<Memtable>>) {
        // Refused, the closure is dropped here, and the memtables with it.
        let _ = self.pools.purge.try_submit(move |_| drop(memtables)).map(JobHandle::detach);
    }

    /// Steps 4 and 5: an SST of these memtables, installed. The slot, if there is one, is free once it is written.
    pub(super) fn write_and_install(
        &self,
        family: &Arc<FamilyData>,
        sealed: &[Arc<Memtable>],
        wal: WalEdit,
        slot: Option<Slot<'_>>,
    ) -> Result<()> {
        // 4. Build.
        let (began, cpu_began) = (self.clock.now_nanos(), thread_cpu_micros());
        let number = self.versions.new_file_number();
        let path = sst_path(&self.dir, number);
        let built = self.build_flush_output(family, sealed, number).and_then(|table| {
            drop(slot);
            let computed = self.clock.now_nanos();
            Ok((table.map(|table| self.sync_flush_output(number, table)).transpose()?, computed))
        });
        let remove_output = || {
            let _ = self.fs.remove(&path); // what stays is removed when the database is opened next
        };
        let (file, computed) = built.inspect_err(|_| remove_output())?;

        // 5. Commit and install.
        let flushed_through = sealed.iter().map(|memtable| memtable.largest_seq()).max().unwrap_or_default();
        let size = file.as_ref().map_or(0, |file| file.size);
        let written = file.as_ref().map(|file| file.number.0);
        let edit = VersionEdit {
            last_sequence: Some(flushed_through),
            wal,
            families: vec![FamilyEdit {
                added: file.into_iter().map(|file| (0, Arc::new(file))).collect(),
                flushed_through: Some(flushed_through),
                ..FamilyEdit::new(family.id)
            }],
            ..VersionEdit::default()
        };
        let mut replaced = None;
        self.install(edit, |versions| {
            let Some(version) = versions.of(family.id) else { return };
            let _state = self.state.lock();
            let pinned = family.pin();
            let still_sealed = pinned
                .sealed
                .iter()
                .filter(|memtable| !sealed.iter().any(|flushed| Arc::ptr_eq(flushed, memtable)))
                .cloned()
                .collect();
            family.history.take(sealed);
            replaced = Some(family.install(pinned.with(Arc::clone(&pinned.mutable), still_sealed, version)));
        })
        .inspect_err(|error| {
            // A family that was dropped meanwhile leaves its file behind; after any other failure it is unknown
            // whether the manifest names it.
            if matches!(error, Error::NoSuchColumnFamily { .. }) {
                remove_output();
            }
        })?;
        drop(replaced);

        let micros = self.clock.now_nanos().saturating_sub(began) / 1000;
        // What it kept others from: all of its computing, and its share of the waiting.
        let busy = (computed.saturating_sub(began) / 1000).max(micros / FLUSHES_PER_SLOT);
        self.pressure
            .drained(sealed.iter().map(|memtable| memtable.bytes()).sum(), Duration::from_micros(busy));
        self.stats.flushes.add(1);
        self.stats.flush_bytes_written.add(size);
        self.stats.flush_micros.add(micros);
        self.stats.flush_slot_micros.add(busy);
        self.stats.flush_times.record(micros);
        family.book(
            0,
            &LevelWork {
                written: size,
                flushed: size,
                micros,
                cpu_micros: thread_cpu_micros().saturating_sub(cpu_began),
                count: 1,
                ..LevelWork::default()
            },
        );
        self.events.push(|| {
            Event::Flush(FlushCompleted {
                family: Arc::clone(&family.name),
                file: written,
                memtables: sealed.len(),
                bytes: size,
                took: Duration::from_micros(micros),
            })
        });
        self.info_log.info(&format!(
            "[{}] flushed {} memtables into {number}.sst, {size} bytes, in {micros} us",
            family.name,
            sealed.len()
        ));
        Ok(())
    }

    /// Writes the SST; `None` when everything in the memtables was hidden by something newer, which cannot
    /// happen to the newest entry, so only for memtables without entries.
    fn build_flush_output(
        &self,
        family: &FamilyData,
        sealed: &[Arc<Memtable>],
        number: FileNumber,
    ) -> Result<Option<UnsyncedSst>> {
        let snapshots = self.snapshots.sequences();
        let direct = self.options.table_writes == TableWrites::Direct;
        let options = SstOptions { direct, ..SstOptions::from_family(&family.options(), 0) };
        let path = sst_path(&self.dir, number);
        let table = SstWriter::create(&*self.flush_fs, path, self.fs.unique_id(), options)?;
        let mut table = table.of_family(family.id, &family.name);
        let go_on = |written| {
            credit(sealed, written);
            if self.is_closing() { Err(Error::ShutdownInProgress) } else { Ok(()) }
        };
        if build_l0(sealed, &snapshots, &mut table, &go_on)? == 0 {
            return Ok(None);
        }
        table.write_rest().map(Some)
    }

    /// Waits until the SST and its name are on the device.
    fn sync_flush_output(&self, number: FileNumber, table: UnsyncedSst) -> Result<FileMeta> {
        let file = FileMeta::from_summary(number, table.sync()?, self.clock.unix_micros());
        self.fs.sync_dir(&self.dir).map_err(|error| Error::io("sync", &self.dir, error))?;
        Ok(file)
    }

    /// The first segment that a memtable beside these needs.
    fn first_needed_without(&self, flushed: &[Arc<Memtable>]) -> FileNumber {
        // The position first: what is noted in a memtable later lies at or behind it.
        let mut needed = self.wal.current_segment();
        for family in self.families.all() {
            let pinned = family.data.pin();
            let others =
                pinned.memtables().filter(|one| !flushed.iter().any(|other| Arc::ptr_eq(one, other)));
            for memtable in others {
                needed = needed.min(memtable.oldest_segment().unwrap_or(needed));
            }
        }
        needed
    }

    /// Size at which this mutable memtable is sealed, in bytes.
    #[inline]
    pub(super) fn seal_size(&self, family: &FamilyData, memtable: &Memtable) -> u64 {
        let size = family.write_buffer_size();
        if !self.options.desync_write_buffers {
            return size;
        }
        // The high bits of a product with the golden ratio are spread evenly over consecutive numbers.
        let spread = memtable.id().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
        size - size / 4 * spread / 256
    }

    /// Lets go of the log's segments that no memtable needs, once the manifest says so durably.
    pub(super) fn release_wal(&self) {
        if let Err(error) = self.versions.record_wal_start(self.first_needed_without(&[])) {
            self.latch_failure(&error);
            return;
        }
        if self.wal.release_below(self.versions.wal_start()) > 0 {
            self.purge_bell.ring();
        }
    }
}

/// Tells the memtables' charges how much of them has been written, the first ones first.
fn credit(sealed: &[Arc<Memtable>], mut written: u64) {
    for memtable in sealed {
        let of_it = written.min(memtable.bytes());
        memtable.charge().flush_progress(of_it);
        written -= of_it;
    }
}
