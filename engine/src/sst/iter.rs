//! [`SstIter`]: moves over the entries of one table, in both directions.
//!
//! Holds one block at a time. Which block comes next it learns from the resident index, by ordinal, so moving
//! on searches nothing. Key buffers are kept from block to block.

use std::sync::Arc;

use super::block::{BadBlock, BlockCursor};
use super::reader::{BlockRead, SstReader};
use crate::error::Result;
use crate::iter::InternalIterator;
use crate::key::split_internal;

/// A position in a table.
#[derive(Debug)]
pub(crate) struct SstIter {
    table: Arc<SstReader>,
    how: BlockRead,
    /// The block that the cursor is on.
    ordinal: usize,
    /// None until the first move.
    cursor: Option<BlockCursor>,
    /// Offset up to which the system was asked to read ahead.
    asked: u64,
}

impl SstIter {
    pub(super) fn new(table: Arc<SstReader>, how: BlockRead) -> Self {
        Self { table, how, ordinal: 0, cursor: None, asked: 0 }
    }

    /// Brings the block `ordinal` under the cursor, loading it unless it is there, and moves with `go`.
    fn go_in_block(
        &mut self,
        ordinal: usize,
        go: impl FnOnce(&mut BlockCursor) -> Result<(), BadBlock>,
    ) -> Result<()> {
        let same = self.cursor.is_some() && self.ordinal == ordinal;
        let moved = if same {
            self.cursor.as_mut().map_or(Ok(()), go)
        } else {
            // Not valid while the next block is loaded, should that fail.
            self.leave();
            if self.how.read_ahead {
                self.asked = self.table.read_ahead(self.asked, ordinal);
            }
            let block = self.table.block(ordinal, self.how)?;
            self.ordinal = ordinal;
            match &mut self.cursor {
                Some(cursor) => cursor.reset(block).and_then(|()| go(cursor)),
                empty => BlockCursor::new(block).and_then(|cursor| go(empty.insert(cursor))),
            }
        };
        moved.map_err(|_| self.damaged(ordinal))
    }

    #[cold]
    fn damaged(&mut self, ordinal: usize) -> crate::error::Error {
        self.cursor = None;
        self.table.bad_block(ordinal)
    }

    fn leave(&mut self) {
        if let Some(cursor) = &mut self.cursor {
            cursor.leave();
        }
    }

    /// From behind the last entry of a block to the first entry of the next; at the end to none.
    fn go_on_forward(&mut self) -> Result<()> {
        while !self.valid() {
            if self.ordinal + 1 >= self.table.index().len() {
                return Ok(());
            }
            self.go_in_block(self.ordinal + 1, BlockCursor::first)?;
        }
        Ok(())
    }

    /// From before the first entry of a block to the last entry of the one before; at the end to none.
    fn go_on_backward(&mut self) -> Result<()> {
        while !self.valid() {
            if self.ordinal == 0 {
                return Ok(());
            }
            self.go_in_block(self.ordinal - 1, BlockCursor::last)?;
        }
        Ok(())
    }
}

impl InternalIterator for SstIter {
    #[inline]
    fn valid(&self) -> bool {
        self.cursor.as_ref().is_some_and(BlockCursor::valid)
    }

    fn seek_to_first(&mut self) -> Result<()> {
        if self.table.index().len() == 0 {
            return Ok(());
        }
        self.go_in_block(0, BlockCursor::first)?;
        self.go_on_forward()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        let Some(last) = self.table.index().len().checked_sub(1) else { return Ok(()) };
        self.go_in_block(last, BlockCursor::last)?;
        self.go_on_backward()
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        let (user_key, trailer) = split_internal(target);
        let ordinal = self.table.index().find(user_key, trailer);
        if ordinal == self.table.index().len() {
            self.leave();
            return Ok(());
        }
        self.go_in_block(ordinal, |cursor| cursor.seek(target))?;
        self.go_on_forward()
    }

    fn seek_for_prev(&mut self, target: &[u8]) -> Result<()> {
        self.seek(target)?;
        if !self.valid() {
            return self.seek_to_last();
        }
        // At or behind the target: the same key or the first one too far.
        if self.key() == target { Ok(()) } else { self.prev() }
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        if cursor.next().is_err() {
            return Err(self.damaged(self.ordinal));
        }
        if cursor.valid() { Ok(()) } else { self.go_on_forward() }
    }

    fn prev(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        if cursor.prev().is_err() {
            return Err(self.damaged(self.ordinal));
        }
        self.go_on_backward()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.cursor.as_ref().map_or(&[], BlockCursor::key)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.cursor.as_ref().map_or(&[], BlockCursor::value)
    }
}
