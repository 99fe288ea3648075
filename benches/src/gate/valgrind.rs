//! Counting instructions with callgrind: running a program under it, and telling it when to count.
//!
//! Only what lies between [`start_counting`] and [`stop_counting`] is counted, each thread apart; setting up runs
//! without instrumentation. Valgrind presents the same processor everywhere (AVX2, no AVX-512), so which variant of a
//! copy or checksum is taken does not depend on the machine.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// Callgrind's client requests, numbered from `'C' << 24 | 'T' << 16`.
const START_INSTRUMENTATION: u64 = 0x4354_0004;
const STOP_INSTRUMENTATION: u64 = 0x4354_0005;

/// Begins counting, for all threads. Without valgrind it does nothing.
pub fn start_counting() {
    request(START_INSTRUMENTATION);
}

/// Ends counting, for all threads. Without valgrind it does nothing.
pub fn stop_counting() {
    request(STOP_INSTRUMENTATION);
}

/// Whether this machine's processor is one whose client requests we can make.
pub const fn is_supported() -> bool {
    cfg!(target_arch = "x86_64")
}

#[cfg(target_arch = "x86_64")]
fn request(code: u64) {
    let arguments: [u64; 6] = [code, 0, 0, 0, 0, 0];
    // SAFETY: the rotations sum to 128 bits and leave rdi as it was, the exchange of a register with itself does
    // nothing; valgrind alone gives the sequence a meaning: it reads `arguments`, which outlive it, and sets rdx.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inout("rdx") 0_u64 => _,
            out("rdi") _,
            options(nostack),
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn request(_code: u64) {}

/// What `valgrind --version` says.
///
/// # Errors
///
/// Says how to install it.
pub fn version() -> Result<String, String> {
    let output = Command::new("valgrind")
        .arg("--version")
        .output()
        .map_err(|error| format!("valgrind does not start ({error}): apt-get install valgrind"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs `program` with `arguments` under callgrind and returns the instructions of each thread, the main one first.
///
/// # Errors
///
/// Says what valgrind or the program printed, if either failed or nothing was counted.
pub fn count(program: &Path, arguments: &[&OsStr], scratch: &Path) -> Result<Vec<u64>, String> {
    let out = scratch.join("callgrind.out");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes", "--quiet"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("valgrind does not start ({error}): apt-get install valgrind"))?;
    if !output.status.success() {
        return Err(format!(
            "valgrind ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    let mut threads = Vec::new();
    for thread in 1.. {
        let path = scratch.join(format!("callgrind.out-{thread:02}"));
        let Ok(text) = std::fs::read_to_string(&path) else { break };
        threads.push(totals(&text));
    }
    match threads.first() {
        Some(0) | None => {
            Err(format!("valgrind counted nothing in the main thread of {}", program.display()))
        }
        Some(_) => Ok(threads),
    }
}

/// The sum of all totals in a file that callgrind wrote.
fn totals(text: &str) -> u64 {
    let total = |line: &str| line.strip_prefix("totals:")?.trim().parse::<u64>().ok();
    text.lines().filter_map(total).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_of_all_parts_are_added() {
        assert_eq!(totals("version: 1\nsummary: 9\n\ntotals: 12\npart: 2\ntotals: 30\n"), 42);
        assert_eq!(totals("version: 1\nevents: Ir\n"), 0);
    }

    #[test]
    fn requests_do_nothing_without_valgrind() {
        start_counting();
        stop_counting();
    }
}
