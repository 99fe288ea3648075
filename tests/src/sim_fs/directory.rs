//! [`Directory`]: the names in one simulated directory, and which of them a power failure would spare.
//!
//! Names that were added, renamed or removed since the last directory sync wait in a journal. A crash applies
//! any part of it, in order, so a later change may survive an earlier one; a rename happens as a whole or not at
//! all, so a file that had a durable name never loses both. This file knows no bytes and no faults.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::content::Content;
use super::{CrashMode, lock};
use crate::rng::Rng;

/// A file, apart from its names.
pub(super) type Node = Arc<Mutex<Content>>;

/// Files that were copied into a crash image, by the address of the original.
pub(super) type Copies = BTreeMap<usize, Node>;

#[derive(Debug, Clone)]
enum Change {
    Add { name: String, node: Node },
    Remove { name: String },
    Rename { from: String, to: String, node: Node },
}

/// The names in one directory.
#[derive(Debug, Default)]
pub(super) struct Directory {
    entries: BTreeMap<String, Node>,
    durable: BTreeMap<String, Node>,
    journal: Vec<Change>,
}

impl Directory {
    pub(super) fn get(&self, name: &str) -> Option<&Node> {
        self.entries.get(name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.entries.keys()
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.entries.values()
    }

    pub(super) fn add(&mut self, name: &str, node: Node) {
        self.change(Change::Add { name: name.to_owned(), node });
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Node> {
        let node = self.entries.get(name).cloned()?;
        self.change(Change::Remove { name: name.to_owned() });
        Some(node)
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> Option<()> {
        let node = self.entries.get(from).cloned()?;
        self.change(Change::Rename { from: from.to_owned(), to: to.to_owned(), node });
        Some(())
    }

    pub(super) fn sync(&mut self) {
        for change in self.journal.drain(..) {
            apply(&mut self.durable, change);
        }
    }

    /// A sync that failed: the waiting changes never reach the device, and later syncs no longer know of them.
    pub(super) fn lose(&mut self) {
        self.journal.clear();
    }

    /// What a crash leaves of this directory; files go through `copies`.
    pub(super) fn crash(&self, mode: CrashMode, rng: &mut Rng, copies: &mut Copies) -> Self {
        let mut durable = self.durable.clone();
        if mode == CrashMode::Kill {
            let mut image = Self { entries: self.entries.clone(), durable, journal: self.journal.clone() };
            image.entries.values_mut().for_each(|node| copy(node, mode, rng, copies));
            image.durable.values_mut().for_each(|node| copy(node, mode, rng, copies));
            for change in &mut image.journal {
                if let Change::Add { node, .. } | Change::Rename { node, .. } = change {
                    copy(node, mode, rng, copies);
                }
            }
            return image;
        }
        if let CrashMode::Keep { percent } = mode {
            for change in &self.journal {
                if rng.chance(percent) {
                    apply(&mut durable, change.clone());
                }
            }
        }
        durable.values_mut().for_each(|node| copy(node, mode, rng, copies));
        Self { entries: durable.clone(), durable, journal: Vec::new() }
    }

    fn change(&mut self, change: Change) {
        self.journal.push(change.clone());
        apply(&mut self.entries, change);
    }
}

fn apply(names: &mut BTreeMap<String, Node>, change: Change) {
    match change {
        Change::Add { name, node } => drop(names.insert(name, node)),
        Change::Remove { name } => drop(names.remove(&name)),
        Change::Rename { from, to, node } => {
            if names.get(&from).is_some_and(|there| Arc::ptr_eq(there, &node)) {
                names.remove(&from);
            }
            names.insert(to, node);
        }
    }
}

fn copy(node: &mut Node, mode: CrashMode, rng: &mut Rng, copies: &mut Copies) {
    let original = Arc::as_ptr(node) as usize;
    let copied =
        copies.entry(original).or_insert_with(|| Arc::new(Mutex::new(lock(node).crash(mode, rng)))).clone();
    *node = copied;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(byte: u8) -> Node {
        Arc::new(Mutex::new(Content::durable(vec![byte])))
    }

    fn show(directory: &Directory) -> String {
        let entry = |(name, node): (&String, &Node)| format!("{name}={} ", lock(node).bytes()[0]);
        directory.entries.iter().map(entry).collect()
    }

    /// A renamed file is there under the old name or the new one, never under neither; what it replaced too.
    #[test]
    fn a_rename_is_whole() {
        let mut directory = Directory::default();
        directory.add("CURRENT", node(1));
        directory.sync();
        directory.add("CURRENT.tmp", node(2));
        directory.sync();
        directory.rename("CURRENT.tmp", "CURRENT").unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..100 {
            let mode = CrashMode::Keep { percent: 50 };
            seen.insert(show(&directory.crash(mode, &mut Rng::new(seed), &mut Copies::new())));
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["CURRENT=1 CURRENT.tmp=2 ", "CURRENT=2 "]);
    }

    /// Unsynced changes survive independently of each other; synced ones always.
    #[test]
    fn unsynced_names_may_survive_in_any_order() {
        let mut directory = Directory::default();
        directory.add("a", node(1));
        directory.sync();
        directory.add("b", node(2));
        directory.remove("a").unwrap();
        directory.add("c", node(3));
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let mode = CrashMode::Keep { percent: 50 };
            seen.insert(show(&directory.crash(mode, &mut Rng::new(seed), &mut Copies::new())));
        }
        assert_eq!(seen.len(), 8, "{seen:?}");
        let dropped = directory.crash(CrashMode::DropUnsynced, &mut Rng::new(0), &mut Copies::new());
        assert_eq!(show(&dropped), "a=1 ");
        let killed = directory.crash(CrashMode::Kill, &mut Rng::new(0), &mut Copies::new());
        assert_eq!(show(&killed), "b=2 c=3 ");
        let after = killed.crash(CrashMode::DropUnsynced, &mut Rng::new(0), &mut Copies::new());
        assert_eq!(show(&after), "a=1 ", "a kill syncs nothing");
    }
}
