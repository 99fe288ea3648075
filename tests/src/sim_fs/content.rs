//! [`Content`]: the bytes of one simulated file, and which of them a power failure would spare.
//!
//! The unit is the 512-byte sector. `bytes` is what readers see (the page cache). A sector that was touched since
//! the last sync also remembers what the device holds; a clean one needs no second copy. A change of length
//! counts as unsynced, too. This file knows no names, no directories and no faults.

use std::collections::BTreeMap;

use super::CrashMode;
use crate::rng::Rng;

/// What a device writes whole or not at all.
pub const SECTOR: usize = 512;

/// One sector on the device; `None` where it was never written and reads as zeros.
type Sector = Option<Box<[u8; SECTOR]>>;

/// A sector that was written since the last sync.
#[derive(Debug, Clone)]
struct Dirty {
    durable: Sector,
    /// What a write-back between two writes may have left: some state after `durable` and before now.
    between: Option<Box<[u8; SECTOR]>>,
}

/// The bytes of one file.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    /// The file up to the last byte ever written; from there to `len` it is zeros, so that reserving space is cheap.
    written: Vec<u8>,
    len: usize,
    synced_len: usize,
    dirty: BTreeMap<usize, Dirty>,
    /// Sectors that a failed sync dropped: readers still see the new bytes, the device keeps the old ones, and no
    /// later sync changes that unless the sector is written again.
    lost: BTreeMap<usize, Sector>,
    touches: u64,
}

impl Content {
    /// A file that lies on the device as it is here.
    pub(super) fn durable(bytes: Vec<u8>) -> Self {
        Self { synced_len: bytes.len(), len: bytes.len(), written: bytes, ..Self::default() }
    }

    /// All bytes.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.written.clone();
        bytes.resize(self.len, 0);
        bytes
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Fills as much of `buf` as the file holds from `offset` on, and says how much.
    pub(super) fn read(&self, buf: &mut [u8], offset: usize) -> usize {
        let count = self.len.saturating_sub(offset).min(buf.len());
        let written = self.written.get(offset..).unwrap_or_default();
        let copied = written.len().min(count);
        buf[..copied].copy_from_slice(&written[..copied]);
        buf[copied..count].fill(0);
        count
    }

    /// Bytes from the start of the file that are surely on the device, as they are here.
    pub(super) fn synced_prefix(&self) -> usize {
        let first = |sectors: Option<&usize>| sectors.map_or(usize::MAX, |sector| sector * SECTOR);
        let dirty = first(self.dirty.keys().next()).min(first(self.lost.keys().next()));
        self.len.min(self.synced_len).min(dirty)
    }

    pub(super) fn write(&mut self, data: &[u8], offset: usize) {
        if data.is_empty() {
            return;
        }
        let end = offset + data.len();
        self.touch(offset, end);
        if self.written.len() < end {
            self.written.resize(end, 0);
        }
        self.written[offset..end].copy_from_slice(data);
        self.len = self.len.max(end);
    }

    pub(super) fn set_len(&mut self, len: usize) {
        if len < self.written.len() {
            self.touch(len, self.written.len());
            self.written.truncate(len);
        }
        self.len = len;
    }

    pub(super) fn sync(&mut self) {
        self.dirty.clear();
        self.synced_len = self.len;
    }

    /// A sync that failed: what it should have written is dropped, and later syncs no longer know of it.
    pub(super) fn lose(&mut self) {
        for (sector, dirty) in std::mem::take(&mut self.dirty) {
            self.lost.insert(sector, dirty.durable);
        }
    }

    /// What a crash leaves of this file.
    pub(super) fn crash(&self, mode: CrashMode, rng: &mut Rng) -> Self {
        let CrashMode::Keep { percent } = mode else {
            return match mode {
                CrashMode::Kill => self.clone(),
                _ => self.rest(self.synced_len, |_, dirty| Some(&dirty.durable)),
            };
        };
        let (low, high) = (self.synced_len.min(self.len()), self.synced_len.max(self.len()));
        let len = if rng.chance(percent) {
            self.len()
        } else if rng.chance(50) {
            self.synced_len
        } else {
            rng.range(low as u64, high as u64) as usize
        };
        let mut between = BTreeMap::new();
        let mut kept = std::collections::BTreeSet::new();
        for (&sector, dirty) in &self.dirty {
            if !rng.chance(percent) {
                continue;
            }
            match &dirty.between {
                Some(bytes) if rng.chance(25) => between.insert(sector, Some(bytes.clone())).map_or((), drop),
                _ => drop(kept.insert(sector)),
            }
        }
        self.rest(len, |sector, dirty| {
            if kept.contains(&sector) { None } else { Some(between.get(&sector).unwrap_or(&dirty.durable)) }
        })
    }

    /// A file of `len` bytes; `old` says what replaces a dirty sector, if anything. Lost sectors are lost.
    fn rest<'a>(&'a self, len: usize, old: impl Fn(usize, &'a Dirty) -> Option<&'a Sector>) -> Self {
        let old_sectors =
            self.dirty.keys().chain(self.lost.keys()).max().map_or(0, |last| (last + 1) * SECTOR);
        let mut bytes = self.written.clone();
        bytes.resize(old_sectors.max(bytes.len()), 0);
        for (&sector, dirty) in &self.dirty {
            if let Some(old) = old(sector, dirty) {
                put_sector(&mut bytes, sector, old);
            }
        }
        for (&sector, old) in &self.lost {
            put_sector(&mut bytes, sector, old);
        }
        bytes.truncate(len);
        Self { written: bytes, len, synced_len: len, ..Self::default() }
    }

    /// Remembers what the device holds of the sectors that overlap `from..to`, before they change.
    fn touch(&mut self, from: usize, to: usize) {
        for sector in from / SECTOR..to.div_ceil(SECTOR) {
            if let Some(durable) = self.lost.remove(&sector) {
                self.dirty.insert(sector, Dirty { durable, between: None });
                continue;
            }
            let now = get_sector(&self.written, sector);
            match self.dirty.get_mut(&sector) {
                None => drop(self.dirty.insert(sector, Dirty { durable: now, between: None })),
                Some(dirty) => {
                    self.touches += 1;
                    if self.touches.is_multiple_of(4) {
                        dirty.between = now;
                    }
                }
            }
        }
    }
}

fn get_sector(bytes: &[u8], sector: usize) -> Sector {
    let tail = bytes.get(sector * SECTOR..)?;
    if tail.is_empty() {
        return None;
    }
    let mut copy = Box::new([0; SECTOR]);
    let len = tail.len().min(SECTOR);
    copy[..len].copy_from_slice(&tail[..len]);
    Some(copy)
}

fn put_sector(bytes: &mut [u8], sector: usize, content: &Sector) {
    let Some(place) = bytes.get_mut(sector * SECTOR..) else { return };
    let len = place.len().min(SECTOR);
    match content {
        Some(content) => place[..len].copy_from_slice(&content[..len]),
        None => place[..len].fill(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was synced survives every crash; what was not is gone when everything unsynced is dropped.
    ///
    /// Method: random writes, cuts and syncs beside a copy made at each sync; a crash with all dropped is that
    /// copy, and under any share of kept sectors each byte is one that the file held there since that sync.
    #[test]
    fn a_crash_never_takes_what_was_synced() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let mut file = Content::default();
            let mut synced = Vec::new();
            let mut seen: Vec<Vec<u8>> = vec![Vec::new()];
            for _ in 0..rng.range(1, 30) {
                match rng.below(10) {
                    0 => file.set_len(rng.index(5_000)),
                    1 | 2 => {
                        file.sync();
                        synced = file.bytes();
                        seen.clear();
                    }
                    _ => {
                        let len = rng.index(1_200);
                        file.write(&rng.bytes(len), rng.index(4_000));
                    }
                }
                seen.push(file.bytes());
            }
            assert_eq!(file.crash(CrashMode::DropUnsynced, &mut rng).bytes(), synced, "seed {seed}");
            assert_eq!(file.crash(CrashMode::Kill, &mut rng).bytes(), file.bytes(), "seed {seed}");
            seen.push(synced);
            for percent in [0, 1, 50, 99, 100] {
                let image = file.crash(CrashMode::Keep { percent }, &mut rng);
                for (at, byte) in image.bytes().iter().enumerate() {
                    let known = seen.iter().any(|old| old.get(at).copied().unwrap_or(0) == *byte);
                    assert!(known, "seed {seed}, byte {at}: {byte} was never there");
                }
            }
        }
    }

    /// After a failed sync the dropped sectors stay dropped, whatever later syncs claim, until written again.
    #[test]
    fn lost_sectors_stay_lost() {
        let mut rng = Rng::new(1);
        let mut file = Content::default();
        file.write(&[1; 512], 0);
        file.sync();
        file.write(&[2; 1024], 0);
        file.lose();
        file.sync();
        assert_eq!(file.bytes(), [2; 1024], "readers see the page cache");
        let image = file.crash(CrashMode::Keep { percent: 100 }, &mut rng);
        assert_eq!(image.bytes(), [[1; 512], [0; 512]].concat());
        file.write(&[3], 0);
        file.sync();
        let image = file.crash(CrashMode::DropUnsynced, &mut rng);
        assert_eq!(image.bytes()[..2], [3, 2]);
        assert_eq!(file.synced_prefix(), 512);
    }
}
