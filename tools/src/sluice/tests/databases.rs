//! The commands that look at databases, check them, and change them: `db-bench DB23`, `db-bench DB24`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sluicedb::{Compression, Db, DbOptions};
use tempfile::TempDir;

use super::super::run;

/// Exit code, stdout and stderr of a command line, words as given.
fn sluice(words: &[&str]) -> (u8, String, String) {
    let args: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = run(&args, &mut out, &mut err);
    (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

/// Stdout of a command line that succeeds and says nothing on stderr.
fn printed(words: &[&str]) -> String {
    let (code, out, err) = sluice(words);
    assert_eq!((code, err.as_str()), (0, ""), "{words:?}");
    out
}

/// Stderr of a command line that fails.
fn failed(words: &[&str]) -> String {
    let (code, out, err) = sluice(words);
    assert_eq!((code, out.as_str()), (1, ""), "{words:?}: {err}");
    err
}

/// A directory for a database, and `--db=` with its name.
fn directory() -> (TempDir, PathBuf, String) {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("db");
    let flag = format!("--db={}", path.display());
    (parent, path, flag)
}

/// A closed database of three tables in two families and a batch in the log.
fn build(path: &Path) {
    let mut options = DbOptions::default();
    options.column_family.compression = Compression::None;
    options.column_family.disable_auto_compactions = true;
    let db = Db::open(path, options.clone()).unwrap();
    let alpha = db.create_column_family("alpha", options.column_family).unwrap();
    for table in 0..2 {
        for number in 0..40 {
            db.put(format!("key{number:02}"), format!("{table} {}", "v".repeat(200))).unwrap();
        }
        db.flush().unwrap();
    }
    db.put_cf(&alpha, "a", "1").unwrap();
    db.flush().unwrap();
    db.put("in the log", "2").unwrap();
    db.delete_cf(&alpha, "a").unwrap();
    db.close().unwrap();
}

fn files(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(path).unwrap().flatten().filter(|entry| entry.path().is_file());
    entries
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).unwrap()))
        .collect()
}

/// The tables of the database, by name.
fn tables(path: &Path) -> Vec<PathBuf> {
    let names = files(path).into_keys().filter(|name| name.ends_with(".sst"));
    names.map(|name| path.join(name)).collect()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 16;
    std::fs::write(path, bytes).unwrap();
}

/// `db-bench DB23`, word by word.
#[test]
fn data_commands() {
    let (_parent, path, db) = directory();
    assert_eq!(printed(&["put", "--create-if-missing", &db, "a1", "b1"]), "OK\n");
    assert_eq!(printed(&["get", &db, "a1"]), "b1\n");
    assert_eq!(printed(&["scan", &db]), "a1 ==> b1\n");
    assert_eq!(printed(&["scan", &db, "--hex"]), "0x6131 ==> 0x6231\n");
    assert!(printed(&["scan", &db, "--count"]).ends_with("Keys in range: 1\n"));
    assert_eq!(printed(&["list-cf", &db]), format!("Column families in {}: \n{{default}}\n", path.display()));
    assert_eq!(printed(&["delete", &db, "a1"]), "OK\n");
    assert_eq!(failed(&["get", &db, "a1"]), "Failed: Get failed: NotFound: \n");
    let keys = printed(&["properties", &db, "rocksdb.estimate-num-keys"]);
    let number = keys.strip_prefix("rocksdb.estimate-num-keys: ").unwrap().trim_end();
    assert!(number.parse::<u64>().is_ok(), "{keys}");
}

/// Hex in and out, several pairs, ranges, bounds, counts, groups and JSON.
#[test]
fn forms_of_scan_and_put() {
    let (_parent, _, db) = directory();
    printed(&[
        "--db",
        db.strip_prefix("--db=").unwrap(),
        "put",
        "--create_if_missing",
        "a.1",
        "x",
        "a.2",
        "yy",
    ]);
    assert_eq!(printed(&["batchput", &db, "--hex", "0x62FF", "0x00"]), "OK\n");
    assert_eq!(printed(&["scan", &db, "--from=a.2", "--value-hex", "--to", "b"]), "a.2 ==> 0x7979\n");
    assert_eq!(printed(&["scan", &db, "--max-keys=1", "--no-value"]), "a.1\n");
    assert_eq!(
        printed(&["scan", &db, "--json"]),
        "{\"key\":\"a.1\",\"value\":\"x\"}\n{\"key\":\"a.2\",\"value\":\"yy\"}\n\
         {\"key_hex\":\"0x62FF\",\"value\":\"\\u0000\"}\n"
    );
    let sizes = printed(&["scan", &db, "--count-only"]);
    assert!(sizes.starts_with("Keys in range: 3\nValue size distribution:\nCount: 3 "), "{sizes}");
    assert_eq!(
        printed(&["scan", &db, "--count-delim", "--to=b"]),
        "a => count:2\tsize:9\nKeys in range: 2\n"
    );
    assert_eq!(
        printed(&["get", &db, "--key_hex", "0x612E32", "--json"]),
        "{\"key_hex\":\"0x612E32\",\"value\":\"yy\"}\n"
    );
    assert_eq!(printed(&["delete", &db, "--from", "a", "--to", "a.2"]), "OK\n");
    assert_eq!(printed(&["scan", &db, "--no-value", "--key-hex"]), "0x612E32\n0x62FF\n");
}

/// `db-bench DB24`: damage is found and named, by each command that should, and none of them changes any file.
#[test]
fn damage_is_found() {
    let (_parent, path, db) = directory();
    build(&path);
    let before = files(&path);
    assert_eq!(printed(&["checkconsistency", &db]), "OK\n");
    let bytes: usize = before
        .iter()
        .filter(|(name, _)| !["LOG", "LOG.old", "LOCK", "OPTIONS"].contains(&name.as_str()))
        .map(|(_, bytes)| bytes.len())
        .sum();
    let ok = printed(&["verify", &db]);
    assert_eq!(ok, format!("OK: 3 SSTs, 1 WAL segments, 1 manifest, {bytes} bytes\n"));

    let table = tables(&path)[0].clone();
    let (name, middle) = (table.display().to_string(), std::fs::metadata(&table).unwrap().len() as usize / 2);
    flip(&table, middle);
    let found = failed(&["verify", &db]);
    assert!(found.starts_with(&format!("{name} is corrupted: ")), "{found}");
    assert!(found.ends_with("Failed: Corruption: 1 of 6 files\n"), "{found}");
    let (code, json, _) = sluice(&["verify", &db, "--json"]);
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &report["ok"]), (1, &serde_json::Value::Bool(false)));
    assert_eq!(report["findings"][0]["file"], name.as_str());
    assert!(report["findings"][0]["offset"].as_u64().unwrap() <= middle as u64);
    assert!(failed(&["sst", &name, "--command=verify"]).starts_with(&format!("{name} is corrupted: ")));
    flip(&table, middle);

    let good = std::fs::read(&table).unwrap();
    std::fs::write(&table, &good[..good.len() - 1]).unwrap();
    let found = failed(&["checkconsistency", &db]);
    assert!(found.starts_with("Failed: Corruption: ") && found.contains(&name), "{found}");
    std::fs::write(&table, good).unwrap();
    assert_eq!(files(&path), before, "a command changed a file");
}

/// The log and the manifest as text and as JSON.
#[test]
fn dumps_of_log_and_manifest() {
    let (_parent, path, db) = directory();
    build(&path);
    let dump = printed(&["dump-wal", &db, "--header", "--print_value"]);
    let lines: Vec<&str> = dump.lines().collect();
    assert_eq!(lines[0], "Sequence,Count,ByteSize,Physical Offset,Key(s) : value ");
    let last: Vec<&str> = lines[lines.len() - 2..].to_vec();
    assert!(
        last[0].starts_with("82,1,") && last[0].ends_with(",PUT(0) : 0x696E20746865206C6F67 : 0x32 "),
        "{dump}"
    );
    assert!(last[1].starts_with("83,1,") && last[1].ends_with(",DELETE(1) : 0x61 "), "{dump}");
    let json = printed(&["dump_wal", path.to_str().unwrap(), "--json"]);
    let object: serde_json::Value = serde_json::from_str(json.lines().next_back().unwrap()).unwrap();
    assert_eq!((&object["sequence"], &object["entries"][0]["key"]), (&83.into(), &"a".into()));

    let dump = printed(&["dump-manifest", &db]);
    let numbers: Vec<String> = tables(&path)
        .iter()
        .map(|path| path.file_stem().unwrap().to_str().unwrap().trim_start_matches('0').to_owned())
        .collect();
    assert!(
        dump.starts_with("--------------- Column family \"default\"  (ID 0) --------------\nlog number: ")
    );
    assert!(dump.contains("--------------- Column family \"alpha\"  (ID 1) --------------\n"));
    let first = format!("\n {}:", numbers[0]);
    assert!(
        dump.contains(&first) && dump.contains("['key00' seq:1, type:1 .. 'key39' seq:40, type:1]\n"),
        "{dump}"
    );
    assert_eq!(dump.matches("--- level ").count(), 24, "two families of 12 levels");
    let end = dump.lines().next_back().unwrap();
    assert!(
        end.starts_with("next_file_number ")
            && end.contains(" last_sequence 81  prev_log_number 0 max_column_family 1 "),
        "{end}"
    );
    let verbose = printed(&["manifest_dump", &db, "--verbose"]);
    assert!(verbose.starts_with("VersionEdit {\n") && verbose.contains("\n  AddFile: 0 "), "{verbose}");
    assert_eq!(
        printed(&["dump-manifest", &db, "--json"]).lines().count(),
        4,
        "the manifest and three tables"
    );
}

/// Tables by themselves: entries, properties, and what is a table.
#[test]
fn tables_by_themselves() {
    let (_parent, path, db) = directory();
    build(&path);
    let names: Vec<String> = tables(&path).iter().map(|path| path.display().to_string()).collect();
    assert_eq!(printed(&["sst", &db]), "", "check is silent unless something is wrong");
    let scan = printed(&["sst", &names[2], "--command=scan", "--show-properties"]);
    assert_eq!(
        scan.lines().take(6).collect::<Vec<_>>(),
        [
            &format!("Process {}", names[2]),
            "Sst file format: block-based",
            "from [] to []",
            "'a' seq:81, type:1 => 1",
            "Table Properties:",
            "------------------------------"
        ]
    );
    for line in ["  # entries: 1\n", "  column family ID: 1\n", "  column family name: alpha\n"] {
        assert!(scan.contains(line), "{scan}");
    }
    let some = printed(&[
        "sst",
        &names[0],
        "--command=scan",
        "--from=key05",
        "--to=key30",
        "--read_num=2",
        "--json",
    ]);
    assert_eq!(some.lines().count(), 2);
    assert!(some.starts_with("{\"key\":\"key05\",\"sequence\":6,\"type\":1,"), "{some}");
    let ok = printed(&["sst", &names[0], "--command=verify"]);
    assert_eq!(ok, format!("Process {}\nThe file is ok\n", names[0]));
    let live = printed(&["sst", path.to_str().unwrap(), "--live"]);
    let expected = format!(
        "===== Column Family: default =====\nLive SST Files:\n---------- level 0 ----------\n{}\n{}\nLive Blob Files:\n{}\n",
        names[1],
        names[0],
        "-".repeat(30)
    );
    assert!(live.starts_with(&expected), "{live}");
    let log = path.join("LOG").display().to_string();
    let err = failed(&["sst", &log, "--command=identify"]);
    assert!(err.starts_with(&format!("{log} is corrupted: ")), "{err}");
    assert!(printed(&["sst", &names[0], "--command=identify"]).ends_with(" is a valid SST file\n"));
}

/// A database that does not open is made one that does; what was lost is said, and is in lost/.
#[test]
fn repair_makes_it_open() {
    let (_parent, path, db) = directory();
    build(&path);
    std::fs::remove_file(path.join("CURRENT")).unwrap();
    let table = tables(&path)[0].clone();
    flip(&table, 100);
    let refused = failed(&["get", &db, "key00"]);
    assert!(refused.starts_with("Failed: Invalid argument: ") && refused.contains("repair"), "{refused}");
    let (code, out, err) = sluice(&["repair", &db, "--verbose"]);
    assert_eq!((code, out.as_str()), (0, "OK\n"));
    let name = table.file_name().unwrap().to_str().unwrap();
    assert!(
        err.contains("CURRENT") && err.contains(name) && err.contains("column families: default, alpha"),
        "{err}"
    );
    assert!(path.join("lost").join(name).is_file());
    assert!(printed(&["get", &db, "key39"]).starts_with("1 vvv"));
    assert_eq!(printed(&["get", &db, "in the log"]), "2\n");
    assert!(printed(&["verify", &db]).starts_with("OK: "));
}

/// Commands that only look work on a database that somebody has open, and say who; those that write are refused.
#[test]
fn a_database_in_use() {
    let (parent, path, db) = directory();
    build(&path);
    let holder = Db::open(&path, DbOptions::default()).unwrap();
    holder.put("fresh", "1").unwrap();
    let note = format!("note: process {} has {} open", std::process::id(), path.display());
    for words in [
        &["get", &db, "fresh"][..],
        &["scan", &db],
        &["list-cf", &db],
        &["checkconsistency", &db],
        &["verify", &db],
        &["dump-wal", &db],
        &["dump-manifest", &db],
        &["properties", &db],
        &["sst", path.to_str().unwrap(), "--live"],
    ] {
        let (code, out, err) = sluice(words);
        assert_eq!(code, 0, "{words:?}: {err}");
        assert!(!out.is_empty() && err.starts_with(&note), "{words:?}: {err}");
    }
    let copy = format!("--checkpoint-dir={}", parent.path().join("copy").display());
    for words in
        [&["put", &db, "a", "1"][..], &["delete", &db, "a"], &["repair", &db], &["checkpoint", &db, &copy]]
    {
        let refused = failed(words);
        assert!(
            refused.starts_with("Failed: IO error: ") && refused.contains("held by another opener"),
            "{refused}"
        );
    }
    holder.close().unwrap();
    assert_eq!(printed(&["checkpoint", &db, &copy]), "OK\n");
    let of_copy = format!("--db={}", parent.path().join("copy").display());
    assert_eq!(printed(&["get", &of_copy, "fresh"]), "1\n");
    assert!(failed(&["checkpoint", &db, &copy]).contains("is not empty"));
}

/// Every property that is listed is answered, and one that is not known is refused by name.
#[test]
fn properties_are_all_answered() {
    let (_parent, path, db) = directory();
    build(&path);
    let all = printed(&["properties", &db]);
    assert_eq!(all.lines().count(), 32);
    assert!(all.contains("rocksdb.num-files-at-level0: 2\n"), "{all}");
    assert_eq!(
        printed(&["properties", &db, "--column-family=alpha", "rocksdb.num-files-at-level0"]),
        "rocksdb.num-files-at-level0: 1\n"
    );
    assert!(failed(&["properties", &db, "no.such"]).contains("no.such"));
    assert!(failed(&["get", &db, "--column-family=beta", "a"]).contains("'beta'"));
}

/// What cannot be followed exits with 2 and prints nothing; what cannot be done exits with 1.
#[test]
fn exit_codes() {
    let (_parent, path, db) = directory();
    for words in [
        &["get", &db][..],
        &["put", &db, "a"],
        &["put", &db, "a", "1", "b"],
        &["scan"],
        &["delete", &db],
        &["sst"],
        &["get", &db, "--hex", "61"],
    ] {
        let (code, out, err) = sluice(words);
        assert_eq!((code, out.as_str()), (2, ""), "{words:?}");
        assert!(!err.is_empty(), "{words:?}");
    }
    for words in [
        &["get", &db, "a"][..],
        &["verify", &db],
        &["repair", &db],
        &["put", &db, "a", "1"],
        &["list-cf", &db],
        &["dump-wal", &db],
        &["dump-manifest", &db],
    ] {
        let err = failed(words);
        assert!(err.starts_with("Failed: ") && err.contains(path.to_str().unwrap()), "{words:?}: {err}");
    }
    assert!(!path.exists(), "nothing was made");
}
