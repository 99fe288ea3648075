//! `db_stress`: all operations at once against a database, with an oracle that outlives the process.
//!
//! `run` works on a database until its threads have done their share; `crash` starts `run` again and again and kills it. What
//! the database must hold is kept in a file ([`expected`]) whose cells are marked before a call and settled after it, so a
//! killed run leaves at most the choice between two states a key. Must not know engine-private modules.
//!
//! | concept | module |
//! |---|---|
//! | flags | [`flags`] |
//! | what each key must hold | [`expected`], [`values`] |
//! | opening, closing, families | [`stage`] |
//! | the mix of operations | [`worker`], [`looks`], [`changes`] |
//! | every key after a restart | [`verify`] |
//! | liveness, quiet points | [`watch`] |
//! | kill and restart | [`crash`] |

pub mod changes;
pub mod crash;
pub mod expected;
pub mod flags;
pub mod looks;
pub mod stage;
#[cfg(test)]
mod tests;
pub mod values;
pub mod verify;
pub mod watch;
pub mod worker;

use std::io::Write;
use std::time::Instant;

use crate::console::Console;
use expected::Expected;
use flags::Flags;
use stage::Stage;

/// What went wrong, for stderr.
pub type Wrong = String;

/// Runs db_stress with `args` (without the program's name) and returns its exit code: 0, or 1 for any failure.
pub fn run(args: &[String], out: impl Write + Send + 'static, err: impl Write + Send + 'static) -> u8 {
    let console = Console::new(out, err, false);
    let (word, rest) = match args.split_first() {
        Some((word, rest)) if word == "run" || word == "crash" => (word.as_str(), rest),
        _ => {
            console.err(&flags::usage());
            return 1;
        }
    };
    let flags = match Flags::parse(rest) {
        Ok(flags) => flags,
        Err(message) => {
            console.err(&message);
            return 1;
        }
    };
    let outcome = if word == "run" { stress(&flags, &console) } else { crash::run(&flags, rest, &console) };
    match outcome {
        Ok(()) => 0,
        Err(wrong) => {
            console.err(&format!("{wrong}\n"));
            if word == "run" {
                console.err(&format!("again: db_stress run {}\n", flags.line()));
            }
            1
        }
    }
}

/// Opens, verifies what an earlier run left, lets the threads work, closes; as often as `--reopen` says.
fn stress(flags: &Flags, console: &Console) -> Result<(), Wrong> {
    let fresh = flags.is("destroy_db_initially") || !stage::exists(flags);
    if fresh {
        stage::destroy(flags)?;
    }
    let expected = Expected::open(flags, fresh)?;
    let rounds = flags.number("reopen") + 1;
    for round in 0..rounds {
        let stage = Stage::open(flags, console, &expected, round)?;
        if !(fresh && round == 0) {
            verify::recovered(&stage)
                .inspect_err(|_| console.out("Crash-recovery verification failed :(\n"))?;
            console.out("Crash-recovery verification passed :)\n");
        }
        expected.settle()?;
        console.out("Starting database operations\n");
        let begin = Instant::now();
        worker::work(&stage, flags.number("ops_per_thread") / rounds)?;
        let seconds = begin.elapsed().as_secs_f64();
        console.out("Starting verification\n");
        verify::at_rest(&stage)?;
        console.out(&stage.counters.report(seconds));
        stage.close()?;
    }
    console.out("Verification successful\n");
    Ok(())
}
