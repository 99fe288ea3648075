//! What the pressure tests share: databases on a clock that stands still, stops that begin and end when a test says.
//!
//! Time is a settable [`ManualClock`]: it moves only when a test moves it, so a thread that sleeps in a delay is seen to
//! sleep. Flushes and compactions are held by a [`Gate`]. Nothing here knows a case of the spec.

use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use sluicedb::{
    ControllerOptions, Db, DbOptions, DelayedWriteRate, Error, Fraction, ManualClock, Pressure, Requirement,
    Result, WbmOptions, WriteBufferManager, WriteController, WriteOptions,
};

use crate::cases::{eventually, with_watchdog};
use crate::sim_fs::{FileKind, Gate, Op, Pattern, SimFs};

/// Seconds after which a case counts as hung.
const CASE_SECONDS: u64 = 120;

/// A rate so high that no delay is ever slept.
pub const UNFELT: u64 = 1 << 50;

/// Runs a case under the watchdog, on a clock that stands still.
pub fn case(name: &str, body: impl FnOnce(&ManualClock)) {
    with_watchdog(CASE_SECONDS, name, || body(&ManualClock::new(1_000)));
}

/// Options in which only the manager slows writers, and nobody feels a delay.
pub fn options(fs: &SimFs, clock: &ManualClock) -> DbOptions {
    let mut options = DbOptions::default();
    options.file_system = Arc::new(fs.clone());
    options.clock = Arc::new(clock.clone());
    options.delayed_write_rate = DelayedWriteRate::BytesPerSecond(UNFELT);
    options.wal_segment_bytes = 1 << 20;
    // Nothing but writers and flushes waits for a time.
    options.wal_sync_interval = Duration::ZERO;
    options.manifest_save_interval = Duration::MAX;
    options.manifest_min_gap = Duration::ZERO;
    options.block_cache_size = 0;
    options.max_background_compactions = 1;
    options.column_family.max_write_buffer_number = 1_000;
    options.column_family.level0_file_num_compaction_trigger = 1_000;
    options.column_family.level0_slowdown_writes_trigger = 1_000;
    options.column_family.level0_stop_writes_trigger = 1_000;
    options
}

/// A manager with this quota that flushes only when rule 1.4 wants it.
pub fn passive_manager(quota: u64, clock: &ManualClock) -> Arc<WriteBufferManager> {
    let mut options = WbmOptions::new(quota);
    options.initiate_flushes = false;
    WriteBufferManager::new(options, Arc::new(clock.clone())).expect("the options are valid")
}

/// A controller with this top rate.
pub fn controller(rate: u64, clock: &ManualClock) -> Arc<WriteController> {
    WriteController::new(&ControllerOptions::with_rate(rate), Arc::new(clock.clone()))
        .expect("the options are valid")
}

/// `count` databases, each on a file system of its own, on one manager and one controller.
pub fn databases(
    count: u64,
    manager: &Arc<WriteBufferManager>,
    controller: &Arc<WriteController>,
    clock: &ManualClock,
) -> Vec<(SimFs, Db)> {
    let open = |number| {
        let fs = SimFs::new(number);
        let mut options = options(&fs, clock);
        options.write_buffer_manager = Some(Arc::clone(manager));
        options.write_controller = Some(Arc::clone(controller));
        let db = Db::open(format!("/{number}"), options).expect("the database opens");
        (fs, db)
    };
    (0..count).map(open).collect()
}

/// Write options that refuse to wait.
pub fn no_slowdown() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.no_slowdown = true;
    options
}

/// Half of the top rate, as a source asks for it.
pub fn half() -> Requirement {
    Requirement::Delayed(Fraction::ratio(1, 2).expect("a half is a fraction"))
}

/// The top rate itself, as a source asks for it.
pub fn full() -> Requirement {
    Requirement::Delayed(Fraction::ONE)
}

/// Holds every flush before its table is synced.
pub fn hold_flushes(fs: &SimFs) -> Gate {
    fs.gate(Pattern::op(Op::Sync).on(FileKind::Sst))
}

/// Flushes `db` once more; the compaction that becomes due by it is held before it makes its first file. Later flushes pass.
pub fn flush_and_hold_compaction(fs: &SimFs, db: &Db) -> Gate {
    let flush = fs.gate(Pattern::op(Op::Sync).on(FileKind::Sst));
    let compaction = std::thread::scope(|scope| {
        let flusher = scope.spawn(|| db.flush());
        flush.wait_until_reached();
        let compaction = fs.gate_next(Pattern::op(Op::Create).on(FileKind::Sst));
        flush.open();
        flusher.join().expect("the flusher does not panic").expect("the flush ends well");
        compaction
    });
    compaction.wait_until_reached();
    settle(db);
    compaction
}

/// Adds `count` files to L0 that overlap with one another.
pub fn add_l0(db: &Db, count: u32) {
    for _ in 0..count {
        db.put("a", "1").expect("a write");
        db.put("z", "1").expect("a write");
        flush(db, "default");
    }
}

/// Flushes a family, and waits until the shape that it has then is known to the brake.
pub fn flush(db: &Db, family: &str) {
    db.flush_cf(&db.column_family(family).expect("the family is there")).expect("a flush");
    settle(db);
}

/// Waits until no flush runs: one tells the brake after its file is installed.
pub fn settle(db: &Db) {
    until("no flush runs", || db.property_int("rocksdb.num-running-flushes") == Some(0));
}

/// Files in all levels of `default`.
pub fn files(db: &Db) -> u64 {
    files_of(db, "default")
}

/// Files in all levels of a family.
pub fn files_of(db: &Db, family: &str) -> u64 {
    let family = db.column_family(family).expect("the family is there");
    db.level_stats(&family).expect("an open database").iter().map(|level| level.files).sum()
}

/// Bytes that flushes can free, of all databases on the manager.
pub fn used(db: &Db) -> u64 {
    db.write_buffer_manager().usage_report().used
}

/// Whether the manager stops writers.
pub fn is_stopped(db: &Db) -> bool {
    db.write_buffer_manager().pressure() == Pressure::Stopped
}

/// The manager's step: 0 when normal or stopped.
pub fn step(db: &Db) -> u8 {
    match db.write_buffer_manager().pressure() {
        Pressure::Delayed(step) => step.get(),
        _ => 0,
    }
}

/// A number out of a property that lists `name: value` lines.
pub fn number(db: &Db, property: &str, name: &str) -> u64 {
    let text = db.property(property).expect("the property is known");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no number {name} in:\n{text}"))
}

/// Waits until `content`, for what other threads do in their own time.
pub fn until(what: &str, mut content: impl FnMut() -> bool) {
    eventually(|| if content() { Ok(()) } else { Err(format!("not yet: {what}")) })
        .expect("it comes to pass");
}

/// Waits until so many writers of the controller are stopped.
pub fn until_parked(db: &Db, count: usize) {
    until(&format!("{count} parked"), || db.write_controller().stats().parked == count);
}

/// Waits until so many writers of the controller sleep in a delay.
pub fn until_asleep(db: &Db, count: usize) {
    until(&format!("{count} asleep"), || db.write_controller().stats().sleeping == count);
}

/// Puts from a thread of its own.
pub fn put_aside<'scope>(
    scope: &'scope Scope<'scope, '_>,
    db: &'scope Db,
    key: impl Into<Vec<u8>>,
    len: usize,
) -> ScopedJoinHandle<'scope, Result<()>> {
    let key = key.into();
    scope.spawn(move || db.put(key, vec![7; len]))
}

/// Fills the memtable of `default` until the manager stops writers; the flushes must be held.
pub fn fill_until_stopped(db: &Db) {
    for number in 0_u32.. {
        if is_stopped(db) {
            return;
        }
        db.put(format!("fill{number:08}"), [1; 1_000]).expect("a write below the quota");
    }
}

/// Whether a write was refused by the brake.
pub fn is_stalled<T>(outcome: &Result<T>) -> bool {
    matches!(outcome, Err(Error::Stalled { .. }))
}
