//! The figures of the runner `capabilities`: each capability of the write path against the design that it replaces.
//!
//! | module | owns |
//! |---|---|
//! | [`figure`] | one figure, its ratio, and how it is printed |
//! | [`sample`] | medians, spreads, percentiles |
//! | [`allocations`] | the allocator that counts |
//! | [`slot`] | the hand-off that the ring replaced |
//! | [`hand_off`] | B3: jobs through the slot and through the ring |
//! | [`device`] | a device as slow as a figure says |
//! | [`queue_bound`] | B0a, B0b, B0c: the queue bounded by bytes and by records |
//! | [`watermark`] | B2, B2s: saving the log's position on and off the write path |
//! | [`lock_scope`] | B4: appends with and without a lock held |
//! | [`accounting`] | B0d: what bounding a queue by bytes costs |
//! | [`flush_scope`] | B4f: reads and writes while a table is being built |

pub mod accounting;
pub mod allocations;
pub mod device;
pub mod figure;
pub mod flush_scope;
pub mod hand_off;
pub mod lock_scope;
pub mod queue_bound;
pub mod sample;
pub mod slot;
pub mod watermark;
