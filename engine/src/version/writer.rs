//! [`ManifestWriter`]: makes edits durable on the manifest's own thread, all that wait with one sync.
//!
//! ```text
//!   committers --edit--> waiting --one job takes all--> apply, append, sync --outcome, turn--> committers install, in turn
//! ```
//!
//! A committer waits for its edit without a lock, and installs what it made when all edits before it in the file are
//! installed. The position of the log goes along with any edit, and alone when it is due. A record that holds no more than
//! a position may fail: the manifest then goes on in a new file. Any other failure is the committers', and sticky.
//!
//! What edits are made for is not known here.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::FileNumber;
use super::set::{EditError, FileNumbers, ManifestState, NewVersions};
use crate::env::{Clock, FileSystem};
use crate::error::{Corruption, Error, Result};
use crate::filename::manifest_name;
use crate::jobs::JobError;
use crate::manifest::{ManifestGuard, ManifestLog, PositionOptions, PositionPlan, VersionEdit};
use crate::sync::{Condvar, Mutex};
use crate::wal::{SyncedPosition, WalEdit};

/// A manifest longer than this, and than twice its length when it was last written anew, is written anew.
const ROLL_OVER_BYTES: u64 = 4 << 20;

/// What the log can prove to be synced now; `None` after a failure of it.
pub(crate) type PositionSource = Box<dyn Fn() -> Option<SyncedPosition> + Send + Sync>;

/// The manifest, what it says, and the edits on their way into it.
pub(super) struct ManifestWriter {
    pub(super) fs: Arc<dyn FileSystem>,
    pub(super) dir: PathBuf,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) manifest: ManifestLog,
    /// Length at which the manifest is written anew. Changed with the manifest's lock held.
    roll_over_at: AtomicU64,
    /// What the manifest says. Written with the manifest's lock held; a leaf lock of its own lets others look.
    pub(super) state: Mutex<ManifestState>,
    pub(super) numbers: Arc<FileNumbers>,
    pub(super) next_family: AtomicU32,
    waiting: Mutex<Vec<Arc<PendingEdit>>>,
    turns: Turns,
    position: PositionSource,
    pub(super) plan: Mutex<PositionPlan>,
}

/// An edit that waits to be written.
pub(super) struct PendingEdit {
    /// The edit, and the number of levels of a family that it creates.
    edit: Mutex<Option<(VersionEdit, usize)>>,
    outcome: Mutex<Option<Result<(u64, NewVersions)>>>,
}

impl ManifestWriter {
    pub(super) fn new(
        fs: &Arc<dyn FileSystem>,
        dir: &Path,
        clock: &Arc<dyn Clock>,
        mut state: ManifestState,
        numbers: Arc<FileNumbers>,
        options: PositionOptions,
        position: PositionSource,
    ) -> Result<Self> {
        let number = numbers.take();
        state.next_file = numbers.next();
        let manifest = ManifestLog::create(Arc::clone(fs), dir, number, &state.to_edits())?;
        let size = manifest.lock().size();
        let saved = state.wal.synced.map_or(0, |synced| synced.stream_bytes);
        Ok(Self {
            fs: Arc::clone(fs),
            dir: dir.to_owned(),
            clock: Arc::clone(clock),
            roll_over_at: AtomicU64::new(ROLL_OVER_BYTES.max(2 * size)),
            next_family: AtomicU32::new(state.next_family),
            manifest,
            state: Mutex::new(state),
            numbers,
            waiting: Mutex::default(),
            turns: Turns::default(),
            position,
            plan: Mutex::new(PositionPlan::new(options, saved, clock.now_nanos())),
        })
    }

    /// Of a database that is open for reading only: no edit is taken.
    pub(super) fn read_only(
        fs: &Arc<dyn FileSystem>,
        dir: &Path,
        clock: &Arc<dyn Clock>,
        state: ManifestState,
        manifest: FileNumber,
        refusal: Error,
    ) -> Self {
        Self {
            fs: Arc::clone(fs),
            dir: dir.to_owned(),
            clock: Arc::clone(clock),
            manifest: ManifestLog::read_only(Arc::clone(fs), dir, manifest, refusal),
            roll_over_at: AtomicU64::new(u64::MAX),
            next_family: AtomicU32::new(state.next_family),
            numbers: Arc::new(FileNumbers::starting_at(state.next_file)),
            state: Mutex::new(state),
            waiting: Mutex::default(),
            turns: Turns::default(),
            position: Box::new(|| None),
            plan: Mutex::new(PositionPlan::new(PositionOptions::NEVER, 0, clock.now_nanos())),
        }
    }

    /// Puts an edit into the queue. A call of [`write_waiting`](Self::write_waiting) must follow.
    pub(super) fn enqueue(&self, edit: VersionEdit, num_levels: usize) -> Arc<PendingEdit> {
        let pending = PendingEdit { edit: Mutex::new(Some((edit, num_levels))), outcome: Mutex::new(None) };
        let pending = Arc::new(pending);
        self.waiting.lock().push(Arc::clone(&pending));
        pending
    }

    /// What became of an edit, after its job has ended. One that was not written is taken back.
    pub(super) fn outcome_of(
        &self,
        pending: &Arc<PendingEdit>,
        ended: Result<(), JobError>,
    ) -> Result<(u64, NewVersions)> {
        self.waiting.lock().retain(|other| !Arc::ptr_eq(other, pending));
        let outcome = pending.outcome.lock().take();
        outcome.unwrap_or_else(|| match ended {
            Err(JobError::Panicked(message)) => {
                let found = Corruption::bad("the manifest's thread", "to write an edit", message);
                Err(Error::corrupt(&self.dir, 0, found))
            }
            _ => Err(Error::ShutdownInProgress),
        })
    }

    /// Lets the edit of this turn install, after all before it.
    pub(super) fn in_turn<T>(&self, turn: u64, install: impl FnOnce() -> T) -> T {
        let _ends = self.turns.wait_for(turn);
        install()
    }

    /// Writes all edits that wait, and the log's position with them; alone if it is due, or if `forced` is news. The
    /// manifest thread's job.
    pub(super) fn write_waiting(&self, forced: Option<SyncedPosition>) {
        let batch = std::mem::take(&mut *self.waiting.lock());
        let now = self.clock.now_nanos();
        let mut tail = self.manifest.lock();
        let mut state = self.state.lock().clone();
        let mut edits = Vec::with_capacity(batch.len() + 1);
        let mut made = Vec::with_capacity(batch.len());
        for pending in batch {
            let Some((mut edit, num_levels)) = pending.edit.lock().take() else { continue };
            edit.next_file_number = Some(self.numbers.next());
            edit.next_family_id = Some(self.next_family.load(Ordering::Relaxed));
            match state.apply(&edit, num_levels) {
                Ok(versions) => {
                    // Never smaller than what an edit before it in the same record says: the last one counts.
                    let first_needed = edit.wal.first_needed.map(|_| state.wal.first_needed);
                    edit.wal.first_needed = first_needed;
                    edits.push(edit);
                    made.push((pending, versions));
                }
                Err(error) => *pending.outcome.lock() = Some(Err(refusal(error))),
            }
        }
        let position = self.position_for(&edits, &state, forced, now);
        if let Some(position) = position {
            let wal = WalEdit { synced: Some(position), ..WalEdit::default() };
            state.wal.apply(&wal);
            edits.push(VersionEdit { wal, ..VersionEdit::default() });
        }
        if edits.is_empty() {
            return;
        }
        let mut written = self.write(&mut tail, &edits, &mut state);
        if written.is_err() && made.is_empty() {
            // Only a position: no acknowledgement hangs on it, and what may be torn is left behind at once.
            self.plan.lock().failed(now);
            written = self.roll_over(&mut tail, &mut state).map(Some);
        }
        let replaced = match written {
            Ok(replaced) => replaced,
            Err(error) => {
                log::warn!("could not write the manifest in {}: {error}", self.dir.display());
                drop(tail);
                made.into_iter().for_each(|(pending, _)| *pending.outcome.lock() = Some(Err(error.clone())));
                return;
            }
        };
        if let Some(position) = position {
            self.plan.lock().saved(position.stream_bytes, now);
        }
        // Nothing here may hold a file or a version when the committers go on: who lets one go then must ring.
        drop(edits);
        let before = std::mem::replace(&mut *self.state.lock(), state);
        drop(before);
        for (pending, versions) in made {
            *pending.outcome.lock() = Some(Ok((self.turns.next(), versions)));
        }
        drop(tail);
        if let Some(number) = replaced {
            // What cannot be removed now goes at the next open.
            let _ = self.fs.remove(&self.dir.join(manifest_name(number)));
        }
    }

    /// The position that goes with these edits, if there is news: only what was synced, never below the obsolete mark,
    /// and none beside an edit that sets one itself.
    fn position_for(
        &self,
        edits: &[VersionEdit],
        state: &ManifestState,
        forced: Option<SyncedPosition>,
        now: u64,
    ) -> Option<SyncedPosition> {
        if edits.iter().any(|edit| edit.wal.synced.is_some()) {
            return None;
        }
        let position = forced.or_else(|| (self.position)())?;
        let plan = self.plan.lock();
        let is_due = forced.is_some()
            || !edits.is_empty()
            || plan.due_at(position.stream_bytes).is_some_and(|due| due <= now);
        let is_news = plan.is_news(position.stream_bytes) || plan.has_failed();
        (is_due && is_news && position.segment >= state.wal.first_needed).then_some(position)
    }

    /// One record, or a new file where the old one is long or ends in a position that failed. The number of a file that was
    /// replaced comes back.
    fn write(
        &self,
        tail: &mut ManifestGuard<'_>,
        edits: &[VersionEdit],
        state: &mut ManifestState,
    ) -> Result<Option<FileNumber>> {
        let is_long = tail.size() > self.roll_over_at.load(Ordering::Relaxed);
        if is_long || self.plan.lock().has_failed() {
            return self.roll_over(tail, state).map(Some);
        }
        tail.append_and_sync_all(edits).map(|()| None)
    }

    /// Goes on in a new file, written from `state`. The number of the old one comes back.
    pub(super) fn roll_over(
        &self,
        tail: &mut ManifestGuard<'_>,
        state: &mut ManifestState,
    ) -> Result<FileNumber> {
        let number = self.numbers.take();
        state.next_file = state.next_file.max(self.numbers.next());
        let replaced = tail.roll_over(number, &state.to_edits())?;
        self.roll_over_at.store(ROLL_OVER_BYTES.max(2 * tail.size()), Ordering::Relaxed);
        self.plan.lock().healed();
        Ok(replaced)
    }

    /// Writes what waits, and the position with it.
    #[cfg(feature = "bench-arms")]
    pub(super) fn save_now(&self) {
        if let Some(position) = (self.position)() {
            self.write_waiting(Some(position));
        }
    }

    /// When the position is due to be saved, if there is one to save.
    pub(super) fn position_due_at(&self) -> Option<u64> {
        let position = (self.position)()?;
        self.plan.lock().due_at(position.stream_bytes)
    }

    /// Segments by which the recorded position lags behind the synced one.
    pub(super) fn lag_segments(&self) -> u64 {
        (self.position)().map_or(0, |position| self.plan.lock().lag_segments(position.stream_bytes))
    }
}

impl std::fmt::Debug for ManifestWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ManifestWriter").field("dir", &self.dir).finish_non_exhaustive()
    }
}

fn refusal(error: EditError) -> Error {
    match error {
        EditError::NoSuchFamily(id) => Error::NoSuchColumnFamily { name: format!("#{id}") },
        EditError::Inconsistent(why) => why.at_install(),
    }
}

/// Edits install in the order of the file: each waits for the ones before it.
#[derive(Debug, Default)]
struct Turns {
    given: AtomicU64,
    ended: Mutex<u64>,
    changed: Condvar,
}

impl Turns {
    /// The next turn. With the manifest's lock held.
    fn next(&self) -> u64 {
        self.given.fetch_add(1, Ordering::Relaxed)
    }

    fn wait_for(&self, turn: u64) -> EndsTurn<'_> {
        let mut ended = self.ended.lock();
        while *ended < turn {
            self.changed.wait(&mut ended);
        }
        EndsTurn(self)
    }
}

/// Ends a turn when dropped, by a panic too.
struct EndsTurn<'a>(&'a Turns);

impl Drop for EndsTurn<'_> {
    fn drop(&mut self) {
        *self.0.ended.lock() += 1;
        self.0.changed.notify_all();
    }
}
