//! The oracle: what the database must hold, from what it was told.
//!
//! [`History`] keeps every logged batch in commit order and answers the question that a crash asks: is what was
//! recovered the effect of exactly the first k batches, over all column families (`reliability` V1, V2), and is k
//! large enough for what was acknowledged (V3)? It knows no files and no formats; a single writer fills it, so call
//! order is commit order.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use sluicedb::{ColumnFamily, Db, Durability, Error, ReadOptions, WriteBatch};

/// The live keys of one column family.
pub type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// The live keys of each column family, in the order in which the history names them.
pub type State = Vec<Map>;

/// One put or, without a value, delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Index of the column family in the history's list.
    pub family: usize,
    /// The key.
    pub key: Vec<u8>,
    /// The new value; none deletes.
    pub value: Option<Vec<u8>>,
}

/// The batch that makes `changes` to a database whose families are `handles`.
pub fn to_batch(changes: &[Change], handles: &[ColumnFamily]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for Change { family, key, value } in changes {
        match value {
            Some(value) => batch.put_cf(&handles[*family], key, value),
            None => batch.delete_cf(&handles[*family], key),
        };
    }
    batch
}

fn apply(state: &mut State, changes: &[Change]) {
    for Change { family, key, value } in changes {
        match value {
            Some(value) => drop(state[*family].insert(key.clone(), value.clone())),
            None => drop(state[*family].remove(key)),
        }
    }
}

#[derive(Debug, Clone)]
struct Logged {
    changes: Vec<Change>,
    /// The sequence of its last entry, once known.
    last_sequence: u64,
    /// It failed in a way that may have left it in the log.
    doubtful: bool,
}

/// Every batch in commit order, and how many of them a crash must leave.
#[derive(Debug, Clone)]
pub struct History {
    families: Vec<String>,
    batches: Vec<Logged>,
    floor_power: usize,
    floor_kill: usize,
}

impl History {
    /// No batch yet, over families of these names.
    pub fn new(families: &[&str]) -> Self {
        let families = families.iter().map(|name| (*name).to_owned()).collect();
        Self { families, batches: Vec::new(), floor_power: 0, floor_kill: 0 }
    }

    /// The names of the families.
    pub fn families(&self) -> &[String] {
        &self.families
    }

    /// Batches so far.
    pub fn len(&self) -> usize {
        self.batches.len()
    }

    /// Whether there is no batch yet.
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// A batch is about to be written.
    pub fn begin(&mut self, changes: Vec<Change>) {
        self.batches.push(Logged { changes, last_sequence: u64::MAX, doubtful: false });
    }

    /// The batch begun last was refused and left no trace.
    pub fn refused(&mut self) {
        self.batches.pop();
    }

    /// The batch begun last failed and may or may not be found after a reopen; one begun behind it never is, unless a
    /// later one succeeds, and then this one is not.
    pub fn doubtful(&mut self) {
        if self.batches.iter().any(|batch| batch.doubtful) {
            self.batches.pop();
        } else if let Some(last) = self.batches.last_mut() {
            last.doubtful = true;
        }
    }

    /// The batch begun last ended with this error: it left no trace, or it is [`doubtful`](Self::doubtful).
    pub fn failed(&mut self, error: &Error) {
        match error {
            Error::Io { .. } | Error::NoSpace { .. } => self.doubtful(),
            _ => self.refused(),
        }
    }

    /// The batch begun last was acknowledged at this level, before the crash; `last_sequence` is its last entry's.
    pub fn acknowledged(&mut self, durability: Durability, last_sequence: u64) {
        self.batches.retain(|batch| !batch.doubtful);
        let count = self.batches.len();
        self.batches[count - 1].last_sequence = last_sequence;
        match durability {
            Durability::None | Durability::Buffered => {}
            Durability::Os => self.floor_kill = count,
            Durability::Sync => self.synced(),
        }
    }

    /// Everything acknowledged so far is now in the kernel's hands.
    pub fn handed_over(&mut self) {
        self.floor_kill = self.acknowledged_count();
    }

    /// Everything acknowledged so far is now durable.
    pub fn synced(&mut self) {
        self.floor_kill = self.acknowledged_count();
        self.floor_power = self.floor_kill;
    }

    /// The same batches, none of them owed.
    pub fn unsynced(mut self) -> Self {
        (self.floor_kill, self.floor_power) = (0, 0);
        self
    }

    /// Batches but for a doubtful one at the end.
    pub fn acknowledged_count(&self) -> usize {
        self.batches.iter().take_while(|batch| !batch.doubtful).count()
    }

    /// One family was flushed: a flush is not installed before the log is synced up to its last entry.
    pub fn flushed(&mut self, family: usize) {
        let touches =
            |batch: &Logged| !batch.doubtful && batch.changes.iter().any(|change| change.family == family);
        self.raise(self.batches.iter().rposition(touches).map_or(0, |last| last + 1));
    }

    /// The database called everything up to `sequence` durable.
    pub fn durable(&mut self, sequence: u64) {
        self.raise(self.batches.iter().take_while(|batch| batch.last_sequence <= sequence).count());
    }

    fn raise(&mut self, floor: usize) {
        self.floor_kill = self.floor_kill.max(floor);
        self.floor_power = self.floor_power.max(floor);
    }

    /// Recovery has settled on the first `count` batches: history goes on from there, and none of them may be lost
    /// any more (V4).
    pub fn settle(&mut self, count: usize) {
        self.batches.truncate(count);
        self.batches.iter_mut().for_each(|batch| batch.doubtful = false);
        self.synced();
    }

    /// Batches that a crash of this kind must leave.
    pub fn floor(&self, killed: bool) -> usize {
        if killed { self.floor_kill } else { self.floor_power }
    }

    /// The state after the first `count` batches.
    pub fn state_after(&self, count: usize) -> State {
        let mut state = vec![Map::new(); self.families.len()];
        self.batches[..count].iter().for_each(|batch| apply(&mut state, &batch.changes));
        state
    }

    /// The state after all batches.
    pub fn state(&self) -> State {
        self.state_after(self.batches.len())
    }

    /// How many batches `recovered` is the exact effect of: V1 and V2. `killed` says which floor of V3 holds.
    /// Where several counts give the same state, the largest is meant.
    ///
    /// # Errors
    ///
    /// A sentence that says which rule is broken and how.
    pub fn check(&self, recovered: &State, killed: bool) -> Result<usize, String> {
        let floor = self.floor(killed);
        let candidates = self.counts_with_hash(hash_state(recovered));
        let found = candidates.into_iter().rev().find(|count| self.state_after(*count) == *recovered);
        match found {
            Some(count) if count >= floor => Ok(count),
            Some(count) => Err(format!(
                "V3 floor: recovered the first {count} of {} batches, but {floor} were owed; batch {count} was {}",
                self.len(),
                show_changes(&self.batches[count].changes),
            )),
            None => Err(format!(
                "V1/V2 prefix: recovered no prefix of {} batches (floor {floor}); {}",
                self.len(),
                self.nearest(recovered, floor)
            )),
        }
    }

    /// The counts whose state has this hash: exact comparison is left for these.
    fn counts_with_hash(&self, wanted: u64) -> Vec<usize> {
        let mut live: BTreeMap<(usize, &[u8]), u64> = BTreeMap::new();
        let mut hash = 0_u64;
        let mut counts = Vec::new();
        if hash == wanted {
            counts.push(0);
        }
        for (index, batch) in self.batches.iter().enumerate() {
            for Change { family, key, value } in &batch.changes {
                let old = match value {
                    Some(value) => {
                        let new = hash_entry(*family, key, value);
                        hash ^= new;
                        live.insert((*family, key), new)
                    }
                    None => live.remove(&(*family, &key[..])),
                };
                hash ^= old.unwrap_or(0);
            }
            if hash == wanted {
                counts.push(index + 1);
            }
        }
        counts
    }

    /// The count whose state differs from `recovered` in the fewest keys, and those keys.
    fn nearest(&self, recovered: &State, floor: usize) -> String {
        let mut state = self.state_after(0);
        let mut best = (usize::MAX, 0, State::new());
        for count in 0..=self.len() {
            if count > 0 {
                apply(&mut state, &self.batches[count - 1].changes);
            }
            let differing = differences(&state, recovered).len();
            if differing < best.0 || (differing == best.0 && count <= floor) {
                best = (differing, count, state.clone());
            }
        }
        let (differing, count, state) = best;
        let lines = differences(&state, recovered);
        let lines: Vec<&str> = lines.iter().take(6).map(String::as_str).collect();
        format!("nearest is {count} with {differing} differing keys: {}", lines.join("; "))
    }
}

/// Each key at which two states differ, as text.
pub fn differences(expected: &State, found: &State) -> Vec<String> {
    let mut lines = Vec::new();
    for (family, (expected, found)) in expected.iter().zip(found).enumerate() {
        let keys: std::collections::BTreeSet<&Vec<u8>> = expected.keys().chain(found.keys()).collect();
        for key in keys {
            let (wanted, got) = (expected.get(key), found.get(key));
            if wanted != got {
                let key = show(key);
                lines.push(format!(
                    "family {family} key {key}: expected {}, found {}",
                    opt(wanted),
                    opt(got)
                ));
            }
        }
    }
    lines
}

fn opt(value: Option<&Vec<u8>>) -> String {
    value.map_or_else(|| "nothing".to_owned(), |value| show(value))
}

/// Bytes as short text.
pub fn show(bytes: &[u8]) -> String {
    let head = bytes[..bytes.len().min(24)].escape_ascii();
    if bytes.len() > 24 { format!("\"{head}\"... ({} bytes)", bytes.len()) } else { format!("\"{head}\"") }
}

fn show_changes(changes: &[Change]) -> String {
    let one = |change: &Change| {
        format!("family {} key {} = {}", change.family, show(&change.key), opt(change.value.as_ref()))
    };
    changes.iter().take(3).map(one).collect::<Vec<_>>().join(", ")
}

fn hash_entry(family: usize, key: &[u8], value: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (family, key, value).hash(&mut hasher);
    hasher.finish()
}

fn hash_state(state: &State) -> u64 {
    let entries =
        state.iter().enumerate().flat_map(|(family, map)| map.iter().map(move |entry| (family, entry)));
    entries.fold(0, |hash, (family, (key, value))| hash ^ hash_entry(family, key, value))
}

/// All live entries of `family`, read by iterating forwards, checked against iterating backwards.
///
/// # Errors
///
/// A sentence when a read fails or the two directions disagree.
pub fn read_family(db: &Db, family: &ColumnFamily, options: &ReadOptions) -> Result<Map, String> {
    let text = |error: Error| format!("reading family {}: {error}", family.name());
    let mut map = Map::new();
    let mut last: Option<Vec<u8>> = None;
    let mut iter = db.iter_cf_opt(family, options).map_err(text)?;
    iter.seek_to_first().map_err(text)?;
    while iter.valid() {
        let key = iter.key().to_vec();
        if last.as_ref().is_some_and(|last| *last >= key) {
            return Err(format!("family {}: key {} does not ascend", family.name(), show(&key)));
        }
        map.insert(key.clone(), iter.value().to_vec());
        last = Some(key);
        iter.next().map_err(text)?;
    }
    let mut backwards = Map::new();
    iter.seek_to_last().map_err(text)?;
    while iter.valid() {
        backwards.insert(iter.key().to_vec(), iter.value().to_vec());
        iter.prev().map_err(text)?;
    }
    let lines = differences(&vec![map.clone()], &vec![backwards]);
    if lines.is_empty() {
        Ok(map)
    } else {
        Err(format!("backwards differs from forwards: {}", lines.join("; ")))
    }
}

/// All live entries of `families`.
///
/// # Errors
///
/// As [`read_family`].
pub fn read_state(db: &Db, families: &[ColumnFamily]) -> Result<State, String> {
    families.iter().map(|family| read_family(db, family, &ReadOptions::default())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(family: usize, key: &str, value: &str) -> Change {
        Change { family, key: key.into(), value: Some(value.into()) }
    }

    fn history() -> History {
        let mut history = History::new(&["a", "b"]);
        history.begin(vec![put(0, "x", "1"), put(1, "x", "1")]);
        history.acknowledged(Durability::Sync, 2);
        history.begin(vec![put(0, "y", "2")]);
        history.acknowledged(Durability::Os, 3);
        history.begin(vec![put(1, "x", "3")]);
        history.acknowledged(Durability::Buffered, 4);
        history
    }

    /// Exactly the prefixes pass, and only from the floor on.
    #[test]
    fn only_prefixes_pass() {
        let history = history();
        for count in 0..=3 {
            let state = history.state_after(count);
            assert_eq!(history.check(&state, false).ok(), (count >= 1).then_some(count));
            assert_eq!(history.check(&state, true).ok(), (count >= 2).then_some(count));
        }
        let mut half = history.state_after(1);
        half[1].clear();
        let why = history.check(&half, false).unwrap_err();
        assert!(why.starts_with("V1/V2 prefix"), "{why}");
        let mut hole = history.state_after(3);
        hole[0].remove(&b"y"[..]);
        assert!(history.check(&hole, false).is_err());
    }

    /// A flush, a durable sequence and a settled recovery raise the floor.
    #[test]
    fn floors_rise() {
        let mut history = history();
        history.flushed(0);
        assert_eq!((history.floor_power, history.floor_kill), (2, 2));
        history.durable(4);
        assert_eq!(history.floor_power, 3);
        history.settle(1);
        assert_eq!((history.len(), history.floor_power), (1, 1));
    }
}
