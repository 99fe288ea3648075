//! Step 3: the batches of the log that the tables lack become tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Repair;
use super::tables::{Found, finish_table, new_table};
use crate::batch::format::BatchReader;
use crate::error::{Corruption, Error, Result};
use crate::filename::wal_path;
use crate::inspect::{LogItem, headers_in_order};
use crate::key::{SequenceNumber, ValueType, compare_internal, make_internal};
use crate::version::{FileMeta, FileNumber};
use crate::wal::{RecordPlace, Scanned, SegmentHeader, damage_at, scan, segment_numbers, stream_position};

/// Bytes of entries that are held in memory before they become a table.
const TABLE_BYTES: u64 = 64 << 20;

/// Internal keys and values, in the order of the log.
type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Writes what the log holds and the tables lack into new tables.
pub(super) fn read_batches(repair: &mut Repair<'_>, found: &Found) -> Result<Vec<(u32, Arc<FileMeta>)>> {
    let (headers, mut dropped) = segments(repair)?;
    let (fs, dir) = (Arc::clone(&repair.fs), repair.dir);
    let mut log = Log { entries: BTreeMap::new(), bytes: 0, last: SequenceNumber::ZERO, tables: Vec::new() };
    let recovered = repair.state.wal.recovered.filter(|_| repair.manifest_is_sound);
    scan(&*fs, dir, &headers, &mut |scanned| {
        match scanned {
            Scanned::Record { place, bytes } => {
                // Behind the place where an earlier recovery ended the log is somebody else's.
                let is_left_out = recovered.is_some_and(|end| {
                    end.segment == place.segment
                        && stream_position(&headers, place).is_some_and(|at| at >= end.stream_bytes)
                });
                if !is_left_out && let Err(found_damage) = log.take(repair, found, bytes) {
                    dropped.push(damage_at(dir, place, found_damage).to_string());
                }
            }
            Scanned::Headless { .. } => {} // its beginning was needed no more
            Scanned::Broken { place } => dropped.push(line(repair, place, "a batch that is not whole")),
            Scanned::Gap { place, found } => dropped.push(damage_at(dir, place, found).to_string()),
            Scanned::Tail { .. } => {}
        }
        if log.bytes >= TABLE_BYTES { log.write_tables(repair) } else { Ok(()) }
    })?;
    log.write_tables(repair)?;
    repair.report.dropped.append(&mut dropped);
    Ok(log.tables)
}

/// Through which sequence the tables hold all of a family. Memtables become tables in order, so an entry that is not newer
/// than the newest in any table is in one, or was compacted away. Where a table is lost, that says nothing.
fn flushed_through(repair: &Repair<'_>, found: &Found, family: u32) -> SequenceNumber {
    if found.incomplete.contains(&family) {
        return SequenceNumber::ZERO;
    }
    let known = repair.state.families.get(&family).map(|family| family.flushed_through);
    let placed = found.placed.get(&family).into_iter().flatten().map(|(_, file)| file.largest_seq);
    let loose = found.loose.get(&family).into_iter().flatten().map(|file| file.largest_seq);
    placed.chain(loose).chain(known).max().unwrap_or_default()
}

fn line(repair: &Repair<'_>, place: RecordPlace, what: &str) -> String {
    format!("{} at byte {}: {what}", wal_path(repair.dir, place.segment).display(), place.offset)
}

/// The segments that are the log, in order, and what is wrong with others.
fn segments(repair: &Repair<'_>) -> Result<(Vec<SegmentHeader>, Vec<String>)> {
    let facts = &repair.state.wal;
    let is_needed = |number: &FileNumber| {
        let left_out = facts.recovered.is_some_and(|end| *number > end.segment && *number < end.next_segment);
        !repair.manifest_is_sound
            || *number >= facts.first_needed && !left_out && !facts.quarantined.contains(number)
    };
    let mut numbers = segment_numbers(&*repair.fs, repair.dir)?;
    numbers.retain(is_needed);
    let mut dropped = Vec::new();
    let headers = headers_in_order(&*repair.fs, repair.dir, &numbers, &mut |item| {
        match item {
            LogItem::Damage(damage) => dropped.push(damage.to_string()),
            LogItem::Note { path, what, .. } if what.contains("skipped") => {
                dropped.push(format!("{}: {what}", path.display()));
            }
            _ => {}
        }
        Ok::<(), Error>(())
    })?;
    Ok((headers, dropped))
}

/// What was read so far and is not in a table.
struct Log {
    entries: BTreeMap<u32, Entries>,
    bytes: u64,
    last: SequenceNumber,
    tables: Vec<(u32, Arc<FileMeta>)>,
}

impl Log {
    /// Takes over the entries of one batch that the tables lack; all or none.
    fn take(&mut self, repair: &mut Repair<'_>, found: &Found, record: &[u8]) -> Result<(), Corruption> {
        let mut reader = BatchReader::new(record)?;
        let mut seq = reader.first;
        if seq <= self.last {
            let expected = format!("above {}, the one before", self.last);
            return Err(Corruption::bad("sequence of a logged batch", expected, seq));
        }
        let mut batch = Vec::new();
        while let Some(entry) = reader.next()? {
            batch.push((entry.family, seq, entry.value_type, entry.key, entry.value));
            seq = seq.after(1);
        }
        for (family, seq, value_type, key, value) in batch {
            self.last = seq;
            if seq <= flushed_through(repair, found, family) || repair.is_dropped(family) {
                continue;
            }
            repair.know_family(family, None);
            self.add(family, seq, value_type, key, value);
        }
        repair.report.log_batches += 1;
        Ok(())
    }

    fn add(&mut self, family: u32, seq: SequenceNumber, value_type: ValueType, key: &[u8], value: &[u8]) {
        let mut internal = Vec::with_capacity(key.len() + crate::key::TRAILER_LEN);
        make_internal(&mut internal, key, seq, value_type);
        self.bytes += (internal.len() + value.len()) as u64;
        self.entries.entry(family).or_default().push((internal, value.to_vec()));
    }

    fn write_tables(&mut self, repair: &mut Repair<'_>) -> Result<()> {
        self.bytes = 0;
        for (family, mut entries) in std::mem::take(&mut self.entries) {
            entries.sort_unstable_by(|(a, _), (b, _)| compare_internal(a, b));
            let name = repair.names.get(&family).cloned().unwrap_or_default();
            let number = repair.numbers.take();
            let mut table = new_table(repair, family, &name, number)?;
            for (key, value) in &entries {
                table.add(key, value)?;
            }
            self.tables.push((family, finish_table(repair, number, table)?));
        }
        Ok(())
    }
}
