//! What goes wrong on purpose: which call fails, how, how often, and how many did.
//!
//! A [`Fault`] waits for the n-th call that matches its [`Pattern`]. Counters say how many calls of each kind were
//! made and how many faults really fired: a fault that never fired tests nothing. This file decides; the
//! [file system](super::SimFs) acts on it.

use std::io;
use std::path::Path;
use std::sync::Arc;

/// A call on the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is the call of that name")]
pub enum Op {
    Create,
    OpenWritable,
    OpenReadable,
    Read,
    Map,
    Write,
    Sync,
    Allocate,
    SetLen,
    Size,
    List,
    Exists,
    Rename,
    HardLink,
    Remove,
    SyncDir,
    Lock,
    CreateDir,
    RemoveDir,
}

impl Op {
    /// Every call.
    pub const ALL: [Self; 19] = [
        Self::Create,
        Self::OpenWritable,
        Self::OpenReadable,
        Self::Read,
        Self::Map,
        Self::Write,
        Self::Sync,
        Self::Allocate,
        Self::SetLen,
        Self::Size,
        Self::List,
        Self::Exists,
        Self::Rename,
        Self::HardLink,
        Self::Remove,
        Self::SyncDir,
        Self::Lock,
        Self::CreateDir,
        Self::RemoveDir,
    ];

    /// Whether the call may change what is on the device.
    pub fn mutates(self) -> bool {
        use Op::{
            Allocate, Create, CreateDir, HardLink, Remove, RemoveDir, Rename, SetLen, Sync, SyncDir, Write,
        };
        matches!(
            self,
            HardLink
                | Create
                | Write
                | Sync
                | Allocate
                | SetLen
                | Rename
                | Remove
                | SyncDir
                | CreateDir
                | RemoveDir
        )
    }
}

/// What a file is for, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is the file of that name")]
pub enum FileKind {
    Wal,
    Sst,
    Manifest,
    Current,
    Options,
    Lock,
    Log,
    Dir,
    Other,
}

impl FileKind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Wal,
        Self::Sst,
        Self::Manifest,
        Self::Current,
        Self::Options,
        Self::Lock,
        Self::Log,
        Self::Dir,
        Self::Other,
    ];

    /// The kind of the file at `path`.
    pub fn of(path: &Path) -> Self {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        match &*name {
            "CURRENT" | "CURRENT.tmp" => Self::Current,
            "OPTIONS" | "OPTIONS.tmp" => Self::Options,
            "LOCK" => Self::Lock,
            "LOG" | "LOG.old" => Self::Log,
            name if name.starts_with("MANIFEST-") => Self::Manifest,
            name if name.ends_with(".log") => Self::Wal,
            name if name.ends_with(".sst") => Self::Sst,
            _ => Self::Other,
        }
    }
}

/// Which calls a fault waits for.
#[derive(Debug, Clone, Default)]
pub struct Pattern {
    ops: Vec<Op>,
    kind: Option<FileKind>,
}

impl Pattern {
    /// Calls of this op.
    pub fn op(op: Op) -> Self {
        Self { ops: vec![op], kind: None }
    }

    /// Calls of any of these ops.
    pub fn ops(ops: &[Op]) -> Self {
        Self { ops: ops.to_vec(), kind: None }
    }

    /// Every call.
    pub fn any() -> Self {
        Self::default()
    }

    /// Every call that may change what is on the device.
    pub fn mutating() -> Self {
        Self { ops: Op::ALL.into_iter().filter(|op| op.mutates()).collect(), kind: None }
    }

    /// Only on files of this kind.
    pub fn on(mut self, kind: FileKind) -> Self {
        self.kind = Some(kind);
        self
    }

    pub(super) fn matches(&self, op: Op, kind: FileKind) -> bool {
        (self.ops.is_empty() || self.ops.contains(&op)) && self.kind.is_none_or(|wanted| wanted == kind)
    }
}

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It fails and does nothing.
    Fail(io::ErrorKind),
    /// A write hands over a part of its bytes and fails; other calls just fail.
    ShortWrite,
    /// A sync fails and drops what it should have written; later syncs say yes and do not bring it back
    /// ("fsyncgate"). Other calls just fail.
    LoseAndFail,
    /// A read returns with one bit turned over.
    FlipBit,
}

/// A failure in waiting.
#[derive(Debug, Clone)]
pub struct Fault {
    /// The calls that it waits for.
    pub on: Pattern,
    /// Which of them it hits, counted from now; 1 is the next.
    pub nth: u64,
    /// Whether all later ones are hit, too.
    pub forever: bool,
    /// What happens to them.
    pub effect: Effect,
}

impl Fault {
    /// The next matching call fails, once.
    pub fn next(on: Pattern, effect: Effect) -> Self {
        Self { on, nth: 1, forever: false, effect }
    }

    /// All matching calls fail from now on.
    pub fn always(on: Pattern, effect: Effect) -> Self {
        Self { on, nth: 1, forever: true, effect }
    }
}

/// Run before each matching call, with the bytes that it writes.
#[derive(Clone)]
pub(super) struct Hook {
    pub(super) on: Pattern,
    pub(super) run: Arc<dyn Fn(usize) + Send + Sync>,
}

/// How often each call was made on each kind of file.
#[derive(Debug, Clone)]
pub struct Counts {
    counts: [[u64; FileKind::ALL.len()]; Op::ALL.len()],
}

impl Default for Counts {
    fn default() -> Self {
        Self { counts: [[0; FileKind::ALL.len()]; Op::ALL.len()] }
    }
}

impl Counts {
    fn add(&mut self, op: Op, kind: FileKind) {
        self.counts[op as usize][kind as usize] += 1;
    }

    /// Calls of `op` on files of `kind`.
    pub fn get(&self, op: Op, kind: FileKind) -> u64 {
        self.counts[op as usize][kind as usize]
    }

    /// Calls of `op`.
    pub fn of(&self, op: Op) -> u64 {
        self.counts[op as usize].iter().sum()
    }

    /// All calls.
    pub fn total(&self) -> u64 {
        self.counts.iter().flatten().sum()
    }
}

#[derive(Debug)]
struct ClosedGate {
    id: u64,
    on: Pattern,
    /// It lets the calls behind the one that it has caught pass.
    next_only: bool,
    caught: bool,
}

/// The faults in waiting, the gates, and the counters.
#[derive(Debug, Default)]
pub(super) struct Faults {
    waiting: Vec<Fault>,
    gates: Vec<ClosedGate>,
    next_gate: u64,
    pub(super) calls: Counts,
    pub(super) fired: Counts,
}

impl Faults {
    pub(super) fn inject(&mut self, fault: Fault) {
        self.waiting.push(fault);
    }

    pub(super) fn heal(&mut self) {
        self.waiting.clear();
    }

    /// Counts a call and says what becomes of it.
    pub(super) fn call(&mut self, op: Op, kind: FileKind) -> Option<Effect> {
        self.calls.add(op, kind);
        let mut effect = None;
        self.waiting.retain_mut(|fault| {
            if !fault.on.matches(op, kind) {
                return true;
            }
            if fault.nth > 1 {
                fault.nth -= 1;
                return true;
            }
            effect = effect.or(Some(fault.effect));
            fault.forever
        });
        if effect.is_some() {
            self.fired.add(op, kind);
        }
        effect
    }

    pub(super) fn close_gate(&mut self, on: Pattern, next_only: bool) -> u64 {
        self.next_gate += 1;
        self.gates.push(ClosedGate { id: self.next_gate, on, next_only, caught: false });
        self.next_gate
    }

    pub(super) fn open_gate(&mut self, gate: u64) {
        self.gates.retain(|closed| closed.id != gate);
    }

    pub(super) fn is_closed(&self, gate: u64) -> bool {
        self.gates.iter().any(|closed| closed.id == gate)
    }

    /// The closed gate that this call, which may have been held before, has to wait at.
    pub(super) fn gate_of(&mut self, op: Op, kind: FileKind, was_held: bool) -> Option<u64> {
        let holds = |gate: &&mut ClosedGate| {
            gate.on.matches(op, kind) && !(gate.next_only && (gate.caught || was_held))
        };
        let gate = self.gates.iter_mut().find(holds)?;
        gate.caught = true;
        Some(gate.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The n-th match is hit, once or from then on, and only matching calls count.
    #[test]
    fn the_nth_match_is_hit() {
        let fail = Effect::Fail(io::ErrorKind::Other);
        for forever in [false, true] {
            let mut faults = Faults::default();
            faults.inject(Fault {
                on: Pattern::op(Op::Sync).on(FileKind::Wal),
                nth: 3,
                forever,
                effect: fail,
            });
            assert_eq!(faults.call(Op::Sync, FileKind::Sst), None);
            let hits = [0; 5].map(|_| faults.call(Op::Sync, FileKind::Wal).is_some());
            assert_eq!(hits, [false, false, true, forever, forever]);
            assert_eq!(faults.fired.total(), if forever { 3 } else { 1 });
            assert_eq!(faults.calls.get(Op::Sync, FileKind::Wal), 5);
        }
    }
}
