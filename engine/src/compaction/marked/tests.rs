//! What tombstones and age ask for, as text.

use super::*;
use crate::compaction::leveled::Cursors;
use crate::compaction::stub::version_of;
use crate::options::ColumnFamilyOptions;
use crate::version::Version;

/// Picks from `text`; a file's entries and tombstones are 100 times what the text says.
fn pick(text: &str, options: &ColumnFamilyOptions, now_seconds: u64, snapshot: u64) -> String {
    let mut levels = vec![Vec::new(); 4];
    for (level, file) in version_of(4, text).all_files() {
        let entries = file.entries * 100;
        let copy = FileMeta {
            number: file.number,
            unique_id: file.unique_id,
            size: file.size,
            smallest: file.smallest.clone(),
            largest: file.largest.clone(),
            smallest_seq: file.smallest_seq,
            largest_seq: file.largest_seq,
            entries,
            tombstones: file.tombstones * 100,
            created_micros: 0,
            being_compacted: file.is_being_compacted().into(),
        };
        levels[level].push(std::sync::Arc::new(copy));
    }
    let version = std::sync::Arc::new(Version::from_levels(levels));
    let cursors = Cursors::default();
    let picker = Picker { version: &version, options, cursors: &cursors, running: &[] };
    let oldest_snapshot = SequenceNumber::new(snapshot);
    let moment = Moment { now_micros: now_seconds * 1_000_000, oldest_snapshot };
    picker.marked(moment).map_or("nothing".into(), |picked| picked.to_string())
}

/// Half of a file's entries are tombstones: it sinks while something lies below, else it is rewritten where it is,
/// unless a snapshot needs the tombstones.
#[test]
fn dense_files_are_compacted_whatever_their_level() {
    let options =
        ColumnFamilyOptions { level_compaction_dynamic_level_bytes: false, ..ColumnFamilyOptions::default() };
    let table = [
        ("L1 1[a-c]~4", 99, "nothing"),
        ("L1 1[a-c]~5", 99, "L1[1] -> L1"),
        ("L1 8[a-c]~5", 8, "L1[8] -> L1"),
        ("L1 8[a-c]~5", 7, "nothing"),
        ("L1 8[a-c]~5 | L3 1[b-d]", 7, "L1[8] -> L2 (move)"),
        ("L1 8[a-c]~5 | L2 1[b-d]", 99, "L1[8]+L2[1] -> L2"),
        ("L1 8[a-c]~5! | L2 1[b-d]", 99, "nothing"),
        ("L1 8[a-c]~5 | L2 1[b-d]!", 99, "nothing"),
        ("L0 9[a-c] 8[b-d]~9 7[x-z] | L2 1[b-d]", 99, "L0[9 8] -> L1"),
        ("L3 7[a-c] 8[d-f]~9", 99, "L3[8] -> L3"),
    ];
    for (text, snapshot, expected) in table {
        assert_eq!(pick(text, &options, 0, snapshot), expected, "{text}, snapshot {snapshot}");
    }
    let never = ColumnFamilyOptions { tombstone_density_percent: 0, ..options };
    assert_eq!(pick("L1 1[a-c]~9", &never, 0, 99), "nothing");
}

/// Files past their age are rewritten in their level, those of L0 into the base level; with runs, all of them.
#[test]
fn old_files_are_rewritten() {
    let mut options = ColumnFamilyOptions {
        level_compaction_dynamic_level_bytes: false,
        periodic_compaction_seconds: 60,
        ..ColumnFamilyOptions::default()
    };
    assert_eq!(pick("L2 1[a-c]", &options, 59, 99), "nothing");
    assert_eq!(pick("L2 1[a-c]", &options, 60, 99), "L2[1] -> L2");
    assert_eq!(pick("L2 1[a-c] | L3 2[a-c]", &options, 60, 99), "L2[1] -> L2");
    assert_eq!(pick("L0 2[a-c]", &options, 60, 99), "L0[2] -> L1");
    options.compaction_style = CompactionStyle::SizeTiered;
    assert_eq!(pick("L0 2[a-c] | L2 1[a-c]", &options, 60, 99), "L0[2]+L2[1] -> L3");
    assert_eq!(pick("L3 1[a-c]", &options, 60, 99), "L3[1] -> L3");
    options.periodic_compaction_seconds = 0;
    assert_eq!(pick("L2 1[a-c]", &options, 60, 99), "nothing");
}
