//! [`SimFile`]: an open file of a [`SimFs`], for writing and for reading.

use std::io;
use std::path::PathBuf;

use sluicedb::{MappedFile, ReadableFile, WritableFile};

use super::directory::Node;
use super::{Effect, FileKind, Op, SimFs, injected, lock};

/// An open file. It keeps its bytes alive when its name is removed.
pub(super) struct SimFile {
    pub(super) fs: SimFs,
    pub(super) path: PathBuf,
    pub(super) kind: FileKind,
    pub(super) node: Node,
}

impl std::fmt::Debug for SimFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SimFile({})", self.path.display())
    }
}

impl WritableFile for SimFile {
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.fs.run_hooks(Op::Write, self.kind, data.len());
        let (mut state, effect) = self.fs.enter(Op::Write, &self.path, self.kind)?;
        let offset = offset as usize;
        let growth = (offset + data.len()).saturating_sub(lock(&self.node).len()) as u64;
        let full = state.budget.is_some() && growth > state.room();
        let fails = full || effect == Some(Effect::ShortWrite);
        if !fails && !state.image_due() {
            lock(&self.node).write(data, offset);
            return Ok(());
        }
        // A crash may come before, in the middle of, or after the hand-over; a failed call may have done a part.
        let part = state.rng.index(data.len() + 1);
        if !full {
            lock(&self.node).write(&data[..part], offset);
        }
        self.fs.take_image_if_due(&mut state);
        if full {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        if fails {
            return Err(io::Error::other(injected(Op::Write, &self.path)));
        }
        lock(&self.node).write(&data[part..], offset + part);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let (_state, effect) = self.fs.enter(Op::Sync, &self.path, self.kind)?;
        if effect == Some(Effect::LoseAndFail) {
            lock(&self.node).lose();
            return Err(io::Error::other(injected(Op::Sync, &self.path)));
        }
        lock(&self.node).sync();
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let (state, _) = self.fs.enter(Op::Allocate, &self.path, self.kind)?;
        let growth = len.saturating_sub(lock(&self.node).len() as u64);
        if state.budget.is_some() && growth > state.room() {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        if growth > 0 {
            lock(&self.node).set_len(len as usize);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let (_state, _) = self.fs.enter(Op::SetLen, &self.path, self.kind)?;
        lock(&self.node).set_len(len as usize);
        Ok(())
    }
}

impl ReadableFile for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let (mut state, effect) = self.fs.enter(Op::Read, &self.path, self.kind)?;
        let flipped = state.rng.index(buf.len().max(1));
        drop(state);
        let len = lock(&self.node).read(buf, offset as usize);
        if effect == Some(Effect::FlipBit) && len > 0 {
            buf[flipped % len] ^= 1;
        }
        Ok(len)
    }

    fn size(&self) -> io::Result<u64> {
        let (_state, _) = self.fs.enter(Op::Size, &self.path, self.kind)?;
        let len = lock(&self.node).len();
        Ok(len as u64)
    }

    fn map(&self) -> io::Result<Option<MappedFile>> {
        let (_state, _) = self.fs.enter(Op::Map, &self.path, self.kind)?;
        let bytes = lock(&self.node).bytes();
        if bytes.is_empty() { Ok(None) } else { MappedFile::copy_of(&bytes).map(Some) }
    }
}
