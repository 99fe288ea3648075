//! sluice: from a command line to an exit code.
//!
//! Owns what all commands share: options stand before or after the command, underscores are taken for dashes, and the
//! exit code is 0 for success and 2 for a command line that cannot be followed, with nothing on stdout then. What a
//! command prints is its own module's: [`pressure`].

pub mod pressure;

use std::io::Write;

use clap::{Parser, Subcommand};

/// Done.
pub const EXIT_DONE: u8 = 0;
/// The command line cannot be followed.
pub const EXIT_USAGE: u8 = 2;

/// Looks at SluiceDB databases, and at the law by which they slow their writers.
#[derive(Debug, Parser)]
#[command(name = "sluice", version)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Pressure(pressure::Args),
}

/// Names of the commands.
const COMMANDS: [&str; 1] = ["pressure"];

/// Runs sluice with `args` (without the program's name) and returns its exit code.
///
/// A stream that cannot be written is ignored: a reader may close its pipe when it has seen enough.
pub fn run(args: &[String], out: &mut impl Write, err: &mut impl Write) -> u8 {
    let printed = match Line::try_parse_from(in_order(args)) {
        Ok(line) => match line.command {
            Command::Pressure(args) => pressure::text(&args),
        },
        Err(refused) if refused.use_stderr() => Err(refused.to_string()),
        Err(help) => Ok(help.to_string()),
    };
    match printed {
        Ok(text) => {
            let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            EXIT_DONE
        }
        Err(text) => {
            let _ = err.write_all(text.as_bytes());
            EXIT_USAGE
        }
    }
}

/// The arguments as clap wants them: the program, the command, then its options, spelled with dashes.
fn in_order(args: &[String]) -> Vec<String> {
    let mut ordered: Vec<String> = args.iter().map(|arg| with_dashes(arg)).collect();
    if let Some(at) = ordered.iter().position(|arg| COMMANDS.contains(&arg.as_str())) {
        ordered[..=at].rotate_right(1);
    }
    ordered.insert(0, "sluice".to_owned());
    ordered
}

/// `--some_option=a_b` as `--some-option=a_b`; anything else as it is.
fn with_dashes(arg: &str) -> String {
    if !arg.starts_with("--") {
        return arg.to_owned();
    }
    let end = arg.find('=').unwrap_or(arg.len());
    arg[..end].replace('_', "-") + &arg[end..]
}

#[cfg(test)]
mod tests;
