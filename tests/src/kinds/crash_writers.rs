//! R1, R2 with several writers: commit order is not known from outside, but parts of it are.
//!
//! Each writer numbers its batches; a batch writes the number under the writer's key to two families, and a filler.
//! From outside it is known that a batch that was acknowledged before another began comes before it. So after a crash:
//! both families agree (V2); no writer has less than it was promised (V3); and if a batch is there, everything that
//! was acknowledged before it began is there, too (V1).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sluicedb::{ColumnFamily, Db, Durability, ReadOptions, WriteBatch, WriteOptions};

use crate::knobs;
use crate::rng::Rng;
use crate::sim_fs::{CrashMode, SimFs};

const WRITERS: usize = 4;
const DIRECTORY: &str = "/db";

/// A batch, as its writer saw it.
struct Written {
    /// Per writer, how many batches had been acknowledged when this one began.
    before: [u64; WRITERS],
    /// Acknowledged as synced, before the crash.
    owed: bool,
}

fn open(rng: &mut Rng, fs: &SimFs) -> Result<(Db, [ColumnFamily; 2]), String> {
    let options = knobs::db_options(rng, Arc::new(fs.clone()), 4);
    let twin = knobs::family_options(rng, 4);
    let db = Db::open_cf(DIRECTORY, options, [("twin", twin)]).map_err(|error| format!("open: {error}"))?;
    let twin = db.column_family("twin").ok_or("the family is missing")?;
    let families = [db.default_column_family(), twin];
    Ok((db, families))
}

/// Runs one case.
///
/// # Errors
///
/// The rule that was broken, and how.
pub fn run(seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let fs = SimFs::new(seed);
    let mode = match rng.below(4) {
        0 => CrashMode::DropUnsynced,
        1 => CrashMode::Kill,
        _ => CrashMode::Keep { percent: *rng.pick(&[10, 50, 90]) },
    };
    let batches = rng.range(5, 120); // fewer than 256: a number is one byte of a key
    fs.crash_at(rng.range(1, WRITERS as u64 * batches), mode, rng.next_u64());
    let (db, families) = open(&mut rng, &fs)?;
    let acknowledged: [AtomicU64; WRITERS] = Default::default();
    let written: Result<Vec<Vec<Written>>, String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (mut rng, db, families, fs, acknowledged) =
                    (rng.fork(), &db, &families, &fs, &acknowledged);
                scope.spawn(move || write(writer, batches, &mut rng, db, families, fs, mode, acknowledged))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a writer panicked".to_owned())?).collect()
    });
    let written = written?;
    let image = fs.take_image().unwrap_or_else(|| fs.crash(mode, rng.next_u64()));
    drop((db, families));

    let (db, families) = open(&mut rng, &image)?;
    let there = judge(&db, &families, &written)?;
    db.close().map_err(|error| format!("close: {error}"))?;
    drop((db, families));
    let (db, families) = open(&mut rng, &image)?;
    let again = judge(&db, &families, &written)?;
    if there == again { Ok(()) } else { Err(format!("V4: {there:?} batches, then {again:?}")) }
}

#[expect(clippy::too_many_arguments, reason = "what a thread of this case shares")]
fn write(
    writer: usize,
    batches: u64,
    rng: &mut Rng,
    db: &Db,
    families: &[ColumnFamily; 2],
    fs: &SimFs,
    mode: CrashMode,
    acknowledged: &[AtomicU64; WRITERS],
) -> Result<Vec<Written>, String> {
    let mut written = Vec::new();
    for number in 1..=batches {
        let durability = *rng.pick(&[Durability::Buffered, Durability::Os, Durability::Os, Durability::Sync]);
        // Acquire: what another writer counted was acknowledged to it before this batch begins.
        let before = std::array::from_fn(|other| acknowledged[other].load(Ordering::Acquire));
        let mut batch = WriteBatch::new();
        for family in families {
            batch.put_cf(family, [writer as u8], number.to_be_bytes());
            batch.put_cf(family, [writer as u8, number as u8], vec![7; rng.skewed(1_000) as usize]);
        }
        db.write_opt(batch, &WriteOptions::durability(durability))
            .map_err(|error| format!("write: {error}"))?;
        let crashed = fs.crashed();
        let enough =
            durability == Durability::Sync || (mode == CrashMode::Kill && durability == Durability::Os);
        written.push(Written { before, owed: enough && !crashed });
        acknowledged[writer].store(number, Ordering::Release);
        if crashed {
            break;
        }
    }
    Ok(written)
}

/// Checks V1 to V3; how many batches of each writer are there.
fn judge(db: &Db, families: &[ColumnFamily; 2], written: &[Vec<Written>]) -> Result<[u64; WRITERS], String> {
    let read = |family: &ColumnFamily, key: &[u8]| -> Result<Option<u64>, String> {
        let found = db.get_cf(family, key).map_err(|error| format!("get: {error}"))?;
        Ok(found.and_then(|value| Some(u64::from_be_bytes(value.get(..8)?.try_into().ok()?))))
    };
    let mut there = [0; WRITERS];
    for (writer, count) in there.iter_mut().enumerate() {
        let found = [read(&families[0], &[writer as u8])?, read(&families[1], &[writer as u8])?];
        if found[0] != found[1] {
            return Err(format!("V2 whole: writer {writer} has {found:?} in the two families"));
        }
        *count = found[0].unwrap_or(0);
    }
    for family in families {
        let all = crate::model::read_family(db, family, &ReadOptions::default())?;
        let expected: u64 = there.iter().map(|count| count + u64::from(*count > 0)).sum();
        if all.len() as u64 != expected {
            return Err(format!("V1/V2: {} keys for {there:?} batches, expected {expected}", all.len()));
        }
    }
    for (writer, batches) in written.iter().enumerate() {
        let owed = batches.iter().rposition(|batch| batch.owed).map_or(0, |last| last as u64 + 1);
        if there[writer] < owed {
            return Err(format!(
                "V3 floor: writer {writer} was owed {owed} batches, {} are there",
                there[writer]
            ));
        }
        let Some(last) = there[writer].checked_sub(1).and_then(|index| batches.get(index as usize)) else {
            continue;
        };
        if let Some(other) = (0..WRITERS).find(|other| there[*other] < last.before[*other]) {
            return Err(format!(
                "V1 prefix: batch {} of writer {writer} is there, which began when writer {other} had {} acknowledged, \
                 but only {} of those are",
                there[writer], last.before[other], there[other]
            ));
        }
    }
    Ok(there)
}
