//! The stage of R14: databases on one manager, flushes held at gates, and real threads that write until they stand.
//!
//! [`Stage::stall`] fills the memory, waits until every patient writer stands, lets a scenario act, and notes when and how
//! each writer ended. [`Stage::judge`] holds the rules of the table to all that. What a scenario does is not known here.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sluicedb::{
    ColumnFamily, ColumnFamilyOptions, Db, DbOptions, DelayedWriteRate, Error, Pressure, SystemClock,
    WbmOptions, WriteBatch, WriteBufferManager, WriteController, WriteOptions,
};

use crate::cases::eventually;
use crate::rng::Rng;
use crate::sim_fs::{FileKind, Gate, Op, Pattern, SimFs};

/// Within this time after it can, a writer ends.
const SOON: Duration = Duration::from_secs(5);

/// What a stage is made of.
pub(super) struct Plan {
    /// The quota, in bytes.
    pub(super) quota: u64,
    /// How many families each database has, the default one included.
    pub(super) families: Vec<usize>,
    /// Whether the manager asks for flushes early.
    pub(super) initiate_flushes: bool,
}

/// A database of the stage, on a disk of its own.
pub(super) struct Member {
    pub(super) db: Db,
    pub(super) families: Vec<ColumnFamily>,
    pub(super) disk: SimFs,
    /// Holds each flush before its table is synced.
    pub(super) gate: Gate,
}

/// Several databases on one manager whose flushes are held.
pub(super) struct Stage {
    pub(super) members: Vec<Member>,
    pub(super) manager: Arc<WriteBufferManager>,
    /// The largest quota so far.
    quota: AtomicU64,
    /// Memory that mutable memtables may have taken ahead: a charge unit each.
    ahead: u64,
    queue_bytes: u64,
    peak: AtomicU64,
    /// The manager's statistics when the peak was beyond its bound.
    beyond: Mutex<String>,
    largest: AtomicU64,
    writers: AtomicU64,
    /// Writers that have ended, by the member they write to first.
    ended: Vec<AtomicU64>,
}

/// A thread that writes.
pub(super) struct Writer {
    pub(super) rng: Rng,
    /// No two writers of a stage share it.
    pub(super) number: u64,
    /// The members and families that it writes to, in turn.
    pub(super) targets: Vec<(usize, usize)>,
    /// The smallest and largest value.
    pub(super) values: (u64, u64),
    /// What a whole batch holds when the writer draws a large one, one time in four; 0 = never.
    pub(super) large_batch: u64,
    pub(super) options: WriteOptions,
}

/// How a writer ended.
pub(super) struct End {
    /// The member it writes to first.
    pub(super) member: usize,
    /// Whether it waits for as long as it takes.
    pub(super) patient: bool,
    pub(super) outcome: Result<(), Error>,
    at: Instant,
    released: Option<Instant>,
    acknowledged: Vec<Acknowledged>,
}

struct Acknowledged {
    member: usize,
    family: usize,
    key: Vec<u8>,
    len: usize,
}

impl Stage {
    /// Opens the databases; flushes are held from the start.
    pub(super) fn new(plan: Plan, rng: &mut Rng) -> Result<Self, String> {
        let mut settings = WbmOptions::new(plan.quota);
        settings.initiate_flushes = plan.initiate_flushes;
        settings.max_parallel_flushes = rng.range(1, 4) as u32;
        settings.delay_start_percent = *rng.pick(&[50, 70, 90]);
        let manager = WriteBufferManager::new(settings, Arc::new(SystemClock)).map_err(|e| e.to_string())?;
        let mut options = DbOptions::default();
        options.column_family = family_options(rng);
        options.write_buffer_manager = Some(Arc::clone(&manager));
        // A delay costs real time here, so it is hardly felt.
        options.delayed_write_rate = DelayedWriteRate::BytesPerSecond(1 << 30);
        options.max_background_flushes = rng.range(1, 2) as u32;
        options.commit_queue_bytes = *rng.pick(&[4 << 10, 16 << 10, 64 << 10]);
        options.wal_segment_bytes = *rng.pick(&[64 << 10, 1 << 20]);
        let queue_bytes = options.commit_queue_bytes;
        let shares_controller = rng.chance(50);
        let mut members: Vec<Member> = Vec::new();
        for count in &plan.families {
            let disk = SimFs::new(rng.next_u64());
            let mut own = options.clone();
            own.file_system = Arc::new(disk.clone());
            if let Some(first) = members.first().filter(|_| shares_controller) {
                own.write_controller = Some(Arc::clone(first.db.write_controller()));
            }
            let names: Vec<String> = (1..*count).map(|number| format!("family {number}")).collect();
            let named = names.iter().map(|name| (name.clone(), options.column_family.clone()));
            let db = Db::open_cf(Path::new("/db"), own, named).map_err(|error| format!("open: {error}"))?;
            let mut families = vec![db.default_column_family()];
            families.extend(names.iter().filter_map(|name| db.column_family(name)));
            let gate = disk.gate(Pattern::op(Op::Sync).on(FileKind::Sst));
            members.push(Member { db, families, disk, gate });
        }
        let ahead = plan.families.iter().sum::<usize>() as u64 * manager.quota().charge_unit();
        let quota = AtomicU64::new(plan.quota);
        let ended = members.iter().map(|_| AtomicU64::new(0)).collect();
        let (peak, largest, writers) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self {
            members,
            manager,
            quota,
            ahead,
            queue_bytes,
            peak,
            beyond: Mutex::default(),
            largest,
            writers,
            ended,
        })
    }

    /// Lets flushes go on.
    pub(super) fn open_gates(&self) {
        self.members.iter().for_each(|member| member.gate.open());
    }

    /// Changes the quota; 0 = off.
    pub(super) fn set_quota(&self, bytes: u64) {
        self.quota.fetch_max(if bytes == 0 { 1 << 40 } else { bytes }, Ordering::SeqCst);
        self.manager.set_quota_bytes(bytes);
    }

    /// From now on the manager neither delays nor stops: its quota bounds nothing.
    pub(super) fn stop_nobody(&self) {
        self.quota.fetch_max(1 << 40, Ordering::SeqCst);
        self.manager.set_allow_stall(false);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.manager.pressure() == Pressure::Stopped
    }

    /// Writers that have ended of those that write to this member first.
    pub(super) fn ended(&self, member: usize) -> u64 {
        self.ended[member].load(Ordering::SeqCst)
    }

    /// Writers who stand at the brakes of all databases.
    fn standing(&self) -> usize {
        let mut brakes: Vec<&Arc<WriteController>> = Vec::new();
        for member in &self.members {
            let brake = member.db.write_controller();
            if !brakes.iter().any(|known| Arc::ptr_eq(known, brake)) {
                brakes.push(brake);
            }
        }
        brakes.iter().map(|brake| brake.stats()).map(|stats| stats.parked + stats.sleeping).sum()
    }

    /// Has `writers` fill the memory, `begin` waits until a stop is to be expected, and once all patient writers stand,
    /// `act` ends the stop. Every writer then ends at its next return.
    pub(super) fn stall(
        &self,
        writers: Vec<Writer>,
        begin: impl FnOnce() -> Result<(), String>,
        act: impl FnOnce() -> Result<(), String>,
    ) -> Result<Vec<End>, String> {
        let patient = writers.iter().filter(|writer| writer.is_patient()).count();
        self.writers.store(writers.len() as u64, Ordering::SeqCst);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let done = &done;
            let threads: Vec<_> =
                writers.into_iter().map(|writer| scope.spawn(move || writer.run(self, done))).collect();
            let stands = || match self.standing() {
                standing if standing >= patient && self.is_stopped() => Ok(()),
                standing => Err(format!("{standing} of {patient} writers stand: {:?}", self.manager.stats())),
            };
            let acted = begin().and_then(|()| eventually(stands)).and_then(|()| act());
            let released = Instant::now();
            done.store(true, Ordering::SeqCst);
            if acted.is_err() {
                // A broken rule must not become a hang.
                self.stop_nobody();
                self.open_gates();
            }
            let mut ends = Vec::new();
            for thread in threads {
                let mut end = thread.join().map_err(|_| "a writer panicked".to_owned())?;
                end.released = Some(released);
                ends.push(end);
            }
            acted.map(|()| ends)
        })
    }

    /// The rules of R14: how each writer ended, in time; memory within its bound; nobody rescued; life goes on; what was
    /// acknowledged is there; all charges are 0 in the end. `excused` are the errors of a database that is not to be asked
    /// any more.
    pub(super) fn judge(
        self,
        ends: &[End],
        allowed: impl Fn(&End) -> bool,
        excused: impl Fn(&Error) -> bool,
    ) -> Result<(), String> {
        for end in ends {
            let late =
                end.released.map_or(Duration::ZERO, |released| end.at.saturating_duration_since(released));
            if late > SOON {
                return Err(format!("a writer ended {late:?} after it could"));
            }
            if !allowed(end) {
                return Err(format!(
                    "a {} writer of database {} ended with {:?}",
                    if end.patient { "patient" } else { "hasty" },
                    end.member,
                    end.outcome
                ));
            }
        }
        self.open_gates();
        let (peak, bound) = (self.peak.load(Ordering::SeqCst), self.bound());
        if peak > bound {
            let beyond = self.beyond.lock().unwrap_or_else(PoisonError::into_inner);
            return Err(format!("{peak} bytes were in use, at most {bound} are allowed: {beyond}"));
        }
        self.go_on(&excused)?;
        for ack in ends.iter().flat_map(|end| &end.acknowledged) {
            let member = &self.members[ack.member];
            match member.db.get_cf(&member.families[ack.family], &ack.key) {
                Ok(Some(value)) if value.len() == ack.len => {}
                Err(error) if excused(&error) => {}
                other => {
                    return Err(format!("an acknowledged write is gone: {:?}", other.map(|v| v.is_some())));
                }
            }
        }
        if self.manager.stats().liveness_rescues != 0 {
            return Err(format!("a writer had to be rescued: {:?}", self.manager.stats()));
        }
        let Self { members, manager, .. } = self;
        for member in &members {
            match member.db.close() {
                Err(error) if !excused(&error) => return Err(format!("close: {error}")),
                _ => {}
            }
        }
        drop(members);
        eventually(|| {
            let report = manager.usage_report();
            let rest = report.resident() + report.queued;
            if rest == 0 {
                Ok(())
            } else {
                Err(format!("charges stay after everything was dropped: {report:?}"))
            }
        })
    }

    /// One thread writes to every database in turn and flushes it: each call ends, soon.
    fn go_on(&self, excused: &impl Fn(&Error) -> bool) -> Result<(), String> {
        let began = Instant::now();
        for round in 0..3_u8 {
            for member in &self.members {
                let family = &member.families[usize::from(round) % member.families.len()];
                match member.db.put_cf(family, [round], vec![round; 1_000]) {
                    Err(error) if !excused(&error) => {
                        return Err(format!("a write after the stall: {error}"));
                    }
                    _ => {}
                }
            }
        }
        for member in &self.members {
            match member.db.flush() {
                Err(error) if !excused(&error) => return Err(format!("a flush after the stall: {error}")),
                _ => {}
            }
        }
        let took = began.elapsed();
        if took > SOON * 2 { Err(format!("writing on after the stall took {took:?}")) } else { Ok(()) }
    }

    /// Notes the memory in use.
    fn look(&self) {
        let used = self.manager.usage_report().used;
        if used > self.peak.fetch_max(used, Ordering::SeqCst) && used > self.bound() {
            let mut beyond = self.beyond.lock().unwrap_or_else(PoisonError::into_inner);
            *beyond = format!("{:?}", self.manager.stats());
        }
    }

    /// `pressure` section 4: quota - 1, and what had been admitted and not yet charged: at most one batch of each writer,
    /// at most what the queue of each database takes; a charge unit for each mutable memtable; 1 %.
    fn bound(&self) -> u64 {
        let largest = self.largest.load(Ordering::SeqCst);
        // Counted at its memtable charge, which is more than the encoded size: by less than half at these sizes.
        let queues = self.members.len() as u64 * (self.queue_bytes * 3 / 2 + largest);
        let in_flight = queues.min(self.writers.load(Ordering::SeqCst) * largest);
        let bound = self.quota.load(Ordering::SeqCst) - 1 + in_flight + self.ahead;
        bound + bound / 100
    }
}

fn family_options(rng: &mut Rng) -> ColumnFamilyOptions {
    let mut options = ColumnFamilyOptions::default();
    options.write_buffer_size = *rng.pick(&[64 << 10, 256 << 10, 64 << 20]);
    options.min_write_buffer_number_to_merge = rng.range(1, 2) as u32;
    // Only the manager stops writers here, neither the number of memtables nor of L0 files.
    options.max_write_buffer_number = 1_000;
    options.level0_slowdown_writes_trigger = 1_000;
    options.level0_stop_writes_trigger = 1_000;
    options
}

impl Writer {
    fn is_patient(&self) -> bool {
        !self.options.no_slowdown && self.options.stall_timeout.is_none()
    }

    fn run(mut self, stage: &Stage, done: &AtomicBool) -> End {
        let (member, patient) = (self.targets[0].0, self.is_patient());
        let mut acknowledged = Vec::new();
        let mut outcome = Ok(());
        let mut count = 0;
        while outcome.is_ok() && !done.load(Ordering::SeqCst) {
            outcome = self.write(stage, count, &mut acknowledged);
            stage.look();
            count += 1;
        }
        stage.ended[member].fetch_add(1, Ordering::SeqCst);
        End { member, patient, outcome, at: Instant::now(), released: None, acknowledged }
    }

    fn write(
        &mut self,
        stage: &Stage,
        count: u64,
        acknowledged: &mut Vec<Acknowledged>,
    ) -> Result<(), Error> {
        let (member, family) = self.targets[count as usize % self.targets.len()];
        let target = &stage.members[member];
        let (low, high) = self.values;
        let mut batch = WriteBatch::new();
        let mut entries = Vec::new();
        let wanted = if self.large_batch > 0 && self.rng.one_in(4) { self.large_batch } else { 1 };
        let mut size = 0;
        while size < wanted {
            let len = self.rng.range(low, high) as usize;
            let key = [self.number.to_be_bytes(), count.to_be_bytes(), size.to_be_bytes()].concat();
            batch.put_cf(&target.families[family], &key, vec![self.number as u8; len]);
            entries.push(Acknowledged { member, family, key, len });
            // With the cost of an entry, generously.
            size += len as u64 + 200;
        }
        stage.largest.fetch_max(size, Ordering::SeqCst);
        target.db.write_opt(batch, &self.options)?;
        acknowledged.append(&mut entries);
        Ok(())
    }
}
