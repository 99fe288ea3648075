//! The write path, top to bottom.
//!
//! | step | what | a crash here leaves |
//! |--:|---|---|
//! | 1 | check the batch; refuse if closed or read-only | nothing |
//! | 2 | **admit**: the brake says when this batch's own bytes may go; wait here, holding nothing | nothing |
//! | 3 | **commit queue**: take room for the bytes, test the stop again, then join: lead, or wait for a leader | nothing |
//! | 4 | the leader opens the segments that the next group needs, and takes it off the queue | nothing |
//! | 5 | make room: a full memtable is sealed and its flush queued | nothing |
//! | 6 | give the group its sequence numbers | nothing |
//! | 7 | **log**: one append for the group, handed to the kernel or synced if a member asks | no fragment, a torn tail, or all of them |
//! | 8 | **insert**: charge each entry, then insert it; in a large group each thread its own | the group, as far as the log kept it |
//! | 9 | **publish** the last sequence: readers see all of the group | the same |
//! | 10 | return the leases, tell tickets, hand the lead on, wake the group | the same; a synced group survives |
//!
//! An asynchronous write takes the same steps; its steps 1 to 3 are in `ticket.rs` and `appender.rs`.
//!
//! How a delay is computed, how the log lies on disk and how memtables sort are not known here.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sluicedb_controller::{Parker, deadline_after};

use super::pressure::{Admitted, Room, UnitSize};
use super::{Shared, WalLock};
use crate::batch::format::{BatchReader, HEADER_LEN};
use crate::batch::{WriteBatch, WriteError};
use crate::column_family::{FamilyData, FlushStage};
use crate::commit::{CommitQueue, Group, Leadership, Outcome, Refusal, Turn, Unit};
use crate::error::{Error, Result};
use crate::key::SequenceNumber;
use crate::memtable::Memtable;
use crate::options::{ColumnFamilyOptions, Durability, WriteOptions};
use crate::sync::forbid_held_locks;
use crate::version::FileNumber;
use crate::wal::{FRAMING, LogRecord, Push};

/// Pauses between attempts to open a segment double from the one to the other.
const SEGMENT_RETRY_MIN: Duration = Duration::from_millis(10);
const SEGMENT_RETRY_MAX: Duration = Duration::from_secs(1);

/// The queue in which writes wait for a leader.
pub(super) type Commit = CommitQueue<Work, Writer>;

/// One batch on its way through the commit queue.
#[derive(Debug)]
pub(super) struct Work {
    batch: WriteBatch,
    durability: Durability,
    /// Why this batch alone is refused, once the leader has looked at it.
    refused: Option<Box<Error>>,
    /// Where its entries go, when its own thread is to insert them.
    targets: Option<Arc<Targets>>,
    /// What it holds of the queue and of the manager; returned before its caller is told.
    room: Room,
}

/// The mutable memtables of a group, by family id.
type Targets = Vec<Option<Arc<Memtable>>>;

impl Work {
    pub(super) fn new(batch: WriteBatch, durability: Durability, room: Room) -> Self {
        Self { batch, durability, refused: None, targets: None, room }
    }

    pub(super) fn into_batch(self) -> WriteBatch {
        self.batch
    }

    /// The batch, and what it holds of the queue.
    pub(super) fn into_parts(self) -> (WriteBatch, Room) {
        (self.batch, self.room)
    }

    /// Its own outcome in a group that was committed, or not. What it holds returns.
    fn outcome(self, group: &Result<()>) -> Outcome {
        match self.refused {
            Some(refused) => Err(*refused),
            None => group.clone().map(|()| self.batch.last_sequence()),
        }
    }

    /// Inserts its entries into the targets that the leader has given it.
    fn insert_itself(&mut self) {
        if let Some(targets) = self.targets.take() {
            insert(|family| targets.get(family as usize)?.as_deref(), self);
        }
    }
}

impl Unit for Work {
    fn bytes(&self) -> u64 {
        framed(self.batch.byte_size(), self.durability)
    }

    fn wants_sync(&self) -> bool {
        self.durability == Durability::Sync
    }

    fn settle(&mut self) -> bool {
        self.room.settle()
    }
}

/// The size of a batch of `bytes`: what is logged takes its framing along.
#[inline]
pub(super) fn unit_size(bytes: u64, durability: Durability) -> UnitSize {
    #[cfg(feature = "bench-arms")]
    if crate::bench_arms::records_bound().is_some() {
        return UnitSize { batch: bytes, unit: 1 };
    }
    UnitSize { batch: bytes, unit: framed(bytes, durability) }
}

#[inline]
fn framed(bytes: u64, durability: Durability) -> u64 {
    if durability == Durability::None { bytes } else { bytes + FRAMING }
}

/// What the leader owns: where writes go, and the next sequence.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) next_seq: SequenceNumber,
    /// By family id; `None` where the family was dropped.
    families: Vec<Option<WriterFamily>>,
    /// Log segments set aside by attempts to go on after a failure, until one succeeds.
    pub(super) failed_segments: Vec<FileNumber>,
}

/// A family as the leader sees it.
#[derive(Debug)]
pub(super) struct WriterFamily {
    pub(super) data: Arc<FamilyData>,
    /// The memtable that takes its writes.
    mutable: Arc<Memtable>,
}

impl Writer {
    pub(super) fn new(next_seq: SequenceNumber) -> Self {
        Self { next_seq, families: Vec::new(), failed_segments: Vec::new() }
    }

    /// From now on writes to the family are accepted.
    pub(super) fn add_family(&mut self, data: Arc<FamilyData>) {
        let at = data.id as usize;
        if self.families.len() <= at {
            self.families.resize_with(at + 1, || None);
        }
        let mutable = Arc::clone(&data.pin().mutable);
        self.families[at] = Some(WriterFamily { data, mutable });
    }

    /// From now on writes to the family are refused.
    pub(super) fn remove_family(&mut self, id: u32) {
        if let Some(family) = self.families.get_mut(id as usize) {
            *family = None;
        }
    }

    pub(super) fn family(&mut self, id: u32) -> Option<&mut WriterFamily> {
        self.families.get_mut(id as usize)?.as_mut()
    }

    fn mutable(&self, id: u32) -> Option<&Memtable> {
        Some(&self.families.get(id as usize)?.as_ref()?.mutable)
    }

    fn targets(&self) -> Targets {
        self.families.iter().map(|family| Some(Arc::clone(&family.as_ref()?.mutable))).collect()
    }
}

impl Shared {
    /// Writes a batch: all of it or nothing.
    pub(super) fn write(&self, batch: WriteBatch, options: &WriteOptions) -> Result<(), WriteError> {
        // 1. Check the batch; refuse if closed or read-only.
        if let Err(error) = self.check_batch(&batch) {
            return Err(WriteError::refused(error, batch));
        }
        if batch.is_empty() {
            return Ok(());
        }
        self.count_call(&batch);

        // 2. and 3. Admission by the brake, room in the queue by bytes, and the stop tested once more.
        let size = unit_size(batch.byte_size(), options.durability);
        let mut write = self.pressure.begin(options);
        let room = match self.pressure.admit(self, size, &mut write) {
            Ok(room) => room,
            Err(error) => return Err(WriteError::refused(error, batch)),
        };
        self.commit(Work::new(batch, options.durability, room), size, &mut write)
    }

    /// Writes several batches as one unit: all of them or nothing.
    pub(super) fn write_many(&self, batches: Vec<WriteBatch>, options: &WriteOptions) -> Result<()> {
        let mut size = UnitSize { batch: 0, unit: 0 };
        for batch in &batches {
            self.check_batch(batch)?;
            let member = unit_size(batch.byte_size(), options.durability);
            size.batch += member.batch;
            size.unit += member.unit;
        }
        let mut batches = batches.into_iter().filter(|batch| !batch.is_empty());
        let Some(mut unit) = batches.next() else { return Ok(()) };
        let mut write = self.pressure.begin(options);
        let room = self.pressure.admit(self, size, &mut write)?;
        for batch in batches {
            unit.append(&batch)?;
        }
        self.count_call(&unit);
        Ok(self.commit(Work::new(unit, options.durability, room), size, &mut write)?)
    }

    /// Refuses a batch that cannot be written, or any if closed or read-only.
    #[inline]
    pub(super) fn check_batch(&self, batch: &WriteBatch) -> Result<()> {
        batch.check(self.identity, self.options.max_batch_bytes)?;
        self.check_writable()
    }

    pub(super) fn count_call(&self, batch: &WriteBatch) {
        self.stats.write_calls.add(1);
        self.stats.bytes_written.add(batch.byte_size());
        self.stats.entries_written.add(batch.len() as u64);
    }

    /// Joins the queue and takes part until the work is done: as leader, or as one who inserts its own.
    #[inline]
    fn commit(&self, mut work: Work, size: UnitSize, write: &mut Admitted) -> Result<(), WriteError> {
        let mut turn = loop {
            work = match self.commit.join(work) {
                Ok(turn) => break turn,
                Err((refusal, refused)) => self.wait_for_a_place(refusal, refused, size, write)?,
            };
        };
        loop {
            turn = match turn {
                Turn::Lead(leadership) => self.lead_group(leadership),
                Turn::Insert(mut insertion) => {
                    insertion.work().insert_itself();
                    insertion.finish()
                }
                Turn::Done(outcome) => return outcome.map(drop).map_err(WriteError::failed),
                Turn::Over => unreachable!("a caller leads until its own work is done"),
            };
        }
    }

    /// What the queue has refused is refused for good, or waits for its place.
    #[cold]
    fn wait_for_a_place(
        &self,
        refusal: Refusal,
        refused: Work,
        size: UnitSize,
        write: &mut Admitted,
    ) -> Result<Work, WriteError> {
        let durability = refused.durability;
        let (batch, room) = refused.into_parts();
        if refusal == Refusal::Closed {
            return Err(WriteError::refused(Error::ShutdownInProgress, batch));
        }
        match self.pressure.admit_refused(self, size, room, write) {
            Ok(room) => Ok(Work::new(batch, durability, room)),
            Err(error) => Err(WriteError::refused(error, batch)),
        }
    }

    /// `Ok` while the database is open and has not failed.
    #[inline]
    pub(super) fn check_writable(&self) -> Result<()> {
        if self.refusing.load(Ordering::Acquire) {
            return Err(Error::ShutdownInProgress);
        }
        self.failure.check()
    }

    /// Leads one group: takes what waits, commits it, tells its members, and keeps the lead or hands it on.
    pub(super) fn lead_group<'a>(
        &self,
        mut leadership: Leadership<'a, Work, Writer>,
    ) -> Turn<'a, Work, Writer> {
        // 4. The group, once it need not wait for company and the log has the segments that it will need.
        leadership.linger();
        self.open_segments(&leadership);
        let mut group = leadership.take_group();
        #[cfg(feature = "bench-arms")]
        if crate::bench_arms::records_bound().is_some() {
            self.collect_by_records(&mut leadership, &mut group);
        }
        let committed = catch_unwind(AssertUnwindSafe(|| self.commit_group(leadership.state(), &mut group)));
        let (outcome, panic) = match committed {
            Ok(outcome) => (outcome, None),
            Err(panic) => (Err(self.group_panicked()), Some(panic)),
        };

        // 10. Leases return with the works; tickets are told; then the successor is called, then the other members.
        let turn = leadership.complete(group, |work| work.outcome(&outcome));
        self.note_idle();
        if let Some(panic) = panic {
            drop(turn);
            resume_unwind(panic);
        }
        turn
    }

    /// A slot is free when its record has been popped, and the group is what comes until nothing is ready.
    #[cfg(feature = "bench-arms")]
    fn collect_by_records(
        &self,
        leadership: &mut Leadership<'_, Work, Writer>,
        group: &mut Group<Work, Writer>,
    ) {
        loop {
            group.works_mut().for_each(|work| work.room.release());
            if !leadership.take_more(group) {
                return;
            }
        }
    }

    /// Sees to it that the log has the segments that the next group needs, before it leaves the queue: what cannot be had
    /// now is tried for until `write_timeout` is over, with growing pauses, and then by the append, which reports. Without
    /// space on the device there is no use in waiting.
    #[inline]
    fn open_segments(&self, leadership: &Leadership<'_, Work, Writer>) {
        let room = self.wal.room();
        if let Some((records, bytes)) = leadership.next_group_beyond(room) {
            self.reserve_segments(records, bytes);
        }
    }

    #[cold]
    fn reserve_segments(&self, records: u64, bytes: u64) {
        let mut pause = SEGMENT_RETRY_MIN;
        let give_up = deadline_after(self.clock.now_nanos(), self.pressure.write_timeout());
        while let Err(error) = self.wal.reserve(records, bytes) {
            let now = self.clock.now_nanos();
            let is_final = matches!(error, Error::NoSpace { .. }) || self.check_writable().is_err();
            if is_final || now >= give_up {
                return;
            }
            self.info_log.error(&format!("could not open the next WAL segment, and tries again: {error}"));
            forbid_held_locks("wait for a WAL segment");
            let until = deadline_after(now, pause).min(give_up);
            self.clock.park(&Parker::new(), Some(until));
            pause = (pause * 2).min(SEGMENT_RETRY_MAX);
        }
    }

    /// The sync ticker may wait for a moment without writes.
    #[inline]
    fn note_idle(&self) {
        if self.sync_ticker.watches_idle()
            && !self.pressure.has_queued()
            && self.sync_ticker.note_idle(self.wal.durability())
        {
            self.purge_bell.ring();
        }
    }

    /// Makes the database read-only: the group may be inserted in part, and the next one would publish that part.
    #[cold]
    fn group_panicked(&self) -> Error {
        let panicked = self.panicked("a thread that committed a write group");
        self.latch_failure(&panicked);
        self.failure.check().err().unwrap_or(panicked)
    }

    /// Steps 5 to 9, for the whole group; batches that are refused alone carry their error.
    fn commit_group(&self, writer: &mut Writer, group: &mut Group<Work, Writer>) -> Result<()> {
        if group.is_empty() {
            return Ok(());
        }
        self.failure.check()?;
        self.stats.commit_groups.add_alone(1);

        // 5. Room in every memtable that the group writes to. The charge of the group goes to the memtables that are
        // mutable now.
        for work in group.works_mut() {
            for id in work.batch.families() {
                match writer.family(id) {
                    None => {
                        work.refused = Some(Box::new(Error::NoSuchColumnFamily { name: format!("#{id}") }))
                    }
                    Some(family)
                        if family.mutable.bytes() >= self.seal_size(&family.data, &family.mutable) =>
                    {
                        self.seal(family, FlushStage::Queued);
                    }
                    Some(_) => {}
                }
            }
        }

        // 6. Sequence numbers, in queue order.
        let mut next = writer.next_seq;
        for work in group.works_mut().filter(|work| work.refused.is_none()) {
            work.batch.set_sequence(next);
            next = next.after(work.batch.len() as u64);
        }
        let last = SequenceNumber::new(next.get() - 1);

        // 7. The log.
        self.log_group(writer, group)?;
        writer.next_seq = next;

        // 8. Inserts: each charged before it is made.
        self.insert_group(writer, group)?;

        // 9. Publish. Pairs with the acquire load of readers: who sees the sequence sees the entries.
        self.published.store(last.get(), Ordering::Release);
        Ok(())
    }

    /// The leader inserts all, or its own and those of tickets while the other threads insert theirs.
    fn insert_group(&self, writer: &Writer, group: &mut Group<Work, Writer>) -> Result<()> {
        if group.has_company() && group.bytes() >= self.options.parallel_insert_bytes {
            let targets = Arc::new(writer.targets());
            for work in group.works_mut().filter(|work| work.refused.is_none()) {
                work.targets = Some(Arc::clone(&targets));
            }
            let whole = group.insert_in_parallel(&self.commit.counts, Work::insert_itself);
            return if whole { Ok(()) } else { Err(self.group_panicked()) };
        }
        for work in group.works_mut().filter(|work| work.refused.is_none()) {
            insert(|id| writer.mutable(id), work);
        }
        Ok(())
    }

    /// One append for all logged batches of the group. A failure latches: whether the bytes survive is unknown, so
    /// nothing behind them may be acknowledged.
    fn log_group(&self, writer: &mut Writer, group: &Group<Work, Writer>) -> Result<()> {
        let logged =
            || group.works().filter(|work| work.refused.is_none() && work.durability != Durability::None);
        let Some(strongest) = logged().map(|work| work.durability).max() else { return Ok(()) };

        // Told before the append: a flush that asks which segments are needed reads the log's position first, so it
        // either sees this note or a position that is not beyond it.
        let segment = self.wal.current_segment();
        for work in logged() {
            let last = work.batch.last_sequence();
            for id in work.batch.families() {
                if let Some(family) = writer.family(id) {
                    family.mutable.note_logged(segment, last);
                }
            }
        }
        let records = logged().map(|work| {
            let (head, body) = work.batch.bytes().split_at(HEADER_LEN);
            LogRecord { head, body, last_seq: work.batch.last_sequence() }
        });
        let push = match strongest {
            Durability::None | Durability::Buffered => Push::Buffer,
            Durability::Os => Push::HandOver,
            Durability::Sync => Push::Sync,
        };
        let appended = self.wal.append(records, push).inspect_err(|error| self.log_failed(error))?;
        #[cfg(feature = "bench-arms")]
        if appended.durable_moved && crate::bench_arms::saves_inline() {
            self.versions.save_position_inline();
        }
        let unsynced =
            push != Push::Sync && self.sync_ticker.note_append(self.wal.durability(), appended.durable_moved);
        if appended.wants_segment || appended.durable_moved || unsynced {
            self.purge_bell.ring();
        }
        Ok(())
    }

    /// Latches a failure that the log keeps. One that it does not, such as no space for a further segment, left the
    /// group unwritten and the log as it was.
    pub(super) fn log_failed(&self, error: &Error) {
        if self.wal.durability().failure().is_some() {
            self.latch_failure(error);
        }
    }

    /// Seals the family's mutable memtable, if it holds anything, and wants its flush. Only the leader calls it.
    pub(super) fn seal(&self, family: &mut WriterFamily, wish: FlushStage) {
        let full = Arc::clone(&family.mutable);
        if full.is_empty() {
            return;
        }
        let fresh = self.new_memtable(&family.data.name, &family.data.options());
        let data = &family.data;
        let replaced = {
            let _state = self.state.lock();
            let pinned = data.pin();
            let mut sealed = Vec::with_capacity(pinned.sealed.len() + 1);
            sealed.push(Arc::clone(&full));
            sealed.extend(pinned.sealed.iter().cloned());
            data.install(pinned.with(Arc::clone(&fresh), sealed, Arc::clone(&pinned.version)))
        };
        drop(replaced);
        family.mutable = fresh;
        full.charge().seal();
        self.stats.memtables_sealed.add(1);
        self.update_sources(data);
        let sealed = data.pin().sealed.len() as u32;
        if wish == FlushStage::SealWanted || sealed >= data.options().min_write_buffer_number_to_merge {
            // Told before the flush can begin: told after its end, the manager would wait for one that never comes.
            self.pressure.flush_queued(data, full.bytes());
            data.want_flush(FlushStage::Queued);
        }
    }

    /// An empty memtable for a family, charged to the manager from its first entry on.
    pub(super) fn new_memtable(&self, family: &Arc<str>, options: &ColumnFamilyOptions) -> Arc<Memtable> {
        let id = self.next_memtable.fetch_add(1, Ordering::Relaxed); // only has to be unique and to grow
        self.pressure.new_memtable(family, options, id, self.clock.now_nanos())
    }

    /// Holds writers until the lock is dropped; what passed the brake before is in the log on return.
    pub(super) fn lock_wal(&self) -> Result<WalLock> {
        self.check_writable()?;
        let lock = WalLock { _stop: self.pressure.lock_wal() };
        // A write between the brake and its end has room in the queue; behind the brake it takes the lead in its turn.
        while self.pressure.has_queued() {
            self.commit.barrier();
            std::thread::yield_now();
        }
        self.flush_wal(false)?;
        Ok(lock)
    }

    /// Hands what the log buffers to the kernel and, with `sync`, to the device; also what was queued before.
    pub(super) fn flush_wal(&self, sync: bool) -> Result<()> {
        self.check_writable()?;
        self.commit.barrier();
        self.wal.flush(sync).inspect_err(|error| self.log_failed(error))?;
        self.purge_bell.ring(); // it tells the subscribers
        Ok(())
    }
}

/// Inserts all entries of a batch whose sequence is set into the mutable memtables.
fn insert<'a>(mutable_of: impl Fn(u32) -> Option<&'a Memtable>, work: &mut Work) {
    let mut entries = BatchReader::new(work.batch.bytes()).expect("a batch of our own making has a header");
    let mut seq = entries.first;
    while let Some(entry) = entries.next().expect("a batch of our own making is whole") {
        let mutable = mutable_of(entry.family).expect("families were checked in step 5");
        if work.durability == Durability::None {
            mutable.note_unlogged();
        }
        mutable.insert(entry.key, seq, entry.value_type, entry.value, &mut work.room.prepaid);
        seq = seq.after(1);
    }
}

#[cfg(test)]
mod tests;
