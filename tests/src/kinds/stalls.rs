//! R14: twelve ways for all writers to stand at a full manager, and what must end each of them.
//!
//! Real threads on the simulated file system. Flushes are held until every writer stands; then the scenario lets them go,
//! fails them, closes, drops, or moves the quota. Each writer ends within 5 s after it can, or gets `Stalled` if it asked
//! for that, or the error of its own database; memory stays within its bound, nobody is rescued, and in the end nothing
//! is charged. The rules are those of `stall_stage.rs`; the seed draws sizes, threads, order and what is let go.

use std::io::ErrorKind;
use std::time::Duration;

use sluicedb::{Error, WriteOptions};

use super::stall_stage::{End, Plan, Stage, Writer};
use crate::cases::eventually;
use crate::rng::Rng;
use crate::sim_fs::{Effect, Fault, FileKind, Op, Pattern};

/// One of the twelve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// The manager is full with one small family.
    OneFamily,
    /// The manager is full with 28 small families of 3 databases: `reliability U1`.
    SomeFamilies,
    /// The manager is full with 1,000 nearly empty families: `reliability U2`.
    ManyFamilies,
    /// Of 8 databases, one that gets no writes any more holds the memory: `reliability U2`, `U4`.
    IdleHolder,
    /// Batches larger than the quota.
    LargeBatches,
    /// One thread feeds 3 databases in turn: `reliability U3`.
    OneThread,
    /// Readers hold all memtables that were flushed: `reliability U1`.
    PinnedMemtables,
    /// A database fails for good.
    BackgroundError,
    /// A database is closed.
    Close,
    /// The family that holds the memory is dropped.
    DropFamily,
    /// The quota is lowered below what is in use.
    LowerQuota,
    /// The flush that would end the stop fails, and later ones do not: `reliability U7`.
    FlushFails,
}

impl Scenario {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::OneFamily,
        Self::SomeFamilies,
        Self::ManyFamilies,
        Self::IdleHolder,
        Self::LargeBatches,
        Self::OneThread,
        Self::PinnedMemtables,
        Self::BackgroundError,
        Self::Close,
        Self::DropFamily,
        Self::LowerQuota,
        Self::FlushFails,
    ];
}

/// Runs the scenario that the seed names; neighbouring seeds run different ones.
///
/// # Errors
///
/// The rule that was broken.
pub fn run(seed: u64) -> Result<(), String> {
    run_scenario(Scenario::ALL[(seed % Scenario::ALL.len() as u64) as usize], seed)
}

/// Runs one scenario.
///
/// # Errors
///
/// The rule that was broken.
pub fn run_scenario(scenario: Scenario, seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let outcome = match scenario {
        Scenario::OneFamily => full(&mut rng, &[1]),
        Scenario::SomeFamilies => full(&mut rng, &[10, 9, 9]),
        Scenario::ManyFamilies => full(&mut rng, &[1_000]),
        Scenario::IdleHolder => idle_holder(&mut rng),
        Scenario::LargeBatches => large_batches(&mut rng),
        Scenario::OneThread => one_thread(&mut rng),
        Scenario::PinnedMemtables => pinned_memtables(&mut rng),
        Scenario::BackgroundError => background_error(&mut rng),
        Scenario::Close => close(&mut rng),
        Scenario::DropFamily => drop_family(&mut rng),
        Scenario::LowerQuota => lower_quota(&mut rng),
        Scenario::FlushFails => flush_fails(&mut rng),
    };
    outcome.map_err(|why| format!("{scenario:?}: {why}"))
}

fn plan(rng: &mut Rng, families: &[usize]) -> Plan {
    let quota = *rng.pick(&[128 << 10, 200_000, 512 << 10]);
    Plan { quota, families: families.to_vec(), initiate_flushes: rng.chance(50) }
}

/// A writer that waits for as long as it takes.
fn patient(rng: &mut Rng, number: u64, targets: Vec<(usize, usize)>) -> Writer {
    let values = *rng.pick(&[(200, 600), (1_000, 1_000), (100, 4_000)]);
    Writer { rng: rng.fork(), number, targets, values, large_batch: 0, options: WriteOptions::default() }
}

/// A writer that is refused, at once or after a while.
fn hasty(rng: &mut Rng, number: u64, targets: Vec<(usize, usize)>) -> Writer {
    let mut writer = patient(rng, number, targets);
    if rng.chance(50) {
        writer.options.no_slowdown = true;
    } else {
        writer.options.stall_timeout = Some(Duration::from_millis(rng.range(1, 30)));
    }
    writer
}

/// Every family of every member, in an order of its own.
fn everywhere(rng: &mut Rng, stage: &Stage) -> Vec<(usize, usize)> {
    let members = stage.members.iter().enumerate();
    let all = members.flat_map(|(member, it)| (0..it.families.len()).map(move |family| (member, family)));
    let mut targets: Vec<_> = all.collect();
    for last in (1..targets.len()).rev() {
        targets.swap(last, rng.index(last + 1));
    }
    targets
}

/// Patient and some hasty writers that write everywhere.
fn crowd(rng: &mut Rng, stage: &Stage) -> Vec<Writer> {
    let (waiting, refused) = (rng.range(1, 6), rng.below(3));
    let mut writers = Vec::new();
    for number in 0..waiting + refused {
        let targets = everywhere(rng, stage);
        let make = if number < waiting { patient } else { hasty };
        writers.push(make(rng, number, targets));
    }
    writers
}

/// Patient writers of one member alone.
fn writers_of(rng: &mut Rng, first: u64, member: usize, families: &[usize]) -> Vec<Writer> {
    let targets: Vec<_> = families.iter().map(|family| (member, *family)).collect();
    (0..rng.range(1, 3)).map(|number| patient(rng, first + number, targets.clone())).collect()
}

/// It ended well, or was refused as it had asked.
fn well(end: &End) -> bool {
    match &end.outcome {
        Ok(()) => true,
        Err(Error::Stalled { holders, .. }) => !end.patient && !holders.is_empty(),
        // `no_slowdown` does not wait for room in the queue either.
        Err(Error::QueueFull { .. }) => !end.patient,
        Err(_) => false,
    }
}

fn nothing(_: &Error) -> bool {
    false
}

fn at_once() -> Result<(), String> {
    Ok(())
}

/// `reliability R14`, `U1`, `U2`: memtables far below their own size fill the quota together.
fn full(rng: &mut Rng, families: &[usize]) -> Result<(), String> {
    let stage = Stage::new(plan(rng, families), rng)?;
    let writers = crowd(rng, &stage);
    let ends = stage.stall(writers, at_once, || {
        stage.open_gates();
        Ok(())
    })?;
    stage.judge(&ends, well, nothing)
}

/// `reliability R14`, `U2`, `U4`: the memory lies where nobody writes any more; that database is asked to flush.
fn idle_holder(rng: &mut Rng) -> Result<(), String> {
    let plan = plan(rng, &[1; 8]);
    let quota = plan.quota;
    let stage = Stage::new(plan, rng)?;
    let idle = &stage.members[0];
    let held = quota * rng.range(50, 85) / 100;
    for number in 0_u64.. {
        if stage.manager.usage_report().used >= held {
            break;
        }
        idle.db.put(number.to_be_bytes(), [1; 1_000]).map_err(|error| error.to_string())?;
    }
    let mut writers = Vec::new();
    for member in 1..8 {
        writers.push(patient(rng, member as u64, vec![(member, 0)]));
    }
    let ends = stage.stall(writers, at_once, || {
        stage.open_gates();
        let flushed = || match idle.db.statistics().flushes {
            0 => Err("the idle database was not asked to flush".to_owned()),
            _ => Ok(()),
        };
        eventually(flushed)
    })?;
    stage.judge(&ends, well, nothing)
}

/// `reliability R14`: a batch larger than the quota is let in alone, instead of waiting for itself for ever.
fn large_batches(rng: &mut Rng) -> Result<(), String> {
    let families = 1 + rng.index(2);
    let plan = plan(rng, &[families, 1]);
    let large_batch = plan.quota * rng.range(11, 25) / 10;
    let stage = Stage::new(plan, rng)?;
    let mut writers = crowd(rng, &stage);
    for writer in &mut writers {
        (writer.large_batch, writer.values) = (large_batch, (1_000, 9_000));
    }
    let ends = stage.stall(writers, at_once, || {
        stage.open_gates();
        Ok(())
    })?;
    stage.judge(&ends, well, nothing)
}

/// `reliability R14`, `U3`: one thread writes to several databases in turn, and the memory lies in the earlier ones.
fn one_thread(rng: &mut Rng) -> Result<(), String> {
    let mut plan = plan(rng, &[1; 3]);
    plan.initiate_flushes = false;
    let value = plan.quota * rng.range(20, 60) / 100;
    let stage = Stage::new(plan, rng)?;
    let targets = vec![(0, 0), (1, 0), (2, 0)];
    let writer = Writer { values: (value, value), ..patient(rng, 0, targets) };
    let ends = stage.stall(vec![writer], at_once, || {
        stage.open_gates();
        Ok(())
    })?;
    for round in 0..9_u8 {
        let member = &stage.members[usize::from(round) % 3];
        member.db.put([round], vec![round; value as usize]).map_err(|error| error.to_string())?;
    }
    stage.judge(&ends, well, nothing)
}

/// `reliability R14`, `U1`, `U15`: what only readers hold stops nobody.
fn pinned_memtables(rng: &mut Rng) -> Result<(), String> {
    let stage = Stage::new(plan(rng, &[2, 1]), rng)?;
    let writers = crowd(rng, &stage);
    let mut pins = Vec::new();
    let ends = stage.stall(writers, at_once, || {
        for member in &stage.members {
            for family in &member.families {
                let mut iter = member.db.iter_cf(family).map_err(|error| error.to_string())?;
                iter.seek_to_first().map_err(|error| error.to_string())?;
                pins.push(iter);
            }
        }
        stage.open_gates();
        let pinned = || match stage.manager.usage_report().pinned {
            0 => Err("no flushed memtable is pinned".to_owned()),
            _ if stage.is_stopped() => Err("pinned memtables keep the stop up".to_owned()),
            _ => Ok(()),
        };
        eventually(pinned)
    })?;
    drop(pins);
    stage.judge(&ends, well, nothing)
}

/// The error of a database that has failed.
fn failed(error: &Error) -> bool {
    matches!(error, Error::ReadOnly { .. } | Error::Io { .. })
}

/// `reliability R14`, `pressure L4`: a database that fails under a stop holds up nobody: its writers get its error, those
/// of the neighbour go on.
fn background_error(rng: &mut Rng) -> Result<(), String> {
    let stage = Stage::new(plan(rng, &[1, 1]), rng)?;
    let mut writers = writers_of(rng, 0, 0, &[0]);
    writers.extend(writers_of(rng, 10, 1, &[0]));
    let sick = &stage.members[0];
    // The healthy one flushes all the time, so the stop is the sick one's.
    stage.members[1].gate.open();
    let on = if rng.chance(50) { FileKind::Sst } else { FileKind::Manifest };
    let count = writers.iter().filter(|writer| writer.targets[0].0 == 0).count() as u64;
    let ends = stage.stall(writers, at_once, || {
        sick.disk.inject(Fault::always(Pattern::op(Op::Sync).on(on), Effect::Fail(ErrorKind::Other)));
        sick.gate.open();
        let told = || match stage.ended(0) {
            ended if ended == count => Ok(()),
            ended => Err(format!("{ended} of {count} writers of the failed database have ended")),
        };
        eventually(told)
    })?;
    let own = |end: &End| if end.member == 0 { end.outcome.as_ref().is_err_and(failed) } else { well(end) };
    stage.judge(&ends, own, failed)
}

/// `reliability R14`, `pressure L9`: a close releases its own writers before the flush that they wait for ends.
fn close(rng: &mut Rng) -> Result<(), String> {
    let neighbours = rng.range(0, 2) as usize;
    let stage = Stage::new(plan(rng, &[1; 3][..=neighbours]), rng)?;
    let mut writers = writers_of(rng, 0, 0, &[0]);
    for neighbour in 1..=neighbours {
        writers.extend(writers_of(rng, neighbour as u64 * 10, neighbour, &[0]));
    }
    let count = writers.iter().filter(|writer| writer.targets[0].0 == 0).count() as u64;
    let ends = stage.stall(writers, at_once, || {
        std::thread::scope(|scope| {
            let closer = scope.spawn(|| stage.members[0].db.close());
            let told = || match stage.ended(0) {
                ended if ended == count => Ok(()),
                ended => Err(format!("{ended} of {count} writers of the closing database have ended")),
            };
            let told = eventually(told);
            stage.open_gates();
            let closed = closer.join().map_err(|_| "the close panicked".to_owned())?;
            told.and(closed.map_err(|error| format!("close: {error}")))
        })
    })?;
    let shut = |error: &Error| matches!(error, Error::ShutdownInProgress);
    let own = |end: &End| if end.member == 0 { end.outcome.as_ref().is_err_and(shut) } else { well(end) };
    stage.judge(&ends, own, shut)
}

/// `reliability R14`, `pressure 1.1`: dropping the family that holds the memory releases the writers of the others.
fn drop_family(rng: &mut Rng) -> Result<(), String> {
    let stage = Stage::new(plan(rng, &[3, 1]), rng)?;
    let mut writers = writers_of(rng, 0, 0, &[1]);
    writers.extend(writers_of(rng, 10, 0, &[0, 2]));
    writers.extend(writers_of(rng, 20, 1, &[0]));
    let member = &stage.members[0];
    let ends = stage.stall(writers, at_once, || {
        let dropped = member.db.drop_column_family(&member.families[1]);
        stage.open_gates();
        dropped.map_err(|error| format!("drop: {error}"))
    })?;
    let gone = |error: &Error| matches!(error, Error::NoSuchColumnFamily { .. });
    stage.judge(&ends, |end| well(end) || end.outcome.as_ref().is_err_and(gone), gone)
}

/// `reliability R14`, `pressure L9`, `pressure L11`: a quota lowered below what is in use stops writers until a flush has ended, or
/// until it is raised, taken back, or stops nobody.
fn lower_quota(rng: &mut Rng) -> Result<(), String> {
    let mut plan = plan(rng, &[2, 1]);
    plan.quota *= 4;
    let quota = plan.quota;
    let stage = Stage::new(plan, rng)?;
    let writers = crowd(rng, &stage);
    let way_out = rng.below(4);
    let low = quota * rng.range(10, 40) / 100;
    let begin = || {
        let filled = || match stage.manager.usage_report().used {
            used if used > low => Ok(()),
            used => Err(format!("{used} bytes are used")),
        };
        eventually(filled)?;
        stage.set_quota(low);
        Ok(())
    };
    let ends = stage.stall(writers, begin, || {
        match way_out {
            0 => stage.open_gates(),
            // More than the writers can fill before they are told to end: flushes stay held.
            1 => stage.set_quota(1 << 40),
            2 => stage.set_quota(0),
            _ => stage.stop_nobody(),
        }
        if stage.is_stopped() && way_out > 0 { Err("the stop goes on".to_owned()) } else { Ok(()) }
    })?;
    stage.judge(&ends, well, nothing)
}

/// `reliability R14`, `U7`, `pressure L3`: the flush that would end the stop fails; the error reaches the writers, and the
/// database comes back, by itself from a full disk, by `resume` from any other failure.
fn flush_fails(rng: &mut Rng) -> Result<(), String> {
    let families = 1 + rng.index(3);
    let stage = Stage::new(plan(rng, &[families]), rng)?;
    let writers = crowd(rng, &stage);
    let member = &stage.members[0];
    let full_disk = rng.chance(50);
    let error = if full_disk { ErrorKind::StorageFull } else { ErrorKind::Other };
    let on = Pattern::op(if rng.chance(50) { Op::Sync } else { Op::Create }).on(FileKind::Sst);
    let ends = stage.stall(writers, at_once, || {
        member.disk.inject(Fault::always(on, Effect::Fail(error)));
        stage.open_gates();
        let count = || member.disk.fired().total();
        eventually(|| if count() > 0 { Ok(()) } else { Err("no flush failed".to_owned()) })
    })?;
    member.disk.heal();
    // The failure may be latched a moment after the call failed, even after a resumption that found none. A full disk is gone
    // over without one.
    let resume = || if full_disk { Ok(()) } else { member.db.resume() };
    let welcome = || resume().and_then(|()| member.db.put("again", "2")).and_then(|()| member.db.flush());
    eventually(|| welcome().map_err(|error| format!("with the failure gone: {error}")))?;
    let told = |error: &Error| failed(error) || matches!(error, Error::NoSpace { .. });
    stage.judge(&ends, |end| well(end) || end.outcome.as_ref().is_err_and(told), nothing)
}
