//! R5: a process that writes is killed with SIGKILL; what it noted as acknowledged is there, on the real disk.
//!
//! The program that asks for a round starts itself as the child: its `main` (or a test) calls [`child`] first. The child
//! writes from several threads and notes each acknowledgement in a file that outlives it; the parent kills it at a moment
//! that the child does not choose, reopens, and looks for every noted write. Rounds that share a directory recover what
//! earlier ones left.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use sluicedb::{ColumnFamily, ColumnFamilyOptions, Db, DbOptions, DiskFileSystem, WriteBatch};

use crate::knobs;
use crate::rng::{Rng, splitmix64};

const CHILD: &str = "SLUICEDB_KILL_CHILD";
const SEED: &str = "SLUICEDB_KILL_SEED";
const THREADS: u64 = 4;
/// Acknowledgements of thread 0 between two lines to the parent.
const LINE_EVERY: u64 = 200;

/// The child's half: writes until it is killed. False, at once, in a process that no parent of this kind has started.
///
/// # Panics
///
/// When a call fails that nothing disturbs; so does the parent's half.
pub fn child() -> bool {
    let Some(directory) = std::env::var_os(CHILD) else { return false };
    let seed = std::env::var(SEED).expect("the parent names a seed").parse().expect("a number");
    write_until_killed(Path::new(&directory), seed);
    true
}

/// One round in `directory`: starts the child with `args`, kills it once it has said `lines` lines, reopens and verifies.
///
/// # Panics
///
/// When an acknowledged write is missing, or a call fails.
pub fn round(directory: &Path, seed: u64, lines: u64, args: &[&str]) {
    kill_after(directory, seed, lines, args);
    verify(directory, seed);
}

/// One case of the long run: three rounds in a directory of its own.
///
/// # Errors
///
/// No directory.
///
/// # Panics
///
/// As [`round`].
pub fn run(seed: u64) -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut rng = Rng::new(seed);
    for _ in 0..3 {
        let lines = rng.range(1, 12);
        round(directory.path(), rng.next_u64() >> 12, lines, &[]);
    }
    Ok(())
}

fn options(seed: u64) -> (DbOptions, ColumnFamilyOptions) {
    let mut rng = Rng::new(seed);
    let options = knobs::db_options(&mut rng, Arc::new(DiskFileSystem), 5);
    let family = knobs::family_options(&mut rng, 5);
    (options, family)
}

fn open(directory: &Path, seed: u64) -> (Db, ColumnFamily) {
    let (options, family) = options(seed);
    let db = Db::open_cf(directory.join("db"), options, [("last", family)]).expect("the database opens");
    let last = db.column_family("last").expect("the family is there");
    (db, last)
}

fn ack_path(directory: &Path, thread: u64) -> PathBuf {
    directory.join(format!("acknowledged-{thread}"))
}

/// The number of the last write of `thread` that was acknowledged.
fn acknowledged(directory: &Path, thread: u64) -> u64 {
    std::fs::read(ack_path(directory, thread))
        .map_or(0, |bytes| bytes.try_into().map_or(0, u64::from_le_bytes))
}

/// The key of a thread's `number`-th write: in random order, like fillrandom.
fn key(thread: u64, number: u64) -> Vec<u8> {
    let mut state = number * THREADS + thread;
    let mixed = splitmix64(&mut state);
    format!("{mixed:016x}-{thread}-{number}").into_bytes()
}

fn value(thread: u64, number: u64) -> Vec<u8> {
    let mut rng = Rng::new(number << 3 | thread);
    let len = rng.skewed(400) as usize;
    rng.bytes(len)
}

fn write_until_killed(directory: &Path, seed: u64) {
    let (db, last) = open(directory, seed);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, last) = (&db, &last);
            scope.spawn(move || {
                let mut options = OpenOptions::new();
                let file: File = options
                    .create(true)
                    .truncate(false)
                    .write(true)
                    .open(ack_path(directory, thread))
                    .expect("the file opens");
                let found = db.get_cf(last, thread.to_le_bytes()).expect("a read");
                let mut number =
                    found.map_or(0, |bytes| u64::from_le_bytes(bytes[..].try_into().expect("8 bytes")));
                // One more than was noted may have been there: what is there now is owed from now on.
                note(&file, number);
                loop {
                    number += 1;
                    let mut batch = WriteBatch::new();
                    batch.put(key(thread, number), value(thread, number));
                    batch.put_cf(last, thread.to_le_bytes(), number.to_le_bytes());
                    db.write(batch).expect("a write");
                    note(&file, number);
                    if thread == 0 && number.is_multiple_of(LINE_EVERY) {
                        let mut out = std::io::stdout();
                        writeln!(out, "{number}").and_then(|()| out.flush()).expect("the parent listens");
                    }
                }
            });
        }
    });
}

/// A killed process leaves what it handed to the kernel, so the note outlives it.
fn note(file: &File, number: u64) {
    file.write_all_at(&number.to_le_bytes(), 0).expect("the note is written");
}

/// Starts the child, lets it write until it has printed `lines` lines, and kills it.
fn kill_after(directory: &Path, round: u64, lines: u64, args: &[&str]) {
    let mut child = Command::new(std::env::current_exe().expect("this binary"))
        .args(args)
        .env(CHILD, directory)
        .env(SEED, round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the child starts");
    let out = BufReader::new(child.stdout.take().expect("a pipe"));
    let numbers = out.lines().map_while(Result::ok).filter(|line| line.parse::<u64>().is_ok());
    assert_eq!(
        numbers.take(lines as usize).count() as u64,
        lines,
        "round {round}: the child ended by itself"
    );
    child.kill().expect("the child is killed");
    child.wait().expect("the child is gone");
}

fn verify(directory: &Path, round: u64) {
    let (db, last) = open(directory, round + 100);
    for thread in 0..THREADS {
        let noted = acknowledged(directory, thread);
        let found = db.get_cf(&last, thread.to_le_bytes()).expect("a read");
        let there = found.map_or(0, |bytes| u64::from_le_bytes(bytes[..].try_into().expect("8 bytes")));
        assert!(
            there == noted || there == noted + 1,
            "round {round}, thread {thread}: {noted} writes were acknowledged, {there} are there"
        );
        for number in 1..=there {
            let found = db.get(key(thread, number)).expect("a read");
            let expected = value(thread, number);
            assert_eq!(
                found.as_deref(),
                Some(&expected[..]),
                "round {round}, thread {thread}, write {number}"
            );
        }
        let next = db.get(key(thread, there + 1)).expect("a read");
        assert_eq!(next.as_deref(), None, "round {round}, thread {thread}: half a batch is there");
    }
    db.close().expect("the database closes");
}
