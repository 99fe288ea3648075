//! The two output streams, shared by all threads of a run.
//!
//! Owns the rule which text goes where when `--json=-` claims stdout. Must not know what is printed. Write errors are
//! ignored on purpose: a reader that closed its pipe early must not change what a benchmark does.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// stdout and stderr of a run.
pub struct Console {
    out: Mutex<Box<dyn Write + Send>>,
    err: Mutex<Box<dyn Write + Send>>,
    /// stderr is a terminal that wants live progress.
    pub err_is_terminal: bool,
    json_on_stdout: AtomicBool,
}

impl Console {
    /// A console over the given streams.
    pub fn new(
        out: impl Write + Send + 'static,
        err: impl Write + Send + 'static,
        err_is_terminal: bool,
    ) -> Self {
        Self {
            out: Mutex::new(Box::new(out)),
            err: Mutex::new(Box::new(err)),
            err_is_terminal,
            json_on_stdout: AtomicBool::new(false),
        }
    }

    /// From now on stdout belongs to [`Console::json`], and [`Console::out`] goes to stderr.
    pub fn reserve_stdout_for_json(&self) {
        // Relaxed: set before the threads of a run start.
        self.json_on_stdout.store(true, Relaxed);
    }

    /// Text for stdout, flushed.
    pub fn out(&self, text: &str) {
        if self.json_on_stdout.load(Relaxed) { self.err(text) } else { write(&self.out, text) }
    }

    /// Text for stderr.
    pub fn err(&self, text: &str) {
        write(&self.err, text);
    }

    /// A line of JSON for stdout, if stdout was reserved for it.
    pub fn json(&self, line: &str) {
        if self.json_on_stdout.load(Relaxed) {
            write(&self.out, line);
        }
    }
}

fn write(stream: &Mutex<Box<dyn Write + Send>>, text: &str) {
    let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = stream.write_all(text.as_bytes());
    let _ = stream.flush();
}

impl std::fmt::Debug for Console {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Console").field("err_is_terminal", &self.err_is_terminal).finish_non_exhaustive()
    }
}
