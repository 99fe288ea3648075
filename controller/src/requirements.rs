//! Who asks for what: source -> [`Requirement`], and the strictest of all.
//!
//! One entry per source; replacing one is one step, so the verdict never flickers through "nothing asked". A source
//! may be scoped to one client; then it holds that client only and has no part in the verdict for the others.
//! What a fraction means in bytes per second, and who waits, is not known here.

use std::collections::{BTreeMap, BTreeSet};

use crate::{ClientId, Fraction, Pressure, SourceId};

/// What a source asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Requirement {
    /// Nothing.
    #[default]
    Normal,
    /// At most this fraction of the maximum rate.
    Delayed(Fraction),
    /// That nobody passes.
    Stopped,
}

impl From<Pressure> for Requirement {
    fn from(pressure: Pressure) -> Self {
        match pressure {
            Pressure::Normal => Self::Normal,
            Pressure::Delayed(step) => Self::Delayed(step.into()),
            Pressure::Stopped => Self::Stopped,
        }
    }
}

/// The strictest of all requirements that hold for everybody.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) stopped: bool,
    /// The smallest fraction; `None` when nobody delays. Kept while stopped.
    pub(crate) fraction: Option<Fraction>,
    /// Who asks for the strictest; the smallest id among equals.
    pub(crate) strictest: Option<SourceId>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) requirement: Requirement,
    /// Whom it holds; `None` is everybody.
    pub(crate) scope: Option<ClientId>,
    /// Clock time of its last change of kind, ns.
    pub(crate) since: u64,
}

/// The table. Sources that ask for nothing are not in it.
#[derive(Debug, Default)]
pub(crate) struct Requirements {
    entries: BTreeMap<SourceId, Entry>,
}

impl Requirements {
    /// Replaces what `source` asks for; returns what it asked for before.
    pub(crate) fn set(
        &mut self,
        source: SourceId,
        scope: Option<ClientId>,
        requirement: Requirement,
        now: u64,
    ) -> Requirement {
        let before = self.get(source);
        if requirement == Requirement::Normal {
            self.entries.remove(&source);
        } else {
            let same_kind = std::mem::discriminant(&before) == std::mem::discriminant(&requirement);
            let since = match self.entries.get(&source) {
                Some(entry) if same_kind => entry.since,
                _ => now,
            };
            self.entries.insert(source, Entry { requirement, scope, since });
        }
        before
    }

    pub(crate) fn get(&self, source: SourceId) -> Requirement {
        self.entries.get(&source).map_or(Requirement::Normal, |entry| entry.requirement)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SourceId, Entry)> + '_ {
        self.entries.iter().map(|(source, entry)| (*source, *entry))
    }

    /// Stopped, else the smallest fraction, else nothing.
    pub(crate) fn verdict(&self) -> Verdict {
        let mut verdict = Verdict::default();
        let mut slowest = None;
        for (source, entry) in self.iter().filter(|(_, entry)| entry.scope.is_none()) {
            match entry.requirement {
                Requirement::Normal => {}
                Requirement::Stopped if verdict.stopped => {}
                Requirement::Stopped => {
                    verdict.stopped = true;
                    verdict.strictest = Some(source);
                }
                Requirement::Delayed(fraction) => {
                    if verdict.fraction.is_none_or(|least| fraction < least) {
                        verdict.fraction = Some(fraction);
                        slowest = Some(source);
                    }
                }
            }
        }
        verdict.strictest = verdict.strictest.or(slowest);
        verdict
    }

    /// Clients that a scoped source stops.
    pub(crate) fn locked_clients(&self) -> BTreeSet<ClientId> {
        self.entries.values().filter_map(|entry| entry.scope).collect()
    }

    /// Whether `source` stops everybody and no other source does.
    pub(crate) fn alone_stops(&self, source: SourceId) -> bool {
        let stops = |entry: &Entry| entry.scope.is_none() && entry.requirement == Requirement::Stopped;
        self.get(source) == Requirement::Stopped
            && self.iter().all(|(other, entry)| other == source || !stops(&entry))
    }
}
