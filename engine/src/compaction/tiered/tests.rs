//! Picks over runs, as text, and whole histories of them.

use super::*;
use crate::compaction::leveled::Cursors;
use crate::compaction::score::Score;
use crate::compaction::stub::version_of;

fn options(style: CompactionStyle) -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        compaction_style: style,
        level0_file_num_compaction_trigger: 4,
        target_file_size_base: 100,
        ..ColumnFamilyOptions::default()
    }
}

fn pick_from(version: &Arc<Version>, options: &ColumnFamilyOptions) -> Option<Compaction> {
    let cursors = Cursors::default();
    let picker = Picker { version, options, cursors: &cursors, running: &[] };
    let score = Score::new(version, options);
    let picked = picker.pick(&score);
    assert_eq!(score.is_due(), picked.is_some(), "what is due can start when nothing runs");
    picked
}

fn pick(style: CompactionStyle, version: &str) -> String {
    let version = version_of(5, version);
    pick_from(&version, &options(style)).map_or("nothing".into(), |picked| picked.to_string())
}

/// Size-tiered: nothing below the trigger; then space, then sizes, then the newest.
#[test]
fn runs_are_merged_as_the_table_says() {
    let table = [
        ("", "nothing"),
        ("L0 3[a-z] 2[a-z] 1[a-z]", "nothing"),
        // Newer runs twice as large as the oldest: all go into the last level.
        ("L0 4[a-z] 3[a-z] 2[a-z] 1[a-z]", "L0[4 3 2 1] -> L4"),
        ("L0 3[a-z] 2[a-z] | L2 7[a-m] 8[n-z] | L4 9[a-z]", "L0[3 2]+L2[7 8]+L4[9] -> L4"),
        // Neighbours of like size; what lies behind is too large.
        ("L0 4[a-z] 3[a-z] 2[a-z]*900 1[a-z]*9000", "L0[4 3] -> L0"),
        ("L0 4[a-z]*50 3[a-z]*100 2[a-z]*100 | L4 9[a-z]*9000", "L0[3 2] -> L3"),
        ("L0 3[a-z] 2[a-z] | L3 8[a-z]*900 | L4 9[a-z]*9000", "L0[3 2] -> L2"),
        ("L0 3[a-z] | L1 7[a-z]*90 | L3 8[a-z]*900 | L4 9[a-z]*9000", "L0[3]+L1[7] -> L2"),
        // None of like size: those that are most alike, as many as are too many.
        ("L0 4[a-z] 3[a-z]*200 2[a-z]*600 1[a-z]*9000", "L0[4 3] -> L0"),
        // The oldest runs may be of like size, too.
        ("L0 4[a-z] 3[a-z]*300 2[a-z]*5000 | L4 9[a-z]*5000", "L0[2]+L4[9] -> L4"),
    ];
    for (version, expected) in table {
        assert_eq!(pick(CompactionStyle::SizeTiered, version), expected, "{version}");
    }
}

/// Lazy leveling: the last level is merged only when what lies above is a tenth of it.
#[test]
fn the_last_level_waits() {
    let table = [
        ("L0 3[a-z] 2[a-z] | L3 8[a-z] | L4 9[a-z]*9000", "nothing"),
        ("L0 4[a-z] 3[a-z] 2[a-z] 1[a-z] | L4 9[a-z]*9000", "L0[4 3 2 1] -> L3"),
        ("L0 4[a-z] 3[a-z] 2[a-z] 1[a-z] | L4 9[a-z]*4000", "L0[4 3 2 1]+L4[9] -> L4"),
        ("L0 4[a-z] 3[a-z] 2[a-z] 1[a-z]", "L0[4 3 2 1] -> L4"),
        ("L0 3[a-z] 2[a-z] 1[a-z] | L3 8[a-z]*500 | L4 9[a-z]*90000", "L0[3 2 1] -> L2"),
    ];
    for (version, expected) in table {
        assert_eq!(pick(CompactionStyle::LazyLeveled, version), expected, "{version}");
    }
}

/// While a merge runs, new files of L0 are merged among themselves; nothing else starts.
#[test]
fn a_long_merge_keeps_only_its_runs_busy() {
    let pick = |version| {
        let version = version_of(5, version);
        let options = options(CompactionStyle::SizeTiered);
        let cursors = Cursors::default();
        let picker = Picker { version: &version, options: &options, cursors: &cursors, running: &[] };
        super::pick(&picker).map(|picked| picked.to_string())
    };
    assert_eq!(pick("L0 6[a-z] 5[a-z] 4[a-z] 3[a-z] 2[a-z]! | L4 9[a-z]!").unwrap(), "L0[6 5 4 3] -> L0");
    assert_eq!(pick("L0 6[a-z] 5[a-z] 4[a-z] 2[a-z]! | L4 9[a-z]!"), None);
}

/// Flush after flush the number of runs stays below the trigger, runs stay in order of age, and of size-tiered
/// compaction an entry is rewritten about as often as the data doubles.
#[test]
fn histories_keep_few_runs() {
    for style in [CompactionStyle::SizeTiered, CompactionStyle::LazyLeveled] {
        let options = options(style);
        let mut levels: Vec<Vec<(u64, u64)>> = vec![Vec::new(); 5];
        let (mut written, mut flushed) = (0, 0);
        for number in 1..=1_000_u64 {
            levels[0].insert(0, (number * 1000, 100));
            flushed += 100;
            let mut merges = 0;
            while let Some(picked) = pick_from(&as_version(&levels), &options) {
                let gone: Vec<u64> = picked.input_files().map(|(_, file)| file.number.0).collect();
                let newest = gone.iter().max().copied().unwrap_or_default();
                let bytes: u64 = picked.input_bytes();
                levels.iter_mut().for_each(|files| files.retain(|(number, _)| !gone.contains(number)));
                let output = &mut levels[picked.output_level()];
                assert!(picked.output_level() == 0 || output.is_empty(), "{picked} joins a run");
                let at = output.iter().position(|(number, _)| *number < newest).unwrap_or(output.len());
                output.insert(at, (newest, bytes));
                written += bytes;
                merges += 1;
                assert!(merges < 20, "no end");
            }
            let ages: Vec<u64> = levels.iter().flatten().map(|(number, _)| *number).collect();
            assert!(ages.is_sorted_by(|newer, older| newer > older), "{levels:?}");
            assert!(ages.len() <= 4, "{levels:?}");
        }
        let amplification = written / flushed;
        assert!((2..40).contains(&amplification), "{style:?}: {amplification}");
    }
}

fn as_version(levels: &[Vec<(u64, u64)>]) -> Arc<Version> {
    let line = |(level, files): (usize, &Vec<(u64, u64)>)| {
        let files: Vec<String> = files.iter().map(|(number, size)| format!("{number}[a-z]*{size}")).collect();
        format!("L{level} {}", files.join(" "))
    };
    version_of(5, &levels.iter().enumerate().map(line).collect::<Vec<_>>().join(" | "))
}
