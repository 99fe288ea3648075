//! [`Stride`]: where a background job that computes for long looks up from its work.

/// Bytes of work between two looks: some 0.1 ms.
const STRIDE: usize = 64 << 10;

/// Counts the bytes that a job has worked through.
///
/// At the end of each stride the thread offers its processor to others. A kernel may let a thread compute for a whole tick (4 ms
/// at 250 Hz) before it looks who else waits, niceness or not; a writer that waits for the processor would see that as the tail
/// of its latency.
#[derive(Debug, Default)]
pub(crate) struct Stride {
    bytes: usize,
}

impl Stride {
    /// Adds `bytes` of work. Whether a stride is complete: time to ask whether the job is to go on.
    #[inline]
    pub(crate) fn is_complete(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        if self.bytes < STRIDE {
            return false;
        }
        self.bytes = 0;
        std::thread::yield_now();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stride_is_a_number_of_bytes() {
        let mut stride = Stride::default();
        let complete = (0..64).filter(|_| stride.is_complete(STRIDE / 16)).count();
        assert_eq!(complete, 4);
        assert!(stride.is_complete(10 * STRIDE)); // a large entry is one stride
        assert!(!stride.is_complete(STRIDE - 1));
    }
}
