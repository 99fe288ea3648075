//! R21: what a directory may hold (V6).

use std::path::Path;

use sluicedb::{ColumnFamily, Db};

use crate::cases::eventually;
use crate::sim_fs::SimFs;

/// V6: once the background is idle, the directory holds one manifest, the tables that versions name, WAL segments and
/// the few fixed files; nothing temporary, nothing orphaned. Removal has a thread of its own, so it is waited for.
///
/// # Errors
///
/// A sentence with the names that are there.
pub fn check(db: &Db, families: &[ColumnFamily], fs: &SimFs, directory: &Path) -> Result<(), String> {
    db.wait_for_background_work().map_err(|error| format!("waiting: {error}"))?;
    eventually(|| look(db, families, fs, directory))
}

fn look(db: &Db, families: &[ColumnFamily], fs: &SimFs, directory: &Path) -> Result<(), String> {
    let mut live = 0;
    for family in families {
        let levels = db.level_stats(family).map_err(|error| format!("level_stats: {error}"))?;
        live += levels.iter().map(|level| level.files as usize).sum::<usize>();
    }
    let names: Vec<String> =
        fs.files(directory).iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect();
    let tables = names.iter().filter(|name| name.ends_with(".sst")).count();
    let manifests = names.iter().filter(|name| name.starts_with("MANIFEST-")).count();
    let known = |name: &String| {
        let fixed = ["CURRENT", "LOCK", "LOG", "LOG.old", "OPTIONS"];
        fixed.contains(&name.as_str())
            || name.ends_with(".sst")
            || name.ends_with(".log")
            || name.starts_with("MANIFEST-")
    };
    if tables == live && manifests == 1 && names.iter().all(known) {
        return Ok(());
    }
    let log = fs.bytes(&directory.join("LOG"));
    let log = String::from_utf8_lossy(&log).into_owned();
    Err(format!(
        "V6 tidy: {live} live tables, but the directory holds {}; the LOG says\n{log}",
        names.join(" ")
    ))
}
