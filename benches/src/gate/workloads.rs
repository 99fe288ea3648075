//! The workloads of the gate: fixed numbers of operations on seeded keys, from one thread.
//!
//! Foreground work counts the caller's thread alone, so that what flushes and compactions do at their own times does
//! not blur it. Flush and compaction count all threads.

use sluicedb::{ColumnFamilyOptions, Db, DbOptions, FlushOptions, WriteBatch};

use super::valgrind::{start_counting, stop_counting};
use crate::{Numbers, TempDb, key};

/// Keys of the databases that are read, and entries that are flushed.
const KEYS: u64 = 40_000;
/// Puts of the workloads that write.
const PUTS: u64 = 40_000;
/// Gets of the workloads that read.
const GETS: u64 = 20_000;
/// Puts of one batch.
const BATCH: u64 = 100;

/// Whose instructions a workload counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Those of the thread that calls the database.
    Caller,
    /// Those of all threads.
    All,
}

/// A workload: its name, what it counts, and what it does.
#[derive(Debug)]
pub struct Workload {
    /// Its name in `gate.txt`.
    pub name: &'static str,
    /// Whose instructions.
    pub counted: Counted,
    /// Operations, to divide by.
    pub operations: u64,
    run: fn(),
}

impl Workload {
    /// Sets it up, then does it between [`start_counting`] and [`stop_counting`].
    ///
    /// # Panics
    ///
    /// If the database refuses anything.
    pub fn run(&self) {
        (self.run)();
    }
}

/// All workloads, in the order of the table.
pub const ALL: [Workload; 10] = [
    caller("fillseq", PUTS, fillseq),
    caller("fillrandom", PUTS, fillrandom),
    caller("batch", PUTS, batch),
    caller("get_memtable", GETS, get_memtable),
    caller("get_hit", GETS, get_hit),
    caller("get_miss", GETS, get_miss),
    caller("seek_next10", GETS / 10, seek_next10),
    caller("scan", KEYS, scan),
    all("flush", KEYS, flush),
    all("compaction", KEYS, compaction),
];

const fn caller(name: &'static str, operations: u64, run: fn()) -> Workload {
    Workload { name, counted: Counted::Caller, operations, run }
}

const fn all(name: &'static str, operations: u64, run: fn()) -> Workload {
    Workload { name, counted: Counted::All, operations, run }
}

/// Nothing in the background but what is asked for: no delay, no seal, no compaction of its own accord.
fn options() -> DbOptions {
    let mut family = ColumnFamilyOptions::default();
    family.write_buffer_size = 64 << 20;
    family.disable_auto_compactions = true;
    family.bloom_bits_per_key = 10.0;
    let mut options = DbOptions::default();
    options.column_family = family;
    options.allow_stall = false;
    options.initiate_flushes = false;
    options
}

/// 100 bytes of which LZ4 halves the length.
fn value(number: u64) -> [u8; 100] {
    let mut value = [b'v'; 100];
    let mut numbers = Numbers::new(number + 1);
    for byte in &mut value[..50] {
        *byte = numbers.below(256) as u8;
    }
    value
}

fn counted(work: impl FnOnce()) {
    start_counting();
    work();
    stop_counting();
}

fn put(db: &Db, number: u64, value: &[u8]) {
    db.put(key(number), value).expect("a put");
}

/// A database whose even keys lie in a compacted level, tables open and blocks cached as far as they fit.
fn compacted() -> TempDb {
    let temp = TempDb::open(options());
    for number in 0..KEYS {
        put(&temp.db, 2 * number, &value(number));
    }
    temp.db.compact_range(None, None).expect("a compaction");
    for number in 0..KEYS {
        assert!(temp.db.get(key(2 * number)).expect("a get").is_some());
    }
    temp
}

fn fillseq() {
    let temp = TempDb::open(options());
    let value = value(1);
    counted(|| (0..PUTS).for_each(|number| put(&temp.db, number, &value)));
}

fn fillrandom() {
    let temp = TempDb::open(options());
    let value = value(1);
    let mut numbers = Numbers::new(42);
    counted(|| (0..PUTS).for_each(|_| put(&temp.db, numbers.below(1 << 40), &value)));
}

fn batch() {
    let temp = TempDb::open(options());
    let value = value(1);
    let mut numbers = Numbers::new(42);
    counted(|| {
        for _ in 0..PUTS / BATCH {
            let mut batch = WriteBatch::new();
            for _ in 0..BATCH {
                batch.put(key(numbers.below(1_000)), value);
            }
            temp.db.write(batch).expect("a batch");
        }
    });
}

fn get_memtable() {
    let temp = TempDb::open(options());
    for number in 0..KEYS {
        put(&temp.db, number, &value(number));
    }
    gets(&temp.db, 1, 0, true);
}

fn get_hit() {
    gets(&compacted().db, 2, 0, true);
}

fn get_miss() {
    gets(&compacted().db, 2, 1, false);
}

fn gets(db: &Db, scale: u64, offset: u64, found: bool) {
    let mut numbers = Numbers::new(42);
    counted(|| {
        for _ in 0..GETS {
            let value = db.get(key(scale * numbers.below(KEYS) + offset)).expect("a get");
            assert_eq!(value.is_some(), found);
        }
    });
}

fn seek_next10() {
    let temp = compacted();
    let mut numbers = Numbers::new(42);
    let mut iterator = temp.db.iter().expect("an iterator");
    counted(|| {
        for _ in 0..GETS / 10 {
            iterator.seek(key(numbers.below(2 * (KEYS - 20)))).expect("a seek");
            for _ in 0..10 {
                assert!(iterator.valid());
                iterator.next().expect("a step");
            }
        }
    });
}

fn scan() {
    let temp = compacted();
    let mut iterator = temp.db.iter().expect("an iterator");
    let mut seen = 0;
    counted(|| {
        iterator.seek_to_first().expect("a seek");
        while iterator.valid() {
            seen += 1;
            iterator.next().expect("a step");
        }
    });
    assert_eq!(seen, KEYS);
}

fn flush() {
    let temp = TempDb::open(options());
    let mut numbers = Numbers::new(42);
    for number in 0..KEYS {
        put(&temp.db, numbers.below(1 << 40), &value(number));
    }
    counted(|| temp.db.flush_opt(&FlushOptions::default()).expect("a flush"));
}

fn compaction() {
    let temp = TempDb::open(options());
    let mut numbers = Numbers::new(42);
    for number in 0..KEYS {
        put(&temp.db, numbers.below(1 << 40), &value(number));
        if number % (KEYS / 4) == KEYS / 4 - 1 {
            temp.db.flush().expect("a flush");
        }
    }
    counted(|| temp.db.compact_range(None, None).expect("a compaction"));
}
