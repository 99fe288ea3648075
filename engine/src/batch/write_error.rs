//! [`WriteError`]: why a write was not made, with its batch where nothing of it was queued.

use super::WriteBatch;
use crate::error::Error;

/// Why a write was not made; and its batch, as it was, if it was refused before it was queued.
///
/// ```
/// # use sluicedb::{Db, DbOptions, Error, WriteBatch, WriteOptions};
/// # fn main() -> sluicedb::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("sluicedb-write-error-{}", std::process::id()));
/// # let db = Db::open(&dir, DbOptions::default())?;
/// let mut batch = WriteBatch::new();
/// batch.put("k", "v");
/// if let Err(refused) = db.try_write(batch) {
///     match refused.into_parts() {
///         (Error::Stalled { .. } | Error::QueueFull { .. }, Some(batch)) => db.write(batch)?, // wait after all
///         (error, _) => return Err(error),
///     }
/// }
/// # db.close()?;
/// # Db::destroy(&dir, &DbOptions::default())
/// # }
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[error("{error}")]
pub struct WriteError {
    #[source]
    error: Error,
    batch: Option<Box<WriteBatch>>,
}

impl WriteError {
    /// The batch was refused before it was queued.
    #[cold]
    pub(crate) fn refused(error: Error, batch: WriteBatch) -> Self {
        Self { error, batch: Some(Box::new(batch)) }
    }

    /// The batch was queued, or has been given back before.
    #[cold]
    pub(crate) fn failed(error: Error) -> Self {
        Self { error, batch: None }
    }

    /// Why it was not made.
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// The batch, if nothing of it was queued.
    pub fn into_batch(self) -> Option<WriteBatch> {
        self.batch.map(|batch| *batch)
    }

    /// Both.
    pub fn into_parts(self) -> (Error, Option<WriteBatch>) {
        (self.error, self.batch.map(|batch| *batch))
    }
}

impl From<WriteError> for Error {
    fn from(refused: WriteError) -> Self {
        refused.error
    }
}
