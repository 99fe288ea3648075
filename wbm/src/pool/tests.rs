//! The pool: admission, overdraft, FIFO, live capacity. Threads wait on a manual clock.

use std::time::Duration;

use sluicedb_controller::ManualClock;

use super::*;

fn pool(capacity: u64) -> (MemoryPool, ManualClock) {
    let clock = ManualClock::new(0);
    (MemoryPool::new(capacity, Arc::new(clock.clone())), clock)
}

/// `write-path Q1`, both sets of numbers: forced bytes, and who passes when they return.
#[test]
fn returning_below_the_capacity_lets_waiters_pass() {
    for (capacity, reserved, refused, forced, more) in [(1_000, 900, 200, 200, 500), (100, 90, 20, 20, 50)] {
        let (pool, _) = pool(capacity);
        let _held = pool.try_reserve(reserved).unwrap();
        assert!(pool.try_reserve(refused).is_none());
        let first = pool.force_reserve(forced);
        let over = reserved + forced - capacity;
        assert_eq!((pool.used(), pool.available(), pool.overdraft()), (reserved + forced, 0, over));
        assert!(pool.try_reserve(1).is_none());
        let second = pool.force_reserve(more);
        assert_eq!((pool.used(), pool.overdraft()), (reserved + forced + more, over + more));
        let mut plain = pool.join(Want::Room);
        let mut exact = pool.join(Want::Reservation(capacity - reserved));
        drop(second);
        assert!(plain.try_now().is_none() && exact.try_now().is_none());
        drop(first);
        assert!(plain.try_now().unwrap().is_ok());
        assert_eq!(exact.try_now().unwrap().unwrap().bytes(), capacity - reserved);
        assert_eq!((pool.used(), pool.available()), (reserved, capacity - reserved));
    }
}

/// `write-path Q2`, `Q3`, the pool's part: one byte of room admits any unit, and only one is overdrawn.
#[test]
fn at_most_one_unit_is_overdrawn() {
    let (pool, _) = self::pool(4_096);
    let mut held: Vec<MemoryLease> = (0..4).map(|_| pool.try_admit(1_000).unwrap()).collect();
    held.push(pool.try_admit(10_000).unwrap());
    assert_eq!((pool.used(), pool.overdraft()), (14_000, 9_904));
    assert!(pool.try_admit(1).is_none());
    held.clear();
    assert_eq!(pool.used(), 0);

    for fixed in [true, false] {
        let (pool, _) = self::pool(8_192);
        let leases = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for seed in 1..=16_u64 {
                let (pool, leases) = (&pool, &leases);
                scope.spawn(move || {
                    let mut state = seed;
                    for _ in 0..200 {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let bytes = if fixed { 512 } else { 1 + (state >> 33) % 4_096 };
                        leases.lock().extend(pool.try_admit(bytes));
                    }
                });
            }
        });
        let peak = pool.stats().peak;
        if fixed {
            assert_eq!((leases.lock().len(), peak), (16, 8_192));
        }
        assert!(peak <= 8_191 + 4_096, "{peak}");
        leases.lock().clear();
        assert_eq!(pool.used(), 0);
    }
}

/// `write-path Q9`: shrinking keeps leases, growing lets all who fit pass.
#[test]
fn capacity_is_live() {
    let (pool, _) = pool(64 << 10);
    let mut leases: Vec<MemoryLease> = (0..10).map(|_| pool.try_admit(4 << 10).unwrap()).collect();
    pool.set_capacity(8 << 10);
    assert_eq!((pool.used(), pool.overdraft(), leases[0].bytes()), (40 << 10, 32 << 10, 4 << 10));
    while pool.used() >= 8 << 10 {
        assert!(pool.try_admit(1).is_none());
        leases.pop();
    }
    assert_eq!(pool.used(), 4 << 10);
    leases.push(pool.try_admit(100 << 10).unwrap());
    let mut waiters: Vec<PoolTurn> = (0..5).map(|_| pool.join(Want::Admission(1_000))).collect();
    assert!(waiters.iter_mut().all(|waiter| waiter.try_now().is_none()));
    pool.set_capacity(128 << 10);
    assert!(waiters.iter_mut().all(|waiter| waiter.try_now().is_some_and(|outcome| outcome.is_ok())));
}

/// `write-path Q10`: a blocked large unit is not overtaken by a later small one.
#[test]
fn nobody_overtakes() {
    for _ in 0..100 {
        let (pool, _) = pool(8 << 10);
        let mut full = pool.try_reserve(8 << 10).unwrap();
        let mut large = pool.join(Want::Reservation(5 << 10));
        assert!(pool.try_reserve(100).is_none() && pool.try_admit(100).is_none());
        let mut small = pool.join(Want::Reservation(100));
        full.shrink_to(4 << 10);
        assert!(large.try_now().is_none() && small.try_now().is_none(), "room for the small one only");
        full.shrink_to(1 << 10);
        assert!(large.try_now().is_some() && small.try_now().is_some());
    }
}

/// Threads wait through the clock; a deadline keeps the place, dropping the turn gives it up.
#[test]
fn threads_wait_in_turn() {
    let (pool, clock) = pool(10);
    let full = pool.try_admit(10).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| pool.admit(5, None).map(|lease| lease.bytes()));
        clock.wait_until_waiting(1);
        let gives_up = scope.spawn(|| pool.admit(5, Some(1_000)).map(|lease| lease.bytes()));
        clock.wait_until_waiting(2);
        clock.advance(Duration::from_micros(1));
        assert_eq!(gives_up.join().unwrap(), Err(PoolWaitEnded::TimedOut));
        assert_eq!(pool.stats().waiting, 1);
        drop(full);
        assert_eq!(waits.join().unwrap(), Ok(5));
    });
    assert_eq!((pool.used(), pool.stats().waiting), (0, 0));
    assert!(pool.try_admit(1).is_some(), "the bit is gone with the last waiter");
}

/// `write-path Q11`, in small: capacity for one unit, many writers, no wake-up lost.
#[test]
fn no_wake_up_is_lost() {
    let (pool, _) = pool(1);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..2_000).for_each(|_| drop(pool.admit(1, None).unwrap())));
        }
    });
    assert_eq!((pool.used(), pool.stats().peak), (0, 1));
}

/// Too large a reservation is an error at once, an empty one never waits, and a closed pool ends all waits.
#[test]
fn refusals() {
    let (pool, _) = pool(10);
    assert_eq!(pool.reserve(11, None).unwrap_err(), TooLarge { bytes: 11, capacity: 10 }.into());
    let full = pool.try_admit(10).unwrap();
    let mut turn = pool.join(Want::Admission(1));
    assert_eq!(pool.try_reserve(0).unwrap().bytes(), 0);
    pool.close();
    assert_eq!(turn.try_now().unwrap().unwrap_err(), PoolWaitEnded::Closed);
    drop(full);
    assert!(pool.try_admit(1).is_none());
    assert_eq!(pool.admit(1, None).unwrap_err(), PoolWaitEnded::Closed);
    pool.reopen();
    assert!(pool.try_admit(1).is_some());
}

/// Leases split, merge, are taken, shrink and grow; the pool always knows the sum.
#[test]
fn leases_are_divisible() {
    let (pool, clock) = pool(100);
    let mut lease = pool.try_reserve(60).unwrap();
    let mut part = lease.split(20).unwrap();
    assert!(lease.split(41).is_none());
    assert_eq!((lease.bytes(), part.bytes(), pool.used()), (40, 20, 60));
    let stranger = MemoryPool::new(5, Arc::new(clock)).try_reserve(5).unwrap();
    assert_eq!(lease.merge(stranger).unwrap_err().bytes(), 5);
    let taken = part.take();
    lease.merge(taken).unwrap();
    assert_eq!((lease.bytes(), part.bytes()), (60, 0));
    assert!(lease.try_grow(41).is_err());
    lease.try_grow(40).unwrap();
    lease.force_grow(50);
    assert_eq!((pool.used(), pool.overdraft()), (150, 50));
    lease.shrink_to(7);
    lease.shrink_to(9);
    assert_eq!(pool.used(), 7);
    drop((lease, part));
    assert_eq!(pool.used(), 0);
}

/// An unlimited pool tracks nothing.
#[test]
fn an_unlimited_pool_reads_zero() {
    let pool = MemoryPool::unlimited(Arc::new(ManualClock::new(0)));
    let _lease = pool.try_admit(u64::MAX).unwrap();
    let _forced = pool.force_reserve(u64::MAX);
    assert_eq!((pool.used(), pool.capacity(), pool.available(), pool.overdraft()), (0, 0, u64::MAX, 0));
}
