//! The two output streams, shared by all threads of a run.
//!
//! Owns the rule which text goes where when `--json=-` claims stdout. Must not know what is printed. Write errors are
//! ignored on purpose: a reader that closed its pipe early must not change what a benchmark does.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// stdout and stderr of a run.
pub struct Console {
    out: Mutex<Box<dyn Write + Send>>,
    err: Mutex<Box<dyn Write + Send>>,
    /// stderr is a terminal that wants live progress.
    pub err_is_terminal: bool,
    json_on_stdout: AtomicBool,
    /// Lines of the live view that stand on the terminal.
    live: AtomicUsize,
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
            live: AtomicUsize::new(0),
        }
    }

    /// From now on stdout belongs to [`Console::json`], and [`Console::out`] goes to stderr.
    pub fn reserve_stdout_for_json(&self) {
        // Relaxed: set before the threads of a run start.
        self.json_on_stdout.store(true, Relaxed);
    }

    /// Text for stdout, flushed.
    pub fn out(&self, text: &str) {
        if self.json_on_stdout.load(Relaxed) {
            self.err(text);
        } else {
            self.clear_live();
            write(&self.out, text);
        }
    }

    /// Text for stderr.
    pub fn err(&self, text: &str) {
        self.clear_live();
        write(&self.err, text);
    }

    /// Draws `lines` over those drawn last, on a terminal. Any other text takes their place. A line that is wider than the
    /// terminal is cut off.
    pub fn live(&self, lines: &[String]) {
        let stood = self.live.swap(lines.len(), Relaxed);
        let up = if stood > 0 { format!("\x1b[{stood}A") } else { String::new() };
        let drawn: String = lines.iter().map(|line| format!("\r{line}\x1b[K\n")).collect();
        // Without wrapping a line stays one line, whatever the terminal's width.
        write(&self.err, &format!("{up}\x1b[?7l{drawn}\x1b[?7h"));
    }

    /// Takes the live view off the terminal.
    pub fn clear_live(&self) {
        let stood = self.live.swap(0, Relaxed);
        if stood > 0 {
            write(&self.err, &format!("\x1b[{stood}A\r\x1b[J"));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Live lines are drawn over, and taken off before other text; without any, text is text.
    #[test]
    fn live_lines_make_way() {
        let err = tempfile::NamedTempFile::new().unwrap();
        let console = Console::new(std::io::sink(), err.reopen().unwrap(), true);
        console.err("a\n");
        console.live(&["x".to_owned(), "y".to_owned()]);
        console.live(&["z".to_owned(), "y".to_owned()]);
        console.out("to stdout\n");
        console.err("b\n");
        let text = std::fs::read_to_string(err.path()).unwrap();
        let (off, on) = ("\x1b[?7l", "\x1b[?7h");
        let expected = format!(
            "a\n{off}\rx\x1b[K\n\ry\x1b[K\n{on}\x1b[2A{off}\rz\x1b[K\n\ry\x1b[K\n{on}\x1b[2A\r\x1b[Jb\n"
        );
        assert_eq!(text, expected);
    }
}
