//! Listeners are told what happened, in order, outside all locks: flushes, compactions, stalls, pressure, failures.
//!
//! `pressure V6`, `pressure V7` and `pressure D22`. Each test closes its database before it looks: close tells all that
//! is left to tell, so nothing here waits for a clock.

use std::sync::{Arc, Mutex};

use sluicedb::{
    ColumnFamilyOptions, CompactionCompleted, Db, DbOptions, DelayedWriteRate, Error, EventListener,
    FlushCompleted, Pressure, PressureChange, StallConditions, State, WriteOptions,
};
use sluicedb_tests::cases::{eventually, with_watchdog};
use sluicedb_tests::rng::Rng;
use sluicedb_tests::sim_fs::{Effect, Fault, FileKind, Op, Pattern, SimFs};

const DB: &str = "/db";

/// Keeps a line of each event, and the changes of pressure.
#[derive(Default)]
struct Notes {
    lines: Mutex<Vec<String>>,
    changes: Mutex<Vec<PressureChange>>,
}

impl Notes {
    fn add(&self, line: String) {
        self.lines.lock().unwrap().push(line);
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }
}

impl EventListener for Notes {
    fn on_pressure_changed(&self, change: &PressureChange) {
        self.changes.lock().unwrap().push(change.clone());
    }

    fn on_stall_conditions_changed(&self, change: &StallConditions) {
        let StallConditions { family, previous, current, cause, .. } = change;
        let family = family.as_deref().unwrap_or("all");
        self.add(format!("{family}: {previous} -> {current}, {}", cause.cause()));
    }

    fn on_flush_completed(&self, flush: &FlushCompleted) {
        assert!(flush.file.is_some() && flush.bytes > 0 && flush.memtables > 0, "{flush:?}");
        self.add(format!("{}: flush", flush.family));
    }

    fn on_compaction_completed(&self, compaction: &CompactionCompleted) {
        let CompactionCompleted { family, input_files, output_files, .. } = compaction;
        self.add(format!("{family}: {input_files} files into {output_files}"));
    }

    fn on_background_error(&self, error: &Error) {
        assert!(matches!(error, Error::Io { .. }), "{error}");
        self.add("failed".to_owned());
    }

    fn on_resumed(&self) {
        self.add("resumed".to_owned());
    }
}

/// Three L0 files stop writers, two delay them; only a compaction that is asked for brings them down.
fn family_options() -> ColumnFamilyOptions {
    let mut options = ColumnFamilyOptions::default();
    options.write_buffer_size = 64 << 10;
    options.level0_file_num_compaction_trigger = 1_000;
    options.level0_slowdown_writes_trigger = 2;
    options.level0_stop_writes_trigger = 3;
    options
}

fn options(fs: &SimFs, listener: &Arc<impl EventListener + 'static>) -> DbOptions {
    let mut options = DbOptions::default();
    options.file_system = Arc::new(fs.clone());
    options.column_family = family_options();
    options.db_write_buffer_size = 0;
    options.delayed_write_rate = DelayedWriteRate::BytesPerSecond(1 << 30);
    options.listeners = vec![Arc::clone(listener) as _];
    options
}

/// The same with a manager: 256 KiB, and nothing but the manager holds writers.
fn with_quota(fs: &SimFs, listener: &Arc<impl EventListener + 'static>) -> DbOptions {
    let mut options = options(fs, listener);
    options.db_write_buffer_size = 256 << 10;
    options.column_family.max_write_buffer_number = 1_000;
    options.column_family.level0_slowdown_writes_trigger = 1_000;
    options.column_family.level0_stop_writes_trigger = 1_000;
    options
}

/// Flushes one small overlapping file, and waits until its flush has reported everything.
fn add_file(db: &Db, name: &str) {
    let family = db.column_family(name).unwrap();
    let mut batch = sluicedb::WriteBatch::new();
    batch.put_cf(&family, "a", "1").put_cf(&family, "z", "1");
    db.write(batch).unwrap();
    db.flush_cf(&family).unwrap();
    db.wait_for_background_work().unwrap();
}

fn log_of(fs: &SimFs) -> String {
    String::from_utf8(fs.bytes(format!("{DB}/LOG").as_ref())).unwrap()
}

/// Flushes, the causes that follow from them, and the compaction that ends those, in the order in which they happened;
/// LOG has one line for each change, in RocksDB's words on the way up. A family that is dropped takes its stop away.
#[test]
fn flushes_stalls_and_compactions_in_order() {
    with_watchdog(60, "flushes_stalls_and_compactions_in_order", || {
        let (fs, notes) = (SimFs::new(1), Arc::new(Notes::default()));
        let db = Db::open(DB, options(&fs, &notes)).unwrap();
        (0..3).for_each(|_| add_file(&db, "default"));
        db.compact_range(None, None).unwrap();
        let other = db.create_column_family("other", family_options()).unwrap();
        (0..3).for_each(|_| add_file(&db, "other"));
        db.drop_column_family(&other).unwrap();
        db.put("k", "v").unwrap();
        db.close().unwrap();

        let mut lines = notes.lines();
        // The compaction may go on level by level, by moving what it made.
        lines.retain(|line| line != "default: 1 files into 1");
        assert_eq!(
            lines,
            [
                "default: flush",
                "default: flush",
                "default: normal -> delayed, l0-file-count-limit",
                "default: flush",
                "default: delayed -> stopped, l0-file-count-limit",
                "default: 3 files into 1",
                "default: stopped -> normal, l0-file-count-limit",
                "other: flush",
                "other: flush",
                "other: normal -> delayed, l0-file-count-limit",
                "other: flush",
                "other: delayed -> stopped, l0-file-count-limit",
                "other: stopped -> normal, l0-file-count-limit",
            ]
        );
        let log = log_of(&fs);
        for text in [
            "INFO [default] Stalling writes because we have 2 level-0 files rate 1073741824\n",
            "WARN [default] Stopping writes because we have 3 level-0 files\n",
            "INFO [default] pressure: stopped -> normal, source l0#",
            "WARN [other] Stopping writes because we have 3 level-0 files\n",
            "INFO [other] pressure: stopped -> normal, source l0#",
        ] {
            assert_eq!(log.matches(text).count(), 1, "{text}\n{log}");
        }
    });
}

/// Two sealed memtables whose flush does not end stop writers; the listener and LOG say so, and when it is over.
#[test]
fn memtables_that_wait_for_flush() {
    with_watchdog(60, "memtables_that_wait_for_flush", || {
        let (fs, notes) = (SimFs::new(2), Arc::new(Notes::default()));
        let mut options = options(&fs, &notes);
        options.column_family.level0_slowdown_writes_trigger = 1_000;
        options.column_family.level0_stop_writes_trigger = 1_000;
        let db = Db::open(DB, options).unwrap();
        let gate = fs.gate(Pattern::op(Op::Sync).on(FileKind::Sst));
        let mut hasty = WriteOptions::default();
        hasty.no_slowdown = true;
        let refused = (0_u32..).find_map(|number| db.put_opt(number.to_be_bytes(), [1; 1_000], &hasty).err());
        assert!(matches!(refused, Some(Error::Stalled { .. })), "{refused:?}");
        gate.open();
        db.wait_for_background_work().unwrap();
        db.close().unwrap();
        let mut lines = notes.lines();
        lines.retain(|line| !line.ends_with("flush"));
        assert_eq!(
            lines,
            ["default: normal -> stopped, memtable-limit", "default: stopped -> normal, memtable-limit"]
        );
        let log = log_of(&fs);
        let text = "WARN [default] Stopping writes because we have 2 immutable memtables (waiting for flush), \
                    max_write_buffer_number is set to 2\n";
        assert_eq!(log.matches(text).count(), 1, "{log}");
    });
}

/// `pressure V7`, `pressure D22`: the manager's delay and stop reach listeners, by both methods; each change goes on
/// from where the last one ended.
#[test]
fn pressure_of_the_manager() {
    with_watchdog(60, "pressure_of_the_manager", || {
        let (fs, notes) = (SimFs::new(3), Arc::new(Notes::default()));
        let db = Db::open(DB, with_quota(&fs, &notes)).unwrap();
        let gate = fs.gate(Pattern::op(Op::Sync).on(FileKind::Sst));
        for number in 0_u32.. {
            db.put(number.to_be_bytes(), [1; 1_000]).unwrap();
            if db.write_buffer_manager().pressure() == Pressure::Stopped {
                break;
            }
        }
        assert_eq!(db.property("rocksdb.is-write-stopped").as_deref(), Some("1"));
        gate.open();
        db.flush().unwrap();
        db.close().unwrap();
        let changes = notes.changes.lock().unwrap().clone();
        check_chain(&changes);
        let states: Vec<State> = changes.iter().map(|change| change.current.state()).collect();
        assert_eq!(states[..2], [State::Delayed, State::Stopped]);
        assert_eq!(states.last(), Some(&State::Normal));
        let by_cause: Vec<String> = changes
            .iter()
            .map(|change| {
                let (previous, current) = (change.previous.state(), change.current.state());
                format!("all: {previous} -> {current}, write-buffer-manager-limit")
            })
            .collect();
        let mut lines = notes.lines();
        lines.retain(|line| line.starts_with("all"));
        assert_eq!(lines, by_cause);
    });
}

/// Numbers without a gap, and each change begins where the one before it ended.
fn check_chain(changes: &[PressureChange]) {
    let mut last = State::Normal;
    for (number, change) in (1..).zip(changes) {
        assert_eq!((change.number, change.previous.state()), (number, last), "{change}");
        last = change.current.state();
        assert_ne!(last, change.previous.state(), "{change}");
    }
}

/// `pressure V6`: ten thousand random transitions arrive in order, and none is lost.
///
/// Method: memory in use stays the same, since its flush is held; the quota jumps about it.
#[test]
fn ten_thousand_transitions() {
    with_watchdog(120, "ten_thousand_transitions", || {
        let (fs, notes) = (SimFs::new(4), Arc::new(Notes::default()));
        let db = Db::open(DB, with_quota(&fs, &notes)).unwrap();
        let manager = Arc::clone(db.write_buffer_manager());
        let gate = fs.gate(Pattern::op(Op::Sync).on(FileKind::Sst));
        (0..20_u32).for_each(|number| db.put(number.to_be_bytes(), [1; 1_000]).unwrap());
        let used = manager.usage_report().used;
        let mut rng = Rng::new(4);
        let quotas = [used * 10, used * 100 / 85, used];
        while manager.stats().times.transitions < 10_000 {
            manager.set_quota_bytes(*rng.pick(&quotas));
        }
        manager.set_quota_bytes(quotas[0]);
        let transitions = manager.stats().times.transitions;
        gate.open();
        db.close().unwrap();
        let changes = notes.changes.lock().unwrap().clone();
        check_chain(&changes);
        assert_eq!(changes.len() as u64, transitions);
    });
}

/// A failed flush is told once, and so is the way back; the flushes of the way back come before it.
#[test]
fn failure_and_resume() {
    with_watchdog(60, "failure_and_resume", || {
        let (fs, notes) = (SimFs::new(5), Arc::new(Notes::default()));
        let db = Db::open(DB, options(&fs, &notes)).unwrap();
        db.put("a", "1").unwrap();
        let broken = Effect::Fail(std::io::ErrorKind::Other);
        fs.inject(Fault::next(Pattern::op(Op::Sync).on(FileKind::Sst), broken));
        assert!(db.flush().is_err());
        assert!(matches!(db.put("b", "2"), Err(Error::ReadOnly { .. })));
        db.resume().unwrap();
        db.put("b", "2").unwrap();
        db.close().unwrap();
        assert_eq!(notes.lines(), ["failed", "default: flush", "resumed"]);
    });
}

/// Writes, flushes, reads and closes from inside its calls, as long as it has a database.
#[derive(Default)]
struct Caller {
    db: Mutex<Option<Db>>,
    other: Mutex<Option<Db>>,
    flushes: Mutex<u32>,
    changes: Mutex<u32>,
}

impl Caller {
    fn db(&self) -> Option<Db> {
        self.db.lock().unwrap().clone()
    }
}

impl EventListener for Caller {
    fn on_flush_completed(&self, flush: &FlushCompleted) {
        let Some(db) = self.db() else { return };
        if let Some(other) = self.other.lock().unwrap().take() {
            other.close().expect("another database closes");
        }
        let number = *self.flushes.lock().unwrap();
        if number < 5 {
            db.put(number.to_be_bytes(), "written by a listener").expect("a listener writes");
            assert!(db.property("rocksdb.stats").is_some_and(|text| text.contains(&*flush.family)));
            // Counted before the flush ends: the call for that flush comes after this one has returned.
            *self.flushes.lock().unwrap() += 1;
            db.flush().expect("a listener flushes");
        }
    }

    fn on_pressure_changed(&self, _: &PressureChange) {
        let Some(db) = self.db() else { return };
        // Waits, when writers are stopped: jobs must go on meanwhile.
        db.put("pressure", "seen").expect("a listener writes under pressure");
        assert!(db.property("sluicedb.pressure").is_some());
        *self.changes.lock().unwrap() += 1;
    }
}

/// `pressure V6`: a listener that puts, flushes, reads properties and closes another database does not deadlock, not
/// even when it waits in a stop. One flush thread only, so a listener on it would wait for itself.
#[test]
fn a_listener_calls_the_database() {
    with_watchdog(120, "a_listener_calls_the_database", || {
        let (fs, caller) = (SimFs::new(6), Arc::new(Caller::default()));
        let db = Db::open(DB, with_quota(&fs, &caller)).unwrap();
        let mut beside = DbOptions::default();
        beside.file_system = Arc::new(fs.clone());
        let other = Db::open("/other", beside).unwrap();
        *caller.db.lock().unwrap() = Some(db.clone());
        *caller.other.lock().unwrap() = Some(other.clone());

        db.put("a", "1").unwrap();
        db.flush().unwrap();
        let flushes = || *caller.flushes.lock().unwrap();
        eventually(|| if flushes() == 5 { Ok(()) } else { Err(format!("{} flushes", flushes())) }).unwrap();
        assert!(matches!(other.put("a", "1"), Err(Error::ShutdownInProgress)));
        assert!(db.get(0_u32.to_be_bytes()).unwrap().is_some());

        let gate = fs.gate(Pattern::op(Op::Sync).on(FileKind::Sst));
        // Without waiting: the listener's own writes may be those that bring the stop.
        let mut hasty = WriteOptions::default();
        hasty.no_slowdown = true;
        for number in 100_u32.. {
            match db.put_opt(number.to_be_bytes(), [1; 1_000], &hasty) {
                Ok(()) | Err(Error::Stalled { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            if db.write_buffer_manager().pressure() == Pressure::Stopped {
                break;
            }
        }
        gate.open();
        db.flush().unwrap();
        let changes = || *caller.changes.lock().unwrap();
        eventually(|| if changes() >= 3 { Ok(()) } else { Err(format!("{} changes", changes())) }).unwrap();
        *caller.db.lock().unwrap() = None;
        db.close().unwrap();
    });
}

/// A listener may close its own database; what is left is told to it afterwards.
#[test]
fn a_listener_closes_its_database() {
    struct Closer(Mutex<Option<Db>>);
    impl EventListener for Closer {
        fn on_flush_completed(&self, _: &FlushCompleted) {
            if let Some(db) = self.0.lock().unwrap().take() {
                db.close().expect("a listener closes");
            }
        }
    }
    with_watchdog(60, "a_listener_closes_its_database", || {
        let (fs, closer) = (SimFs::new(7), Arc::new(Closer(Mutex::new(None))));
        let db = Db::open(DB, options(&fs, &closer)).unwrap();
        *closer.0.lock().unwrap() = Some(db.clone());
        db.put("a", "1").unwrap();
        let _ = db.flush(); // the close may come first
        eventually(|| match db.put("b", "2") {
            Err(Error::ShutdownInProgress) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .unwrap();
    });
}

/// A panic is caught, written to LOG, and costs nobody else an event.
#[test]
fn a_listener_panics() {
    struct Panics;
    impl EventListener for Panics {
        fn on_flush_completed(&self, _: &FlushCompleted) {
            panic!("on purpose");
        }
    }
    with_watchdog(60, "a_listener_panics", || {
        let (fs, notes) = (SimFs::new(8), Arc::new(Notes::default()));
        let mut options = options(&fs, &notes);
        options.listeners.insert(0, Arc::new(Panics));
        let db = Db::open(DB, options).unwrap();
        add_file(&db, "default");
        db.close().unwrap();
        assert_eq!(notes.lines(), ["default: flush"]);
        assert!(log_of(&fs).contains("ERROR listener 0 panicked when it was told Flush("));
    });
}
