//! Golden bytes of the formats of a table.

use super::*;

const PLACE: BlockPlace = BlockPlace { file_id: 7, offset: 4096 };

/// The bytes of a block trailer are frozen.
#[test]
fn trailer_bytes_are_frozen() {
    let trailer = Trailer::seal(b"abc", Codec::Stored, 3, PLACE);
    assert_eq!(trailer.encode(), [0, 3, 0, 0, 0, 0xbc, 0x58, 0x70, 0x5e]);
}

/// A sealed block opens in its own place only, and not with any bit changed.
#[test]
fn a_block_opens_only_whole_and_in_its_place() {
    let mut sealed = b"abc".to_vec();
    sealed.extend(Trailer::seal(b"abc", Codec::Stored, 3, PLACE).encode());
    assert_eq!(unseal(&sealed, PLACE, true).unwrap().stored, b"abc");
    for elsewhere in [BlockPlace { file_id: 8, ..PLACE }, BlockPlace { offset: 4097, ..PLACE }] {
        assert!(unseal(&sealed, elsewhere, true).is_err(), "{elsewhere:?}");
    }
    for bit in 0..sealed.len() * 8 {
        let mut flipped = sealed.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(unseal(&flipped, PLACE, true).is_err(), "bit {bit}");
    }
    for len in 0..TRAILER_LEN {
        assert!(unseal(&sealed[..len], PLACE, false).is_err(), "{len} bytes");
    }
}

fn footer() -> Footer {
    Footer {
        unique_id: 0x0102_0304_0506_0708,
        file_size: 1000,
        index: Extent { offset: 500, len: 100 },
        filter: Extent { offset: 384, len: 65 },
        properties: Extent { offset: 609, len: 50 },
    }
}

/// The bytes of a footer are frozen.
#[test]
fn footer_bytes_are_frozen() {
    let mut expected = b"sluiceST".to_vec();
    expected.extend([1, 0, 0, 0]);
    expected.extend([8, 7, 6, 5, 4, 3, 2, 1]);
    expected.extend([0xe8, 3, 0, 0, 0, 0, 0, 0]);
    expected.extend([0xf4, 1, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0]);
    expected.extend([0x80, 1, 0, 0, 0, 0, 0, 0, 65, 0, 0, 0]);
    expected.extend([0x61, 2, 0, 0, 0, 0, 0, 0, 50, 0, 0, 0]);
    expected.extend(GOLDEN_FOOTER_CRC);
    assert_eq!(footer().encode().as_slice(), expected);
}

const GOLDEN_FOOTER_CRC: [u8; 4] = [215, 149, 154, 135];

/// A footer comes back as it was, and no flipped bit gets through.
#[test]
fn a_footer_opens_only_whole() {
    let bytes = footer().encode();
    assert_eq!(Footer::decode(&bytes).unwrap(), footer());
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(Footer::decode(&flipped).is_err(), "bit {bit}");
    }
}

/// The bytes of a block handle are frozen; cut or overlong ones are refused.
#[test]
fn handle_bytes_are_frozen() {
    let handle = BlockHandle { extent: Extent { offset: 300, len: 5 }, codec: Codec::Lz4 };
    let mut bytes = Vec::new();
    handle.encode(&mut bytes);
    assert_eq!(bytes, [0xac, 2, 5, 1]);
    assert_eq!(BlockHandle::decode(&bytes), Some(handle));
    assert_eq!(BlockHandle::decode(&bytes[..3]), None);
    assert_eq!(BlockHandle::decode(&[0xac, 2, 5, 1, 0]), None);
    assert_eq!(BlockHandle::decode(&[0xac, 2, 5, 2]), None, "a codec that does not exist");
}
