//! Manual compactions stepped over versions written as text; each unit is applied to a model of the levels.

use super::*;
use crate::compaction::stub::version_of;

fn options() -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        max_bytes_for_level_base: 300,
        target_file_size_base: 100,
        level_compaction_dynamic_level_bytes: false,
        ..ColumnFamilyOptions::default()
    }
}

/// Installs a unit: a move keeps its files, a merge gives one file per unit, numbered from 100.
fn install(version: &Version, unit: &Compaction, next: &mut u64) -> Arc<Version> {
    let gone: Vec<FileNumber> = unit.input_files().map(|(_, file)| file.number).collect();
    let mut levels: Vec<Vec<Arc<FileMeta>>> = (0..version.num_levels())
        .map(|level| {
            version.files(level).iter().filter(|file| !gone.contains(&file.number)).cloned().collect()
        })
        .collect();
    let out = &mut levels[unit.output_level()];
    if unit.is_trivial_move() {
        out.extend(unit.input_files().map(|(_, file)| Arc::clone(file)));
    } else {
        let (from, to) = unit.user_range();
        let text = format!("L0 {next}[{}-{}]*{}", from.escape_ascii(), to.escape_ascii(), unit.input_bytes());
        out.push(Arc::clone(&version_of(1, &text).files(0)[0]));
        *next += 1;
    }
    if unit.output_level() > 0 {
        out.sort_by(|a, b| a.smallest.cmp(&b.smallest));
    }
    Arc::new(Version::from_levels(levels))
}

/// All units, as text.
fn run(version: &str, from: Option<&str>, to: Option<&str>, bottom: BottomLevel) -> Vec<String> {
    let options = options();
    let mut version = version_of(4, version);
    let (from, to) = (from.map(str::as_bytes), to.map(str::as_bytes));
    let mut manual = ManualCompaction::new(&version, &options, from, to, bottom, FileNumber(100));
    let mut units = Vec::new();
    let mut next = 100;
    loop {
        assert!(units.len() < 50, "no end: {units:?}");
        match manual.next(&version, &options, &[]) {
            ManualStep::Run(unit) => {
                units.push(unit.to_string());
                version = install(&version, &unit, &mut next);
                manual.completed(&unit);
            }
            ManualStep::Busy => {
                units.push("busy".into());
                return units;
            }
            ManualStep::Done => return units,
        }
    }
}

/// A whole column family sinks level by level to the last level that has files.
#[test]
fn everything_sinks_to_the_last_used_level() {
    let all = |version, bottom| run(version, None, None, bottom);
    assert_eq!(all("", BottomLevel::Rewrite), [""; 0]);
    assert_eq!(all("L0 2[a-c] 1[b-d]", BottomLevel::Rewrite), ["L0[2 1] -> L1"]);
    assert_eq!(
        all("L0 2[a-c] 1[b-d] | L2 7[a-b] 8[c-z]", BottomLevel::Rewrite),
        ["L0[2 1] -> L1", "L1[100]+L2[7 8] -> L2"]
    );
    // Groups of L0 go one by one; moved files are rewritten at the bottom only if asked.
    assert_eq!(
        all("L0 2[x-z] 1[a-d] | L1 7[f-g]", BottomLevel::Keep),
        ["L0[1] -> L1 (move)", "L0[2] -> L1 (move)"]
    );
    assert_eq!(
        all("L0 2[x-z] 1[a-d] | L1 7[f-g]", BottomLevel::Rewrite),
        ["L0[1] -> L1 (move)", "L0[2] -> L1 (move)", "L1[1 7 2] -> L1"]
    );
    // A tombstone with nothing below is not moved but merged away.
    assert_eq!(all("L0 1[a-d]~1 | L1 7[f-g]", BottomLevel::Keep), ["L0[1] -> L1"]);
}

/// Only files of the range go, in the last level only old ones, in units of bounded size.
#[test]
fn ranges_and_units_are_bounded() {
    let part = |version, from, to| run(version, Some(from), Some(to), BottomLevel::Rewrite);
    assert_eq!(part("L1 1[a-c] 2[e-g] 3[i-k] | L2 7[f-j]", "f", "h"), ["L1[2]+L2[7] -> L2"]);
    assert_eq!(part("L1 1[a-c] 2[e-g] 3[i-k] | L2 7[f-j]", "x", "z"), [""; 0]);
    assert_eq!(part("L2 1[a-c] 2[e-g] 3[i-k] 200[m-n] 4[o-p]", "e", "z"), ["L2[2 3] -> L2", "L2[4] -> L2"]);
    let large = "L1 1[a-b]*1500 2[c-d]*1500 3[e-f]*900 | L2 7[a-f]";
    assert_eq!(run(large, None, None, BottomLevel::Keep), ["L1[1]+L2[7] -> L2", "L1[2 3]+L2[100] -> L2"]);
}

/// Files being compacted make it wait, L0 as well as deeper.
#[test]
fn busy_files_are_waited_for() {
    let all = |version| run(version, None, None, BottomLevel::Keep);
    assert_eq!(all("L0 2[a-c]! 1[b-d]"), ["busy"]);
    assert_eq!(all("L0 2[a-c] 1[b-d] | L1 7[a-b]!"), ["busy"]);
    assert_eq!(all("L1 1[a-c] | L2 7[a-b]!"), ["busy"]);
}
