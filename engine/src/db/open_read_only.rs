//! Opening for reading only: the order of [`super::open`] without any step that changes something.
//!
//! 1. Check options and names.
//! 2. Read CURRENT and the manifest.
//! 3. Open the tables and keep them open.
//! 4. Replay the log into memtables, whatever their size.
//! 5. Look at the manifest once more: was a part of the log released meanwhile?
//!
//! No lock is taken, so another process may go on writing while this one looks. What then looks like damage may be a file
//! that was just replaced: a complaint is believed when it comes twice in a row in the same words.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Shared;
use super::open::{Parts, assemble, check_options, check_tables, choose_options, open_caches, state_of};
use super::pools::Pools;
use super::pressure::Pressure;
use super::recover::{Recovered, Recovery};
use crate::env::{FileSystem, ReadOnlyFileSystem, TrackedFileSystem};
use crate::error::{Error, Result};
use crate::event::Events;
use crate::info_log::InfoLog;
use crate::jobs::Bell;
use crate::manifest;
use crate::options::{ColumnFamilyOptions, DbOptions};
use crate::version::set::{FileNumbers, ManifestState, VersionSet};
use crate::wal::Wal;

/// Attempts at reading a database that changes meanwhile.
const ATTEMPTS_MAX: u32 = 32;

/// Opens the database in `dir` for reading only, with options of their own for the named families.
pub(super) fn open(
    dir: &Path,
    options: DbOptions,
    named: Vec<(String, ColumnFamilyOptions)>,
) -> Result<Arc<Shared>> {
    // 1. Options and names.
    check_options(&options, &named)?;
    let mut options = options;
    options.create_missing_column_families = false;
    let mut before = None;
    for _ in 0..ATTEMPTS_MAX {
        match open_once(dir, &options, &named) {
            Ok(Some(shared)) => return Ok(shared),
            Ok(None) => before = None,
            Err(error) if may_be_passing(&error) && before.as_ref() != Some(&error.to_string()) => {
                before = Some(error.to_string());
            }
            Err(error) => return Err(error),
        }
    }
    let why = format!("it changed during each of {ATTEMPTS_MAX} attempts");
    Err(Error::io("find a steady state of", dir, std::io::Error::new(std::io::ErrorKind::ResourceBusy, why)))
}

/// Whether it may have come from looking at files while their holder replaced them.
fn may_be_passing(error: &Error) -> bool {
    match error {
        Error::Corruption { .. } => true,
        Error::Io { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}

/// One attempt; `None` when the log was released under it.
fn open_once(
    dir: &Path,
    options: &DbOptions,
    named: &[(String, ColumnFamilyOptions)],
) -> Result<Option<Arc<Shared>>> {
    let options = options.clone();
    let looking = Arc::new(ReadOnlyFileSystem::new(Arc::clone(&options.file_system)));
    let tracked_fs = Arc::new(TrackedFileSystem::new(looking));
    let fs: Arc<dyn FileSystem> = Arc::clone(&tracked_fs) as _;

    // 2. The manifest.
    let manifest = manifest::recover(&*fs, dir)?;
    let mut state = state_of(&manifest)?;
    let family_options = choose_options(&mut state, &options, named)?;

    // 3. The tables.
    check_tables(&*fs, dir, &state)?;
    let (block_cache, mut tables) = open_caches(&fs, dir, &options);
    let files = state.families.values().flat_map(|family| family.version.all_files());
    tables.pin(files.take(options.max_open_files as usize).map(|(_, file)| &**file))?;

    // 4. The log.
    let info_log = Arc::new(InfoLog::silent(Arc::clone(&options.clock)));
    let events = Events::new(options.listeners.clone(), &options.clock, &info_log);
    let purge_bell = Bell::new(&options.clock);
    let pressure = Pressure::attach(&options, dir, &info_log, &events, &purge_bell)?;
    pressure.opened_read_only();
    let next_memtable = AtomicU64::new(1);
    let numbers = FileNumbers::starting_at(state.next_file);
    let recovery = Recovery {
        fs: &*fs,
        dir,
        clock: &*options.clock,
        options: &options,
        pressure: &pressure,
        numbers: &numbers,
        read_only: true,
        new_memtable: &|family, options_of_it| {
            let id = next_memtable.fetch_add(1, Ordering::Relaxed); // only has to be unique and to grow
            pressure.new_memtable(family, options_of_it, id, options.clock.now_nanos())
        },
    };
    let recovered = recovery.run(&state, &family_options)?;

    // 5. The manifest once more.
    if was_released(&*fs, dir, &state, &recovered)? {
        return Ok(None);
    }
    let refusal = Error::OpenedReadOnly { path: dir.to_owned() };
    let (end, last) = (&recovered.end, recovered.last_sequence);
    let wal = Wal::read_only(Arc::clone(&fs), dir, state.wal.log_id, end, last, refusal.clone());
    let pools = Pools::new(&options).map_err(|error| Error::io("start a thread for", dir, error))?;
    let pool = Arc::clone(&pools.manifest);
    let clock = &options.clock;
    let versions =
        VersionSet::read_only(&fs, dir, clock, state.clone(), manifest.number, refusal.clone(), pool);
    let shared = assemble(Parts {
        dir,
        next_memtable: next_memtable.load(Ordering::Relaxed),
        options,
        fs,
        tracked_fs,
        lock: None,
        info_log,
        events,
        pressure,
        purge_bell,
        wal: Arc::new(wal),
        pools,
        versions,
        block_cache,
        tables,
        state,
        family_options,
        recovered,
        read_only: true,
    })?;
    shared.failure.latch(&refusal, || {});
    Ok(Some(shared))
}

/// Whether the segment in which replay ended is one that the manifest needs no more: its file may have been written anew
/// under the eyes of the reader, so its end was not the log's.
fn was_released(
    fs: &dyn FileSystem,
    dir: &Path,
    state: &ManifestState,
    recovered: &Recovered,
) -> Result<bool> {
    let now = state_of(&manifest::recover(fs, dir)?)?;
    Ok(now.wal.first_needed != state.wal.first_needed && recovered.end.segment < now.wal.first_needed)
}
