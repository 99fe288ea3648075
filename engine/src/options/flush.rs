//! [`FlushOptions`]: how one call of a flush behaves.

/// How one flush that is asked for behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlushOptions {
    /// Return when the SST is durable; otherwise as soon as the flush is queued, also while writers are stopped. Default: true.
    pub wait: bool,
}

impl Default for FlushOptions {
    fn default() -> Self {
        Self { wait: true }
    }
}

impl FlushOptions {
    /// A flush that is only queued.
    pub fn queued() -> Self {
        Self { wait: false }
    }
}
