//! What is kept in memory of tables: [`BlockCache`] for blocks, [`TableCache`] for open readers.
//!
//! Both are quick_cache inside, bounded, shared by all threads, and let one thread load what several miss.
//! Neither knows versions: a table that is gone is evicted by whoever deletes its file.

mod block;
mod table;

pub use block::BlockCache;
pub(crate) use block::BlockKey;
pub(crate) use table::TableCache;
