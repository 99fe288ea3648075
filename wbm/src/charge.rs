//! [`Charge`]: what one memtable owes the manager. A token, so that it cannot be returned twice.
//!
//! ```text
//! mutable --seal--> sealed --flush_started--> flushing --flushed--> pinned --drop--> (returned)
//!                     ^                          |
//!                     +------ flush_failed ------+
//! ```
//!
//! Calls in another order are made good: missing earlier transitions run first, late ones change nothing. Growing is
//! the hot path and takes no lock; the transitions are rare and share one small lock per charge. What the bytes hold
//! is not known here.

use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use crate::database::{Advance, DatabaseShared, Queued};
use crate::manager::WriteBufferManager;
use crate::sync::Mutex;
use crate::usage::shift;
use crate::{Holder, MemtableState, PinKind, UsageReport};

/// The bytes that one memtable owes. Dropping it returns the rest, whatever its state.
///
/// Invariant, charge-before-insert: the charge covers an entry before the entry is reachable in the memtable.
#[derive(Debug)]
pub struct Charge {
    shared: Arc<ChargeShared>,
}

#[derive(Debug)]
pub(crate) struct ChargeShared {
    /// All bytes taken and not given back.
    taken: AtomicU64,
    /// Whether [`Charge::grow`] may add without looking at the books: the memtable is mutable and in the pressure.
    fast: AtomicU8,
    books: Mutex<Books>,
    pub(crate) manager: Arc<WriteBufferManager>,
    pub(crate) database: Arc<DatabaseShared>,
    id: u64,
    family: Arc<str>,
}

/// How the bytes were booked last. `taken` may be ahead while a writer grows the charge.
#[derive(Debug)]
struct Books {
    state: MemtableState,
    /// Why it is out of the pressure although its state would be in it, or who pins it.
    pin: Option<PinKind>,
    /// Since when the state, or the pin, ns.
    since: u64,
    immutable: u64,
    flushing: u64,
    /// Counted as pinned instead of used.
    outside: u64,
    flush_written: u64,
    overhead: u64,
    returned: bool,
}

impl Charge {
    pub(crate) fn open(
        manager: Arc<WriteBufferManager>,
        database: Arc<DatabaseShared>,
        id: u64,
        family: Arc<str>,
        aside: Option<PinKind>,
        now: u64,
    ) -> Self {
        let books = Books {
            state: MemtableState::Mutable,
            pin: aside,
            since: now,
            immutable: 0,
            flushing: 0,
            outside: 0,
            flush_written: 0,
            overhead: 0,
            returned: false,
        };
        let shared = ChargeShared {
            taken: AtomicU64::new(0),
            fast: AtomicU8::new(u8::from(aside.is_none())),
            books: Mutex::new(books),
            manager,
            database,
            id,
            family,
        };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn shared(&self) -> &Arc<ChargeShared> {
        &self.shared
    }

    /// Takes `bytes` more. Call it before the bytes become reachable in the memtable. Never blocks, never fails: the
    /// brake works before the write, not in it.
    #[inline]
    pub fn grow(&self, bytes: u64) {
        let shared = &*self.shared;
        // Relaxed: a transition that this load misses books the bytes itself, or the next one does.
        if shared.fast.load(Ordering::Relaxed) == 0 {
            return shared.grow_booked(bytes);
        }
        let used = shared.manager.add(bytes);
        // Release, and after `used`: a transition that sees these bytes as taken moves them out of `used`, where they
        // must be by then; the other way round `used` would fall below 0 for a moment, that is, far above the quota.
        // SeqCst: before it is looked whether somebody missed them.
        shared.taken.fetch_add(bytes, Ordering::SeqCst);
        shared.manager.look(used);
    }

    /// Takes `bytes` more, as much of it as is left from `advance`: those count already.
    pub fn grow_from_advance(&self, advance: &mut Advance, bytes: u64) {
        let moved = advance.take(bytes);
        self.shared.taken.fetch_add(moved, Ordering::Relaxed); // as in `grow`
        self.shared.rebook_if_slow();
        if moved > 0 && advance.bytes() == 0 {
            self.shared.manager.advance_used_up();
        }
        if bytes > moved {
            self.grow(bytes - moved);
        }
    }

    /// Takes `bytes` more, and up to as many out of what `queued` counts: no byte is ever in both.
    pub fn grow_from_queue(&self, queued: &mut Queued, bytes: u64) {
        queued.take(bytes);
        self.grow(bytes);
    }

    /// Gives `bytes` back, at most what was taken: a batch failed after it was charged.
    pub fn give_back(&self, bytes: u64) {
        self.shared.give_back(bytes);
    }

    /// Declares fixed costs of the memtable, in bytes: reported, no part of the pressure.
    pub fn set_overhead(&self, bytes: u64) {
        let shared = &*self.shared;
        let mut books = shared.books.lock();
        let before = std::mem::replace(&mut books.overhead, bytes);
        shift(&shared.manager.usage().overhead, before, bytes);
    }

    /// The memtable takes no more writes.
    pub fn seal(&self) {
        self.shared.advance_to(MemtableState::Sealed, None);
    }

    /// A flush job has picked it, before it does any work.
    pub fn flush_started(&self) {
        self.shared.advance_to(MemtableState::Flushing, None);
    }

    /// The job has written `bytes` of it so far. Without effect unless the manager has `flush_progress_credit`.
    pub fn flush_progress(&self, bytes: u64) {
        self.shared.flush_progress(bytes);
    }

    /// The job failed or was rolled back: flushing becomes sealed again; any other state stays.
    pub fn flush_failed(&self) {
        self.shared.flush_failed();
    }

    /// Its SST is installed: the bytes leave the pressure. What still holds the memtable pins them until the charge is
    /// dropped.
    pub fn flushed(&self) {
        self.shared.advance_to(MemtableState::Pinned, Some(PinKind::Reader));
    }

    /// Like [`flushed`](Self::flushed), or for a memtable that no flush will free: names who pins it.
    pub fn pinned_by(&self, kind: PinKind) {
        self.shared.advance_to(MemtableState::Pinned, Some(kind));
    }

    /// Bytes taken and not given back.
    pub fn bytes(&self) -> u64 {
        self.shared.taken.load(Ordering::SeqCst)
    }

    /// Where the memtable is in its life.
    pub fn state(&self) -> MemtableState {
        self.shared.books.lock().state
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.shared.database.forget_charge(self.shared.id);
        self.shared.return_all();
    }
}

impl Books {
    /// Whether the bytes are out of the pressure.
    fn is_out(&self) -> bool {
        self.returned || self.pin.is_some() || self.state == MemtableState::Pinned
    }
}

impl ChargeShared {
    fn grow_booked(&self, bytes: u64) {
        {
            let mut books = self.books.lock();
            self.taken.fetch_add(bytes, Ordering::Relaxed); // as in `grow`
            self.manager.usage().used.fetch_add(bytes, Ordering::SeqCst);
            self.book(&mut books);
        }
        self.manager.moved();
    }

    fn rebook_if_slow(&self) {
        if self.fast.load(Ordering::Relaxed) == 0 {
            self.book(&mut self.books.lock());
            self.manager.moved();
        }
    }

    fn give_back(&self, bytes: u64) {
        {
            let mut books = self.books.lock();
            self.book(&mut books);
            let given = bytes.min(self.taken.load(Ordering::SeqCst));
            self.taken.fetch_sub(given, Ordering::SeqCst);
            let usage = self.manager.usage();
            if books.is_out() {
                books.outside -= given;
                usage.pinned.fetch_sub(given, Ordering::SeqCst);
            } else {
                usage.used.fetch_sub(given, Ordering::SeqCst);
            }
            self.book(&mut books);
        }
        self.manager.freed();
    }

    fn advance_to(&self, state: MemtableState, pin: Option<PinKind>) {
        let now = self.manager.now();
        {
            let mut books = self.books.lock();
            if books.returned || state < books.state || (state == books.state && pin == books.pin) {
                return;
            }
            // Who pins it may change; since when it is pinned does not.
            if books.state != state {
                books.since = now;
            }
            books.state = state;
            if pin.is_some() {
                books.pin = pin;
            }
            self.fast.store(0, Ordering::Relaxed);
            self.book(&mut books);
        }
        if state == MemtableState::Pinned {
            self.manager.freed();
        } else {
            self.manager.moved();
        }
    }

    fn flush_failed(&self) {
        let now = self.manager.now();
        {
            let mut books = self.books.lock();
            if books.state != MemtableState::Flushing {
                return;
            }
            books.state = MemtableState::Sealed;
            books.since = now;
            self.book(&mut books);
        }
        self.manager.moved();
    }

    fn flush_progress(&self, bytes: u64) {
        if !self.manager.credits_flush_progress() {
            return;
        }
        {
            let mut books = self.books.lock();
            if books.state != MemtableState::Flushing || books.pin.is_some() {
                return;
            }
            let written = bytes.min(self.taken.load(Ordering::SeqCst));
            let before = std::mem::replace(&mut books.flush_written, written);
            shift(&self.manager.usage().flush_written, before, written);
        }
        self.manager.moved();
    }

    /// Takes the bytes out of the pressure while its database can flush nothing, or back into it.
    pub(crate) fn set_aside(&self, aside: Option<PinKind>, now: u64) {
        let mut books = self.books.lock();
        if books.returned || books.state == MemtableState::Pinned || books.pin == aside {
            return;
        }
        if books.state == MemtableState::Flushing {
            books.state = MemtableState::Sealed;
        }
        books.pin = aside;
        books.since = now;
        let fast = aside.is_none() && books.state == MemtableState::Mutable;
        self.fast.store(u8::from(fast), Ordering::Relaxed);
        self.book(&mut books);
    }

    /// Books all that was taken by the present state. The amounts booked before are known, so whatever a racing
    /// [`Charge::grow`] added to `used` in between is found and moved too.
    fn book(&self, books: &mut Books) {
        let taken = self.taken.load(Ordering::SeqCst);
        let out = books.is_out();
        let outside = if out { taken } else { 0 };
        let immutable = if out || books.state == MemtableState::Mutable { 0 } else { taken };
        let flushing = if !out && books.state == MemtableState::Flushing { taken } else { 0 };
        let written = if flushing > 0 { books.flush_written.min(flushing) } else { 0 };
        let usage = self.manager.usage();
        // Parts before the whole on the way down, so that no reader sees a part above it for long.
        shift(&usage.flushing, books.flushing, flushing);
        shift(&usage.immutable, books.immutable, immutable);
        shift(&usage.pinned, books.outside, outside);
        shift(&usage.flush_written, books.flush_written, written);
        shift(&usage.used, outside, books.outside);
        books.flushing = flushing;
        books.immutable = immutable;
        books.outside = outside;
        books.flush_written = written;
    }

    fn return_all(&self) {
        let was_used = {
            let mut books = self.books.lock();
            // First as if pinned, then what is pinned goes.
            let was_used = books.outside < self.taken.load(Ordering::SeqCst);
            books.returned = true;
            self.fast.store(0, Ordering::Relaxed);
            self.book(&mut books);
            let gone = std::mem::take(&mut books.outside);
            let overhead = std::mem::take(&mut books.overhead);
            self.taken.fetch_sub(gone, Ordering::SeqCst);
            let usage = self.manager.usage();
            usage.pinned.fetch_sub(gone, Ordering::SeqCst);
            usage.overhead.fetch_sub(overhead, Ordering::SeqCst);
            was_used
        };
        if was_used {
            self.manager.freed();
        } else {
            self.manager.moved();
        }
    }

    /// Adds its bytes to a report, by state.
    pub(crate) fn add_to(&self, report: &mut UsageReport) {
        let books = self.books.lock();
        let taken = self.taken.load(Ordering::SeqCst);
        report.overhead += books.overhead;
        if books.is_out() {
            report.pinned += taken;
            return;
        }
        report.used += taken;
        match books.state {
            MemtableState::Mutable => report.mutable += taken,
            MemtableState::Sealed => report.sealed += taken,
            MemtableState::Flushing | MemtableState::Pinned => report.flushing += taken,
        }
    }

    pub(crate) fn holder(&self, now: u64) -> Holder {
        let books = self.books.lock();
        Holder {
            database: Arc::clone(&self.database.name),
            family: Arc::clone(&self.family),
            state: if books.pin.is_some() { MemtableState::Pinned } else { books.state },
            pinned_by: books.pin,
            bytes: self.taken.load(Ordering::SeqCst),
            age: Duration::from_nanos(now.saturating_sub(books.since)),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
