//! What the tests of the commit queue share: a held leader, batches of an exact size, numbers of the queue.
//!
//! The lead is held by a change between two groups whose manifest sync waits at a gate: so the queue's bytes are those
//! of the writes alone. Nothing here knows a case of the spec.

use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};

use sluicedb::{ColumnFamilyOptions, Db, DbOptions, ManualClock, WriteBatch};

use crate::pressure;
use crate::sim_fs::{FileKind, Gate, Op, Pattern, SimFs};

/// Bytes that the log's framing adds to a batch.
const FRAMING: usize = 8;

/// A database whose commit queue has this many bytes, on a clock that stands still.
pub fn open(fs: &SimFs, clock: &ManualClock, change: impl FnOnce(&mut DbOptions)) -> Db {
    let mut options = pressure::options(fs, clock);
    options.file_system = Arc::new(fs.clone());
    change(&mut options);
    Db::open("/db", options).expect("the database opens")
}

/// A lead that is held until it is [`release`](Self::release)d.
pub struct HeldLead<'scope> {
    gate: Gate,
    thread: ScopedJoinHandle<'scope, ()>,
}

impl HeldLead<'_> {
    /// Lets the lead go, and waits until it has gone.
    pub fn release(self) {
        self.gate.open();
        self.thread.join().expect("the change does not panic");
    }
}

/// Holds the lead; `name` is the family that is made by it.
pub fn hold_lead<'scope>(
    scope: &'scope Scope<'scope, '_>,
    fs: &SimFs,
    db: &'scope Db,
    name: &str,
) -> HeldLead<'scope> {
    let gate = fs.gate(Pattern::op(Op::Sync).on(FileKind::Manifest));
    let name = name.to_owned();
    let thread = scope.spawn(move || {
        db.create_column_family(&name, ColumnFamilyOptions::default()).expect("a family");
    });
    gate.wait_until_reached();
    HeldLead { gate, thread }
}

/// A batch that sets `key` and takes `unit` bytes of the queue, at least 64. (A length takes one byte more from 128 on:
/// where no batch has exactly that size, one of a byte less comes back.)
pub fn batch(key: &str, unit: usize) -> WriteBatch {
    let sized = |value: usize| {
        let mut batch = WriteBatch::new();
        batch.put(key, vec![b'v'; value]);
        batch
    };
    let around = unit.saturating_sub(FRAMING + key.len() + 32);
    (around..unit)
        .map(sized)
        .take_while(|batch| batch.byte_size() as usize + FRAMING <= unit)
        .last()
        .unwrap_or_else(|| panic!("no batch takes only {unit} bytes"))
}

/// One of the numbers of the property `sluicedb.commit_queue`.
pub fn queue(db: &Db, name: &str) -> u64 {
    db.property_int(&format!("sluicedb.commit_queue.{name}")).expect("the queue has this number")
}

/// Waits until so many units are queued.
pub fn until_queued(db: &Db, units: u64) {
    pressure::until(&format!("{units} units are queued"), || queue(db, "units") == units);
}

/// Waits until so many writers wait for room in the queue.
pub fn until_waiting(db: &Db, writers: u64) {
    pressure::until(&format!("{writers} writers wait for room"), || queue(db, "waiting") == writers);
}
