//! Compactions as users meet them: styles, filters, age, tombstones, and calls that are cancelled.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sluicedb::{
    BottommostLevelCompaction, CancelToken, CompactRangeOptions, CompactionFilter, CompactionStyle,
    Compression, Db, DbOptions, Error, FilterDecision, ManualClock, ReadMode, ReadOptions, Ttl, WriteBatch,
};
use sluicedb_tests::cases::eventually;
use sluicedb_tests::model::read_family;
use sluicedb_tests::rng::Rng;
use sluicedb_tests::sim_fs::SimFs;

fn options(seed: u64) -> DbOptions {
    let mut options = DbOptions::default();
    options.file_system = Arc::new(SimFs::new(seed));
    options
}

fn open(options: &DbOptions) -> Db {
    Db::open(Path::new("/db"), options.clone()).unwrap()
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

fn files(db: &Db) -> u64 {
    db.level_stats(&db.default_column_family()).unwrap().iter().map(|level| level.files).sum()
}

fn entries(db: &Db, options: &ReadOptions) -> BTreeMap<Vec<u8>, Vec<u8>> {
    read_family(db, &db.default_column_family(), options).unwrap()
}

fn put_many(db: &Db, count: u64, value: &[u8]) {
    for numbers in (0..count).collect::<Vec<_>>().chunks(1_000) {
        let mut batch = WriteBatch::new();
        numbers.iter().for_each(|number| {
            batch.put(key(*number), value);
        });
        db.write(batch).unwrap();
    }
}

fn delete_many(db: &Db, count: u64) {
    for numbers in (0..count).collect::<Vec<_>>().chunks(1_000) {
        let mut batch = WriteBatch::new();
        numbers.iter().for_each(|number| {
            batch.delete(key(*number));
        });
        db.write(batch).unwrap();
    }
}

/// 100,000 keys are deleted: soon nothing is left to step over, though no level is too large. A snapshot keeps what it
/// sees, and its end lets the rest go.
#[test]
fn dense_tombstones_are_compacted_soon() {
    let options = options(1);
    let db = open(&options);
    put_many(&db, 100_000, b"value");
    db.compact_range(None, None).unwrap();
    let snapshot = db.snapshot();
    delete_many(&db, 100_000);
    db.flush().unwrap();
    db.wait_for_background_work().unwrap();
    assert!(files(&db) > 0);
    assert_eq!(entries(&db, &ReadOptions::at(&snapshot)).len(), 100_000);
    drop(snapshot);
    db.wait_for_background_work().unwrap();
    assert_eq!(files(&db), 0);
    assert!(entries(&db, &ReadOptions::default()).is_empty());
    db.close().unwrap();
}

/// The same under an option that turns it off: the tombstones stay.
#[test]
fn dense_tombstones_stay_if_wanted() {
    let mut options = options(2);
    options.column_family.tombstone_density_percent = 0;
    let db = open(&options);
    put_many(&db, 1_000, b"value");
    db.compact_range(None, None).unwrap();
    delete_many(&db, 1_000);
    db.flush().unwrap();
    db.wait_for_background_work().unwrap();
    assert_eq!(files(&db), 2);
    db.close().unwrap();
}

/// Removes keys with an odd last digit, and marks the others.
#[derive(Debug)]
struct Evens;

impl CompactionFilter for Evens {
    fn name(&self) -> &str {
        "evens"
    }

    fn filter(&self, _level: u32, key: &[u8], value: &[u8]) -> FilterDecision {
        match (key.last().is_some_and(|digit| digit % 2 == 1), value.starts_with(b"seen ")) {
            (true, _) => FilterDecision::Remove,
            (false, true) => FilterDecision::Keep,
            (false, false) => FilterDecision::Change([b"seen ", value].concat()),
        }
    }
}

/// A filter removes and changes entries; snapshots see none of it, and older versions do not come back.
#[test]
fn filters_remove_and_change() {
    let mut options = options(3);
    options.column_family.compaction_filter = Some(Arc::new(Evens));
    let db = open(&options);
    put_many(&db, 500, b"old");
    let snapshot = db.snapshot();
    put_many(&db, 500, b"new");
    db.compact_range(None, None).unwrap();
    let now = entries(&db, &ReadOptions::default());
    assert_eq!(now.len(), 250);
    assert!(now.iter().all(|(key, value)| key.last().unwrap() % 2 == 0 && value == b"seen new"));
    let then = entries(&db, &ReadOptions::at(&snapshot));
    assert_eq!(then.len(), 500);
    assert!(then.values().all(|value| value == b"old"));
    assert_eq!(db.statistics().compaction_entries_filtered, 250);
    drop(snapshot);
    db.compact_range(None, None).unwrap();
    assert_eq!(entries(&db, &ReadOptions::default()), now);
    db.close().unwrap();
}

/// Files in the last level already are left alone, rewritten for their filter, or rewritten, as the caller says.
#[test]
fn the_bottommost_level_is_rewritten_as_asked() {
    for (filtered, how, rewritten) in [
        (false, BottommostLevelCompaction::Skip, false),
        (false, BottommostLevelCompaction::IfHaveCompactionFilter, false),
        (false, BottommostLevelCompaction::Force, true),
        (true, BottommostLevelCompaction::Skip, false),
        (true, BottommostLevelCompaction::IfHaveCompactionFilter, true),
    ] {
        let mut options = options(4);
        options.column_family.compaction_filter = filtered.then(|| Arc::new(Evens) as _);
        let db = open(&options);
        put_many(&db, 100, b"value");
        db.compact_range(None, None).unwrap();
        let before = db.statistics().compactions;
        let mut asked = CompactRangeOptions::default();
        asked.bottommost_level_compaction = how;
        db.compact_range_cf_opt(&db.default_column_family(), None, None, &asked).unwrap();
        assert_eq!(db.statistics().compactions > before, rewritten, "{how:?}, filter: {filtered}");
        db.close().unwrap();
    }
}

/// Cancels its compaction as soon as it is asked.
#[derive(Debug)]
struct Canceller(CancelToken);

impl CompactionFilter for Canceller {
    fn name(&self) -> &str {
        "canceller"
    }

    fn filter(&self, _level: u32, _key: &[u8], _value: &[u8]) -> FilterDecision {
        self.0.cancel();
        FilterDecision::Remove
    }
}

/// A cancelled compaction ends with its error, leaves no trace, and the database goes on.
#[test]
fn compact_range_can_be_cancelled() {
    let mut options = options(5);
    let mut asked = CompactRangeOptions::default();
    let token = CancelToken::new();
    asked.cancel = Some(token.clone());
    options.column_family.compaction_filter = Some(Arc::new(Canceller(token.clone())));
    let db = open(&options);
    let family = db.default_column_family();
    put_many(&db, 5_000, &[7; 100]);
    db.flush().unwrap();
    put_many(&db, 5_000, &[7; 100]);
    for _ in 0..2 {
        let ended = db.compact_range_cf_opt(&family, None, None, &asked);
        assert!(matches!(ended, Err(Error::Cancelled { what: "compact_range" })), "{ended:?}");
        assert!(token.is_cancelled());
    }
    assert_eq!(entries(&db, &ReadOptions::default()).len(), 5_000);
    assert_eq!(db.statistics().compactions, 0);
    db.put("key", "goes on").unwrap();
    db.close().unwrap();
    let db = open(&options);
    assert_eq!(entries(&db, &ReadOptions::default()).len(), 5_001);
    db.close().unwrap();
}

/// Values expire: readers miss them at once, and a compaction that their age calls for removes them.
#[test]
fn expired_values_go_by_age() {
    let clock = Arc::new(ManualClock::new(1_000_000_000_000));
    let ttl = Ttl::new(Duration::from_secs(60), Arc::clone(&clock) as _);
    for style in [CompactionStyle::Leveled, CompactionStyle::SizeTiered, CompactionStyle::LazyLeveled] {
        let mut options = options(6);
        options.clock = Arc::clone(&clock) as _;
        options.column_family.compaction_style = style;
        options.column_family.compaction_filter = Some(Arc::new(ttl.clone()));
        options.column_family.periodic_compaction_seconds = 90;
        let db = open(&options);
        db.put("early", ttl.stamp(b"1")).unwrap();
        db.flush().unwrap();
        clock.advance(Duration::from_secs(40));
        db.put("late", ttl.stamp(b"2")).unwrap();
        db.flush().unwrap();
        db.wait_for_background_work().unwrap();
        assert_eq!(files(&db), 2, "nothing is of age");
        clock.advance(Duration::from_secs(30));
        assert_eq!(ttl.live(&db.get("early").unwrap().unwrap()), None);
        assert_eq!(ttl.live(&db.get("late").unwrap().unwrap()), Some(&b"2"[..]));
        clock.advance(Duration::from_secs(200));
        db.wait_for_background_work().unwrap();
        assert_eq!(files(&db), 0, "{style:?}");
        assert_eq!(db.statistics().compaction_entries_filtered, 2);
        db.close().unwrap();
    }
}

/// FIFO keeps the newest bytes, and drops what is past its time to live; nothing is ever rewritten.
#[test]
fn fifo_drops_the_oldest() {
    let clock = Arc::new(ManualClock::new(1_000_000_000_000));
    let mut options = options(7);
    options.clock = Arc::clone(&clock) as _;
    options.column_family.compaction_style = CompactionStyle::Fifo;
    options.column_family.compression = Compression::None;
    options.column_family.fifo_max_table_files_size = 100_000;
    options.column_family.ttl = 3600;
    let db = open(&options);
    for number in 0..30 {
        db.put(key(number), vec![7; 20_000]).unwrap();
        db.flush().unwrap();
        db.wait_for_background_work().unwrap();
    }
    let kept: Vec<_> = entries(&db, &ReadOptions::default()).into_keys().collect();
    assert_eq!(kept, (26..30).map(key).collect::<Vec<_>>());
    assert_eq!(db.statistics().fifo_files_dropped, 26);
    // A caller cannot make it merge, either.
    db.compact_range(None, None).unwrap();
    assert_eq!(files(&db), 4);
    clock.advance(Duration::from_secs(3601));
    db.wait_for_background_work().unwrap();
    assert_eq!(files(&db), 0);
    assert_eq!((db.statistics().compactions, db.statistics().trivial_moves), (0, 0));
    db.close().unwrap();
}

/// The space that dead data takes is told, and a full compaction gives it back.
#[test]
fn space_amplification_is_told() {
    let mut options = options(8);
    options.column_family.disable_auto_compactions = true;
    let db = open(&options);
    let told = |db: &Db| db.property("sluicedb.space_amplification").unwrap().parse::<f64>().unwrap();
    assert!((told(&db) - 1.0).abs() < 0.01);
    for _ in 0..3 {
        put_many(&db, 2_000, b"value");
        db.flush().unwrap();
    }
    assert!((2.8..3.2).contains(&told(&db)), "{}", told(&db));
    db.compact_range(None, None).unwrap();
    // Files that are done with go on a thread of their own.
    eventually(|| match told(&db) {
        told if (0.99..1.01).contains(&told) => Ok(()),
        told => Err(format!("space amplification {told}")),
    })
    .unwrap();
    let (live, files) =
        (db.property_int("rocksdb.estimate-live-data-size"), db.property_int("rocksdb.live-sst-files-size"));
    assert_eq!(live, files);
    db.close().unwrap();
}

/// The same operations under 24 sets of options give equal output: 4 styles by 6 shapes of files.
#[test]
fn option_sets_give_equal_output() {
    let styles = [
        CompactionStyle::Leveled,
        CompactionStyle::SizeTiered,
        CompactionStyle::LazyLeveled,
        CompactionStyle::Fifo,
    ];
    let mut expected = BTreeMap::new();
    apply(&mut expected, None);
    for (set, style) in styles.into_iter().cycle().take(24).enumerate() {
        let mut options = options(100 + set as u64);
        let family = &mut options.column_family;
        family.compaction_style = style;
        family.write_buffer_size = 64 << 10;
        family.level0_file_num_compaction_trigger = [1, 2, 4][set / 4 % 3];
        family.num_levels = [2, 3, 7, 4, 5, 6][set / 4];
        family.max_bytes_for_level_base = 64 << 10;
        family.target_file_size_base = 64 << 10;
        family.compression = if set % 3 == 0 { Compression::None } else { Compression::Lz4 };
        family.block_size = [256, 1024, 4096][set / 4 % 3];
        family.universal_max_size_amplification_percent = [25, 200][set / 4 % 2];
        family.tombstone_density_percent = [0, 50, 10][set / 4 % 3];
        options.read_mode = if set % 2 == 0 { ReadMode::Pread } else { ReadMode::Mmap };
        options.max_subcompactions = 1 + set as u32 % 2;
        let db = open(&options);
        apply(&mut BTreeMap::new(), Some(&db));
        db.wait_for_background_work().unwrap();
        assert_eq!(entries(&db, &ReadOptions::default()), expected, "set {set}, {style:?}");
        db.close().unwrap();
        let db = open(&options);
        assert_eq!(entries(&db, &ReadOptions::default()), expected, "set {set}, {style:?}, reopened");
        let numbers: Vec<u64> = (0..3_000).collect();
        let found = db.multi_get(numbers.iter().map(|number| key(*number)));
        for (number, found) in numbers.iter().zip(found) {
            assert_eq!(found.unwrap().as_deref(), expected.get(&key(*number)).map(Vec::as_slice), "{number}");
        }
        db.close().unwrap();
    }
}

/// The operations: writes, deletions, flushes and compactions of ranges, by a seed of their own.
fn apply(map: &mut BTreeMap<Vec<u8>, Vec<u8>>, db: Option<&Db>) {
    let mut rng = Rng::new(77);
    for step in 0..6_000 {
        let number = rng.below(3_000);
        if rng.chance(70) {
            let len = rng.below(300) as usize;
            let value = rng.bytes(len);
            if let Some(db) = db {
                db.put(key(number), &value).unwrap();
            }
            map.insert(key(number), value);
        } else {
            if let Some(db) = db {
                db.delete(key(number)).unwrap();
            }
            map.remove(&key(number));
        }
        if let Some(db) = db {
            if step % 500 == 499 {
                db.flush().unwrap();
            }
            if step % 2_000 == 1_999 {
                let (from, to) = (key(number), key(number + 500));
                db.compact_range(Some(&from), Some(&to)).unwrap();
            }
        }
    }
}
