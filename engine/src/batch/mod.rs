//! [`WriteBatch`]: puts and deletes that happen together or not at all.
//!
//! A batch is kept encoded from the start ([`format`](mod@format)): the same bytes go into the write-ahead log. This module
//! knows how entries lie in those bytes; when and where they are written is [`crate::db`]'s affair.

pub(crate) mod format;
mod write_error;

pub use write_error::WriteError;

use crate::column_family::ColumnFamily;
use crate::error::{Error, Result};
use crate::key::{MAX_KEY_LEN, MAX_VALUE_LEN, ValueType};

/// Puts and deletes that happen together or not at all, over any column families of one database.
///
/// Later entries win over earlier ones of the same key. A key or value that is too long is remembered and refused
/// when the batch is written: nothing of the batch is written then.
///
/// ```
/// # use sluicedb::WriteBatch;
/// let mut batch = WriteBatch::new();
/// batch.put("apple", "red").put("pear", "green").delete("plum");
/// assert_eq!(batch.len(), 3);
/// ```
#[derive(Debug, Clone)]
pub struct WriteBatch {
    /// Encoded as [`format`](mod@format) says, header included.
    bytes: Vec<u8>,
    count: u32,
    /// The family of the first entry, and further ones: most batches name one, and then nothing is allocated.
    first_family: Option<u32>,
    more_families: Vec<u32>,
    /// Identity of the database whose families it names, once it names one other than `default`.
    database: Option<u64>,
    /// Why an entry cannot be written, of the first such one. Boxed: batches are moved often, and this is rarely there.
    refused: Option<Box<Error>>,
}

impl Default for WriteBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// An empty batch with room for `bytes` of keys and values.
    pub fn with_capacity(bytes: usize) -> Self {
        let mut buffer = Vec::with_capacity(format::HEADER_LEN + bytes);
        buffer.resize(format::HEADER_LEN, 0);
        Self {
            bytes: buffer,
            count: 0,
            first_family: None,
            more_families: Vec::new(),
            database: None,
            refused: None,
        }
    }

    /// Sets `key` to `value` in the column family `default`.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Self {
        self.push(ValueType::Put, DEFAULT_FAMILY, key.as_ref(), value.as_ref())
    }

    /// Sets `key` to `value` in `family`.
    pub fn put_cf(
        &mut self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Self {
        self.of(family).push(ValueType::Put, family.id(), key.as_ref(), value.as_ref())
    }

    /// Removes `key` from the column family `default`; a key that is not there is no error.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut Self {
        self.push(ValueType::Delete, DEFAULT_FAMILY, key.as_ref(), &[])
    }

    /// Removes `key` from `family`; a key that is not there is no error.
    pub fn delete_cf(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> &mut Self {
        self.of(family).push(ValueType::Delete, family.id(), key.as_ref(), &[])
    }

    /// Forgets everything and keeps the buffer.
    pub fn clear(&mut self) {
        self.bytes.truncate(format::HEADER_LEN);
        self.count = 0;
        self.first_family = None;
        self.more_families.clear();
        self.database = None;
        self.refused = None;
    }

    /// Entries in the batch.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether the batch has no entry.
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.refused.is_none()
    }

    /// Bytes of the batch as it is logged.
    pub fn byte_size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Whether the batch can be written to the database with this identity, and how large it is allowed to be.
    pub(crate) fn check(&self, database: u64, max_bytes: u64) -> Result<()> {
        if let Some(refused) = &self.refused {
            return Err((**refused).clone());
        }
        if self.database.is_some_and(|other| other != database) {
            let why = "it names a column family of another database; use handles of the database that it is written to";
            return Err(Error::invalid("batch", why));
        }
        if self.byte_size() > max_bytes {
            return Err(Error::BatchTooLarge { bytes: self.byte_size(), limit: max_bytes });
        }
        Ok(())
    }

    /// The encoded bytes; the sequence in the header is not set yet.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Writes the first sequence into the header.
    pub(crate) fn set_sequence(&mut self, first: crate::key::SequenceNumber) {
        format::write_header(&mut self.bytes, first, self.count);
    }

    /// Adds the entries of `other`, a batch for the same database whose check has passed.
    pub(crate) fn append(&mut self, other: &Self) -> Result<()> {
        let Some(count) = self.count.checked_add(other.count) else {
            return Err(Error::invalid("batch", "it has more than 4294967295 entries"));
        };
        self.bytes.extend_from_slice(&other.bytes[format::HEADER_LEN..]);
        self.count = count;
        for family in other.families() {
            let first = *self.first_family.get_or_insert(family);
            if family != first && !self.more_families.contains(&family) {
                self.more_families.push(family);
            }
        }
        self.database = self.database.or(other.database);
        Ok(())
    }

    /// The sequence of the last entry, once [`set_sequence`](Self::set_sequence) has been called.
    pub(crate) fn last_sequence(&self) -> crate::key::SequenceNumber {
        format::first_sequence(&self.bytes).after(u64::from(self.count.saturating_sub(1)))
    }

    /// Damages the last entry: reading it is a defect that is noticed.
    #[cfg(test)]
    pub(crate) fn cut_short(&mut self) {
        self.bytes.truncate(self.bytes.len() - 1);
    }

    /// Ids of the column families that it writes to, each once.
    pub(crate) fn families(&self) -> impl Iterator<Item = u32> + '_ {
        self.first_family.into_iter().chain(self.more_families.iter().copied())
    }

    fn of(&mut self, family: &ColumnFamily) -> &mut Self {
        let database = family.database();
        if *self.database.get_or_insert(database) != database {
            self.refuse(Error::invalid("batch", "it names column families of two databases"));
        }
        self
    }

    fn push(&mut self, value_type: ValueType, family: u32, key: &[u8], value: &[u8]) -> &mut Self {
        if key.len() > MAX_KEY_LEN {
            let why = format!("{} bytes are more than the largest key, {MAX_KEY_LEN} bytes", key.len());
            self.refuse(Error::invalid("key", why));
        } else if value.len() as u64 > MAX_VALUE_LEN {
            let why = format!("{} bytes are more than the largest value, {MAX_VALUE_LEN} bytes", value.len());
            self.refuse(Error::invalid("value", why));
        } else if self.count == u32::MAX {
            self.refuse(Error::invalid("batch", "it has more than 4294967295 entries"));
        } else {
            let first = *self.first_family.get_or_insert(family);
            if family != first && !self.more_families.contains(&family) {
                self.more_families.push(family);
            }
            format::push_entry(&mut self.bytes, value_type, family, key, value);
            self.count += 1;
        }
        self
    }

    fn refuse(&mut self, why: Error) {
        self.refused.get_or_insert_with(|| Box::new(why));
    }
}

/// Id of the column family `default`.
pub(crate) const DEFAULT_FAMILY: u32 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest key passes, one byte more is refused with its size when the batch is checked, and the rest of the batch
    /// with it.
    #[test]
    fn oversized_keys_are_refused_at_the_check() {
        let mut batch = WriteBatch::new();
        batch.put(vec![b'k'; MAX_KEY_LEN], "v");
        batch.check(1, u64::MAX).unwrap();
        batch.put(vec![b'k'; MAX_KEY_LEN + 1], "v").put("good", "v");
        let refused = batch.check(1, u64::MAX).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "invalid key: 65536 bytes are more than the largest key, 65535 bytes"
        );
        batch.clear();
        batch.check(1, u64::MAX).unwrap();
        assert!(batch.is_empty());
    }

    /// A batch larger than the limit names both numbers.
    #[test]
    fn a_batch_has_a_largest_size() {
        let mut batch = WriteBatch::new();
        batch.put("k", vec![0; 5000]);
        let refused = batch.check(1, 4096).unwrap_err().to_string();
        assert!(refused.contains("5018") && refused.contains("4096"), "{refused}");
    }
}
