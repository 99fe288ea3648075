//! [`TestFs`]: a small file system in memory for the tests of the log and the manifest.
//!
//! It knows what was synced: [`TestFs::crash`] gives the files as a power failure would leave them, sector by sector
//! as a closure decides. Syncs, writes and allocations can be counted, failed and held up.
//!
//! Every call checks that no engine lock is held.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::env::{FileLock, FileSystem, ReadableFile, WritableFile};
use crate::sync::{Condvar, Mutex, forbid_held_locks};

/// Bytes that reach the device as a whole or not at all.
pub(crate) const SECTOR: usize = 512;

#[derive(Debug, Default, Clone)]
struct Inode {
    data: Vec<u8>,
    synced: Vec<u8>,
}

/// What is made to go wrong: the next `times` calls on names that end in `suffix`.
#[derive(Debug, Clone)]
struct Fault {
    call: &'static str,
    suffix: String,
    /// Calls that pass before it begins.
    after: usize,
    times: usize,
    kind: io::ErrorKind,
}

#[derive(Debug, Default)]
struct State {
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    synced_names: BTreeMap<PathBuf, usize>,
    faults: Vec<Fault>,
    calls: BTreeMap<(&'static str, PathBuf), usize>,
    gate_closed: bool,
    at_gate: usize,
    ids: u64,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// Files in memory. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct TestFs {
    shared: Arc<Shared>,
}

impl TestFs {
    pub(crate) fn new() -> Self {
        Self::of(State::default())
    }

    fn of(state: State) -> Self {
        Self { shared: Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() }) }
    }

    fn with<T>(&self, run: impl FnOnce(&mut State) -> T) -> T {
        run(&mut self.shared.state.lock())
    }

    fn call(&self, call: &'static str, path: &Path) -> io::Result<()> {
        forbid_held_locks(call);
        self.with(|state| {
            *state.calls.entry((call, path.to_owned())).or_default() += 1;
            let name = path.to_str().unwrap();
            let fault =
                state.faults.iter_mut().find(|f| f.call == call && f.times > 0 && name.ends_with(&f.suffix));
            match fault {
                Some(fault) if fault.after > 0 => {
                    fault.after -= 1;
                    Ok(())
                }
                Some(fault) => {
                    fault.times -= 1;
                    Err(io::Error::new(fault.kind, "injected"))
                }
                None => Ok(()),
            }
        })
    }

    /// Makes the next `times` calls of this name on files whose names end in `suffix` fail.
    pub(crate) fn fail(&self, call: &'static str, suffix: &str, times: usize, kind: io::ErrorKind) {
        self.with(|state| {
            state.faults.push(Fault { call, suffix: suffix.to_owned(), after: 0, times, kind })
        });
    }

    /// Makes call number `nth` (from 0) of this name fail, on whatever file, once.
    pub(crate) fn fail_nth(&self, call: &'static str, nth: usize) {
        let kind = io::ErrorKind::Other;
        self.with(|state| {
            state.faults.push(Fault { call, suffix: String::new(), after: nth, times: 1, kind })
        });
    }

    pub(crate) fn heal(&self) {
        self.with(|state| state.faults.clear());
    }

    /// Calls of this name so far on files whose names end in `suffix`.
    pub(crate) fn calls(&self, call: &str, suffix: &str) -> usize {
        let is_it = |key: &(&str, PathBuf)| key.0 == call && key.1.to_str().unwrap().ends_with(suffix);
        self.with(|state| state.calls.iter().filter(|(key, _)| is_it(key)).map(|(_, count)| count).sum())
    }

    /// Holds up every sync of a file from now on.
    pub(crate) fn close_gate(&self) {
        self.with(|state| state.gate_closed = true);
    }

    pub(crate) fn open_gate(&self) {
        self.with(|state| state.gate_closed = false);
        self.shared.changed.notify_all();
    }

    /// Waits until `count` syncs stand at the gate.
    pub(crate) fn wait_at_gate(&self, count: usize) {
        while self.with(|state| state.at_gate) < count {
            std::thread::yield_now();
        }
    }

    fn pass_gate(&self) {
        let mut state = self.shared.state.lock();
        state.at_gate += 1;
        while state.gate_closed {
            self.shared.changed.wait(&mut state);
        }
        state.at_gate -= 1;
    }

    /// The files as a power failure now would leave them: names as at the last directory sync, each sector that
    /// was not synced in its new form if `keep` says so, else in its old one.
    pub(crate) fn crash(&self, mut keep: impl FnMut() -> bool) -> Self {
        let image = self.with(|state| {
            let inodes = state.inodes.iter().map(|inode| {
                let mut data = inode.synced.clone();
                for (i, sector) in inode.data.chunks(SECTOR).enumerate() {
                    let at = i * SECTOR;
                    let old =
                        inode.synced.get(at..).map_or(&[][..], |rest| &rest[..rest.len().min(sector.len())]);
                    if old != sector && keep() {
                        data.resize(data.len().max(at + sector.len()), 0);
                        data[at..at + sector.len()].copy_from_slice(sector);
                    }
                }
                Inode { synced: data.clone(), data }
            });
            State {
                inodes: inodes.collect(),
                names: state.synced_names.clone(),
                synced_names: state.synced_names.clone(),
                ids: state.ids + 1000,
                ..State::default()
            }
        });
        Self::of(image)
    }

    /// All files as they are, synced: a process killed, or a copy to damage.
    pub(crate) fn copy(&self) -> Self {
        let copy = self.crash(|| true);
        let names = self.with(|state| state.names.clone());
        copy.with(|state| (state.names, state.synced_names) = (names.clone(), names));
        copy
    }

    pub(crate) fn edit(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        self.with(|state| {
            let inode = state.names[path];
            change(&mut state.inodes[inode].data);
            state.inodes[inode].synced = state.inodes[inode].data.clone();
        });
    }

    pub(crate) fn bytes(&self, path: &Path) -> Vec<u8> {
        self.with(|state| state.inodes[state.names[path]].data.clone())
    }

    fn open(&self, path: &Path) -> io::Result<TestFile> {
        let inode = self.with(|state| state.names.get(path).copied()).ok_or(io::ErrorKind::NotFound)?;
        Ok(TestFile { fs: self.clone(), path: path.to_owned(), inode })
    }
}

impl FileSystem for TestFs {
    fn create(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        self.call("create", path)?;
        self.with(|state| {
            let fresh = state.inodes.len();
            let inode = *state.names.entry(path.to_owned()).or_insert(fresh);
            if inode == fresh {
                state.inodes.push(Inode::default());
            }
            state.inodes[inode].data.clear();
        });
        Ok(Box::new(self.open(path)?))
    }

    fn open_writable(&self, path: &Path) -> io::Result<Box<dyn WritableFile>> {
        self.call("open", path)?;
        Ok(Box::new(self.open(path)?))
    }

    fn open_readable(&self, path: &Path) -> io::Result<Arc<dyn ReadableFile>> {
        self.call("open", path)?;
        Ok(Arc::new(self.open(path)?))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.call("list", dir)?;
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        Ok(self
            .with(|state| state.names.keys().filter(|path| path.parent() == Some(dir)).map(name).collect()))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.call("exists", path)?;
        Ok(self.with(|state| state.names.contains_key(path)))
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        ReadableFile::size(&self.open(path)?)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.call("create_dir", dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call("rename", from)?;
        self.with(|state| {
            let inode = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
            state.names.insert(to.to_owned(), inode);
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call("remove", path)?;
        self.with(|state| state.names.remove(path)).map(|_| ()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.call("remove_dir", dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.call("sync_dir", dir)?;
        self.with(|state| state.synced_names = state.names.clone());
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn FileLock>>> {
        self.call("lock", path)?;
        Ok(None)
    }

    fn unique_id(&self) -> u64 {
        self.with(|state| {
            state.ids += 1;
            state.ids
        })
    }
}

#[derive(Debug)]
struct TestFile {
    fs: TestFs,
    path: PathBuf,
    inode: usize,
}

impl WritableFile for TestFile {
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.fs.call("write", &self.path)?;
        let at = offset as usize;
        self.fs.with(|state| {
            let inode = &mut state.inodes[self.inode].data;
            inode.resize(inode.len().max(at + data.len()), 0);
            inode[at..at + data.len()].copy_from_slice(data);
        });
        Ok(())
    }

    /// What was written before the call is durable after it, as on a real disk.
    fn sync(&self) -> io::Result<()> {
        let data = self.fs.with(|state| state.inodes[self.inode].data.clone());
        self.fs.pass_gate();
        self.fs.call("sync", &self.path)?;
        self.fs.with(|state| state.inodes[self.inode].synced = data);
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.fs.call("allocate", &self.path)?;
        let len = len as usize;
        self.fs.with(|state| {
            let inode = &mut state.inodes[self.inode].data;
            inode.resize(inode.len().max(len), 0);
        });
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.fs.call("set_len", &self.path)?;
        self.fs.with(|state| state.inodes[self.inode].data.resize(len as usize, 0));
        Ok(())
    }
}

impl ReadableFile for TestFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.fs.call("read", &self.path)?;
        Ok(self.fs.with(|state| {
            let data = state.inodes[self.inode].data.get(offset as usize..).unwrap_or_default();
            let len = data.len().min(buf.len());
            buf[..len].copy_from_slice(&data[..len]);
            len
        }))
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.fs.with(|state| state.inodes[self.inode].data.len() as u64))
    }
}
