//! One column family: its options, what readers pin, and how the manager asks it for a flush.
//!
//! [`ColumnFamily`] is the handle that users hold; [`FamilyData`] is what the database keeps. Other families, and how
//! a flush is run, are not known here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use sluicedb_wbm::{FlushTarget, Reclaimable};

use crate::db::{FamilyPressure, History, LastFamilyPrint};
use crate::error::Result;
use crate::jobs::Bell;
use crate::options::ColumnFamilyOptions;
use crate::stats::{Last, LevelWork};
use crate::sync::{Mutex, Rank, RwLock};
use crate::version::super_version::SuperVersion;

/// A column family of an open database. Cheap to clone; sharing it between threads is fine.
///
/// A handle outlives nothing it needs: after the family is dropped, or the database closed, calls that use it return
/// an error.
#[derive(Debug, Clone)]
pub struct ColumnFamily {
    pub(crate) data: Arc<FamilyData>,
}

impl ColumnFamily {
    /// The name that it was created with.
    pub fn name(&self) -> &str {
        &self.data.name
    }

    /// Its number in the database: 0 for `default`, never reused.
    pub fn id(&self) -> u32 {
        self.data.id
    }

    /// The options as they are now: those that it was opened with, and what [`Db::set_options`](crate::Db::set_options) has
    /// changed since.
    pub fn options(&self) -> Arc<ColumnFamilyOptions> {
        self.data.options()
    }

    /// Identity of the database that it belongs to.
    pub(crate) fn database(&self) -> u64 {
        self.data.database
    }
}

/// Whether a flush of a family is wanted, and by whom it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FlushStage {
    /// No flush is wanted.
    Idle = 0,
    /// The mutable memtable shall be sealed, and what is sealed flushed.
    SealWanted = 1,
    /// What is sealed shall be flushed.
    Queued = 2,
}

/// What the database keeps of a column family.
#[derive(Debug)]
pub(crate) struct FamilyData {
    pub(crate) id: u32,
    pub(crate) name: Arc<str>,
    /// Replaced whole by a change of live options.
    options: RwLock<Arc<ColumnFamilyOptions>>,
    /// The option that every group of writes looks at.
    write_buffer_size: AtomicU64,
    /// Identity of its database.
    pub(crate) database: u64,
    dropped: AtomicBool,
    /// What a reader clones. Replaced under the database's state lock.
    pin: RwLock<Arc<SuperVersion>>,
    stage: AtomicU8,
    /// A flush job works on it.
    flushing: AtomicBool,
    /// The same, until the manager is about to be told that the flush ended: then it may ask for the next.
    in_flight: AtomicBool,
    /// The database takes no writes and flushes nothing any more.
    refuses: AtomicBool,
    flush_bell: Arc<Bell>,
    /// What it has at the manager and the controller, from its registration to its end.
    pressure: Mutex<Option<Arc<FamilyPressure>>>,
    /// Held while its state is looked at and what follows from it is asked of the brake.
    pub(crate) asking: Mutex<()>,
    /// Flushed memtables that are kept.
    pub(crate) history: History,
    /// By level: what was done to fill it.
    work: Mutex<Vec<LevelWork>>,
    /// What the text of its statistics said last.
    pub(crate) last_print: Last<LastFamilyPrint>,
}

impl FamilyData {
    pub(crate) fn new(
        id: u32,
        name: Arc<str>,
        options: ColumnFamilyOptions,
        database: u64,
        first: SuperVersion,
        flush_bell: Arc<Bell>,
        history: History,
    ) -> Self {
        Self {
            id,
            name,
            write_buffer_size: AtomicU64::new(options.write_buffer_size),
            options: RwLock::new(Arc::new(options)),
            database,
            dropped: AtomicBool::new(false),
            pin: RwLock::new(Arc::new(first)).ranked(Rank::Pin),
            stage: AtomicU8::new(FlushStage::Idle as u8),
            flushing: AtomicBool::new(false),
            in_flight: AtomicBool::new(false),
            refuses: AtomicBool::new(false),
            flush_bell,
            pressure: Mutex::new(None),
            asking: Mutex::new(()).ranked(Rank::Asking),
            history,
            work: Mutex::new(Vec::new()),
            last_print: Last::default(),
        }
    }

    /// The options as they are now.
    pub(crate) fn options(&self) -> Arc<ColumnFamilyOptions> {
        Arc::clone(&self.options.read())
    }

    /// Size at which the mutable memtable is sealed, in bytes. One atomic load.
    #[inline]
    pub(crate) fn write_buffer_size(&self) -> u64 {
        self.write_buffer_size.load(Ordering::Relaxed) // a group later or earlier does not matter
    }

    /// Replaces the options by what `change` makes of them, unless it refuses. Changes run one after the other.
    pub(crate) fn change_options(
        &self,
        change: impl FnOnce(&ColumnFamilyOptions) -> Result<ColumnFamilyOptions>,
    ) -> Result<()> {
        let mut options = self.options.write();
        let next = change(&options)?;
        self.write_buffer_size.store(next.write_buffer_size, Ordering::Relaxed); // as above
        *options = Arc::new(next);
        Ok(())
    }

    /// Everything a reader needs of the family, as it is now.
    #[inline]
    pub(crate) fn pin(&self) -> Arc<SuperVersion> {
        Arc::clone(&self.pin.read())
    }

    /// Replaces what readers pin from now on. The old one comes back, to be dropped without a lock held.
    #[must_use = "drop the old super version after the state lock is released"]
    pub(crate) fn install(&self, next: SuperVersion) -> Arc<SuperVersion> {
        std::mem::replace(&mut *self.pin.write(), Arc::new(next))
    }

    /// What it has at the manager and the controller.
    pub(crate) fn pressure(&self) -> Option<Arc<FamilyPressure>> {
        self.pressure.lock().clone()
    }

    /// Registers it, or takes the registration back. The one before comes back, to be dropped without a lock held: the
    /// manager may ask other families then.
    #[must_use = "drop it with no lock held"]
    pub(crate) fn set_pressure(&self, pressure: Option<Arc<FamilyPressure>>) -> Option<Arc<FamilyPressure>> {
        std::mem::replace(&mut *self.pressure.lock(), pressure)
    }

    /// Books what a flush or a compaction into `level` did.
    pub(crate) fn book(&self, level: usize, done: &LevelWork) {
        let mut work = self.work.lock();
        if work.len() <= level {
            work.resize(level + 1, LevelWork::default());
        }
        work[level].add(done);
    }

    /// By level: what was done to fill it.
    pub(crate) fn work(&self) -> Vec<LevelWork> {
        self.work.lock().clone()
    }

    pub(crate) fn forget_work(&self) {
        self.work.lock().clear();
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    pub(crate) fn mark_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
    }

    /// From now on no flush of it is promised: its database closes, failed, or it was dropped.
    pub(crate) fn refuse_flushes(&self) {
        self.refuses.store(true, Ordering::Release);
    }

    /// Takes [`refuse_flushes`](Self::refuse_flushes) back.
    pub(crate) fn accept_flushes(&self) {
        self.refuses.store(false, Ordering::Release);
    }

    pub(crate) fn stage(&self) -> FlushStage {
        match self.stage.load(Ordering::Acquire) {
            1 => FlushStage::SealWanted,
            2 => FlushStage::Queued,
            _ => FlushStage::Idle,
        }
    }

    /// Raises the wish for a flush (a seal includes a flush of what is sealed) and wakes a flush thread.
    pub(crate) fn want_flush(&self, stage: FlushStage) {
        match stage {
            FlushStage::SealWanted => self.stage.store(FlushStage::SealWanted as u8, Ordering::Release),
            _ => {
                let from = FlushStage::Idle as u8;
                let _ = self.stage.compare_exchange(from, stage as u8, Ordering::AcqRel, Ordering::Acquire);
            }
        }
        self.flush_bell.ring();
    }

    /// The wish is being granted.
    pub(crate) fn take_wish(&self) -> FlushStage {
        match self.stage.swap(FlushStage::Idle as u8, Ordering::AcqRel) {
            1 => FlushStage::SealWanted,
            2 => FlushStage::Queued,
            _ => FlushStage::Idle,
        }
    }

    /// Takes the right to flush the family; one job at a time has it.
    pub(crate) fn begin_flush(&self) -> bool {
        let begun = !self.flushing.swap(true, Ordering::AcqRel);
        if begun {
            self.in_flight.store(true, Ordering::Release);
        }
        begun
    }

    /// The flush frees nothing more; the right to flush is given back a little later.
    pub(crate) fn leave_flight(&self) {
        self.in_flight.store(false, Ordering::Release);
    }

    pub(crate) fn end_flush(&self) {
        self.leave_flight();
        self.flushing.store(false, Ordering::Release);
    }

    pub(crate) fn is_flushing(&self) -> bool {
        self.flushing.load(Ordering::Acquire)
    }
}

impl FlushTarget for FamilyData {
    fn reclaimable(&self) -> Reclaimable {
        let pinned = self.pin();
        let flushing = self.in_flight.load(Ordering::Acquire);
        let mutable = pinned.mutable.bytes();
        let sealed: u64 =
            if flushing { 0 } else { pinned.sealed.iter().map(|memtable| memtable.bytes()).sum() };
        let oldest = pinned
            .memtables()
            .filter(|memtable| memtable.bytes() > 0)
            .map(|memtable| memtable.created())
            .min();
        Reclaimable {
            bytes: mutable + sealed,
            mutable,
            oldest,
            pending: flushing || self.stage() != FlushStage::Idle,
        }
    }

    fn request_flush(&self) -> bool {
        let refuses = self.refuses.load(Ordering::Acquire) || self.is_dropped();
        let pinned = self.pin();
        // By bytes, not by entries: the first entry's charge may be what asks.
        if refuses || (pinned.mutable.bytes() == 0 && pinned.sealed.is_empty()) {
            return false;
        }
        self.want_flush(FlushStage::SealWanted);
        true
    }
}
