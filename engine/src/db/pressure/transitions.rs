//! [`Transitions`]: what is said when a column family's source changes its state: one LOG line, and one event.
//!
//! A change is noted while the family's turn to ask is held, so that notes are in the order of the changes; LOG is written
//! when no lock is held ([`Transitions::write`]). A source that goes up is logged in RocksDB's words, which people grep.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use log::Level;
use sluicedb_controller::{Requirement, SourceId, State, derived_rate};

use crate::event::{Event, Events, StallConditions};
use crate::info_log::InfoLog;
use crate::sync::Mutex;

/// Tells LOG and the listeners.
#[derive(Debug)]
pub(super) struct Transitions {
    info_log: Arc<InfoLog>,
    events: Arc<Events>,
    /// A leaf.
    lines: Mutex<Lines>,
}

/// Lines that are not in LOG yet.
#[derive(Debug, Default)]
struct Lines {
    waiting: VecDeque<(Level, String)>,
    /// Somebody writes them, in order; others leave theirs to it.
    is_writing: bool,
}

/// Why a source asks.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reason {
    /// Sealed memtables against the most that there may be.
    Memtables { unflushed: u32, most: u32 },
    /// L0 files on top of one another.
    L0 { files: u32 },
    /// Bytes that wait for compaction.
    Pending { bytes: u64 },
}

/// A source that asks for something else than before.
#[derive(Debug)]
pub(super) struct Transition<'a> {
    pub(super) family: &'a Arc<str>,
    pub(super) source: SourceId,
    pub(super) previous: State,
    pub(super) asks: Requirement,
    pub(super) reason: Reason,
    /// Top rate of the controller, bytes per second.
    pub(super) max_rate: u64,
    /// How long the previous state had lasted.
    pub(super) lasted: Duration,
}

impl Transitions {
    pub(super) fn new(info_log: &Arc<InfoLog>, events: &Arc<Events>) -> Self {
        Self { info_log: Arc::clone(info_log), events: Arc::clone(events), lines: Mutex::default() }
    }

    /// Notes a change. [`write`](Self::write) follows when no lock is held.
    pub(super) fn note(&self, change: &Transition<'_>) {
        let current = state_of(&change.asks);
        let level = if current == State::Stopped { Level::Warn } else { Level::Info };
        self.lines.lock().waiting.push_back((level, change.to_string()));
        self.events.push(|| {
            Event::Stall(StallConditions {
                family: Some(Arc::clone(change.family)),
                previous: change.previous,
                current,
                cause: change.source.kind(),
            })
        });
    }

    /// Writes what was noted into LOG, or leaves it to who is writing now.
    pub(super) fn write(&self) {
        let mut is_mine = false;
        loop {
            let line = {
                let mut lines = self.lines.lock();
                if lines.is_writing && !is_mine {
                    return;
                }
                let line = lines.waiting.pop_front();
                is_mine = line.is_some();
                lines.is_writing = is_mine;
                line
            };
            let Some((level, text)) = line else { return };
            self.info_log.line(level, &text);
        }
    }
}

/// What is asked for, without the fraction.
pub(super) fn state_of(asks: &Requirement) -> State {
    match asks {
        Requirement::Normal => State::Normal,
        Requirement::Delayed(_) => State::Delayed,
        Requirement::Stopped => State::Stopped,
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memtables { unflushed, most } => write!(
                f,
                "we have {unflushed} immutable memtables (waiting for flush), max_write_buffer_number is set to {most}"
            ),
            Self::L0 { files } => write!(f, "we have {files} level-0 files"),
            Self::Pending { bytes } => write!(f, "of estimated pending compaction bytes {bytes}"),
        }
    }
}

impl fmt::Display for Transition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { family, source, previous, asks, reason, max_rate, lasted } = self;
        let current = state_of(asks);
        match asks {
            Requirement::Stopped => write!(f, "[{family}] Stopping writes because {reason}"),
            Requirement::Delayed(fraction) if *previous == State::Normal => {
                let words = match reason {
                    Reason::Memtables { .. } => ". delayed write rate: ",
                    Reason::L0 { .. } | Reason::Pending { .. } => " rate ",
                };
                let rate = derived_rate(*fraction, *max_rate);
                write!(f, "[{family}] Stalling writes because {reason}{words}{rate}")
            }
            Requirement::Normal | Requirement::Delayed(_) => {
                write!(f, "[{family}] pressure: {previous} -> {current}, source {source}")?;
                if *previous == State::Stopped {
                    write!(f, ", stopped for {} us", lasted.as_micros())?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sluicedb_controller::{Fraction, SourceKind};

    use super::*;

    fn line(kind: SourceKind, previous: State, asks: Requirement, reason: Reason) -> String {
        let family: Arc<str> = "cf".into();
        let (source, lasted) = (SourceId::new(kind), Duration::from_millis(2));
        let change =
            Transition { family: &family, source, previous, asks, reason, max_rate: 1_000_000, lasted };
        change.to_string().replace(&source.to_string(), "ID")
    }

    /// The lines that go up are RocksDB's, to the word (`db-bench.md` 3.7); those that go down are ours.
    #[test]
    fn lines_in_words_that_people_grep() {
        let tenth = Requirement::Delayed(Fraction::ratio(1, 10).unwrap());
        let memtables = Reason::Memtables { unflushed: 3, most: 4 };
        let files = Reason::L0 { files: 36 };
        let pending = Reason::Pending { bytes: 77 };
        let (count, l0, bytes) =
            (SourceKind::MemtableCount, SourceKind::L0, SourceKind::PendingCompactionBytes);
        for (found, expected) in [
            (
                line(count, State::Normal, Requirement::Stopped, memtables),
                "[cf] Stopping writes because we have 3 immutable memtables (waiting for flush), \
                 max_write_buffer_number is set to 4",
            ),
            (
                line(count, State::Normal, tenth, memtables),
                "[cf] Stalling writes because we have 3 immutable memtables (waiting for flush), \
                 max_write_buffer_number is set to 4. delayed write rate: 100000",
            ),
            (
                line(l0, State::Delayed, Requirement::Stopped, files),
                "[cf] Stopping writes because we have 36 level-0 files",
            ),
            (
                line(l0, State::Normal, tenth, files),
                "[cf] Stalling writes because we have 36 level-0 files rate 100000",
            ),
            (
                line(bytes, State::Normal, Requirement::Stopped, pending),
                "[cf] Stopping writes because of estimated pending compaction bytes 77",
            ),
            (
                line(bytes, State::Normal, tenth, pending),
                "[cf] Stalling writes because of estimated pending compaction bytes 77 rate 100000",
            ),
            (
                line(l0, State::Stopped, tenth, files),
                "[cf] pressure: stopped -> delayed, source ID, stopped for 2000 us",
            ),
            (
                line(l0, State::Delayed, Requirement::Normal, files),
                "[cf] pressure: delayed -> normal, source ID",
            ),
        ] {
            assert_eq!(found, expected);
        }
    }
}
