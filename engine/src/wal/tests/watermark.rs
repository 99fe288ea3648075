//! The durable watermark against every cause of a sync: the cases of `write-path.md` 5.3 at the level of the log.

use super::*;

const MIB: u64 = 1 << 20;

/// write-path D1: ten batches of 100 000 framed bytes are not durable; the eleventh crosses the bound and makes the
/// ten durable, not itself.
#[test]
fn d1_the_batch_that_crosses_completes_those_before() {
    for push in [Push::Buffer, Push::HandOver] {
        let mut log = Log::create(options(MIB));
        for number in 1..=10 {
            log.append_payload(&framed(number, 100_000), push).unwrap();
        }
        assert_eq!((log.durable(), log.synced_bytes()), (0, 0));
        let appended = log.append_payload(&framed(11, 100_000), push).unwrap();
        assert!(appended.durable_moved);
        assert_eq!((log.durable(), log.synced_bytes()), (10, 1_048_576));
        let durability = log.wal.durability();
        for number in 1..=10 {
            durability.wait_durable(seq(number)).unwrap();
        }
        assert!(!durability.poll_durable(seq(11)).unwrap(), "it straddles");
    }
}

/// write-path D2: a bound is reached with the last byte that the segment holds.
#[test]
fn d2_a_bound_is_reached_with_its_last_byte() {
    for push in [Push::Buffer, Push::HandOver] {
        let mut log = Log::create(options(MIB));
        for number in 1..=32 {
            log.append_payload(&framed(number, 65_536), push).unwrap();
            assert_eq!(log.durable(), number / 16 * 16, "after {number}");
        }
        assert_eq!(log.wal.stats().syncs, 2);
    }
}

/// write-path D3: a batch longer than a segment moves the synced bytes and completes nobody before its end.
#[test]
fn d3_a_long_batch_completes_nobody() {
    for push in [Push::Buffer, Push::HandOver] {
        let mut log = Log::create(options(MIB));
        log.append((3 << 20) + (1 << 19), push).unwrap();
        assert_eq!((log.durable(), log.synced_bytes()), (0, 3 * MIB));
        assert!(!log.wal.durability().deliver(), "nothing to tell");
        log.wal.flush(true).unwrap();
        assert_eq!(log.durable(), 1);
        assert!(log.wal.durability().deliver());
        assert!(!log.wal.durability().deliver(), "one round");
    }
}

/// write-path D4: a group over three bounds takes three syncs and one round of callbacks.
#[test]
fn d4_a_group_over_three_bounds() {
    for push in [Push::Buffer, Push::HandOver] {
        let log = Log::create(options(MIB));
        let heard = Arc::new(crate::sync::Mutex::new(Vec::new()));
        let ear = Arc::clone(&heard);
        log.wal.durability().subscribe(Arc::new(move |seq| ear.lock().push(seq.get())));
        let first = FRAGMENT_HEADER_MAX;
        let payloads: Vec<_> = (1..=40)
            .map(|n| payload(n, 100_000 - if n == 1 { first } else { FRAGMENT_HEADER_LEN }))
            .collect();
        let records = payloads.iter().zip(1..).map(|(payload, number)| record(payload, number));
        let appended = log.wal.append(records, push).unwrap();
        assert!(appended.durable_moved);
        assert_eq!((log.durable(), log.synced_bytes()), (31, 3 * MIB));
        assert_eq!(log.wal.stats().syncs, 3);
        assert!(log.wal.durability().deliver());
        assert!(!log.wal.durability().deliver());
        assert_eq!(*heard.lock(), [31]);
    }
}

/// write-path D8: the third segment's sync fails. The durable sequence stays at the second's last whole batch, later
/// waits and writes get that error, and the file is not synced again; a reopen finds at least what was durable.
#[test]
fn d8_a_failed_sync_is_sticky() {
    let mut log = Log::create(options(MIB));
    while log.durable() < 20 {
        log.append_payload(&framed(log.last + 1, 100_000), Push::HandOver).unwrap();
    }
    let third = log.wal.current_path();
    log.fs.fail("sync", third.to_str().unwrap(), 1, ErrorKind::Other);
    let syncs = log.fs.calls("sync", third.to_str().unwrap());
    let error = loop {
        if let Err(error) = log.append_payload(&framed(log.last + 1, 100_000), Push::HandOver) {
            break error;
        }
    };
    assert!(matches!(&error, Error::Io { doing: "sync", path, .. } if *path == third), "{error}");
    assert_eq!(log.durable(), 20);
    assert!(log.wal.durability().wait_durable(seq(20)).is_ok());
    for refused in [
        log.wal.durability().wait_durable(seq(21)),
        log.append(10, Push::Sync).map(|_| ()),
        log.append(10, Push::Buffer).map(|_| ()),
        log.wal.sync_through(seq(21)),
        log.wal.flush(true),
        log.wal.close(),
    ] {
        assert_eq!(refused.unwrap_err().to_string(), error.to_string());
    }
    assert_eq!(log.fs.calls("sync", third.to_str().unwrap()), syncs + 1, "one attempt");
    assert_eq!(log.durable(), 20);
    for keep in [false, true] {
        let fs = log.fs.crash(|| keep);
        let (numbers, _) = log.reopen(&fs, RecoveryMode::TolerateTail).unwrap();
        assert!(is_prefix(&numbers) && numbers.len() >= 20, "{numbers:?}");
    }
}

/// write-path D8, resumed: the failed segment is set aside, writing goes on in a fresh one, and a reopen replays only
/// what came after.
#[test]
fn d8_resume_goes_on_in_a_fresh_segment() {
    let mut log = Log::create(options(MIB));
    for _ in 0..5 {
        log.append(1000, Push::HandOver).unwrap();
    }
    log.fs.fail("sync", ".log", 1, ErrorKind::Other);
    log.append(1000, Push::Sync).unwrap_err();
    let bad = log.wal.begin_anew().unwrap();
    log.append(1000, Push::HandOver).unwrap_err();
    log.facts.apply(&log.wal.facts_anew(bad, seq(6)));
    log.wal.reopen(seq(6));
    assert_eq!(log.durable(), 6);
    log.last = 6;
    for _ in 0..5 {
        log.append(1000, Push::Sync).unwrap();
    }
    let fs = log.fs.crash(|| false);
    let (numbers, reopened) = log.reopen(&fs, RecoveryMode::TolerateTail).unwrap();
    assert_eq!(numbers, [7, 8, 9, 10, 11]);
    assert_eq!(reopened.facts.quarantined, [bad]);
}

/// write-path D10: no space for the next segment. The current one completes; then appends are refused with nothing
/// half applied, and go on when there is space.
#[test]
fn d10_no_space_for_a_segment_is_not_sticky() {
    let mut log = Log::create(options(MIB));
    log.fs.fail("allocate", ".log", usize::MAX, ErrorKind::StorageFull);
    assert!(matches!(log.wal.prepare_next(), Err(Error::NoSpace { .. })));
    for number in 1..=16 {
        log.append_payload(&framed(number, 65_536), Push::HandOver).unwrap();
    }
    assert_eq!(log.durable(), 16);
    assert!(matches!(log.wal.reserve(1, 65_000), Err(Error::NoSpace { .. })));
    assert!(matches!(log.append(60_000, Push::Sync), Err(Error::NoSpace { .. })));
    log.last -= 1;
    assert!(log.wal.durability().failure().is_none());
    log.fs.heal();
    log.append(60_000, Push::Sync).unwrap();
    assert_eq!(log.durable(), 17);
    let (numbers, _) = read(&log.fs.crash(|| false), &log.facts, RecoveryMode::TolerateTail).unwrap();
    assert!(is_prefix(&numbers) && numbers.len() == 17);
    let left: Vec<_> = crate::env::FileSystem::list(&log.fs, Path::new(DIR)).unwrap();
    assert_eq!(left.len(), 2, "what could not be made is not left behind: {left:?}");
}

/// write-path D14: a `Sync` batch that the bound's sync covers takes no sync of its own; and a batch for the kernel
/// does not wait for a running sync.
#[test]
fn d14_a_sync_is_not_doubled_and_not_waited_for() {
    let mut log = Log::create(options(MIB));
    for number in 1..=16 {
        let push = if number == 16 { Push::Sync } else { Push::HandOver };
        log.append_payload(&framed(number, 65_536), push).unwrap();
    }
    assert_eq!((log.durable(), log.wal.stats().syncs), (16, 1));

    log.append(100, Push::HandOver).unwrap();
    log.fs.close_gate();
    let fs = log.fs.clone();
    let wal = &log.wal;
    std::thread::scope(|scope| {
        let ticker = scope.spawn(|| wal.sync_handed_over());
        fs.wait_at_gate(1);
        let payload = payload(18, 100);
        wal.append(std::iter::once(record(&payload, 18)), Push::HandOver).unwrap();
        assert_eq!(wal.durability().durable_sequence(), seq(16));
        fs.open_gate();
        ticker.join().unwrap().unwrap();
    });
    assert_eq!(log.durable(), 17, "appended during the sync: not covered by it");
    log.wal.sync_through(seq(18)).unwrap();
    assert_eq!(log.durable(), 18);
}

/// A sync that fails in another thread is seen by whoever syncs the same file next, however the two meet.
#[test]
fn a_failed_sync_is_never_covered_by_a_later_one() {
    let mut log = Log::create(options(MIB));
    log.append(100, Push::HandOver).unwrap();
    log.fs.fail("sync", ".log", 1, ErrorKind::Other);
    log.fs.close_gate();
    let (fs, wal) = (log.fs.clone(), &log.wal);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| wal.sync_handed_over());
        fs.wait_at_gate(1);
        let second = scope.spawn(|| {
            let payload = payload(2, 100);
            wal.append(std::iter::once(record(&payload, 2)), Push::Sync)
        });
        while wal.durability().watermarks().written.seq < seq(2) {
            std::thread::yield_now();
        }
        fs.open_gate();
        assert!(first.join().unwrap().is_err());
        assert!(second.join().unwrap().is_err());
    });
    assert_eq!(log.durable(), 0);
}

/// A lone small record is one write, and a group of them too; buffered ones are none until the buffer is full.
#[test]
fn a_hand_over_is_one_write() {
    let mut log = Log::create(options(16 * MIB));
    for number in 1..=10 {
        log.append(100, Push::HandOver).unwrap();
        assert_eq!(log.wal.stats().writes, number);
    }
    let payloads: Vec<_> = (11..=1010).map(|number| payload(number, 100)).collect();
    log.wal.append(payloads.iter().zip(11..).map(|(payload, n)| record(payload, n)), Push::HandOver).unwrap();
    assert_eq!(log.wal.stats().writes, 11);
    log.last = 1010;
    let mut buffered = 0;
    while log.wal.stats().writes == 11 {
        log.append(1000, Push::Buffer).unwrap();
        buffered += 1;
    }
    assert_eq!(buffered, (64 << 10) / 1016 + 1);
    assert_eq!(log.fs.calls("write", ".log"), 12);
}

/// write-path D12, without the engine: random sizes, pushes and syncs; a crash at any instant gives back a prefix that
/// holds at least the durable sequence.
#[test]
fn d12_the_durable_sequence_is_never_lost() {
    for seed in 0..40 {
        let mut rng = Rng(seed);
        let mut log = Log::create(WalOptions { buffer_bytes: rng.below(3000), ..options(4096) });
        for step in 0..120 {
            let most = [50, 500, 12_000][rng.below(3) as usize];
            let len = 12 + rng.below(most) as usize;
            let push = [Push::Buffer, Push::HandOver, Push::Sync][rng.below(3) as usize];
            log.append(len, push).unwrap();
            match rng.below(12) {
                0 => log.wal.flush(true).unwrap(),
                1 => log.wal.sync_handed_over().unwrap(),
                2 => log.wal.sync_through(seq(rng.below(log.last + 1))).unwrap(),
                3 => log.wal.prepare_next().unwrap(),
                4 => log.facts.synced = Some(log.wal.synced_position()),
                _ => {}
            }
            if step % 8 == 0 {
                let odds = [0, 1, 50, 99, 100][rng.below(5) as usize];
                let fs = log.fs.crash(|| rng.below(100) < odds);
                let found = log.reopen(&fs, RecoveryMode::TolerateTail);
                let (numbers, _) = found.unwrap_or_else(|error| panic!("seed {seed} step {step}: {error}"));
                assert!(is_prefix(&numbers), "seed {seed} step {step}: {numbers:?}");
                assert!(
                    numbers.len() as u64 >= log.durable(),
                    "seed {seed} step {step}: {} found",
                    numbers.len()
                );
            }
        }
    }
}
