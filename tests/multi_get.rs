//! Many point reads as one: equal to single reads, each block once, in parallel where much is not in memory, all as of
//! one moment. Random operations against maps are `tests/model.rs`'.

use std::path::Path;
use std::sync::Arc;

use sluicedb::{Compression, Db, DbOptions, ReadMode, WriteBatch};
use sluicedb_tests::sim_fs::SimFs;

fn key(number: u32) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

/// A closed database of 2,000 keys of 116 bytes in one level, stored uncompressed and read with positioned reads.
fn filled(read_threads: u32) -> DbOptions {
    let mut options = DbOptions::default();
    options.file_system = Arc::new(SimFs::new(1));
    options.read_mode = ReadMode::Pread;
    options.max_read_threads = read_threads;
    options.column_family.compression = Compression::None;
    let db = Db::open(Path::new("/db"), options.clone()).unwrap();
    for number in 0..2_000 {
        db.put(key(number), [number as u8; 107]).unwrap();
    }
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    options
}

fn check(db: &Db, numbers: &[u32]) {
    let found = db.multi_get(numbers.iter().map(|number| key(*number)));
    for (number, found) in numbers.iter().zip(found) {
        let single = db.get(key(*number)).unwrap();
        assert_eq!(found.unwrap().as_deref(), single.as_deref(), "key {number}");
        assert_eq!(single.is_some(), *number < 2_000, "key {number}");
    }
}

/// Neighbours share their block: it is looked into once, whatever their order in the call, and twice asked is answered
/// twice.
#[test]
fn keys_of_one_block_cost_one_look() {
    let options = filled(1);
    let db = Db::open(Path::new("/db"), options).unwrap();
    let numbers: Vec<u32> = (100..200).rev().chain([150, 150, 5_000]).collect();
    let found = db.multi_get(numbers.iter().map(|number| key(*number)));
    assert_eq!(found.iter().filter(|found| matches!(found, Ok(Some(_)))).count(), 102);
    // 100 keys of 116 bytes lie in three or four blocks of 4 KiB.
    let statistics = db.statistics();
    assert!((3..=5).contains(&statistics.multi_get_blocks), "{}", statistics.multi_get_blocks);
    assert_eq!(statistics.block_cache_misses, statistics.multi_get_blocks);
    assert_eq!((statistics.multi_gets, statistics.gets, statistics.gets_found), (1, 103, 102));
    check(&db, &numbers);
    db.close().unwrap();
}

/// Blocks that are not in memory are read by several threads, if there are enough of them and threads are allowed.
#[test]
fn cold_blocks_are_read_in_parallel() {
    for threads in [1, 3] {
        let options = filled(threads);
        let db = Db::open(Path::new("/db"), options).unwrap();
        let numbers: Vec<u32> = (0..2_000).step_by(40).collect();
        let cold = db.multi_get(numbers.iter().map(|number| key(*number)));
        assert!(cold.iter().all(|found| matches!(found, Ok(Some(_)))));
        let read = db.statistics().multi_get_parallel_reads;
        assert_eq!(read > 40, threads > 1, "{read} in parallel with {threads} threads");
        check(&db, &numbers);
        assert_eq!(db.statistics().multi_get_parallel_reads, read, "what is at hand the caller reads itself");
        db.close().unwrap();
    }
}

/// A batch is seen in all families or in none, while it is written and flushed.
#[test]
fn all_keys_are_of_one_moment() {
    let mut options = DbOptions::default();
    options.file_system = Arc::new(SimFs::new(2));
    options.column_family.write_buffer_size = 64 << 10;
    let db = Db::open(Path::new("/db"), options.clone()).unwrap();
    let first = db.default_column_family();
    let second = db.create_column_family("second", options.column_family).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0..2_000_u32 {
                let mut batch = WriteBatch::new();
                batch.put_cf(&first, "key", number.to_be_bytes()).put_cf(
                    &second,
                    "key",
                    number.to_be_bytes(),
                );
                batch.put_cf(&second, key(number), [0; 200]);
                db.write(batch).unwrap();
            }
        });
        while !writer.is_finished() {
            let found = db.multi_get_cf([(&first, "key"), (&second, "key")]);
            let values: Vec<_> =
                found.into_iter().map(|found| found.unwrap().map(|value| value.to_vec())).collect();
            assert_eq!(values[0], values[1]);
        }
    });
    db.close().unwrap();
}

/// A key that cannot be read has its error; the others have their answers.
#[test]
fn a_dropped_family_spoils_only_its_keys() {
    let mut options = DbOptions::default();
    options.file_system = Arc::new(SimFs::new(3));
    let db = Db::open(Path::new("/db"), options.clone()).unwrap();
    let first = db.default_column_family();
    let second = db.create_column_family("second", options.column_family).unwrap();
    db.put("key", "value").unwrap();
    db.drop_column_family(&second).unwrap();
    let found = db.multi_get_cf([(&second, "key"), (&first, "key"), (&first, "none")]);
    assert!(matches!(&found[0], Err(sluicedb::Error::NoSuchColumnFamily { .. })));
    assert_eq!(found[1].as_ref().unwrap().as_deref(), Some(&b"value"[..]));
    assert!(matches!(&found[2], Ok(None)));
    db.close().unwrap();
}
