//! Where a database meets the manager that measures its memory and the controller that slows its writers.
//!
//! One [`Pressure`] a database: its registration with both, the room in its commit queue, and for each column family
//! what the manager may ask to flush and what the family asks of the brake. Everything that waits for the brake waits
//! here, with no lock and no place in the commit queue. How pressure is computed and how a delay is served is theirs to
//! know; when a flush runs is `flush.rs`'.
//!
//! | what                                            | where                  |
//! |-------------------------------------------------|------------------------|
//! | the way of one write                            | [`admit`](mod@admit)   |
//! | the same in steps, for one that does not wait   | [`steps`]              |
//! | the top rate, where it is measured              | [`auto`]               |
//! | column families: flushes and what each asks for | [`families`]           |
//! | what a family asks for, as pure functions       | [`sources`]            |
//! | LOG lines and events of what families ask for   | [`transitions`]        |
//! | changes while the database is open              | [`live`]               |
//! | properties and statistics                       | [`report`]             |

mod admit;
mod auto;
mod families;
mod live;
mod report;
mod sources;
mod steps;
mod transitions;

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use sluicedb_controller::{
    Client, ControllerOptions, Interrupt, InvalidOption, Source, SourceKind, WriteController,
};
use sluicedb_wbm::{
    Database, Holder, MemoryPool, PressureChange, PressureObserver, SinkGuard, SourceId, State, WbmOptions,
    WriteBufferManager,
};

use self::auto::AutoTop;
use self::live::Timeouts;
use self::report::name_holder;
use self::transitions::Transitions;
use crate::db::Shared;
use crate::env::{Clock, FileSystem, LimitedFileSystem};
use crate::error::{Error, Result};
use crate::event::{Event, Events, StallConditions};
use crate::info_log::InfoLog;
use crate::jobs::Bell;
use crate::memtable::{ChunkPool, Memtable};
use crate::options::{ColumnFamilyOptions, DbOptions};
use crate::rate_limiter::IoPriority;
use crate::sync::Mutex;

pub(in crate::db) use admit::{Admitted, Room, UnitSize};
pub(crate) use families::FamilyPressure;
pub(in crate::db) use report::db_stalls;
pub(in crate::db) use steps::{Entry, Way};

/// Smallest chunk of memory that a memtable takes at once, in bytes.
const MIN_CHUNK: u64 = 4096;

/// A database's side of the brake and of the meter.
#[derive(Debug)]
pub(crate) struct Pressure {
    manager: Arc<WriteBufferManager>,
    database: Database,
    controller: Arc<WriteController>,
    client: Client,
    /// Taken away when the database closes.
    sink: Mutex<Option<SinkGuard>>,
    _observer: Arc<Observer>,
    transitions: Transitions,
    queue: MemoryPool,
    clock: Arc<dyn Clock>,
    timeouts: Timeouts,
    auto: AutoTop,
    /// Bytes of one charge unit: half a delay step at most.
    chunk_bytes: u64,
    /// Memory that memtables gave back; a quarter of the quota at most.
    chunks: Arc<ChunkPool>,
}

impl Pressure {
    /// Registers the database in `dir` with the manager and the controller of its options, or private ones.
    pub(in crate::db) fn attach(
        options: &DbOptions,
        dir: &Path,
        info_log: &Arc<InfoLog>,
        events: &Arc<Events>,
        housekeeping: &Arc<Bell>,
    ) -> Result<Self> {
        let invalid = |error: InvalidOption| Error::out_of_range(error.name, error.range, error.given);
        let clock = &options.clock;
        let manager = match &options.write_buffer_manager {
            Some(shared) => Arc::clone(shared),
            None => {
                let mut settings = WbmOptions::new(options.db_write_buffer_size);
                settings.allow_stall = options.allow_stall;
                settings.delay_start_percent = options.delay_start_percent;
                settings.initiate_flushes = options.initiate_flushes;
                settings.flush_progress_credit = options.flush_progress_credit;
                settings.max_parallel_flushes = options.max_parallel_flushes;
                WriteBufferManager::new(settings, Arc::clone(clock)).map_err(invalid)?
            }
        };
        let controller = match &options.write_controller {
            Some(shared) => Arc::clone(shared),
            None => {
                let settings = ControllerOptions::with_rate(options.delayed_bytes_per_second());
                WriteController::new(&settings, Arc::clone(clock)).map_err(invalid)?
            }
        };
        let name = dir.display().to_string();
        let observer = Arc::new(Observer {
            info_log: Arc::clone(info_log),
            events: Arc::clone(events),
            housekeeping: Arc::clone(housekeeping),
        });
        let told: Weak<dyn PressureObserver> =
            Arc::downgrade(&(Arc::clone(&observer) as Arc<dyn PressureObserver>));
        let database = manager.register(name.as_str(), Some(told));
        let client = controller.register(name);
        let sink = database.attach_sink(Arc::clone(&controller) as _);
        Ok(Self {
            chunk_bytes: manager.quota().charge_unit(),
            chunks: Arc::new(ChunkPool::new(manager.quota_bytes() / 4)),
            manager,
            database,
            controller,
            client,
            sink: Mutex::new(Some(sink)),
            _observer: observer,
            transitions: Transitions::new(info_log, events),
            queue: MemoryPool::new(queue_capacity(options), Arc::clone(clock)),
            clock: Arc::clone(clock),
            timeouts: Timeouts::new(options),
            auto: AutoTop::new(options),
        })
    }

    pub(in crate::db) fn manager(&self) -> &Arc<WriteBufferManager> {
        &self.manager
    }

    pub(in crate::db) fn controller(&self) -> &Arc<WriteController> {
        &self.controller
    }

    /// Memory that freed memtables left for the next ones, in bytes.
    pub(in crate::db) fn idle_memtable_bytes(&self) -> u64 {
        self.chunks.idle_bytes()
    }

    /// An empty memtable for a family, charged to the manager from its first entry on.
    pub(in crate::db) fn new_memtable(
        &self,
        family: &Arc<str>,
        options: &ColumnFamilyOptions,
        id: u64,
        created: u64,
    ) -> Arc<Memtable> {
        let charge = self.database.open_charge(family);
        // A memtable is sealed by what is charged for it, so its chunks are small beside it.
        let chunk_bytes =
            self.chunk_bytes.min((options.write_buffer_size / 16).max(MIN_CHUNK).next_power_of_two());
        Arc::new(Memtable::new(options, chunk_bytes, &self.chunks, charge, id, created))
    }

    /// Whether recovery has to flush before it goes on.
    pub(in crate::db) fn wants_room(&self) -> bool {
        let quota = self.manager.quota_bytes();
        quota > 0 && (self.manager.flush_wanted() || self.manager.usage_report().used >= quota)
    }

    /// How `fs` is to be used by jobs whose output is as urgent as `usual`, and as urgent as can be while writers are held.
    /// Looked at afresh for each write.
    pub(in crate::db) fn limited(
        &self,
        fs: &Arc<dyn FileSystem>,
        options: &DbOptions,
        usual: IoPriority,
    ) -> Arc<dyn FileSystem> {
        let Some(limiter) = &options.rate_limiter else { return Arc::clone(fs) };
        let controller = Arc::clone(&self.controller);
        let priority = move || if controller.is_holding() { IoPriority::User } else { usual };
        let (limiter, clock) = (Arc::clone(limiter), Arc::clone(&self.clock));
        Arc::new(LimitedFileSystem::new(Arc::clone(fs), limiter, clock, Arc::new(priority)))
    }

    /// Whether anything slows or stops writers now.
    pub(in crate::db) fn slows_writers(&self) -> bool {
        self.controller.is_holding()
    }
}

/// The lock of the log.
impl Pressure {
    /// Holds the writers of this database, and of no other on its controller, until dropped.
    pub(in crate::db) fn lock_wal(&self) -> Source {
        self.client.lock_wal()
    }

    /// Longest wait for room in the commit queue.
    pub(in crate::db) fn write_timeout(&self) -> Duration {
        self.timeouts.write()
    }

    /// Room of the commit queue.
    pub(in crate::db) fn queue(&self) -> &MemoryPool {
        &self.queue
    }

    /// While writers are stopped: makes sure that something ends the stop.
    pub(in crate::db) fn see_to_the_stop(&self, shared: &Shared) {
        if self.client.is_stopped() {
            self.manager.check_liveness();
            shared.make_sure_that_stops_end();
        }
    }

    /// Whether a write that the brake has let pass is not done yet.
    pub(in crate::db) fn has_queued(&self) -> bool {
        self.queue.stats().used > 0
    }
}

/// Failure, closing, housekeeping.
impl Pressure {
    /// The database refuses writes from now on: who waits gets its error, and what it holds is out of the pressure, since
    /// no flush of it will free that.
    pub(in crate::db) fn database_failed(&self) {
        self.client.interrupt(Interrupt::Failed);
        self.database.set_failed();
    }

    /// Takes [`database_failed`](Self::database_failed) back.
    pub(in crate::db) fn database_resumed(&self) {
        self.client.clear();
        self.database.resume();
    }

    /// The database closes: who waits is released with an error, and nobody waits any more.
    pub(in crate::db) fn begin_close(&self) {
        self.client.interrupt(Interrupt::Shutdown);
        self.queue.close();
    }

    /// The database is open for reading only: what it holds in memory is never flushed, so it counts as pinned.
    pub(in crate::db) fn opened_read_only(&self) {
        self.database.set_read_only();
    }

    /// The last step of closing: nothing is told, asked or held any more, and what is in memory counts as pinned.
    pub(in crate::db) fn end_close(&self) {
        self.database.set_read_only();
        let sink = self.sink.lock().take();
        drop(sink);
    }

    /// Whether the manager wants its once-a-second look at what is unserved.
    pub(in crate::db) fn wants_housekeeping(&self) -> bool {
        self.manager.pressure() != sluicedb_wbm::Pressure::Normal
    }

    pub(in crate::db) fn housekeep(&self) {
        self.manager.tick();
    }

    /// Whether the top rate is measured by what arrives: a look once a second.
    pub(in crate::db) fn wants_arrivals(&self) -> bool {
        self.auto.wants_arrivals()
    }

    /// That look; writers have brought `bytes` in all until `now`.
    pub(in crate::db) fn arrived(&self, bytes: u64, now: u64) {
        self.auto.arrived(bytes, now, &self.controller);
    }

    /// A flush that was busy for `busy` took `bytes` out of memory. One of no more than a charge unit says nothing of the drain:
    /// its time is that of making a file.
    pub(in crate::db) fn drained(&self, bytes: u64, busy: Duration) {
        if bytes > self.chunk_bytes {
            self.auto.drained(bytes, busy, &self.controller);
        }
    }
}

/// Writes the manager's changes of state into LOG, tells listeners, and wakes the housekeeping.
#[derive(Debug)]
struct Observer {
    info_log: Arc<InfoLog>,
    events: Arc<Events>,
    housekeeping: Arc<Bell>,
}

impl PressureObserver for Observer {
    fn pressure_changed(&self, change: &PressureChange) {
        let stopped = change.current.state() == State::Stopped;
        let level = if stopped { log::Level::Warn } else { log::Level::Info };
        self.info_log.line(level, &change.to_string());
        self.events.push(|| Event::Pressure(change.clone()));
        self.events.push(|| {
            Event::Stall(StallConditions {
                family: None,
                previous: change.previous.state(),
                current: change.current.state(),
                cause: SourceKind::WriteBufferManager,
            })
        });
        self.housekeeping.ring();
    }

    fn liveness_rescued(&self, source: SourceId, holders: &[Holder]) {
        let names: Vec<String> = holders.iter().map(name_holder).collect();
        self.info_log.error(&format!(
            "pressure: nothing would have ended the stop of {source}; one writer was let through; holders: {}",
            names.join("; ")
        ));
    }
}

fn queue_capacity(options: &DbOptions) -> u64 {
    #[cfg(feature = "bench-arms")]
    if let Some(records) = crate::bench_arms::records_bound() {
        return records;
    }
    options.commit_queue_bytes
}
