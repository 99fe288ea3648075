//! The open database with everything that the threads share.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use sluicedb::{
    ColumnFamily, ColumnFamilyOptions, Db, DbOptions, DelayedWriteRate, Durability, Error, RateLimiter,
    State, WriteBufferManager, WriteController,
};

use super::Wrong;
use super::expected::Expected;
use super::flags::Flags;
use super::values::mix;
use crate::console::Console;

/// Locks over keys: a key is changed by one thread at a time.
const STRIPES: usize = 1024;

/// What was done.
#[derive(Debug, Default)]
pub struct Counters {
    /// All operations.
    pub ops: AtomicU64,
    /// Keys written.
    pub writes: AtomicU64,
    /// Bytes of their values.
    pub bytes: AtomicU64,
    /// Keys deleted.
    pub deletes: AtomicU64,
    /// Point reads.
    pub reads: AtomicU64,
    /// Iterations.
    pub iterations: AtomicU64,
    /// Writes refused because they would have had to wait, as asked for.
    pub refused: AtomicU64,
    /// Flushes, compactions, checkpoints, option changes, families cleared.
    pub chores: AtomicU64,
    /// Quiet points at which memory was counted.
    pub quiet_points: AtomicU64,
}

impl Counters {
    /// The lines at the end of a round.
    pub fn report(&self, seconds: f64) -> String {
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        let ops = get(&self.ops).max(1) as f64;
        let written = get(&self.bytes) as f64 / 1_048_576.0;
        format!(
            "Stress Test : {:.3} micros/op {:.0} ops/sec\n            : Wrote {written:.1} MB ({:.2} MB/sec) (of {} writes)\n\
             \x20           : Deleted {} times\n            : Read {} times, iterated {} times\n\
             \x20           : Got refused {} times, as asked for\n            : Flushed, compacted, checkpointed, changed options or cleared {} times\n\
             \x20           : Counted memory at {} quiet points\n",
            seconds * 1e6 / ops,
            ops / seconds.max(1e-9),
            written / seconds.max(1e-9),
            get(&self.writes),
            get(&self.deletes),
            get(&self.reads),
            get(&self.iterations),
            get(&self.refused),
            get(&self.chores),
            get(&self.quiet_points),
        )
    }
}

/// What the threads share.
#[derive(Debug)]
pub struct Stage<'a> {
    /// The flags.
    pub flags: &'a Flags,
    /// Where to speak.
    pub console: &'a Console,
    /// What keys must hold.
    pub expected: &'a Expected,
    /// The database.
    pub db: Db,
    /// This round's seed.
    pub seed: u64,
    /// What was done.
    pub counters: Counters,
    /// The threads are to end.
    pub ended: AtomicBool,
    families: Vec<RwLock<ColumnFamily>>,
    stripes: Vec<Mutex<()>>,
    world: RwLock<()>,
}

/// Whether there is a database to go on with.
pub fn exists(flags: &Flags) -> bool {
    Path::new(flags.text("db")).join("CURRENT").exists()
}

/// Removes database and oracle.
///
/// # Errors
///
/// They cannot be removed.
pub fn destroy(flags: &Flags) -> Result<(), Wrong> {
    let db = Path::new(flags.text("db"));
    if exists(flags) {
        Db::destroy(db, &DbOptions::default())
            .map_err(|error| format!("cannot destroy the database: {error}"))?;
    }
    Ok(())
}

/// The name of a family.
pub fn name(family: u64) -> String {
    if family == 0 { "default".to_owned() } else { format!("family_{family:03}") }
}

fn family_options(flags: &Flags, seed: u64) -> ColumnFamilyOptions {
    let draw = |salt: u64| mix(seed ^ salt << 40);
    let mut options = ColumnFamilyOptions::default();
    options.write_buffer_size = flags.number("write_buffer_size");
    options.target_file_size_base = flags.number("target_file_size_base");
    options.max_bytes_for_level_base = 4 * flags.number("target_file_size_base");
    options.max_write_buffer_number = 2 + (draw(1) % 4) as u32;
    options.level0_file_num_compaction_trigger = 2 + (draw(2) % 4) as u32;
    options.block_size = [256, 1024, 4096][draw(3) as usize % 3];
    options.bloom_bits_per_key = [0.0, 10.0][draw(4) as usize % 2];
    options
}

fn options(flags: &Flags, seed: u64) -> DbOptions {
    let mut options = DbOptions::default();
    options.column_family = family_options(flags, seed);
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    options.db_write_buffer_size = flags.number("db_write_buffer_size");
    options.allow_stall = flags.is("allow_wbm_stalls");
    options.initiate_flushes = flags.is("initiate_wbm_flushes");
    options.delay_start_percent = flags.number("start_delay_percent") as u32;
    options.delayed_write_rate = DelayedWriteRate::BytesPerSecond(flags.number("delayed_write_rate"));
    options.max_background_flushes = flags.number("max_background_flushes") as u32;
    options.max_background_compactions = flags.number("max_background_compactions") as u32;
    options.block_cache_size = flags.number("block_cache_size");
    if flags.number("rate_limiter_bytes_per_sec") > 0 {
        options.rate_limiter = Some(RateLimiter::new(flags.number("rate_limiter_bytes_per_sec")));
    }
    options.wal_segment_bytes = 1 << 20;
    options.commit_queue_bytes = 1 << 20;
    options.max_batch_bytes = 1 << 20;
    options
}

impl<'a> Stage<'a> {
    /// Opens the database, with all families; one that a kill left dropped is made again.
    ///
    /// # Errors
    ///
    /// It does not open.
    pub fn open(
        flags: &'a Flags,
        console: &'a Console,
        expected: &'a Expected,
        round: u64,
    ) -> Result<Self, Wrong> {
        let path = Path::new(flags.text("db"));
        let seed = mix(flags.number("seed") ^ mix(round));
        let options = options(flags, seed);
        remove_checkpoints(path);
        let names =
            (1..expected.families()).map(|family| (name(family), family_options(flags, seed ^ family)));
        let db = Db::open_cf(path, options, names)
            .map_err(|error| format!("cannot open {}: {error}", path.display()))?;
        let family = |family: u64| {
            let name = name(family);
            db.column_family(&name)
                .map(RwLock::new)
                .ok_or_else(|| format!("the database has no family '{name}'"))
        };
        let families = (0..expected.families()).map(family).collect::<Result<_, _>>()?;
        let stripes = (0..STRIPES).map(|_| Mutex::new(())).collect();
        Ok(Self {
            flags,
            console,
            expected,
            db,
            seed,
            counters: Counters::default(),
            ended: AtomicBool::new(false),
            families,
            stripes,
            world: RwLock::new(()),
        })
    }

    /// Takes part: no quiet point begins while this is held.
    pub fn enter(&self) -> RwLockReadGuard<'_, ()> {
        self.world.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a moment at which nothing is under way.
    pub fn quiet(&self) -> RwLockWriteGuard<'_, ()> {
        self.world.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A family that is not cleared meanwhile.
    pub fn family(&self, family: u64) -> RwLockReadGuard<'_, ColumnFamily> {
        self.families[family as usize].read().unwrap_or_else(PoisonError::into_inner)
    }

    /// A family that nobody else uses meanwhile.
    pub fn family_alone(&self, family: u64) -> RwLockWriteGuard<'_, ColumnFamily> {
        self.families[family as usize].write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A key that nobody else changes meanwhile, in any family.
    pub fn hold_key(&self, key: u64) -> MutexGuard<'_, ()> {
        let stripe = mix(key) as usize % STRIPES;
        self.stripes[stripe].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The options of a family that is made.
    pub fn new_family_options(&self, family: u64) -> ColumnFamilyOptions {
        family_options(self.flags, self.seed ^ family)
    }

    /// How writes are acknowledged.
    pub fn durability(&self) -> Durability {
        match (self.flags.is("disable_wal"), self.flags.is("sync")) {
            (true, _) => Durability::None,
            (false, true) => Durability::Sync,
            (false, false) => Durability::Os,
        }
    }

    /// Where thread `thread` makes its checkpoints.
    pub fn checkpoint_path(&self, thread: u64) -> PathBuf {
        let mut path = self.db.path().as_os_str().to_owned();
        path.push(format!(".checkpoint-{thread}"));
        path.into()
    }

    /// Closes, and checks that manager and controller have let go of everything.
    ///
    /// # Errors
    ///
    /// The close fails, or bytes or a requirement are left.
    pub fn close(self) -> Result<(), Wrong> {
        let (manager, controller): (Arc<WriteBufferManager>, Arc<WriteController>) =
            (Arc::clone(self.db.write_buffer_manager()), Arc::clone(self.db.write_controller()));
        let check = self.flags.is("zero_check");
        let closed = self.db.close();
        let Self { families, db, .. } = self;
        drop((families, db));
        closed.map_err(|error| format!("closing the database: {error}"))?;
        let usage = manager.usage_report();
        if check && (usage.used, usage.queued) != (0, 0) {
            return Err(format!("after close the manager still counts {usage:?}"));
        }
        let state = controller.stats().state;
        if check && state != State::Normal {
            return Err(format!(
                "after close the controller is still {state:?}: {:?}",
                controller.stats().sources
            ));
        }
        Ok(())
    }
}

fn remove_checkpoints(path: &Path) {
    let Some((parent, name)) = path.parent().zip(path.file_name()) else { return };
    let prefix = format!("{}.checkpoint-", name.to_string_lossy());
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            // Best effort: what is left is in the way of that thread's next checkpoint, which says so.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// What an error means: a refusal that was asked for, or a failure.
pub fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Stalled { .. } | Error::QueueFull { .. })
}

/// How long a thread waits before it looks again whether the others have ended.
pub const PAUSE: Duration = Duration::from_millis(50);
