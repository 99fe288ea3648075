//! Where a database meets the manager that measures its memory and the controller that slows its writers.
//!
//! One [`Pressure`] a database: its registration with both, the room in its commit queue, and for each column family
//! what the manager may ask to flush and what the family asks of the brake. Everything that waits for the brake waits
//! here, with no lock and no place in the commit queue. How pressure is computed and how a delay is served is theirs to
//! know; when a flush runs is `flush.rs`'.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use sluicedb_controller::{
    Admission, Client, ControllerOptions, Interrupt, InvalidOption, NotNow, Requirement, Source, SourceKind,
    Tally, Turn, WaitEnded, Waited, Wake, WriteController, deadline_after,
};
use sluicedb_wbm::{
    Database, FlushOutcome, FlushTarget, Holder, MemoryLease, MemoryPool, PoolWaitEnded, PressureChange,
    PressureObserver, SinkGuard, SourceId, State, TargetGuard, WbmOptions, WriteBufferManager,
};

use super::Shared;
use super::sources;
use super::stats_text::hours_minutes_seconds;
use crate::column_family::FamilyData;
use crate::compaction::score::Score;
use crate::env::Clock;
use crate::error::{Error, Result};
use crate::info_log::InfoLog;
use crate::jobs::Bell;
use crate::memtable::{Memtable, Prepaid};
use crate::options::{ColumnFamilyOptions, DbOptions, WriteOptions};
use crate::sync::{Mutex, forbid_held_locks};

/// Holders of memory named in a refusal.
const NAMED_HOLDERS: usize = 5;

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
    queue: MemoryPool,
    clock: Arc<dyn Clock>,
    stall_timeout: Option<Duration>,
    write_timeout: Duration,
    /// Bytes of one charge unit: half a delay step at most.
    chunk_bytes: u64,
}

/// What a column family has at the manager and at the controller. Dropping it takes all of it away.
#[derive(Debug)]
pub(crate) struct FamilyPressure {
    target: TargetGuard,
    memtable_count: SourceOf,
    l0: SourceOf,
    pending: SourceOf,
    /// Entries of `l0` into its states while a compaction of the family ran.
    l0_while_compacting: [AtomicU64; 2],
}

/// One source, and how often it began to delay and to stop.
#[derive(Debug)]
struct SourceOf {
    source: Source,
    delays: AtomicU64,
    stops: AtomicU64,
}

/// One write on its way through the brake.
#[derive(Debug)]
pub(super) struct Admitted {
    no_slowdown: bool,
    low_pri: bool,
    limit: Option<Duration>,
    /// The delay has been served: from here on only a stop holds it.
    paid: bool,
    waited: Waited,
    /// Let through although writers are stopped; not to be tested again.
    rescued: bool,
}

/// What a write holds between the brake and its memtables.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) prepaid: Prepaid,
    /// Its room in the commit queue; returned before its caller is told.
    _lease: MemoryLease,
}

impl Pressure {
    /// Registers the database in `dir` with the manager and the controller of its options, or private ones.
    pub(super) fn attach(
        options: &DbOptions,
        dir: &Path,
        info_log: &Arc<InfoLog>,
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
                settings.max_parallel_flushes = options.max_parallel_flushes;
                WriteBufferManager::new(settings, Arc::clone(clock)).map_err(invalid)?
            }
        };
        let controller = match &options.write_controller {
            Some(shared) => Arc::clone(shared),
            None => {
                let settings = ControllerOptions::with_rate(options.delayed_write_rate.bytes_per_second());
                WriteController::new(&settings, Arc::clone(clock)).map_err(invalid)?
            }
        };
        let name = dir.display().to_string();
        let observer =
            Arc::new(Observer { info_log: Arc::clone(info_log), housekeeping: Arc::clone(housekeeping) });
        let told: Weak<dyn PressureObserver> =
            Arc::downgrade(&(Arc::clone(&observer) as Arc<dyn PressureObserver>));
        let database = manager.register(name.as_str(), Some(told));
        let client = controller.register(name);
        let sink = database.attach_sink(Arc::clone(&controller) as _);
        Ok(Self {
            chunk_bytes: manager.quota().charge_unit(),
            manager,
            database,
            controller,
            client,
            sink: Mutex::new(Some(sink)),
            _observer: observer,
            queue: MemoryPool::new(options.commit_queue_bytes, Arc::clone(clock)),
            clock: Arc::clone(clock),
            stall_timeout: options.stall_timeout,
            write_timeout: options.write_timeout,
        })
    }

    pub(super) fn manager(&self) -> &Arc<WriteBufferManager> {
        &self.manager
    }

    pub(super) fn controller(&self) -> &Arc<WriteController> {
        &self.controller
    }

    /// An empty memtable for a family, charged to the manager from its first entry on.
    pub(super) fn new_memtable(
        &self,
        family: &Arc<str>,
        options: &ColumnFamilyOptions,
        id: u64,
        created: u64,
    ) -> Arc<Memtable> {
        let charge = self.database.open_charge(family);
        Arc::new(Memtable::new(options, self.chunk_bytes, charge, id, created))
    }

    /// Whether recovery has to flush before it goes on.
    pub(super) fn wants_room(&self) -> bool {
        let quota = self.manager.quota_bytes();
        quota > 0 && (self.manager.flush_wanted() || self.manager.usage_report().used >= quota)
    }

    /// Whether anything slows or stops writers now.
    pub(super) fn slows_writers(&self) -> bool {
        self.controller.is_holding()
    }
}

/// The way of one write.
impl Pressure {
    /// A write with these options, at the beginning of its way.
    #[inline]
    pub(super) fn begin(&self, options: &WriteOptions) -> Admitted {
        Admitted {
            no_slowdown: options.no_slowdown,
            low_pri: options.low_pri,
            limit: options.stall_timeout.or(self.stall_timeout),
            paid: false,
            waited: Waited::default(),
            rescued: false,
        }
    }

    /// Admission by the brake, then room in the commit queue by bytes, then the stop once more: in the other order each
    /// thread could slip one stale batch past a stop. Waits with no lock held.
    ///
    /// `nudge` is called when the writer parks and once a second while it waits: it makes sure that work is under way
    /// which ends the stop.
    #[inline]
    pub(super) fn admit(&self, shared: &Shared, bytes: u64, options: &WriteOptions) -> Result<Room> {
        let mut write = self.begin(options);
        loop {
            self.pass_brake(shared, bytes, &mut write)?;
            let lease = self.queue_room(bytes, &write)?;
            if self.database.is_oversized(bytes) {
                // It is not held by its own charge; whoever loses the race for it goes back to the gate.
                if let Some(advance) = self.database.admit_alone(bytes) {
                    return Ok(Room { prepaid: Prepaid::Alone(advance), _lease: lease });
                }
            } else if write.rescued || !self.client.is_stopped() {
                let prepaid = Prepaid::Queued(self.database.queue(bytes));
                return Ok(Room { prepaid, _lease: lease });
            }
        }
    }

    #[inline]
    fn pass_brake(&self, shared: &Shared, bytes: u64, write: &mut Admitted) -> Result<()> {
        if write.low_pri && !write.paid && self.slows_writers() {
            self.pass_low_priority(shared, bytes, write)?;
        }
        if write.no_slowdown {
            let now = if write.paid { 0 } else { bytes };
            self.client.try_admit(now).map_err(|refused| self.refusal(shared, &refused, write))?;
        } else {
            let admission =
                if write.paid { self.client.admit_again(bytes) } else { self.client.admit(bytes) };
            if let Admission::Wait(turn) = admission {
                self.wait(shared, turn, write)?;
            }
        }
        write.paid = true;
        Ok(())
    }

    #[cold]
    fn pass_low_priority(&self, shared: &Shared, bytes: u64, write: &mut Admitted) -> Result<()> {
        match self.client.admit_low_priority(bytes) {
            Admission::Passed => Ok(()),
            Admission::Wait(_) if write.no_slowdown => {
                Err(self.stalled(shared, "low priority".to_owned(), write))
            }
            Admission::Wait(turn) => self.wait(shared, turn, write),
        }
    }

    #[cold]
    fn wait(&self, shared: &Shared, mut turn: Turn, write: &mut Admitted) -> Result<()> {
        forbid_held_locks("wait for the brake");
        // The limit holds for delay and stop together, over all turns of this write.
        let limit = write.limit.map(|limit| limit.saturating_sub(write.waited.total()));
        let ended = loop {
            if self.client.is_stopped() {
                self.manager.check_liveness();
                shared.make_sure_that_stops_end();
            }
            match turn.wait(limit) {
                Ok(Wake::Passed) => break Ok(()),
                Ok(Wake::Slice) => {}
                Err(ended) => break Err(ended),
            }
        };
        let waited = turn.waited();
        write.waited.delayed += waited.delayed;
        write.waited.stopped += waited.stopped;
        write.rescued = waited.rescued;
        match ended {
            Ok(()) => Ok(()),
            Err(WaitEnded::TimedOut) => {
                Err(self.stalled(shared, format!("timeout, {}", self.strictest()), write))
            }
            Err(WaitEnded::Failed) => shared.check_writable(),
            Err(WaitEnded::Shutdown | WaitEnded::Cancelled) => Err(Error::ShutdownInProgress),
        }
    }

    #[inline]
    fn queue_room(&self, bytes: u64, write: &Admitted) -> Result<MemoryLease> {
        match self.queue.try_admit(bytes) {
            Some(lease) => Ok(lease),
            None => self.wait_for_queue_room(bytes, write),
        }
    }

    #[cold]
    fn wait_for_queue_room(&self, bytes: u64, write: &Admitted) -> Result<MemoryLease> {
        let full = |waited| Error::QueueWaitTimeout { bytes, waited };
        if write.no_slowdown {
            return Err(full(Duration::ZERO));
        }
        forbid_held_locks("wait for room in the commit queue");
        let deadline = deadline_after(self.clock.now_nanos(), self.write_timeout);
        self.queue.admit(bytes, Some(deadline)).map_err(|ended| match ended {
            PoolWaitEnded::Closed => Error::ShutdownInProgress,
            _ => full(self.write_timeout),
        })
    }

    fn refusal(&self, shared: &Shared, refused: &NotNow, write: &Admitted) -> Error {
        let cause = match refused {
            NotNow::Delayed(source) => format!("delay, {source}"),
            NotNow::Stopped(source) => format!("stop, {source}"),
        };
        self.stalled(shared, cause, write)
    }

    #[cold]
    fn stalled(&self, shared: &Shared, cause: String, write: &Admitted) -> Error {
        shared.stats.writes_refused.add(1);
        let usage = self.manager.usage_report();
        let mut holders: Vec<String> =
            self.manager.holders().iter().take(NAMED_HOLDERS).map(name_holder).collect();
        holders.push(format!(
            "{} of {} bytes used, {} pinned",
            usage.used,
            self.manager.quota_bytes(),
            usage.pinned
        ));
        Error::Stalled { cause, waited: write.waited.total(), holders: holders.join("; ") }
    }

    fn strictest(&self) -> String {
        self.controller
            .stats()
            .strictest
            .map_or_else(|| "nobody holds it now".to_owned(), |source| source.to_string())
    }
}

fn name_holder(holder: &Holder) -> String {
    let Holder { database, family, state, bytes, age, .. } = holder;
    format!("{database}/{family} {} {bytes} bytes for {age:?}", state.name())
}

/// Column families.
impl Pressure {
    /// From now on the manager may ask the family for flushes, and the family may ask for delays.
    pub(super) fn register_family(&self, family: &Arc<FamilyData>) {
        let target: Weak<dyn FlushTarget> = Arc::downgrade(&(Arc::clone(family) as Arc<dyn FlushTarget>));
        let source = |kind| SourceOf {
            source: self.controller.source(kind),
            delays: AtomicU64::new(0),
            stops: AtomicU64::new(0),
        };
        let pressure = FamilyPressure {
            target: self.database.attach_target(target),
            memtable_count: source(SourceKind::MemtableCount),
            l0: source(SourceKind::L0),
            pending: source(SourceKind::PendingCompactionBytes),
            l0_while_compacting: [AtomicU64::new(0), AtomicU64::new(0)],
        };
        family.set_pressure(Some(Arc::new(pressure)));
    }

    /// Withdraws all that the family asked for; it is asked for no more flushes.
    pub(super) fn forget_family(&self, family: &FamilyData) {
        family.set_pressure(None);
    }

    /// Brings what the family asks for in line with its present state.
    pub(super) fn update_family(&self, family: &FamilyData, score: &Score, unflushed: u32, compacting: bool) {
        let Some(pressure) = family.pressure() else { return };
        let options = &family.options;
        pressure.memtable_count.ask(sources::memtable_count(options, unflushed));
        pressure.pending.ask(sources::pending_bytes(options, score.pending_bytes()));
        if let Some(state) = pressure.l0.ask(sources::l0(options, score.l0_depth()))
            && compacting
        {
            let entered = usize::from(state == State::Stopped);
            pressure.l0_while_compacting[entered].fetch_add(1, Ordering::Relaxed); // statistics
        }
    }

    /// A flush of `bytes` is queued: its memtables are sealed.
    pub(super) fn flush_queued(&self, family: &FamilyData, bytes: u64) {
        if let Some(pressure) = family.pressure() {
            pressure.target.flush_queued(bytes);
        }
    }

    /// A job has picked these memtables. Counted before it does any work.
    pub(super) fn flush_started(&self, family: &FamilyData, memtables: &[Arc<Memtable>]) {
        if let Some(pressure) = family.pressure() {
            pressure.target.flush_started(memtables.iter().map(|memtable| memtable.bytes()).sum());
        }
        for memtable in memtables {
            memtable.charge().flush_started();
        }
    }

    /// The flush of these memtables is over.
    pub(super) fn flush_ended(&self, family: &FamilyData, memtables: &[Arc<Memtable>], done: bool) {
        for memtable in memtables {
            if done {
                memtable.charge().flushed();
            } else {
                memtable.charge().flush_failed();
            }
        }
        let outcome = match done {
            true if memtables.is_empty() => FlushOutcome::Nothing,
            true => FlushOutcome::Done,
            false => FlushOutcome::Failed,
        };
        if let Some(pressure) = family.pressure() {
            pressure.target.flush_ended(outcome);
        }
    }
}

impl SourceOf {
    /// Asks for `ask`; the state that the source enters by it, if it is a new one that holds writers.
    fn ask(&self, ask: Requirement) -> Option<State> {
        let state = |requirement: &Requirement| match requirement {
            Requirement::Normal => State::Normal,
            Requirement::Delayed(_) => State::Delayed,
            Requirement::Stopped => State::Stopped,
        };
        let (before, now) = (state(&self.source.require(ask)), state(&ask));
        if before == now {
            return None;
        }
        match now {
            State::Normal => return None,
            State::Delayed => self.delays.fetch_add(1, Ordering::Relaxed), // statistics
            State::Stopped => self.stops.fetch_add(1, Ordering::Relaxed),  // statistics
        };
        Some(now)
    }

    fn counts(&self) -> (u64, u64) {
        (self.delays.load(Ordering::Relaxed), self.stops.load(Ordering::Relaxed)) // statistics
    }
}

/// Failure, closing, housekeeping.
impl Pressure {
    /// The database refuses writes from now on: who waits gets its error, and what it holds is out of the pressure, since
    /// no flush of it will free that.
    pub(super) fn database_failed(&self) {
        self.client.interrupt(Interrupt::Failed);
        self.database.set_failed();
    }

    /// The database closes: who waits is released with an error, and nobody waits any more.
    pub(super) fn begin_close(&self) {
        self.client.interrupt(Interrupt::Shutdown);
        self.queue.close();
    }

    /// The last step of closing: nothing is told, asked or held any more.
    pub(super) fn end_close(&self) {
        let sink = self.sink.lock().take();
        drop(sink);
    }

    /// Whether the manager wants its once-a-second look at what is unserved.
    pub(super) fn wants_housekeeping(&self) -> bool {
        self.manager.pressure() != sluicedb_wbm::Pressure::Normal
    }

    pub(super) fn housekeep(&self) {
        self.manager.tick();
    }
}

/// Visibility.
impl Pressure {
    pub(super) fn is_stopped(&self) -> bool {
        self.client.is_stopped()
    }

    /// The rate of delayed writers in bytes per second; 0 when nothing delays.
    pub(super) fn delayed_rate(&self) -> u64 {
        self.controller.actual_delayed_write_rate()
    }

    /// Time that this database's writers spent delayed and stopped, in microseconds.
    pub(super) fn stall_micros(&self) -> u64 {
        let total = self.client.tally().total();
        (total.delayed_nanos + total.stopped_nanos) / 1000
    }

    /// The property `sluicedb.pressure`: a line for each name and value.
    pub(super) fn describe(&self) -> String {
        let (manager, controller) = (self.manager.stats(), self.controller.stats());
        let strictest =
            controller.strictest.map_or_else(|| "none".to_owned(), |source: SourceId| source.to_string());
        let lines = [
            ("state", controller.state.to_string()),
            ("step", manager.pressure.step().to_string()),
            ("rate", controller.rate.to_string()),
            ("max-rate", controller.max_rate.to_string()),
            ("strictest-source", strictest),
            ("normal-micros", controller.times.normal_micros.to_string()),
            ("delayed-micros", controller.times.delayed_micros.to_string()),
            ("stopped-micros", controller.times.stopped_micros.to_string()),
            ("publications", manager.publications.to_string()),
            ("transitions", manager.times.transitions.to_string()),
            ("delay-episodes", manager.times.delay_episodes.to_string()),
            ("stops", manager.times.stops.to_string()),
            ("stop-micros", manager.times.stopped_micros.to_string()),
            ("longest-stop-micros", manager.times.longest_stop_micros.to_string()),
            ("current-stop-micros", manager.times.current_stop_micros.to_string()),
            ("sleeping", controller.sleeping.to_string()),
            ("parked", controller.parked.to_string()),
            ("rejected", controller.tally.rejected.to_string()),
            ("pacer-lost-bytes", controller.pacer_lost_bytes.to_string()),
            ("flushes-queued", manager.flushes_queued.to_string()),
            ("flushes-running", manager.flushes_running.to_string()),
            ("unserved", manager.unserved.to_string()),
            ("liveness-rescues", manager.liveness_rescues.to_string()),
        ];
        lines.map(|(name, value)| format!("{name}: {value}\n")).concat()
    }

    /// The property `sluicedb.pressure-sources`: a line for each source that asks for something.
    pub(super) fn describe_sources(&self) -> String {
        let line = |report: &sluicedb_controller::SourceReport| {
            let asks = match report.requirement {
                Requirement::Normal => "normal".to_owned(),
                Requirement::Delayed(fraction) => format!("delayed {} ppm", fraction.ppm()),
                Requirement::Stopped => "stopped".to_owned(),
            };
            format!("{}: {asks}, rate {}, since {:?}\n", report.source, report.rate, report.age)
        };
        self.controller.stats().sources.iter().map(line).collect()
    }

    /// The property `sluicedb.wbm`: a line for each name and value, then one for each database.
    pub(super) fn describe_wbm(&self) -> String {
        let stats = self.manager.stats();
        let usage = stats.usage;
        let mut text = format!(
            "quota: {}\nusage: {}\nmutable: {}\nsealed: {}\nflushing: {}\npinned: {}\noverhead: {}\nqueued: {}\n\
             cache-reserved: {}\n",
            stats.quota.bytes(),
            usage.used,
            usage.mutable,
            usage.sealed,
            usage.flushing,
            usage.pinned,
            usage.overhead,
            usage.queued,
            stats.cache_reserved
        );
        for database in &stats.databases {
            text += &format!(
                "database {}: usage {}, pinned {}\n",
                database.name, database.usage.used, database.usage.pinned
            );
        }
        text
    }

    /// The property `sluicedb.wbm-holders`: a line for each memtable that holds bytes, largest first.
    pub(super) fn describe_holders(&self) -> String {
        self.manager.holders().iter().map(|holder| name_holder(holder) + "\n").collect()
    }

    /// The property `sluicedb.commit_queue`: a line for each name and value.
    pub(super) fn describe_queue(&self) -> String {
        let stats = self.queue.stats();
        format!(
            "used: {}\noverdraft: {}\npeak: {}\nadmitted: {}\nrefused: {}\n",
            stats.used, stats.overdraft, stats.peak, stats.admitted, stats.refused
        )
    }

    /// The lines about the manager in `rocksdb.stats`; none with a quota of 0.
    pub(super) fn stats_lines(&self) -> String {
        let stats = self.manager.stats();
        let (usage, quota) = (stats.usage, stats.quota.bytes());
        if quota == 0 {
            return String::new();
        }
        let percent = 100.0 * usage.used as f64 / quota as f64;
        let step = match stats.pressure.state() {
            State::Delayed => {
                format!(", step {}, rate {} B/s", stats.pressure.step(), self.controller.rate())
            }
            _ => String::new(),
        };
        format!(
            "WBM: usage {} of {quota} ({percent:.1} percent), mutable {}, immutable {}, pinned {}, state {}{step}\n\
             WBM stall: delayed {} H:M:S, stopped {} H:M:S, {} delay episodes, {} stops\n",
            usage.used,
            usage.mutable,
            usage.immutable(),
            usage.pinned,
            stats.pressure.state(),
            hours_minutes_seconds(stats.times.delayed_micros),
            hours_minutes_seconds(stats.times.stopped_micros),
            stats.times.delay_episodes,
            stats.times.stops
        )
    }

    /// How often each cause of a family began to delay and to stop, as RocksDB's `Write Stall (count)` line lists them;
    /// and the sum of both.
    pub(super) fn family_stalls(&self, family: &FamilyData) -> (String, u64) {
        let Some(pressure) = family.pressure() else { return (String::new(), 0) };
        let busy = |which: usize| pressure.l0_while_compacting[which].load(Ordering::Relaxed); // statistics
        let mut lines = vec![
            ("cf-l0-file-count-limit-delays-with-ongoing-compaction".to_owned(), busy(0)),
            ("cf-l0-file-count-limit-stops-with-ongoing-compaction".to_owned(), busy(1)),
        ];
        let (mut delays, mut stops) = (0, 0);
        for (kind, source) in [
            (SourceKind::L0, &pressure.l0),
            (SourceKind::MemtableCount, &pressure.memtable_count),
            (SourceKind::PendingCompactionBytes, &pressure.pending),
        ] {
            let (delayed, stopped) = source.counts();
            lines.push((format!("{}-delays", kind.cause()), delayed));
            lines.push((format!("{}-stops", kind.cause()), stopped));
            delays += delayed;
            stops += stopped;
        }
        lines.push(("total-delays".to_owned(), delays));
        lines.push(("total-stops".to_owned(), stops));
        (name_values(&lines), delays + stops)
    }

    /// The database's `Write Stall` lines: admissions that the manager held or refused, and the time of all causes.
    pub(super) fn db_stalls(&self) -> String {
        let tally: Tally = self.client.tally();
        let wbm = tally.cause(SourceKind::WriteBufferManager);
        let counts = [
            ("write-buffer-manager-limit-delays".to_owned(), wbm.delays),
            ("write-buffer-manager-limit-stops".to_owned(), wbm.stops),
        ];
        let mut micros = Vec::new();
        let total = tally.total();
        for (cause, part) in [
            ("l0-file-count-limit", tally.cause(SourceKind::L0)),
            ("memtable-limit", tally.cause(SourceKind::MemtableCount)),
            ("pending-compaction-bytes", tally.cause(SourceKind::PendingCompactionBytes)),
            ("total", &total),
            ("write-buffer-manager-limit", wbm),
        ] {
            micros.push((format!("{cause}-delays"), part.delayed_nanos / 1000));
            micros.push((format!("{cause}-stops"), part.stopped_nanos / 1000));
        }
        format!(
            "Write Stall (count): {}\nWrite Stall (micros): {}\n",
            name_values(&counts),
            name_values(&micros)
        )
    }
}

/// `name: value, name: value`
fn name_values(lines: &[(String, u64)]) -> String {
    lines.iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join(", ")
}

/// Writes the manager's changes of state into LOG, and wakes the housekeeping.
#[derive(Debug)]
struct Observer {
    info_log: Arc<InfoLog>,
    housekeeping: Arc<Bell>,
}

impl PressureObserver for Observer {
    fn pressure_changed(&self, change: &PressureChange) {
        let stopped = change.current.state() == State::Stopped;
        let level = if stopped { log::Level::Warn } else { log::Level::Info };
        self.info_log.line(level, &change.to_string());
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
