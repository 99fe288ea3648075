//! Tables damaged in every way: each damage is found, or changes nothing; never a wrong value, never a panic.

use super::*;
use crate::error::Error;

/// What a table answers: all entries forward, backward, and by get. Damage shows as an error somewhere.
fn read_everything(
    fs: &MemFileSystem,
    summary: &SstSummary,
    mode: ReadMode,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let table = open_with(fs, PATH, summary, mode, Some(BlockCache::new(1 << 20)))?;
    for (user, trailer) in small_model().keys() {
        let seq = SequenceNumber::new(trailer.0 >> 8);
        if let Some((_, _, value)) = table.get(&seek_key(user, seq), BlockRead::USER)? {
            assert_eq!(*value, small_model()[&(user.clone(), *trailer)], "a wrong value");
        } else {
            panic!("an entry is gone");
        }
    }
    let mut iter = table.iter(BlockRead::USER);
    let forward = entries_forward(&mut iter)?;
    let mut backward = Vec::new();
    iter.seek_to_last()?;
    while iter.valid() {
        backward.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.prev()?;
    }
    backward.reverse();
    assert_eq!(forward, backward);
    Ok(forward)
}

/// Each flipped bit of a table is an error that names the file, or was in the padding and changes nothing.
/// (reliability R9)
#[test]
fn every_flipped_bit_is_found() {
    for compression in [Compression::None, Compression::Lz4] {
        let fs = MemFileSystem::new();
        let summary = write(&fs, PATH, &small_model(), options(256, 4, compression));
        let whole = fs.contents(Path::new(PATH));
        let expected = read_everything(&fs, &summary, ReadMode::Pread).unwrap();
        let mut harmless = 0;
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            fs.put(Path::new(PATH), damaged);
            for mode in [ReadMode::Mmap, ReadMode::Pread] {
                match read_everything(&fs, &summary, mode) {
                    Ok(entries) => {
                        assert_eq!(entries, expected, "bit {bit}, {mode:?}");
                        harmless += 1;
                    }
                    Err(Error::Corruption { path, offset, .. }) => {
                        assert_eq!(path, Path::new(PATH));
                        assert!(offset <= bit as u64 / 8, "bit {bit} of byte {} found at {offset}", bit / 8);
                    }
                    Err(other) => panic!("bit {bit}, {mode:?}: {other}"),
                }
            }
        }
        assert!(harmless <= 2 * 8 * 63, "{harmless} flips changed nothing, more than padding can explain");
    }
}

/// Without checksums damage may go unseen, but never panics or loops. (reliability R18)
#[test]
fn unverified_damage_never_panics() {
    let how = BlockRead { verify: false, ..BlockRead::BACKGROUND };
    for compression in [Compression::None, Compression::Lz4] {
        let fs = MemFileSystem::new();
        let summary = write(&fs, PATH, &small_model(), options(512, 4, compression));
        let whole = fs.contents(Path::new(PATH));
        let mut random = Random(42);
        for round in 0..4000 {
            let mut damaged = whole.clone();
            for _ in 0..=round % 3 {
                let at = random.below(whole.len() as u64) as usize;
                damaged[at] = random.next() as u8;
            }
            fs.put(Path::new(PATH), damaged);
            for mode in [ReadMode::Mmap, ReadMode::Pread] {
                let Ok(table) = open_with(&fs, PATH, &summary, mode, None) else { continue };
                for (user, trailer) in small_model().keys() {
                    let _ = table.get(&seek_key(user, SequenceNumber::new(trailer.0 >> 8)), how);
                }
                let mut iter = table.iter(how);
                let _ = entries_forward(&mut iter);
                let mut moved = iter.seek_to_last();
                while moved.is_ok() && iter.valid() {
                    moved = iter.prev();
                }
                let _ = iter.seek(b"key010........");
                let _ = iter.seek_for_prev(b"key011........");
            }
        }
    }
}

/// A table that is cut anywhere, or longer than the manifest says, does not open.
#[test]
fn a_cut_table_does_not_open() {
    let fs = MemFileSystem::new();
    let summary = write(&fs, PATH, &small_model(), options(256, 4, Compression::Lz4));
    let whole = fs.contents(Path::new(PATH));
    for len in (0..whole.len()).chain([whole.len() + 1]) {
        let mut cut = whole.clone();
        cut.resize(len, 0);
        fs.put(Path::new(PATH), cut);
        for mode in [ReadMode::Mmap, ReadMode::Pread] {
            let refused = open_with(&fs, PATH, &summary, mode, None).unwrap_err();
            assert!(matches!(refused, Error::Corruption { .. }), "{len} bytes: {refused}");
        }
        // The same without knowing the size.
        let unlisted = SstReader::open_unlisted(&fs, PathBuf::from(PATH), FileNumber(7));
        assert!(matches!(unlisted, Err(Error::Corruption { .. })), "{len} bytes");
    }
}

/// Two blocks exchanged, a block from another table, and two tables exchanged are all found. (reliability
/// R10)
#[test]
fn misplaced_blocks_and_files_are_found() {
    let fs = MemFileSystem::new();
    let made = options(256, 4, Compression::None);
    // Equal blocks but for numbers, so that they have equal lengths.
    let mut model = Model::new();
    for number in 0..200_u64 {
        let key = (format!("key{number:05}").into_bytes(), std::cmp::Reverse(1 << 8 | 1));
        model.insert(key, format!("value{number:05}").into_bytes());
    }
    let summary = write(&fs, PATH, &model, made);
    let other = write(&fs, "db/000008.sst", &model, made);
    assert_ne!(summary.unique_id, other.unique_id);

    let table = open_with(&fs, PATH, &summary, ReadMode::Pread, None).unwrap();
    let (one, two) = (table.index().handle(1).extent, table.index().handle(2).extent);
    assert_eq!(one.len, two.len);
    let range = |extent: format::Extent| extent.offset as usize..extent.end().unwrap() as usize;
    let whole = fs.contents(Path::new(PATH));
    let second = fs.contents(Path::new("db/000008.sst"));

    let mut swapped = whole.clone();
    swapped[range(one)].copy_from_slice(&whole[range(two)]);
    swapped[range(two)].copy_from_slice(&whole[range(one)]);
    let mut foreign = whole.clone();
    foreign[range(one)].copy_from_slice(&second[range(one)]);
    for damaged in [swapped, foreign] {
        fs.put(Path::new(PATH), damaged);
        for mode in [ReadMode::Mmap, ReadMode::Pread] {
            let table = open_with(&fs, PATH, &summary, mode, None).unwrap();
            let found = entries_forward(&mut table.iter(BlockRead::USER)).unwrap_err();
            assert!(matches!(found, Error::Corruption { offset, .. } if offset == one.offset), "{found}");
        }
    }
    assert_eq!(summary.size, other.size);
    fs.put(Path::new(PATH), second);
    let refused = open_with(&fs, PATH, &summary, ReadMode::Mmap, None).unwrap_err();
    assert!(matches!(refused, Error::Corruption { .. }), "{refused}");
}
