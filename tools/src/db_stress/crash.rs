//! `db_stress crash`: starts `db_stress run`, kills it, starts it again, and so on; each start verifies what the kill left.
//!
//! Owns the loop and what is drawn anew at each start. A flag of the command line is never drawn. One start in four is killed
//! while it recovers. Must not know what a run does.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rand_mt::Mt64;

use super::flags::Flags;
use super::watch::COUNTS;
use super::{Wrong, stage};
use crate::console::Console;

/// A run that says nothing of its verification for this long hangs.
const PATIENCE: Duration = Duration::from_secs(180);
const PASSED: &str = "Crash-recovery verification passed :)";
const STARTED: &str = "Starting database operations";

#[derive(Debug, Default)]
struct Totals {
    kills: u64,
    early_kills: u64,
    verified: u64,
    delays: u64,
    stops: u64,
}

/// Runs the loop for `--duration`.
///
/// # Errors
///
/// A run that failed, ended by itself, or hangs.
pub fn run(flags: &Flags, given: &[String], console: &Console) -> Result<(), Wrong> {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_micros() as u64);
    let seed = if flags.number("seed") == 0 { clock } else { flags.number("seed") };
    console.out(&format!("Running crash test with --seed={seed}\n"));
    let mut rng = Mt64::new(seed);
    let mut totals = Totals::default();
    if flags.is("destroy_db_initially") {
        stage::destroy(flags)?;
    }
    let end = Instant::now() + Duration::from_secs(flags.number("duration"));
    let mut first = true;
    while Instant::now() < end {
        let drawn = draw(flags, &mut rng, u64::MAX / 2);
        let early = !first && rng.next_u64().is_multiple_of(4);
        round(flags, given, console, &drawn, early, &mut rng, &mut totals).map_err(|wrong| {
            format!("{wrong}\nagain, on the same directory: db_stress run {}", drawn.join(" "))
        })?;
        first = false;
    }
    // What the last kill left is looked at, too.
    let drawn = draw(flags, &mut rng, 0);
    let mut child = start(given, &drawn)?;
    let lines = listen(&mut child);
    finish(child, &lines, console, &mut totals)?;
    count(flags, &mut totals);
    if totals.early_kills > 0 {
        console.out(&format!("Recoveries killed: {}\n", totals.early_kills));
    }
    console.out(&format!(
        "Crash test: {} kills, {} restarts verified, {} delays, {} stops\n",
        totals.kills, totals.verified, totals.delays, totals.stops
    ));
    Ok(())
}

/// The flags of one start, those of the command line left out.
fn draw(flags: &Flags, rng: &mut Mt64, ops: u64) -> Vec<String> {
    let mut below = |bound: u64| rng.next_u64() % bound;
    let quota = [1, 2, 4, 8][below(4) as usize] << 20;
    let rolled = [
        ("db_write_buffer_size", quota.to_string()),
        ("write_buffer_size", (65536u64 << below(5)).to_string()),
        ("allow_wbm_stalls", (below(8) != 0).to_string()),
        ("initiate_wbm_flushes", (below(2) == 0).to_string()),
        ("start_delay_percent", (1 + below(99)).to_string()),
        ("delayed_write_rate", ((1u64 << 20) << below(13)).to_string()),
        ("rate_limiter_bytes_per_sec", [0, 0, 4 << 20, 16 << 20][below(4) as usize].to_string()),
        ("max_background_flushes", (1 + below(3)).to_string()),
        ("max_background_compactions", (1 + below(3)).to_string()),
        ("clear_column_family_one_in", [0, 1000, 20000][below(3) as usize].to_string()),
        ("flush_one_in", [200, 2000, 20000][below(3) as usize].to_string()),
        ("multi_cf_percent", [0, 5, 50][below(3) as usize].to_string()),
    ];
    let mut words: Vec<String> = rolled
        .into_iter()
        .filter(|(name, _)| !flags.is_given(name))
        .map(|(name, value)| format!("--{name}={value}"))
        .collect();
    words.push(format!("--seed={}", 1 + below(1 << 40)));
    words.push("--destroy_db_initially=false".to_owned());
    words.push("--reopen=0".to_owned());
    words.push(format!("--ops_per_thread={ops}"));
    words
}

fn start(given: &[String], drawn: &[String]) -> Result<Child, Wrong> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut command = Command::new(program);
    // The last one wins: what was drawn stands last, and names nothing that was given but for the flags of the loop.
    command
        .arg("run")
        .args(given)
        .args(drawn)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().map_err(|error| format!("cannot start db_stress run: {error}"))
}

/// A line of the child, and whether it is from stderr.
type Line = (bool, String);

/// Lines of the child as they come; ends when both streams have.
fn listen(child: &mut Child) -> Receiver<Line> {
    let (sender, receiver) = channel();
    let streams: [(bool, Option<Box<dyn Read + Send>>); 2] = [
        (false, child.stdout.take().map(|stream| Box::new(stream) as _)),
        (true, child.stderr.take().map(|stream| Box::new(stream) as _)),
    ];
    for (is_err, stream) in streams {
        let (Some(stream), sender) = (stream, sender.clone()) else { continue };
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                if sender.send((is_err, line)).is_err() {
                    return;
                }
            }
        });
    }
    receiver
}

/// One start and its kill.
fn round(
    flags: &Flags,
    given: &[String],
    console: &Console,
    drawn: &[String],
    early: bool,
    rng: &mut Mt64,
    totals: &mut Totals,
) -> Result<(), Wrong> {
    let mut child = start(given, drawn)?;
    let lines = listen(&mut child);
    if early {
        let deadline = Instant::now() + Duration::from_micros(rng.next_u64() % 400_000);
        let ended = follow(&lines, console, totals, deadline, &|_| false);
        kill(&mut child, ended == Followed::Ended)?;
        totals.early_kills += 1;
        return Ok(());
    }
    match follow(&lines, console, totals, Instant::now() + PATIENCE, &|line| line == STARTED) {
        Followed::Found => {}
        Followed::Ended => return Err(ended(&mut child)),
        Followed::Late => {
            kill(&mut child, false)?;
            return Err(format!("a run did not start its operations within {PATIENCE:?}"));
        }
    }
    let most = flags.number("interval") * 1_000_000;
    let deadline = Instant::now() + Duration::from_micros(most / 4 + rng.next_u64() % (most * 3 / 4).max(1));
    let followed = follow(&lines, console, totals, deadline, &|_| false);
    if followed == Followed::Ended {
        return Err(ended(&mut child));
    }
    kill(&mut child, false)?;
    totals.kills += 1;
    // The rest that it wrote before it died.
    follow(&lines, console, totals, Instant::now() + PATIENCE, &|_| false);
    count(flags, totals);
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum Followed {
    Found,
    Ended,
    Late,
}

/// Passes lines on until one is `wanted`, the child has closed its streams, or it is `deadline`.
fn follow(
    lines: &Receiver<Line>,
    console: &Console,
    totals: &mut Totals,
    deadline: Instant,
    wanted: &dyn Fn(&str) -> bool,
) -> Followed {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match lines.recv_timeout(left) {
            Ok((true, line)) => console.err(&format!("{line}\n")),
            Ok((false, line)) => {
                if line.starts_with("Crash-recovery") {
                    console.out(&format!("{line}\n"));
                }
                totals.verified += u64::from(line == PASSED);
                if wanted(&line) {
                    return Followed::Found;
                }
            }
            Err(RecvTimeoutError::Disconnected) => return Followed::Ended,
            Err(RecvTimeoutError::Timeout) => return Followed::Late,
        }
    }
}

/// SIGKILL, and the end of the process. One that had ended with a failure is one.
fn kill(child: &mut Child, had_ended: bool) -> Result<(), Wrong> {
    if had_ended {
        return Err(ended(child));
    }
    child.kill().and_then(|()| child.wait()).map_err(|error| format!("cannot kill a run: {error}"))?;
    Ok(())
}

fn ended(child: &mut Child) -> Wrong {
    let status = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
    format!("a run ended before it was killed ({status}): verification failed")
}

/// The last run, which is not killed.
fn finish(
    mut child: Child,
    lines: &Receiver<Line>,
    console: &Console,
    totals: &mut Totals,
) -> Result<(), Wrong> {
    if follow(lines, console, totals, Instant::now() + PATIENCE, &|_| false) == Followed::Late {
        kill(&mut child, false)?;
        return Err(format!("the last run did not end within {PATIENCE:?}"));
    }
    let status = child.wait().map_err(|error| format!("cannot wait for the last run: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("the last run failed ({status})")) }
}

/// Adds what the last run noted of its delays and stops.
fn count(flags: &Flags, totals: &mut Totals) {
    let path = Path::new(flags.text("expected_values_dir")).join(COUNTS);
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let mut numbers = text.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
    totals.delays += numbers.next().unwrap_or(0);
    totals.stops += numbers.next().unwrap_or(0);
    // Counted once; a run that dies before it has noted anything has nothing to count.
    let _ = std::fs::remove_file(path);
}
