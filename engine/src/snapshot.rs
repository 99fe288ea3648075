//! [`Snapshot`]: a moment of the database that reads can go back to, and the list of live ones.
//!
//! Compactions ask the list which versions of a key somebody may still see. This file knows no reads and no files.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::key::SequenceNumber;
use crate::sync::Mutex;

/// The live snapshots of a database, by sequence.
#[derive(Debug, Default)]
pub(crate) struct SnapshotList {
    live: Mutex<BTreeMap<SequenceNumber, u32>>,
}

impl SnapshotList {
    /// A snapshot at the sequence that `published` returns. It is asked while the list is locked: a compaction that
    /// read the list before sees no sequence above what it has itself, one that reads it later sees the snapshot.
    pub(crate) fn take(self: &Arc<Self>, published: impl FnOnce() -> SequenceNumber) -> Snapshot {
        let mut live = self.live.lock();
        let seq = published();
        *live.entry(seq).or_default() += 1;
        drop(live);
        Snapshot { held: Arc::new(Held { seq, list: Arc::clone(self) }) }
    }

    /// Sequences of the live snapshots, ascending.
    pub(crate) fn sequences(&self) -> Vec<SequenceNumber> {
        self.live.lock().keys().copied().collect()
    }
}

/// A moment of the database. Reads with it see what was published when it was taken, and nothing later.
///
/// Cheap to clone. While one lives, compactions keep the versions that it may see, so drop it when done.
#[derive(Debug, Clone)]
pub struct Snapshot {
    held: Arc<Held>,
}

#[derive(Debug)]
struct Held {
    seq: SequenceNumber,
    list: Arc<SnapshotList>,
}

impl Snapshot {
    /// The last sequence that the snapshot sees.
    pub fn sequence(&self) -> SequenceNumber {
        self.held.seq
    }

    /// Whether it was taken from the database whose list this is.
    pub(crate) fn belongs_to(&self, list: &Arc<SnapshotList>) -> bool {
        Arc::ptr_eq(&self.held.list, list)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut live = self.list.live.lock();
        if let Some(count) = live.get_mut(&self.seq) {
            *count -= 1;
            if *count == 0 {
                live.remove(&self.seq);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Snapshots of one sequence are counted; the list forgets a sequence with its last holder.
    #[test]
    fn the_list_holds_what_lives() {
        let list = Arc::new(SnapshotList::default());
        let (a, b) = (list.take(|| SequenceNumber::new(7)), list.take(|| SequenceNumber::new(7)));
        let c = list.take(|| SequenceNumber::new(9));
        let copy = c.clone();
        drop((a, c));
        assert_eq!(list.sequences(), [SequenceNumber::new(7), SequenceNumber::new(9)]);
        drop(b);
        assert_eq!(list.sequences(), [SequenceNumber::new(9)]);
        drop(copy);
        assert_eq!(list.sequences(), []);
    }
}
