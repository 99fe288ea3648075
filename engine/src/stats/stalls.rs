//! [`StallStatistics`]: what each cause of stalls did to the writers of one database. Who counts is not known here.

/// What one cause of stalls did to writers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CauseStalls {
    /// Writes that it delayed.
    pub delays: u64,
    /// Writes that it stopped, or refused because they would not wait.
    pub stops: u64,
    /// Time spent delayed by it, summed over writers, in microseconds.
    pub delay_micros: u64,
    /// Time spent stopped by it.
    pub stop_micros: u64,
}

/// Stalls by cause. Time belongs to the strictest cause of its moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StallStatistics {
    /// Too many L0 files.
    pub l0_files: CauseStalls,
    /// Too many memtables of a column family.
    pub memtables: CauseStalls,
    /// Too many bytes that wait for compaction.
    pub pending_compaction: CauseStalls,
    /// The write buffer manager: its delay and its quota.
    pub write_buffer_manager: CauseStalls,
}

impl StallStatistics {
    /// Each cause under the name that RocksDB's stall lines have for it.
    pub fn by_cause(&self) -> [(&'static str, CauseStalls); 4] {
        [
            ("l0-file-count-limit", self.l0_files),
            ("memtable-limit", self.memtables),
            ("pending-compaction-bytes", self.pending_compaction),
            ("write-buffer-manager-limit", self.write_buffer_manager),
        ]
    }
}
