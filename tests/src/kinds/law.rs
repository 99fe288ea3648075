//! R15: the law of the delay through the public API, table by table: bytes to step, step to rate, strictest of many.
//!
//! What is expected is computed here once more, in the words of `pressure.md` section 2, or written down as a number; the
//! crates' own functions are only ever on the other side of a comparison. The published word under loom is the crates'
//! own affair.

use std::sync::Arc;

use sluicedb::{
    ControllerOptions, DelayStep, Fraction, Pressure, Quota, Requirement, SourceKind, SystemClock,
    WbmOptions, WriteBufferManager, WriteController, derived_rate,
};

use crate::rng::Rng;

const MIB: u64 = 1 << 20;

/// A table: whether everything in it is as the law says.
pub type Table = fn() -> Result<(), String>;

/// The tables, in the order in which the runner counts them.
pub const TABLES: [(&str, Table); 10] = [
    ("the published numbers", published_numbers),
    ("99 steps for many quotas and percentages", ninety_nine_steps),
    ("tiny quotas, every byte", tiny_quotas),
    ("rates of every step for many maxima", rates),
    ("the strictest of many sources", strictest),
    ("many controllers of one manager", controllers),
    ("one publication per change", publications),
    ("settings that change", settings),
    ("queued bytes", queued),
    ("many threads", threads),
];

macro_rules! equal {
    ($found:expr, $expected:expr, $($what:tt)+) => {
        let (found, expected) = ($found, $expected);
        if found != expected {
            return Err(format!("{}: {found:?}, expected {expected:?}", format!($($what)+)));
        }
    };
}

/// The law in the words of the specification: 0 = normal, 1 to 99 = the step, 100 = stopped.
fn code(quota: u64, percent: u64, used: u64) -> u8 {
    let (q, u) = (u128::from(quota), u128::from(used));
    let t = q * u128::from(percent) / 100;
    if q == 0 {
        0
    } else if u >= q {
        100
    } else if u == 0 || u < t {
        0
    } else {
        ((u - t) * 100 / (q - t)).clamp(1, 99) as u8
    }
}

fn rate(step: u8, max: u64) -> u64 {
    let share = (u128::from(max) * u128::from(100 - step) / 100) as u64;
    if max < 16_384 { max } else { share.max(16_384) }
}

fn quota(bytes: u64, percent: u64) -> Result<Quota, String> {
    Quota::new(bytes, percent as u32).map_err(|error| error.to_string())
}

fn delayed(step: u8) -> Requirement {
    DelayStep::new(step).map_or(Requirement::Normal, |step| Requirement::Delayed(step.into()))
}

fn manager(bytes: u64) -> Result<Arc<WriteBufferManager>, String> {
    WriteBufferManager::new(WbmOptions::new(bytes), Arc::new(SystemClock)).map_err(|error| error.to_string())
}

fn controller(max: u64) -> Result<Arc<WriteController>, String> {
    WriteController::new(&ControllerOptions::with_rate(max), Arc::new(SystemClock))
        .map_err(|error| error.to_string())
}

/// `pressure 2.2`: the table for a quota of 1,000 with both columns of rates, the larger quotas, and the traps of floating
/// point.
fn published_numbers() -> Result<(), String> {
    let rows = [
        (0, 0, 16_777_216, 1_000_000),
        (500, 0, 16_777_216, 1_000_000),
        (699, 0, 16_777_216, 1_000_000),
        (700, 1, 16_609_443, 990_000),
        (702, 1, 16_609_443, 990_000),
        (705, 1, 16_609_443, 990_000),
        (706, 2, 16_441_671, 980_000),
        (709, 3, 16_273_899, 970_000),
        (715, 5, 15_938_355, 950_000),
        (730, 10, 15_099_494, 900_000),
        (750, 16, 14_092_861, 840_000),
        (775, 25, 12_582_912, 750_000),
        (800, 33, 11_240_734, 670_000),
        (850, 50, 8_388_608, 500_000),
        (900, 66, 5_704_253, 340_000),
        (925, 75, 4_194_304, 250_000),
        (950, 83, 2_852_126, 170_000),
        (970, 90, 1_677_721, 100_000),
        (985, 95, 838_860, 50_000),
        (990, 96, 671_088, 40_000),
        (996, 98, 335_544, 20_000),
        (997, 99, 167_772, 16_384),
        (998, 99, 167_772, 16_384),
        (999, 99, 167_772, 16_384),
        (1_000, 100, 0, 0),
        (1_001, 100, 0, 0),
    ];
    let (one, two) = (controller(16 * MIB)?, controller(1_000_000)?);
    let manager = manager(1_000)?;
    let database = manager.register("law", None);
    let _sinks = (database.attach_sink(one.clone()), database.attach_sink(two.clone()));
    for (used, step, first, second) in rows {
        equal!(quota(1_000, 70)?.pressure_at(used).code(), step, "Q 1,000, U {used}");
        let charge = database.open_charge(&Arc::from("f"));
        charge.grow(used);
        equal!(manager.pressure().code(), step, "the manager's pressure at U {used}");
        equal!((one.rate(), two.rate()), (first, second), "the rates at U {used}");
    }
    for (bytes, percent, used, step) in [
        (1_000, 70, 787, 29),
        (1_000, 70, 871, 57),
        (1_000, 70, 874, 58),
        (100, 29, 28, 0),
        (100, 29, 29, 1),
        (40_960, 70, 28_671, 0),
        (40_960, 70, 28_672, 1),
        (40_960, 70, 34_816, 50),
        (40_960, 70, 38_912, 83),
        (40_960, 70, 40_959, 99),
        (40_960, 70, 40_960, 100),
        (1 << 30, 70, 751_619_275, 0),
        (1 << 30, 70, 751_619_276, 1),
        (1 << 30, 70, 812_646_400, 18),
        (1 << 30, 70, (1 << 30) - 1, 99),
        (0, 70, u64::MAX, 0),
        (u64::MAX, 99, u64::MAX - 1, 99),
        (u64::MAX, 1, u64::MAX, 100),
    ] {
        equal!(quota(bytes, percent)?.pressure_at(used).code(), step, "Q {bytes}, P {percent}, U {used}");
    }
    for percent in [0, 100, 150, 65_535] {
        if quota(1_000, percent).is_ok() {
            return Err(format!("a delay from {percent} % on was accepted"));
        }
    }
    Ok(())
}

/// `pressure C7`: over T..Q exactly 99 different steps occur wherever there is room for them; they only rise.
fn ninety_nine_steps() -> Result<(), String> {
    for bytes in [10_000, 40_960, 65_537, 1_000_003, 64 * MIB, 1 << 30, (1 << 40) + 7, u64::MAX] {
        for percent in [1, 2, 29, 50, 69, 70, 71, 90, 98, 99] {
            let quota = quota(bytes, percent)?;
            let start = (u128::from(bytes) * u128::from(percent) / 100) as u64;
            equal!(quota.delay_start(), start, "T of Q {bytes}, P {percent}");
            let mut seen = [false; 101];
            // Three bytes around every edge between two slices.
            for slice in 0..=100_u128 {
                let edge = start + (u128::from(bytes - start) * slice).div_ceil(100) as u64;
                for used in [edge.saturating_sub(1), edge, edge.saturating_add(1)] {
                    let found = quota.pressure_at(used).code();
                    equal!(found, code(bytes, percent, used), "Q {bytes}, P {percent}, U {used}");
                    seen[usize::from(found)] = true;
                }
            }
            let steps = seen[1..100].iter().filter(|seen| **seen).count();
            equal!(steps, 99, "different steps of Q {bytes}, P {percent}");
        }
    }
    Ok(())
}

/// `pressure C9`: quotas of 0 to 200 bytes with every percentage at every usage: no division by zero, no wrong step.
fn tiny_quotas() -> Result<(), String> {
    for bytes in 0..=200 {
        for percent in 1..=99 {
            let quota = quota(bytes, percent)?;
            let mut before = 0;
            for used in 0..=bytes + 2 {
                let found = quota.pressure_at(used).code();
                equal!(found, code(bytes, percent, used), "Q {bytes}, P {percent}, U {used}");
                if found < before {
                    return Err(format!("Q {bytes}, P {percent}: the step falls at U {used}"));
                }
                before = found;
            }
        }
    }
    Ok(())
}

/// `pressure 2.2`, `C10`: each step's rate for maxima around the floor and far above.
fn rates() -> Result<(), String> {
    let maxima = [1, 100, 10_000, 16_383, 16_384, 16_385, 20_000, 1_000_000, 16 * MIB, 1 << 40, u64::MAX];
    for max in maxima {
        let mut before = u64::MAX;
        for step in 1..=99 {
            let fraction = DelayStep::new(step).map(Fraction::from).ok_or("a step of 1 to 99")?;
            let found = derived_rate(fraction, max);
            equal!(found, rate(step, max), "the rate of step {step} at a maximum of {max}");
            if found > before || found == 0 {
                return Err(format!("step {step} of {max} gives {found} after {before}"));
            }
            before = found;
        }
    }
    equal!((rate(10, 20_000), rate(50, 20_000)), (18_000, 16_384), "20,000 at the steps 10 and 50");
    Ok(())
}

/// pressure S1, pressure S2, pressure S3, pressure S4, pressure S5: the strictest wins, whoever leaves, whatever the maximum.
fn strictest() -> Result<(), String> {
    let ratio = |part, whole| Fraction::ratio(part, whole).map_or(Requirement::Normal, Requirement::Delayed);
    let controller = controller(16 * MIB)?;
    let source = |kind, ask| {
        let source = controller.source(kind);
        source.require(ask);
        source
    };
    let manager = source(SourceKind::WriteBufferManager, delayed(50));
    let l0 = source(SourceKind::L0, ratio(4, 5));
    let pending = source(SourceKind::PendingCompactionBytes, ratio(19, 20));
    let count = source(SourceKind::MemtableCount, ratio(1, 10));
    equal!(controller.rate(), 1_677_721, "S1, all four");
    equal!(controller.stats().strictest, Some(count.id()), "S1, the strictest");
    drop(count);
    equal!(controller.rate(), 8_388_608, "S1 without memtable-count");
    drop(manager);
    equal!(controller.rate(), 13_421_772, "S1 without the manager");
    drop(l0);
    equal!(controller.rate(), 15_938_355, "S1 without l0");
    drop(pending);
    equal!((controller.rate(), controller.is_holding()), (16 * MIB, false), "S1, nobody");

    let (first, second) = (
        source(SourceKind::WriteBufferManager, delayed(60)),
        source(SourceKind::WriteBufferManager, delayed(30)),
    );
    equal!(controller.rate(), 6_710_886, "S2, two managers");
    drop(first);
    equal!(controller.rate(), 11_744_051, "S2, one manager");
    drop(second);

    let sources = [source(SourceKind::WriteBufferManager, delayed(50)), source(SourceKind::L0, ratio(1, 4))];
    for (max, rate) in [(16 * MIB, 4_194_304), (1_000_000, 250_000), (10_000, 10_000), (16 * MIB, 4_194_304)]
    {
        controller.set_max_rate(max);
        equal!(controller.rate(), rate, "S3, a maximum of {max}");
    }
    let stop = source(SourceKind::LockWal, Requirement::Stopped);
    equal!((controller.rate(), controller.is_stopped()), (0, true), "a stop beats every delay");
    drop(stop);
    equal!((controller.rate(), controller.is_stopped()), (4_194_304, false), "S5, the stop is dropped");
    drop(sources);

    // Any number of sources, in any order: the least of all.
    let mut rng = Rng::new(15);
    for round in 0..200 {
        let mut sources = Vec::new();
        let mut least = None;
        for _ in 0..rng.range(1, 40) {
            let step = rng.range(1, 99) as u8;
            sources.push(source(*rng.pick(&SourceKind::ALL), delayed(step)));
            least = least.max(Some(step));
        }
        let left = rng.index(sources.len());
        let expected = least.map_or(16 * MIB, |step| rate(step, 16 * MIB));
        equal!(controller.rate(), expected, "round {round}: {} sources", sources.len());
        drop(sources.split_off(left));
        drop(sources);
        equal!(controller.rate(), 16 * MIB, "round {round}: nobody is left");
    }
    Ok(())
}

/// `pressure E7`, `pressure E11`, `pressure E12`: one manager and controllers with maxima of their own.
fn controllers() -> Result<(), String> {
    let manager = manager(40 << 10)?;
    let database = manager.register("law", None);
    let charge = database.open_charge(&Arc::from("f"));
    let maxima = [1_000_000, 10_000_000, 100_000_000];
    let brakes = [controller(maxima[0])?, controller(maxima[1])?, controller(maxima[2])?];
    let mut sinks: Vec<_> = brakes.iter().map(|brake| database.attach_sink(brake.clone())).collect();
    charge.grow(34_816);
    equal!(brakes.each_ref().map(|brake| brake.rate()), [500_000, 5_000_000, 50_000_000], "E11, step 50");
    drop(sinks.pop());
    equal!(brakes.each_ref().map(|brake| brake.rate()), [500_000, 5_000_000, 100_000_000], "E11, one leaves");

    let late = controller(16 * MIB)?;
    let _sink = database.attach_sink(late.clone());
    equal!(late.rate(), 8_388_608, "E12, told at once");
    for (more, rate) in [(6_143, 167_772), (1, 0)] {
        charge.grow(more);
        equal!(late.rate(), rate, "E7 at U {}", charge.bytes());
    }
    charge.give_back(1);
    equal!(late.rate(), 167_772, "E7, a byte below the quota");
    drop(charge);
    equal!((late.rate(), brakes[0].rate()), (16 * MIB, 1_000_000), "everything is free");
    drop(sinks);
    Ok(())
}

/// `pressure 2.3`, `C12`, `S4`: published if and only if it changed, once to each controller.
fn publications() -> Result<(), String> {
    let manager = manager(10_000)?;
    let database = manager.register("law", None);
    let brakes = [controller(16 * MIB)?, controller(MIB)?];
    let _sinks = brakes.each_ref().map(|brake| database.attach_sink(brake.clone()));
    // The same controller through a second database is told once.
    let second = manager.register("second", None);
    let _again = second.attach_sink(brakes[0].clone());
    let charge = database.open_charge(&Arc::from("f"));
    let mut before =
        (0, manager.stats().publications, brakes.each_ref().map(|brake| brake.stats().publications));
    let mut rng = Rng::new(12);
    for round in 0..5_000 {
        let used = charge.bytes();
        let target = if rng.chance(70) {
            used.saturating_add(rng.below(61)).saturating_sub(30)
        } else {
            rng.below(10_100)
        };
        if target > used {
            charge.grow(target - used)
        } else {
            charge.give_back(used - target)
        }
        let now = code(10_000, 70, target);
        let changes = u64::from(now != before.0);
        equal!(manager.pressure().code(), now, "round {round}, U {target}");
        equal!(
            manager.stats().publications - before.1,
            changes,
            "round {round}, U {used} -> {target}: publications"
        );
        before.1 += changes;
        for (brake, count) in brakes.iter().zip(&mut before.2) {
            *count += changes;
            equal!(brake.stats().publications, *count, "round {round}, U {used} -> {target}: a controller");
        }
        before.0 = now;
    }
    let source = brakes[0].source(SourceKind::L0);
    source.require(Requirement::Stopped);
    let count = brakes[0].stats().publications;
    for _ in 0..1_000 {
        source.require(Requirement::Stopped);
    }
    equal!(brakes[0].stats().publications, count, "S4, an equal requirement a thousand times");
    Ok(())
}

/// `pressure 2.4`, `C4`, `C8`, `E13`: a setting that changes is published within the call.
fn settings() -> Result<(), String> {
    let manager = manager(10_000)?;
    let database = manager.register("law", None);
    let brake = controller(16 * MIB)?;
    let sink = database.attach_sink(brake.clone());
    let charge = database.open_charge(&Arc::from("f"));
    charge.grow(9_000);
    let mut state = (10_000, 70, true);
    let mut rng = Rng::new(24);
    for round in 0..2_000 {
        match rng.below(3) {
            0 => state.0 = *rng.pick(&[0, 1, 9_000, 9_001, 10_000, 12_000, 12_900, 20_000]),
            1 => state.1 = rng.range(1, 99),
            _ => state.2 = rng.chance(60),
        }
        manager.set_quota_bytes(state.0);
        manager.set_allow_stall(state.2);
        manager.set_delay_start_percent(state.1 as u32).map_err(|error| error.to_string())?;
        let expected = if state.2 { code(state.0, state.1, 9_000) } else { 0 };
        equal!(manager.pressure().code(), expected, "round {round}, Q, P, allow_stall {state:?}");
        let rate = match expected {
            0 => 16 * MIB,
            100 => 0,
            step => rate(step, 16 * MIB),
        };
        equal!(brake.rate(), rate, "round {round}, the rate of {state:?}");
    }
    for percent in [0, 100] {
        if manager.set_delay_start_percent(percent).is_ok() {
            return Err(format!("a delay from {percent} % on was accepted"));
        }
    }
    manager.set_allow_stall(true);
    manager.set_quota_bytes(9_000);
    equal!(brake.is_stopped(), true, "U = Q");
    drop(sink);
    equal!(
        (brake.is_stopped(), brake.rate()),
        (false, 16 * MIB),
        "the last database of the controller leaves"
    );
    Ok(())
}

/// `pressure S7`: queued bytes count towards the step, never towards the stop.
fn queued() -> Result<(), String> {
    let manager = manager(1_000)?;
    let database = manager.register("law", None);
    let charge = database.open_charge(&Arc::from("f"));
    charge.grow(650);
    let mut queue = database.queue(100);
    equal!(manager.pressure().code(), 16, "U 650, B 100");
    let count = manager.stats().publications;
    charge.grow_from_queue(&mut queue, 100);
    drop(queue);
    equal!((manager.pressure().code(), manager.stats().publications), (16, count), "the bytes are charged");
    charge.grow(200);
    let queue = database.queue(100);
    equal!(manager.pressure().code(), 99, "U 950, B 100");
    charge.grow(50);
    equal!(manager.pressure(), Pressure::Stopped, "U 1,000");
    drop(queue);
    drop(charge);
    let queue = database.queue(800);
    equal!(manager.pressure().code(), 33, "U 0, B 800");
    drop(queue);
    equal!(manager.pressure(), Pressure::Normal, "U 0, B 0");
    Ok(())
}

/// `pressure C11`: eight threads charge and free around both edges; when they are done, everybody says what the law says.
fn threads() -> Result<(), String> {
    let manager = manager(10_000)?;
    let brakes = [controller(16 * MIB)?, controller(MIB)?];
    let database = manager.register("law", None);
    let _sinks = brakes.each_ref().map(|brake| database.attach_sink(brake.clone()));
    let name: Arc<str> = Arc::from("f");
    for round in 0..20 {
        let charges: Vec<_> = (0..8).map(|_| database.open_charge(&name)).collect();
        std::thread::scope(|scope| {
            for (thread, charge) in (0..).zip(&charges) {
                scope.spawn(move || {
                    let mut rng = Rng::new(round << 3 | thread);
                    for _ in 0..500 {
                        let target = rng.range(800, 1_400);
                        let bytes = charge.bytes();
                        if target > bytes {
                            charge.grow(target - bytes)
                        } else {
                            charge.give_back(bytes - target)
                        }
                    }
                });
            }
        });
        let expected = code(10_000, 70, charges.iter().map(|charge| charge.bytes()).sum());
        equal!(manager.pressure().code(), expected, "round {round}, the manager");
        for brake in &brakes {
            let max = brake.max_rate();
            let rate = match expected {
                0 => max,
                100 => 0,
                step => rate(step, max),
            };
            equal!(brake.rate(), rate, "round {round}, a controller");
        }
    }
    Ok(())
}
