//! The bytes of segment headers and fragments are frozen, and hostile ones are refused without a panic.

use super::super::format::{
    Fragment, FragmentHeader, FragmentSeed, HEADER_LEN, HeaderFound, Kind, SegmentHeader, parse_fragment,
};
use super::*;

const HEADER: SegmentHeader = SegmentHeader {
    number: FileNumber(7),
    log_id: 0x0102_0304_0506_0708,
    previous: FileNumber(4),
    start: 0x10_0000,
    synced: 0xf_ffff,
    capacity: 0x100_0000,
};

/// Golden: a segment header.
#[test]
fn segment_header_bytes_are_frozen() {
    let bytes = HEADER.encode();
    assert_eq!(&bytes[..12], b"SLUICWAL\x01\0\0\0");
    assert_eq!(bytes[12..16], [186, 48, 87, 248]);
    assert_eq!(bytes[16..24], [7, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[24..32], [8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(bytes[32..40], [4, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[40..48], [0, 0, 0x10, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[48..56], [0xff, 0xff, 0x0f, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[56..64], [0, 0, 0, 1, 0, 0, 0, 0]);
    assert_eq!(SegmentHeader::parse(&bytes, HEADER.number, HEADER.log_id), HeaderFound::Begun(HEADER));
}

/// Golden: a fragment with and one without the synced length.
#[test]
fn fragment_bytes_are_frozen() {
    let seed = FragmentSeed::new(HEADER.log_id, HEADER.number);
    let with = FragmentHeader::seal(&seed, 64, Kind::Full, Some(0x1234), [b"ab", b"c"]);
    assert_eq!(with.as_bytes(), [135, 145, 128, 53, 3, 0, 0, 0x11, 0x34, 0x12, 0, 0, 0, 0, 0, 0]);
    let without = FragmentHeader::seal(&seed, 4096, Kind::Last, None, [b"", b"xyz"]);
    assert_eq!(without.as_bytes(), [74, 21, 12, 5, 3, 0, 0, 4]);
}

/// A fragment is found only under its own log id, segment and offset; every bit of it counts.
#[test]
fn a_fragment_belongs_to_its_place() {
    let seed = FragmentSeed::new(9, FileNumber(7));
    let mut bytes =
        FragmentHeader::seal(&seed, 100, Kind::First, Some(50), [b"ab", b"cd"]).as_bytes().to_vec();
    bytes.extend_from_slice(b"abcd");
    let expected = Fragment { kind: Kind::First, synced: Some(50), payload: b"abcd", len: 20 };
    assert_eq!(parse_fragment(&seed, 100, &bytes), Ok(expected));
    assert!(parse_fragment(&seed, 101, &bytes).is_err(), "another offset");
    assert!(parse_fragment(&FragmentSeed::new(9, FileNumber(8)), 100, &bytes).is_err(), "another segment");
    assert!(parse_fragment(&FragmentSeed::new(8, FileNumber(7)), 100, &bytes).is_err(), "another log");
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(parse_fragment(&seed, 100, &bytes).is_err(), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    for cut in 0..bytes.len() {
        assert!(parse_fragment(&seed, 100, &bytes[..cut]).is_err(), "cut at {cut}");
    }
}

/// A header of another number is a file not begun; a damaged one, or one of another log, is bad.
#[test]
fn headers_are_told_apart() {
    let parse = |bytes: &[u8], number| SegmentHeader::parse(bytes, FileNumber(number), HEADER.log_id);
    let bytes = HEADER.encode();
    assert_eq!(parse(&bytes, 9), HeaderFound::Prepared, "recycled");
    assert_eq!(parse(&[0; HEADER_LEN], 7), HeaderFound::Prepared);
    assert!(
        matches!(SegmentHeader::parse(&bytes, HEADER.number, 1), HeaderFound::Bad(_)),
        "another database"
    );
    for bit in 0..HEADER_LEN * 8 {
        let mut bytes = bytes;
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(parse(&bytes, 7), HeaderFound::Bad(_)), "bit {bit}");
    }
    assert!(matches!(parse(&bytes[..63], 7), HeaderFound::Bad(Corruption::Truncated { .. })));
}

/// Random bytes never parse as a fragment and never panic, whatever they claim to be.
#[test]
fn hostile_bytes_are_refused() {
    let seed = FragmentSeed::new(1, FileNumber(1));
    let mut rng = Rng(1);
    for _ in 0..20_000 {
        let len = rng.below(64) as usize;
        let mut bytes: Vec<_> = (0..len).map(|_| rng.next() as u8).collect();
        if len > 8 {
            bytes[7] = [1, 2, 3, 4, 5, 0x11, 0x15, 0xff][rng.below(8) as usize];
            bytes[6] &= 1;
        }
        assert!(parse_fragment(&seed, rng.below(1000), &bytes).is_err());
    }
}
