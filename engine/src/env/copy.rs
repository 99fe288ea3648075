//! Copies of files, made with what a [`FileSystem`] offers.

use std::io;
use std::path::Path;

use super::FileSystem;

/// Bytes copied at once.
const PIECE: usize = 1 << 20;

/// Copies the first `len` bytes of `from`, or what there is of them, into the new file `to` and syncs it. Its name needs the
/// directory's sync.
pub(crate) fn copy_file(fs: &dyn FileSystem, from: &Path, to: &Path, len: u64) -> io::Result<()> {
    let source = fs.open_readable(from)?;
    let target = fs.create(to)?;
    let mut piece = vec![0; PIECE.min(usize::try_from(len).unwrap_or(PIECE))];
    let mut at = 0;
    while at < len {
        let want = piece.len().min(usize::try_from(len - at).unwrap_or(PIECE));
        let read = source.read_at(&mut piece[..want], at)?;
        if read == 0 {
            break;
        }
        target.write_at(&piece[..read], at)?;
        at += read as u64;
    }
    target.sync()
}

/// Makes `to` a second name of the immutable file `from`; where the file system cannot do that, a synced copy of it.
pub(crate) fn link_or_copy(fs: &dyn FileSystem, from: &Path, to: &Path) -> io::Result<()> {
    use io::ErrorKind::{CrossesDevices, TooManyLinks, Unsupported};
    match fs.hard_link(from, to) {
        Err(error) if matches!(error.kind(), CrossesDevices | TooManyLinks | Unsupported) => {
            copy_file(fs, from, to, fs.size(from)?)
        }
        done => done,
    }
}
