//! Picks over small versions, as text.

use super::*;
use crate::compaction::stub::version_of;
use crate::options::Compression;

/// Fixed levels with L1 of 300 bytes; outputs of 100.
fn options() -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        max_bytes_for_level_base: 300,
        target_file_size_base: 100,
        level_compaction_dynamic_level_bytes: false,
        level0_file_num_compaction_trigger: 2,
        ..ColumnFamilyOptions::default()
    }
}

fn pick_with(version: &str, options: &ColumnFamilyOptions, cursors: &Cursors, running: &[Running]) -> String {
    let version = version_of(5, version);
    let picker = Picker { version: &version, options, cursors, running };
    picker.pick(&Score::new(&version, options)).map_or("nothing".into(), |picked| picked.to_string())
}

fn pick(version: &str) -> String {
    pick_with(version, &options(), &Cursors::default(), &[])
}

/// What is picked, version by version.
#[test]
fn picks_are_as_the_table_says() {
    let table = [
        ("", "nothing"),
        ("L0 1[a-m]", "nothing"),
        // All of L0 that overlaps, and what it meets in the base level.
        ("L0 2[a-m] 1[g-z]", "L0[2 1] -> L1"),
        ("L0 3[a-c] 2[b-e] 1[d-g] | L1 7[a-b]*20 8[f-h]*20 9[i-j]*20", "L0[3 2 1]+L1[7 8] -> L1"),
        // A base level far over its target is emptied first where that is cheaper than to rewrite it once more.
        ("L0 3[a-c] 2[b-e] 1[d-g] | L1 7[a-b] 8[f-h] 9[i-j]", "L1[7] -> L2 (move)"),
        // Overlap through a third file counts; other groups stay.
        ("L0 4[x-z] 3[a-c] 2[e-g] 1[b-f] | L1 7[p-q]", "L0[3 2 1] -> L1"),
        // An L0 file for itself is moved: the oldest group first among equals.
        ("L0 3[x-z]*200 2[m-n]*200 1[a-b]*200 | L1 7[p-q]", "L0[1] -> L1 (move)"),
        ("L0 3[x-z]*200 2[m-n]*200 1[a-b]*200 | L1 7[b-q]", "L0[1]+L1[7] -> L1"),
        // A busy file blocks its group, not others.
        ("L0 6[a-c] 5[a-c] 4[n-o] 3[n-o] 2[n-p]! 1[x-z]", "L0[6 5] -> L1"),
        ("L0 2[a-m] 1[g-z] | L1 7[c-d]! 8[p-q]", "nothing"),
        // Base busy: the newest idle L0 files are merged.
        ("L0 5[a-z] 4[a-z] 3[a-z] 2[a-z] 1[a-z]! | L1 7[a-z]!", "L0[5 4 3 2] -> L0"),
        ("L0 5[a-z]*10 4[a-z]*10 3[a-z]*10 2[a-z]*10 1[a-z]*999 | L1 7[a-z]!", "L0[5 4 3 2] -> L0"),
        ("L0 4[a-z] 3[a-z] 2[a-z] 1[a-z]! | L1 7[a-z]!", "nothing"),
        // A level over its target: the file that meets least for its size.
        ("L1 1[a-c] 2[d-f] 3[g-i] 4[j-l] | L2 5[a-b]*90 6[d-e]*50 7[g-l]*200", "L1[2]+L2[6] -> L2"),
        ("L1 1[a-c] 2[d-f]*200 3[g-i] | L2 5[a-b]*90 6[d-e]*100 7[g-l]*200", "L1[2]+L2[6] -> L2"),
        ("L1 1[a-c] 2[d-f] 3[g-i] 4[j-l] | L2 5[a-b] 6[g-l]", "L1[2] -> L2 (move)"),
        // Tombstones make a file worth more.
        ("L1 1[a-c] 2[d-f]~9 3[g-i]*300 | L2 5[a-b]*90 6[d-e]*90 7[g-h]*290", "L1[2]+L2[6] -> L2"),
        // Busy files are not picked, nor what meets busy files.
        ("L1 1[a-c]! 2[d-f]*200 3[g-i]*200 | L2 5[a-b] 6[d-e]!", "L1[3] -> L2 (move)"),
        ("L1 1[a-c]*200 2[d-f]*200 | L2 5[a-b]! 6[d-e]!", "nothing"),
        // Further upper files come along when they cost nothing below.
        ("L1 1[a-c] 2[d-f] 3[g-i] | L2 5[a-i]*150", "L1[1 2 3]+L2[5] -> L2"),
        // The most useful level goes first; if it is blocked, the next.
        ("L0 2[a-m] 1[g-z] | L1 7[a-c]*900", "L1[7] -> L2 (move)"),
        ("L0 2[d-m] 1[g-z] | L1 7[a-c]*900!", "L0[2 1] -> L1"),
        // The last level is never compacted by itself.
        ("L4 1[a-c]*99999999", "nothing"),
    ];
    for (version, expected) in table {
        assert_eq!(pick(version), expected, "{version}");
    }
}

/// Neighbours that share a boundary user key travel together, on both levels.
#[test]
fn cuts_are_clean() {
    assert_eq!(pick("L1 1[a-c] 2[c-f] 3[f-i] 4[j-l] | L2 5[b-b] 8[j-l]*999"), "L1[1 2 3]+L2[5] -> L2");
    assert_eq!(
        pick("L0 2[d-e] 1[d-e] | L1 6[a-c]*9 7[c-d]*9 8[e-g]*9 9[g-h]*9 10[i-j]*9"),
        "L0[2 1]+L1[6 7 8 9] -> L1"
    );
    let version = version_of(2, "L1 1[a-b] 2[b-c] 3[e-f]");
    let numbers = |from: &str, to: &str| -> Vec<u64> {
        widened(&version, 1, from.as_bytes(), to.as_bytes()).iter().map(|file| file.number.0).collect()
    };
    assert_eq!(numbers("c", "d"), [1, 2]);
    assert_eq!(numbers("d", "d"), [0; 0]);
    assert_eq!(numbers("d", "e"), [3]);
    assert_eq!(numbers("a", "z"), [1, 2, 3]);
}

/// A move is refused where it would keep tombstones for ever, change the codec, or make a costly file.
#[test]
fn moves_are_refused_where_they_cost_later() {
    let table = [
        ("L1 1[a-c]*400", "L1[1] -> L2 (move)"),
        ("L1 1[a-c]*400~1", "L1[1] -> L2"),
        ("L1 1[a-c]*400~1 | L4 9[b-d]", "L1[1] -> L2 (move)"),
        ("L1 1[a-c]*400~1 | L4 9[d-e]", "L1[1] -> L2"),
        ("L1 1[a-c]*400 | L3 9[b-d]*1000", "L1[1] -> L2 (move)"),
        ("L1 1[a-c]*400 | L3 9[b-d]*1001", "L1[1] -> L2"),
    ];
    for (version, expected) in table {
        assert_eq!(pick(version), expected, "{version}");
    }
    let compressed_below =
        ColumnFamilyOptions { compression: Compression::Lz4, min_level_to_compress: 2, ..options() };
    assert_eq!(pick_with("L1 1[a-c]*400", &compressed_below, &Cursors::default(), &[]), "L1[1] -> L2");
}

/// Nothing is picked whose outputs would meet those of a running compaction in their level.
#[test]
fn running_outputs_are_kept_clear() {
    let running = |output_level, from: &[u8], to: &[u8]| {
        [Running { output_level, smallest: from.into(), largest: to.into() }]
    };
    let pick =
        |running: &[Running]| pick_with("L1 1[a-c]*200 2[e-g]*200", &options(), &Cursors::default(), running);
    assert_eq!(pick(&running(2, b"x", b"z")), "L1[1] -> L2 (move)");
    assert_eq!(pick(&running(2, b"a", b"d")), "L1[2] -> L2 (move)");
    assert_eq!(pick(&running(2, b"c", b"e")), "nothing");
    assert_eq!(pick(&running(3, b"a", b"z")), "L1[1] -> L2 (move)");
}

/// Among files that cost the same, the level's cursor goes round.
#[test]
fn the_cursor_goes_round() {
    let version = version_of(5, "L1 1[a-c]*200 2[e-g]*200 3[i-k]*200");
    let options = options();
    let mut cursors = Cursors::default();
    let mut picked = Vec::new();
    for _ in 0..4 {
        let picker = Picker { version: &version, options: &options, cursors: &cursors, running: &[] };
        let pick = picker.pick(&Score::new(&version, &options)).unwrap();
        cursors.advance(&pick);
        picked.push(pick.inputs()[0].files[0].number.0);
    }
    assert_eq!(picked, [1, 2, 3, 1]);
}

/// With dynamic level bytes the first compaction goes to the last level, later ones to the base level.
#[test]
fn dynamic_levels_fill_from_below() {
    let dynamic = ColumnFamilyOptions { level_compaction_dynamic_level_bytes: true, ..options() };
    let pick = |version| pick_with(version, &dynamic, &Cursors::default(), &[]);
    assert_eq!(pick("L0 2[a-m] 1[g-z]"), "L0[2 1] -> L4");
    assert_eq!(pick("L0 2[a-m] 1[g-z] | L4 7[c-d]*300"), "L0[2 1]+L4[7] -> L4");
    assert_eq!(pick("L0 2[a-m] 1[g-z] | L4 7[c-d]*301"), "L0[2 1] -> L3");
}

/// The edges of a compaction: its range, its files below, whether a key can lie below the outputs.
#[test]
fn a_compaction_knows_what_lies_below() {
    let version = version_of(5, "L1 1[c-f]*400 | L2 2[b-d] | L3 3[a-b] 4[e-g] 5[x-z] | L4 6[h-k] 7[m-n]");
    let options = options();
    let picker = Picker { version: &version, options: &options, cursors: &Cursors::default(), running: &[] };
    let picked = picker.pick(&Score::new(&version, &options)).unwrap();
    assert_eq!(picked.to_string(), "L1[1]+L2[2] -> L2");
    assert_eq!(picked.user_range(), (&b"b"[..], &b"f"[..]));
    let grandparents: Vec<_> = picked.grandparents().iter().map(|file| file.number.0).collect();
    assert_eq!(grandparents, [3, 4]);
    let mut below = picked.below();
    let free: String = ('a'..='z').filter(|key| below.cannot_hold(key.to_string().as_bytes())).collect();
    assert_eq!(free, "cdlopqrstuvw");
    picked.mark(true);
    assert_eq!(picked.input_files().filter(|(_, file)| file.is_being_compacted()).count(), 2);
    assert!(picker.pick(&Score::new(&version, &options)).is_none());
    picked.mark(false);
    assert!(picker.pick(&Score::new(&version, &options)).is_some());
}
