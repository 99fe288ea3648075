//! A file system in memory that knows what was synced, and can lose, tear and fail the rest.
//!
//! [`SimFs`] is a [`FileSystem`] of the store. It keeps per file which sectors, and per directory which names, would
//! survive a power failure now; [`SimFs::crash`] makes the image that one would leave.
//! Calls are counted, can be held at a [`Gate`], and can be made to fail ([`Fault`]); the disk can be full.
//!
//! Everything random comes from the seed that it is made with. It does not know the formats of the files that it
//! keeps, only their names. Directories themselves are durable when made.

mod content;
mod directory;
mod faults;
mod file;
mod guards;
mod inspect;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use sluicedb::{FileLock, FileSystem, ReadableFile, WritableFile};

pub use self::content::SECTOR;
use self::directory::{Copies, Directory, Node};
pub use self::faults::{Counts, Effect, Fault, FileKind, Op, Pattern};
use self::faults::{Faults, Hook};
use self::file::SimFile;
pub use self::guards::Gate;
use self::guards::SimLock;
use crate::rng::Rng;

/// How much a crash takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashMode {
    /// Power failure; everything that was not synced is gone.
    DropUnsynced,
    /// Power failure; each unsynced sector and each unsynced change of a name survives with this chance, in any
    /// order.
    Keep {
        /// The chance, in percent.
        percent: u64,
    },
    /// The process is killed; everything that was handed over is kept, and is as unsynced as before.
    Kill,
}

/// A file system in memory. Clones are handles to the same one.
#[derive(Clone)]
pub struct SimFs {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    /// Told when a gate opens, when a call begins to wait at one, and when the crash image is taken.
    changed: Condvar,
}

struct State {
    directories: BTreeMap<PathBuf, Directory>,
    locks: BTreeSet<PathBuf>,
    rng: Rng,
    faults: Faults,
    hooks: Vec<Hook>,
    /// Calls waiting at gates.
    held: BTreeMap<u64, usize>,
    budget: Option<u64>,
    /// Syncs by kind of file and by the thread that made them.
    syncs_by_thread: BTreeMap<(FileKind, String), u64>,
    mutations: u64,
    crash_at: Option<CrashPlan>,
    image: Option<SimFs>,
}

#[derive(Clone, Copy)]
struct CrashPlan {
    mutation: u64,
    mode: CrashMode,
    seed: u64,
}

/// Locks; a test that panicked elsewhere must not hide its message behind a second panic here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SimFs {
    /// An empty file system whose chances all come from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut directories = BTreeMap::new();
        directories.insert(PathBuf::from("/"), Directory::default());
        directories.insert(PathBuf::new(), Directory::default());
        Self::from_state(State::new(directories, seed))
    }

    fn from_state(state: State) -> Self {
        Self { inner: Arc::new(Inner { state: Mutex::new(state), changed: Condvar::new() }) }
    }

    /// What a crash at this moment would leave, as a file system of its own: no faults, no gates, no locks, no
    /// limit. This one goes on untouched.
    pub fn crash(&self, mode: CrashMode, seed: u64) -> Self {
        lock(&self.inner.state).crash(mode, seed)
    }

    /// Has the image of a crash taken when the `mutation`-th [mutating](Op::mutates) call from now is made: right
    /// before it, or, for a write, half-way through. It waits in [`take_image`](Self::take_image); calls go on.
    pub fn crash_at(&self, mutation: u64, mode: CrashMode, seed: u64) {
        let mut state = lock(&self.inner.state);
        let mutation = state.mutations + mutation;
        state.crash_at = Some(CrashPlan { mutation, mode, seed });
        state.image = None;
    }

    /// Whether the image asked for by [`crash_at`](Self::crash_at) has been taken. What is acknowledged before this
    /// returns false was acknowledged before the crash.
    pub fn crashed(&self) -> bool {
        lock(&self.inner.state).image.is_some()
    }

    /// The image asked for by [`crash_at`](Self::crash_at), once there is one.
    pub fn take_image(&self) -> Option<Self> {
        lock(&self.inner.state).image.take()
    }

    /// [Mutating](Op::mutates) calls so far.
    pub fn mutations(&self) -> u64 {
        lock(&self.inner.state).mutations
    }

    /// Puts a failure in waiting.
    pub fn inject(&self, fault: Fault) {
        lock(&self.inner.state).faults.inject(fault);
    }

    /// Takes back all failures in waiting.
    pub fn heal(&self) {
        lock(&self.inner.state).faults.heal();
    }

    /// Calls made so far.
    pub fn calls(&self) -> Counts {
        lock(&self.inner.state).faults.calls.clone()
    }

    /// Syncs of files of `kind` so far, by the name of the thread that made them.
    pub fn syncs_by_thread(&self, kind: FileKind) -> BTreeMap<String, u64> {
        let state = lock(&self.inner.state);
        let of_kind = state.syncs_by_thread.iter().filter(|((of, _), _)| *of == kind);
        of_kind.map(|((_, thread), count)| (thread.clone(), *count)).collect()
    }

    /// Faults that really hit a call, so far.
    pub fn fired(&self) -> Counts {
        lock(&self.inner.state).faults.fired.clone()
    }

    /// The device holds this many bytes from now on; `None` lifts the limit.
    pub fn set_budget(&self, bytes: Option<u64>) {
        lock(&self.inner.state).budget = bytes;
    }

    /// Bytes in all files that have a name.
    pub fn used(&self) -> u64 {
        lock(&self.inner.state).used()
    }

    /// Holds every call that matches `on` until the gate opens.
    pub fn gate(&self, on: Pattern) -> Gate {
        let id = lock(&self.inner.state).faults.close_gate(on, false);
        Gate { fs: self.clone(), id }
    }

    /// Holds the next call that matches `on`; those behind it pass. A call that another gate holds already is not the next.
    pub fn gate_next(&self, on: Pattern) -> Gate {
        let id = lock(&self.inner.state).faults.close_gate(on, true);
        Gate { fs: self.clone(), id }
    }

    /// Has `hook` called before every call that matches `on`, with the bytes that it writes and with nothing locked. So a
    /// measurement makes a device slow.
    pub fn before(&self, on: Pattern, hook: impl Fn(usize) + Send + Sync + 'static) {
        lock(&self.inner.state).hooks.push(Hook { on, run: Arc::new(hook) });
    }

    fn run_hooks(&self, op: Op, kind: FileKind, bytes: usize) {
        let hooks: Vec<Hook> = {
            let state = lock(&self.inner.state);
            state.hooks.iter().filter(|hook| hook.on.matches(op, kind)).cloned().collect()
        };
        hooks.iter().for_each(|hook| (hook.run)(bytes));
    }

    /// Counts a call, holds it at its gate, takes the image that is due, and fails it if it must fail.
    fn enter(
        &self,
        op: Op,
        path: &Path,
        kind: FileKind,
    ) -> io::Result<(MutexGuard<'_, State>, Option<Effect>)> {
        if op != Op::Write {
            self.run_hooks(op, kind, 0);
        }
        let mut state = lock(&self.inner.state);
        let mut was_held = false;
        while let Some(gate) = state.faults.gate_of(op, kind, was_held) {
            was_held = true;
            *state.held.entry(gate).or_default() += 1;
            self.inner.changed.notify_all();
            while state.faults.is_closed(gate) {
                state = self.inner.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            *state.held.entry(gate).or_default() -= 1;
        }
        if op == Op::Sync {
            let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
            *state.syncs_by_thread.entry((kind, thread)).or_default() += 1;
        }
        if op.mutates() {
            state.mutations += 1;
            // A write takes its own image, half-way through.
            if op != Op::Write {
                self.take_image_if_due(&mut state);
            }
        }
        match state.faults.call(op, kind) {
            Some(Effect::Fail(error)) => Err(io::Error::new(error, injected(op, path))),
            Some(Effect::ShortWrite) if op != Op::Write => Err(io::Error::other(injected(op, path))),
            Some(Effect::LoseAndFail) if !matches!(op, Op::Sync | Op::SyncDir) => {
                Err(io::Error::other(injected(op, path)))
            }
            effect => Ok((state, effect)),
        }
    }

    fn take_image_if_due(&self, state: &mut State) {
        if state.image_due()
            && let Some(plan) = state.crash_at.take()
        {
            state.image = Some(state.crash(plan.mode, plan.seed));
            self.inner.changed.notify_all();
        }
    }

    fn open(&self, path: &Path, node: Node) -> SimFile {
        SimFile { fs: self.clone(), path: path.to_owned(), kind: FileKind::of(path), node }
    }
}

/// The message of a failure made on purpose.
fn injected(op: Op, path: &Path) -> String {
    format!("injected failure of {op:?} on {}", path.display())
}

impl State {
    fn new(directories: BTreeMap<PathBuf, Directory>, seed: u64) -> Self {
        Self {
            directories,
            locks: BTreeSet::new(),
            rng: Rng::new(seed),
            faults: Faults::default(),
            hooks: Vec::new(),
            held: BTreeMap::new(),
            budget: None,
            syncs_by_thread: BTreeMap::new(),
            mutations: 0,
            crash_at: None,
            image: None,
        }
    }

    fn crash(&self, mode: CrashMode, seed: u64) -> SimFs {
        let mut rng = Rng::new(seed);
        let mut copies = Copies::new();
        let crash = |(path, directory): (&PathBuf, &Directory)| {
            (path.clone(), directory.crash(mode, &mut rng, &mut copies))
        };
        let directories = self.directories.iter().map(crash).collect();
        SimFs::from_state(Self::new(directories, rng.next_u64()))
    }

    fn image_due(&self) -> bool {
        self.crash_at.is_some_and(|plan| plan.mutation <= self.mutations)
    }

    fn directory(&mut self, path: &Path) -> io::Result<&mut Directory> {
        self.directories.get_mut(path).ok_or_else(|| not_found(path))
    }

    fn node(&mut self, path: &Path) -> io::Result<Node> {
        let (directory, name) = split(path)?;
        self.directory(directory)?.get(name).cloned().ok_or_else(|| not_found(path))
    }

    fn used(&self) -> u64 {
        // A file counts once, however many names it has.
        let nodes = self.directories.values().flat_map(Directory::nodes);
        let files: BTreeMap<_, _> = nodes.map(|node| (Arc::as_ptr(node) as usize, node)).collect();
        files.values().map(|node| lock(node).len() as u64).sum()
    }

    /// Bytes by which files may still grow.
    fn room(&self) -> u64 {
        self.budget.map_or(u64::MAX, |budget| budget.saturating_sub(self.used()))
    }
}

fn not_found(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{} is not there", path.display()))
}

fn split(path: &Path) -> io::Result<(&Path, &str)> {
    let name = path.file_name().and_then(|name| name.to_str());
    match (path.parent(), name) {
        (Some(parent), Some(name)) => Ok((parent, name)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{} names no file", path.display()))),
    }
}

impl FileSystem for SimFs {
    fn create(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        let (mut state, _) = self.enter(Op::Create, path, FileKind::of(path))?;
        let (parent, name) = split(path)?;
        let directory = state.directory(parent)?;
        let node = match directory.get(name) {
            Some(node) => {
                lock(node).set_len(0);
                node.clone()
            }
            None => {
                let node = Node::default();
                directory.add(name, node.clone());
                node
            }
        };
        Ok(Box::new(self.open(path, node)))
    }

    fn open_writable(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        let (mut state, _) = self.enter(Op::OpenWritable, path, FileKind::of(path))?;
        let node = state.node(path)?;
        Ok(Box::new(self.open(path, node)))
    }

    fn open_readable(&self, path: &Path) -> io::Result<Arc<dyn ReadableFile>> {
        let (mut state, _) = self.enter(Op::OpenReadable, path, FileKind::of(path))?;
        let node = state.node(path)?;
        Ok(Arc::new(self.open(path, node)))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let (mut state, _) = self.enter(Op::List, dir, FileKind::Dir)?;
        let mut names: Vec<String> = state.directory(dir)?.names().cloned().collect();
        let inner = state.directories.keys().filter(|path| path.parent() == Some(dir));
        names.extend(inner.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())));
        Ok(names)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let (mut state, _) = self.enter(Op::Exists, path, FileKind::of(path))?;
        Ok(state.directories.contains_key(path) || state.node(path).is_ok())
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        let (mut state, _) = self.enter(Op::Size, path, FileKind::of(path))?;
        let node = state.node(path)?;
        let len = lock(&node).len();
        Ok(len as u64)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let (mut state, _) = self.enter(Op::CreateDir, dir, FileKind::Dir)?;
        for path in dir.ancestors() {
            state.directories.entry(path.to_owned()).or_default();
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (mut state, _) = self.enter(Op::Rename, to, FileKind::of(to))?;
        let ((old_dir, old), (new_dir, new)) = (split(from)?, split(to)?);
        if old_dir == new_dir {
            return state.directory(old_dir)?.rename(old, new).ok_or_else(|| not_found(from));
        }
        state.directory(new_dir)?;
        let node = state.directory(old_dir)?.remove(old).ok_or_else(|| not_found(from))?;
        state.directory(new_dir)?.add(new, node);
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (mut state, _) = self.enter(Op::HardLink, to, FileKind::of(to))?;
        let node = state.node(from)?;
        let (parent, name) = split(to)?;
        let directory = state.directory(parent)?;
        if directory.get(name).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        directory.add(name, node);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let (mut state, _) = self.enter(Op::Remove, path, FileKind::of(path))?;
        let (parent, name) = split(path)?;
        state.directory(parent)?.remove(name).map(drop).ok_or_else(|| not_found(path))
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        let (mut state, _) = self.enter(Op::RemoveDir, dir, FileKind::Dir)?;
        if state.directory(dir)?.names().next().is_some() {
            return Err(io::Error::from(io::ErrorKind::DirectoryNotEmpty));
        }
        state.directories.remove(dir);
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let (mut state, effect) = self.enter(Op::SyncDir, dir, FileKind::Dir)?;
        let directory = state.directory(dir)?;
        if effect == Some(Effect::LoseAndFail) {
            directory.lose();
            return Err(io::Error::other(injected(Op::SyncDir, dir)));
        }
        directory.sync();
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn FileLock>>> {
        let (mut state, _) = self.enter(Op::Lock, path, FileKind::of(path))?;
        let (parent, name) = split(path)?;
        let directory = state.directory(parent)?;
        if directory.get(name).is_none() {
            directory.add(name, Node::default());
        }
        let free = state.locks.insert(path.to_owned());
        Ok(free.then(|| Box::new(SimLock { fs: self.clone(), path: path.to_owned() }) as Box<dyn FileLock>))
    }

    fn unique_id(&self) -> u64 {
        lock(&self.inner.state).rng.next_u64().max(1)
    }
}

impl fmt::Debug for SimFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimFs({} mutating calls)", self.mutations())
    }
}
