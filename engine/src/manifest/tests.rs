//! Tests of the manifest on a file system in memory: frozen bytes, prefixes under truncation, refusals under damage,
//! and failures of every step.

use super::recover::RecoveredManifest;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::current::Current;
use super::format::{encode_header, parse_edit, put_record};
use super::*;
use crate::env::FileSystem;
use crate::error::{Corruption, Error};
use crate::filename::{CURRENT, manifest_name};
use crate::key::SequenceNumber;
use crate::version::{FileMeta, FileNumber};
use crate::wal::test_fs::TestFs;
use crate::wal::{RecoveredEnd, SyncedPosition, WalEdit};

const DIR: &str = "/db";

fn seq(number: u64) -> SequenceNumber {
    SequenceNumber::new(number)
}

fn file(number: u64) -> Arc<FileMeta> {
    Arc::new(FileMeta {
        number: FileNumber(number),
        unique_id: 0x1122_3344,
        size: 300,
        smallest: (*b"a\x01\x05\0\0\0\0\0\0").into(),
        largest: (*b"b\x01\x06\0\0\0\0\0\0").into(),
        smallest_seq: seq(5),
        largest_seq: seq(6),
        entries: 2,
        tombstones: 1,
        created_micros: 128,
        being_compacted: AtomicBool::new(false),
    })
}

/// An edit that uses every field.
fn full_edit() -> VersionEdit {
    VersionEdit {
        next_file_number: Some(FileNumber(10)),
        last_sequence: Some(seq(300)),
        next_family_id: Some(2),
        wal: WalEdit {
            log_id: Some(0x0102),
            first_needed: Some(FileNumber(4)),
            recovered: Some(RecoveredEnd {
                segment: FileNumber(4),
                stream_bytes: 200,
                next_segment: FileNumber(7),
            }),
            synced: Some(SyncedPosition { segment: FileNumber(7), stream_bytes: 201, seq: seq(299) }),
            quarantined: vec![FileNumber(3)],
        },
        families: vec![
            FamilyEdit {
                id: 1,
                created: Some("hot".to_owned()),
                dropped: false,
                flushed_through: Some(seq(9)),
                removed: vec![(1, FileNumber(5))],
                added: vec![(2, file(6))],
            },
            FamilyEdit { dropped: true, ..FamilyEdit::new(0) },
        ],
    }
}

/// Bytes of the record of a [`small_edit`].
const SMALL_RECORD: usize = 10;

/// A small edit that says its own number.
fn small_edit(number: u64) -> VersionEdit {
    VersionEdit { last_sequence: Some(seq(number)), ..VersionEdit::default() }
}

fn numbers(recovered: &RecoveredManifest) -> Vec<u64> {
    recovered.edits.iter().map(|edit| edit.last_sequence.unwrap().get()).collect()
}

fn path(number: u64) -> PathBuf {
    Path::new(DIR).join(manifest_name(FileNumber(number)))
}

/// A manifest of full state 0 and the edits 1 to `count`.
fn manifest(count: u64) -> (TestFs, ManifestLog) {
    let fs = TestFs::new();
    let state = [small_edit(0)];
    let log = ManifestLog::create(Arc::new(fs.clone()), Path::new(DIR), FileNumber(5), &state).unwrap();
    for number in 1..=count {
        log.lock().append_and_sync(&small_edit(number)).unwrap();
    }
    (fs, log)
}

fn read(fs: &TestFs) -> Result<RecoveredManifest, Error> {
    recover(fs, Path::new(DIR))
}

/// Golden: the header and a record with every field; and the record parses to what went in.
#[test]
fn manifest_bytes_are_frozen() {
    let header = encode_header(FileNumber(5));
    assert_eq!(header[..12], *b"SLUICMAN\x01\0\0\0");
    assert_eq!(header[12..], [99, 15, 124, 237, 5, 0, 0, 0, 0, 0, 0, 0]);
    let mut record = Vec::new();
    put_record(&mut record, FileNumber(5), 24, &[full_edit()]);
    let family_1 = [
        &[1, 1, 3][..],
        b"hot",
        &[3, 9, 4, 1, 5, 5, 2, 6, 0x44, 0x33, 0x22, 0x11, 0, 0, 0, 0, 0xac, 2, 9],
        b"a\x01\x05\0\0\0\0\0\0\x09b\x01\x06\0\0\0\0\0\0",
        &[5, 6, 2, 1, 0x80, 1],
    ]
    .concat();
    let body = [
        &[
            1, 10, 2, 0xac, 2, 3, 2, 4, 2, 1, 0, 0, 0, 0, 0, 0, 5, 4, 6, 4, 0xc8, 1, 7, 7, 7, 0xc9, 1, 0xab,
            2, 8, 3,
        ][..],
        &[9, family_1.len() as u8],
        &family_1,
        &[9, 2, 0, 2],
    ]
    .concat();
    assert_eq!(record[8..], body);
    assert_eq!(record[4..8], (body.len() as u32).to_le_bytes());
    assert_eq!(record[..4], [27, 89, 173, 137]);
    assert_eq!(format!("{:?}", parse_edit(&body).unwrap()), format!("{:?}", full_edit()));
    assert_eq!(
        Current { manifest: FileNumber(5), synced_bytes: 1234 }.encode(),
        "MANIFEST-000005 1234 4fa5ddba\n"
    );
}

/// A tag that this version does not know refuses, by number; so do fields cut short, at every byte.
#[test]
fn unknown_and_broken_fields_are_refused() {
    let refused = parse_edit(&[10, 1]).unwrap_err().to_string();
    assert!(refused.contains("found 10"), "{refused}");
    let refused = parse_edit(&[9, 2, 0, 6]).unwrap_err().to_string();
    assert!(refused.contains("family tag") && refused.contains("found 6"), "{refused}");
    let mut record = Vec::new();
    put_record(&mut record, FileNumber(5), 24, &[full_edit()]);
    let whole = format!("{:?}", full_edit());
    for cut in 0..record.len() - 8 {
        if let Ok(edit) = parse_edit(&record[8..8 + cut]) {
            assert_ne!(format!("{edit:?}"), whole, "cut at {cut}");
        }
        for change in [1, 0x80, 0xff] {
            let mut bytes = record[8..].to_vec();
            bytes[cut] ^= change;
            let _ = parse_edit(&bytes); // no panic
        }
    }
}

/// What was committed comes back, in order, also after a power failure; several edits of one commit as one.
#[test]
fn edits_come_back() {
    let (fs, log) = manifest(5);
    log.lock().append_and_sync_all(&[small_edit(6), full_edit(), small_edit(7)]).unwrap();
    let recovered = read(&fs.crash(|| false)).unwrap();
    assert_eq!(numbers(&recovered), [0, 1, 2, 3, 4, 5, 7]);
    assert_eq!(recovered.edits[6].next_file_number, Some(FileNumber(10)));
    assert_eq!((recovered.number, recovered.bytes_dropped), (FileNumber(5), 0));
    assert_eq!(log.lock().size(), fs.bytes(&path(5)).len() as u64);
}

/// Every truncation gives a prefix of the edits, except below what CURRENT says was synced: that is refused.
#[test]
fn every_truncation_is_a_prefix() {
    let (fs, _log) = manifest(4);
    let len = fs.bytes(&path(5)).len();
    let state_len = {
        let (fs, _log) = manifest(0);
        fs.bytes(&path(5)).len()
    };
    for cut in 0..=len {
        let copy = fs.copy();
        copy.edit(&path(5), |bytes| bytes.truncate(cut));
        match read(&copy) {
            Ok(recovered) => {
                assert!(cut >= state_len, "cut at {cut}");
                assert!((0..5).collect::<Vec<_>>().starts_with(&numbers(&recovered)));
                assert_eq!(
                    recovered.edits.len(),
                    1 + (cut - state_len) / ((len - state_len) / 4),
                    "cut at {cut}"
                );
            }
            Err(Error::Corruption { path: named, .. }) => {
                assert!(cut < state_len && named == path(5), "cut at {cut}");
            }
            Err(error) => panic!("cut at {cut}: {error}"),
        }
    }
}

/// Every bit flip refuses, naming file and record, or, in the last record, which nothing proves, drops that.
#[test]
fn every_bit_flip_is_found() {
    let (fs, _log) = manifest(4);
    let len = fs.bytes(&path(5)).len();
    let last = len - SMALL_RECORD;
    for bit in 0..len * 8 {
        let copy = fs.copy();
        copy.edit(&path(5), |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        match read(&copy) {
            Ok(recovered) => {
                assert!(bit / 8 >= last, "bit {bit}: {:?}", numbers(&recovered));
                assert_eq!(numbers(&recovered), [0, 1, 2, 3], "bit {bit}");
                assert_eq!(recovered.bytes_dropped, (len - last) as u64);
            }
            Err(Error::Corruption { path: named, offset, .. }) => {
                assert!(bit / 8 < last && named == path(5) && offset <= bit as u64 / 8, "bit {bit}");
            }
            Err(error) => panic!("bit {bit}: {error}"),
        }
    }
}

/// Of a manifest that was just written every bit counts: CURRENT says that all of it was synced.
#[test]
fn every_bit_of_full_state_is_proved() {
    let (fs, _log) = manifest(0);
    for bit in 0..fs.bytes(&path(5)).len() * 8 {
        let copy = fs.copy();
        copy.edit(&path(5), |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        let refused = read(&copy).unwrap_err();
        let place = if bit / 8 < 24 { 0 } else { 24 };
        assert!(
            matches!(&refused, Error::Corruption { offset, .. } if *offset == place),
            "bit {bit}: {refused}"
        );
    }
}

/// Records that were swapped, or come from another manifest, do not pass for those that belong there.
#[test]
fn misplaced_records_are_refused() {
    let (fs, _log) = manifest(4);
    let bytes = fs.bytes(&path(5));
    let a = bytes.len() - 3 * SMALL_RECORD;
    fs.edit(&path(5), |bytes| bytes[a..a + 2 * SMALL_RECORD].rotate_left(SMALL_RECORD));
    assert!(matches!(read(&fs), Err(Error::Corruption { offset, .. }) if offset == a as u64));

    let (fs, log) = manifest(4);
    log.lock().roll_over(FileNumber(8), &[small_edit(0)]).unwrap();
    fs.edit(&path(8), |here| here.extend_from_slice(&bytes[here.len()..]));
    assert_eq!(numbers(&read(&fs).unwrap()), [0], "the records of 5, at their own offsets, are none of 8");
    fs.edit(&path(8), |here| *here = bytes);
    assert!(matches!(read(&fs), Err(Error::Corruption { offset: 0, .. })), "the header says 5");
}

/// Damage to CURRENT names CURRENT, bit by bit and cut by cut; without it there is no database, and without its manifest
/// the manifest is missing.
#[test]
fn damage_to_current_is_named() {
    let (fs, _log) = manifest(1);
    let current = Path::new(DIR).join(CURRENT);
    let len = fs.bytes(&current).len();
    let check = |change: &dyn Fn(&mut Vec<u8>), what: &str| {
        let copy = fs.copy();
        copy.edit(&current, |bytes| change(bytes));
        match read(&copy) {
            Err(Error::Corruption { path: named, .. }) => assert_eq!(named, current, "{what}"),
            other => panic!("{what}: {other:?}"),
        }
    };
    for bit in 0..len * 8 {
        check(&|bytes| bytes[bit / 8] ^= 1 << (bit % 8), &format!("bit {bit}"));
    }
    for cut in 0..len {
        check(&|bytes| bytes.truncate(cut), &format!("cut at {cut}"));
    }
    check(&|bytes| bytes.extend_from_slice(b"\n"), "longer");
    check(&|bytes| *bytes = vec![b'M'; 1 << 20], "much longer");

    let copy = fs.copy();
    copy.remove(&path(5)).unwrap();
    assert!(matches!(
        read(&copy),
        Err(Error::Corruption { path: named, found: Corruption::Missing { .. }, .. }) if named == path(5)
    ));
    let copy = fs.copy();
    copy.remove(&current).unwrap();
    assert!(matches!(read(&copy), Err(Error::NotADatabase { why, .. }) if why.contains("MANIFEST-000005")));
    assert!(matches!(read(&TestFs::new()), Err(Error::NotADatabase { .. })));
}

/// `reliability U19`: after a failed append or sync nothing goes behind it; a new manifest from full state goes on.
#[test]
fn nothing_is_appended_behind_a_failure() {
    for call in ["write", "sync"] {
        for kind in [ErrorKind::StorageFull, ErrorKind::Other] {
            let (fs, log) = manifest(3);
            fs.fail(call, "MANIFEST-000005", 1, kind);
            let error = log.lock().append_and_sync(&small_edit(4)).unwrap_err();
            assert_eq!(matches!(error, Error::NoSpace { .. }), kind == ErrorKind::StorageFull);
            let calls = (fs.calls("write", "000005"), fs.calls("sync", "000005"));
            assert_eq!(
                log.lock().append_and_sync(&small_edit(5)).unwrap_err().to_string(),
                error.to_string()
            );
            assert_eq!((fs.calls("write", "000005"), fs.calls("sync", "000005")), calls, "{call}: no retry");
            let mut guard = log.lock();
            assert!(guard.failure().is_some());
            assert_eq!(guard.roll_over(FileNumber(8), &[small_edit(3)]).unwrap(), FileNumber(5));
            guard.append_and_sync(&small_edit(6)).unwrap();
            let recovered = read(&fs.crash(|| false)).unwrap();
            assert_eq!((recovered.number, numbers(&recovered)), (FileNumber(8), vec![3, 6]));
        }
    }
}

/// Whatever call of a roll-over fails, an open finds the state of before or after, which are the same, and a later
/// roll-over succeeds.
#[test]
fn a_failed_roll_over_leaves_a_whole_database() {
    for call in ["create", "write", "sync", "sync_dir", "rename"] {
        for nth in 0..3 {
            let (fs, log) = manifest(3);
            fs.fail_nth(call, nth);
            let mut guard = log.lock();
            let rolled = guard.roll_over(FileNumber(8), &[small_edit(3)]);
            for keep in [false, true] {
                let recovered = read(&fs.crash(|| keep)).unwrap();
                assert_eq!(numbers(&recovered).last(), Some(&3), "{call} {nth}");
            }
            if rolled.is_err() && guard.failure().is_none() {
                guard.append_and_sync(&small_edit(4)).unwrap();
                assert_eq!(numbers(&read(&fs.crash(|| false)).unwrap()), [0, 1, 2, 3, 4], "{call} {nth}");
            }
            fs.heal();
            guard.roll_over(FileNumber(9), &[small_edit(4)]).unwrap();
            guard.append_and_sync(&small_edit(5)).unwrap();
            assert_eq!(numbers(&read(&fs.crash(|| false)).unwrap()), [4, 5], "{call} {nth}");
        }
    }
}

/// A crash while an edit is being synced keeps it or not, and never refuses, whichever sectors arrive.
#[test]
fn an_edit_in_flight_is_there_or_not() {
    for seed in 0..300_u64 {
        let (fs, log) = manifest(2);
        let mut edit = small_edit(3);
        edit.families = (0..40)
            .map(|_| FamilyEdit { added: vec![(1, file(6)), (2, file(7))], ..FamilyEdit::new(1) })
            .collect();
        fs.fail("sync", "MANIFEST-000005", 1, ErrorKind::Other);
        log.lock().append_and_sync_all(&[edit.clone(), edit]).unwrap_err();
        let mut bits = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let crashed = fs.crash(|| {
            bits = bits.rotate_left(7).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            bits >> 40 & 3 != 0
        });
        let found = numbers(&read(&crashed).unwrap());
        assert!(found == [0, 1, 2] || found == [0, 1, 2, 3], "seed {seed}: {found:?}");
    }
}
