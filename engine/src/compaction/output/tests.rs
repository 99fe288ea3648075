//! Cuts by size, at grandparents, and never inside a user key; what is left behind after a failure.

use std::sync::atomic::Ordering;

use super::*;
use crate::compaction::leveled::{Cursors, Picker};
use crate::compaction::score::Score;
use crate::compaction::stub::{MemTables, version_of};
use crate::iter::stub::entry;
use crate::key::split_internal;
use crate::options::ColumnFamilyOptions;

fn compaction(target: u64, grandparents: &str) -> Compaction {
    let options = ColumnFamilyOptions {
        level0_file_num_compaction_trigger: 1,
        target_file_size_base: target,
        level_compaction_dynamic_level_bytes: false,
        ..ColumnFamilyOptions::default()
    };
    let version = version_of(4, &format!("L0 1[a-z]~1 | L1 2[a-z] | L2 {grandparents}"));
    let cursors = Cursors::default();
    let picker = Picker { version: &version, options: &options, cursors: &cursors, running: &[] };
    picker.pick(&Score::new(&version, &options)).unwrap()
}

/// Writes `versions` versions of each of the keys, 10 bytes an entry, and renders the files.
fn cut(compaction: &Compaction, keys: impl Iterator<Item = char>, versions: u64) -> String {
    let tables = MemTables::default();
    let mut writer = OutputWriter::new(compaction, &tables);
    for key in keys {
        writer.begin_key(key.to_string().as_bytes()).unwrap();
        for seq in (1..=versions).rev() {
            let (key, value) = entry(key.to_string().as_bytes(), seq, Some("v"));
            writer.add(&key, &value).unwrap();
        }
    }
    let files = writer.finish().unwrap().keep();
    let users = |number| -> String {
        let entries = tables.entries(number);
        entries.iter().map(|(key, _)| split_internal(key).0[0] as char).collect()
    };
    files.iter().map(|file| users(file.number)).collect::<Vec<_>>().join(" ")
}

/// A file ends once it has the target size, but not between versions of one key.
#[test]
fn files_end_at_the_target_between_keys() {
    let small = compaction(30, "");
    assert_eq!(cut(&small, "".chars(), 1), "");
    assert_eq!(cut(&small, "abcdefgh".chars(), 1), "abc def gh");
    assert_eq!(cut(&small, "abc".chars(), 5), "aaaaa bbbbb ccccc");
    assert_eq!(cut(&small, "abc".chars(), 2), "aabb cc");
}

/// A nearly full file ends where a grandparent ends; any file ends that has passed too much of them.
#[test]
fn files_end_at_grandparents() {
    // Target 100: nearly full at 75 bytes, so 8 entries.
    let aligned = compaction(100, "5[a-c] 6[d-h] 7[i-z]");
    assert_eq!(cut(&aligned, 'a'..='p', 1), "abcdefgh ijklmnop");
    // Too much below is more than 1000 bytes.
    let heavy = compaction(100, "5[a-a]*600 6[b-b]*600 7[c-c]*600 8[d-z]");
    assert_eq!(cut(&heavy, 'a'..='e', 1), "ab cde");
    // What was passed before the file began does not count.
    assert_eq!(cut(&heavy, 'c'..='e', 1), "cde");
}

/// The facts of an output come from its table.
#[test]
fn facts_come_from_the_table() {
    let (tables, compaction) = (MemTables::default(), compaction(100, ""));
    let mut writer = OutputWriter::new(&compaction, &tables);
    for (user, seq, value) in [(b"a", 9, Some("1")), (b"b", 4, None), (b"c", 6, Some("3"))] {
        writer.begin_key(user).unwrap();
        let (key, value) = entry(user, seq, value);
        writer.add(&key, &value).unwrap();
    }
    let files = writer.finish().unwrap().keep();
    let file = &files[0];
    assert_eq!((file.number.0, file.entries, file.tombstones, file.created_micros), (1000, 3, 1, 7));
    assert_eq!((file.smallest_user_key(), file.largest_user_key()), (&b"a"[..], &b"c"[..]));
    assert_eq!((file.smallest_seq.get(), file.largest_seq.get()), (4, 9));
}

/// A writer that is dropped, or that fails, leaves no file.
#[test]
fn unfinished_work_leaves_no_file() {
    let compaction = compaction(30, "");
    for (fail_finish, fails) in [(None, false), (Some(1001), true), (Some(1002), true)] {
        let tables = MemTables { fail_finish, ..MemTables::default() };
        let mut writer = OutputWriter::new(&compaction, &tables);
        let mut write = || {
            for key in b'a'..=b'h' {
                writer.begin_key(&[key])?;
                let (key, value) = entry(&[key], 1, Some("v"));
                writer.add(&key, &value)?;
            }
            Ok::<_, Error>(())
        };
        let written = write();
        let finished = written.and_then(|()| writer.finish());
        assert_eq!(finished.is_err(), fails);
        drop(finished);
        assert!(tables.tables.lock().is_empty());
        assert_eq!(tables.removed.load(Ordering::Relaxed), tables.created.load(Ordering::Relaxed));
    }
}
