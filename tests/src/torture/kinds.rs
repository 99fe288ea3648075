//! The kinds of `reliability.md` section 3 as the runner sees them: a case per seed, or a list of cases packed into seeds.

use std::path::Path;
use std::sync::Arc;

use crate::kinds::damage::Flips;
use crate::kinds::{crash, damage, faults, kill, law, model, stalls, torn};
use crate::rng::Rng;
use crate::sim_fs::{Effect, Fault, FileKind, Op, Pattern, SimFs};

/// What became of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It was judged and is fine; so many faults had reached a call.
    Passed {
        /// Faults that fired.
        faults: u64,
    },
    /// The enumerated list has no such case: go on with the next script, or end.
    Exhausted,
}

/// Runs the case of a seed; a broken rule is the error.
pub(super) type Case = Box<dyn FnMut(u64) -> Result<Verdict, String> + Send>;

/// How the seeds of a kind follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seeds {
    /// Any seed is a case.
    Drawn,
    /// The script in the high bits, the case in the low 32; so many scripts.
    Listed {
        /// How many scripts there are.
        scripts: u64,
    },
}

/// A row of the table.
#[derive(Debug)]
pub struct Kind {
    /// Its name: R1 to R21.
    pub name: &'static str,
    pub(super) seeds: Seeds,
    /// Whether its cases inject faults.
    pub(super) injects: bool,
    make: Option<fn() -> Case>,
}

impl Kind {
    /// Whether it can be run.
    pub fn is_built(&self) -> bool {
        self.make.is_some()
    }

    pub(super) fn case(&self) -> Option<Case> {
        self.make.map(|make| make())
    }

    const fn drawn(name: &'static str, injects: bool, make: fn() -> Case) -> Self {
        Self { name, seeds: Seeds::Drawn, injects, make: Some(make) }
    }

    const fn listed(name: &'static str, scripts: u64, injects: bool, make: fn() -> Case) -> Self {
        Self { name, seeds: Seeds::Listed { scripts }, injects, make: Some(make) }
    }

    const fn missing(name: &'static str) -> Self {
        Self { name, seeds: Seeds::Drawn, injects: false, make: None }
    }
}

/// Every kind, in the order of the table.
pub(super) const ALL: [Kind; 21] = [
    Kind::drawn("R1", true, || crashes(crash::Kind::DropUnsynced)),
    Kind::drawn("R2", true, || crashes(crash::Kind::KeepSome)),
    Kind::drawn("R3", true, || noticed(torn::tear)),
    Kind::drawn("R4", true, || crashes(crash::Kind::InRecovery)),
    Kind::drawn("R5", true, || noticed(|seed| kill::run(seed).map(|()| true))),
    Kind::listed("R6", 500, true, || Box::new(failed_call)),
    Kind::drawn("R7", true, || Box::new(lying_sync)),
    Kind::listed("R8", 500, true, || Box::new(full_disk)),
    Kind::listed("R9", 20, true, flipped_bits),
    Kind::drawn("R10", true, || noticed(misplaced)),
    Kind::drawn("R11", true, || noticed(torn::damage_synced)),
    Kind::missing("R12"),
    Kind::drawn("R13", false, || plain(random_operations)),
    Kind::drawn("R14", false, || plain(stalls::run)),
    Kind::listed("R15", 1, false, || Box::new(table_of_the_law)),
    Kind::missing("R16"),
    Kind::missing("R17"),
    Kind::missing("R18"),
    Kind::missing("R19"),
    Kind::missing("R20"),
    Kind::drawn("R21", true, || Box::new(tidiness)),
];

fn plain(run: fn(u64) -> Result<(), String>) -> Case {
    Box::new(move |seed| run(seed).map(|()| Verdict::Passed { faults: 0 }))
}

/// The function says whether its one fault met anything.
fn noticed(run: fn(u64) -> Result<bool, String>) -> Case {
    Box::new(move |seed| passed(run(seed)))
}

fn passed(fired: Result<bool, String>) -> Result<Verdict, String> {
    fired.map(|fired| Verdict::Passed { faults: u64::from(fired) })
}

/// One crash or more a case.
fn crashes(kind: crash::Kind) -> Case {
    Box::new(move |seed| crash::run(kind, seed).map(|()| Verdict::Passed { faults: 1 }))
}

/// A list that ends when a script no longer reaches its fault.
fn listed(fired: Result<bool, String>) -> Result<Verdict, String> {
    fired.map(|fired| if fired { Verdict::Passed { faults: 1 } } else { Verdict::Exhausted })
}

/// The script of a packed seed, and the case in it.
fn unpack(seed: u64) -> (u64, u64) {
    (seed >> 32, seed & 0xffff_ffff)
}

/// R6: the low bits hold the call's number and, in eight variants, what happens to it, once or for ever.
fn failed_call(seed: u64) -> Result<Verdict, String> {
    let (script, index) = unpack(seed);
    let looks =
        [Op::OpenReadable, Op::OpenWritable, Op::Read, Op::Map, Op::Size, Op::List, Op::Exists, Op::Lock];
    let (nth, variant) = (1 + index / 8, index % 8);
    let (on, effect) = match variant / 2 {
        3 => (Pattern::ops(&looks), faults::FAILURES[0]),
        which => (Pattern::mutating(), faults::FAILURES[which as usize]),
    };
    listed(faults::run(script, Fault { on, nth, forever: variant % 2 == 1, effect }))
}

/// R7: a sync fails, drops what it should have kept, and later ones claim success.
fn lying_sync(seed: u64) -> Result<Verdict, String> {
    let mut rng = Rng::new(seed);
    let on = match rng.below(5) {
        0 => Pattern::op(Op::Sync).on(FileKind::Wal),
        1 => Pattern::op(Op::Sync).on(FileKind::Sst),
        2 => Pattern::op(Op::Sync).on(FileKind::Manifest),
        3 => Pattern::op(Op::Sync).on(FileKind::Current),
        _ => Pattern::op(Op::SyncDir),
    };
    let fault = Fault { on, nth: 1 + rng.skewed(20), forever: false, effect: Effect::LoseAndFail };
    passed(faults::run(rng.next_u64(), fault))
}

/// R8: the low bits hold the budget, in units of 509 bytes.
fn full_disk(seed: u64) -> Result<Verdict, String> {
    let (script, index) = unpack(seed);
    listed(faults::run_full_disk(script, index * 509))
}

/// R9: the low bits hold the number of the bit.
fn flipped_bits() -> Case {
    let mut built: Option<(u64, Flips)> = None;
    Box::new(move |seed| {
        let (script, bit) = unpack(seed);
        let (_, flips) = match built.take().filter(|(of, _)| *of == script) {
            Some(same) => built.insert(same),
            None => built.insert((script, Flips::new(script))),
        };
        flips.run(bit).map_or(Ok(Verdict::Exhausted), |seen| seen.map(|_| Verdict::Passed { faults: 1 }))
    })
}

fn misplaced(seed: u64) -> Result<bool, String> {
    if Rng::new(seed).chance(50) { damage::exchange(seed) } else { damage::misplace(seed) }.map(|()| true)
}

fn random_operations(seed: u64) -> Result<(), String> {
    model::run(seed, Arc::new(SimFs::new(seed)), Path::new("/db"), 200)
}

/// R15: the low bits hold the number of the table.
fn table_of_the_law(seed: u64) -> Result<Verdict, String> {
    let Some((name, table)) = law::TABLES.get(seed as usize) else { return Ok(Verdict::Exhausted) };
    table().map(|()| Verdict::Passed { faults: 0 }).map_err(|why| format!("{name}: {why}"))
}

/// R21: a case of R1 to R8; only what it says of the directory counts.
fn tidiness(seed: u64) -> Result<Verdict, String> {
    let mut rng = Rng::new(seed);
    let inner = rng.next_u64() >> 11;
    let case = |script: u64, most: u64| (script << 32) | (inner % most);
    let outcome = match rng.below(6) {
        0 => crashes(crash::Kind::DropUnsynced)(inner),
        1 => crashes(crash::Kind::KeepSome)(inner),
        2 => crashes(crash::Kind::InRecovery)(inner),
        3 => failed_call(case(rng.below(500), 2_000)),
        4 => lying_sync(inner),
        _ => full_disk(case(rng.below(500), 400)),
    };
    match outcome {
        Err(why) if why.contains("V6") => Err(why),
        Err(why) => {
            eprintln!("R21: not about the directory, and not counted: {why}");
            Ok(Verdict::Passed { faults: 1 })
        }
        Ok(Verdict::Exhausted) => Ok(Verdict::Passed { faults: 0 }),
        passed => passed,
    }
}
