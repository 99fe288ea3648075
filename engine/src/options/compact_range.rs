//! [`CompactRangeOptions`]: how a compaction that a caller asks for goes about it.

use crate::cancel::CancelToken;

/// What becomes of files that lie in the last level already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum BottommostLevelCompaction {
    /// They stay, unless something from above is merged into them.
    Skip,
    /// They are rewritten if the family has a compaction filter.
    IfHaveCompactionFilter,
    /// They are rewritten, so that tombstones and hidden versions go.
    #[default]
    Force,
}

/// How a compaction that a caller asks for goes about it.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CompactRangeOptions {
    /// What becomes of files that lie in the last level already. Default: [`BottommostLevelCompaction::Force`].
    pub bottommost_level_compaction: BottommostLevelCompaction,
    /// Ends the call from another thread. What was installed before stays, and the unit that was at work leaves no trace.
    /// Default: none.
    pub cancel: Option<CancelToken>,
}
