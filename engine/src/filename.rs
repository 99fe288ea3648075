//! The names of a database's files: number to name, and back.
//!
//! | name              | what                                                        |
//! |-------------------|-------------------------------------------------------------|
//! | `CURRENT`         | the name of the live manifest                               |
//! | `MANIFEST-000005` | version edits                                               |
//! | `000007.log`      | a WAL segment                                               |
//! | `000009.sst`      | a table                                                     |
//! | `OPTIONS`         | the options of the last open, as text                       |
//! | `LOCK`, `LOG`     | the opener's lock; what the database says of itself         |
//! | `CURRENT.tmp`, `OPTIONS.tmp` | a file being made; never read, removed at open   |

use std::path::{Path, PathBuf};

use crate::version::FileNumber;

pub(crate) const CURRENT: &str = "CURRENT";
pub(crate) const LOCK: &str = "LOCK";
pub(crate) const LOG: &str = "LOG";
pub(crate) const LOG_OLD: &str = "LOG.old";
pub(crate) const OPTIONS: &str = "OPTIONS";
pub(crate) const CURRENT_TMP: &str = "CURRENT.tmp";
pub(crate) const OPTIONS_TMP: &str = "OPTIONS.tmp";

pub(crate) fn sst_path(dir: &Path, number: FileNumber) -> PathBuf {
    dir.join(format!("{number}.sst"))
}

pub(crate) fn wal_path(dir: &Path, number: FileNumber) -> PathBuf {
    dir.join(format!("{number}.log"))
}

pub(crate) fn manifest_name(number: FileNumber) -> String {
    format!("MANIFEST-{number}")
}

/// What a name in a database's directory stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    Current,
    Lock,
    Log,
    Options,
    Manifest(FileNumber),
    Wal(FileNumber),
    Sst(FileNumber),
    Temporary,
}

/// The kind of file that `name` names; `None` for a name that is not ours.
pub(crate) fn parse(name: &str) -> Option<FileKind> {
    let number = |digits: &str| {
        let plain = digits.len() >= 6 && digits.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| digits.parse().ok().map(FileNumber)).flatten()
    };
    match name {
        CURRENT => Some(FileKind::Current),
        LOCK => Some(FileKind::Lock),
        LOG | LOG_OLD => Some(FileKind::Log),
        OPTIONS => Some(FileKind::Options),
        CURRENT_TMP | OPTIONS_TMP => Some(FileKind::Temporary),
        _ => {
            if let Some(digits) = name.strip_prefix("MANIFEST-") {
                number(digits).map(FileKind::Manifest)
            } else if let Some(digits) = name.strip_suffix(".log") {
                number(digits).map(FileKind::Wal)
            } else {
                number(name.strip_suffix(".sst")?).map(FileKind::Sst)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names come back as what they were made from; anything else is not ours.
    #[test]
    fn names_round_trip() {
        for number in [FileNumber(1), FileNumber(999_999), FileNumber(12_345_678)] {
            let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
            assert_eq!(parse(&name(sst_path(Path::new("d"), number))), Some(FileKind::Sst(number)));
            assert_eq!(parse(&name(wal_path(Path::new("d"), number))), Some(FileKind::Wal(number)));
            assert_eq!(parse(&manifest_name(number)), Some(FileKind::Manifest(number)));
        }
        for foreign in ["", "7.sst", "00000x.log", "MANIFEST-", "+00001.sst", "000001.sst.bak", "notes.txt"] {
            assert_eq!(parse(foreign), None, "{foreign}");
        }
    }
}
