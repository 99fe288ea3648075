//! The write path, top to bottom.
//!
//! | step | what | a crash here leaves |
//! |--:|---|---|
//! | 1 | check the batch; refuse if closed or read-only | nothing |
//! | 2 | **admit**: the brake says when this batch's own bytes may go; wait here, holding nothing | nothing |
//! | 3 | **commit queue**: take room for the bytes, test the stop again, then join: lead, or wait for a leader | nothing |
//! | 4 | the leader takes the group behind it | nothing |
//! | 5 | make room: a full memtable is sealed and its flush queued | nothing |
//! | 6 | give the group its sequence numbers | nothing |
//! | 7 | **log**: one append for the group, handed to the kernel or synced if a member asks | no fragment, a torn tail, or all of them |
//! | 8 | **insert**: charge each entry, then insert it | the group, as far as the log kept it |
//! | 9 | **publish** the last sequence: readers see all of the group | the same |
//! | 10 | hand the lead on, wake the group | the same; a synced group survives |
//!
//! How a delay is computed, how the log lies on disk and how memtables sort are not known here.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::pressure::Room;
use super::{Shared, WalLock};
use crate::batch::WriteBatch;
use crate::batch::format::{BatchReader, HEADER_LEN};
use crate::column_family::{FamilyData, FlushStage};
use crate::commit::{CommitQueue, Leadership, Turn};
use crate::error::{Error, Result};
use crate::key::SequenceNumber;
use crate::memtable::Memtable;
use crate::options::{ColumnFamilyOptions, Durability, WriteOptions};
use crate::version::FileNumber;
use crate::wal::{LogRecord, Push};

/// The queue in which writes wait for a leader.
pub(super) type Commit = CommitQueue<Work, Writer>;

/// One batch on its way through the commit queue.
#[derive(Debug)]
pub(super) struct Work {
    batch: WriteBatch,
    durability: Durability,
    /// Why this batch alone is refused, once the leader has looked at it.
    refused: Option<Error>,
    /// What it holds of the queue and of the manager; returned before its caller is told.
    room: Room,
}

/// What the leader owns: where writes go, and the next sequence.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) next_seq: SequenceNumber,
    /// By family id; `None` where the family was dropped.
    families: Vec<Option<WriterFamily>>,
    /// Log segments set aside by attempts to go on after a failure, until one succeeds.
    pub(super) failed_segments: Vec<FileNumber>,
    /// Kept between groups for its buffer.
    group: Vec<Work>,
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
        Self { next_seq, families: Vec::new(), failed_segments: Vec::new(), group: Vec::new() }
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
}

impl Shared {
    /// Writes a batch: all of it or nothing.
    pub(super) fn write(&self, batch: WriteBatch, options: &WriteOptions) -> Result<()> {
        // 1. Check the batch; refuse if closed or read-only.
        batch.check(self.identity, self.options.max_batch_bytes)?;
        self.check_writable()?;
        if batch.is_empty() {
            return Ok(());
        }
        let bytes = batch.byte_size();
        self.stats.write_calls.add(1);
        self.stats.bytes_written.add(bytes);
        self.stats.entries_written.add(batch.len() as u64);

        // 2. and 3. Admission by the brake, room in the queue by bytes, and the stop tested once more.
        let room = self.pressure.admit(self, bytes, options)?;
        let work = Work { batch, durability: options.durability, refused: None, room };
        match self.commit.join(work) {
            Turn::Done(outcome) => outcome,
            Turn::Lead(own, leadership) => self.lead(own, leadership),
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

    /// Leads one group: the caller's own batch and those that wait behind it.
    fn lead(&self, own: Work, mut leadership: Leadership<'_, Work, Writer>) -> Result<()> {
        // 4. A group ends before a batch that would make it too large, and before a sync that its head did not ask for.
        let mut room = self.options.commit_group_bytes.saturating_sub(own.batch.byte_size());
        let syncs = own.durability == Durability::Sync;
        let behind = leadership.take_group(|work| {
            let fits = work.batch.byte_size() <= room && (syncs || work.durability != Durability::Sync);
            room = room.saturating_sub(work.batch.byte_size());
            fits
        });
        let writer = leadership.state();
        let mut group = std::mem::take(&mut writer.group);
        group.push(own);
        group.extend(behind);

        let unwinding = LatchIfUnwinding(self);
        let outcome = self.commit_group(writer, &mut group);
        drop(unwinding);

        // 10. Leases return with the drained works; then the successor is woken, then the group.
        let mut outcomes = group.drain(..).map(|work| work.refused.map_or_else(|| outcome.clone(), Err));
        let own_outcome = outcomes.next().unwrap_or(Err(Error::ShutdownInProgress));
        let rest = outcomes.collect::<Vec<_>>();
        leadership.state().group = group;
        leadership.finish(rest);
        if self.sync_ticker.watches_idle()
            && !self.pressure.has_queued()
            && self.sync_ticker.note_idle(self.wal.durability())
        {
            self.purge_bell.ring();
        }
        own_outcome
    }

    /// Steps 5 to 9, for the whole group; batches that are refused alone carry their error.
    fn commit_group(&self, writer: &mut Writer, group: &mut [Work]) -> Result<()> {
        self.check_writable()?;
        self.stats.commit_groups.add(1);

        // 5. Room in every memtable that the group writes to. The charge of the group goes to the memtables that are
        // mutable now.
        for work in group.iter_mut() {
            for id in work.batch.families() {
                match writer.family(id) {
                    None => work.refused = Some(Error::NoSuchColumnFamily { name: format!("#{id}") }),
                    Some(family) if family.mutable.bytes() >= family.data.write_buffer_size() => {
                        self.seal(family, FlushStage::Queued);
                    }
                    Some(_) => {}
                }
            }
        }

        // 6. Sequence numbers, in queue order.
        let mut next = writer.next_seq;
        for work in group.iter_mut().filter(|work| work.refused.is_none()) {
            work.batch.set_sequence(next);
            next = next.after(work.batch.len() as u64);
        }
        let last = SequenceNumber::new(next.get() - 1);

        // 7. The log.
        self.log_group(writer, group)?;
        writer.next_seq = next;

        // 8. Inserts: each charged before it is made.
        for work in group.iter_mut().filter(|work| work.refused.is_none()) {
            insert(writer, work);
        }

        // 9. Publish. Pairs with the acquire load of readers: who sees the sequence sees the entries.
        self.published.store(last.get(), Ordering::Release);
        Ok(())
    }

    /// One append for all logged batches of the group. A failure latches: whether the bytes survive is unknown, so
    /// nothing behind them may be acknowledged.
    fn log_group(&self, writer: &mut Writer, group: &[Work]) -> Result<()> {
        let logged =
            || group.iter().filter(|work| work.refused.is_none() && work.durability != Durability::None);
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
            self.commit.lead().finish([]);
            std::thread::yield_now();
        }
        self.flush_wal(false)?;
        Ok(lock)
    }

    /// Hands what the log buffers to the kernel and, with `sync`, to the device.
    pub(super) fn flush_wal(&self, sync: bool) -> Result<()> {
        self.check_writable()?;
        self.wal.flush(sync).inspect_err(|error| self.log_failed(error))?;
        self.purge_bell.ring(); // it tells the subscribers
        Ok(())
    }
}

/// Makes the database read-only when it is dropped by a panic: a group may then be inserted in part, and the next one
/// would publish that part.
struct LatchIfUnwinding<'a>(&'a Shared);

impl Drop for LatchIfUnwinding<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.latch_failure(&self.0.panicked("the leader of a write group"));
        }
    }
}

/// Inserts all entries of a batch whose sequence is set into the mutable memtables.
fn insert(writer: &mut Writer, work: &mut Work) {
    let mut entries = BatchReader::new(work.batch.bytes()).expect("a batch of our own making has a header");
    let mut seq = entries.first;
    while let Some(entry) = entries.next().expect("a batch of our own making is whole") {
        let family = writer.family(entry.family).expect("families were checked in step 5");
        if work.durability == Durability::None {
            family.mutable.note_unlogged();
        }
        family.mutable.insert(entry.key, seq, entry.value_type, entry.value, &mut work.room.prepaid);
        seq = seq.after(1);
    }
}
