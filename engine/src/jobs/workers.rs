//! [`Workers`]: the background threads of one database, named, owned, and joined at close.

use std::io;
use std::thread::JoinHandle;

use crate::sync::Mutex;

/// Threads that [`join`](Workers::join) waits for.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Workers {
    /// Starts a thread. Names are at most 15 bytes, the longest that the operating system keeps.
    pub(crate) fn spawn(&self, name: String, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.start(std::thread::Builder::new(), name, body)
    }

    /// The same with a stack of this size.
    pub(crate) fn spawn_with_stack(
        &self,
        name: String,
        stack_bytes: usize,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        self.start(std::thread::Builder::new().stack_size(stack_bytes), name, body)
    }

    fn start(
        &self,
        builder: std::thread::Builder,
        name: String,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        debug_assert!(name.len() <= 15, "{name}");
        let thread = builder.name(name).spawn(body)?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// Waits for all threads; they have been told to end. The names of those that panicked come back.
    pub(crate) fn join(&self) -> Vec<String> {
        let threads = std::mem::take(&mut *self.threads.lock());
        let mut panicked = Vec::new();
        for thread in threads {
            let name = thread.thread().name().unwrap_or("unnamed").to_owned();
            // The last handle of a database may be dropped by one of its own threads, which cannot wait for itself.
            if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
                panicked.push(name);
            }
        }
        panicked
    }
}
