//! The life of a log without damage: round trips, straddling, recycling, closing, opening again and again.

use super::super::format::ROOM_MIN;
use super::*;

/// Records of every size from nothing to three segments come back as they were, also where headers do not fit.
#[test]
fn sizes_round_trip() {
    let segment = 4096_usize;
    let mut sizes: Vec<_> = (8..64).chain(segment - 40..segment + 40).collect();
    sizes.extend(2 * segment - 40..2 * segment + 20);
    sizes.extend([3 * segment, 8, 3 * segment - 17, 12]);
    for push in [Push::Buffer, Push::HandOver, Push::Sync] {
        let mut log = Log::create(options(segment as u64));
        for size in &sizes {
            log.append(*size, push).unwrap();
        }
        log.wal.flush(false).unwrap();
        let (numbers, end) = read(&log.fs.copy(), &log.facts, RecoveryMode::TolerateTail).unwrap();
        assert!(is_prefix(&numbers) && numbers.len() == sizes.len(), "{push:?}: {} found", numbers.len());
        assert_eq!(end.stream_bytes, log.wal.durability().watermarks().appended.bytes);
        assert_eq!(end.bytes_dropped, 0);
    }
}

/// Every room that a segment can have left is filled or padded, and the next record is found behind it.
#[test]
fn every_rest_of_a_segment_is_passed() {
    for first in 4096 - 200..4096 {
        let mut log = Log::create(options(4096));
        log.append(first - FRAGMENT_HEADER_MAX, Push::HandOver).unwrap();
        log.append(30, Push::HandOver).unwrap();
        log.append(5000, Push::HandOver).unwrap();
        let (numbers, _) = read(&log.fs.copy(), &log.facts, RecoveryMode::Absolute).unwrap();
        assert_eq!(numbers, [1, 2, 3], "first record of {first} framed bytes");
    }
}

/// Records longer than a fragment, and ones whose bytes go to the kernel without a copy.
#[test]
fn large_records_round_trip() {
    let mut log = Log::create(options(16 << 20));
    for size in [300 << 10, (1 << 20) - 1, 1 << 20, (5 << 20) + 3, 100, 20 << 20] {
        log.append(size, Push::HandOver).unwrap();
    }
    let (numbers, _) = read(&log.fs.copy(), &log.facts, RecoveryMode::Absolute).unwrap();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
}

/// An empty record is a record.
#[test]
fn an_empty_record_is_found() {
    let log = Log::create(options(4096));
    let empty = LogRecord { head: b"", body: b"", last_seq: seq(1) };
    log.wal.append([empty, empty].into_iter(), Push::Sync).unwrap();
    let request = ReplayRequest {
        fs: &log.fs,
        dir: Path::new(DIR),
        facts: &log.facts,
        mode: RecoveryMode::Absolute,
        read_only: true,
    };
    let mut found = 0;
    replay(&request, |_, bytes| {
        assert!(bytes.is_empty());
        found += 1;
        Ok(())
    })
    .unwrap();
    assert_eq!(found, 2);
}

/// Recycled segments never give back what they held before: their rest is longer-lived than the log needs it.
#[test]
fn recycled_bytes_never_replay() {
    let mut log = Log::create(options(4096));
    // All fragments begin at multiples of 128, so that old ones stand exactly behind the end.
    for _ in 0..400 {
        log.append(128 - FRAGMENT_HEADER_MAX, Push::HandOver).unwrap();
        log.facts.first_needed = log.wal.current_segment();
        log.facts.synced = Some(log.wal.synced_position());
        log.wal.release_below(log.facts.first_needed);
        log.wal.prepare_next().unwrap();
        let (numbers, end) = read(&log.fs.copy(), &log.facts, RecoveryMode::TolerateTail).unwrap();
        if let (Some(first), Some(last)) = (numbers.first(), numbers.last()) {
            assert_eq!(*last, log.last, "the newest is there");
            assert!(
                numbers.iter().zip(*first..).all(|(number, expected)| *number == expected),
                "{numbers:?}"
            );
        }
        let padding = log.wal.durability().watermarks().appended.bytes - end.stream_bytes;
        assert!(padding < ROOM_MIN, "{padding} bytes missing");
    }
    assert!(log.fs.calls("rename", ".log") > 5, "segments were recycled");
    let files = crate::env::FileSystem::list(&log.fs, Path::new(DIR)).unwrap();
    assert!(files.len() <= 4, "one in use, one ready, two spare: {files:?}");
    assert!(log.wal.segments().len() == 1 && log.wal.live_bytes() <= 4096);
}

/// Power fails while segments are recycled: what is found runs without a gap from the first needed segment to the
/// durable sequence at least.
#[test]
fn crashes_while_recycling() {
    for seed in 0..60 {
        let mut rng = Rng(seed);
        let mut log = Log::create(options(2048));
        let (mut first_of_segment, mut needed) = (Vec::new(), 1);
        for step in 0..150 {
            let push = if rng.below(5) == 0 { Push::Sync } else { Push::HandOver };
            let appended = log.append(12 + rng.below(600) as usize, push).unwrap();
            first_of_segment.push(appended.first_segment);
            match rng.below(8) {
                0 => {
                    // As a flush does: the log is synced through, a synced edit says what is needed, segments go.
                    log.wal.sync_through(seq(log.last)).unwrap();
                    let keep = needed + rng.below(log.last + 1 - needed);
                    log.facts.first_needed = first_of_segment[keep as usize - 1];
                    log.facts.synced = Some(log.wal.synced_position());
                    needed = keep;
                    log.wal.release_below(log.facts.first_needed);
                }
                1 => log.wal.prepare_next().unwrap(),
                _ => {}
            }
            let odds = [0, 10, 50, 100][rng.below(4) as usize];
            let fs = log.fs.crash(|| rng.below(100) < odds);
            let (numbers, _) = read(&fs, &log.facts, RecoveryMode::TolerateTail)
                .unwrap_or_else(|error| panic!("seed {seed} step {step}: {error}"));
            let first = numbers.first().copied().unwrap_or(needed);
            assert!(first <= needed, "seed {seed} step {step}: {first} and not {needed}");
            assert!(numbers.iter().zip(first..).all(|(number, expected)| *number == expected));
            assert!(
                numbers.last().copied().unwrap_or(0) >= log.durable(),
                "seed {seed} step {step}: {numbers:?}"
            );
        }
        assert!(log.fs.calls("rename", ".log") > 0);
    }
}

/// Each reopen gives the same answer and later writes follow it, through a chain of recoveries over torn tails; a crash
/// before the manifest knows of a recovery changes nothing.
#[test]
fn reopening_is_stable() {
    for seed in 0..60 {
        let mut rng = Rng(seed);
        let mut log = Log::create(options(4096));
        for round in 0..6 {
            for _ in 0..rng.below(30) {
                let len = 12 + rng.below(700) as usize;
                log.append(len, if rng.below(4) == 0 { Push::Sync } else { Push::HandOver }).unwrap();
            }
            let durable = log.durable();
            let odds = rng.below(101);
            let fs = log.fs.crash(|| rng.below(100) < odds);
            // An open that crashes before its edit is synced: whatever it created is there, the facts are the old.
            let (numbers, unfinished) = log.reopen(&fs, RecoveryMode::TolerateTail).unwrap();
            let fs = unfinished.fs.crash(|| false);
            let (again, reopened) = log.reopen(&fs, RecoveryMode::TolerateTail).unwrap();
            assert_eq!(numbers, again, "seed {seed} round {round}");
            assert!(
                is_prefix(&again) && again.len() as u64 >= durable,
                "seed {seed} round {round}: {again:?}"
            );
            let (after, _) = read(&reopened.fs.copy(), &reopened.facts, RecoveryMode::TolerateTail).unwrap();
            assert_eq!(again, after, "seed {seed} round {round}: once the manifest knows");
            log = reopened;
        }
    }
}

/// A closed log is clean in the strictest mode, with recycled bytes behind its end too, and closed logs join.
#[test]
fn a_closed_log_is_clean() {
    let mut log = Log::create(options(4096));
    for _ in 0..100 {
        log.append(100, Push::Buffer).unwrap();
    }
    log.facts.first_needed = log.wal.current_segment();
    log.wal.release_below(log.facts.first_needed);
    for _ in 0..60 {
        log.append(100, Push::Buffer).unwrap();
        log.wal.prepare_next().unwrap();
    }
    log.wal.close().unwrap();
    assert!(matches!(log.append(10, Push::Buffer), Err(Error::ShutdownInProgress)));
    let fs = log.fs.crash(|| false);
    let (numbers, mut second) = log.reopen(&fs, RecoveryMode::Absolute).unwrap();
    assert_eq!(numbers.last(), Some(&160));
    second.append(10, Push::Buffer).unwrap();
    second.wal.close().unwrap();
    let (more, third) = second.reopen(&second.fs.crash(|| false), RecoveryMode::Absolute).unwrap();
    assert_eq!(more, [&numbers[..], &[161]].concat());
    third.wal.close().unwrap();
    let (same, _) = third.reopen(&third.fs.crash(|| false), RecoveryMode::Absolute).unwrap();
    assert_eq!(more, same, "closed without a write");
}

/// Sealing is not the log's affair, but a segment is: the one in which a group begins is told, and records that began
/// before the first needed segment are skipped.
#[test]
fn replay_begins_behind_a_record_of_the_past() {
    let mut log = Log::create(options(4096));
    log.append(3000, Push::HandOver).unwrap();
    log.append(9000, Push::HandOver).unwrap(); // begins in the first segment, ends in the third
    let third = log.append(100, Push::HandOver).unwrap().first_segment;
    log.facts.first_needed = third;
    let (numbers, end) = read(&log.fs.copy(), &log.facts, RecoveryMode::TolerateTail).unwrap();
    assert_eq!(numbers, [3]);
    assert_eq!(end.live.len(), 1);
    assert_eq!(end.dead.len(), 2);
}

/// Preparing ahead keeps creation off the write path; without it the leader creates and counts.
#[test]
fn creation_is_counted_on_the_write_path_only() {
    let mut log = Log::create(options(4096));
    for _ in 0..200 {
        if log.append(100, Push::HandOver).unwrap().wants_segment {
            log.wal.prepare_next().unwrap();
        }
    }
    assert_eq!(log.wal.stats().inline_creations, 0);
    let mut lazy = Log::create(options(4096));
    for _ in 0..200 {
        lazy.append(100, Push::HandOver).unwrap();
    }
    assert_eq!(lazy.wal.stats().inline_creations, 200 * 116 / 4096);
}

/// Appending, syncing from two threads and preparing at once: nothing is lost, doubled or out of order.
#[test]
fn concurrent_syncs_do_not_disturb() {
    let log = Log::create(options(16 << 10));
    let wal = &log.wal;
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = seq(0);
                while !done.load(Ordering::Relaxed) {
                    wal.sync_handed_over().unwrap();
                    let durable = wal.durability().durable_sequence();
                    assert!(durable >= last);
                    last = durable;
                    wal.sync_through(seq(durable.get() + 1)).unwrap();
                    wal.prepare_next().unwrap();
                }
            });
        }
        for number in 1..=3000 {
            let payload = payload(number, 20 + (number % 300) as usize);
            let push = if number % 7 == 0 { Push::Buffer } else { Push::HandOver };
            wal.append(std::iter::once(record(&payload, number)), push).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    wal.flush(true).unwrap();
    assert_eq!(wal.durability().durable_sequence(), seq(3000));
    let (numbers, _) = read(&log.fs.crash(|| false), &log.facts, RecoveryMode::Absolute).unwrap();
    assert!(is_prefix(&numbers) && numbers.len() == 3000);
}
