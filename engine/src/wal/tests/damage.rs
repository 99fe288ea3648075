//! Truncated, flipped, missing and unreadable: a prefix or a refusal, as the mode and the synced length have it, and
//! never a wrong payload ([`read`] checks each to the byte).

use super::*;

/// A small log over four segments: groups of one, all handed over, synced where `synced` says, with the sizes of its
/// records in the stream.
fn small_log(records: u64, synced: impl Fn(u64) -> bool) -> (Log, Vec<u64>) {
    let mut log = Log::create(options(600));
    let mut ends = Vec::new();
    for number in 1..=records {
        let push = if synced(number) { Push::Sync } else { Push::HandOver };
        log.append(20 + (number as usize * 37) % 150, push).unwrap();
        ends.push(log.wal.durability().watermarks().appended.bytes);
    }
    (log, ends)
}

/// Files of the log in order, with the stream position at which each begins.
fn files(log: &Log) -> Vec<(PathBuf, u64)> {
    log.wal.segments().iter().map(|segment| (segment_path(segment.number.0), segment.start)).collect()
}

/// Every truncation of the last segment gives a prefix in the tolerant modes; one that cuts off bytes proved synced
/// is refused by default and reported by point in time.
#[test]
fn every_truncation_gives_a_prefix() {
    let (log, ends) = small_log(16, |_| false);
    let segments = files(&log);
    let (path, start) = segments.last().unwrap();
    let len = log.fs.bytes(path).len();
    for cut in 0..=len {
        let fs = log.fs.copy();
        fs.edit(path, |bytes| bytes.truncate(cut));
        let kept = start + (cut as u64).saturating_sub(64);
        let whole = ends.iter().filter(|end| **end <= if cut < 64 { *start } else { kept }).count();
        for mode in [RecoveryMode::TolerateTail, RecoveryMode::PointInTime] {
            let (numbers, end) = read(&fs, &log.facts, mode).unwrap();
            assert!(is_prefix(&numbers), "cut at {cut}: {numbers:?}");
            assert_eq!(numbers.len(), whole, "cut at {cut}");
            assert!(end.damage.is_none());
        }
    }
    for (path, start) in &segments[..segments.len() - 1] {
        for cut in 0..log.fs.bytes(path).len() {
            let fs = log.fs.copy();
            fs.edit(path, |bytes| bytes.truncate(cut));
            let refused = read(&fs, &log.facts, RecoveryMode::TolerateTail);
            match refused {
                Err(Error::Corruption { path: named, .. }) => assert_eq!(named, *path, "cut at {cut}"),
                Err(error) => panic!("cut at {cut}: {error}"),
                // Only padding was cut off.
                Ok((numbers, _)) => assert_eq!(numbers.len(), ends.len(), "cut at {cut}"),
            }
            let (numbers, end) = read(&fs, &log.facts, RecoveryMode::PointInTime).unwrap();
            assert!(is_prefix(&numbers), "cut at {cut}");
            assert!(numbers.len() >= ends.iter().filter(|end| **end <= *start).count(), "cut at {cut}");
            assert_eq!(end.damage.is_some(), numbers.len() < ends.len());
        }
    }
}

/// Every bit of a log over several segments, flipped, in every mode: the records that come back are a prefix; damage
/// below a proof is refused by default, naming the file, and ends the log at the last whole record for point in
/// time; behind the last proof it is a torn tail.
///
/// `reliability R11`, exhaustively: the proofs are a later header, a later group, and the manifest.
#[test]
fn every_bit_flip_is_a_prefix_or_a_refusal() {
    let (mut log, ends) = small_log(14, |number| number % 5 == 0);
    log.facts.synced = None;
    // The last proof is the last group's "synced so far", which is the end of record 10 unless a bound came later.
    let segments = files(&log);
    let proved = segments.last().unwrap().1.max(ends[9]);
    let all = ends.len();
    for (path, start) in &segments {
        let len = log.fs.bytes(path).len();
        for bit in 0..len * 8 {
            let fs = log.fs.copy();
            fs.edit(path, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
            let place = format!("bit {bit} of {}", path.display());
            let position = start + (bit as u64 / 8).saturating_sub(64);
            match read(&fs, &log.facts, RecoveryMode::TolerateTail) {
                Ok((numbers, _)) if numbers.len() == all => {} // padding, or bytes behind the end
                Ok((numbers, _)) => {
                    assert!(is_prefix(&numbers), "{place}: {numbers:?}");
                    let lost = ends[numbers.len()];
                    assert!(
                        lost > proved || position >= proved,
                        "{place}: synced bytes dropped without a word"
                    );
                }
                Err(Error::Corruption { path: named, .. }) => {
                    assert_eq!(named, *path, "{place}");
                    assert!(position < proved, "{place}: a torn tail is refused");
                }
                Err(error) => panic!("{place}: {error}"),
            }
            match read(&fs, &log.facts, RecoveryMode::PointInTime) {
                Ok((numbers, end)) => {
                    assert!(is_prefix(&numbers), "{place}: {numbers:?}");
                    assert!(end.damage.is_none() || end.bytes_dropped > 0, "{place}");
                    if bit % 5 == 0 {
                        let (_, reopened) = log.reopen(&fs, RecoveryMode::PointInTime).unwrap();
                        let (same, _) =
                            read(&reopened.fs, &reopened.facts, RecoveryMode::TolerateTail).unwrap();
                        assert_eq!(same, numbers, "{place}: not the same again");
                    }
                }
                Err(error) => panic!("{place}: {error}"),
            }
            match read(&fs, &log.facts, RecoveryMode::Absolute) {
                Ok((numbers, _)) => assert_eq!(numbers.len(), all, "{place}: only padding passes"),
                Err(Error::Corruption { .. }) => {}
                Err(error) => panic!("{place}: {error}"),
            }
        }
    }
}

/// The manifest's synced position is a proof where the log itself has none.
#[test]
fn the_manifest_proves_what_was_synced() {
    let (mut log, _) = small_log(2, |number| number == 2);
    let path = log.wal.current_path();
    let fs = log.fs.copy();
    fs.edit(&path, |bytes| bytes[64 + 20] ^= 1);
    let (numbers, _) = read(&fs, &log.facts, RecoveryMode::TolerateTail).unwrap();
    assert_eq!(numbers, [], "nothing says that it was synced");
    log.facts.synced = Some(log.wal.synced_position());
    match read(&fs, &log.facts, RecoveryMode::TolerateTail).unwrap_err() {
        Error::Corruption { path: named, offset, found: Corruption::Checksum { .. } } => {
            assert_eq!((named, offset), (path.clone(), 64));
        }
        error => panic!("{error}"),
    }
    let (numbers, end) = read(&fs, &log.facts, RecoveryMode::PointInTime).unwrap();
    assert_eq!((numbers.len(), end.bytes_dropped), (0, log.synced_bytes()));
    // A damaged header of the only segment is no empty log.
    let fs = log.fs.copy();
    fs.edit(&path, |bytes| bytes[20] ^= 1);
    let refused = read(&fs, &log.facts, RecoveryMode::TolerateTail).unwrap_err();
    assert!(matches!(refused, Error::Corruption { offset: 0, path: named, .. } if named == path));
}

/// write-path D7: a missing segment is refused by name in every mode, wherever it is.
#[test]
fn d7_a_missing_segment_is_named() {
    let (mut log, _) = small_log(30, |_| false);
    log.wal.flush(true).unwrap();
    log.facts.synced = Some(log.wal.synced_position());
    for (path, _) in files(&log) {
        for mode in [RecoveryMode::TolerateTail, RecoveryMode::PointInTime, RecoveryMode::Absolute] {
            let fs = log.fs.copy();
            crate::env::FileSystem::remove(&fs, &path).unwrap();
            match read(&fs, &log.facts, mode) {
                Err(Error::Corruption { path: named, found: Corruption::Missing { .. }, .. }) => {
                    assert_eq!(named, path, "{mode:?}");
                }
                other => panic!("{mode:?}, {}: {:?}", path.display(), other.map(|(numbers, _)| numbers)),
            }
        }
    }
}

/// Point in time is stable: what it left out stays left out, also when writing went on behind it.
#[test]
fn point_in_time_is_stable() {
    let (log, _) = small_log(20, |_| true);
    let damaged = files(&log)[1].0.clone();
    let fs = log.fs.copy();
    fs.edit(&damaged, |bytes| bytes[100] ^= 0x40);
    assert!(matches!(read(&fs, &log.facts, RecoveryMode::TolerateTail), Err(Error::Corruption { .. })));
    let (numbers, mut reopened) = log.reopen(&fs, RecoveryMode::PointInTime).unwrap();
    assert!(is_prefix(&numbers) && !numbers.is_empty() && numbers.len() < 20);
    let (same, _) = reopened.reopen(&reopened.fs.copy(), RecoveryMode::TolerateTail).unwrap();
    assert_eq!(same, numbers);
    reopened.append(50, Push::Sync).unwrap();
    let (more, _) = reopened.reopen(&reopened.fs.crash(|| false), RecoveryMode::TolerateTail).unwrap();
    assert_eq!(more.len(), numbers.len() + 1);
    assert!(is_prefix(&more));
}

/// `reliability U22`: an error while reading is that error, in every mode and at every call; nothing is dropped for it.
#[test]
fn an_io_error_is_not_damage() {
    let (log, _) = small_log(14, |_| false);
    for call in ["read", "open", "list", "sync"] {
        let fs = log.fs.copy();
        read(&fs, &log.facts, RecoveryMode::PointInTime).unwrap();
        let count = fs.calls(call, "");
        assert!(count > 0, "{call}");
        for nth in 0..count {
            let fs = log.fs.copy();
            fs.fail_nth(call, nth);
            let refused = read(&fs, &log.facts, RecoveryMode::PointInTime);
            assert!(
                matches!(refused, Err(Error::Io { .. })),
                "{call} {nth}: {:?}",
                refused.map(|found| found.0)
            );
        }
    }
}

/// Random bytes, zeros and old bytes at the tail of the last segment: a prefix that holds what was synced.
#[test]
fn torn_tails_of_every_kind() {
    for seed in 0..400 {
        let mut rng = Rng(seed);
        let records = 1 + rng.below(20);
        let synced = rng.below(records + 1);
        let (log, ends) = small_log(records, |number| number == synced);
        let (path, start) = files(&log).pop().unwrap();
        let durable = log.durable() as usize;
        let safe = (log.synced_bytes().max(start) - start) as usize + 64;
        let fs = log.fs.copy();
        fs.edit(&path, |bytes| {
            let from = safe + rng.below((bytes.len() - safe) as u64 + 1) as usize;
            let kind = rng.below(3);
            let old = bytes.clone();
            for (i, byte) in bytes.iter_mut().enumerate().skip(from) {
                *byte = match kind {
                    0 => 0,
                    1 => rng.next() as u8,
                    _ => old[(i + 64) % old.len()],
                };
            }
        });
        let (numbers, _) = read(&fs, &log.facts, RecoveryMode::TolerateTail)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(is_prefix(&numbers), "seed {seed}: {numbers:?}");
        assert!(numbers.len() >= durable && numbers.len() <= ends.len(), "seed {seed}: {}", numbers.len());
    }
}

/// A value that holds a copy of the log's own bytes proves nothing: claims count only at their own place.
#[test]
fn a_copy_of_the_log_in_a_value_proves_nothing() {
    let mut log = Log::create(options(64 << 10));
    for _ in 0..10 {
        log.append(100, Push::Sync).unwrap();
    }
    let copy = log.fs.bytes(&log.wal.current_path())[..2000].to_vec();
    log.wal.append(std::iter::once(record(&copy, 11)), Push::HandOver).unwrap();
    let end = log.wal.durability().watermarks().appended.bytes as usize + 64;
    let fs = log.fs.copy();
    fs.edit(&log.wal.current_path(), |bytes| bytes[end - 1] ^= 1);
    let (numbers, found) = read(&fs, &log.facts, RecoveryMode::TolerateTail).unwrap();
    assert_eq!((numbers.len(), found.stream_bytes), (10, log.synced_bytes()));
}
