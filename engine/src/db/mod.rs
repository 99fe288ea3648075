//! [`Db`]: an open database. Each method hands over within a few lines.
//!
//! | what                                    | where                       |
//! |-----------------------------------------|-----------------------------|
//! | the order of opening and of closing     | [`open`], [`close`]         |
//! | the write path, top to bottom           | [`write`](mod@write)        |
//! | writes that nobody waits for            | [`ticket`], [`waiting`], [`appender`] |
//! | the point read, top to bottom           | [`read`]                    |
//! | many point reads as one                 | [`multi_get`]               |
//! | create, drop and find column families   | [`column_families`]         |
//! | who works in the background, and when   | [`background`]              |
//! | what else has to be done, and by whom   | [`housekeeping`], [`pools`] |
//! | one flush, one compaction               | [`flush`], [`compact`], [`compact_due`] |
//! | what drain is measured for the governor | [`governing`]               |
//! | flushes and compactions asked for       | [`maintenance`]             |
//! | read-only opens, checkpoints, verify, repair | [`side_doors`]     |
//! | options changed while it is open        | [`live_options`]            |
//! | what it says about itself               | [`properties`]              |

mod appender;
mod background;
mod checkpoint;
mod close;
mod column_families;
mod compact;
mod compact_due;
mod flush;
mod governing;
mod history;
mod housekeeping;
mod job_pressure;
mod live_options;
mod maintenance;
mod multi_get;
mod open;
mod open_read_only;
mod options_file;
mod pools;
mod pressure;
mod prometheus;
mod properties;
mod queue_report;
mod read;
mod recover;
mod resume;
mod side_doors;
mod state;
mod stats_text;
mod ticket;
mod waiting;
mod write;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use sluicedb_controller::{Source, WriteController, deadline_after};
use sluicedb_wbm::WriteBufferManager;

use self::appender::Appender;
use self::column_families::Families;
use self::governing::Governing;
use self::live_options::LiveOptions;
use self::multi_get::ReadThreads;
use self::pools::{OneAtATime, Pools};
use self::pressure::Pressure;
use self::state::State;
use self::stats_text::LastDbPrint;
use self::write::Commit;
use crate::batch::{WriteBatch, WriteError};
use crate::cache::{BlockCache, TableCache};
use crate::column_family::{ColumnFamily, FamilyData};
use crate::durability::SubscriptionId;
use crate::env::{Clock, FileLock, FileSystem, TrackedFileSystem};
use crate::error::{Error, Result};
use crate::event::{BackgroundJobPressure, Event, Events};
use crate::info_log::InfoLog;
use crate::iter::db_iter::DbIterator;
use crate::jobs::{Bell, Failure, Slots, Workers};
use crate::key::SequenceNumber;
use crate::manifest::VersionEdit;
use crate::obsolete::ObsoleteFiles;
use crate::options::{
    ColumnFamilyOptions, CompactRangeOptions, DbOptions, FlushOptions, ReadOptions, WriteOptions,
};
use crate::slice::PinnedSlice;
use crate::snapshot::{Snapshot, SnapshotList};
use crate::stats::{Last, Statistics, StatisticsSnapshot};
use crate::sync::Mutex;
use crate::version::set::{NewVersions, VersionSet};
use crate::wal::{SyncTicker, Wal};

pub(crate) use history::History;
pub use history::RecentWrite;
pub(crate) use pressure::FamilyPressure;
pub use prometheus::prometheus_text;
pub use properties::LevelStats;
pub(crate) use stats_text::LastFamilyPrint;
pub use ticket::WriteTicket;

/// An open database.
///
/// Cheap to clone, and free to share between threads. The last clone that goes closes the database quietly;
/// [`close`](Self::close) does it and reports errors.
///
/// ```no_run
/// # fn main() -> sluicedb::Result<()> {
/// use sluicedb::{Db, DbOptions};
///
/// let db = Db::open("path/to/db", DbOptions::default())?;
/// db.put("apple", "red")?;
/// assert_eq!(db.get("apple")?.as_deref(), Some(&b"red"[..]));
/// db.close()
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Db {
    handle: Arc<Handle>,
}

/// What the clones of a [`Db`] share: its drop closes the database. Background threads hold [`Shared`] only.
#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Err(error) = self.shared.close() {
            log::warn!(target: "sluicedb", "closing {}: {error}", self.shared.dir.display());
        }
    }
}

/// Keeps a callback of [`Db::subscribe_durable`] subscribed; dropping it ends that. A call in progress still ends.
#[derive(Debug)]
pub struct DurableSubscription {
    shared: Weak<Shared>,
    id: SubscriptionId,
}

impl Drop for DurableSubscription {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.wal.durability().unsubscribe(self.id);
        }
    }
}

/// Keeps the writers of one database from the log, see [`Db::lock_wal`]; dropping it lets them go on.
#[derive(Debug)]
#[must_use = "dropping it unlocks the log at once"]
pub struct WalLock {
    _stop: Source,
}

/// Everything of an open database that its threads share.
pub(crate) struct Shared {
    dir: PathBuf,
    /// The options that it was opened with.
    options: DbOptions,
    /// The same with what was changed since.
    live: LiveOptions,
    /// Who writes OPTIONS.
    options_file: Mutex<()>,
    /// Tells databases of this process apart; handles and batches carry it.
    identity: u64,
    fs: Arc<dyn FileSystem>,
    /// The same, through the rate limiter if there is one: for what flushes and compactions write.
    flush_fs: Arc<dyn FileSystem>,
    compaction_fs: Arc<dyn FileSystem>,
    /// The same file system by its own type.
    tracked_fs: Arc<TrackedFileSystem>,
    clock: Arc<dyn Clock>,
    info_log: Arc<InfoLog>,
    events: Arc<Events>,
    /// Held for as long as the database is open.
    lock: Mutex<Option<Box<dyn FileLock>>>,

    // How writers are slowed, and where they queue.
    pressure: Pressure,
    commit: Commit,
    appender: Appender,
    /// Holds writers to what can be drained for long, if that is wanted.
    governing: Option<Governing>,
    wal: Arc<Wal>,
    sync_ticker: SyncTicker,
    /// Last sequence that readers see.
    published: AtomicU64,

    // What there is.
    families: Families,
    versions: VersionSet,
    state: Mutex<State>,
    snapshots: Arc<SnapshotList>,
    tables: Arc<TableCache>,
    block_cache: Option<Arc<BlockCache>>,
    obsolete: Arc<ObsoleteFiles>,
    next_memtable: AtomicU64,

    // Who works in the background.
    workers: Workers,
    pools: Pools,
    /// For jobs of the pools, which outlive a borrow.
    this: Weak<Shared>,
    preparing: OneAtATime,
    syncing: OneAtATime,
    telling: OneAtATime,
    saving: OneAtATime,
    compaction_threads: Option<rayon::ThreadPool>,
    read_threads: ReadThreads,
    flush_bell: Arc<Bell>,
    flush_slots: Slots,
    compaction_bell: Arc<Bell>,
    purge_bell: Arc<Bell>,
    /// Rung when a job ends, a failure is latched, or the database closes.
    done_bell: Arc<Bell>,
    failure: Failure,
    /// Writes are refused: closing has begun.
    refusing: AtomicBool,
    /// Everything is refused, and threads end.
    closing: AtomicBool,
    /// Closing has been begun by somebody.
    closed: AtomicBool,
    /// Opened for reading only: `failure` holds the refusal from the beginning, and no thread runs.
    read_only: bool,
    stats: Statistics,
    /// When it was opened, on its clock, in nanoseconds.
    opened_at: u64,
    last_print: Last<LastDbPrint>,
    /// What the stats text counts from.
    stats_base: Last<LastDbPrint>,
    /// What listeners were told last.
    told_job_pressure: Mutex<Option<BackgroundJobPressure>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("dir", &self.dir)
            .field("published", &self.published())
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// The last sequence that readers see.
    #[inline]
    fn published(&self) -> SequenceNumber {
        // Pairs with the leader's release store: who sees a sequence sees the entries up to it.
        SequenceNumber::new(self.published.load(Ordering::Acquire))
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Whether the family can be used: not dropped, of this database, and the database open.
    #[inline]
    fn check_family(&self, family: &FamilyData) -> Result<()> {
        if self.is_closing() {
            return Err(Error::ShutdownInProgress);
        }
        if family.database != self.identity {
            return Err(Error::invalid("column family", "the handle is of another database"));
        }
        if family.is_dropped() {
            return Err(Error::NoSuchColumnFamily { name: family.name.to_string() });
        }
        Ok(())
    }

    /// Commits an edit and lets `show` make it visible; see [`VersionSet::commit`]. A failure that leaves it unknown
    /// whether the edit is durable makes the database read-only.
    fn install(&self, edit: VersionEdit, show: impl FnOnce(&NewVersions)) -> Result<()> {
        self.versions.commit(edit, show).inspect_err(|error| {
            if !matches!(error, Error::NoSuchColumnFamily { .. }) {
                self.latch_failure(error);
            }
        })
    }

    /// Keeps the first failure, which makes the database read-only, and wakes everybody who waits for work to end.
    fn latch_failure(&self, error: &Error) {
        if self.failure.latch(error, || self.events.push(|| Event::BackgroundError(error.clone()))) {
            for family in self.families.all() {
                family.data.refuse_flushes();
            }
            self.pressure.database_failed();
            self.info_log.error(&format!("the database is read-only from now on: {error}"));
        }
        self.appender.bell.ring(); // it refuses the tickets that wait
        for bell in [&self.done_bell, &self.flush_bell, &self.compaction_bell, &self.purge_bell] {
            bell.ring();
        }
    }
}

impl Db {
    /// Opens the database in the directory `path`, or makes one.
    ///
    /// All its column families are opened with [`DbOptions::column_family`].
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for options out of range, [`Error::NotADatabase`] where there is none and
    /// `create_if_missing` is off, [`Error::Locked`] when it is open already, [`Error::Corruption`] naming the file for
    /// damage. Nothing is changed on disk by a refused open.
    pub fn open(path: impl AsRef<Path>, options: DbOptions) -> Result<Self> {
        Self::open_cf(path, options, std::iter::empty::<(String, ColumnFamilyOptions)>())
    }

    /// The same, with options for the named column families. Families that the database lacks are made when
    /// `create_missing_column_families` is on; families that are not named use [`DbOptions::column_family`].
    pub fn open_cf<N: Into<String>>(
        path: impl AsRef<Path>,
        options: DbOptions,
        families: impl IntoIterator<Item = (N, ColumnFamilyOptions)>,
    ) -> Result<Self> {
        let families = families.into_iter().map(|(name, options)| (name.into(), options)).collect();
        let shared = open::open(path.as_ref(), options, families)?;
        Ok(Self { handle: Arc::new(Handle { shared }) })
    }

    /// Names of the column families of a closed database, `default` first.
    pub fn list_column_families(path: impl AsRef<Path>, options: &DbOptions) -> Result<Vec<String>> {
        open::list_column_families(path.as_ref(), options)
    }

    /// Removes a closed database: its files, and the directory if nothing else is in it. No database there is no error.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] while it is open, [`Error::NotADatabase`] for a directory that holds other things only.
    pub fn destroy(path: impl AsRef<Path>, options: &DbOptions) -> Result<()> {
        open::destroy(path.as_ref(), options)
    }

    /// Closes the database: waiting writers are released with an error, running jobs end, the log is synced. Clones and
    /// handles stay, and their calls return [`Error::ShutdownInProgress`]. A second call does nothing.
    pub fn close(&self) -> Result<()> {
        self.shared().close()
    }

    /// Brings a database that became read-only after a failure back to taking writes, without reopening: what is in memory
    /// is flushed to files of its own, and nothing that failed is used again. After a full disk that happens by itself
    /// when there is space again. On a healthy database it does nothing.
    ///
    /// # Errors
    ///
    /// What keeps it from going on. The database then stays read-only.
    pub fn resume(&self) -> Result<()> {
        self.shared().resume()
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.shared().dir
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    fn default_family(&self) -> &ColumnFamily {
        self.shared().families.default_family()
    }
}

/// Column families.
impl Db {
    /// The family that is always there.
    pub fn default_column_family(&self) -> ColumnFamily {
        self.default_family().clone()
    }

    /// The family of this name, if there is one.
    pub fn column_family(&self, name: &str) -> Option<ColumnFamily> {
        self.shared().families.find(name)
    }

    /// All families by id, `default` first.
    pub fn column_families(&self) -> Vec<ColumnFamily> {
        self.shared().families.all()
    }

    /// Makes a column family. It is there after a crash once the call has returned.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a name that is empty or taken, or options out of range.
    pub fn create_column_family(&self, name: &str, options: ColumnFamilyOptions) -> Result<ColumnFamily> {
        self.shared().create_column_family(name, options)
    }

    /// Drops a column family and all that it holds. Readers that have it pinned finish; `default` cannot be dropped.
    pub fn drop_column_family(&self, family: &ColumnFamily) -> Result<()> {
        self.shared().drop_column_family(&family.data)
    }
}

/// Writes. See [`WriteOptions`] for what each waits for; the plain forms use its default.
impl Db {
    /// Sets `key` to `value` in `default`.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_opt(key, value, &WriteOptions::default())
    }

    /// Sets `key` to `value` in `default`.
    pub fn put_opt(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        let mut batch = WriteBatch::with_capacity(entry_capacity(key, value));
        batch.put(key, value);
        self.write_opt(batch, options)
    }

    /// Sets `key` to `value` in `family`.
    pub fn put_cf(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.put_cf_opt(family, key, value, &WriteOptions::default())
    }

    /// Sets `key` to `value` in `family`.
    pub fn put_cf_opt(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        let mut batch = WriteBatch::with_capacity(entry_capacity(key, value));
        batch.put_cf(family, key, value);
        self.write_opt(batch, options)
    }

    /// Removes `key` from `default`; a key that is not there is no error.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_opt(key, &WriteOptions::default())
    }

    /// Removes `key` from `default`; a key that is not there is no error.
    pub fn delete_opt(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        let mut batch = WriteBatch::with_capacity(entry_capacity(key.as_ref(), &[]));
        batch.delete(key);
        self.write_opt(batch, options)
    }

    /// Removes `key` from `family`; a key that is not there is no error.
    pub fn delete_cf(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_cf_opt(family, key, &WriteOptions::default())
    }

    /// Removes `key` from `family`; a key that is not there is no error.
    pub fn delete_cf_opt(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        let mut batch = WriteBatch::with_capacity(entry_capacity(key.as_ref(), &[]));
        batch.delete_cf(family, key);
        self.write_opt(batch, options)
    }

    /// Writes a batch: all of it or nothing.
    pub fn write(&self, batch: WriteBatch) -> Result<()> {
        self.write_opt(batch, &WriteOptions::default())
    }

    /// Writes a batch: all of it or nothing.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a key, value or batch that is too long, [`Error::NoSuchColumnFamily`] for a family that
    /// was dropped, [`Error::Stalled`] where the options ask not to wait, [`Error::ReadOnly`] after a background
    /// failure: nothing was written. [`Error::Io`] and [`Error::NoSpace`] from the log: nothing is visible, and whether
    /// a reopen finds the batch is unknown.
    pub fn write_opt(&self, batch: WriteBatch, options: &WriteOptions) -> Result<()> {
        Ok(self.shared().write(batch, options)?)
    }

    /// Writes a batch if that takes no wait for the brake or for room in the commit queue; its own commit is waited for.
    ///
    /// # Errors
    ///
    /// Those of [`write_opt`](Self::write_opt). A batch that was not queued comes back as it was: with
    /// [`Error::Stalled`] while writers are delayed or stopped, with [`Error::QueueFull`] while the queue is full, with
    /// [`Error::ShutdownInProgress`] once closing has begun.
    pub fn try_write(&self, batch: WriteBatch) -> Result<(), WriteError> {
        self.try_write_opt(batch, &WriteOptions::default())
    }

    /// The same with options.
    pub fn try_write_opt(&self, batch: WriteBatch, options: &WriteOptions) -> Result<(), WriteError> {
        let options = WriteOptions { no_slowdown: true, ..options.clone() };
        self.shared().write(batch, &options)
    }

    /// Writes several batches as one: all of them or nothing, also after a crash. Each may be as large as
    /// [`max_batch_bytes`](DbOptions::max_batch_bytes).
    ///
    /// # Errors
    ///
    /// Those of [`write_opt`](Self::write_opt); [`Error::BatchTooLarge`] if any is too large: nothing was queued.
    pub fn write_many(&self, batches: impl IntoIterator<Item = WriteBatch>) -> Result<()> {
        self.write_many_opt(batches, &WriteOptions::default())
    }

    /// The same with options.
    pub fn write_many_opt(
        &self,
        batches: impl IntoIterator<Item = WriteBatch>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.shared().write_many(batches.into_iter().collect(), options)
    }

    /// Submits a batch and returns at once; the [`WriteTicket`] tells the outcome. A few threads can keep thousands of
    /// writes in flight so. The writes of one thread are made in the order of its calls.
    ///
    /// While writers are delayed or stopped, or the commit queue is full, the ticket waits in the caller's stead, in one
    /// line with blocking writers; up to [`async_waiting_bytes`](DbOptions::async_waiting_bytes) may wait, then it ends
    /// at once with [`Error::QueueFull`] and its batch. `write_timeout` and `stall_timeout` bound its wait as they bound
    /// a blocking writer's. With [`no_slowdown`](WriteOptions::no_slowdown) it never waits, but ends as
    /// [`try_write`](Self::try_write) does. The first call starts the thread that commits when no blocking writer does.
    pub fn write_async(&self, batch: WriteBatch) -> WriteTicket {
        self.write_async_opt(batch, &WriteOptions::default())
    }

    /// The same with options.
    pub fn write_async_opt(&self, batch: WriteBatch, options: &WriteOptions) -> WriteTicket {
        self.shared().write_async(batch, options)
    }

    /// Returns once all writes that were queued before the call are done: logged as they asked, inserted and visible, or
    /// failed. Takes no room in the queue and does not wait for the brake; asynchronous writes that
    /// [wait](WriteTicket::is_waiting) are not queued yet.
    pub fn barrier(&self) -> Result<()> {
        self.shared().check_writable()?;
        self.shared().commit.barrier();
        Ok(())
    }

    /// Changes the bound of the commit queue, [`commit_queue_bytes`](DbOptions::commit_queue_bytes), at once. With less
    /// than is queued, writes wait until enough has been committed.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] below 4096 bytes.
    pub fn set_commit_queue_bytes(&self, bytes: u64) -> Result<()> {
        if bytes < 4096 {
            return Err(Error::out_of_range("commit_queue_bytes", "at least 4096 bytes", bytes));
        }
        self.shared().pressure.queue().set_capacity(bytes);
        self.shared().note_option(|options| options.commit_queue_bytes = bytes);
        Ok(())
    }

    /// Hands what the log buffers to the kernel and, with `sync`, to the device.
    pub fn flush_wal(&self, sync: bool) -> Result<()> {
        self.shared().flush_wal(sync)
    }

    /// Keeps writers from the log until the returned lock is dropped, as for a copy of its files. Writes that had begun are
    /// handed to the kernel when it returns; later ones wait like in a stop, and with
    /// [`no_slowdown`](WriteOptions::no_slowdown) return [`Error::Stalled`]. Other databases go on, also on the same
    /// controller.
    pub fn lock_wal(&self) -> Result<WalLock> {
        self.shared().lock_wal()
    }

    /// Makes every logged write that was acknowledged before the call durable.
    pub fn sync_wal(&self) -> Result<()> {
        self.flush_wal(true)
    }

    /// The last sequence up to which every logged write survives a power failure at this moment.
    pub fn durable_sequence(&self) -> SequenceNumber {
        self.shared().wal.durability().durable_sequence()
    }

    /// Waits until the logged write of sequence `seq` survives a power failure. Asks for no sync: the background sync
    /// ([`DbOptions::wal_sync_interval`]), a segment's end, a neighbour's [`Durability::Sync`](crate::Durability::Sync), [`sync_wal`](Self::sync_wal), a flush or the close brings it.
    ///
    /// # Errors
    ///
    /// The failure of the log because of which it never will be known to.
    pub fn wait_durable(&self, seq: SequenceNumber) -> Result<()> {
        self.shared().wal.durability().wait_durable(seq)
    }

    /// The same, for `limit` at most; whether the write survives a power failure then.
    ///
    /// # Errors
    ///
    /// The failure of the log because of which it never will be known to.
    pub fn wait_durable_for(&self, seq: SequenceNumber, limit: Duration) -> Result<bool> {
        let shared = self.shared();
        let deadline = deadline_after(shared.clock.now_nanos(), limit);
        shared.wal.durability().wait_durable_until(seq, &*shared.clock, deadline)
    }

    /// Changes [`DbOptions::wal_sync_interval`]; 0 turns the background sync off.
    pub fn set_wal_sync_interval(&self, interval: Duration) {
        self.shared().sync_ticker.set_interval(interval);
        self.shared().purge_bell.ring();
        self.shared().note_option(|options| options.wal_sync_interval = interval);
    }

    /// Calls `callback` with the durable sequence whenever it has moved, from a background thread, until the returned
    /// subscription is dropped. Moves that follow closely may be told as one.
    pub fn subscribe_durable(
        &self,
        callback: impl Fn(SequenceNumber) + Send + Sync + 'static,
    ) -> DurableSubscription {
        let id = self.shared().wal.durability().subscribe(Arc::new(callback));
        DurableSubscription { shared: Arc::downgrade(self.shared()), id }
    }

    /// What memory knows of the writes to `key`: for callers that have read something and check, before they write, that
    /// nobody has written it since. How far back memory knows is up to
    /// [`max_write_buffer_size_to_maintain`](ColumnFamilyOptions::max_write_buffer_size_to_maintain).
    pub fn recent_write(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<RecentWrite> {
        self.shared().recent_write(&family.data, key.as_ref())
    }

    /// The last sequence that reads see.
    pub fn latest_sequence(&self) -> SequenceNumber {
        self.shared().published()
    }
}

/// Room for one encoded entry: type, family and lengths take at most 16 bytes.
fn entry_capacity(key: &[u8], value: &[u8]) -> usize {
    key.len().saturating_add(value.len()).saturating_add(16)
}

/// Reads.
impl Db {
    /// The value of `key` in `default`, if it has one.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedSlice>> {
        self.get_opt(key, &ReadOptions::default())
    }

    /// The value of `key` in `default`, if it has one.
    pub fn get_opt(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<Option<PinnedSlice>> {
        self.get_cf_opt(self.default_family(), key, options)
    }

    /// The value of `key` in `family`, if it has one.
    pub fn get_cf(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Option<PinnedSlice>> {
        self.get_cf_opt(family, key, &ReadOptions::default())
    }

    /// The value of `key` in `family`, if it has one.
    pub fn get_cf_opt(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<PinnedSlice>> {
        self.shared().get(&family.data, key.as_ref(), options)
    }

    /// The values of several keys of `default`, in their order, all as of one moment.
    ///
    /// Cheaper than as many [`get`](Self::get)s: the keys are sorted, every table is asked once and every block is loaded
    /// once, and where many tables or blocks have to be brought into memory, up to
    /// [`max_read_threads`](DbOptions::max_read_threads) threads do it. A key that cannot be read has its error in its
    /// place and spoils no other.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Vec<Result<Option<PinnedSlice>>> {
        self.multi_get_opt(keys, &ReadOptions::default())
    }

    /// The same with options.
    pub fn multi_get_opt<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
        options: &ReadOptions,
    ) -> Vec<Result<Option<PinnedSlice>>> {
        let family = self.default_family();
        self.multi_get_cf_opt(keys.into_iter().map(|key| (family, key)), options)
    }

    /// The same for keys of several column families, all as of one moment.
    pub fn multi_get_cf<'a, K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = (&'a ColumnFamily, K)>,
    ) -> Vec<Result<Option<PinnedSlice>>> {
        self.multi_get_cf_opt(keys, &ReadOptions::default())
    }

    /// The same with options.
    pub fn multi_get_cf_opt<'a, K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = (&'a ColumnFamily, K)>,
        options: &ReadOptions,
    ) -> Vec<Result<Option<PinnedSlice>>> {
        let keys: Vec<_> = keys.into_iter().collect();
        let keys: Vec<_> = keys.iter().map(|(family, key)| (&*family.data, key.as_ref())).collect();
        self.shared().multi_get(&keys, options)
    }

    /// An iterator over `default`, not positioned yet. It sees what was published when it was made.
    pub fn iter(&self) -> Result<DbIterator> {
        self.iter_opt(&ReadOptions::default())
    }

    /// An iterator over `default`, not positioned yet.
    pub fn iter_opt(&self, options: &ReadOptions) -> Result<DbIterator> {
        self.iter_cf_opt(self.default_family(), options)
    }

    /// An iterator over `family`, not positioned yet.
    pub fn iter_cf(&self, family: &ColumnFamily) -> Result<DbIterator> {
        self.iter_cf_opt(family, &ReadOptions::default())
    }

    /// An iterator over `family`, not positioned yet.
    pub fn iter_cf_opt(&self, family: &ColumnFamily, options: &ReadOptions) -> Result<DbIterator> {
        self.shared().iter(&family.data, options)
    }

    /// The database as it is now, for reads later.
    pub fn snapshot(&self) -> Snapshot {
        let shared = self.shared();
        shared.snapshots.take(|| shared.published())
    }
}

/// Maintenance and looking.
impl Db {
    /// Flushes the memtables of every column family as the options say.
    pub fn flush_opt(&self, options: &FlushOptions) -> Result<()> {
        self.shared().flush(&self.column_families(), options)
    }

    /// The same for one column family.
    pub fn flush_cf_opt(&self, family: &ColumnFamily, options: &FlushOptions) -> Result<()> {
        self.shared().flush(std::slice::from_ref(family), options)
    }

    /// Flushes the memtables of every column family and waits: what they held is in durable SSTs then, also what was
    /// written with [`Durability::None`](crate::Durability::None).
    pub fn flush(&self) -> Result<()> {
        self.flush_opt(&FlushOptions::default())
    }

    /// The same for one column family.
    pub fn flush_cf(&self, family: &ColumnFamily) -> Result<()> {
        self.flush_cf_opt(family, &FlushOptions::default())
    }

    /// Compacts the keys `from..=to` of `default` (`None`: unbounded) down to the bottom level, and waits.
    pub fn compact_range(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<()> {
        self.compact_range_cf(self.default_family(), from, to)
    }

    /// The same for one column family.
    pub fn compact_range_cf(
        &self,
        family: &ColumnFamily,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Result<()> {
        self.compact_range_cf_opt(family, from, to, &CompactRangeOptions::default())
    }

    /// The same as the options say. With [`CompactionStyle::Fifo`](crate::CompactionStyle::Fifo) it flushes, and that is all.
    ///
    /// # Errors
    ///
    /// [`Error::Cancelled`] once the options' token is cancelled; the database goes on as before.
    pub fn compact_range_cf_opt(
        &self,
        family: &ColumnFamily,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        self.shared().compact_range(family, from, to, options)
    }

    /// Changes options of a column family while the database is open: pairs of an option's name, as in
    /// [`ColumnFamilyOptions`], and its new value as text. All of them take effect, or none; those that writers feel do so at
    /// once, for writers that wait, too. Never waits for a stall. The change is not kept for the next open.
    ///
    /// ```no_run
    /// # fn main() -> sluicedb::Result<()> {
    /// # let db = sluicedb::Db::open("path/to/db", Default::default())?;
    /// db.set_options(&db.default_column_family(), &[("write_buffer_size", "16M"), ("level0_stop_writes_trigger", "48")])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] naming the option: it is unknown (the nearest name is proposed), fixed while the database
    /// is open, or out of its range, alone or beside the others. Nothing has changed then.
    pub fn set_options(&self, family: &ColumnFamily, changes: &[(&str, &str)]) -> Result<()> {
        self.shared().set_options(family, changes)
    }

    /// The same for options of the database, by their names in [`DbOptions`]. Times are in microseconds, 0 is no
    /// `stall_timeout`.
    ///
    /// # Errors
    ///
    /// The same; also for options of the private manager when a manager was given: that may be shared and has methods of its
    /// own for it.
    pub fn set_db_options(&self, changes: &[(&str, &str)]) -> Result<()> {
        self.shared().set_db_options(changes)
    }

    /// The options of the database as they are now: those that it was opened with, and what
    /// [`set_db_options`](Self::set_db_options) has changed since.
    pub fn db_options(&self) -> DbOptions {
        self.shared().db_options()
    }

    /// Lets compactions of these families start by themselves, which
    /// [`disable_auto_compactions`](ColumnFamilyOptions::disable_auto_compactions) had forbidden.
    pub fn enable_auto_compaction(&self, families: &[ColumnFamily]) -> Result<()> {
        self.shared().enable_auto_compaction(families)
    }

    /// Waits until no flush and no compaction is queued, running or due.
    pub fn wait_for_background_work(&self) -> Result<()> {
        self.shared().wait_for_background_work()
    }

    /// What the property `name` says of the database and `default`; `None` for a name that is not known.
    pub fn property(&self, name: &str) -> Option<String> {
        self.property_cf(self.default_family(), name)
    }

    /// What the property `name` says of `family`.
    pub fn property_cf(&self, family: &ColumnFamily, name: &str) -> Option<String> {
        self.shared().property(&family.data, name)
    }

    /// The same for properties that are one number.
    pub fn property_int(&self, name: &str) -> Option<u64> {
        self.property(name)?.parse().ok()
    }

    /// The same for properties that are one number.
    pub fn property_int_cf(&self, family: &ColumnFamily, name: &str) -> Option<u64> {
        self.property_cf(family, name)?.parse().ok()
    }

    /// Files and bytes of each level of `family`.
    pub fn level_stats(&self, family: &ColumnFamily) -> Result<Vec<LevelStats>> {
        self.shared().level_stats(&family.data)
    }

    /// What the database did since it was opened.
    pub fn statistics(&self) -> StatisticsSnapshot {
        self.shared().statistics()
    }

    /// Has the text of the property `rocksdb.stats` count from now on: uptime, both parts, and their intervals. Counters of
    /// [`statistics`](Self::statistics), and the manager's own clock in that text, go on.
    pub fn reset_stats(&self) {
        self.shared().reset_stats();
    }

    /// The manager whose quota its memtables are charged to.
    pub fn write_buffer_manager(&self) -> &Arc<WriteBufferManager> {
        self.shared().pressure.manager()
    }

    /// The controller that slows its writers.
    pub fn write_controller(&self) -> &Arc<WriteController> {
        self.shared().pressure.controller()
    }
}
