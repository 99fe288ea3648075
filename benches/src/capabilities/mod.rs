//! The figures of the runner `capabilities`: each capability of the write path against the design that it replaces.
//!
//! | module | owns |
//! |---|---|
//! | [`figure`] | one figure, its ratio, and how it is printed |
//! | [`sample`] | medians, spreads, percentiles |
//! | [`allocations`] | the allocator that counts |
//! | [`slot`] | the hand-off that the ring replaced |
//! | [`hand_off`] | B3: jobs through the slot and through the ring |
//! | [`accounting`] | B0d: what bounding a queue by bytes costs |
//! | [`flush_scope`] | B4f: reads and writes while a table is being built |

pub mod accounting;
pub mod allocations;
pub mod figure;
pub mod flush_scope;
pub mod hand_off;
pub mod sample;
pub mod slot;
