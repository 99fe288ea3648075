//! A thread of the stress: operations by percentages, each checked where it can be.
//!
//! Owns the mix. Reads and iterations are [`super::looks`]'s, chores on the database [`super::changes`]'s.

use std::sync::atomic::Ordering::Relaxed;

use rand_mt::Mt64;
use sluicedb::{Durability, Snapshot, WriteBatch, WriteOptions};

use super::stage::{Stage, is_refusal};
use super::values::{self, mix};
use super::watch::Watch;
use super::{Wrong, changes, looks};

/// One thread.
#[derive(Debug)]
pub struct Worker<'s, 'a> {
    pub(super) stage: &'s Stage<'a>,
    pub(super) thread: u64,
    pub(super) rng: Mt64,
    pub(super) held: Vec<Held>,
    /// The generation of the last burst of this round.
    pub(super) bursts: Option<u64>,
}

/// A snapshot with what was read in it.
#[derive(Debug)]
pub struct Held {
    pub(super) snapshot: Snapshot,
    pub(super) family: u64,
    pub(super) handle: sluicedb::ColumnFamily,
    pub(super) seen: Vec<(u64, Option<Vec<u8>>)>,
    pub(super) until: u64,
}

/// Lets all threads do `ops` operations each, watched.
///
/// # Errors
///
/// The first thing that a thread found wrong.
pub fn work(stage: &Stage<'_>, ops: u64) -> Result<(), Wrong> {
    let outcomes: Vec<Result<(), Wrong>> = std::thread::scope(|scope| {
        let watch = Watch::start(scope, stage);
        let spawn = |thread| {
            let run = move || {
                let outcome = Worker::new(stage, thread).work(ops);
                if outcome.is_err() {
                    stage.ended.store(true, Relaxed);
                }
                outcome
            };
            scope.spawn(run)
        };
        let threads: Vec<_> = (0..stage.flags.number("threads")).map(spawn).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned()))
        };
        let mut outcomes: Vec<_> = threads.into_iter().map(join).collect();
        stage.ended.store(true, Relaxed);
        outcomes.push(watch.join());
        outcomes
    });
    outcomes.into_iter().collect()
}

impl<'s, 'a> Worker<'s, 'a> {
    pub(super) fn new(stage: &'s Stage<'a>, thread: u64) -> Self {
        Self {
            stage,
            thread,
            rng: Mt64::new(mix(stage.seed ^ (thread + 1) << 32)),
            held: Vec::new(),
            bursts: None,
        }
    }

    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.rng.next_u64() % bound.max(1)
    }

    fn one_in(&mut self, flag: &str) -> bool {
        let chance = self.stage.flags.number(flag);
        chance > 0 && self.below(chance) == 0
    }

    /// A family and a key: half of the keys come from a tenth of the key space.
    pub(super) fn place(&mut self) -> (u64, u64) {
        let (families, max_key) = (self.stage.expected.families(), self.stage.expected.max_key());
        let span = if self.below(2) == 0 { (max_key / 10).max(1) } else { max_key };
        (self.below(families), self.below(span))
    }

    fn work(mut self, ops: u64) -> Result<(), Wrong> {
        let yield_share = self.stage.flags.share("yield_share");
        for op in 0..ops {
            if self.stage.ended.load(Relaxed) {
                return Ok(());
            }
            if yield_share > 0.0 && (self.below(1 << 20) as f64) < yield_share * f64::from(1 << 20) {
                std::thread::yield_now();
            }
            let stage = self.stage;
            let _taking_part = stage.enter();
            self.chores(op)?;
            self.operation()?;
            stage.counters.ops.fetch_add(1, Relaxed);
        }
        while let Some(held) = self.held.pop() {
            looks::again(&self, held)?;
        }
        Ok(())
    }

    fn chores(&mut self, op: u64) -> Result<(), Wrong> {
        if let Some(at) = self.held.iter().position(|held| held.until <= op) {
            let held = self.held.swap_remove(at);
            looks::again(self, held)?;
        }
        if self.one_in("acquire_snapshot_one_in") {
            let held = looks::snapshot(self, op)?;
            self.held.push(held);
        }
        type Chore = fn(&mut Worker<'_, '_>) -> Result<(), Wrong>;
        let all: [(&str, Chore); 6] = [
            ("burst_one_in", changes::burst),
            ("flush_one_in", changes::flush),
            ("compact_range_one_in", changes::compact),
            ("set_options_one_in", changes::set_options),
            ("checkpoint_one_in", changes::checkpoint),
            ("clear_column_family_one_in", changes::clear_family),
        ];
        for (flag, chore) in all {
            if self.one_in(flag) {
                chore(self)?;
                self.stage.counters.chores.fetch_add(1, Relaxed);
            }
        }
        Ok(())
    }

    fn operation(&mut self) -> Result<(), Wrong> {
        let flags = self.stage.flags;
        let mut drawn = self.below(100);
        let mut is = |name: &str| {
            let share = flags.number(name);
            let hit = drawn < share;
            drawn = drawn.wrapping_sub(share);
            hit
        };
        if is("writepercent") {
            return if self.below(100) < flags.number("multi_cf_percent") {
                self.write_jointly()
            } else {
                self.put()
            };
        }
        if is("delpercent") {
            return self.delete();
        }
        let (family, key) = self.place();
        if is("readpercent") {
            return looks::get(self, family, key);
        }
        let count = 1 + self.below(100);
        let (from, count) = if is("prefixpercent") { (key / 128 * 128, 128) } else { (key, count) };
        looks::iterate(self, family, from, count)
    }

    /// How this write goes: mostly as the flags say, now and then in another way that is at least as strong.
    fn write_options(&mut self) -> WriteOptions {
        let mut durability = self.stage.durability();
        if durability == Durability::Os && self.below(256) == 0 {
            durability = Durability::Sync;
        }
        let mut options = WriteOptions::durability(durability);
        options.no_slowdown = self.below(32) == 0;
        options.low_pri = self.below(32) == 0;
        options
    }

    /// Writes a batch in one of the ways that there are. True if it was written, false if it was refused as asked for.
    pub(super) fn commit(&mut self, batch: WriteBatch) -> Result<bool, Wrong> {
        let options = self.write_options();
        let db = &self.stage.db;
        let way = self.below(8);
        let outcome = match way {
            0 => db.write_async_opt(batch, &options).wait().map(|_| ()).map_err(|refused| refused.into()),
            1 => db.try_write_opt(batch, &options).map_err(|refused| refused.into()),
            _ => db.write_opt(batch, &options),
        };
        match outcome {
            Ok(()) => Ok(true),
            // try_write never waits either.
            Err(error) if (options.no_slowdown || way == 1) && is_refusal(&error) => {
                self.stage.counters.refused.fetch_add(1, Relaxed);
                Ok(false)
            }
            Err(error) => Err(format!("a write failed: {error}")),
        }
    }

    fn value(&self, family: u64, key: u64, base: u16) -> Vec<u8> {
        let value = values::value(family, key, base, self.stage.flags.number("value_size_mult"));
        self.stage.counters.bytes.fetch_add(value.len() as u64, Relaxed);
        value
    }

    fn put(&mut self) -> Result<(), Wrong> {
        let (family, key) = self.place();
        let stage = self.stage;
        let handle = stage.family(family);
        let _key = stage.hold_key(key);
        let before = stage.expected.get(family, key);
        let pending = before.writing();
        let mut batch = WriteBatch::new();
        batch.put_cf(&handle, values::key(key), self.value(family, key, before.next_base()));
        stage.expected.set(family, key, pending)?;
        let written = self.commit(batch)?;
        stage.counters.writes.fetch_add(1, Relaxed);
        stage.expected.set(family, key, if written { pending.after() } else { before })
    }

    fn delete(&mut self) -> Result<(), Wrong> {
        let (family, key) = self.place();
        let stage = self.stage;
        let handle = stage.family(family);
        let _key = stage.hold_key(key);
        let before = stage.expected.get(family, key);
        let pending = before.deleting();
        let mut batch = WriteBatch::new();
        batch.delete_cf(&handle, values::key(key));
        stage.expected.set(family, key, pending)?;
        let written = self.commit(batch)?;
        stage.counters.deletes.fetch_add(1, Relaxed);
        stage.expected.set(family, key, if written { pending.after() } else { before })
    }

    /// One batch that writes a key in every family: all of it or nothing must be found.
    fn write_jointly(&mut self) -> Result<(), Wrong> {
        let (_, key) = self.place();
        let stage = self.stage;
        let all = 0..stage.expected.families();
        let handles: Vec<_> = all.clone().map(|family| stage.family(family)).collect();
        let _key = stage.hold_key(key);
        let mut batch = WriteBatch::new();
        for (family, handle) in all.clone().zip(&handles) {
            let base = stage.expected.get(family, key).next_base();
            batch.put_cf(handle, values::key(key), self.value(family, key, base));
        }
        for family in all.clone() {
            stage.expected.set(family, key, stage.expected.get(family, key).writing_jointly())?;
        }
        let written = self.commit(batch)?;
        for family in all.clone() {
            let cell = stage.expected.get(family, key);
            stage.expected.set(family, key, if written { cell.after() } else { cell.before() })?;
        }
        stage.counters.writes.fetch_add(all.end, Relaxed);
        Ok(())
    }
}
