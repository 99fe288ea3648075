//! Opening, in order; listing and destroying a closed database.
//!
//!  1. Check options and names. Nothing has been touched so far.
//!  2. Look for CURRENT; refuse a directory that is none of ours, or that the options do not want.
//!  3. Take LOCK.
//!  4. Read CURRENT and the manifest: which families, which files, where the log starts.
//!  5. Check that every SST that is named is there, whole.
//!  6. Replay the log into memtables ([`super::recover`]).
//!  7. Begin a fresh log segment, and write a new manifest that says everything, the end of the replayed log included:
//!     until CURRENT names it, a crash leaves the database as it was.
//!  8. Remove what is not named any more.
//!  9. Write OPTIONS; start the threads.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::Shared;
use super::appender::Appender;
use super::column_families::{Families, check_name};
use super::governing::Governing;
use super::history::History;
use super::live_options::LiveOptions;
use super::multi_get::ReadThreads;
use super::pools::{OneAtATime, Pools};
use super::pressure::Pressure;
use super::recover::{Recovered, Recovery};
use super::state::State;
use super::write::{Commit, Writer};
use crate::batch::DEFAULT_FAMILY;
use crate::cache::{BlockCache, TableCache};
use crate::column_family::{ColumnFamily, FamilyData, FlushStage};
use crate::commit::{GroupLimits, QueueGroupLimits};
use crate::env::{FileLock, FileSystem, TrackedFileSystem};
use crate::error::{Corruption, Error, Result};
use crate::event::Events;
use crate::filename::{CURRENT, FileKind, LOCK, parse, sst_path};
use crate::info_log::InfoLog;
use crate::jobs::{Bell, Failure, Slots, Workers};
use crate::manifest::{self, FamilyEdit, PositionOptions, RecoveredManifest, VersionEdit};
use crate::obsolete::{ObsoleteFiles, ReaderGone};
use crate::options::{ColumnFamilyOptions, DbOptions, RecoveryMode};
use crate::rate_limiter::IoPriority;
use crate::snapshot::SnapshotList;
use crate::stats::{Last, Statistics};
use crate::sync::{Mutex, Rank};
use crate::version::set::{FamilyState, FileNumbers, ManifestState, VersionSet};
use crate::version::super_version::SuperVersion;
use crate::version::{FileNumber, MAX_LEVELS, Version};
use crate::wal::{NextFileNumber, SyncTicker, Wal, WalOptions};

/// Name of the family that is always there.
pub(super) const DEFAULT_NAME: &str = "default";
/// Obsolete log segments that are kept to be written again.
const SPARE_SEGMENTS: usize = 4;

static NEXT_IDENTITY: AtomicU64 = AtomicU64::new(1);

/// Opens the database in `dir`, with options of their own for the named families.
pub(super) fn open(
    dir: &Path,
    options: DbOptions,
    named: Vec<(String, ColumnFamilyOptions)>,
) -> Result<Arc<Shared>> {
    // 1. Options and names.
    check_options(&options, &named)?;
    let tracked_fs = Arc::new(TrackedFileSystem::new(Arc::clone(&options.file_system)));
    let fs: Arc<dyn FileSystem> = Arc::clone(&tracked_fs) as _;

    // 2. and 3. What is there, and the lock.
    let is_new = !look_for_database(&*fs, dir, &options)?;
    if is_new {
        fs.create_dir_all(dir).map_err(|error| Error::io("create", dir, error))?;
    }
    let lock = take_lock(&*fs, dir)?;
    let is_new = is_new && !look_for_database(&*fs, dir, &options)?; // as it is now that nobody else changes it
    let info_log = Arc::new(InfoLog::create(&*fs, dir, Arc::clone(&options.clock)));
    info_log.info(&format!("SluiceDB version: {}", env!("CARGO_PKG_VERSION")));
    info_log.info(&format!("Git sha {}", option_env!("SLUICEDB_GIT_SHA").unwrap_or("unknown")));

    // 4. The manifest.
    let (mut state, torn) = if is_new { (new_state(&*fs), 0) } else { read_manifest(&*fs, dir)? };
    if torn > 0 {
        info_log.info(&format!("dropped {torn} bytes of an unacknowledged edit at the end of the manifest"));
    }
    let numbers = Arc::new(FileNumbers::starting_at(state.next_file));
    let names = fs.list(dir).map_err(|error| Error::io("list", dir, error))?;
    pass_used_numbers(&numbers, &names);
    let family_options = choose_options(&mut state, &options, &named)?;

    // 5. The tables.
    check_tables(&*fs, dir, &state)?;

    // 6. The log.
    let purge_bell = Bell::new(&options.clock);
    let events = Events::new(options.listeners.clone(), &options.clock, &info_log);
    let pressure = Pressure::attach(&options, dir, &info_log, &events, &purge_bell)?;
    let next_memtable = AtomicU64::new(1);
    let new_memtable = |family: &Arc<str>, options_of_it: &ColumnFamilyOptions| {
        let id = next_memtable.fetch_add(1, Ordering::Relaxed); // only has to be unique and to grow
        pressure.new_memtable(family, options_of_it, id, options.clock.now_nanos())
    };
    let recovery = Recovery {
        fs: &*fs,
        dir,
        clock: &*options.clock,
        options: &options,
        pressure: &pressure,
        numbers: &numbers,
        read_only: false,
        new_memtable: &new_memtable,
    };
    let recovered = recovery.run(&state, &family_options)?;
    info_log.info(&format!(
        "replayed {} batches of the log, dropped {} bytes behind its end; last sequence {}",
        recovered.end.records, recovered.end.bytes_dropped, recovered.last_sequence
    ));

    // 7. A fresh segment, a new manifest.
    let wal = Arc::new(open_wal(&fs, dir, &options, &state, &numbers, &recovered)?);
    take_over(dir, &mut state, &recovered, wal.current_segment())?;
    let pools = Pools::new(&options).map_err(|error| Error::io("start a thread for", dir, error))?;
    let versions = create_manifest(&fs, dir, &options, state.clone(), &numbers, &wal, &pools)?;
    wal.release_below(state.wal.first_needed);

    // 8. What is not named any more.
    remove_unnamed(&*fs, dir, &names, &state, &recovered.end.dead, versions.manifest_number(), &info_log);

    // 9. Everything together, OPTIONS, and the threads.
    let (block_cache, tables) = open_caches(&fs, dir, &options);
    let shared = assemble(Parts {
        dir,
        next_memtable: next_memtable.load(Ordering::Relaxed),
        options,
        fs,
        tracked_fs,
        lock: Some(lock),
        info_log,
        events,
        pressure,
        purge_bell,
        wal,
        pools,
        versions,
        block_cache,
        tables,
        state,
        family_options,
        recovered,
        read_only: false,
    })?;
    for family in shared.families.all() {
        shared.pressure.register_family(&family.data);
        shared.update_sources(&family.data);
    }
    shared.write_options_file();
    shared.start_threads().inspect_err(|_| {
        let _ = shared.close(); // ends those that did start
    })?;
    // A writer that waits makes sure by itself that a flush comes; a full memtable left by recovery starts one now.
    for family in shared.families.all() {
        if family.data.pin().mutable.bytes() >= family.data.write_buffer_size() {
            family.data.want_flush(FlushStage::SealWanted);
        }
    }
    shared.purge_bell.ring();
    Ok(shared)
}

/// What an open database is put together of.
pub(super) struct Parts<'a> {
    pub(super) dir: &'a Path,
    pub(super) options: DbOptions,
    pub(super) fs: Arc<dyn FileSystem>,
    pub(super) tracked_fs: Arc<TrackedFileSystem>,
    pub(super) lock: Option<Box<dyn FileLock>>,
    pub(super) info_log: Arc<InfoLog>,
    pub(super) events: Arc<Events>,
    pub(super) pressure: Pressure,
    pub(super) purge_bell: Arc<Bell>,
    pub(super) wal: Arc<Wal>,
    pub(super) pools: Pools,
    pub(super) versions: VersionSet,
    pub(super) block_cache: Option<Arc<BlockCache>>,
    pub(super) tables: TableCache,
    pub(super) state: ManifestState,
    pub(super) family_options: BTreeMap<u32, ColumnFamilyOptions>,
    pub(super) recovered: Recovered,
    pub(super) next_memtable: u64,
    pub(super) read_only: bool,
}

/// The block cache, if there is one, and the cache of open tables.
pub(super) fn open_caches(
    fs: &Arc<dyn FileSystem>,
    dir: &Path,
    options: &DbOptions,
) -> (Option<Arc<BlockCache>>, TableCache) {
    let block_cache = options
        .block_cache
        .clone()
        .or_else(|| (options.block_cache_size > 0).then(|| BlockCache::new(options.block_cache_size)));
    let tables = TableCache::new(
        Arc::clone(fs),
        dir.to_owned(),
        options.max_open_files as usize,
        options.read_mode,
        block_cache.clone(),
    );
    (block_cache, tables)
}

/// The database, without threads and unknown to those who slow writers.
pub(super) fn assemble(parts: Parts<'_>) -> Result<Arc<Shared>> {
    let Parts { dir, options, fs, tracked_fs, lock, info_log, events, pressure, purge_bell, .. } = parts;
    let Parts { wal, versions, block_cache, tables, state, family_options, mut recovered, .. } = parts;
    let Parts { pools, next_memtable, read_only, .. } = parts;
    let obsolete = ObsoleteFiles::new(Arc::clone(&purge_bell));
    let flush_bell = Bell::new(&options.clock);
    let identity = NEXT_IDENTITY.fetch_add(1, Ordering::Relaxed); // only has to be unique
    let mut writer = Writer::new(recovered.last_sequence.after(1));
    let mut families = Vec::new();
    let memtables = std::mem::take(&mut recovered.memtables);
    for ((id, family), mutable) in state.families.iter().zip(memtables.into_values()) {
        let first = SuperVersion {
            mutable,
            sealed: Vec::new(),
            version: Arc::clone(&family.version),
            gone: ReaderGone(Arc::clone(&obsolete)),
        };
        let of_its_own = family_options.get(id).cloned().unwrap_or_else(|| options.column_family.clone());
        let data = Arc::new(FamilyData::new(
            *id,
            family.name.as_str().into(),
            of_its_own,
            identity,
            first,
            Arc::clone(&flush_bell),
            History::after(recovered.last_sequence),
        ));
        writer.add_family(Arc::clone(&data));
        families.push(ColumnFamily { data });
    }
    if options.cost_write_buffer_to_cache && options.write_buffer_manager.is_none() {
        pressure.charge_to_cache(block_cache.as_ref());
    }
    let compaction_threads = compaction_threads(&options)?;
    let interval = options.wal_sync_interval;
    let sync_ticker =
        SyncTicker::new(&options.clock, interval, options.wal_sync_bytes, options.wal_sync_on_idle);
    let append_bell = Bell::new(&options.clock);
    let governing = Governing::new(&options, pressure.controller());
    let limits =
        GroupLimits { bytes: options.commit_group_bytes, count: options.commit_group_count as usize };
    let queue_groups = QueueGroupLimits {
        count: options.group_queue_limit as usize,
        bytes: options.queue_group_bytes,
        linger: u64::try_from(options.linger.as_nanos()).unwrap_or(u64::MAX),
    };
    let commit = Commit::new(writer, limits, queue_groups, pressure.queue(), Arc::clone(&append_bell));
    let shared = Arc::new_cyclic(|this| Shared {
        dir: dir.to_owned(),
        identity,
        flush_fs: pressure.limited(&fs, &options, IoPriority::High),
        compaction_fs: pressure.limited(&fs, &options, IoPriority::Low),
        clock: Arc::clone(&options.clock),
        info_log,
        events,
        lock: Mutex::new(lock),
        pressure,
        commit,
        governing,
        appender: Appender::new(options.async_waiting_bytes, append_bell, &options.clock),
        wal,
        sync_ticker,
        published: AtomicU64::new(recovered.last_sequence.get()),
        families: Families::new(families),
        versions,
        state: Mutex::new(State::default()).ranked(Rank::State),
        snapshots: Arc::new(SnapshotList::default()),
        tables: Arc::new(tables),
        block_cache,
        obsolete,
        next_memtable: AtomicU64::new(next_memtable),
        workers: Workers::default(),
        pools,
        this: std::sync::Weak::clone(this),
        preparing: OneAtATime::default(),
        syncing: OneAtATime::default(),
        telling: OneAtATime::default(),
        saving: OneAtATime::default(),
        compaction_threads,
        read_threads: ReadThreads::default(),
        flush_slots: Slots::new(options.max_background_flushes, Arc::clone(&flush_bell)),
        flush_bell,
        compaction_bell: Bell::new(&options.clock),
        purge_bell,
        done_bell: Bell::new(&options.clock),
        failure: Failure::default(),
        refusing: AtomicBool::new(false),
        closing: AtomicBool::new(false),
        closed: AtomicBool::new(false),
        read_only,
        stats: Statistics::default(),
        opened_at: options.clock.now_nanos(),
        last_print: Last::default(),
        stats_base: Last::default(),
        told_job_pressure: Mutex::new(None),
        fs,
        tracked_fs,
        live: LiveOptions::new(&options),
        options_file: Mutex::across_io(()),
        options,
    });
    // From here on versions die in the background, and who holds one, or a file of one, must ring when
    // it lets go: these do not.
    drop((state, recovered));
    Ok(shared)
}

/// Names of the families of a closed database.
pub(super) fn list_column_families(dir: &Path, options: &DbOptions) -> Result<Vec<String>> {
    let fs = TrackedFileSystem::new(Arc::clone(&options.file_system));
    let (state, _) = read_manifest(&fs, dir)?;
    Ok(state.families.into_values().map(|family| family.name).collect())
}

/// Removes a closed database's files, and the directory if nothing else is in it.
pub(super) fn destroy(dir: &Path, options: &DbOptions) -> Result<()> {
    let fs = TrackedFileSystem::new(Arc::clone(&options.file_system));
    let failed = |doing, path: &Path| {
        let path = path.to_owned();
        move |error| Error::io(doing, &path, error)
    };
    if !fs.exists(dir).map_err(failed("look for", dir))? {
        return Ok(());
    }
    let names = fs.list(dir).map_err(failed("list", dir))?;
    let ours: Vec<_> = names.iter().filter(|name| parse(name).is_some()).collect();
    if ours.is_empty() && names.iter().any(|name| name != "lost+found") {
        return Err(not_ours(dir, &names));
    }
    let lock = take_lock(&fs, dir)?;
    // CURRENT first: what a crash leaves behind is then not taken for a database.
    let current = dir.join(CURRENT);
    if fs.exists(&current).map_err(failed("look for", &current))? {
        fs.remove(&current).map_err(failed("remove", &current))?;
        fs.sync_dir(dir).map_err(failed("sync", dir))?;
    }
    for name in ours.into_iter().filter(|name| *name != CURRENT && *name != LOCK) {
        fs.remove(&dir.join(name)).map_err(failed("remove", &dir.join(name)))?;
    }
    drop(lock);
    fs.remove(&dir.join(LOCK)).map_err(failed("remove", &dir.join(LOCK)))?;
    fs.sync_dir(dir).map_err(failed("sync", dir))?;
    if fs.list(dir).map_err(failed("list", dir))?.is_empty() {
        fs.remove_dir(dir).map_err(failed("remove", dir))?;
    }
    Ok(())
}

pub(super) fn check_options(options: &DbOptions, named: &[(String, ColumnFamilyOptions)]) -> Result<()> {
    options.validate()?;
    let mut seen = HashSet::new();
    for (name, options) in named {
        check_name(name)?;
        options.validate()?;
        if !seen.insert(name) {
            return Err(Error::invalid("column family name", format!("'{name}' is given twice")));
        }
    }
    Ok(())
}

/// Whether `dir` holds a database. Refuses a directory that the options do not want, or that is none of ours.
fn look_for_database(fs: &dyn FileSystem, dir: &Path, options: &DbOptions) -> Result<bool> {
    let current = dir.join(CURRENT);
    if fs.exists(&current).map_err(|error| Error::io("look for", &current, error))? {
        if options.error_if_exists {
            return Err(Error::invalid("error_if_exists", format!("{} holds a database", dir.display())));
        }
        return Ok(true);
    }
    if !options.create_if_missing {
        let why = "it has no CURRENT file; set create_if_missing to make one".to_owned();
        return Err(Error::NotADatabase { path: dir.to_owned(), why });
    }
    if fs.exists(dir).map_err(|error| Error::io("look for", dir, error))? {
        let names = fs.list(dir).map_err(|error| Error::io("list", dir, error))?;
        // What an interrupted creation leaves is ours and may be there; tables are not: without CURRENT they are
        // somebody's data.
        let harmless = |name: &String| {
            name == "lost+found" || parse(name).is_some_and(|kind| !matches!(kind, FileKind::Sst(_)))
        };
        if !names.iter().all(harmless) {
            return Err(not_ours(dir, &names));
        }
    }
    Ok(false)
}

fn not_ours(dir: &Path, names: &[String]) -> Error {
    let example = names.iter().find(|name| *name != "lost+found").map_or("", String::as_str);
    let why = format!("it has no CURRENT file but holds other files ('{example}'); name an empty directory");
    Error::NotADatabase { path: dir.to_owned(), why }
}

fn take_lock(fs: &dyn FileSystem, dir: &Path) -> Result<Box<dyn FileLock>> {
    let path = dir.join(LOCK);
    let lock = fs.lock(&path).map_err(|error| Error::io("lock", &path, error))?;
    lock.ok_or(Error::Locked { path })
}

/// What a new database's manifest says.
fn new_state(fs: &dyn FileSystem) -> ManifestState {
    let mut state = ManifestState { next_file: FileNumber(1), ..ManifestState::default() };
    state.wal.log_id = fs.unique_id();
    add_family(&mut state, DEFAULT_FAMILY, DEFAULT_NAME);
    state
}

fn add_family(state: &mut ManifestState, id: u32, name: &str) {
    let family = FamilyState {
        name: name.to_owned(),
        version: Arc::new(Version::empty(MAX_LEVELS)),
        flushed_through: state.last_sequence,
    };
    state.families.insert(id, family);
    state.next_family = state.next_family.max(id + 1);
}

/// What the manifest says, and the bytes of a torn last record that were dropped.
fn read_manifest(fs: &dyn FileSystem, dir: &Path) -> Result<(ManifestState, u64)> {
    let manifest = manifest::recover(fs, dir)?;
    Ok((state_of(&manifest)?, manifest.bytes_dropped))
}

/// What the edits of a manifest add up to.
pub(crate) fn state_of(manifest: &RecoveredManifest) -> Result<ManifestState> {
    let mut state = ManifestState::default();
    for edit in &manifest.edits {
        state.apply(edit, MAX_LEVELS).map_err(|why| why.in_manifest(&manifest.path))?;
    }
    if !state.families.contains_key(&DEFAULT_FAMILY) {
        let found = Corruption::bad("column families", "one with id 0, 'default'", "none");
        return Err(Error::corrupt(&manifest.path, 0, found));
    }
    Ok(state)
}

/// Files that a crash left may bear numbers that the manifest has not heard of; none is used again.
fn pass_used_numbers(numbers: &FileNumbers, names: &[String]) {
    for name in names {
        if let Some(FileKind::Manifest(number) | FileKind::Wal(number) | FileKind::Sst(number)) = parse(name)
        {
            numbers.pass(number);
        }
    }
}

/// The options of every family, by id; families that are named and missing are added to `state`.
pub(super) fn choose_options(
    state: &mut ManifestState,
    options: &DbOptions,
    named: &[(String, ColumnFamilyOptions)],
) -> Result<BTreeMap<u32, ColumnFamilyOptions>> {
    for (name, _) in named {
        if !state.families.values().any(|family| family.name == *name) {
            if !options.create_missing_column_families {
                return Err(Error::NoSuchColumnFamily { name: name.clone() });
            }
            let id = state.next_family;
            add_family(state, id, name);
        }
    }
    let mut chosen = BTreeMap::new();
    for (id, family) in &mut state.families {
        let of_its_own = named.iter().find(|(name, _)| *name == family.name).map(|(_, options)| options);
        let family_options = of_its_own.unwrap_or(&options.column_family).clone();
        let num_levels = family_options.num_levels as usize;
        let version = family.version.with_num_levels(num_levels).ok_or_else(|| {
            let why = format!("column family '{}' has files below level {}", family.name, num_levels - 1);
            Error::invalid("num_levels", why)
        })?;
        family.version = Arc::new(version);
        chosen.insert(*id, family_options);
    }
    Ok(chosen)
}

/// Every table that the manifest names is there, and as long as it was.
pub(super) fn check_tables(fs: &dyn FileSystem, dir: &Path, state: &ManifestState) -> Result<()> {
    for family in state.families.values() {
        for (_, file) in family.version.all_files() {
            let path = sst_path(dir, file.number);
            if !fs.exists(&path).map_err(|error| Error::io("look for", &path, error))? {
                return Err(Error::corrupt(
                    &path,
                    0,
                    Corruption::Missing { named_by: "the manifest".to_owned() },
                ));
            }
            let found = fs.size(&path).map_err(|error| Error::io("look at", &path, error))?;
            if found != file.size {
                let cut = Corruption::Truncated { what: "table", expected: file.size, found };
                return Err(Error::corrupt(&path, found.min(file.size), cut));
            }
        }
    }
    Ok(())
}

fn open_wal(
    fs: &Arc<dyn FileSystem>,
    dir: &Path,
    options: &DbOptions,
    state: &ManifestState,
    numbers: &Arc<FileNumbers>,
    recovered: &Recovered,
) -> Result<Wal> {
    let spares = if options.recovery_mode == RecoveryMode::Absolute { 0 } else { SPARE_SEGMENTS };
    let wal_options = WalOptions {
        segment_bytes: options.wal_segment_bytes,
        buffer_bytes: options.wal_buffer_bytes,
        spares,
    };
    let numbers = Arc::clone(numbers);
    let next_number: NextFileNumber = Arc::new(move || numbers.take());
    Wal::open(
        Arc::clone(fs),
        dir,
        state.wal.log_id,
        wal_options,
        next_number,
        &recovered.end,
        recovered.last_sequence,
    )
}

fn create_manifest(
    fs: &Arc<dyn FileSystem>,
    dir: &Path,
    options: &DbOptions,
    state: ManifestState,
    numbers: &Arc<FileNumbers>,
    wal: &Arc<Wal>,
    pools: &Pools,
) -> Result<VersionSet> {
    let position_options = PositionOptions {
        segment_bytes: options.wal_segment_bytes,
        interval: options.manifest_save_interval,
        min_gap: options.manifest_min_gap,
    };
    let wal = Arc::clone(wal);
    let position = Box::new(move || wal.position_to_record());
    let (numbers, pool) = (Arc::clone(numbers), Arc::clone(&pools.manifest));
    VersionSet::create(fs, dir, &options.clock, state, numbers, position_options, position, pool)
}

/// Adds what recovery found to what the manifest will say.
fn take_over(dir: &Path, state: &mut ManifestState, recovered: &Recovered, fresh: FileNumber) -> Result<()> {
    state.last_sequence = recovered.last_sequence;
    let mut wal = recovered.end.edit(fresh, recovered.last_sequence);
    if !recovered.flushed.is_empty() || recovered.memtables.values().all(|memtable| memtable.is_empty()) {
        wal.first_needed = Some(fresh); // everything that was replayed is in tables
    }
    state.wal.apply(&wal);
    for (id, file) in &recovered.flushed {
        let files = FamilyEdit {
            flushed_through: Some(file.largest_seq),
            added: vec![(0, Arc::clone(file))],
            ..FamilyEdit::new(*id)
        };
        let edit = VersionEdit { families: vec![files], ..VersionEdit::default() };
        state.apply(&edit, MAX_LEVELS).map_err(|why| why.in_manifest(dir))?;
    }
    Ok(())
}

/// Removes files that nothing names: tables of unfinished jobs, old manifests, dead log segments, temporary files. What
/// cannot be removed is said in LOG and tried again at the next open.
fn remove_unnamed(
    fs: &dyn FileSystem,
    dir: &Path,
    names: &[String],
    state: &ManifestState,
    dead_segments: &[FileNumber],
    manifest: FileNumber,
    info_log: &InfoLog,
) {
    let tables: BTreeSet<FileNumber> = state
        .families
        .values()
        .flat_map(|family| family.version.all_files())
        .map(|(_, file)| file.number)
        .collect();
    for name in names {
        let unnamed = match parse(name) {
            Some(FileKind::Sst(number)) => !tables.contains(&number),
            Some(FileKind::Manifest(number)) => number != manifest,
            Some(FileKind::Wal(number)) => dead_segments.contains(&number),
            Some(FileKind::Temporary) => true,
            _ => false,
        };
        if unnamed && let Err(error) = fs.remove(&dir.join(name)) {
            info_log.error(&format!("could not remove {name}, which nothing needs: {error}"));
        }
    }
}

fn compaction_threads(options: &DbOptions) -> Result<Option<rayon::ThreadPool>> {
    if options.max_subcompactions <= 1 {
        return Ok(None);
    }
    let built = rayon::ThreadPoolBuilder::new()
        .num_threads(options.max_subcompactions as usize)
        .thread_name(|n| format!("sluice-sub-{n}"))
        .build();
    built.map(Some).map_err(|error| Error::invalid("max_subcompactions", error.to_string()))
}
