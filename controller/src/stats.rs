//! Counters of the brake, and the clock of a state: [`StateTimes`].
//!
//! Formatting, and who reads them, is not known here.

use std::time::Duration;

use crate::gate::{Cause, Place};
use crate::{ClientId, Requirement, SourceId, SourceKind, State};

/// Time spent in each state, and how often it changed.
///
/// The times sum to the time since [`StateTimes::new`]. Used by the brake and by the meter.
#[derive(Debug, Clone, Copy)]
pub struct StateTimes {
    state: State,
    /// When the present state began, ns.
    since: u64,
    nanos: [u64; 3],
    longest_stop: u64,
    transitions: u64,
    delay_episodes: u64,
    stops: u64,
    /// A delay began since the state was last Normal.
    in_episode: bool,
}

impl StateTimes {
    /// Starts in [`State::Normal`] at the clock time `now` (ns).
    pub const fn new(now: u64) -> Self {
        Self {
            state: State::Normal,
            since: now,
            nanos: [0; 3],
            longest_stop: 0,
            transitions: 0,
            delay_episodes: 0,
            stops: 0,
            in_episode: false,
        }
    }

    /// Enters `state` at `now`; returns how long the previous one had lasted if that is a change.
    pub fn enter(&mut self, state: State, now: u64) -> Option<Duration> {
        if state == self.state {
            return None;
        }
        let lasted = now.saturating_sub(self.since);
        self.nanos[self.state as usize] += lasted;
        if self.state == State::Stopped {
            self.longest_stop = self.longest_stop.max(lasted);
        }
        match state {
            State::Normal => self.in_episode = false,
            State::Delayed if !self.in_episode => {
                self.in_episode = true;
                self.delay_episodes += 1;
            }
            State::Delayed => {}
            State::Stopped => self.stops += 1,
        }
        self.transitions += 1;
        self.state = state;
        self.since = now;
        Some(Duration::from_nanos(lasted))
    }

    /// Everything as of `now`.
    pub fn report(&self, now: u64) -> StateReport {
        let present = now.saturating_sub(self.since);
        let nanos = |state: State| self.nanos[state as usize] + if state == self.state { present } else { 0 };
        let current_stop = if self.state == State::Stopped { present } else { 0 };
        StateReport {
            normal_micros: nanos(State::Normal) / 1_000,
            delayed_micros: nanos(State::Delayed) / 1_000,
            stopped_micros: nanos(State::Stopped) / 1_000,
            longest_stop_micros: self.longest_stop.max(current_stop) / 1_000,
            current_stop_micros: current_stop / 1_000,
            transitions: self.transitions,
            delay_episodes: self.delay_episodes,
            stops: self.stops,
        }
    }
}

/// What [`StateTimes`] counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StateReport {
    /// Time in Normal.
    pub normal_micros: u64,
    /// Time in Delayed.
    pub delayed_micros: u64,
    /// Time in Stopped; the present stop included.
    pub stopped_micros: u64,
    /// The longest stop; the present one included.
    pub longest_stop_micros: u64,
    /// How long the present stop has lasted; 0 outside one.
    pub current_stop_micros: u64,
    /// Changes of state.
    pub transitions: u64,
    /// Times that a delay began, counted once between two Normal states.
    pub delay_episodes: u64,
    /// Times that a stop began.
    pub stops: u64,
}

/// What one kind of source did to writers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CauseTally {
    /// Admissions put to sleep, or refused because they would have been.
    pub delays: u64,
    /// Admissions parked, or refused because they would have been.
    pub stops: u64,
    /// Writers' time asleep. Nanoseconds, summed over writers.
    pub delayed_nanos: u64,
    /// Writers' time parked. Nanoseconds, summed over writers.
    pub stopped_nanos: u64,
}

/// What happened to the writers of a controller, or of one client.
///
/// Time is booked when a wait ends and when its cause changes, to the strictest source of that moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    by_cause: [CauseTally; SourceKind::ALL.len()],
    /// Admissions refused because their writer would not wait.
    pub rejected: u64,
    /// Low-priority admissions that slept.
    pub low_priority_delays: u64,
    /// Low-priority writers' time asleep, nanoseconds. Not in the causes.
    pub low_priority_nanos: u64,
}

impl Tally {
    /// The part of one kind of source.
    pub fn cause(&self, kind: SourceKind) -> &CauseTally {
        &self.by_cause[kind.index()]
    }

    /// All kinds together.
    pub fn total(&self) -> CauseTally {
        self.by_cause.iter().fold(CauseTally::default(), |sum, part| CauseTally {
            delays: sum.delays + part.delays,
            stops: sum.stops + part.stops,
            delayed_nanos: sum.delayed_nanos + part.delayed_nanos,
            stopped_nanos: sum.stopped_nanos + part.stopped_nanos,
        })
    }

    pub(crate) fn count_hold(&mut self, cause: Cause, place: Place) {
        match (cause, place) {
            (Cause::Source(kind), Place::Asleep) => self.by_cause[kind.index()].delays += 1,
            (Cause::Source(kind), Place::Parked) => self.by_cause[kind.index()].stops += 1,
            (Cause::LowPriority, _) => self.low_priority_delays += 1,
        }
    }

    pub(crate) fn book(&mut self, cause: Cause, place: Place, nanos: u64) {
        match (cause, place) {
            (Cause::Source(kind), Place::Asleep) => self.by_cause[kind.index()].delayed_nanos += nanos,
            (Cause::Source(kind), Place::Parked) => self.by_cause[kind.index()].stopped_nanos += nanos,
            (Cause::LowPriority, _) => self.low_priority_nanos += nanos,
        }
    }
}

/// One source that asks for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceReport {
    /// Who asks.
    pub source: SourceId,
    /// For what.
    pub requirement: Requirement,
    /// Bytes per second that this source alone would allow; 0 for a stop.
    pub rate: u64,
    /// Whom it holds; `None` is everybody on the controller.
    pub scope: Option<ClientId>,
    /// How long it has been delaying, or stopping.
    pub age: Duration,
}

/// A controller at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerStats {
    /// The strictest state.
    pub state: State,
    /// Bytes per second that writers get now: 0 while stopped, the maximum while nobody delays.
    pub rate: u64,
    /// Bytes per second of the smallest fraction, stopped or not; the maximum while nobody delays.
    pub delay_rate: u64,
    /// The maximum rate.
    pub max_rate: u64,
    /// Who asks for the strictest.
    pub strictest: Option<SourceId>,
    /// Every source that asks for something.
    pub sources: Vec<SourceReport>,
    /// Times in each state.
    pub times: StateReport,
    /// Changes of the strictest requirement.
    pub publications: u64,
    /// Writers asleep in the pacer.
    pub sleeping: usize,
    /// Writers parked at the gate.
    pub parked: usize,
    /// Writers asleep in the low-priority pacer.
    pub low_priority_sleeping: usize,
    /// Bytes of credit (above 0) or debt (below).
    pub balance: i128,
    /// Bytes that the bound on credit cut off.
    pub pacer_lost_bytes: u64,
    /// What happened to all writers so far.
    pub tally: Tally,
}
