//! What is dropped, as text.

use super::*;
use crate::compaction::leveled::Cursors;
use crate::compaction::score::Score;
use crate::compaction::stub::version_of;
use crate::options::CompactionStyle;

fn options() -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        compaction_style: CompactionStyle::Fifo,
        fifo_max_table_files_size: 300,
        ttl: 10,
        ..ColumnFamilyOptions::default()
    }
}

/// The oldest files go until the rest fits; one always stays; deeper levels are older. L0 slows nobody.
#[test]
fn the_oldest_go_first() {
    let table = [
        ("", "nothing"),
        ("L0 3[a-z] 2[a-z] 1[a-z]", "nothing"),
        ("L0 5[a-b] 4[a-z] 3[c-z] 2[a-z] 1[a-z]", "L0[1 2] (drop)"),
        ("L0 2[a-z]*900 1[a-z]", "L0[1] (drop)"),
        ("L0 1[a-z]*900", "nothing"),
        ("L0 3[a-z] 2[a-z] | L1 7[a-b] 8[c-d] | L3 9[a-z]*5", "L1[8]+L3[9] (drop)"),
        ("L0 5[a-z] 4[a-z] 3[a-z] 2[a-z] 1[a-z]!", "nothing"),
    ];
    for (text, expected) in table {
        let version = version_of(4, text);
        let (options, cursors) = (options(), Cursors::default());
        let picker = Picker { version: &version, options: &options, cursors: &cursors, running: &[] };
        let score = Score::new(&version, &options);
        let picked = picker.pick(&score);
        assert_eq!(picked.as_ref().map_or("nothing".into(), ToString::to_string), expected, "{text}");
        assert_eq!((score.l0_depth(), score.pending_bytes()), (0, 0));
        assert_eq!(score.is_due(), picked.is_some() || text.contains('!'), "{text}");
    }
}

/// Files go when they are old enough, not before, and only as a tail.
#[test]
fn old_files_go() {
    let version = version_of(4, "L0 2[a-z] 1[a-z]"); // made at 0
    let (options, cursors) = (options(), Cursors::default());
    let picker = Picker { version: &version, options: &options, cursors: &cursors, running: &[] };
    assert!(expired(&picker, 9_999_999).is_none());
    assert_eq!(expired(&picker, 10_000_000).unwrap().to_string(), "L0[1 2] (drop)");
    let never = ColumnFamilyOptions { ttl: 0, ..options.clone() };
    assert!(expired(&Picker { options: &never, ..picker }, u64::MAX).is_none());
}
