//! Looking into a [`SimFs`] and editing its files from outside, as a test or a bad disk would.
//!
//! Nothing here counts as a call, meets a fault or waits at a gate.

use std::path::{Path, PathBuf};

use super::content::Content;
use super::{SimFs, lock, split};

impl SimFs {
    /// The paths of all files in `dir`, in order.
    pub fn files(&self, dir: &Path) -> Vec<PathBuf> {
        let state = lock(&self.inner.state);
        let names = state.directories.get(dir).into_iter().flat_map(|directory| directory.names());
        names.map(|name| dir.join(name)).collect()
    }

    /// The paths of all files in `dir` that end like this, in order.
    pub fn files_ending(&self, dir: &Path, end: &str) -> Vec<PathBuf> {
        let mut files = self.files(dir);
        files.retain(|path| path.to_string_lossy().ends_with(end));
        files
    }

    /// The bytes of the file at `path`, as readers see them.
    ///
    /// # Panics
    ///
    /// When there is no such file; so do the other calls that take a path.
    pub fn bytes(&self, path: &Path) -> Vec<u8> {
        self.edit(path, |content| content.bytes())
    }

    /// Replaces the bytes of the file at `path`, durably; makes the file if there is none.
    pub fn put_bytes(&self, path: &Path, bytes: &[u8]) {
        let mut state = lock(&self.inner.state);
        if let Ok(node) = state.node(path) {
            *lock(&node) = Content::durable(bytes.to_vec());
            return;
        }
        let (parent, name) = split(path).expect("a path to a file");
        let directory = state.directories.entry(parent.to_owned()).or_default();
        directory.add(name, std::sync::Arc::new(std::sync::Mutex::new(Content::durable(bytes.to_vec()))));
        directory.sync();
    }

    /// Turns over the bits `mask` of one byte, durably.
    pub fn flip(&self, path: &Path, offset: usize, mask: u8) {
        let mut bytes = self.bytes(path);
        bytes[offset] ^= mask;
        self.put_bytes(path, &bytes);
    }

    /// Cuts the file to `len` bytes, durably.
    pub fn cut(&self, path: &Path, len: usize) {
        let mut bytes = self.bytes(path);
        bytes.truncate(len);
        self.put_bytes(path, &bytes);
    }

    /// Removes a file, durably.
    pub fn unlink(&self, path: &Path) {
        let mut state = lock(&self.inner.state);
        let (parent, name) = split(path).expect("a path to a file");
        let directory = state.directories.get_mut(parent).expect("a directory");
        directory.remove(name).unwrap_or_else(|| panic!("{} is not there", path.display()));
        directory.sync();
    }

    /// Bytes from the start of the file that no power failure can take.
    pub fn synced_prefix(&self, path: &Path) -> usize {
        self.edit(path, |content| content.synced_prefix())
    }

    fn edit<T>(&self, path: &Path, look: impl FnOnce(&mut Content) -> T) -> T {
        let node = lock(&self.inner.state).node(path).unwrap_or_else(|error| panic!("{error}"));
        let mut content = lock(&node);
        look(&mut content)
    }
}
