//! `pressure A` and `pressure B`: what is counted, the rule for a flush, and the cost to the cache.

use super::*;
use crate::{CACHE_UNIT, MemtableCache, UsageReport};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// pressure A1, pressure A2, pressure A3, pressure A4, pressure A5, pressure A6, pressure A7, pressure A8, pressure A9, pressure A10, pressure A11, one after the other, in MiB. Charges are moved by memtables of fitting sizes.
#[test]
fn the_rule_through_a_life() {
    let rig = Rig::not_proactive(10 * MIB);
    let db = rig.database("db");
    let memtable = |mib: u64| {
        let charge = db.open_charge(&"cf".into());
        charge.grow(mib * MIB);
        charge
    };
    let state = || {
        let usage = rig.manager.usage_report();
        format!(
            "{} of {} {} {}",
            usage.mutable / MIB,
            usage.used / MIB,
            rig.manager.flush_wanted(),
            rig.code()
        )
    };
    let big = memtable(8);
    assert_eq!(state(), "8 of 8 false 33", "A1");
    let one = memtable(1);
    assert_eq!(state(), "9 of 9 true 66", "A2");
    one.seal();
    assert_eq!(state(), "8 of 9 false 66", "A3");
    let two = memtable(2);
    assert_eq!(state(), "10 of 11 true 100", "A4");
    // The 8 are cut into 4, 2 and 2 so that parts of them can be sealed.
    big.give_back(6 * MIB);
    let (four, next) = (memtable(4), memtable(2));
    four.seal();
    assert_eq!(state(), "6 of 11 true 100", "A5");
    next.seal();
    assert_eq!(state(), "4 of 11 false 100", "A6");
    let more = memtable(4);
    assert_eq!(state(), "8 of 15 true 100", "A7");
    for sealed in [one, four, next] {
        sealed.flush_started();
        sealed.flushed();
    }
    assert_eq!(state(), "8 of 8 false 33", "A8");
    rig.manager.set_quota_bytes(8 * MIB);
    assert_eq!(state(), "8 of 8 true 100", "A9");
    two.seal();
    assert_eq!(state(), "6 of 8 true 100", "A10");
    two.flush_started();
    two.flushed();
    assert_eq!(state(), "6 of 6 false 16", "A10");
    let last = memtable(1);
    assert_eq!(state(), "7 of 7 false 58", "A11");
    let late = memtable(1);
    assert_eq!(state(), "8 of 8 true 100", "A11");
    late.seal();
    late.flush_started();
    late.flushed();
    assert_eq!(state(), "7 of 7 false 58", "A11");
    drop((big, two, more, last, late));
    assert_eq!(rig.manager.usage_report(), UsageReport::default());
}

/// A cache of a number of units, all of them free at first.
#[derive(Debug)]
struct Units {
    capacity: AtomicU64,
    taken: AtomicU64,
}

impl MemtableCache for Units {
    fn reserve(&self, units: u64) -> u64 {
        let room = self.capacity.load(Ordering::SeqCst).saturating_sub(self.taken.load(Ordering::SeqCst));
        let granted = units.min(room);
        self.taken.fetch_add(granted, Ordering::SeqCst);
        granted
    }

    fn release(&self, units: u64) {
        self.taken.fetch_sub(units, Ordering::SeqCst);
    }
}

/// One memtable whose charge is moved to given numbers of KiB.
struct Cached {
    rig: Rig,
    db: Database,
    cache: Arc<Units>,
    charge: Charge,
}

impl Cached {
    fn new(quota: u64, capacity_mib: u64) -> Self {
        let rig = Rig::not_proactive(quota);
        let db = rig.database("db");
        let units = capacity_mib * MIB / CACHE_UNIT;
        let cache = Arc::new(Units { capacity: AtomicU64::new(units), taken: AtomicU64::new(0) });
        rig.manager.set_cost_to_cache(Some(Arc::clone(&cache) as Arc<dyn MemtableCache>));
        let charge = db.open_charge(&"cf".into());
        Self { rig, db, cache, charge }
    }

    fn grow(&self, kib: u64) -> u64 {
        self.charge.grow(kib * KIB);
        self.units()
    }

    fn free(&self, kib: u64) -> u64 {
        self.charge.give_back(kib * KIB);
        self.units()
    }

    fn units(&self) -> u64 {
        let taken = self.cache.taken.load(Ordering::SeqCst);
        assert_eq!(self.rig.manager.stats().cache_reserved, taken * CACHE_UNIT);
        taken
    }
}

/// pressure B1, pressure B2, pressure B3, pressure B4, pressure B5.
#[test]
fn cost_to_cache_follows_in_units() {
    let cached = Cached::new(50 * MIB, 1_024);
    assert_eq!((cached.grow(333), cached.grow(512), cached.grow(10 * 1_024)), (2, 4, 44), "B1");
    assert_eq!((cached.free(1_024), cached.rig.manager.flush_wanted()), (44, false), "B2");
    assert_eq!((cached.grow(41 * 1_024), cached.rig.manager.flush_wanted()), (204, true), "B2");
    // B3: 20 MiB of it are another memtable, sealed, flushed, read for a while.
    cached.charge.give_back(20 * MIB);
    let other = cached.db.open_charge(&"cf".into());
    other.grow(20 * MIB);
    other.seal();
    assert_eq!((cached.units(), cached.rig.manager.flush_wanted()), (204, true), "B3");
    other.flush_started();
    other.flushed();
    assert_eq!((cached.units(), cached.rig.used()), (204, 31_565 * KIB), "B3, pinned");
    assert_eq!((cached.grow(512), cached.free(512)), (206, 206), "pinned bytes take room beside new ones");
    drop(other);
    assert_eq!((cached.units(), cached.rig.manager.flush_wanted()), (124, false), "B3");
    assert_eq!([16, 20 * 1_024, 1_024].map(|kib| cached.free(kib)), [124, 44, 44], "B4");
    assert_eq!(cached.grow(512), 44, "B4");
    let Cached { rig, db, cache, charge } = cached;
    drop((charge, db, rig));
    assert_eq!(cache.taken.load(Ordering::SeqCst), 0, "B5");
}

/// `pressure B6`, `pressure B9`: without a quota, too.
#[test]
fn cost_to_cache_works_without_a_quota() {
    let cached = Cached::new(0, 1_024);
    assert_eq!(cached.grow(1), 1, "B9");
    cached.free(1);
    assert_eq!((cached.grow(10 * 1_024), cached.rig.manager.flush_wanted()), (40, false));
    assert_eq!(cached.free(9 * 1_024), 4);
    for _ in 0..40 {
        cached.free(4);
    }
    assert_eq!((cached.rig.used(), cached.units()), (864 * KIB, 4));
}

/// `pressure B7`, `pressure B8`: a cache that refuses; the charge goes ahead, the shortfall is reported.
#[test]
fn a_full_cache_is_asked_again() {
    let cached = Cached::new(0, 12);
    assert_eq!((cached.grow(10 * 1_024), cached.grow(10 * 1_024)), (40, 48), "B7");
    assert_eq!(cached.rig.manager.stats().cache_shortfall, 8 * MIB, "B7");
    assert_eq!((cached.free(15 * 1_024), cached.grow(15 * 1_024)), (20, 48), "B8");
    cached.cache.capacity.store(40 * MIB / CACHE_UNIT, Ordering::SeqCst);
    assert_eq!(cached.grow(10 * 1_024), 120, "B8");
    for _ in 0..40 {
        cached.free(512);
    }
    assert_eq!(cached.units(), 46, "B8");
    cached.rig.manager.set_cost_to_cache(None);
    assert_eq!(cached.cache.taken.load(Ordering::SeqCst), 0);
}

/// `pressure M9`, the counters: they count whatever the quota is.
#[test]
fn counting_never_stops() {
    let rig = Rig::new(0);
    let db = rig.database("db");
    let charge = db.open_charge(&"cf".into());
    charge.grow(500);
    rig.manager.set_quota_bytes(1_000);
    assert_eq!((rig.used(), rig.code()), (500, 0));
    charge.grow(300);
    assert_eq!(rig.code(), 33);
    rig.manager.set_quota_bytes(0);
    assert_eq!(rig.code(), 0);
    rig.manager.set_quota_bytes(1_000);
    assert_eq!(rig.code(), 33);
    drop(charge);
    assert_eq!((rig.code(), rig.manager.usage_report()), (0, UsageReport::default()));
}

/// `pressure M11`, `pressure V4`: bytes per database, and what a dropped family or a closed database gives back.
#[test]
fn databases_are_counted_apart() {
    let rig = Rig::new(10_000);
    let (db1, db2) = (rig.database("db1"), rig.database("db2"));
    let open = |db: &Database, bytes| {
        let charge = db.open_charge(&"cf".into());
        charge.grow(bytes);
        charge
    };
    let (mutable, flushing, other) = (open(&db1, 400), open(&db1, 300), open(&db2, 350));
    flushing.flush_started();
    let stats = rig.manager.stats();
    let by_name: Vec<_> = stats.databases.iter().map(|db| (db.name.to_string(), db.usage.used)).collect();
    assert_eq!(by_name, [("db1".into(), 700), ("db2".into(), 350)]);
    // Dropping the family: a reader holds one memtable.
    mutable.flushed();
    drop(flushing);
    assert_eq!((db1.usage().used, db1.usage().pinned, rig.used()), (0, 400, 350));
    drop(mutable);
    assert_eq!((db1.usage(), db2.usage().used), (UsageReport::default(), 350));

    let many: Vec<_> = (0..64).map(|_| open(&db1, 10)).collect();
    assert_eq!(db1.usage().used, 640);
    drop((many, db1));
    assert_eq!((rig.manager.stats().databases.len(), rig.used(), other.bytes()), (1, 350, 350));
}

/// `pressure V8`: holders are named, with kind and age; largest first.
#[test]
fn holders_are_named() {
    let rig = Rig::new(10_000);
    let db = rig.database("db1");
    let open = |bytes| {
        let charge = db.open_charge(&"cf".into());
        charge.grow(bytes);
        charge
    };
    let second = std::time::Duration::from_secs(1);
    rig.clock.advance(10 * second);
    let (read, history, mutable) = (open(800), open(500), open(100));
    rig.clock.advance(10 * second);
    read.flushed();
    history.pinned_by(crate::PinKind::History);
    rig.clock.advance(60 * second);
    let text: Vec<_> = rig
        .manager
        .holders()
        .iter()
        .map(|holder| {
            let kind = holder.pinned_by.map_or("-", crate::PinKind::name);
            let (state, age) = (holder.state.name(), holder.age.as_secs());
            format!("{}/{} {} {state} {kind} {age}", holder.database, holder.family, holder.bytes)
        })
        .collect();
    assert_eq!(
        text,
        ["db1/cf 800 pinned reader 60", "db1/cf 500 pinned history 60", "db1/cf 100 mutable - 70"]
    );
    drop((read, history, mutable));
}
