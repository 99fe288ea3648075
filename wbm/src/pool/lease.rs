//! [`MemoryLease`]: bytes taken from a [`MemoryPool`], returned on drop.

use super::{MemoryPool, TooLarge};

/// Bytes of a pool that somebody holds. They return when it is dropped.
#[derive(Debug)]
pub struct MemoryLease {
    pub(super) pool: MemoryPool,
    pub(super) bytes: u64,
    /// Its place in the FIFO, if it was let through a hold and has not settled.
    pub(super) place: Option<u64>,
}

impl MemoryLease {
    pub(super) fn new(pool: &MemoryPool, bytes: u64) -> Self {
        Self { pool: pool.clone(), bytes, place: None }
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether both are of the same pool.
    pub fn is_of(&self, pool: &MemoryPool) -> bool {
        std::sync::Arc::ptr_eq(&self.pool.shared, &pool.shared)
    }

    /// Splits `bytes` off into a lease of their own; `None`, and nothing changes, if there are not as many.
    pub fn split(&mut self, bytes: u64) -> Option<Self> {
        self.bytes = self.bytes.checked_sub(bytes)?;
        Some(Self::new(&self.pool, bytes))
    }

    /// Adds another lease of the same pool; one of another pool comes back.
    ///
    /// # Errors
    ///
    /// The other lease, unchanged.
    pub fn merge(&mut self, mut other: Self) -> Result<(), Self> {
        if !self.is_of(&other.pool) {
            return Err(other);
        }
        self.bytes += std::mem::take(&mut other.bytes);
        Ok(())
    }

    /// Takes all bytes out into another lease; this one holds none.
    #[must_use]
    pub fn take(&mut self) -> Self {
        let (bytes, place) = (std::mem::take(&mut self.bytes), self.place.take());
        Self { pool: self.pool.clone(), bytes, place }
    }

    /// Returns bytes until `bytes` are left; holding fewer changes nothing.
    pub fn shrink_to(&mut self, bytes: u64) {
        let spare = self.bytes.saturating_sub(bytes);
        self.bytes -= spare;
        self.pool.give_back(spare);
    }

    /// Takes `bytes` more, if they fit the capacity and nobody waits.
    ///
    /// # Errors
    ///
    /// [`TooLarge`]; nothing changes.
    pub fn try_grow(&mut self, bytes: u64) -> Result<(), TooLarge> {
        let Some(mut more) = self.pool.try_reserve(bytes) else {
            return Err(TooLarge { bytes, capacity: self.pool.available() });
        };
        self.bytes += std::mem::take(&mut more.bytes);
        Ok(())
    }

    /// Takes `bytes` more, whatever the capacity is.
    ///
    /// # Panics
    ///
    /// Like [`MemoryPool::force_reserve`].
    pub fn force_grow(&mut self, bytes: u64) {
        self.pool.force(bytes);
        self.bytes += bytes;
    }
}

impl Drop for MemoryLease {
    fn drop(&mut self) {
        self.pool.give_back(self.bytes);
        if self.place.is_some() {
            self.pool.pass_on();
        }
    }
}
