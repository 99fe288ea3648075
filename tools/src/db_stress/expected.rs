//! What each key must hold: a cell a key, in a file that outlives the process.
//!
//! A cell is marked before the call that changes the key and settled after it. The marks go to the file, and so into the
//! kernel's memory, before the call begins: a killed process leaves the state before, the state after, and nothing else, as what
//! the database may hold. Must not know the database.
//!
//! ```text
//! file     0  magic "SLSTRS01"   8  max_key   16  families   24  size_mult   32 + f  family f is being cleared: 1
//!       4096  cells: families x max_key of 4 bytes
//! cell     0..16 base   16..24 deletes so far   24 not there   25 write pending   26 delete pending   27 in a joint batch
//! ```

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use super::Wrong;
use super::flags::Flags;

const MAGIC: u64 = u64::from_le_bytes(*b"SLSTRS01");
const CLEARING: u64 = 32;
const CELLS: u64 = 4096;
const FILE: &str = "LATEST.state";

/// What one key must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell(u32);

const ABSENT: u32 = 1 << 24;
const WRITING: u32 = 1 << 25;
const DELETING: u32 = 1 << 26;
const JOINT: u32 = 1 << 27;
const PENDING: u32 = WRITING | DELETING | JOINT;

impl Cell {
    /// Never written.
    pub const NEW: Self = Self(ABSENT);

    /// What the key holds once nothing is pending: a base, or nothing.
    pub fn held(self) -> Option<u16> {
        (self.0 & ABSENT == 0).then_some(self.0 as u16)
    }

    /// The base that the next write has.
    pub fn next_base(self) -> u16 {
        (self.0 as u16).wrapping_add(1)
    }

    fn deletes(self) -> u8 {
        (self.0 >> 16) as u8
    }

    /// A change was under way.
    pub fn is_pending(self) -> bool {
        self.0 & PENDING != 0
    }

    /// The change was part of a batch over all families.
    pub fn is_joint(self) -> bool {
        self.0 & JOINT != 0
    }

    /// With the mark of a write that begins.
    pub fn writing(self) -> Self {
        Self(self.0 | WRITING)
    }

    /// With the mark of a write that is part of a batch over all families.
    pub fn writing_jointly(self) -> Self {
        Self(self.0 | WRITING | JOINT)
    }

    /// With the mark of a delete that begins.
    pub fn deleting(self) -> Self {
        Self(self.0 | DELETING)
    }

    /// The change did not happen.
    pub fn before(self) -> Self {
        Self(self.0 & !PENDING)
    }

    /// The change happened.
    pub fn after(self) -> Self {
        if self.0 & WRITING != 0 {
            let deletes = u32::from(self.deletes()) << 16;
            Self(u32::from(self.next_base()) | deletes)
        } else if self.0 & DELETING != 0 {
            self.absent()
        } else {
            self
        }
    }

    /// Deleted.
    pub fn absent(self) -> Self {
        let deletes = u32::from(self.deletes().wrapping_add(1)) << 16;
        Self(u32::from(self.0 as u16) | deletes | ABSENT)
    }

    /// The settled cell that `found` proves, of the at most two that are possible.
    pub fn settled_by(self, found: Option<u16>) -> Option<Self> {
        [self.before(), self.after()].into_iter().find(|cell| cell.held() == found)
    }

    /// Whether a read may have seen `found` that began when the cell was `self` and ended when it was `end`.
    pub fn may_have_held(self, end: Self, found: Option<u16>) -> bool {
        match found {
            // Bases only grow: from what was there to what may have been begun.
            Some(base) => {
                let span = end.after_base().wrapping_sub(self.0 as u16);
                let none_before = self.held().is_none() && !self.is_pending();
                let offset = base.wrapping_sub(self.0 as u16);
                offset <= span && !(none_before && offset == 0)
            }
            None => {
                let gone = |cell: Self| cell.before().held().is_none() || cell.after().held().is_none();
                gone(self) || gone(end) || self.deletes() != end.deletes()
            }
        }
    }

    fn after_base(self) -> u16 {
        if self.0 & WRITING != 0 { self.next_base() } else { self.0 as u16 }
    }

    /// As `found`, where losing what came later is allowed.
    pub fn found(self, found: Option<u16>) -> Self {
        match found {
            Some(base) => Self(u32::from(base) | u32::from(self.deletes()) << 16),
            None => self.before().absent(),
        }
    }

    /// For messages.
    pub fn describe(self) -> String {
        let what = self.held().map_or("nothing".to_owned(), |base| format!("base {base}"));
        let pending = match self.0 & PENDING {
            0 => "",
            bits if bits & JOINT != 0 => ", a joint write pending",
            bits if bits & WRITING != 0 => ", a write pending",
            _ => ", a delete pending",
        };
        format!("{what}{pending}")
    }
}

/// The cells, in memory and in the file.
#[derive(Debug)]
pub struct Expected {
    path: PathBuf,
    file: File,
    cells: Vec<AtomicU32>,
    max_key: u64,
    families: u64,
}

fn io(doing: &str, path: &Path, error: &std::io::Error) -> Wrong {
    format!("could not {doing} {}: {error}", path.display())
}

impl Expected {
    /// Opens the file of the oracle, or makes an empty one if the database is `fresh`.
    ///
    /// # Errors
    ///
    /// The file cannot be used, or belongs to a run with other keys.
    pub fn open(flags: &Flags, fresh: bool) -> Result<Self, Wrong> {
        let directory = Path::new(flags.text("expected_values_dir"));
        std::fs::create_dir_all(directory).map_err(|error| io("create", directory, &error))?;
        let path = directory.join(FILE);
        let (max_key, families) = (flags.number("max_key"), flags.number("column_families"));
        let head = [MAGIC, max_key, families, flags.number("value_size_mult")];
        let count = (max_key * families) as usize;
        if fresh {
            let mut bytes = head.map(u64::to_le_bytes).concat();
            bytes.resize(CELLS as usize, 0);
            bytes.extend(std::iter::repeat_n(Cell::NEW.0.to_le_bytes(), count).flatten());
            std::fs::write(&path, bytes).map_err(|error| io("write", &path, &error))?;
        }
        let bytes = std::fs::read(&path).map_err(|error| io("read", &path, &error))?;
        let word = |at: usize| {
            bytes.get(8 * at..8 * at + 8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
        };
        let found: Vec<Option<u64>> = (0..4).map(word).collect();
        if found != head.map(Some) || bytes.len() != CELLS as usize + 4 * count {
            return Err(format!(
                "{} is not of a run with these --max_key, --column_families and --value_size_mult (found {found:?} and {} \
                 bytes); give the same ones, or --destroy_db_initially=true",
                path.display(),
                bytes.len()
            ));
        }
        let cell = |bytes: &[u8]| AtomicU32::new(u32::from_le_bytes(bytes.try_into().unwrap_or_default()));
        let cells = bytes[CELLS as usize..].chunks_exact(4).map(cell).collect();
        let file = OpenOptions::new()
            .write(true)
            .read(true)
            .open(&path)
            .map_err(|error| io("open", &path, &error))?;
        Ok(Self { path, file, cells, max_key, families })
    }

    /// Keys of a family.
    pub fn max_key(&self) -> u64 {
        self.max_key
    }

    /// Families.
    pub fn families(&self) -> u64 {
        self.families
    }

    fn at(&self, family: u64, key: u64) -> usize {
        (family * self.max_key + key) as usize
    }

    /// The cell of a key.
    pub fn get(&self, family: u64, key: u64) -> Cell {
        Cell(self.cells[self.at(family, key)].load(SeqCst))
    }

    /// Changes the cell of a key, in the file first. The caller holds the key.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn set(&self, family: u64, key: u64, cell: Cell) -> Result<(), Wrong> {
        let at = self.at(family, key);
        self.write_at(CELLS + 4 * at as u64, &cell.0.to_le_bytes())?;
        self.cells[at].store(cell.0, SeqCst);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Wrong> {
        self.file.write_all_at(bytes, offset).map_err(|error| io("write", &self.path, &error))
    }

    /// Marks that a family is being dropped and made again, or no longer is.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn set_clearing(&self, family: u64, clearing: bool) -> Result<(), Wrong> {
        self.write_at(CLEARING + family, &[u8::from(clearing)])
    }

    /// Whether a family was being cleared when the process ended.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn is_clearing(&self, family: u64) -> Result<bool, Wrong> {
        let mut byte = [0];
        self.file
            .read_exact_at(&mut byte, CLEARING + family)
            .map_err(|error| io("read", &self.path, &error))?;
        Ok(byte[0] == 1)
    }

    /// All keys of a family are gone.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn clear(&self, family: u64) -> Result<(), Wrong> {
        for key in 0..self.max_key {
            let cell = self.get(family, key).before();
            if cell.held().is_some() {
                self.set(family, key, cell.absent())?;
            }
        }
        Ok(())
    }

    /// Checks that verification left nothing pending.
    ///
    /// # Errors
    ///
    /// A cell is pending: verification overlooked it.
    pub fn settle(&self) -> Result<(), Wrong> {
        let pending = self.cells.iter().position(|cell| Cell(cell.load(SeqCst)).is_pending());
        pending.map_or(Ok(()), |at| Err(format!("cell {at} of {} was left pending", self.path.display())))
    }
}
