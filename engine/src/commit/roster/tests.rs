//! The roster: how groups are cut, and a search through every interleaving of callers, submitters, internal leads and
//! the appender.

use std::collections::HashSet;

use super::*;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Unit {
    id: usize,
    kind: Kind,
    bytes: u64,
    sync: bool,
}

impl Ranked for Unit {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn wants_sync(&self) -> bool {
        self.sync
    }
}

fn loose(id: usize, bytes: u64) -> Unit {
    Unit { id, kind: Kind::Loose, bytes, sync: false }
}

/// The sizes of the groups in which `units` leave.
fn groups(limits: GroupLimits, units: impl IntoIterator<Item = Unit>) -> Vec<usize> {
    let mut roster = Roster::new();
    let woken = units.into_iter().filter(|unit| roster.push(unit.clone())).count();
    assert_eq!(woken, 1, "one wake-up calls the appender, whatever is pushed behind");
    assert!(roster.leads_as_appender());
    let mut sizes = Vec::new();
    while roster.has_group() {
        let mut size = 0;
        roster.take_group(limits, |_| size += 1);
        sizes.push(size);
    }
    sizes
}

/// `write-path Q6`: groups end at the count, at the bytes, and before a sync that their head does not want; a unit above
/// the limit travels alone.
#[test]
fn groups_are_cut_at_their_limits() {
    let limits = GroupLimits { bytes: 32 << 20, count: 5_000 };
    assert_eq!(groups(limits, (0..12_000).map(|id| loose(id, 10))), [5_000, 5_000, 2_000]);
    assert_eq!(groups(limits, (0..40).map(|id| loose(id, 1 << 20))), [32, 8]);
    let around = [10, (32 << 20) + 1, 10, 10].into_iter().enumerate().map(|(id, bytes)| loose(id, bytes));
    assert_eq!(groups(limits, around), [1, 1, 2]);
    let syncs = [false, false, true, false, true, true, false];
    let units = syncs.into_iter().enumerate().map(|(id, sync)| Unit { sync, ..loose(id, 10) });
    assert_eq!(groups(limits, units), [2, 5], "behind a head that wants a sync all may come along");
}

/// What one thread of the model does next.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Step {
    /// A caller that arrives with unit `id`.
    Arrive,
    /// Submits `left` further units.
    Submit {
        left: usize,
    },
    /// Wants the lead for a change.
    ArriveInternal,
    /// Leads: takes a group.
    Take,
    /// Has taken a group and commits it: hands on or keeps.
    Finish {
        own_done: bool,
    },
    /// Waits for a call.
    Parked,
    /// The appender has nothing to do until its bell has rung; then it looks.
    Asleep,
    Over,
}

/// A world of threads around one roster.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    roster: Roster<Unit>,
    threads: Vec<Step>,
    /// Units that were committed, in order.
    committed: Vec<usize>,
    /// Units in the order of their push.
    pushed: Vec<usize>,
    /// The group being committed.
    group: Vec<usize>,
    next_loose: usize,
    /// The appender's bell has rung since it looked.
    rung: bool,
}

const LIMITS: GroupLimits = GroupLimits { bytes: 30, count: 2 };
const APPENDER: usize = 0;

impl World {
    fn new(others: &[Step]) -> Self {
        let mut threads = vec![Step::Asleep];
        threads.extend_from_slice(others);
        Self {
            roster: Roster::new(),
            threads,
            committed: Vec::new(),
            pushed: Vec::new(),
            group: Vec::new(),
            next_loose: 100,
            rung: false,
        }
    }

    fn can_run(&self, thread: usize) -> bool {
        match self.threads[thread] {
            Step::Parked | Step::Over => false,
            Step::Asleep => self.rung,
            _ => true,
        }
    }

    /// Runs the critical section that comes next in a thread.
    fn run(&mut self, thread: usize) {
        let unit = |id, kind| Unit { id, kind, bytes: 10, sync: false };
        match self.threads[thread].clone() {
            Step::Arrive => {
                self.pushed.push(thread);
                let leads = self.roster.leads_as_caller();
                let _ = self.roster.push(unit(thread, Kind::Caller));
                self.threads[thread] = if leads { Step::Take } else { Step::Parked };
            }
            Step::Submit { left } => {
                let id = self.next_loose;
                self.next_loose += 1;
                self.pushed.push(id);
                self.rung |= self.roster.push(unit(id, Kind::Loose));
                self.threads[thread] = if left > 1 { Step::Submit { left: left - 1 } } else { Step::Over };
            }
            Step::ArriveInternal => {
                if self.roster.leads_as_internal() {
                    self.threads[thread] = Step::Finish { own_done: true };
                } else {
                    self.rung |= self.roster.push(unit(thread, Kind::Internal));
                    self.threads[thread] = Step::Parked;
                }
            }
            Step::Asleep => {
                self.rung = false;
                if self.roster.leads_as_appender() {
                    self.threads[thread] = Step::Take;
                }
            }
            Step::Take => {
                assert!(self.group.is_empty(), "two leaders");
                let group = &mut self.group;
                self.roster.take_group(LIMITS, |unit| group.push(unit.id));
                let own_done = self.group.contains(&thread);
                self.threads[thread] = Step::Finish { own_done };
            }
            Step::Finish { own_done } => self.finish(thread, own_done),
            Step::Parked | Step::Over => unreachable!("it cannot run"),
        }
    }

    fn finish(&mut self, thread: usize, own_done: bool) {
        let group = std::mem::take(&mut self.group);
        self.committed.extend(&group);
        if !own_done && self.roster.has_group() {
            self.threads[thread] = Step::Take;
        } else {
            self.threads[thread] = match (thread, own_done) {
                (_, true) => Step::Over,
                (APPENDER, false) => Step::Asleep,
                (_, false) => Step::Parked,
            };
            match self.roster.hand_on(LIMITS) {
                Successor::Nobody => {}
                Successor::Caller(unit) => {
                    let id = unit.id;
                    assert_eq!(self.threads[id], Step::Parked, "a successor waits for its call");
                    self.threads[id] = Step::Take;
                }
                Successor::Internal(unit) => self.threads[unit.id] = Step::Finish { own_done: true },
                Successor::Appender { wake } => self.rung |= wake,
            }
        }
        let threads = self.threads.len();
        for id in group.into_iter().filter(|id| *id != thread && *id < threads) {
            assert_eq!(self.threads[id], Step::Parked, "a member waits for its outcome");
            self.threads[id] = Step::Over;
        }
    }

    fn check_end(&self) {
        let all_over = self.threads[1..].iter().all(|step| *step == Step::Over);
        assert!(all_over && self.roster.is_empty(), "stuck: {self:#?}");
        assert_eq!(self.threads[APPENDER], Step::Asleep);
        assert_eq!(self.committed, self.pushed, "commit order is the order of the pushes");
    }
}

/// Runs every interleaving; returns how many states there are.
fn explore(start: World) -> usize {
    let (mut seen, mut open) = (HashSet::new(), vec![start]);
    while let Some(world) = open.pop() {
        let able: Vec<usize> = (0..world.threads.len()).filter(|thread| world.can_run(*thread)).collect();
        if able.is_empty() {
            world.check_end();
        }
        for thread in able {
            let mut next = world.clone();
            next.run(thread);
            if seen.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    seen.len()
}

/// `write-path Q13`: in every interleaving of callers, submitters, an internal lead and the appender there is one leader
/// at a time, nothing is left queued, each caller returns with the group of its own unit (it never leads behind it), and
/// commit order is queue order.
///
/// Method: every critical section is one step of a model around the real roster; all orders of the steps are run. A
/// group holds two units, so that callers lead for others, wait for a later group, and hand on to the appender.
#[test]
fn every_interleaving_keeps_one_leader_and_loses_nothing() {
    let caller = || Step::Arrive;
    let worlds: [&[Step]; 5] = [
        &[caller(), caller(), caller(), caller()],
        &[caller(), caller(), Step::Submit { left: 3 }],
        &[caller(), Step::Submit { left: 2 }, Step::Submit { left: 2 }],
        &[caller(), caller(), Step::Submit { left: 2 }, Step::ArriveInternal],
        &[Step::ArriveInternal, Step::Submit { left: 3 }, Step::ArriveInternal],
    ];
    let states: usize = worlds.iter().map(|others| explore(World::new(others))).sum();
    assert!(states > 2_000, "only {states} states: the model does not branch");
}

/// The search finds a mistake: an appender that is not woken leaves units behind.
#[test]
#[should_panic(expected = "stuck")]
fn a_lost_wake_up_is_found() {
    let mut world = World::new(&[Step::Arrive]);
    let forgotten = loose(100, 10);
    world.pushed.push(100);
    let _nobody_is_woken = world.roster.push(forgotten);
    world.threads[1] = Step::Over;
    explore(world.clone());
    world.check_end();
}
