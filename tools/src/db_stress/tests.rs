//! The oracle's own rules, the command line, and short runs: what `db-bench DB25` rests on. The crashes themselves are in
//! `tools/tests/db_stress.rs`, which has the program to start.

use super::expected::{Cell, Expected};
use super::flags::Flags;
use super::stage::Stage;
use super::values;
use crate::console::Console;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// All problems come at once; the syntax is that of gflags.
#[test]
fn the_command_line_is_checked_as_a_whole() {
    let error =
        Flags::parse(&words("--thread=4 --max_key=0 x --seed=many --readpercent=11 --db_write_buffer_size"))
            .unwrap_err();
    for part in [
        "ERROR: 7 problems on the command line",
        "unknown flag '--thread' (did you mean --threads?)",
        "--max_key: 0 is outside 1 to",
        "stray word 'x'",
        "--seed: 'many' is not a uint64",
        "--db_write_buffer_size is the last word and has no value",
        "--db is needed",
        "are 101 together, not 100",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let flags =
        Flags::parse(&words("-db=a -sync --nozero_check --threads 3 --threads=5 --start-delay-percent=1"))
            .unwrap();
    assert!(flags.is("sync") && !flags.is("zero_check"));
    assert_eq!((flags.number("threads"), flags.number("start_delay_percent")), (5, 1));
    assert_eq!(flags.text("expected_values_dir"), "a.expected");
    assert_eq!(Flags::parse(&words(&flags.line())).unwrap().line(), flags.line());
    let (out, err) = (std::io::sink(), std::io::sink());
    assert_eq!(super::run(&words("stress --db=a"), out, err), 1);
}

/// Each value is of one family, key and base, and a changed byte shows.
#[test]
fn values_check_themselves() {
    let value = values::value(2, 77, 9, 8);
    assert_eq!(values::base(2, 77, &value, 8), Some(9));
    assert_eq!(values::base(2, 78, &value, 8), None);
    assert_eq!(values::base(3, 77, &value, 8), None);
    for at in 0..value.len() {
        let mut changed = value.clone();
        changed[at] ^= 1;
        assert_eq!(values::base(2, 77, &changed, 8), None, "byte {at}");
    }
    assert_eq!(values::base(2, 77, &value[..value.len() - 1], 8), None);
    assert_eq!(values::number(&values::key(34_874)), Some(34_874));
}

/// A cell allows the state before, the state after, and nothing else.
#[test]
fn a_pending_cell_allows_two_states() {
    let one = Cell::NEW.writing().after();
    assert_eq!((Cell::NEW.held(), one.held()), (None, Some(1)));
    let writing = one.writing();
    assert_eq!(writing.settled_by(Some(1)), Some(one));
    assert_eq!(writing.settled_by(Some(2)).unwrap().held(), Some(2));
    assert_eq!((writing.settled_by(Some(3)), writing.settled_by(None)), (None, None));
    let deleting = one.deleting();
    assert_eq!(deleting.settled_by(None).unwrap().held(), None);
    assert_eq!(deleting.settled_by(Some(1)), Some(one));
    assert_eq!(deleting.settled_by(Some(2)), None);
    assert_eq!(one.settled_by(None), None, "an acknowledged write is there");
    let gone = deleting.after();
    assert_eq!(gone.writing().after().held(), Some(2), "bases grow over deletes");
}

/// What a read may see between two states of a cell.
#[test]
fn reads_see_what_was_there_meanwhile() {
    let one = Cell::NEW.writing().after();
    let three = one.writing().after().writing().after();
    let may = |begin: Cell, end: Cell| {
        (0..5).filter(|base| begin.may_have_held(end, Some(*base))).collect::<Vec<_>>()
    };
    assert_eq!(may(one, one), [1]);
    assert_eq!(may(one, three), [1, 2, 3]);
    assert_eq!(may(one, one.writing()), [1, 2]);
    assert_eq!(may(Cell::NEW, one), [1]);
    assert!(!one.may_have_held(one, None) && !one.may_have_held(three, None));
    assert!(one.may_have_held(one.deleting(), None));
    assert!(one.may_have_held(one.deleting().after().writing().after(), None), "deleted and written again");
}

fn flags(dir: &tempfile::TempDir, more: &str) -> Flags {
    let db = dir.path().join("db");
    let text = format!(
        "--db={} --max_key=500 --column_families=3 --threads=3 --ops_per_thread=1500 --seed=7 --reopen=1 \
         --db_write_buffer_size=262144 --write_buffer_size=65536 --delayed_write_rate=1073741824 --clear_column_family_one_in=300 \
         --checkpoint_one_in=500 --compact_range_one_in=300 --flush_one_in=200 --set_options_one_in=100 \
         --acquire_snapshot_one_in=50 --burst_one_in=100 --multi_cf_percent=20 --continuous_verification_interval=100 \
         --liveness_seconds=300 {more}",
        db.display()
    );
    Flags::parse(&words(&text)).unwrap()
}

/// A short run with every kind of operation, close and reopen: nothing is wrong.
#[test]
fn a_run_finds_nothing_wrong() {
    for more in ["", "--disable_wal=true", "--allow_wbm_stalls=false --sync"] {
        let dir = tempfile::tempdir().unwrap();
        let err = tempfile::NamedTempFile::new().unwrap();
        let line = words(&format!("run {}", flags(&dir, more).line()));
        let code = super::run(&line, std::io::sink(), err.reopen().unwrap());
        assert_eq!(code, 0, "{}", std::fs::read_to_string(err.path()).unwrap());
    }
}

/// The oracle finds what the database lost: a write, a delete and half a batch that were acknowledged or undone behind its back.
#[test]
fn what_is_lost_is_found() {
    let console = Console::new(std::io::sink(), std::io::sink(), false);
    for (change, says) in [
        (0, "value_from_db: nothing, value_from_expected: base 1"),
        (1, "value_from_db: base 1, value_from_expected: nothing"),
        (2, "half a batch was recovered"),
        (3, "the value is not whole"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let flags = flags(&dir, "");
        let expected = Expected::open(&flags, true).unwrap();
        let stage = Stage::open(&flags, &console, &expected, 0).unwrap();
        let size = flags.number("value_size_mult");
        let put = |family: u64, base: u16| {
            let handle = stage.family(family);
            stage.db.put_cf(&handle, values::key(9), values::value(family, 9, base, size)).unwrap();
        };
        let one = Cell::NEW.writing().after();
        match change {
            0 => expected.set(1, 9, one).unwrap(),
            1 => put(1, 1),
            2 => {
                (0..3).for_each(|family| expected.set(family, 9, Cell::NEW.writing_jointly()).unwrap());
                put(2, 1);
            }
            _ => {
                expected.set(1, 9, one).unwrap();
                stage.db.put_cf(&stage.family(1), values::key(9), "short").unwrap();
            }
        }
        let wrong = super::verify::recovered(&stage).unwrap_err();
        assert!(wrong.contains(says), "{wrong}");
        stage.close().unwrap();
    }
}

/// The file outlives its process, and is not taken for that of another run.
#[test]
fn the_oracle_outlives_its_process() {
    let dir = tempfile::tempdir().unwrap();
    let first = flags(&dir, "");
    let expected = Expected::open(&first, true).unwrap();
    expected.set(2, 3, Cell::NEW.writing()).unwrap();
    expected.set_clearing(1, true).unwrap();
    drop(expected);
    let expected = Expected::open(&first, false).unwrap();
    assert_eq!(expected.get(2, 3), Cell::NEW.writing());
    assert!(expected.is_clearing(1).unwrap() && !expected.is_clearing(2).unwrap());
    assert!(expected.settle().unwrap_err().contains("left pending"));
    let error = Expected::open(&flags(&dir, "--max_key=501"), false).unwrap_err();
    assert!(error.contains("is not of a run with these --max_key"), "{error}");
}
