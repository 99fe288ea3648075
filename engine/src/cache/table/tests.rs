//! The table cache: one opening per missing table, bounds, and files that are not what the manifest says.

use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::env::mem::MemFileSystem;
use crate::key::{SequenceNumber, ValueType, make_internal};
use crate::options::ColumnFamilyOptions;
use crate::sst::{SstOptions, SstWriter};

fn table(fs: &MemFileSystem, number: u64) -> FileMeta {
    let number = FileNumber(number);
    let options = SstOptions::from_family(&ColumnFamilyOptions::default(), 0);
    let path = sst_path(Path::new("db"), number);
    let mut writer = SstWriter::create(fs, path, fs.unique_id(), options).unwrap();
    let mut key = Vec::new();
    make_internal(&mut key, format!("{number}").as_bytes(), SequenceNumber::new(1), ValueType::Put);
    writer.add(&key, b"value").unwrap();
    let summary = writer.finish().unwrap();
    FileMeta {
        number,
        unique_id: summary.unique_id,
        size: summary.size,
        smallest: summary.smallest,
        largest: summary.largest,
        smallest_seq: summary.smallest_seq,
        largest_seq: summary.largest_seq,
        entries: summary.entries,
        tombstones: summary.tombstones,
        created_micros: 0,
        being_compacted: AtomicBool::new(false),
    }
}

fn cache(fs: &MemFileSystem, capacity: usize) -> TableCache {
    TableCache::new(Arc::new(fs.clone()), PathBuf::from("db"), capacity, ReadMode::Mmap, None)
}

/// No more tables stay open than the capacity allows, and a table is opened again after it was pushed out.
#[test]
fn open_tables_are_bounded() {
    let fs = MemFileSystem::new();
    let files: Vec<FileMeta> = (1..=100).map(|number| table(&fs, number)).collect();
    let cache = cache(&fs, 10);
    for file in files.iter().chain(&files) {
        assert_eq!(cache.get(file).unwrap().number(), file.number);
        assert!(cache.len() <= 10, "{} tables", cache.len());
    }
    assert!(fs.opened() > 100);
    assert!(cache.heap_bytes() > 0);
}

/// Threads that miss one table at once open it once; an evicted one is opened anew.
#[test]
fn one_thread_opens_for_all() {
    const THREADS: usize = 8;
    let (fs, start) = (MemFileSystem::new(), Barrier::new(THREADS));
    let (file, cache) = (table(&fs, 1), cache(&fs, 10));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                cache.get(&file).unwrap();
            });
        }
    });
    assert_eq!(fs.opened(), 1);
    cache.evict(file.number);
    cache.get(&file).unwrap();
    assert_eq!(fs.opened(), 2);
}

/// A missing file is damage that names the file; two exchanged ones are found. (reliability R10)
#[test]
fn wrong_files_are_found() {
    let fs = MemFileSystem::new();
    let (one, two) = (table(&fs, 1), table(&fs, 2));
    let cache = cache(&fs, 10);
    let (path_one, path_two) = (sst_path(Path::new("db"), one.number), sst_path(Path::new("db"), two.number));
    let (bytes_one, bytes_two) = (fs.contents(&path_one), fs.contents(&path_two));
    fs.put(&path_one, bytes_two);
    fs.put(&path_two, bytes_one);
    for file in [&one, &two] {
        let refused = cache.get(file).unwrap_err();
        assert!(matches!(refused, Error::Corruption { .. }), "{refused}");
    }
    fs.remove(&path_one).unwrap();
    let missing = cache.get(&one).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "db/000001.sst is corrupt at byte 0: the file is missing; the manifest names it"
    );
}
