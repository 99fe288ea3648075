//! Events of the engine for the data file: stalls that begin and end, flushes, compactions, failures.
//!
//! Owns the shape `event`. A [`EventLog`] is told by the databases' own threads and only notes; whoever writes the file
//! takes the notes out. Seconds count from the beginning of the benchmark that runs, and of the run between benchmarks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};
use sluicedb::{CompactionCompleted, Error, EventListener, FlushCompleted, StallConditions, State};

/// What happened and is not in the file yet.
#[derive(Debug)]
pub struct EventLog {
    notes: Mutex<Notes>,
}

#[derive(Debug)]
struct Notes {
    bench: Option<&'static str>,
    begin: Instant,
    waiting: Vec<Value>,
}

impl EventLog {
    /// A log of a run that begins now.
    pub fn new() -> Arc<Self> {
        let notes = Notes { bench: None, begin: Instant::now(), waiting: Vec::new() };
        Arc::new(Self { notes: Mutex::new(notes) })
    }

    /// What follows belongs to `bench`, whose clock starts now; `None`: to no benchmark.
    pub fn begin(&self, bench: Option<&'static str>) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        (notes.bench, notes.begin) = (bench, Instant::now());
    }

    /// Takes out what is noted, in order.
    pub fn take(&self) -> Vec<Value> {
        std::mem::take(&mut self.notes.lock().unwrap_or_else(PoisonError::into_inner).waiting)
    }

    fn note(&self, event: &str, db: usize, mut details: Value) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = (notes.begin.elapsed().as_secs_f64() * 1000.0).round() / 1000.0;
        let mut object =
            json!({ "t": "event", "bench": notes.bench, "s": seconds, "event": event, "db": db });
        if let (Some(object), Some(details)) = (object.as_object_mut(), details.as_object_mut()) {
            object.append(details);
        }
        notes.waiting.push(object);
    }

    /// The listener of database number `db`.
    pub fn listener(self: &Arc<Self>, db: usize) -> Arc<dyn EventListener> {
        Arc::new(Listener { log: Arc::clone(self), db })
    }
}

struct Listener {
    log: Arc<EventLog>,
    db: usize,
}

impl EventListener for Listener {
    fn on_stall_conditions_changed(&self, change: &StallConditions) {
        // What all databases share is told by the first.
        if change.family.is_none() && self.db > 0 {
            return;
        }
        let details = || json!({ "cf": change.family.as_deref(), "cause": change.cause.cause() });
        let name = |state| match state {
            State::Normal => None,
            State::Delayed => Some("delay"),
            State::Stopped => Some("stop"),
        };
        if let Some(name) = name(change.previous) {
            self.log.note(&format!("{name}-end"), self.db, details());
        }
        if let Some(name) = name(change.current) {
            self.log.note(&format!("{name}-begin"), self.db, details());
        }
    }

    fn on_flush_completed(&self, flush: &FlushCompleted) {
        let details = json!({
            "cf": &*flush.family, "file": flush.file, "memtables": flush.memtables, "bytes": flush.bytes,
            "us": flush.took.as_micros() as u64,
        });
        self.log.note("flush", self.db, details);
    }

    fn on_compaction_completed(&self, compaction: &CompactionCompleted) {
        let details = json!({
            "cf": &*compaction.family, "level": compaction.output_level, "moved": compaction.moved,
            "files_in": compaction.input_files, "files_out": compaction.output_files,
            "bytes_in": compaction.bytes_read, "bytes": compaction.bytes_written,
            "us": compaction.took.as_micros() as u64,
        });
        self.log.note("compaction", self.db, details);
    }

    fn on_background_error(&self, error: &Error) {
        self.log.note("error", self.db, json!({ "text": error.to_string() }));
    }

    fn on_resumed(&self) {
        self.log.note("resumed", self.db, json!({}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes come out once, in order, each with its benchmark.
    #[test]
    fn notes_come_out_once() {
        let log = EventLog::new();
        let listener = log.listener(1);
        listener.on_resumed();
        log.begin(Some("fillrandom"));
        listener.on_resumed();
        let taken = log.take();
        assert_eq!(taken.len(), 2);
        assert_eq!((&taken[0]["bench"], &taken[1]["bench"]), (&Value::Null, &"fillrandom".into()));
        assert_eq!(
            (&taken[1]["t"], &taken[1]["event"], &taken[1]["db"]),
            (&"event".into(), &"resumed".into(), &1.into())
        );
        assert!(taken[1]["s"].is_number());
        assert!(log.take().is_empty());
    }
}
