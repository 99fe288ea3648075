//! Whole compactions over tables in memory: what readers see, what is left after a failure, parts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::compaction::leveled::{Cursors, Picker};
use crate::compaction::score::Score;
use crate::compaction::stub::MemTables;
use crate::iter::stub::{Entries, Rng, entry};
use crate::key::compare_internal;
use crate::options::ColumnFamilyOptions;
use crate::version::Version;

/// A random L0, L1 and L2 over keys `a00`..; the newer the level, the higher the sequences.
fn random_version(rng: &mut Rng, tables: &MemTables) -> Arc<Version> {
    let mut number = 0;
    let mut next_number = || {
        number += 1;
        number
    };
    let mut levels = vec![Vec::new(); 4];
    for (level, first_seq) in [(2, 1), (1, 200)] {
        let mut entries = Entries::new();
        for user in 0..60 {
            for version in 0..rng.below(3) {
                let value = format!("{level}-{user}-{version}");
                let kept = (rng.below(4) != 0).then_some(value.as_str());
                entries.push(entry(
                    format!("a{user:02}").as_bytes(),
                    first_seq + rng.below(40) * 4 + version,
                    kept,
                ));
            }
        }
        entries.sort_by(|a, b| compare_internal(&a.0, &b.0));
        for chunk in entries.chunk_by(|a, b| split_internal(&a.0).0[..2] == split_internal(&b.0).0[..2]) {
            levels[level].push(tables.insert(next_number(), chunk.to_vec()));
        }
    }
    for n in 0..3 {
        let mut entries: Entries = (0..20)
            .map(|seq| {
                let value = format!("0-{n}-{seq}");
                let kept = (rng.below(3) != 0).then_some(value.as_str());
                entry(format!("a{:02}", rng.below(60)).as_bytes(), 400 + n * 20 + seq, kept)
            })
            .collect();
        entries.sort_by(|a, b| compare_internal(&a.0, &b.0));
        levels[0].insert(0, tables.insert(next_number(), entries));
    }
    Arc::new(Version::from_levels(levels))
}

fn pick(version: &Arc<Version>, target: u64) -> Compaction {
    let options = ColumnFamilyOptions {
        level0_file_num_compaction_trigger: 1,
        target_file_size_base: target,
        level_compaction_dynamic_level_bytes: false,
        ..ColumnFamilyOptions::default()
    };
    let cursors = Cursors::default();
    let picker = Picker { version, options: &options, cursors: &cursors, running: &[] };
    picker.pick(&Score::new(version, &options)).unwrap()
}

fn run_in_memory(
    compaction: &Compaction,
    tables: &MemTables,
    snapshots: &[SequenceNumber],
    pool: Option<(&rayon::ThreadPool, usize)>,
) -> Result<CompactionResult> {
    let open = |file: &FileMeta| tables.open(file);
    let go_on = || Ok(());
    run(
        compaction,
        &JobContext { open: &open, outputs: tables, snapshots, filter: None, go_on: &go_on, pool },
    )
}

/// User key to value as a reader at `seq` sees it.
fn view(entries: &Entries, seq: SequenceNumber) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut sorted: Vec<_> = entries.iter().collect();
    sorted.sort_by(|a, b| compare_internal(&a.0, &b.0));
    let mut newest: BTreeMap<Vec<u8>, Option<Vec<u8>>> = BTreeMap::new();
    for (key, value) in sorted {
        let (user, trailer) = split_internal(key);
        if trailer >> 8 <= seq.get() {
            newest.entry(user.to_vec()).or_insert_with(|| (trailer & 0xff == 1).then(|| value.clone()));
        }
    }
    newest.into_iter().filter_map(|(user, value)| Some((user, value?))).collect()
}

/// Whatever is merged, cut and split, no reader sees a change, outputs do not overlap, and the counts add up.
///
/// Method: random levels, snapshots, target sizes, and up to 4 parts, before against after.
#[test]
fn no_reader_sees_a_compaction() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let mut split = 0;
    for seed in 1..=150 {
        let mut rng = Rng(seed);
        let tables = MemTables::default();
        let version = random_version(&mut rng, &tables);
        let compaction = pick(&version, 100 + rng.below(1500));
        let mut snapshots: Vec<_> = (0..rng.below(4)).map(|_| SequenceNumber::new(rng.below(500))).collect();
        snapshots.sort();
        let before: Entries = version.all_files().flat_map(|(_, file)| tables.entries(file.number)).collect();
        let result =
            run_in_memory(&compaction, &tables, &snapshots, Some((&pool, seed as usize % 5))).unwrap();

        let gone: Vec<_> = compaction.input_files().map(|(_, file)| file.number).collect();
        let stays = version.all_files().map(|(_, file)| file.number).filter(|number| !gone.contains(number));
        let stays: Vec<_> = stays.chain(result.outputs.iter().map(|file| file.number)).collect();
        let after: Entries = stays.iter().flat_map(|&number| tables.entries(number)).collect();
        for seq in snapshots.iter().copied().chain([SequenceNumber::MAX]) {
            assert_eq!(view(&before, seq), view(&after, seq), "seed {seed}, reader at {seq}");
        }
        let ordered = result.outputs.is_sorted_by(|a, b| a.largest_user_key() < b.smallest_user_key());
        assert!(ordered, "seed {seed}");
        assert_eq!(tables.tables.lock().len(), version.all_files().count() + result.outputs.len());
        let written: u64 = result.outputs.iter().map(|file| file.entries).sum();
        assert_eq!(result.entries_in, written + result.entries_dropped, "seed {seed}");
        assert_eq!(result.bytes_read, compaction.input_bytes());
        assert_eq!(result.bytes_written, result.outputs.iter().map(|file| file.size).sum::<u64>());
        assert_eq!(tables.synced.load(Ordering::Relaxed), 1);
        split += u64::from(result.parts > 1);
    }
    assert!(split > 20, "{split} split compactions");
}

/// A job that is told to stop, or that fails, leaves no file and says why.
#[test]
fn a_failed_job_leaves_nothing() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    for (pool, fail_finish) in [(None, None), (None, Some(1002)), (Some((&pool, 3)), Some(1004))] {
        let tables = MemTables { fail_finish, ..MemTables::default() };
        let version = random_version(&mut Rng(3), &tables);
        let compaction = pick(&version, 100);
        let open = |file: &FileMeta| tables.open(file);
        let stop = || if fail_finish.is_none() { Err(Error::ShutdownInProgress) } else { Ok(()) };
        let context =
            JobContext { open: &open, outputs: &tables, snapshots: &[], filter: None, go_on: &stop, pool };
        let failed = run(&compaction, &context).unwrap_err();
        assert_eq!(matches!(failed, Error::ShutdownInProgress), fail_finish.is_none(), "{failed}");
        assert_eq!(tables.tables.lock().len(), version.all_files().count());
        assert_eq!(tables.removed.load(Ordering::Relaxed), tables.created.load(Ordering::Relaxed));
    }
}

/// A running job asks at its start and after each stride whether to go on, and ends in the middle if not.
#[test]
fn a_running_job_is_stopped() {
    let tables = MemTables::default();
    let many: Entries = (0..30_000).map(|n| entry(format!("{n:05}").as_bytes(), 1, None)).collect();
    let version = Arc::new(Version::from_levels(vec![vec![tables.insert(1, many)], Vec::new()]));
    let compaction = pick(&version, 1000);
    let asked = AtomicU64::new(0);
    let go_on = || match asked.fetch_add(1, Ordering::Relaxed) {
        0..=2 => Ok(()),
        _ => Err(Error::Cancelled { what: "the compaction" }),
    };
    let open = |file: &FileMeta| tables.open(file);
    let context =
        JobContext { open: &open, outputs: &tables, snapshots: &[], filter: None, go_on: &go_on, pool: None };
    assert!(matches!(run(&compaction, &context), Err(Error::Cancelled { .. })));
    assert_eq!(asked.load(Ordering::Relaxed), 4);
}

/// Where all entries go, there is no output; a table that gives fewer entries than it should is damage.
#[test]
fn nothing_may_be_left_and_nothing_may_be_lost() {
    let tables = MemTables::default();
    let dead: Entries = (0..10).map(|n| entry(&[n], 1, None)).collect();
    let version = Arc::new(Version::from_levels(vec![vec![tables.insert(1, dead.clone())], Vec::new()]));
    let compaction = pick(&version, 1000);
    let result = run_in_memory(&compaction, &tables, &[], None).unwrap();
    assert_eq!((result.outputs.len(), result.tombstones_dropped, result.entries_dropped), (0, 10, 10));

    tables.insert(1, dead[..9].to_vec());
    let failed = run_in_memory(&compaction, &tables, &[], None).unwrap_err();
    assert_eq!(
        failed.to_string(),
        "000001.sst is corrupt at byte 0: entries read by a compaction: expected 10, found 9"
    );
}
