//! `CURRENT`: which manifest is the live one, as one line of text.
//!
//! ```text
//!   MANIFEST-000005 1234 89abcdef
//!   |               |    `- CRC-32 of all before it, hex
//!   |               `- bytes of that manifest that were synced when CURRENT was written
//!   `- its name
//! ```
//!
//! It is replaced as a whole: written as `CURRENT.tmp`, synced, renamed, and the directory synced. Anything but
//! exactly such a line is damage, and the error names this file.

#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

use std::path::Path;

use crate::checksum::crc32;
use crate::env::{FileSystem, read_all};
use crate::error::{Corruption, Error, Result};
use crate::filename::{CURRENT, CURRENT_TMP, FileKind, manifest_name, parse};
use crate::version::FileNumber;

/// What CURRENT says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Current {
    pub(crate) manifest: FileNumber,
    /// Bytes of the manifest that were synced before CURRENT named it.
    pub(crate) synced_bytes: u64,
}

/// Longest CURRENT that is read.
const LEN_MAX: u64 = 128;

impl Current {
    pub(super) fn encode(self) -> String {
        let covered = format!("{} {} ", manifest_name(self.manifest), self.synced_bytes);
        format!("{covered}{:08x}\n", crc32(&[covered.as_bytes()]))
    }

    /// What `bytes` say. Only what [`encode`](Self::encode) makes is accepted, to the byte.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Corruption> {
        let bad = || {
            let found = format!("\"{}\"", bytes.escape_ascii());
            Corruption::bad("CURRENT", "the name of a manifest, its length and a checksum", found)
        };
        let text = std::str::from_utf8(bytes).map_err(|_| bad())?;
        let mut words = text.split(' ');
        let (Some(name), Some(synced)) = (words.next(), words.next()) else { return Err(bad()) };
        let (Some(FileKind::Manifest(manifest)), Ok(synced_bytes)) = (parse(name), synced.parse()) else {
            return Err(bad());
        };
        let current = Self { manifest, synced_bytes };
        if current.encode() == text { Ok(current) } else { Err(bad()) }
    }

    /// Reads CURRENT; [`Error::NotADatabase`] when it is not there.
    pub(crate) fn read(fs: &dyn FileSystem, dir: &Path) -> Result<Self> {
        let path = dir.join(CURRENT);
        if !fs.exists(&path).map_err(|error| Error::io("look for", &path, error))? {
            let names = match fs.list(dir) {
                Ok(names) => names,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    let why = "there is no such directory".to_owned();
                    return Err(Error::NotADatabase { path: dir.to_owned(), why });
                }
                Err(error) => return Err(Error::io("list", dir, error)),
            };
            let ours = |name: &&String| matches!(parse(name), Some(FileKind::Manifest(_) | FileKind::Sst(_)));
            let why = match names.iter().find(ours) {
                Some(name) => format!("there is no CURRENT file, but there is {name}; repair the database"),
                None => "there is no CURRENT file".to_owned(),
            };
            return Err(Error::NotADatabase { path: dir.to_owned(), why });
        }
        let size = fs.size(&path).map_err(|error| Error::io("measure", &path, error))?;
        if size > LEN_MAX {
            let found = Corruption::bad("length of CURRENT", format!("at most {LEN_MAX}"), size);
            return Err(Error::corrupt(&path, 0, found));
        }
        let bytes = read_all(fs, &path).map_err(|error| Error::io("read", &path, error))?;
        Self::parse(&bytes).map_err(|found| Error::corrupt(&path, 0, found))
    }

    /// Writes `CURRENT.tmp` and syncs it. Nothing has changed yet when this fails.
    pub(super) fn write_temporary(self, fs: &dyn FileSystem, dir: &Path) -> Result<()> {
        let path = dir.join(CURRENT_TMP);
        let file = fs.create(&path).map_err(|error| Error::io("create", &path, error))?;
        file.write_at(self.encode().as_bytes(), 0).map_err(|error| Error::io("write", &path, error))?;
        file.sync().map_err(|error| Error::io("sync", &path, error))
    }

    /// Puts `CURRENT.tmp` in the place of CURRENT and syncs the directory. When this fails, either may be found.
    pub(super) fn swap_in(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
        let (from, to) = (dir.join(CURRENT_TMP), dir.join(CURRENT));
        fs.rename(&from, &to).map_err(|error| Error::io("rename", &from, error))?;
        fs.sync_dir(dir).map_err(|error| Error::io("sync", dir, error))
    }
}
