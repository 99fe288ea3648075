//! The CSV report: one row per interval, in the two-column form that everybody's scripts read.
//!
//! Owns the bytes of `--report_file` (never change them) and of `--report_append`, which adds a column with the
//! benchmark's name. Must not know where the numbers come from.

use std::fs::{File, OpenOptions};
use std::io::Write;

/// The header of `--report_file`.
pub const HEADER: &str = "secs_elapsed,interval_qps\n";
/// The header of `--report_append`.
pub const APPEND_HEADER: &str = "benchmark,secs_elapsed,interval_qps\n";

/// The open report files of one benchmark. A file that failed is closed and stays so.
#[derive(Debug)]
pub struct Reports {
    rows: Option<File>,
    appended: Option<File>,
}

impl Reports {
    /// Empties and opens the report file, and opens the appended one if its path is not empty.
    ///
    /// # Errors
    ///
    /// The message for the user.
    pub fn create(path: &str, append_path: &str) -> Result<Self, String> {
        let cannot = |path: &str, error: std::io::Error| format!("Can't open {path}: {error}");
        let mut rows = File::create(path).map_err(|error| cannot(path, error))?;
        rows.write_all(HEADER.as_bytes()).map_err(|error| cannot(path, error))?;
        let appended = if append_path.is_empty() { None } else { Some(append_to(append_path)) };
        let appended = appended.transpose().map_err(|error| cannot(append_path, error))?;
        Ok(Self { rows: Some(rows), appended })
    }

    /// Adds a row to each file; the error is a line for stderr, and ends that file's reporting.
    pub fn row(&mut self, benchmark: &str, seconds: u64, ops: u64) -> Result<(), String> {
        let row = format!("{seconds},{ops}\n");
        let first = add(&mut self.rows, &row);
        first.and(add(&mut self.appended, &format!("{benchmark},{row}")))
    }
}

fn append_to(path: &str) -> std::io::Result<File> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    if file.metadata()?.len() == 0 {
        file.write_all(APPEND_HEADER.as_bytes())?;
    }
    Ok(file)
}

fn add(file: &mut Option<File>, row: &str) -> Result<(), String> {
    let Some(open) = file else { return Ok(()) };
    open.write_all(row.as_bytes()).map_err(|error| {
        *file = None;
        format!("Can't write to report file ({error}), stopping the reporting\n")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `db-bench DB4`: the bytes of both files; the first is emptied each time, the second never.
    #[test]
    fn files_have_the_documented_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        for (benchmark, ops) in [("fillrandom", 251_043), ("overwrite", 0)] {
            let mut reports = Reports::create(&path("r.csv"), &path("a.csv")).unwrap();
            reports.row(benchmark, 1, ops).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path("r.csv")).unwrap(), "secs_elapsed,interval_qps\n1,0\n");
        assert_eq!(
            std::fs::read_to_string(path("a.csv")).unwrap(),
            "benchmark,secs_elapsed,interval_qps\nfillrandom,1,251043\noverwrite,1,0\n"
        );
        let error = Reports::create(&path("no/such/dir.csv"), "").unwrap_err();
        assert!(error.starts_with("Can't open "), "{error}");
    }
}
