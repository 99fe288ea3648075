//! `sluice pressure`: what the manager and the controller would do at a usage.
//!
//! The engine's own functions called on numbers: no database, no clock, and not one formula of the law here. Where a
//! step begins is found by asking [`Quota::pressure_at`].

use std::fmt::Write;

use sluicedb::{DelayStep, Pressure, Quota, derived_rate};

/// Prints the pressure and the write rate that memory usage means, as CSV.
///
/// Without --usage, a row for each delay step, at its lowest usage.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The quota that all memtables share, in bytes; 0 = off
    #[arg(long, value_name = "BYTES")]
    quota_bytes: u64,
    /// Where the delay starts, in percent of the quota
    #[arg(long, value_name = "PERCENT", default_value_t = 70, value_parser = clap::value_parser!(u32).range(1..=99))]
    delay_start_percent: u32,
    /// The rate of which the steps leave less and less, in bytes per second
    #[arg(long, value_name = "BYTES/S", default_value_t = 16 << 20, value_parser = clap::value_parser!(u64).range(1..))]
    max_delayed_rate: u64,
    /// Usages to print a row for, in bytes
    #[arg(long, value_name = "BYTES", value_delimiter = ',', conflicts_with = "table")]
    usage: Vec<u64>,
    /// Print a row for each delay step that some usage has, at its lowest usage
    #[arg(long)]
    table: bool,
}

/// What the command prints on stdout.
///
/// # Errors
///
/// A message for stderr, for a quota that the engine refuses.
pub fn text(args: &Args) -> Result<String, String> {
    let quota = Quota::new(args.quota_bytes, args.delay_start_percent)
        .map_err(|refused| format!("error: {refused}\n"))?;
    let mut text = "usage,state,step,rate\n".to_owned();
    let mut row = |usage: u64| {
        let pressure = quota.pressure_at(usage);
        let _ = write!(text, "{usage},{},", pressure.state());
        let _ = match pressure {
            Pressure::Delayed(step) => {
                writeln!(text, "{},{}", step.get(), derived_rate(step.into(), args.max_delayed_rate))
            }
            Pressure::Normal | Pressure::Stopped => writeln!(text, ","),
        };
    };
    if args.usage.is_empty() {
        first_usages(quota).for_each(&mut row);
    } else {
        args.usage.iter().copied().for_each(&mut row);
    }
    Ok(text)
}

/// The lowest usage of each step that some usage has, in order.
fn first_usages(quota: Quota) -> impl Iterator<Item = u64> {
    (1..=DelayStep::MAX.get()).filter_map(move |step| {
        let usage = first_usage_at_or_above(quota, step);
        matches!(quota.pressure_at(usage), Pressure::Delayed(found) if found.get() == step).then_some(usage)
    })
}

/// The lowest usage whose pressure is step `step` or stronger, or the quota: pressure never falls as usage rises, so
/// halving the span finds it.
fn first_usage_at_or_above(quota: Quota, step: u8) -> u64 {
    let (mut low, mut high) = (0, quota.bytes());
    while low < high {
        let middle = low + (high - low) / 2;
        if quota.pressure_at(middle).code() < step { low = middle + 1 } else { high = middle }
    }
    low
}
