//! [`EventListener`]: who wants to be told what a database does, and what it is told.
//!
//! Whoever causes an event only notes it ([`Events::push`], a short lock and a ring of a bell); one thread of the
//! database tells the listeners, in the order of the notes, with no lock held. So a listener may do what it likes with
//! the database: write, flush, close it; jobs and writers never wait for it. What makes an event is not known here.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use sluicedb_controller::{SourceKind, State};
use sluicedb_wbm::PressureChange;

use crate::env::Clock;
use crate::error::Error;
use crate::info_log::InfoLog;
use crate::jobs::{Bell, Workers};
use crate::sync::Mutex;

/// Events that wait for listeners; beyond it they are dropped, and LOG says how many.
const MOST_WAITING: usize = 1 << 16;

/// Wants to know what a database does: see [`DbOptions::listeners`](crate::DbOptions::listeners).
///
/// Called from one thread of the database, one call at a time, in the order in which things happened, and with no lock
/// held: every method of every database may be called, also writes, flushes and [`Db::close`](crate::Db::close). A slow
/// listener delays what is told next, nothing else. A panic is caught and written to LOG. All that happened before
/// `close` began is told before it returns, or, when a listener closes, after that call of it. A listener that keeps its
/// own [`Db`](crate::Db) must let go of it, or the two keep each other; two listeners must not close each other's
/// database.
pub trait EventListener: Send + Sync {
    /// The manager that the database's memtables are charged to went to another state: normal, delayed, stopped. A
    /// change of the step alone is none.
    fn on_pressure_changed(&self, change: &PressureChange) {
        let _ = change;
    }

    /// A cause of stalls began, ended, or turned from a delay into a stop or back.
    fn on_stall_conditions_changed(&self, change: &StallConditions) {
        let _ = change;
    }

    /// Jobs began or ended, or a column family came nearer to holding writers, or less near. What writers feel is told by the
    /// methods above; this one warns before.
    fn on_background_job_pressure_changed(&self, pressure: &BackgroundJobPressure) {
        let _ = pressure;
    }

    /// A flush ended well; what it wrote is durable and visible.
    fn on_flush_completed(&self, flush: &FlushCompleted) {
        let _ = flush;
    }

    /// A compaction ended well; what it wrote is durable and visible.
    fn on_compaction_completed(&self, compaction: &CompactionCompleted) {
        let _ = compaction;
    }

    /// The database takes no more writes because of `error`, until it is resumed or opened again.
    fn on_background_error(&self, error: &Error) {
        let _ = error;
    }

    /// After a failure the database takes writes again: by [`Db::resume`](crate::Db::resume), or by itself after a full
    /// disk.
    fn on_resumed(&self) {}
}

impl fmt::Debug for dyn EventListener + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventListener")
    }
}

/// A change of what one cause asks of writers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StallConditions {
    /// The column family; none for a cause that all share, the write buffer manager.
    pub family: Option<Arc<str>>,
    /// Before.
    pub previous: State,
    /// After.
    pub current: State,
    /// What asks; its name in statistics is [`SourceKind::cause`].
    pub cause: SourceKind,
}

/// How busy the background is, and how near it is to holding writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackgroundJobPressure {
    /// Column families whose flush is wanted and has not begun.
    pub flushes_wanted: u32,
    /// Flushes that run.
    pub flushes_running: u32,
    /// Compactions that run.
    pub compactions_running: u32,
    /// Compaction is behind: as many may run at once as
    /// [`max_background_compactions`](crate::DbOptions::max_background_compactions) allows.
    pub compactions_sped_up: bool,
    /// How near the column family that is nearest is to holding writers, by L0 files, pending bytes or memtables: 0 is
    /// healthy, 100 is where a delay (or, where there is none before it, the stop) begins, and more is beyond.
    pub write_stall_proximity_percent: u32,
}

/// A flush that ended well.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlushCompleted {
    /// The column family.
    pub family: Arc<str>,
    /// Number of the SST; none if the memtables held no entry.
    pub file: Option<u64>,
    /// Memtables that were flushed.
    pub memtables: usize,
    /// Bytes of the SST.
    pub bytes: u64,
    /// How long it took.
    pub took: Duration,
}

/// A compaction that ended well.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactionCompleted {
    /// The column family.
    pub family: Arc<str>,
    /// The level that it filled.
    pub output_level: usize,
    /// Files were moved as they are; nothing was read or written.
    pub moved: bool,
    /// Files that went in.
    pub input_files: usize,
    /// Files that came out.
    pub output_files: usize,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Entries read.
    pub entries_read: u64,
    /// Entries that were hidden by newer ones, or deleted.
    pub entries_dropped: u64,
    /// How long it took.
    pub took: Duration,
}

/// Something to be told.
#[derive(Debug)]
pub(crate) enum Event {
    Pressure(PressureChange),
    Stall(StallConditions),
    JobPressure(BackgroundJobPressure),
    Flush(FlushCompleted),
    Compaction(CompactionCompleted),
    BackgroundError(Error),
    Resumed,
}

/// What happened and has not been told yet, and who is told.
#[derive(Debug)]
pub(crate) struct Events {
    listeners: Vec<Arc<dyn EventListener>>,
    /// A leaf: taken with other leaves held, never the other way.
    waiting: Mutex<Waiting>,
    bell: Arc<Bell>,
    clock: Arc<dyn Clock>,
    info_log: Arc<InfoLog>,
    thread: Workers,
}

#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<Event>,
    /// Dropped since the last event that was told.
    dropped: u64,
    /// Nothing more will come.
    ended: bool,
}

impl Events {
    pub(crate) fn new(
        listeners: Vec<Arc<dyn EventListener>>,
        clock: &Arc<dyn Clock>,
        info_log: &Arc<InfoLog>,
    ) -> Arc<Self> {
        Arc::new(Self {
            listeners,
            waiting: Mutex::default(),
            bell: Bell::new(clock),
            clock: Arc::clone(clock),
            info_log: Arc::clone(info_log),
            thread: Workers::default(),
        })
    }

    /// Whether there is anybody to be told.
    pub(crate) fn has_listeners(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// Notes an event, to be told after all that were noted before. May be called with any lock held: it only marks and
    /// wakes. Without listeners it does nothing.
    pub(crate) fn push(&self, event: impl FnOnce() -> Event) {
        if self.listeners.is_empty() {
            return;
        }
        let event = event();
        {
            let mut waiting = self.waiting.lock();
            if waiting.ended {
                return;
            }
            if waiting.events.len() >= MOST_WAITING {
                waiting.dropped += 1;
                return;
            }
            waiting.events.push_back(event);
        }
        self.bell.ring();
    }

    /// Starts the thread that tells, if there is anybody to be told.
    pub(crate) fn start(self: &Arc<Self>) -> io::Result<()> {
        if self.listeners.is_empty() {
            return Ok(());
        }
        let events = Arc::clone(self);
        let announced = self.clock.announce_thread();
        self.thread.spawn("sluice-event-0".to_owned(), move || {
            let _counted = announced.enter();
            events.tell_until_ended();
        })
    }

    /// Tells what is left and ends the thread. Called by a listener, it does not wait: the rest is told after the listener
    /// has returned.
    pub(crate) fn finish(&self) {
        self.waiting.lock().ended = true;
        self.bell.ring();
        self.thread.join();
    }

    fn tell_until_ended(&self) {
        loop {
            let seen = self.bell.rings();
            let (next, dropped, ended) = {
                let mut waiting = self.waiting.lock();
                (waiting.events.pop_front(), std::mem::take(&mut waiting.dropped), waiting.ended)
            };
            if dropped > 0 {
                self.info_log.error(&format!("listeners are too slow: {dropped} events were not told"));
            }
            match next {
                Some(event) => self.tell(&event),
                None if ended => return,
                None => self.bell.wait_past(seen),
            }
        }
    }

    fn tell(&self, event: &Event) {
        for (n, listener) in self.listeners.iter().enumerate() {
            let told = catch_unwind(AssertUnwindSafe(|| match event {
                Event::Pressure(change) => listener.on_pressure_changed(change),
                Event::Stall(change) => listener.on_stall_conditions_changed(change),
                Event::JobPressure(pressure) => listener.on_background_job_pressure_changed(pressure),
                Event::Flush(flush) => listener.on_flush_completed(flush),
                Event::Compaction(compaction) => listener.on_compaction_completed(compaction),
                Event::BackgroundError(error) => listener.on_background_error(error),
                Event::Resumed => listener.on_resumed(),
            }));
            if told.is_err() {
                self.info_log.error(&format!("listener {n} panicked when it was told {event:?}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use sluicedb_controller::SystemClock;

    use super::*;
    use crate::env::DiskFileSystem;

    /// Keeps what it is told; panics on every flush of 13 memtables.
    #[derive(Default)]
    struct Notes(Mutex<Vec<String>>);

    impl Notes {
        fn add(&self, text: String) {
            self.0.lock().push(text);
        }
    }

    impl EventListener for Notes {
        fn on_flush_completed(&self, flush: &FlushCompleted) {
            assert!(flush.memtables != 13, "unlucky");
            self.add(format!("flush {}", flush.memtables));
        }

        fn on_resumed(&self) {
            self.add("resumed".to_owned());
        }
    }

    fn flush(memtables: usize) -> Event {
        let family = "default".into();
        Event::Flush(FlushCompleted { family, file: None, memtables, bytes: 0, took: Duration::ZERO })
    }

    fn events(listeners: Vec<Arc<dyn EventListener>>) -> Arc<Events> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        // A directory that is not there: LOG is a file that cannot be made.
        let nowhere = std::env::temp_dir().join("sluicedb-no-such-directory/none");
        let info_log = Arc::new(InfoLog::create(&DiskFileSystem, &nowhere, Arc::clone(&clock)));
        Events::new(listeners, &clock, &info_log)
    }

    /// What is noted before the thread starts, and while it runs, is told in order; a panic costs one listener one event.
    #[test]
    fn told_in_order_despite_panics() {
        let (first, second) = (Arc::new(Notes::default()), Arc::new(Notes::default()));
        let events = events(vec![Arc::clone(&first) as _, Arc::clone(&second) as _]);
        events.push(|| flush(1));
        events.start().unwrap();
        events.push(|| flush(13));
        events.push(|| Event::Resumed);
        (2..10).for_each(|memtables| events.push(|| flush(memtables)));
        events.finish();
        events.push(|| flush(99)); // too late
        let mut expected = vec!["flush 1".to_owned(), "resumed".to_owned()];
        expected.extend((2..10).map(|memtables| format!("flush {memtables}")));
        assert_eq!(*first.0.lock(), expected);
        assert_eq!(*second.0.lock(), expected);
    }

    /// Many threads push; each one's events are told in its order, and none is lost.
    #[test]
    fn many_threads_lose_nothing() {
        struct Sum([AtomicU64; 4], AtomicBool);
        impl EventListener for Sum {
            fn on_flush_completed(&self, flush: &FlushCompleted) {
                let (thread, count) = (flush.memtables % 4, flush.memtables as u64 / 4);
                let last = self.0[thread].swap(count, Ordering::Relaxed);
                self.1.fetch_or(count != last + 1, Ordering::Relaxed);
            }
        }
        let sum = Arc::new(Sum(Default::default(), AtomicBool::new(false)));
        let events = events(vec![Arc::clone(&sum) as _]);
        events.start().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let events = &events;
                scope.spawn(move || {
                    (1..=2_500).for_each(|count| events.push(|| flush(count * 4 + thread)));
                });
            }
        });
        events.finish();
        assert!(!sum.1.load(Ordering::Relaxed), "out of order");
        assert!(sum.0.iter().all(|last| last.load(Ordering::Relaxed) == 2_500));
    }

    /// A queue that nobody empties keeps the oldest events and stops growing.
    #[test]
    fn the_queue_has_an_end() {
        let events = events(vec![Arc::new(Notes::default()) as _]);
        (0..MOST_WAITING + 5).for_each(|memtables| events.push(|| flush(memtables)));
        let waiting = events.waiting.lock();
        assert_eq!((waiting.events.len(), waiting.dropped), (MOST_WAITING, 5));
    }

    /// Without listeners nothing is made, kept or started.
    #[test]
    fn nobody_to_tell() {
        let events = events(Vec::new());
        events.start().unwrap();
        events.push(|| unreachable!("not made"));
        assert!(events.waiting.lock().events.is_empty());
        events.finish();
    }
}
